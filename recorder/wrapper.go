package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// WrapperFile holds what a kubectl wrapper saw, one Invocation per line, beside AuditFile.
const WrapperFile = "wrapper.jsonl"

const (
	// outputLimit bounds each text of an Invocation, in bytes.
	outputLimit = 256 << 10
	// argvLimit bounds the arguments, in bytes altogether.
	argvLimit = 64 << 10
	// wrapperLimit bounds the file that is read, in bytes.
	wrapperLimit = 256 << 20
)

// Invocation is one run of kubectl as its wrapper saw it. Times are in captured
// time once they are read with ReadInvocations; the file has the machine's.
type Invocation struct {
	// Argv are the arguments, "kubectl" first.
	Argv     []string  `json:"argv"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	ExitCode int       `json:"exitCode"`
	// Stdout and Stderr are what kubectl printed; StdoutDigest names it in Bodies
	// where it was too long for a line.
	Stdout       string `json:"stdout,omitempty"`
	StdoutDigest string `json:"stdoutDigest,omitempty"`
	Stderr       string `json:"stderr,omitempty"`
	// Truncated reports that an output is only its start.
	Truncated bool `json:"truncated,omitempty"`
	// Session is kubectl's, where the wrapper knows it.
	Session string `json:"session,omitempty"`
	// Filters are the commands that the output went through, such as ["grep", "-i",
	// "error"], and Shown is what came out at the end. Shown counts when it isn't nil.
	Filters [][]string `json:"filters,omitempty"`
	Shown   *string    `json:"shown,omitempty"`
}

// printed is what the user saw, and whether that is known.
func (v *Invocation) printed(bodies *Bodies) (string, bool) {
	switch {
	case v == nil || v.Truncated:
		return "", false
	case v.Shown != nil:
		return *v.Shown, true
	case v.StdoutDigest != "" && bodies != nil:
		body, err := bodies.Get(v.StdoutDigest)
		return string(body), err == nil
	case v.StdoutDigest != "":
		return "", false
	}
	return v.Stdout, true
}

// AppendInvocation adds a line to the record in dir. Any number of processes may do
// so at once: each line is one write to a file that is only appended to. Texts longer
// than 256 KiB are cut and marked.
func AppendInvocation(dir string, v Invocation) error {
	cut := func(s *string) {
		if len(*s) > outputLimit {
			*s, v.Truncated = bounded(*s, outputLimit), true
		}
	}
	cut(&v.Stdout)
	cut(&v.Stderr)
	if v.Shown != nil {
		shown := *v.Shown
		cut(&shown)
		v.Shown = &shown
	}
	size := 0
	for i, arg := range v.Argv {
		if size += len(arg); size > argvLimit {
			v.Argv, v.Truncated = v.Argv[:i:i], true
			break
		}
	}
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, WrapperFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	// A line that a killed writer left half done must not swallow this one: an empty line is skipped.
	line = append(append([]byte{'\n'}, line...), '\n')
	_, err = f.Write(line)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	return nil
}

// ReadInvocations reads the wrapper's lines and moves their times with captured,
// which may be nil. A record without a wrapper has none. The error joins what couldn't be
// read; the lines are good with it.
func ReadInvocations(dir string, captured func(time.Time) time.Time) ([]Invocation, error) {
	path := filepath.Join(dir, WrapperFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Size() > wrapperLimit {
		return nil, fmt.Errorf("recorder: %s is longer than %d bytes or can't be read: %w", path, wrapperLimit, err)
	}
	var out []Invocation
	var errs []error
	line := 0
	_, err = scanLines(f, func(text []byte) bool {
		line++
		if len(text) == 0 {
			return true
		}
		var v Invocation
		if err := json.Unmarshal(text, &v); err != nil {
			if len(errs) < 16 {
				errs = append(errs, fmt.Errorf("%s:%d: %w; the line is left out", path, line, err))
			}
			return true
		}
		if captured != nil {
			v.Start, v.End = captured(v.Start), captured(v.End)
		}
		out = append(out, v)
		return true
	})
	return out, errors.Join(append(errs, err)...)
}

// command is the command path that argv gives: "kubectl get", "kubectl rollout status".
func (v *Invocation) command() string {
	words := []string{"kubectl"}
	skip := false
	for i, arg := range v.Argv {
		if i == 0 || skip {
			skip = false
			continue
		}
		if strings.HasPrefix(arg, "-") {
			skip = valueFlags[arg]
			continue
		}
		words = append(words, arg)
		if !commandGroups[arg] || len(words) == 3 {
			break
		}
	}
	return strings.Join(words, " ")
}

// valueFlags are kubectl's flags that may stand before the command and take the next word.
var valueFlags = map[string]bool{
	"-n": true, "--namespace": true, "--context": true, "--kubeconfig": true, "--cluster": true, "--user": true,
	"-s": true, "--server": true, "--token": true, "--as": true, "--as-group": true, "--as-uid": true, "--request-timeout": true, "-v": true,
}

// commandGroups have commands of their own.
var commandGroups = map[string]bool{
	"rollout": true, "auth": true, "config": true, "set": true, "top": true, "create": true, "apply": true,
	"cluster-info": true, "certificate": true, "plugin": true,
}
