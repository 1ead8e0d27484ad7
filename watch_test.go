package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/recorder/runs"
)

// TestWatchFinishedRun: what is over is told to its end, in plain lines.
func TestWatchFinishedRun(t *testing.T) {
	bin := programs(t)
	dir := filepath.Join(t.TempDir(), "run")
	kubecase(t, bin, "run", "shop-nodes", "--agent", "closer", "--out", dir, "--", "agents/closer.sh")
	out := string(kubecase(t, bin, "watch", dir))
	if !strings.HasPrefix(out, "shop-nodes  began\nshop-nodes    1 ") || !strings.HasSuffix(out, "\nfinished: 1 of 1 episode ended, 1 right, 1 with complete evidence\n") {
		t.Errorf("watch told:\n%s", out)
	}
	// Five calls, five groups with a milestone each, and one of them with the other fact too:
	// the deployment's object tells its available replicas.
	if calls, lit := strings.Count(out, " kubectl "), strings.Count(out, "● "); calls != 5 || lit != 6 {
		t.Errorf("%d calls and %d milestones, not 5 and 6:\n%s", calls, lit, out)
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("what is no terminal gets colours: %q", out)
	}
}

// TestWatchRunningRun: watching ends when the run does, however that ends.
func TestWatchRunningRun(t *testing.T) {
	bin := programs(t)
	dir := filepath.Join(t.TempDir(), "run")
	wait := filepath.Join(t.TempDir(), "wait")
	if err := syscall.Mkfifo(wait, 0o600); err != nil {
		t.Fatal(err)
	}
	// The agent looks once, then waits until it is killed with its run.
	run := start(t, bin, "run", "shop-nodes", "--agent", "waiter", "--out", dir, "--", "sh", "-c", "kubectl get pods -n shop -l app=cart; kubectl get nodes; read line < "+wait)
	begun := bufio.NewScanner(run.stderr)
	for begun.Scan() && !strings.HasPrefix(begun.Text(), "run: ") {
	}
	if !isHeld(dir) {
		t.Error("a run that goes on doesn't hold its folder")
	}
	if _, err := holdRun(dir); err == nil || !strings.Contains(err.Error(), "another kubecase goes on with this run") {
		t.Errorf("a second process may go on with the run: %v", err)
	}
	watch := start(t, bin, "watch", dir)
	lines := bufio.NewScanner(watch.stdout)
	var told []string
	for lines.Scan() {
		told = append(told, lines.Text())
		if strings.Contains(lines.Text(), "● Both pods of cart are running and ready.") {
			break
		}
	}
	if err := run.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		told = append(told, lines.Text())
	}
	if last := told[len(told)-1]; last != "stopped before its end: 0 of 1 episode ended, 0 right, 0 with complete evidence" {
		t.Errorf("watch told:\n%s", strings.Join(told, "\n"))
	}
	if err := watch.command.Wait(); err != nil {
		t.Errorf("watch ended with %v", err)
	}
	// The agent outlives a run that is killed outright: let it end.
	if f, err := os.OpenFile(wait, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = f.Close()
	}
}

type process struct {
	command        *exec.Cmd
	stdout, stderr io.Reader
}

func start(t *testing.T, bin string, args ...string) process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, filepath.Join(bin, "kubecase"), args...)
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
	p := process{command: command}
	var err error
	if p.stdout, err = command.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if p.stderr, err = command.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWatchPage: the page is at an address of its own, and asks for its token.
func TestWatchPage(t *testing.T) {
	bin := programs(t)
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := runs.Create(dir, runs.Run{Agent: "a", Cases: []runs.Case{{Name: "shop-nodes"}}, Repeat: 1}); err != nil {
		t.Fatal(err)
	}
	watch := start(t, bin, "watch", dir, "--listen", "127.0.0.1:0")
	lines := bufio.NewScanner(watch.stderr)
	if !lines.Scan() {
		t.Fatal("watch printed no address")
	}
	address, ok := strings.CutPrefix(lines.Text(), "page: ")
	if !ok {
		t.Fatalf("watch printed %q", lines.Text())
	}
	bare, _, _ := strings.Cut(address, "?")
	for url, want := range map[string]int{address: 200, bare: 401, bare + "events": 401} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s is %d, want %d", url, resp.StatusCode, want)
		}
	}
	if err := watch.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := watch.command.Wait(); err != nil {
		t.Errorf("interrupted, it ended with %v", err)
	}
}

func TestWatchRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := runs.Create(dir, runs.Run{Agent: "a", Repeat: 1}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"watch", filepath.Dir(dir)}, "is no run: it has no run.json"},
		{[]string{"watch", dir, "--listen", "0.0.0.0:8080"}, `--listen "0.0.0.0:8080" is no loopback address with a port`},
		{[]string{"watch", dir, "--listen", "8080"}, "is no loopback address"},
		{[]string{"watch", dir, "--listen", "[::]:0"}, "is no loopback address"},
		{[]string{"watch"}, "accepts 1 arg(s)"},
	} {
		var out, errs bytes.Buffer
		a := &app{args: test.args, in: strings.NewReader(""), out: &out, err: &errs, lookup: func(string) (string, bool) { return "", false }}
		if code := a.run(t.Context()); code != exitUsage || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%v: code %d, %q; want %q", test.args, code, errs.String(), test.want)
		}
	}
}

// TestAgentsSeeNoLiveView: the server that agents reach has none of the live view's routes.
func TestAgentsSeeNoLiveView(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	api := newAPI(done)
	server := httptest.NewServer(api)
	defer server.Close()
	c, err := openCase("shop-nodes")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	episode, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c, Clock: clock.Captured})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/events", "/live.js", "/live.css", "/report.html", "/watch"} {
		for _, prefix := range []string{"", episode.Path()} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+prefix+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+episode.Token)
			req.Header.Set("Accept", "text/html, text/event-stream, */*")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if kind := resp.Header.Get("Content-Type"); strings.Contains(kind, "html") || strings.Contains(kind, "event-stream") || bytes.Contains(body, []byte("kubecase watch")) {
				t.Errorf("%s answers %d with %s: %.100s", prefix+path, resp.StatusCode, kind, body)
			}
		}
	}
}
