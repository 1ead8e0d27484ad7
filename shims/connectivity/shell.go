package connectivity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime/metrics"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxScript, maxExpansions and maxBraces bound what one script can grow to between two
	// looks at the memory.
	maxScript     = 16 << 10
	maxExpansions = 16
	maxBraces     = 4
	// maxGrowth is the memory that a script may take before it is ended, and memoryEvery how often it
	// is looked at.
	maxGrowth   = 128 << 20
	memoryEvery = 2 * time.Millisecond
)

// shells are the programs that run scripts.
var shells = map[string]bool{"sh": true, "bash": true, "ash": true, "dash": true}

// shell runs `sh -c SCRIPT [NAME [ARG...]]`, or what comes over stdin.
func (c *container) shell(ctx context.Context, argv []string, s streams) int {
	args := argv[1:]
	script, params, fromArgs := "", []string(nil), false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flag := args[0]
		args = args[1:]
		if strings.HasSuffix(flag, "c") && !strings.HasPrefix(flag, "--") {
			if len(args) == 0 {
				fmt.Fprintf(s.stderr, "%s: 0: -c requires an argument\n", path.Base(argv[0]))
				return 2
			}
			script, fromArgs = args[0], true
			if args = args[1:]; len(args) > 0 {
				params = args[1:]
			}
			break
		}
		if strings.Trim(flag, "-exlimu") != "" {
			return notCaptured(s, "how %s takes the option %s", argv[0], flag)
		}
	}
	if !fromArgs {
		if len(args) > 0 {
			return notCaptured(s, "the script %s", args[0])
		}
		text, err := io.ReadAll(io.LimitReader(s.stdin, maxScript+1))
		if err != nil {
			return 1
		}
		script, s.stdin = string(text), strings.NewReader("")
	}
	return c.script(ctx, argv[0], script, params, s)
}

// script parses and runs a script with the case's environment, files and commands. Nothing
// of this machine is in reach: files are opened in the case's tree, programs are the interpreter's own.
func (c *container) script(ctx context.Context, shell, script string, params []string, s streams) int {
	if len(script) > maxScript {
		return notCaptured(s, "what a script of more than %d bytes does", maxScript)
	}
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		var at syntax.ParseError
		message := err.Error()
		if errors.As(err, &at) {
			message = at.Text
		}
		fmt.Fprintf(s.stderr, "%s: 1: Syntax error: %s\n", path.Base(shell), message)
		return 2
	}
	if why := tooMuch(parsed); why != "" {
		return notCaptured(s, "what a script with %s does", why)
	}
	known, unknown := c.variables()
	files := c.files()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	run := &scriptRun{container: c, shell: shell, lack: s.lack, plain: plainCommands(parsed), ctx: ctx, end: end}
	errs := &errorWriter{s.stderr, run}
	s.lack.shows(errs, s.stderr)
	env := environ{
		Environ: expand.ListEnviron(append(known, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")...), run: run, undecided: map[string]string{}, stderr: errs,
	}
	for _, v := range unknown {
		env.undecided[v.name] = v.undecided
	}
	runner, err := interp.New(
		interp.Env(env),
		interp.Params(append([]string{"--"}, params...)...),
		interp.StdIO(s.stdin, s.stdout, errs),
		interp.CallHandler(run.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return run.program }),
		interp.OpenHandler(func(ctx context.Context, name string, flag int, _ os.FileMode) (io.ReadWriteCloser, error) {
			if file, ok, err := run.device(ctx, name); ok {
				return file, err
			}
			file, err := openFile(files, absolute(interp.HandlerCtx(ctx).Dir, name), flag)
			return file, run.decided(ctx, err)
		}),
		interp.ReadDirHandler2(func(_ context.Context, name string) ([]fs.DirEntry, error) {
			var out []fs.DirEntry
			for _, entry := range files.names(path.Clean(name)) {
				if i, err := files.stat(path.Join(name, entry)); err == nil {
					out = append(out, fs.FileInfoToDirEntry(i))
				}
			}
			return out, nil
		}),
		interp.StatHandler(func(ctx context.Context, name string, _ bool) (fs.FileInfo, error) {
			i, err := files.stat(absolute(interp.HandlerCtx(ctx).Dir, name))
			if run.decided(ctx, err) != nil {
				return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
			}
			return i, nil
		}),
		interp.AccessHandler(func(ctx context.Context, name string, _ interp.AccessMode) error {
			_, err := files.stat(absolute(interp.HandlerCtx(ctx).Dir, name))
			return run.decided(ctx, err)
		}),
	)
	if err != nil {
		return notCaptured(s, "how a shell begins: %v", err)
	}
	runner.Dir = "/"
	if c.spec.WorkingDir != "" {
		runner.Dir = path.Clean("/" + c.spec.WorkingDir)
	}
	go watchMemory(ctx, func() { end(nil) })
	err = runner.Run(ctx, parsed)
	if run.stopped() {
		return NotCapturedCode
	}
	if status, ok := interp.IsExitStatus(err); ok {
		return int(status)
	}
	if ctx.Err() != nil {
		return notCaptured(s, "what a script does that takes more time, memory or output than it gets")
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "%s: 1: %v\n", path.Base(shell), err)
		return 2
	}
	return 0
}

// watchMemory ends a script while the process grows.
func watchMemory(ctx context.Context, cancel context.CancelFunc) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 { metrics.Read(sample); return sample[0].Value.Uint64() }
	began := read()
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if now := read(); now > began+maxGrowth {
				cancel()
				return
			}
		}
	}
}

// tooMuch says what in a script could grow beyond bounds within one step, or reach this
// machine; empty for none.
func tooMuch(f *syntax.File) string {
	why, braces := "", 0
	syntax.Walk(f, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.ProcSubst:
			why = "process substitution"
		case *syntax.CoprocClause:
			why = "a coprocess"
		case *syntax.Word:
			expansions := 0
			for _, part := range n.Parts {
				expansions += countExpansions(part)
				if lit, ok := part.(*syntax.Lit); ok && strings.Contains(lit.Value, "{") && (strings.Contains(lit.Value, "..") || strings.Contains(lit.Value, ",")) {
					braces++
					if strings.Contains(lit.Value, "..") {
						why = "a range in braces"
					}
				}
			}
			if expansions > maxExpansions {
				why = "so many expansions in one word"
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && n.Args[0].Lit() == "printf" {
				for _, arg := range n.Args[1:] {
					var text bytes.Buffer
					_ = syntax.NewPrinter().Print(&text, arg) // a Buffer takes everything
					if longNumber(text.String()) {
						why = "such a width"
					}
				}
			}
		}
		return why == ""
	})
	if why == "" && braces > maxBraces {
		why = "so many braces"
	}
	return why
}

func countExpansions(part syntax.WordPart) int {
	switch p := part.(type) {
	case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
		return 1
	case *syntax.DblQuoted:
		n := 0
		for _, inner := range p.Parts {
			n += countExpansions(inner)
		}
		return n
	}
	return 0
}

// longNumber reports a number of more than four digits behind a percent sign.
func longNumber(text string) bool {
	for _, part := range strings.Split(text, "%")[1:] {
		part = strings.TrimLeft(part, "-+ #0'*.")
		if digits := len(part) - len(strings.TrimLeft(part, "0123456789.")); digits > 4 {
			return true
		}
	}
	return false
}

// call sees every command of a script before it runs: builtins that would look at this
// machine are the interpreter's own.
func (r *scriptRun) call(_ context.Context, args []string) ([]string, error) {
	if r.stopped() {
		return nil, errStopped
	}
	switch args[0] {
	case "command", "type":
		// `command NAME ARG...` runs it; with -v it asks where it is.
		if args[0] == "command" && len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			return args[1:], nil
		}
		return append([]string{"kubecase-which"}, args...), nil
	case "read", "echo", "printf", "cd", "test", "[", "true", "false", ":", "exit", "return", "set", "shift", "export", "unset", "local", "pwd", "break", "continue", "wait", "getopts", "readonly":
		return args, nil
	}
	if interp.IsBuiltin(args[0]) {
		return append([]string{"kubecase-builtin"}, args...), nil
	}
	return args, nil
}

// program runs a command of a script that isn't a builtin.
func (r *scriptRun) program(ctx context.Context, args []string) error {
	h := interp.HandlerCtx(ctx)
	s := streams{stdin: h.Stdin, stdout: h.Stdout, stderr: h.Stderr, lack: r.lack}
	before := r.lack.count()
	if s.stdin == nil {
		s.stdin = strings.NewReader("")
	}
	var code int
	switch args[0] {
	case "kubecase-builtin":
		code = notCaptured(s, "how the shell's %s works", args[1])
	case "kubecase-which":
		code = which(args[1:], s)
	default:
		run, err := r.captured(args)
		if err == nil && run != nil && !strings.Contains(run.Stderr, "unable to start container process") {
			code, err = r.play(run, s)
		} else {
			code = r.command(ctx, args, s)
		}
		if err != nil {
			return interp.NewExitStatus(1)
		}
	}
	if r.lack.count() > before && !r.plain[h.Pos] {
		r.end(errStopped)
		return errStopped
	}
	if code != 0 {
		return interp.NewExitStatus(uint8(code))
	}
	return nil
}

// which answers `command -v` and `type` for what the interpreter has.
func which(args []string, s streams) int {
	code := 0
	for _, name := range args[1:] {
		if strings.HasPrefix(name, "-") {
			continue
		}
		if interp.IsBuiltin(name) {
			fmt.Fprintln(s.stdout, name)
			continue
		}
		code = notCaptured(s, "whether the container has %s", name)
	}
	return code
}

func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", dir, name)
}

// openFile opens a file of the case's tree for reading; /dev/null takes what is written.
func openFile(t *tree, name string, flag int) (io.ReadWriteCloser, error) {
	if name == "/dev/null" {
		return nowhere{}, nil
	}
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND) != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("read-only file system")}
	}
	text, err := t.read(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &reading{strings.NewReader(text)}, nil
}

// nowhere is /dev/null.
type nowhere struct{}

// Read implements io.Reader.
func (nowhere) Read([]byte) (int, error) { return 0, io.EOF }

// Write implements io.Writer.
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// Close implements io.Closer.
func (nowhere) Close() error { return nil }

// reading is a file that is read.
type reading struct{ *strings.Reader }

// Write implements io.Writer; the file is read-only.
func (reading) Write([]byte) (int, error) { return 0, fs.ErrPermission }

// Close implements io.Closer.
func (reading) Close() error { return nil }
