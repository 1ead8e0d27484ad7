package connectivity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/kubecase/kubecase/fixtures"
)

// lack is what the case doesn't decide of one command in a container. Its methods may be called on nil.
type lack struct {
	mu    sync.Mutex
	times int
	// shown are the writers, pointers, of what is seen by who asked, the one for errors first.
	shown []io.Writer
}

// note counts something that isn't decided.
func (l *lack) note() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.times++
	}
}

// shows says that what is written to inner is seen where outer is seen.
func (l *lack) shows(inner, outer io.Writer) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if slices.Contains(l.shown, outer) {
			l.shown = append(l.shown, inner)
		}
	}
}

// hidden is where a message must be written, too, that was written to w; nil for nowhere.
func (l *lack) hidden(w io.Writer) io.Writer {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.shown) == 0 || slices.Contains(l.shown, w) {
		return nil
	}
	return l.shown[0]
}

// count is how often something wasn't decided so far.
func (l *lack) count() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times
}

// errStopped ends a script.
var errStopped = errors.New("what the script goes by was not captured")

// scriptRun is one script that is run. It ends where it would go by what the case doesn't decide: else
// `nc db 5432 || echo closed` made up that the port is closed.
type scriptRun struct {
	*container
	shell string
	lack  *lack
	// plain are the commands by whose outcome nothing goes.
	plain map[syntax.Pos]bool
	end   context.CancelCauseFunc
	ctx   context.Context
}

// errorWriter is where a script writes errors to. What the shell itself says about its end isn't shown.
type errorWriter struct {
	io.Writer
	run *scriptRun
}

// Write implements io.Writer.
func (w *errorWriter) Write(p []byte) (int, error) {
	if w.run.stopped() {
		return len(p), nil
	}
	return w.Writer.Write(p)
}

// stopped reports that the script has been ended.
func (r *scriptRun) stopped() bool { return errors.Is(context.Cause(r.ctx), errStopped) }

// ends says what the script lacks and ends it.
func (r *scriptRun) ends(stderr io.Writer, format string, args ...any) {
	notCaptured(streams{stderr: stderr, lack: r.lack}, format, args...)
	r.end(errStopped)
}

// decided passes the error of a file, and ends the script if the case doesn't know of the file.
func (r *scriptRun) decided(ctx context.Context, err error) error {
	var lacks errUndecided
	if errors.As(err, &lacks) {
		r.ends(interp.HandlerCtx(ctx).Stderr, "%v of container %q of pod %q", lacks, r.name, r.pod.Name)
	}
	return err
}

// device opens what bash takes for connections: /dev/tcp/HOST/PORT. It is false for other names, and
// other shells, which have no such files.
func (r *scriptRun) device(ctx context.Context, name string) (file io.ReadWriteCloser, ok bool, err error) {
	parts := strings.Split(name, "/")
	if len(parts) != 5 || parts[1] != "dev" || parts[2] != "tcp" && parts[2] != "udp" {
		return nil, false, nil
	}
	if path.Base(r.shell) != "bash" {
		r.ends(interp.HandlerCtx(ctx).Stderr, "whether the shell %s takes %s for a connection", r.shell, name)
		return nil, true, errStopped
	}
	port, err := strconv.Atoi(parts[4])
	if err != nil {
		return nil, true, &fs.PathError{Op: "open", Path: name, Err: errors.New("Servname not supported for ai_socktype")}
	}
	o, err := r.net.connect(parts[3], port, strings.ToUpper(parts[2]))
	if err != nil {
		r.ends(interp.HandlerCtx(ctx).Stderr, "%v", err)
		return nil, true, err
	}
	switch o.result {
	case fixtures.ProbeOpen:
		return connection{r, ctx, name}, true, nil
	case fixtures.ProbeRefused:
		err = errors.New("Connection refused")
	case fixtures.ProbeUnresolved:
		err = errors.New("Name or service not known")
	case fixtures.ProbeTimeout:
		err = errors.New("Connection timed out")
	default:
		err = errors.New("Connection failed")
	}
	return nil, true, &fs.PathError{Op: "open", Path: name, Err: err}
}

// connection is one that can be opened; what is said over it isn't known.
type connection struct {
	run  *scriptRun
	ctx  context.Context
	name string
}

// Read implements io.Reader.
func (c connection) Read([]byte) (int, error) {
	c.run.ends(interp.HandlerCtx(c.ctx).Stderr, "what comes over %s: only that a connection can be opened", c.name)
	return 0, errStopped
}

// Write implements io.Writer: what is said is heard.
func (connection) Write(p []byte) (int, error) { return len(p), nil }

// Close implements io.Closer.
func (connection) Close() error { return nil }

// environ are a container's variables; those that the case doesn't decide end the script.
type environ struct {
	expand.Environ
	run       *scriptRun
	undecided map[string]string
	stderr    io.Writer
}

// Get implements expand.Environ.
func (e environ) Get(name string) expand.Variable {
	if why, ok := e.undecided[name]; ok {
		e.run.ends(e.stderr, "the value of %s: %s", name, why)
	}
	return e.Environ.Get(name)
}

// plainCommands are the commands of a script by whose outcome or output nothing goes but
// what is printed, and its exit code.
func plainCommands(f *syntax.File) map[syntax.Pos]bool {
	plain := map[syntax.Pos]bool{}
	if asksForStatus(f) {
		return plain
	}
	var all func([]*syntax.Stmt)
	var one func(*syntax.Stmt)
	all = func(list []*syntax.Stmt) {
		for _, s := range list {
			one(s)
		}
	}
	one = func(s *syntax.Stmt) {
		if s == nil || s.Negated {
			return
		}
		switch c := s.Cmd.(type) {
		case *syntax.CallExpr:
			plain[c.Pos()] = true
		case *syntax.BinaryCmd:
			one(c.Y) // its outcome is that of the whole
		case *syntax.Block:
			all(c.Stmts)
		case *syntax.Subshell:
			all(c.Stmts)
		case *syntax.IfClause:
			for ; c != nil; c = c.Else {
				all(c.Then)
			}
		case *syntax.WhileClause:
			all(c.Do)
		case *syntax.ForClause:
			all(c.Do)
		case *syntax.CaseClause:
			for _, item := range c.Items {
				all(item.Stmts)
			}
		}
	}
	all(f.Stmts)
	return plain
}

// asksForStatus reports a script that looks at $? other than to print it.
func asksForStatus(f *syntax.File) bool {
	asks := false
	syntax.Walk(f, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			switch n.Args[0].Lit() {
			case "echo", "printf":
				return false
			}
		case *syntax.ParamExp:
			if n.Param != nil && (n.Param.Value == "?" || n.Param.Value == "PIPESTATUS") {
				asks = true
			}
		}
		return !asks
	})
	return asks
}

// say writes what isn't captured, and writes it where it is seen even if a script sends its errors
// elsewhere.
func (s streams) say(format string, args ...any) {
	message := fmt.Sprintf(notCapturedWords+format+"\n", args...)
	_, _ = io.WriteString(s.stderr, message) // who left needs no message
	if w := s.lack.hidden(s.stderr); w != nil {
		_, _ = io.WriteString(w, message)
	}
}
