package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// outputLimit bounds what is kept of what an agent prints to one stream, in bytes.
	outputLimit = 64 << 20
	// answerTail is how much of the end of an agent's output is searched for its answer.
	answerTail = 1 << 20
	// graceTime is what an agent gets to end by itself when its time is over.
	graceTime = 3 * time.Second
)

// agentEnvironment are the variables that an agent is told of; nothing of the
// operator's own gets in but what is listed here or asked for with --env.
type agentEnvironment struct {
	home, kubeconfig, query, queryFile, answerFile string
	// path is the search path; programs is put before it.
	path, programs, invocations string
	// extra are NAME=VALUE, last.
	extra []string
}

// keptVariables are passed on: they say nothing but how to speak and draw.
var keptVariables = []string{"LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "SHELL"}

func (e agentEnvironment) variables(lookup func(string) (string, bool)) []string {
	env := []string{
		"PATH=" + e.programs + string(os.PathListSeparator) + e.path, "HOME=" + e.home, "TMPDIR=" + e.home, "KUBECONFIG=" + e.kubeconfig,
		"KUBECASE_QUERY=" + e.query, "KUBECASE_QUERY_FILE=" + e.queryFile, "KUBECASE_ANSWER_FILE=" + e.answerFile,
	}
	if e.invocations != "" {
		env = append(env, invocationsVariable+"="+e.invocations)
	}
	for _, name := range keptVariables {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, e.extra...)
}

// agentProcess is an agent that runs in a process group of its own.
type agentProcess struct {
	argv        []string
	dir         string
	env         []string
	stdin       string
	stdout, err *boundedFile
}

// run runs the agent until it ends or ctx is done; then the whole group is asked to
// end, and made to after a while. Nothing of the group is left. The exit code is
// nil when the agent was ended.
func (p agentProcess) run(ctx context.Context) (*int, error) {
	command := exec.Command(p.argv[0], p.argv[1:]...)
	command.Path = lookPath(p.argv[0], p.env, command.Path)
	command.Dir, command.Env, command.Stdin = p.dir, p.env, strings.NewReader(p.stdin)
	command.Stdout, command.Stderr = p.stdout, p.err
	ownGroup(command)
	// A grandchild that left the group may hold the pipes: they don't keep the episode open.
	command.WaitDelay = graceTime
	if command.Err != nil && errors.Is(command.Err, exec.ErrNotFound) && filepath.IsAbs(command.Path) {
		command.Err = nil // it is in the agent's path
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("the agent can't be started: %w", err)
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-ended:
		case <-ctx.Done():
			endGroup(command, false)
			select {
			case <-ended:
			case <-time.After(graceTime):
				endGroup(command, true)
			}
		}
	})
	err := command.Wait()
	close(ended)
	watching.Wait()
	endGroup(command, true) // what the agent left running
	if ctx.Err() != nil {
		return nil, nil
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, err
	}
	code := command.ProcessState.ExitCode()
	return &code, nil
}

// lookPath finds a program as the agent would: in its own path.
func lookPath(name string, env []string, found string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		if absolute, err := filepath.Abs(name); err == nil {
			return absolute
		}
		return found
	}
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	if i < 0 {
		return found
	}
	for _, dir := range filepath.SplitList(strings.TrimPrefix(env[i], "PATH=")) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return found
}

// boundedFile keeps the start of what is written to it in a file, and its end in memory.
type boundedFile struct {
	mu   sync.Mutex
	file *os.File
	size int64
	tail []byte
	// echo is where it is shown, too; nil: nowhere.
	echo io.Writer
}

func newBoundedFile(name string, echo io.Writer) (*boundedFile, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	return &boundedFile{file: f, echo: echo}, err
}

// Write implements io.Writer. It takes everything: an agent isn't held up by
// what is not kept.
func (f *boundedFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if keep := min(int64(len(p)), outputLimit-f.size); keep > 0 {
		if _, err := f.file.Write(p[:keep]); err != nil {
			return 0, err
		}
	}
	f.size += int64(len(p))
	f.tail = append(f.tail, p...)
	if len(f.tail) > 2*answerTail {
		f.tail = append([]byte(nil), f.tail[len(f.tail)-answerTail:]...)
	}
	if f.echo != nil {
		_, _ = f.echo.Write(p) // who watches is not the agent's concern
	}
	return len(p), nil
}

// end is the end of what was written, at most answerTail bytes.
func (f *boundedFile) end() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]byte(nil), f.tail[max(0, len(f.tail)-answerTail):]...)
}

func (f *boundedFile) Close() error { return f.file.Close() }
