package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/recorder/runs"
)

// runOptions are those of `kubecase run`.
type runOptions struct {
	serving   servingOptions
	agent     string
	out       string
	resume    string
	parallel  int
	repeat    int
	timeLimit time.Duration
	stepLimit int
	env       []string
	workdir   string
	answer    string
	wrapper   bool
	show      bool
}

func (a *app) newRun() *cobra.Command {
	c := &cobra.Command{
		Use:   "run CASE... -- COMMAND...",
		Short: "Run an agent on cases, record what it does, and score it",
		Long: `Run an agent on cases, one episode per case, record what it does, and score it.

COMMAND is started once per episode, in a folder of its own. It finds the query on
its standard input, in the file $KUBECASE_QUERY_FILE and in $KUBECASE_QUERY, and
the cluster through $KUBECONFIG. Of the caller's environment it gets PATH, locale,
TZ and TERM; --env passes more. Its answer is, in this order, what it hands in with
'kubecase submit', what it writes to $KUBECASE_ANSWER_FILE (or the file of
--answer-file), or the last JSON object on its standard output:

  {"component": "deployment/checkout", "fault": "OOMKilled"}

The agent runs as the same user as kubecase and can read what that user can: see
'kubecase sandbox --help' for how to keep it apart.

The run's folder is the operator's: 'kubecase score' scores it again at any time,
without running anything. The exit code is 0 when every episode ran, however
well; 4 when some could not run for reasons that are not the agent's.`,
		Example: `  kubecase run shop-outage -- ./my-agent
  kubecase run shop-outage shop-nodes --repeat 5 --parallel 2 --time-limit 10m --env OPENAI_API_KEY -- python3 agent.py
  kubecase run --resume runs/2026-12-01T10-00-00-my-agent`,
		ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.runOptions()
			if err != nil {
				return err
			}
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			dash := cmd.ArgsLenAtDash()
			var names, command []string
			if dash >= 0 {
				names, command = args[:dash], args[dash:]
			} else {
				names = args
			}
			folder, err := a.openRun(&o, names, command)
			if err != nil {
				return err
			}
			return a.runAndReport(cmd.Context(), folder, o, format)
		},
	}
	addServingFlags(c, 0)
	_ = c.Flags().MarkHidden("kubeconfigs")
	f := c.Flags()
	f.String("agent", "", "the agent's name in figures; default: the command's")
	f.String("out", "", "folder for the run; default: runs/TIME-AGENT")
	f.String("resume", "", "go on with the run in this folder: finished episodes aren't run again")
	f.Int("parallel", 1, "episodes at a time")
	f.Int("repeat", 1, "episodes per case")
	f.Duration("time-limit", 30*time.Minute, "end an episode after this long; 0: never")
	f.Int("step-limit", 0, "end an episode after this many tool calls; 0: never")
	f.StringSlice("env", nil, "pass a variable on, as NAME or NAME=VALUE; repeat or separate by commas")
	f.String("workdir", "", "start the agent in this folder; default: an empty one of its own")
	f.String("answer-file", "", "read the answer from this file, relative to the agent's folder")
	f.Bool("wrap-kubectl", true, "put a kubectl first in PATH that notes arguments, exit codes and what was printed")
	f.Bool("show", false, "show what the agent prints")
	addOutputFlag(c, false)
	return c
}

func (a *app) runOptions() (runOptions, error) {
	serving, err := a.servingOptions()
	o := runOptions{
		serving: serving, agent: a.config.GetString("agent"), out: a.config.GetString("out"), resume: a.config.GetString("resume"),
		parallel: a.config.GetInt("parallel"), repeat: a.config.GetInt("repeat"),
		timeLimit: a.config.GetDuration("time-limit"), stepLimit: a.config.GetInt("step-limit"), env: a.config.GetStringSlice("env"),
		workdir: a.config.GetString("workdir"), answer: a.config.GetString("answer-file"),
		wrapper: a.config.GetBool("wrap-kubectl"), show: a.config.GetBool("show"),
	}
	errs := []error{err}
	if o.parallel < 1 || o.parallel > 1000 {
		errs = append(errs, fmt.Errorf("--parallel %d is no number of episodes: use 1 to 1000", o.parallel))
	}
	if o.repeat < 1 || o.repeat > 100000 {
		errs = append(errs, fmt.Errorf("--repeat %d is no number of episodes: use 1 to 100000", o.repeat))
	}
	if o.timeLimit < 0 {
		errs = append(errs, fmt.Errorf("--time-limit %v is negative: use 0 for none", o.timeLimit))
	}
	if o.stepLimit < 0 {
		errs = append(errs, fmt.Errorf("--step-limit %d is negative: use 0 for none", o.stepLimit))
	}
	for i, v := range o.env {
		name, _, given := strings.Cut(v, "=")
		if value, ok := a.lookup(name); !given && ok {
			o.env[i] = name + "=" + value
		} else if !given {
			errs = append(errs, fmt.Errorf("--env %s: there is no such variable: set it, or write --env %s=VALUE", name, name))
		}
		if strings.HasPrefix(name, "KUBECASE_") || name == "KUBECONFIG" {
			errs = append(errs, fmt.Errorf("--env %s: kubecase sets it itself", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// openRun makes the folder of a new run, or opens the one that is resumed.
func (a *app) openRun(o *runOptions, names, command []string) (*runs.Folder, error) {
	if o.resume != "" {
		if len(names) > 0 || len(command) > 0 {
			return nil, usagef("--resume goes on with the cases and the command of the run: name neither")
		}
		folder, err := runs.Open(o.resume)
		if err != nil {
			return nil, err
		}
		r := folder.Run()
		o.agent, o.repeat, o.stepLimit, o.serving.clock = r.Agent, r.Repeat, r.StepLimit, r.Clock
		o.timeLimit = time.Duration(r.TimeLimit * float64(time.Second))
		return folder, nil
	}
	if len(names) == 0 || len(command) == 0 {
		return nil, usagef("cases are expected, then -- and the agent's command; see 'kubecase run --help'")
	}
	if o.agent == "" {
		o.agent = filepath.Base(command[0])
	}
	run := runs.Run{
		Created: time.Now().UTC().Truncate(time.Second), Agent: o.agent, Command: command, Repeat: o.repeat, Clock: o.serving.clock,
		TimeLimit: o.timeLimit.Seconds(), StepLimit: o.stepLimit,
	}
	truths := map[string][]byte{}
	for _, name := range names {
		source := name
		if !slices.Contains(cases.Names(), name) {
			absolute, err := filepath.Abs(name)
			if err != nil {
				return nil, err
			}
			source = absolute
		}
		c, err := openCase(source)
		if err != nil {
			return nil, err
		}
		m := c.Manifest()
		truth, err := readTruth(c)
		if err = errors.Join(err, c.Close()); err != nil {
			return nil, caseError{err}
		}
		if slices.ContainsFunc(run.Cases, func(c runs.Case) bool { return c.Name == m.Name }) {
			return nil, usagef("two cases are called %s: run them apart", m.Name)
		}
		if _, err := evaluator.ParseTruth(truthName(m.Name), truth); truth != nil && err != nil {
			return nil, caseError{err}
		}
		run.Cases = append(run.Cases, runs.Case{Name: m.Name, Source: source})
		truths[m.Name] = truth
	}
	if o.out == "" {
		o.out = filepath.Join("runs", run.Created.Format("2006-01-02T15-04-05")+"-"+fileName(o.agent))
	}
	folder, err := runs.Create(o.out, run)
	if err != nil {
		return nil, err
	}
	for name, truth := range truths {
		if truth != nil {
			if err := folder.WriteTruth(name, truth); err != nil {
				return nil, err
			}
		}
	}
	return folder, nil
}

// fileName is a name that can be a file's.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.TrimLeft(name, ".-"))
}

func truthName(name string) string { return name + "/truth.yaml" }

// readTruth returns a case's truth; nil when it has none.
func readTruth(c *fixtures.Case) ([]byte, error) {
	r, err := fixtures.OpenTruth(c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxTruth+1))
	if err == nil && len(data) > maxTruth {
		err = fmt.Errorf("%s: is larger than %d bytes", truthName(c.Manifest().Name), maxTruth)
	}
	return data, err
}

// maxTruth bounds a truth file, in bytes.
const maxTruth = 4 << 20

// runAndReport runs what is not finished and prints the scores of all.
func (a *app) runAndReport(ctx context.Context, folder *runs.Folder, o runOptions, format string) (err error) {
	release, err := holdRun(folder.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	done, err := folder.Episodes()
	if err != nil {
		return err
	}
	finished := map[string]bool{}
	for _, e := range done {
		if e.Finished() {
			finished[e.Case+"/"+strconv.Itoa(e.Attempt)] = true
		}
	}
	s, err := a.startRunServer(o)
	if err != nil {
		return err
	}
	r := &runner{app: a, folder: folder, options: o, server: s, progress: newProgress(a.err)}
	if r.bodies, err = folder.Bodies(); err != nil {
		return errors.Join(err, s.stop())
	}
	fmt.Fprintf(a.err, "run: %s\n", folder.Dir())
	var todo []planned
	for attempt := 1; attempt <= max(1, o.repeat); attempt++ {
		for _, c := range folder.Run().Cases {
			if !finished[c.Name+"/"+strconv.Itoa(attempt)] {
				todo = append(todo, planned{c, attempt})
			}
		}
	}
	if len(finished) > 0 {
		fmt.Fprintf(a.err, "%d of %d episodes are finished already\n", len(finished), len(finished)+len(todo))
	}
	if len(todo) > 0 { // a copy of the whole program, for nobody else
		if r.program, err = a.newAgentProgram(); err != nil {
			return errors.Join(err, s.stop())
		}
		s.cleanup = append(s.cleanup, r.program.remove)
	}
	r.progress.total = len(todo)
	r.cases.plan(todo)
	var group errgroup.Group
	group.SetLimit(o.parallel)
	for _, p := range todo {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return r.episode(ctx, p)
		})
	}
	err = errors.Join(group.Wait(), s.stop())
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(a.err, "interrupted; go on with: kubecase run --resume %s\n", folder.Dir())
		}
		return err
	}
	scored, err := scoreRuns(ctx, []*runs.Folder{folder}, false)
	if err != nil {
		return err
	}
	if err := a.printScores(scored, format); err != nil {
		return err
	}
	if r.broken() > 0 {
		return exitError{exitInfrastructure}
	}
	return nil
}

// planned is an episode that is to be run.
type planned struct {
	of      runs.Case
	attempt int
}

// openCases keeps cases open for as long as episodes of them are to come.
type openCases struct {
	mu    sync.Mutex
	users map[string]int
	open  map[string]*fixtures.Case
}

func (o *openCases) plan(todo []planned) {
	o.users, o.open = map[string]int{}, map[string]*fixtures.Case{}
	for _, p := range todo {
		o.users[p.of.Source]++
	}
}

func (o *openCases) get(source string) (*fixtures.Case, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.open[source]; c != nil {
		return c, nil
	}
	c, err := openCase(source)
	if err == nil {
		o.open[source] = c
	}
	return c, err
}

// release closes a case after its last episode.
func (o *openCases) release(source string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users[source]--; o.users[source] > 0 || o.open[source] == nil {
		return nil
	}
	c := o.open[source]
	delete(o.open, source)
	return c.Close()
}

// progress tells of each episode as it ends: one line.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	ended int
	total int
}

func newProgress(out io.Writer) *progress { return &progress{out: out} }

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	fmt.Fprintf(p.out, "[%d/%d] %s\n", p.ended, p.total, fmt.Sprintf(format, args...))
}

// startRunServer starts a server that has no episodes yet.
func (a *app) startRunServer(o runOptions) (*serving, error) {
	s := &serving{done: make(chan struct{}), failed: make(chan error, 1)}
	s.services = newServices(o.serving.synthetic)
	s.api = s.services.newAPI(s.done)
	if err := s.listen(o.serving, s.api); err != nil {
		return nil, err
	}
	return s, nil
}

// clockMode is the episodes' clock.
func (o runOptions) clockMode() clock.Mode { return clock.Mode(o.serving.clock) }

// tempFolder makes an agent's folder, which nobody else can read.
func (a *app) tempFolder() (string, error) { return os.MkdirTemp(a.tempDir, "agent-") }
