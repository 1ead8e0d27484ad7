package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/kubeconfigs"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/recorder/runs"
)

const (
	// submitPath is where an agent hands its answer in, below its episode's URL.
	submitPath = "/kubecase.io/v1/answer"
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = evaluator.MaxAnswerBytes
	// stepInterval is how often the calls of an episode with a limit are counted.
	stepInterval = 200 * time.Millisecond
)

// observer tells the recorder what only the server knows.
type observer struct{}

// Authenticated implements apiserver.Observer.
func (observer) Authenticated(ctx context.Context, who user.Info) {
	recorder.FromContext(ctx).SetUser(authnv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}, nil)
}

// Kept implements apiserver.Observer.
func (observer) Kept(ctx context.Context, key any) { recorder.FromContext(ctx).SameAs(key) }

// newAPI is the API server of commands that don't open the services to anybody.
func newAPI(done <-chan struct{}) *apiserver.Server { return newServices(true).newAPI(done) }

// runner runs the episodes of one run.
type runner struct {
	app      *app
	folder   *runs.Folder
	options  runOptions
	server   *serving
	bodies   *recorder.Bodies
	program  *agentProgram
	cases    openCases
	progress *progress
	failures atomic.Int64
}

// broken is the number of episodes that failed for reasons that aren't the agent's.
func (r *runner) broken() int64 { return r.failures.Load() }

// episode runs the agent once. What goes wrong with this episode alone is written
// down and not returned; a run goes on.
func (r *runner) episode(ctx context.Context, p planned) error {
	began := time.Now()
	e := runs.Episode{Case: p.of.Name, Attempt: p.attempt, Started: began}
	err := r.investigate(ctx, p, &e)
	err = errors.Join(err, r.cases.release(p.of.Source))
	if ctx.Err() != nil {
		return ctx.Err() // to be run again
	}
	if err != nil {
		r.failures.Add(1)
		e.Outcome, e.Message = runs.Broken, err.Error()
		if e.ID == "" { // nothing was begun
			r.progress.line("%s: %v", p.of.Name, err)
			return nil
		}
	}
	e.Ended = time.Now()
	if err := r.folder.WriteEpisode(e); err != nil {
		return err
	}
	calls := "no calls"
	if dir, err := r.folder.EpisodeDir(e.ID); err == nil {
		if t, err := recorder.LoadCalls(dir); err == nil {
			calls = plural(len(t.Calls), "call")
		}
	}
	line := fmt.Sprintf("%s: %s in %s, %s", p.of.Name, outcomeText(e), time.Since(began).Round(100*time.Millisecond), calls)
	if e.AnswerFrom == "" {
		line += ", no answer"
	}
	r.progress.line("%s", line)
	return nil
}

func outcomeText(e runs.Episode) string {
	switch e.Outcome {
	case runs.Exited:
		if e.ExitCode != nil && *e.ExitCode != 0 {
			return fmt.Sprintf("ended with exit code %d", *e.ExitCode)
		}
		return "ended"
	case runs.TimeLimit:
		return "ended at its time limit"
	case runs.StepLimit:
		return "ended at its step limit"
	}
	return "broken: " + e.Message
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// investigate serves the case to the agent and keeps what it did.
func (r *runner) investigate(ctx context.Context, p planned, e *runs.Episode) error {
	c, err := r.cases.get(p.of.Source)
	if err != nil {
		return err
	}
	m := c.Manifest()
	e.Captured = m.Capture.Time.UTC()
	recording, own := &episodeRecording{}, &mount{}
	episode, err := r.server.api.AddEpisode(apiserver.EpisodeOptions{
		Case: c, Clock: r.options.clockMode(), User: r.options.serving.asUser, UID: r.options.serving.asUID, Groups: r.options.serving.asGroups,
		NoDebug: !r.options.serving.debug, Start: e.Started, Wrap: func(next http.Handler) http.Handler { return own.wrap(recording.wrap(next)) },
	})
	if err != nil {
		return err
	}
	defer r.server.api.RemoveEpisode(episode)
	e.ID = episode.ID
	dir, err := r.folder.EpisodeDir(e.ID)
	if err != nil {
		return err
	}
	if err := r.folder.WriteEpisode(*e); err != nil {
		return err
	}
	log, err := recorder.Open(dir, recorder.Options{
		Bodies: r.bodies, Now: func() time.Time { return e.CapturedTime(time.Now()) },
		Unshift: unshift(episode.Clock, shiftAnswer), UnshiftText: unshift(episode.Clock, clock.ShiftText),
	})
	if err != nil {
		return err
	}
	recording.begin(log, episode.Token, dir)
	own.tools = r.app.diagnosticTools(r.server, c, episode).Handler()
	own.open(r.server.services, c, episode, log)
	defer own.open(nil, c, episode, nil)
	err = r.runAgent(ctx, c, e, episode, recording, dir)
	r.server.api.RemoveEpisode(episode) // what the agent left running finds nothing any more
	err = errors.Join(err, log.Close())
	if err != nil || ctx.Err() != nil {
		return err
	}
	t, err := recorder.ReadTrajectory(dir, recorder.DeriveOptions{Episode: e.ID, Captured: e.Captured, Bodies: r.bodies, Shims: shimMappers}, e.CapturedTime)
	return errors.Join(err, recorder.SaveCalls(dir, &t, r.bodies), r.judge(ctx, c, p.of.Name, dir))
}

// judge judges a proposed repair, which needs the case; scoring reads the result.
func (r *runner) judge(ctx context.Context, c *fixtures.Case, name, dir string) error {
	data, path, err := r.folder.Truth(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	truth, err := evaluator.ParseTruth(path, data)
	if err != nil {
		return err
	}
	answer, err := os.ReadFile(filepath.Join(dir, runs.AnswerFile))
	if err != nil {
		return err
	}
	submission, err := evaluator.FindSubmission(answer)
	if err != nil {
		return nil // nothing was submitted
	}
	j, err := r.app.judgeMitigation(ctx, c, truth, submission)
	return errors.Join(err, keepJudgement(dir, j))
}

// shiftAnswer moves the timestamps of JSON, and the points of Prometheus' answers.
func shiftAnswer(text []byte, d time.Duration) []byte {
	return clock.ShiftPoints(clock.ShiftJSON(text, d), d)
}

// unshift moves timestamps back to captured time, as shift moved them; nil when
// nothing was moved.
func unshift(c clock.Clock, shift func([]byte, time.Duration) []byte) func([]byte) []byte {
	if c.Offset() == 0 {
		return nil
	}
	return func(b []byte) []byte { return shift(b, -c.Offset()) }
}

// runAgent starts the agent in a folder of its own and fetches its answer.
func (r *runner) runAgent(ctx context.Context, c *fixtures.Case, e *runs.Episode, episode *apiserver.Episode, recording *episodeRecording, dir string) (err error) {
	query := c.Manifest().Query
	home, err := r.app.tempFolder()
	if err != nil {
		return err
	}
	defer r.app.removeFolder(home)
	work := filepath.Join(home, "work")
	env := agentEnvironment{
		home: home, kubeconfig: filepath.Join(home, "kubeconfig"), query: query, queryFile: filepath.Join(home, "query.txt"),
		answerFile: filepath.Join(home, "answer.json"), extra: slices.Concat(r.server.services.variables(c, r.server.plain.url, episode), r.options.env),
	}
	env.path, _ = r.app.lookup("PATH")
	if r.options.answer != "" {
		env.answerFile = r.options.answer
		if !filepath.IsAbs(env.answerFile) {
			env.answerFile = filepath.Join(work, env.answerFile)
		}
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if r.options.workdir != "" {
		if work, err = filepath.Abs(r.options.workdir); err != nil {
			return err
		}
	}
	if err := os.WriteFile(env.queryFile, []byte(query), 0o600); err != nil {
		return err
	}
	access := kubeconfigs.Access{Server: r.server.url + episode.Path(), Token: episode.Token, CA: r.server.ca}
	if err := kubeconfigs.Write(env.kubeconfig, access); err != nil {
		return err
	}
	names := []string{"kubecase"}
	if _, err := exec.LookPath("kubectl"); err != nil || r.options.wrapper {
		names = append(names, "kubectl") // the wrapper, or the built-in one
	}
	if env.programs, err = programFolder(home, r.program.path, names...); err != nil {
		return err
	}
	if r.options.wrapper {
		env.invocations = filepath.Join(home, "invocations")
		if err := os.Mkdir(env.invocations, 0o700); err != nil {
			return err
		}
	}
	var echo io.Writer
	if r.options.show {
		echo = r.app.err
	}
	stdout, err := newBoundedFile(filepath.Join(dir, runs.StdoutFile), echo)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := newBoundedFile(filepath.Join(dir, runs.StderrFile), echo)
	if err != nil {
		return err
	}
	defer stderr.Close()
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.options.timeLimit > 0 {
		timer := time.AfterFunc(r.options.timeLimit, func() { cancel(errTimeLimit) })
		defer timer.Stop()
	}
	if r.options.stepLimit > 0 {
		go recording.limitSteps(limited, cancel, r.options.stepLimit)
	}
	process := agentProcess{argv: r.folder.Run().Command, dir: work, env: env.variables(r.app.lookup), stdin: query, stdout: stdout, err: stderr}
	e.ExitCode, err = process.run(limited)
	if err != nil {
		return err
	}
	switch cause := context.Cause(limited); {
	case e.ExitCode != nil:
		e.Outcome = runs.Exited
	case errors.Is(cause, errTimeLimit):
		e.Outcome = runs.TimeLimit
	case errors.Is(cause, errStepLimit):
		e.Outcome = runs.StepLimit
	}
	if err := collectInvocations(env.invocations, dir, unshift(episode.Clock, clock.ShiftText)); err != nil {
		return err
	}
	answer, from, err := findAnswer(recording.answer(), env.answerFile, stdout.end())
	if err != nil {
		return err
	}
	e.AnswerFrom = from
	return os.WriteFile(filepath.Join(dir, runs.AnswerFile), answer, 0o600)
}

// removeFolder removes an agent's folder. What an agent made irremovable is told of,
// and is no failure of the episode.
func (a *app) removeFolder(dir string) {
	err := os.RemoveAll(dir)
	if err == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintf(a.err, "kubecase: an agent's folder is left: %v\n", err)
	}
}

var (
	errTimeLimit = errors.New("the time limit is reached")
	errStepLimit = errors.New("the step limit is reached")
)

// collectInvocations moves what the wrapper noted to the episode's record: in
// captured time, as everything there.
func collectInvocations(from, to string, unshift func([]byte) []byte) error {
	if from == "" {
		return nil
	}
	if info, err := os.Lstat(filepath.Join(from, recorder.WrapperFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil || !info.Mode().IsRegular() {
		return nil // the agent put something else there: what kubectl printed is not known
	}
	all, err := recorder.ReadInvocations(from, nil)
	if err != nil {
		return nil // as above
	}
	back := func(text string) string {
		if unshift == nil {
			return text
		}
		return string(unshift([]byte(text)))
	}
	var errs []error
	for _, v := range all {
		v.Stdout, v.Stderr = back(v.Stdout), back(v.Stderr)
		if v.Shown != nil {
			shown := back(*v.Shown)
			v.Shown = &shown
		}
		errs = append(errs, recorder.AppendInvocation(to, v))
	}
	return errors.Join(errs...)
}

// findAnswer takes the answer that was handed in, else the file's, else the end of
// standard output if it holds one.
func findAnswer(submitted []byte, file string, stdout []byte) (answer []byte, from string, err error) {
	if submitted != nil {
		return submitted, "submit", nil
	}
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
		f, err := os.Open(file)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		if answer, err = io.ReadAll(io.LimitReader(f, maxAnswer)); err != nil {
			return nil, "", err
		}
		if len(strings.TrimSpace(string(answer))) > 0 {
			return answer, "file", nil
		}
	}
	if holdsAnswer(stdout) {
		return stdout, "stdout", nil
	}
	return nil, "", nil
}

// episodeRecording stands around an episode's handler: it records what passes and
// takes the answer.
type episodeRecording struct {
	mu       sync.Mutex
	next     http.Handler
	recorded http.Handler
	token    string
	dir      string
	given    []byte
}

// wrap implements apiserver.EpisodeOptions.Wrap. Nothing passes before begin.
func (r *episodeRecording) wrap(next http.Handler) http.Handler {
	r.next = next
	return r
}

// unrecorded is set by the benchmark that asks what recording costs.
var unrecorded bool

func (r *episodeRecording) begin(log *recorder.Log, token, dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded = log.Handler(r.next, recorder.Source{Name: recorder.Kubernetes})
	if unrecorded {
		r.recorded = r.next
	}
	r.token, r.dir = token, dir
}

// ServeHTTP implements http.Handler.
func (r *episodeRecording) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	recorded, token := r.recorded, r.token
	r.mu.Unlock()
	switch {
	case recorded == nil:
		http.NotFound(w, req)
	case req.URL.Path == submitPath && req.Method == http.MethodPost &&
		subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), []byte("Bearer "+token)) == 1:
		r.submit(w, req)
	default:
		recorded.ServeHTTP(w, req)
	}
}

// submit takes an answer; the last one counts.
func (r *episodeRecording) submit(w http.ResponseWriter, req *http.Request) {
	answer, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxAnswer))
	switch {
	case err != nil:
		http.Error(w, fmt.Sprintf("an answer has at most %d bytes", maxAnswer), http.StatusRequestEntityTooLarge)
	case !holdsAnswer(answer):
		http.Error(w, `the answer holds no JSON object like {"component": "…", "fault": "…"}`, http.StatusBadRequest)
	default:
		r.mu.Lock()
		r.given = answer
		r.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}
}

func (r *episodeRecording) answer() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given
}

// limitSteps cancels when the episode has made more calls than it may.
func (r *episodeRecording) limitSteps(ctx context.Context, cancel context.CancelCauseFunc, limit int) {
	ticker := time.NewTicker(stepInterval)
	defer ticker.Stop()
	var read int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		size, err := recorder.Written(r.dir)
		if err != nil || size == read {
			continue
		}
		read = size
		requests, err := recorder.Requests(r.dir)
		if err != nil {
			continue // the line that is being written; it will be whole next time
		}
		if len(recorder.Derive(requests, recorder.DeriveOptions{}).Calls) > limit {
			cancel(errStepLimit)
			return
		}
	}
}
