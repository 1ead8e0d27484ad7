package connectivity

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"
)

// program answers one command. args are those behind its name.
type program func(ctx context.Context, c *container, name string, args []string, s streams) int

// programs are what the interpreter knows. What an investigator asks of a pod: the
// network, names, the environment, files; and what filters their output.
var programs map[string]program

func init() {
	programs = map[string]program{
		"nc": netcat, "ncat": netcat, "netcat": netcat, "telnet": telnet, "ping": ping,
		"curl": curl, "wget": wget,
		"nslookup": nslookup, "dig": dig, "getent": getent, "host": hostCommand,
		"env": env, "printenv": printenv, "hostname": hostname, "date": date, "sleep": sleep,
		"cat": cat, "ls": ls, "head": head, "tail": tailCommand, "grep": grep, "egrep": grep, "fgrep": grep,
		"wc": wc, "sort": sortCommand, "uniq": uniq, "cut": cut, "tr": tr, "tee": tee, "tar": archive,
		"true":  func(context.Context, *container, string, []string, streams) int { return 0 },
		"false": func(context.Context, *container, string, []string, streams) int { return 1 },
		"echo": func(_ context.Context, _ *container, _ string, args []string, s streams) int {
			fmt.Fprintln(s.stdout, strings.Join(args, " "))
			return 0
		},
	}
}

// command runs a program of the interpreter by its base name.
func (c *container) command(ctx context.Context, argv []string, s streams) int {
	base := path.Base(argv[0])
	if c.Of != nil {
		if rest, ok := onNode(argv); ok {
			return c.runOnHost(ctx, rest, s)
		}
		if base == "sudo" && len(argv) > 1 && !strings.HasPrefix(argv[1], "-") {
			return c.runOnHost(ctx, argv[1:], s)
		}
	}
	if shells[base] {
		return c.shell(ctx, argv, s)
	}
	if base == "busybox" && len(argv) > 1 {
		return c.command(ctx, argv[1:], s)
	}
	if base == "timeout" && len(argv) > 2 {
		return c.timeout(ctx, argv[1:], s)
	}
	p := programs[base]
	if p == nil && c.Of != nil {
		return notCaptured(s, "what %q prints on node %q", strings.Join(argv, " "), c.pod.Spec.NodeName)
	}
	if p == nil {
		return notCaptured(s, "what %q prints in container %q of pod %q; ask for commands that were captured, or %s", strings.Join(argv, " "), c.name, c.pod.Name, "nc, curl, wget, nslookup, dig, getent, env, cat, ls, grep, head, tail")
	}
	return p(ctx, c, argv[0], argv[1:], s)
}

// timeout runs what is behind the options and the duration: no command takes longer
// than it was captured to.
func (c *container) timeout(ctx context.Context, args []string, s streams) int {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "-t" || args[0] == "-s" || args[0] == "-k" {
			args = args[1:]
		}
		if len(args) > 0 {
			args = args[1:]
		}
	}
	if len(args) > 0 && args[0] != "" && args[0][0] >= '0' && args[0][0] <= '9' {
		args = args[1:]
	}
	if len(args) == 0 {
		return notCaptured(s, "what timeout does without a command")
	}
	return c.command(ctx, args, s)
}

func env(ctx context.Context, c *container, _ string, args []string, s streams) int {
	for len(args) > 0 && strings.Contains(args[0], "=") {
		args = args[1:]
	}
	if len(args) > 0 {
		if strings.HasPrefix(args[0], "-") {
			return notCaptured(s, "how env takes the option %s", args[0])
		}
		return c.command(ctx, args, s)
	}
	return c.printVariables(s)
}

func (c *container) printVariables(s streams) int {
	known, undecided := c.variables()
	for _, v := range known {
		fmt.Fprintln(s.stdout, v)
	}
	code := 0
	for _, v := range undecided {
		s.say("the value of %s: %s", v.name, v.undecided) // the others are printed
		code = NotCapturedCode
	}
	return code
}

func printenv(_ context.Context, c *container, _ string, args []string, s streams) int {
	if len(args) == 0 {
		return c.printVariables(s)
	}
	all := map[string]variable{}
	for _, v := range c.environment() {
		all[v.name] = v
	}
	code := 0
	for _, name := range args {
		v, ok := all[name]
		switch {
		case ok && v.undecided == "":
			fmt.Fprintln(s.stdout, v.value)
		case ok:
			return notCaptured(s, "the value of %s: %s", name, v.undecided)
		case imageVariables[name]:
			return notCaptured(s, "the value of %s, which the image sets", name)
		default:
			code = 1
		}
	}
	return code
}

// imageVariables are set by images and runtimes rather than by pods.
var imageVariables = map[string]bool{"PATH": true, "HOME": true, "LANG": true, "TERM": true, "USER": true, "PWD": true, "SHLVL": true}

func hostname(_ context.Context, c *container, _ string, args []string, s streams) int {
	switch {
	case len(args) == 0, args[0] == "-s":
		fmt.Fprintln(s.stdout, c.hostname())
	case args[0] == "-i" || args[0] == "-I":
		var all []string
		for _, ip := range c.pod.Status.PodIPs {
			all = append(all, ip.IP)
		}
		fmt.Fprintln(s.stdout, strings.Join(all, " "))
	default:
		return notCaptured(s, "how hostname takes the option %s", args[0])
	}
	return 0
}

// date prints the present of the episode, in UTC, which is what containers have unless told otherwise.
func date(_ context.Context, c *container, _ string, args []string, s streams) int {
	now := c.Clock.Present(time.Now()).Add(c.Clock.Offset()).UTC()
	layout := "Mon Jan _2 15:04:05 UTC 2006"
	for _, a := range args {
		switch {
		case a == "-u" || a == "--utc":
		case a == "-Iseconds" || a == "--iso-8601=seconds":
			layout = "2006-01-02T15:04:05+00:00"
		case a == "+%s":
			fmt.Fprintln(s.stdout, now.Unix())
			return 0
		case a == "+%Y-%m-%dT%H:%M:%SZ":
			layout = "2006-01-02T15:04:05Z"
		default:
			return notCaptured(s, "how date takes %s", a)
		}
	}
	fmt.Fprintln(s.stdout, now.Format(layout))
	return 0
}

func sleep(ctx context.Context, _ *container, _ string, args []string, s streams) int {
	if len(args) != 1 {
		return notCaptured(s, "how sleep takes these arguments")
	}
	text := args[0]
	if text == "infinity" {
		text = maxCommand.String()
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 0 {
			fmt.Fprintf(s.stderr, "sleep: invalid time interval '%s'\n", args[0])
			return 1
		}
		d = time.Duration(n * float64(time.Second))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-ctx.Done():
		return 143
	}
}

// fileArgs gives the contents of the named files, or of stdin, to use. It is false when one
// couldn't be read, which was said then.
func (c *container) fileArgs(name string, files []string, s streams, use func(file, text string)) (int, bool) {
	if len(files) == 0 {
		files = []string{"-"}
	}
	t := c.files()
	code := 0
	for _, f := range files {
		if f == "-" {
			text, err := io.ReadAll(io.LimitReader(s.stdin, maxOutput))
			if err != nil {
				return 1, false
			}
			use("", string(text))
			continue
		}
		text, err := t.read(absolute(c.workingDir(), f))
		switch {
		case err == nil:
			use(f, text)
		case err == errIsDir:
			fmt.Fprintf(s.stderr, "%s: %s: Is a directory\n", name, f)
			code = 1
		case isUndecided(err):
			return notCaptured(s, "%v of container %q of pod %q", err, c.name, c.pod.Name), false
		default:
			fmt.Fprintf(s.stderr, "%s: %s: No such file or directory\n", name, f)
			code = 1
		}
	}
	return code, true
}

func (c *container) workingDir() string {
	if c.spec.WorkingDir != "" {
		return c.spec.WorkingDir
	}
	return "/"
}

func isUndecided(err error) bool {
	_, ok := err.(errUndecided)
	return ok
}
