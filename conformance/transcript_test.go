package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// transcriptTimeout is how long one command may run.
const transcriptTimeout = 60 * time.Second

// exitTimeout is the exit code of the recorder's timeout(1): the command was
// still running. A few seconds tell as much.
const (
	exitTimeout  = 124
	stillRunning = 6 * time.Second
)

// bench is where commands run.
type bench struct {
	server  *Server
	present string
	kubectl map[string]string // binary by version
	dir     string            // holds the homes
	work    string            // the working directory, with the manifests
	editor  string

	mu    sync.Mutex
	homes map[string]*sync.Once
}

func newBench(t *testing.T, server *Server, present, recordings string) *bench {
	t.Helper()
	b := &bench{
		server: server, present: present, kubectl: map[string]string{},
		dir: t.TempDir(), work: t.TempDir(), homes: map[string]*sync.Once{},
	}
	for _, version := range kubectlVersions {
		b.kubectl[version] = kubectlBinary(t, version)
	}
	if err := os.CopyFS(b.work, os.DirFS(filepath.Join(recordings, "manifests"))); err != nil {
		t.Fatal(err)
	}
	// kubectl edit needs an editor that changes something.
	b.editor = filepath.Join(b.dir, "editor")
	script := "#!/bin/sh\nexec sed -i 's/^data:/data:\\n  edited: \"1\"/' \"$1\"\n"
	if err := os.WriteFile(b.editor, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

// run is what a command did.
type run struct {
	Stdout, Stderr string
	ExitCode       int
	Start          time.Time
	Home           string
}

// run executes a transcript's command.
func (b *bench) run(ctx context.Context, tr *Transcript) (*run, error) {
	home, err := b.home(ctx, tr)
	if err != nil {
		return nil, err
	}
	if tr.Cold {
		defer os.RemoveAll(home)
	}
	limit := transcriptTimeout
	if tr.ExitCode == exitTimeout {
		limit = stillRunning
	}
	return b.exec(ctx, tr, home, limit, tr.Args...)
}

func (b *bench) exec(ctx context.Context, tr *Transcript, home string, limit time.Duration, args ...string) (*run, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, b.kubectl[tr.Version], args...)
	command.Args[0] = "kubectl" // it shows in usage texts
	command.Dir = b.work
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TZ=UTC",
		"KUBECONFIG=" + b.server.Subjects[tr.As].Kubeconfig,
		"KUBE_EDITOR=" + b.editor,
	}
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(tr.Stdin), &stdout, &stderr
	command.WaitDelay = time.Second
	result := &run{Start: time.Now(), Home: home}
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		result.ExitCode = exitTimeout
	case errors.As(err, &exit):
		result.ExitCode = exit.ExitCode()
	case err != nil:
		return nil, err
	}
	result.Stdout, result.Stderr = stdout.String(), stderr.String()
	return result, nil
}

// home returns the command's home directory: an empty one for a cold
// transcript, else the subject's, whose discovery cache was filled by a
// command before.
func (b *bench) home(ctx context.Context, tr *Transcript) (string, error) {
	if tr.Cold {
		return os.MkdirTemp(b.dir, "cold-")
	}
	home := filepath.Join(b.dir, tr.Version+"-"+tr.As)
	b.mu.Lock()
	once := b.homes[home]
	if once == nil {
		once = new(sync.Once)
		b.homes[home] = once
	}
	b.mu.Unlock()
	var err error
	once.Do(func() {
		if err = os.MkdirAll(home, 0o755); err != nil {
			return
		}
		warm := &Transcript{Version: tr.Version, As: tr.As}
		if _, err = b.exec(ctx, warm, home, transcriptTimeout, "api-resources"); err != nil {
			return
		}
		// Schemas are kept in the same cache, and fetched on the first use.
		_, err = b.exec(ctx, warm, home, transcriptTimeout, "explain", "pod")
	})
	return home, err
}

// recordedServer is the real cluster's address in the transcripts.
const recordedServer = "https://127.0.0.1:16443"

var (
	// editExpr, debugExpr: names that kubectl itself makes up.
	editExpr  = regexp.MustCompile(`/tmp/kubectl-edit-\d+\.yaml`)
	debugExpr = regexp.MustCompile(`\b(debugger-|node-debugger-node-\d-)[a-z0-9]{5}\b`)
	// schemeExpr finds the name of a scheme, which is the place in the client's
	// source where it was made, as the compiler recorded it.
	schemeExpr = regexp.MustCompile(`in scheme "[^"]*scheme\.go:\d+"`)
	// contextExpr finds the names that a kubeconfig gives, which are its own affair.
	contextExpr = regexp.MustCompile(`(?m)((?:name|cluster|user|current-context): )\S+$`)
)

// compareTranscript compares what our command printed with the transcript.
func compareTranscript(b *bench, tr *Transcript, ours *run) *miss {
	if ours.ExitCode != tr.ExitCode {
		return &miss{
			cause:  "exit",
			detail: fmt.Sprintf("exit code %d instead of %d: %s", ours.ExitCode, tr.ExitCode, oneLine(ours.Stderr)),
			diff:   unified(tr.Stdout+tr.Stderr, ours.Stdout+ours.Stderr),
		}
	}
	// Our answer's instant in captured time, give or take what kubectl needs;
	// the recorded one lay within the time of the recording.
	asOf := ours.Start.Add(-b.server.Offset)
	w := window{
		from: b.server.Captured.Sub(asOf) - 10*time.Second,
		to:   b.server.Captured.Sub(asOf) + recordingTime,
	}
	var recordedAges, ourAges []age
	for _, stream := range []struct {
		cause, recorded, ours string
		skip                  bool
	}{
		{"stdout", tr.Stdout, ours.Stdout, false},
		{"stderr", tr.Stderr, ours.Stderr, !tr.HasStderr},
	} {
		if stream.skip {
			continue
		}
		recorded, rAges := b.normalise(tr, stream.recorded, false)
		our := stream.ours
		if ours.Home != "" {
			our = strings.ReplaceAll(our, ours.Home, "$HOME") // as the recorder did
		}
		our, oAges := b.normalise(tr, our, true)
		if recorded != our {
			return &miss{cause: stream.cause, detail: firstDifference(recorded, our), diff: unified(recorded, our)}
		}
		recordedAges, ourAges = append(recordedAges, rAges...), append(ourAges, oAges...)
	}
	if detail := compareAges(recordedAges, ourAges, w); detail != "" {
		return &miss{cause: "age", detail: detail}
	}
	return nil
}

// normalise replaces in a transcript's text what depends on the moment, the
// machine or the client, and takes the ages out of it.
func (b *bench) normalise(tr *Transcript, text string, isOurs bool) (string, []age) {
	recorded, ours := sides(b.server.Captured, b.present)
	if isOurs {
		text = strings.ReplaceAll(text, b.server.Subjects[tr.As].URL, recordedServer)
		text = ours.canon(shiftBack(text, b.server.Offset))
	} else {
		text = recorded.canon(text)
	}
	text = editExpr.ReplaceAllString(text, "/tmp/kubectl-edit-N.yaml")
	text = debugExpr.ReplaceAllString(text, "${1}NAME")
	text = schemeExpr.ReplaceAllString(text, `in scheme "NAME"`)
	switch {
	case tr.Args[0] == "config" && tr.Args[1] == "view":
		text = contextExpr.ReplaceAllString(text, "${1}NAME")
	case tr.Args[0] == "config" && tr.Args[1] == "current-context":
		text = regexp.MustCompile(`^\S+\n$`).ReplaceAllString(text, "NAME\n")
	}
	if slices.Contains(tr.Args, "--dry-run=server") {
		text = maskUIDs(text)
	}
	text, ages := skeleton(text, slices.Contains(tr.Args, "--no-headers"))
	return reorder(tr, text), ages
}

// What kubectl describe prints by ranging over a map, whose order is random:
var (
	// lines: the data of a secret, and the limits of a LimitRange;
	mapLinesExpr = regexp.MustCompile(`(?m)^====\n(?:^\S+:  +\S.*\n)+|(?:^ *Container +(?:cpu|memory) .*\n)+`)
	// and texts under a key each: the data of a ConfigMap.
	mapTextsExpr = regexp.MustCompile(`(?ms)^====\n(?:^\S+:\n----\n.*?)^BinaryData$`)
	mapKeyExpr   = regexp.MustCompile(`(?m)^\S+:\n----\n`)
)

// reorder sorts what comes in no certain order.
func reorder(tr *Transcript, text string) string {
	switch {
	case tr.Args[0] == "drain":
		// All pods are evicted at once; the last line lists their errors.
		return sortLines(strings.NewReplacer("[error when", "[\nerror when", ", error when", "\nerror when", "]\n", "\n]\n", "], ", "\n], ").Replace(text))
	case slices.Contains(tr.Args, "cs") || slices.Contains(tr.Args, "componentstatuses"):
		// A real API server lists them in the order in which they answer it.
		return sortLines(text)
	case tr.Args[0] == "describe":
		text = mapLinesExpr.ReplaceAllStringFunc(text, sortLines)
		return mapTextsExpr.ReplaceAllStringFunc(text, sortTexts)
	}
	return text
}

func sortLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// sortTexts sorts the texts of a ConfigMap's data by their keys.
func sortTexts(data string) string {
	starts := mapKeyExpr.FindAllStringIndex(data, -1)
	end := strings.LastIndex(data, "\nBinaryData")
	texts := make([]string, len(starts))
	for i, start := range starts {
		until := end
		if i+1 < len(starts) {
			until = starts[i+1][0]
		}
		texts[i] = data[start[0]:until]
	}
	slices.Sort(texts)
	return data[:starts[0][0]] + strings.Join(texts, "") + data[end:]
}
