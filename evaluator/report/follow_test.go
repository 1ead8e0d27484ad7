package report_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/report"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/recorder/runs"
)

// liveRun is a run's folder that the test writes as a run does.
type liveRun struct {
	t      testing.TB
	folder *runs.Folder
	bodies *recorder.Bodies
	now    time.Time // the machine's
}

func newLiveRun(t testing.TB, repeat int) *liveRun {
	t.Helper()
	folder, err := runs.Create(filepath.Join(t.TempDir(), "run"), runs.Run{Agent: "careful", Cases: []runs.Case{{Name: "cart"}}, Repeat: repeat})
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.WriteTruth("cart", []byte(truthText)); err != nil {
		t.Fatal(err)
	}
	bodies, err := folder.Bodies()
	if err != nil {
		t.Fatal(err)
	}
	return &liveRun{t: t, folder: folder, bodies: bodies, now: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
}

// liveEpisode is an episode that goes on: a recorded server for its agent.
type liveEpisode struct {
	*liveRun
	episode runs.Episode
	log     *recorder.Log
	server  *httptest.Server
}

func (r *liveRun) begin(id string, attempt int) *liveEpisode {
	r.t.Helper()
	e := &liveEpisode{liveRun: r, episode: runs.Episode{ID: id, Case: "cart", Attempt: attempt, Started: r.now, Captured: captured}}
	if err := r.folder.WriteEpisode(e.episode); err != nil {
		r.t.Fatal(err)
	}
	dir, err := r.folder.EpisodeDir(id)
	if err != nil {
		r.t.Fatal(err)
	}
	e.log, err = recorder.Open(dir, recorder.Options{Bodies: r.bodies, Now: func() time.Time { return e.episode.CapturedTime(r.now) }})
	if err != nil {
		r.t.Fatal(err)
	}
	answers := map[string]string{
		"/api/v1/namespaces/shop/pods": `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Status","type":"string"}],` +
			`"rows":[{"cells":["cart-1","Pending"]},{"cells":["front-1","Running"]}]}`,
		"/api/v1/namespaces/shop/pods/frontend-1/log": "call to cart failed\n",
	}
	e.server = httptest.NewServer(e.log.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, ok := answers[req.URL.Path]
		if !ok {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, body)
	}), recorder.Source{Name: recorder.Kubernetes}))
	r.t.Cleanup(func() {
		e.server.Close()
		_ = e.log.Close()
	})
	return e
}

// kubectl sends one request as kubectl does, after so long.
func (e *liveEpisode) kubectl(after time.Duration, session, command, path string) {
	e.t.Helper()
	e.now = e.now.Add(after)
	req, err := http.NewRequest("GET", e.server.URL+path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "kubectl/v1.37.2 (linux/amd64) kubernetes/abc")
	req.Header.Set("Kubectl-Session", session)
	req.Header.Set("Kubectl-Command", command)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// end writes an episode's end as a run does.
func (e *liveEpisode) end(answer string) {
	e.t.Helper()
	dir, err := e.folder.EpisodeDir(e.episode.ID)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.log.Close(); err != nil {
		e.t.Fatal(err)
	}
	calls, err := recorder.ReadTrajectory(dir, recorder.DeriveOptions{Episode: e.episode.ID, Captured: captured, Bodies: e.bodies}, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := recorder.SaveCalls(dir, &calls, e.bodies); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, runs.AnswerFile), []byte(answer), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.episode.Outcome, e.episode.Ended = runs.Exited, e.now
	if err := e.folder.WriteEpisode(e.episode); err != nil {
		e.t.Fatal(err)
	}
}

// follow follows the run, with the test's clock.
func (r *liveRun) follow() *report.Follower {
	r.t.Helper()
	f, err := report.Follow(report.FollowOptions{
		Folder: r.folder, Now: func() time.Time { return r.now },
		Score: func(ctx context.Context, of *evaluator.Evaluator, e runs.Episode) (*evaluator.Score, *recorder.Trajectory, error) {
			dir, err := r.folder.EpisodeDir(e.ID)
			if err != nil {
				return nil, nil, err
			}
			calls, err := recorder.LoadCalls(dir)
			if err != nil {
				return nil, nil, err
			}
			for i := range calls.Calls {
				for j := range calls.Calls[i].Uses {
					if err := calls.Calls[i].Uses[j].LoadResponse(r.bodies); err != nil {
						return nil, nil, err
					}
				}
			}
			ep := evaluator.Episode{Case: e.Case, Agent: "careful", ID: e.ID, Trajectory: &calls}
			answer, err := os.ReadFile(filepath.Join(dir, runs.AnswerFile))
			if err != nil {
				return nil, nil, err
			}
			if s, err := evaluator.FindSubmission(answer); err == nil {
				ep.Submission = s
			}
			score, err := of.Score(ctx, ep)
			return score, &calls, err
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

func poll(t testing.TB, f *report.Follower) []*report.Live {
	t.Helper()
	changed, err := f.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// told is what the terminal shows of one poll.
func told(t testing.TB, f *report.Follower, lines *report.Lines, out *bytes.Buffer) string {
	t.Helper()
	out.Reset()
	for _, e := range poll(t, f) {
		if err := lines.Tell(e); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestFollow: a run is told of as it is written.
func TestFollow(t *testing.T) {
	r := newLiveRun(t, 2)
	f := r.follow()
	var out bytes.Buffer
	lines := report.NewLines(&out, false)
	step := func(what, want string) {
		t.Helper()
		if d := cmp.Diff(want, told(t, f, lines, &out)); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	step("before it begins", "")
	e := r.begin("e1", 1)
	step("an episode begins", "cart  began\n")
	e.kubectl(time.Second, "s1", "kubectl logs", "/api/v1/namespaces/shop/pods/frontend-1/log")
	step("a call that may go on", "")
	step("nothing new", "")
	e.kubectl(time.Second, "s2", "kubectl get", "/api/v1/namespaces/shop/pods")
	step("the next call settles the first", ""+
		"cart    1    +1.0 s  kubectl logs  T5 namespace=shop service=frontend pod=frontend-1; T9 namespace=shop service=frontend pod=frontend-1\n"+
		"cart  ● The front end logs that requests to the cart fail. (The shop answers with errors)\n")
	r.now = r.now.Add(3 * time.Second)
	step("silence settles the second", ""+
		"cart    2    +2.0 s  kubectl get  T1 type=pods namespace=shop output=table\n"+
		"cart  ● The pod of cart is Pending. (The cart doesn't run)\n"+
		"cart  ● The pods of the other workloads are running and ready, so that the whole namespace isn't affected. (Other workloads run)\n")
	// A request that was written in part only: the rest of its line comes later.
	dir, err := r.folder.EpisodeDir("e1")
	if err != nil {
		t.Fatal(err)
	}
	audit := filepath.Join(dir, recorder.AuditFile)
	whole, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(audit, append(bytes.Clone(whole), `{"kind":"Ev`...), 0o600); err != nil {
		t.Fatal(err)
	}
	step("a torn line", "")
	if err := os.WriteFile(audit, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	e.end(rightAnswer)
	step("the end", "cart  exited, 2 calls, evidence 3 of 5, answer right; missing: It can't be scheduled, The selector fits no node\n")
	if f.Finished() {
		t.Error("one of two episodes has ended, and the run is finished")
	}
	again := r.begin("e2", 2)
	again.end("I don't know")
	step("a second attempt, without calls", "cart/2  began\ncart/2  exited, 0 calls, evidence 0 of 5, answer wrong; missing: The shop answers with errors, The cart doesn't run, Other workloads run, It can't be scheduled, The selector fits no node\n")
	if !f.Finished() {
		t.Error("both episodes have ended, and the run isn't finished")
	}
	f.Over("finished")
	totals, _, _, _ := f.Board().Since(0)
	want := report.Totals{Agent: "careful", Planned: 2, Ended: 2, Right: 1, Over: "finished", Shown: []string{"e1", "e2"}}
	if d := cmp.Diff(want, totals); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}

// TestFollowTakesBack: what a call answered and the agent didn't see is taken back at the end.
func TestFollowTakesBack(t *testing.T) {
	var out bytes.Buffer
	lines := report.NewLines(&out, false)
	e := report.Live{ID: "e", Case: "cart", Groups: 1, Established: 1, Count: 1,
		Calls:      []report.LiveCall{{Index: 1, Since: "+1.0 s", Command: "kubectl get", Class: "delivered", Settled: true}},
		Milestones: []report.LiveMilestone{{Group: "g", Fact: "It is so.", State: "grounded", Call: 1}},
	}
	end := e
	end.Established, end.Ended, end.Verdict = 0, "ended", "wrong"
	end.Milestones = []report.LiveMilestone{{Group: "g", Fact: "It is so.", State: "missing"}}
	for _, l := range []*report.Live{&e, &end, &end} {
		if err := lines.Tell(l); err != nil {
			t.Fatal(err)
		}
	}
	want := "cart  began\ncart    1    +1.0 s  kubectl get\ncart  ● It is so. (g)\n" +
		"cart  ○ not established after all: It is so. (it was answered, and not printed to the agent)\n" +
		"cart  ended, 1 call, evidence 0 of 1, answer wrong; missing: g\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

// TestLinesColour: colours come only when they are asked for, and no agent brings its own.
func TestLinesColour(t *testing.T) {
	e := &report.Live{ID: "e", Case: "cart", Count: 1, Calls: []report.LiveCall{{Index: 1, Since: "+1.0 s", Command: "kubectl delete", Class: "write", Settled: true}}}
	for _, colour := range []bool{true, false} {
		var out bytes.Buffer
		if err := report.NewLines(&out, colour).Tell(e); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\x1b[33m"); got != colour {
			t.Errorf("colour %v: %q", colour, out.String())
		}
	}
}

func TestInterval(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 400 * time.Millisecond, time.Second: 4 * time.Second, time.Hour: time.Minute} {
		if got := report.Interval(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

// TestBoardBound: of many episodes the board keeps the latest, and all that run.
func TestBoardBound(t *testing.T) {
	r := newLiveRun(t, 200)
	for i := range 100 {
		e := r.begin("e"+string(rune('a'+i/26))+string(rune('a'+i%26)), i+1)
		if i > 0 {
			e.end(rightAnswer)
		}
	}
	f := r.follow()
	poll(t, f)
	totals, episodes, _, _ := f.Board().Since(0)
	if len(episodes) != 60 || len(totals.Shown) != 60 || totals.Shown[0] != "eaa" || totals.Ended != 99 || totals.Running != 1 {
		t.Errorf("%d episodes, %d shown from %s, %d ended, %d run", len(episodes), len(totals.Shown), totals.Shown[0], totals.Ended, totals.Running)
	}
}
