package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kubecase/kubecase/recorder"
)

const (
	// invocationsVariable names the folder to which the wrapper writes what it saw.
	invocationsVariable = "KUBECASE_INVOCATIONS"
	// shownLimit bounds what the wrapper keeps of one output, in bytes.
	shownLimit = 1 << 20
	// filterTime bounds how long a filter may take to run again.
	filterTime = 2 * time.Second
)

// wrapKubectl runs kubectl as it was called and notes the arguments, the exit code
// and what was printed, in the folder dir.
func (a *app) wrapKubectl(dir string, args []string) int {
	env := slices.DeleteFunc(slices.Clone(a.environ), func(v string) bool { return strings.HasPrefix(v, invocationsVariable+"=") })
	program, before := a.realKubectl()
	var stdout, stderr capped
	command := exec.Command(program, append(before, args...)...)
	command.Env, command.Stdin = env, a.in
	out := &wrappedOutput{out: a.out}
	command.Stdout, command.Stderr = io.MultiWriter(&stdout, out), io.MultiWriter(a.err, &stderr)
	// A filter that leaves early must not end the wrapper, which has a line to write.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	v := recorder.Invocation{Argv: append([]string{"kubectl"}, args...), Start: time.Now()}
	// A signal to the group reaches kubectl as well; the wrapper waits for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	err := command.Start()
	if err == nil {
		done := make(chan struct{})
		go func() {
			select {
			case s := <-signals:
				_ = command.Process.Signal(s)
			case <-done:
			}
		}()
		err = command.Wait()
		close(done)
	}
	v.End = time.Now()
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
	case errors.As(err, &exit):
		v.ExitCode = exit.ExitCode()
		if code := signalCode(exit.ProcessState); code != 0 {
			v.ExitCode = code
		}
	case command.ProcessState != nil: // who reads the output has left
		v.ExitCode = command.ProcessState.ExitCode()
	default:
		fmt.Fprintf(a.err, "kubectl: %v\n", err)
		v.ExitCode = exitFailure
	}
	v.Stdout, v.Stderr, v.Truncated = stdout.String(), stderr.String(), stdout.cut
	if filters := out.pipeline(); len(filters) > 0 && !v.Truncated {
		v.Filters = filters
		if shown, ok := refilter(v.Stdout, filters, env); ok {
			v.Shown = &shown
		}
	}
	if err := recorder.AppendInvocation(dir, v); err != nil {
		fmt.Fprintf(a.err, "kubecase: this kubectl command is not noted: %v\n", err)
	}
	return v.ExitCode
}

// realKubectl is the next kubectl in the search path after the wrapper's own, or
// the built-in one.
func (a *app) realKubectl() (program string, before []string) {
	self, err := os.Executable()
	if err != nil {
		return "kubectl", nil
	}
	own, _ := os.Stat(self)
	path, _ := a.lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, "kubectl")
		info, err := os.Stat(candidate)
		if err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && (own == nil || !os.SameFile(own, info)) {
			return candidate, nil
		}
	}
	return self, []string{"kubectl"}
}

// wrappedOutput passes kubectl's output on. Before the first byte it looks who reads it:
// a filter such as head is gone when kubectl ends.
type wrappedOutput struct {
	out     io.Writer
	looks   int
	filters [][]string
}

// maxLooks bounds how often the process list is read.
const maxLooks = 10

// Write implements io.Writer.
func (w *wrappedOutput) Write(p []byte) (int, error) {
	w.pipeline()
	return w.out.Write(p)
}

// pipeline is the filters that were seen first; a shell may not have started them yet.
func (w *wrappedOutput) pipeline() [][]string {
	if w.looks++; w.filters == nil && w.looks <= maxLooks {
		w.filters = pipeline(os.Stdout)
	}
	return w.filters
}

// capped keeps the start of what is written to it.
type capped struct {
	bytes.Buffer
	cut bool
}

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	if keep := min(len(p), shownLimit-c.Len()); keep < len(p) {
		c.cut = true
		c.Buffer.Write(p[:keep])
		return len(p), nil
	}
	return c.Buffer.Write(p)
}

// pureFilters are programs that only print some of what they read, and so can be
// run again on the same input to learn what they printed.
var pureFilters = []string{"grep", "egrep", "fgrep", "head", "tail", "sort", "uniq", "wc", "cut", "tr", "cat", "column", "jq"}

// pipeline is the commands behind a pipe, in order, as far as they are pure filters
// that read nothing but their input: for `kubectl get pods | grep -v Running | head -1`
// the grep and the head. It is found through the process list; nil where there
// is none.
func pipeline(stdout *os.File) [][]string {
	var out [][]string
	link := fmt.Sprintf("/proc/self/fd/%d", stdout.Fd())
	seen := map[int]bool{os.Getpid(): true}
	for len(out) < 10 {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, "pipe:") {
			break
		}
		pid := readerOf(target, seen)
		if pid == 0 {
			break
		}
		seen[pid] = true
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			break
		}
		argv := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		if !slices.Contains(pureFilters, filepath.Base(argv[0])) {
			break // the shell, or the agent, which reads all of it
		}
		out = append(out, argv)
		link = fmt.Sprintf("/proc/%d/fd/1", pid)
	}
	return out
}

// readerOf is the process whose standard input is a pipe; 0 for none.
func readerOf(pipe string, seen map[int]bool) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || seen[pid] {
			continue
		}
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid)); err == nil && target == pipe {
			return pid
		}
	}
	return 0
}

// refilter runs filters again over a text. They read no files and write none: an
// argument that could name one means that what they showed isn't known.
func refilter(text string, filters [][]string, env []string) (string, bool) {
	for _, argv := range filters {
		if !readsInputOnly(argv) {
			return "", false
		}
		var out capped
		command := exec.Command(argv[0], argv[1:]...)
		command.Path = lookPath(argv[0], env, command.Path)
		command.Err = nil
		command.Env, command.Stdin, command.Stdout = env, strings.NewReader(text), &out
		timer := time.AfterFunc(filterTime, func() {
			if command.Process != nil {
				_ = command.Process.Kill()
			}
		})
		err := command.Run()
		timer.Stop()
		if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) {
			return "", false
		}
		if out.cut {
			return "", false
		}
		text = out.String()
	}
	return text, true
}

// valued are the short options of filters that take the next argument.
var valued = map[string]string{
	"grep": "ABCmed", "egrep": "ABCmed", "fgrep": "ABCmed", "head": "nc", "tail": "nc", "sort": "kt", "uniq": "fsw", "cut": "dfbc", "column": "sco",
}

// readsInputOnly reports whether a filter's arguments name no file, as far as can be
// told. grep and its kin and jq take one pattern, tr two sets; others none.
func readsInputOnly(argv []string) bool {
	program := filepath.Base(argv[0])
	words, patterns := 0, 0
	switch program {
	case "grep", "egrep", "fgrep", "jq":
		patterns = 1
	case "tr":
		patterns = 2
	}
	greps := strings.HasSuffix(program, "grep")
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case arg == "-":
		case !strings.HasPrefix(arg, "-") || arg == "--":
			words++
		case greps && (arg == "-f" || name == "--file" || arg == "-r" || arg == "-R" || name == "--recursive"),
			program == "sort" && (strings.HasPrefix(arg, "-o") || name == "--output" || name == "--files0-from" || strings.HasPrefix(arg, "-T")),
			program == "tail" && (strings.HasPrefix(arg, "-f") || strings.HasPrefix(arg, "-F") || name == "--follow"),
			program == "jq" && (arg == "-f" || name == "--from-file" || strings.HasPrefix(arg, "--slurpfile") || strings.HasPrefix(arg, "--rawfile") || arg == "-L"):
			return false
		case len(arg) == 2 && strings.Contains(valued[program], arg[1:]):
			i++
			if greps && arg == "-e" {
				patterns = 0
			}
		}
	}
	return words <= patterns
}
