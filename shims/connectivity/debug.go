package connectivity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kubecase/kubecase/fixtures"
)

// Debug runs the command of a debugging pod, Target.Of, on its node, without input. It is false,
// and nothing ran, where the container stays: it waits for input, runs a shell or sleeps.
func Debug(ctx context.Context, t Target, output io.Writer) (exitCode int, ended bool, err error) {
	c, err := open(t)
	if err != nil {
		return 0, false, err
	}
	argv := c.argv()
	if c.spec.Stdin || waits(argv) {
		return 0, false, nil
	}
	code, err := c.exec(ctx, argv, streams{stdout: output, stderr: output})
	return code, true, err
}

// AttachDebug attaches to the container of a debugging pod that waits for input: its command
// runs now. report is told what came of it, and ended the whole of what was printed.
func AttachDebug(w http.ResponseWriter, req *http.Request, t Target, report func(Run), ended func(exitCode int, output []byte)) error {
	c, err := open(t)
	if err != nil {
		return err
	}
	return serveStreams(w, req, func(ctx context.Context, s streams) (int, error) {
		if refusal := c.refusal(); refusal != "" || !c.spec.Stdin {
			return 0, fmt.Errorf("container %q of pod %q doesn't wait for input: read what it printed with kubectl logs, or execute commands in it", c.name, c.pod.Name)
		}
		argv := c.argv()
		if len(argv) == 0 {
			argv = []string{"sh"}
		}
		out, whole := &capture{limit: keptOutput}, &capture{limit: maxOutput}
		lacks := &lack{}
		code, err := c.exec(ctx, argv, streams{stdin: s.stdin, stdout: whole.tee(out.tee(s.stdout)), stderr: whole.tee(out.tee(s.stderr)), lack: lacks})
		if err != nil {
			return code, err
		}
		report(Run{Output: out.text(), ExitCode: code, NotCaptured: lacks.count() > 0})
		ended(code, []byte(whole.text()))
		return 0, nil // who attaches isn't told how the command ended
	})
}

func (c *container) argv() []string { return slices.Concat(c.spec.Command, c.spec.Args) }

// waits reports a command that stays: an idle program, or a shell that has nothing to run.
func waits(argv []string) bool {
	if rest, ok := onNode(argv); ok {
		return waits(rest)
	}
	if len(argv) == 0 {
		return true
	}
	base := path.Base(argv[0])
	switch {
	case base == "sleep", base == "pause", base == "tail" && slices.Contains(argv, "-f"):
		return true
	case shells[base]:
		script := slices.IndexFunc(argv, func(a string) bool { return strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") })
		if script < 0 || script+1 >= len(argv) {
			return len(argv) == 1 || strings.HasPrefix(argv[len(argv)-1], "-")
		}
		words := strings.Fields(argv[script+1])
		return len(words) > 0 && words[0] == "sleep" && len(words) == 2
	}
	return false
}

// nsenterValues are nsenter's options that take the next word.
var nsenterValues = []string{"-t", "--target", "-S", "--setuid", "-G", "--setgid"}

// onNode is what a command runs on the node itself: behind `chroot /host`, or in the
// namespaces of the node's first process. A shell where it names nothing to run.
func onNode(argv []string) ([]string, bool) {
	if len(argv) == 0 {
		return nil, false
	}
	rest := argv[1:]
	switch path.Base(argv[0]) {
	case "chroot":
		for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
			rest = rest[1:]
		}
		if len(rest) == 0 || path.Clean(rest[0]) != "/host" {
			return nil, false
		}
		rest = rest[1:]
	case "nsenter":
		for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
			flag := rest[0]
			rest = rest[1:]
			if flag == "--" {
				break
			}
			if slices.Contains(nsenterValues, flag) && len(rest) > 0 {
				rest = rest[1:]
			}
		}
	default:
		return nil, false
	}
	if len(rest) == 0 {
		rest = []string{"sh"}
	}
	return rest, true
}

// onHost is the same container with the node's own root: nothing of its files is known.
func (c *container) onHost() *container {
	h := *c
	h.host = true
	return &h
}

// nodeRun finds a command that was run on the node of a debugging pod.
func (c *container) nodeRun(argv []string) (*fixtures.CommandRun, error) {
	runs, err := fixtures.ReadEntries[fixtures.CommandRun](c.Case, fixtures.NodeCommandsDocument(c.pod.Spec.NodeName))
	if err != nil {
		return nil, err
	}
	asked := plainCommand(argv)
	for i := range runs {
		r := &runs[i]
		if r.Stdin != "" {
			continue
		}
		if slices.Equal(r.Command, argv) || c.host && slices.Equal(plainCommand(r.Command), asked) {
			return r, nil
		}
	}
	if !c.host {
		return nil, nil
	}
	switch {
	case len(asked) == 3 && asked[0] == "systemctl" && (asked[1] == "is-active" || asked[1] == "is-failed"):
		return unitState(runs, asked[1], asked[2]), nil
	case len(asked) > 0 && asked[0] == "journalctl":
		return journal(runs, asked[1:]), nil
	}
	return nil, nil
}

// plainCommand is a command without what changes nothing of what is asked: sudo, pagers, the
// ending of a unit's name.
func plainCommand(argv []string) []string {
	if rest, ok := onNode(argv); ok {
		return plainCommand(rest)
	}
	if len(argv) > 1 && path.Base(argv[0]) == "sudo" && !strings.HasPrefix(argv[1], "-") {
		return plainCommand(argv[1:])
	}
	if len(argv) == 0 {
		return nil
	}
	base := path.Base(argv[0])
	if base == "service" && len(argv) == 3 && argv[2] == "status" {
		return []string{"systemctl", "status", argv[1]}
	}
	out := []string{base}
	for _, a := range argv[1:] {
		if base == "systemctl" || base == "journalctl" {
			if slices.Contains([]string{"--no-pager", "-l", "--full", "--all", "-a", "-q", "--quiet"}, a) {
				continue
			}
			a = strings.TrimSuffix(a, ".service")
		}
		out = append(out, a)
	}
	return out
}

// unitState is what systemctl says of a unit's state, from its captured status; nil without one.
func unitState(runs []fixtures.CommandRun, verb, unit string) *fixtures.CommandRun {
	for i := range runs {
		if !slices.Equal(plainCommand(runs[i].Command), []string{"systemctl", "status", unit}) {
			continue
		}
		for line := range strings.Lines(runs[i].Stdout) {
			state, ok := strings.CutPrefix(strings.TrimSpace(line), "Active: ")
			if !ok {
				continue
			}
			state, _, _ = strings.Cut(state, " ")
			code := 0
			if verb == "is-active" && state != "active" && state != "reloading" {
				code = 3
			}
			if verb == "is-failed" && state != "failed" {
				code = 1
			}
			return &fixtures.CommandRun{Stdout: state + "\n", ExitCode: code}
		}
	}
	return nil
}

// journalQuery is what is asked of a unit's journal: the last lines, -1 for all.
type journalQuery struct {
	unit  string
	lines int
}

// parseJournal reads journalctl's arguments; false for those that select in other ways.
func parseJournal(args []string) (q journalQuery, ok bool) {
	q.lines = -1
	for len(args) > 0 {
		name, value, glued := strings.Cut(args[0], "=")
		args = args[1:]
		switch {
		case glued:
		case strings.HasPrefix(name, "-u") && len(name) > 2, strings.HasPrefix(name, "-n") && len(name) > 2:
			name, value = name[:2], name[2:]
		case (name == "-u" || name == "--unit" || name == "-n" || name == "--lines") && len(args) > 0:
			value, args = args[0], args[1:]
		}
		switch name {
		case "-u", "--unit":
			if q.unit != "" {
				return q, false
			}
			q.unit = strings.TrimSuffix(value, ".service")
		case "-n", "--lines":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return q, false
			}
			q.lines = n
		case "-e", "-x", "-xe", "-ex": // the end first, with explanations: the same lines
		default:
			return q, false
		}
	}
	return q, q.unit != ""
}

// journal cuts the end of a unit's journal from one that was captured with as many lines; nil
// without one.
func journal(runs []fixtures.CommandRun, args []string) *fixtures.CommandRun {
	asked, ok := parseJournal(args)
	if !ok {
		return nil
	}
	for i := range runs {
		command := plainCommand(runs[i].Command)
		if len(command) == 0 || command[0] != "journalctl" {
			continue
		}
		held, ok := parseJournal(command[1:])
		if !ok || held.unit != asked.unit || runs[i].ExitCode != 0 || held.lines >= 0 && (asked.lines < 0 || asked.lines > held.lines) {
			continue
		}
		out := runs[i]
		if asked.lines >= 0 {
			lines := bytes.SplitAfter([]byte(out.Stdout), []byte("\n"))
			if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
				lines = lines[:n-1]
			}
			out.Stdout = string(bytes.Join(lines[max(0, len(lines)-asked.lines):], nil))
		}
		return &out
	}
	return nil
}

// runOnHost runs a command on the node of a debugging pod.
func (c *container) runOnHost(ctx context.Context, argv []string, s streams) int {
	h := c.onHost()
	run, err := h.captured(argv)
	if err == nil && run != nil {
		var code int
		if code, err = h.play(run, s); err == nil {
			return code
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return notCaptured(s, "what %s prints: %v", argv[0], err)
	}
	return h.command(ctx, argv, s)
}
