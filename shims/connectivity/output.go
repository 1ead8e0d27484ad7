package connectivity

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// capture keeps the start of what is written to several writers, in their order.
type capture struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ToValidUTF8(string(c.kept), "\uFFFD")
}

// tee keeps what it hands on; a nil writer takes everything.
func (c *capture) tee(w io.Writer) io.Writer { return &teeWriter{c, w} }

type teeWriter struct {
	c *capture
	w io.Writer
}

// Write implements io.Writer.
func (t *teeWriter) Write(p []byte) (int, error) {
	n := len(p)
	var err error
	if t.w != nil {
		n, err = t.w.Write(p)
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if room := t.c.limit - len(t.c.kept); room > 0 {
		t.c.kept = append(t.c.kept, p[:min(n, room)]...)
	}
	return n, err
}

// errOutput ends a command that prints without end.
var errOutput = errors.New("the command prints more than is sent")

// limit ends a command when all that it writes is more than it may.
type limit struct {
	mu     sync.Mutex
	left   int
	cancel context.CancelFunc
}

func (l *limit) of(w io.Writer) io.Writer { return &limitedWriter{l, w} }

type limitedWriter struct {
	l *limit
	w io.Writer
}

// Write implements io.Writer.
func (w *limitedWriter) Write(p []byte) (int, error) {
	w.l.mu.Lock()
	w.l.left -= len(p)
	over := w.l.left < 0
	w.l.mu.Unlock()
	if over {
		w.l.cancel()
		return 0, errOutput
	}
	return w.w.Write(p)
}
