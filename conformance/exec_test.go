package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/shims/connectivity"
	"github.com/kubecase/kubecase/shims/nodes"
)

// connector serves what reaches into the cluster.
type connector struct{}

// Connect implements apiserver.Connector.
func (connector) Connect(w http.ResponseWriter, req *http.Request, c apiserver.Connection) error {
	target := targetOf(c)
	switch c.Subresource {
	case "exec":
		return connectivity.Exec(w, req, target, nil)
	case "attach":
		if c.Debugging != nil {
			return connectivity.AttachDebug(w, req, target, func(connectivity.Run) {}, c.Ended)
		}
		return connectivity.Attach(w, req, target)
	case "portforward":
		return connectivity.PortForward(w, req, target, connectivity.Forwarding{})
	}
	kind := map[string]string{"services": "Service", "pods": "Pod"}[c.Resource]
	if kind == "" {
		return nodes.Serve(w, req, c.Case, c.Clock, c.Name, c.Path)
	}
	return connectivity.Proxy(w, req, connectivity.Proxied{Case: c.Case, Clock: c.Clock, Kind: kind, Namespace: c.Namespace, Name: c.Name, Path: c.Path})
}

func targetOf(c apiserver.Connection) connectivity.Target {
	return connectivity.Target{Case: c.Case, Clock: c.Clock, Namespace: c.Namespace, Pod: c.Name, Container: c.Container, Of: c.Debugging}
}

// Debug implements apiserver.Debugger.
func (connector) Debug(ctx context.Context, c apiserver.Connection, output io.Writer) (exitCode int, ended bool) {
	code, ended, err := connectivity.Debug(ctx, targetOf(c), output)
	if err != nil {
		fmt.Fprintln(output, err)
	}
	return code, ended
}

// kubeletTranscripts are the recorded commands of the kubelet's recordings whose names begin so;
// of those without a user in the name it is the administrator.
func kubeletTranscripts(t *testing.T, prefix string) []*Transcript {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(recordings(t), "kubelet", "kubectl-1.34", prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Skipf("no recordings %s* of kubectl against kubelets", prefix)
	}
	var out []*Transcript
	for _, name := range names {
		read := func(file string) string {
			text, err := os.ReadFile(filepath.Join(name, file))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return string(text)
		}
		line, _, _ := strings.Cut(read("cmd.txt"), "\n")
		args, err := splitCommand(line)
		if err != nil || len(args) < 2 {
			continue // a pipe of several
		}
		code, err := strconv.Atoi(strings.TrimSpace(read("exit_code")))
		if err != nil {
			continue // it ran until it was interrupted
		}
		tr := &Transcript{ID: filepath.Base(name), Version: "1.34", As: "admin", Args: args[1:], Stdout: read("stdout"), Stderr: read("stderr"), HasStderr: true, ExitCode: code}
		if parts := strings.Split(tr.ID, "-"); parts[1] == "viewer" || parts[1] == "nobody" {
			tr.As = parts[1]
		}
		out = append(out, tr)
	}
	return out
}

// insideTranscripts are the recorded commands that were run in containers, but for those
// that were interrupted or need a terminal or its end.
func insideTranscripts(t *testing.T) []*Transcript {
	t.Helper()
	return slices.DeleteFunc(kubeletTranscripts(t, "x"), func(tr *Transcript) bool {
		terminal := func(a string) bool { return strings.HasPrefix(a, "-") && strings.Contains(a, "t") || a == "-i" }
		return tr.ExitCode == -2 || tr.Args[0] != "exec" || slices.ContainsFunc(tr.Args[:min(3, len(tr.Args))], terminal)
	})
}

// asCommand is the command that a transcript ran in a container; nil when kubectl or the cluster
// refused it, or it named no pod.
func asCommand(tr *Transcript) *fixtures.CommandRun {
	i := slices.Index(tr.Args, "--")
	if i < 0 || strings.Contains(tr.Args[1], "/") || strings.HasPrefix(tr.Args[1], "-") {
		return nil
	}
	r := &fixtures.CommandRun{Pod: tr.Args[1], Command: tr.Args[i+1:], Stdout: tr.Stdout, ExitCode: tr.ExitCode}
	for j, a := range tr.Args[:i] {
		switch a {
		case "-n":
			r.Namespace = tr.Args[j+1]
		case "-c":
			r.Container = tr.Args[j+1]
		}
	}
	r.Stderr = strings.TrimSuffix(tr.Stderr, fmt.Sprintf("command terminated with exit code %d\n", tr.ExitCode))
	if rest, found := strings.CutPrefix(r.Stderr, "Defaulted container "); found {
		_, r.Stderr, _ = strings.Cut(rest, "\n")
	}
	if strings.HasPrefix(r.Stderr, "Error from server") || strings.Contains(r.Stderr, "unable to upgrade connection") || strings.HasPrefix(r.Stderr, "error: cannot exec") {
		return nil
	}
	return r
}

// insideServer serves the recorded cluster with these commands captured.
func insideServer(t *testing.T, runs []fixtures.CommandRun) *Server {
	t.Helper()
	return commandsServer(t, map[string][]fixtures.CommandRun{fixtures.CommandsDocument: runs})
}

// commandsServer serves the recorded cluster with these lists of commands, by document.
func commandsServer(t *testing.T, documents map[string][]fixtures.CommandRun) *Server {
	t.Helper()
	return serveCase(t, clockCaptured, kubeletCaseWith(t, documents), nil)
}

// kubeletCaseWith is the recorded cluster's case with these lists, by document.
func kubeletCaseWith[T any](t *testing.T, documents map[string][]T) *fixtures.Case {
	t.Helper()
	dir := filepath.Join(t.TempDir(), kubeletCase)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "fixtures", "cases", kubeletCase))); err != nil {
		t.Fatal(err)
	}
	for name, entries := range documents {
		text, err := fixtures.EncodeEntries(entries)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := fixtures.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// execID is what a runtime calls one exec.
var execID = regexp.MustCompile(`[0-9a-f]{64}`)

// TestCommandsInContainers runs every recorded command against a case that captured them:
// kubectl prints the same and ends the same.
func TestCommandsInContainers(t *testing.T) {
	transcripts := insideTranscripts(t)
	var runs []fixtures.CommandRun
	for _, tr := range transcripts {
		if r := asCommand(tr); r != nil {
			runs = append(runs, *r)
		}
	}
	b := newBench(t, insideServer(t, runs), "", recordings(t))
	equal := 0
	for _, tr := range transcripts {
		ours, err := b.run(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		norm := func(s string) string { return execID.ReplaceAllString(s, "ID") }
		if norm(ours.Stdout) == norm(tr.Stdout) && norm(ours.Stderr) == norm(tr.Stderr) && ours.ExitCode == tr.ExitCode {
			equal++
			continue
		}
		if strings.Contains(tr.Args[1], "/") && ours.ExitCode == connectivity.NotCapturedCode {
			t.Logf("%s: the recording doesn't say in which pod it ran: kubectl %s", tr.ID, strings.Join(tr.Args, " "))
			continue
		}
		t.Errorf("%s: kubectl %s\nstdout %q\nwant   %q\nstderr %q\nwant   %q\nexit code %d, want %d", tr.ID, strings.Join(tr.Args, " "), ours.Stdout, tr.Stdout, ours.Stderr, tr.Stderr, ours.ExitCode, tr.ExitCode)
	}
	t.Logf("%d of %d recorded commands as recorded", equal, len(transcripts))
}

// measured are numbers that a tool measures anew each time, and what isn't in a case: the
// variables of an image, and remarks of the resolver about its server.
var measured = []struct {
	expr *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`after \d+ ms`), "after N ms"},
	{regexp.MustCompile(`(dns|connect|total)=\d+\.\d+`), "$1=T"},
	{regexp.MustCompile(`(?m)^;; Got recursion not available from \S+\n`), ""},
	{regexp.MustCompile(`(?m)^(PATH|HOME)=.*\n`), ""},
	{regexp.MustCompile(`--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--  \S+\n`), ""},
}

func comparable(tr *Transcript, stdout, stderr string) string {
	text := stdout + "\x00" + stderr
	for _, m := range measured {
		text = m.expr.ReplaceAllString(text, m.by)
	}
	if slices.Contains(tr.Args, "env") {
		text = sortLines(text) // kubelet and runtime give no order
	}
	return text
}

// TestCommandsThatWereNotCaptured leaves each recorded command out and asks again: where
// the case's objects decide, the interpreter prints what the container printed.
func TestCommandsThatWereNotCaptured(t *testing.T) {
	b := newBench(t, insideServer(t, nil), "", recordings(t))
	decided, undecided := 0, map[string]int{}
	for _, tr := range insideTranscripts(t) {
		r := asCommand(tr)
		if r == nil || r.Pod != "toolbox" || !slices.Contains([]string{"nc", "curl", "wget", "nslookup", "dig", "getent", "env", "printenv", "cat", "sh", "ls"}, r.Command[0]) {
			continue
		}
		ours, err := b.run(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		if ours.ExitCode == connectivity.NotCapturedCode && strings.Contains(ours.Stderr, "kubecase: not captured: ") {
			undecided[r.Command[0]]++
			continue
		}
		decided++
		if want, got := comparable(tr, tr.Stdout, tr.Stderr), comparable(tr, ours.Stdout, ours.Stderr); want != got || ours.ExitCode != tr.ExitCode {
			t.Errorf("%s: kubectl %s\n%q\nwant\n%q\nexit code %d, want %d", tr.ID, strings.Join(tr.Args, " "), got, want, ours.ExitCode, tr.ExitCode)
		}
	}
	t.Logf("%d commands decided by the objects, undecided %v", decided, undecided)
	if decided == 0 {
		t.Error("no command was decided")
	}
}
