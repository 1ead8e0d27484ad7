package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/capture"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fidelity"
	"github.com/kubecase/kubecase/kubeconfigs"
)

func (a *app) newFidelity() *cobra.Command {
	c := &cobra.Command{
		Use:   "fidelity CASE",
		Short: "Measure how exactly kubectl prints from a case what it printed from the cluster",
		Long: `Run every command of kubectl that a case keeps in transcripts/ against the case, each
at the instant at which it ran, and compare what is printed with what was captured.

EXACT are commands that print the same bytes; ~0, ~3, ~30 and ~90 those that differ in
nothing but ages, by at most so many seconds. DRIFT are commands that show another state
of an object than the one that the case serves, because it changed during the sweep.

kubectl should be of the version that the case was captured with: it says so when it
isn't. The exit code tells whether the comparison could be made, not how it came out.`,
		Example: `  kubecase fidelity ./cases/cob-0123456789 --kubectl ./kubectl-1.31
  kubecase fidelity ./cases/cob-0123456789 --diff
  kubecase fidelity ./cases/cob-0123456789 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			report, err := a.measureFidelity(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if format != "" {
				return printDocument(a.out, format, report)
			}
			if err := report.Print(a.out); err != nil {
				return err
			}
			if a.config.GetBool("diff") {
				return a.printDifferences(report)
			}
			return nil
		},
	}
	f := c.Flags()
	f.String("kubectl", "kubectl", "the kubectl to run: a path, or a name in PATH")
	f.Int("jobs", 0, "how many commands run at once; 0: as many as there are processors")
	f.Bool("diff", false, "print the differences of the commands that aren't equal but for ages")
	addOutputFlag(c, false)
	return c
}

// fidelityRun serves one case to kubectl, at many instants.
type fidelityRun struct {
	serving *serving
	fixture *fixtures.Case
	kubectl string
	dir     string
	zone    string
	workers []*fidelityWorker
}

// fidelityWorker is one of the clients that ask at the same time. Its URL stays the
// same, so that kubectl's cache of discovery is of use.
type fidelityWorker struct {
	prefix, token, kubeconfig string
	mu                        sync.Mutex
	episode                   *apiserver.Episode
}

func (a *app) measureFidelity(ctx context.Context, name string) (report *fidelity.Report, err error) {
	fixture, err := openCase(name)
	if err != nil {
		return nil, err
	}
	defer fixture.Close()
	transcript, err := fidelity.ReadTranscript(fixture)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, caseError{fmt.Errorf("%s keeps no commands of kubectl in %s: nothing can be compared", name, fidelity.TranscriptDocument)}
	}
	if err != nil {
		return nil, caseError{err}
	}
	kubectl, err := exec.LookPath(a.config.GetString("kubectl"))
	if err != nil {
		return nil, usagef("--kubectl: %w", err)
	}
	if kubectl, err = filepath.Abs(kubectl); err != nil {
		return nil, err
	}
	version := clientVersion(ctx, kubectl)
	if transcript.Kubectl != "" && !strings.HasPrefix(version, "v"+transcript.Kubectl+".") {
		fmt.Fprintf(a.err, "kubecase: %s is %s, but the case was captured with %s: some differences may be the client's; name another with --kubectl\n", kubectl, version, transcript.Kubectl)
	}
	jobs := a.config.GetInt("jobs")
	if jobs <= 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	run := &fidelityRun{fixture: fixture, kubectl: kubectl, zone: transcript.Timezone}
	defer func() { err = errors.Join(err, run.close()) }()
	if err := run.start(a.tempDir, jobs); err != nil {
		return nil, err
	}
	line := newProgressLine(a.err)
	line.doing = "comparing"
	outcomes, err := fidelity.Measure(ctx, transcript, jobs, run.run, func(done, total int) {
		line.show(capture.Progress{Phase: "commands", Done: done, Total: total})
	})
	line.end()
	if err != nil {
		return nil, err
	}
	report = fidelity.NewReport(outcomes)
	report.Case, report.Kubectl = fixture.Manifest().Name, version
	return report, nil
}

// clientVersion is what a kubectl says it is; empty when it doesn't.
func clientVersion(ctx context.Context, kubectl string) string {
	command := exec.CommandContext(ctx, kubectl, "version", "--client", "-o", "json")
	command.Env = []string{"KUBECONFIG=" + os.DevNull}
	out, err := command.Output()
	if err != nil {
		return ""
	}
	var v struct {
		ClientVersion struct {
			GitVersion string `json:"gitVersion"`
		} `json:"clientVersion"`
	}
	_ = json.Unmarshal(out, &v) // what isn't JSON tells no version
	return v.ClientVersion.GitVersion
}

// start serves the case and writes a kubeconfig for each worker.
func (r *fidelityRun) start(tempDir string, jobs int) (err error) {
	if r.dir, err = os.MkdirTemp(tempDir, "fidelity-"); err != nil {
		return err
	}
	r.serving = &serving{done: make(chan struct{}), failed: make(chan error, 1)}
	r.serving.api = newAPI(r.serving.done)
	// One episode lasts, so that what is made of the case is made once.
	if _, err := r.serving.api.AddEpisode(apiserver.EpisodeOptions{Case: r.fixture, Clock: clock.Captured}); err != nil {
		return caseError{err}
	}
	for i := range jobs {
		r.workers = append(r.workers, &fidelityWorker{prefix: "/w/" + strconv.Itoa(i), token: rand.Text()})
	}
	if err := r.serving.listen(servingOptions{address: "127.0.0.1"}, r); err != nil {
		return err
	}
	for i, w := range r.workers {
		w.kubeconfig = filepath.Join(r.dir, strconv.Itoa(i), "kubeconfig")
		if err := os.Mkdir(filepath.Dir(w.kubeconfig), 0o700); err != nil {
			return err
		}
		access := kubeconfigs.Access{Server: r.serving.url + w.prefix, Token: w.token, CA: r.serving.ca}
		if err := kubeconfigs.Write(w.kubeconfig, access); err != nil {
			return err
		}
	}
	return nil
}

func (r *fidelityRun) close() error {
	var errs []error
	if r.serving != nil && r.serving.http != nil {
		errs = append(errs, r.serving.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// ServeHTTP hands a worker's requests to the episode that it is in.
func (r *fidelityRun) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	for _, worker := range r.workers {
		rest, found := strings.CutPrefix(req.URL.Path, worker.prefix+"/")
		token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		if !found || subtle.ConstantTimeCompare([]byte(token), []byte(worker.token)) != 1 {
			continue
		}
		worker.mu.Lock()
		episode := worker.episode
		worker.mu.Unlock()
		if episode == nil {
			break
		}
		req.URL.Path, req.URL.RawPath = episode.Path()+"/"+rest, ""
		req.RequestURI = episode.Path() + strings.TrimPrefix(req.RequestURI, worker.prefix)
		req.Header.Set("Authorization", "Bearer "+episode.Token)
		r.serving.api.ServeHTTP(w, req)
		return
	}
	http.NotFound(w, req)
}

// run runs kubectl as a worker, at the instant of the command.
func (r *fidelityRun) run(ctx context.Context, worker int, c *fidelity.Command) (stdout, stderr string, err error) {
	w := r.workers[worker]
	episode, err := r.serving.api.AddEpisode(apiserver.EpisodeOptions{Case: r.fixture, Clock: clock.Captured, Present: c.Time})
	if err != nil {
		return "", "", err
	}
	defer r.serving.api.RemoveEpisode(episode)
	w.mu.Lock()
	w.episode = episode
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, r.kubectl, c.Args...)
	home := filepath.Dir(w.kubeconfig)
	command.Env = []string{"KUBECONFIG=" + w.kubeconfig, "HOME=" + home, "TZ=" + r.zone, "PATH=" + os.Getenv("PATH")}
	command.Dir = home
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil // what it printed says what went wrong
	}
	return out.String(), errs.String(), err
}

// printDifferences prints what the commands that aren't equal printed, line by line.
func (a *app) printDifferences(report *fidelity.Report) error {
	for _, o := range report.Different {
		drift := ""
		if o.IsDrift {
			drift = " (drift)"
		}
		if _, err := fmt.Fprintf(a.out, "\n%s%s\n%s", o.Line, drift, fidelity.Diff(o.Command, o.Stdout, o.Stderr)); err != nil {
			return err
		}
	}
	return nil
}
