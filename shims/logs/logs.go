// Package logs replays captured container logs with the options that the
// kubelet knows: tailLines, sinceSeconds, sinceTime, timestamps, limitBytes and
// follow, in its order: the tail is taken of the whole log, then what is too old
// is dropped, then bytes are counted.
//
// A log is streamed from where it is stored; memory doesn't grow with its size.
package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// bufferSize bounds the memory per open log; longer lines are passed on in parts.
const bufferSize = 64 << 10

// ErrNoTimestamps says that an option needs timestamps that the capture lacks.
var ErrNoTimestamps = errors.New("the log was captured without timestamps")

// Source opens logs of cases. Its zero value is ready.
type Source struct{}

// OpenLog returns the part of a log that options ask for. sinceSeconds counts
// from the capture instant, sinceTime is in the episode's time, and so are all
// timestamps that are returned. A followed log stays open until ctx is done.
func (Source) OpenLog(ctx context.Context, c *fixtures.Case, log *fixtures.Log, options *corev1.PodLogOptions, clk clock.Clock) (io.ReadCloser, error) {
	if !log.Timestamped && log.Size > 0 && (options.Timestamps || options.SinceSeconds != nil || options.SinceTime != nil) {
		return nil, fmt.Errorf("%w: ask for it without --timestamps, --since and --since-time", ErrNoTimestamps)
	}
	text, err := c.OpenLog(log)
	if err != nil {
		return nil, err
	}
	start := int64(0)
	if options.TailLines != nil {
		if start, err = tailStart(text, log.Size, *options.TailLines); err != nil {
			return nil, errors.Join(err, text.Close())
		}
	}
	if _, err := text.Seek(start, io.SeekStart); err != nil {
		return nil, errors.Join(err, text.Close())
	}
	r := &reader{
		ctx: ctx, text: text, buffered: bufio.NewReaderSize(text, bufferSize),
		timestamped: log.Timestamped, keepTimestamps: options.Timestamps,
		since: since(options, c.Manifest().Capture.Time.Time, clk.Offset()), offset: clk.Offset(),
		remaining: -1, follow: options.Follow, lineStart: true,
	}
	if options.LimitBytes != nil {
		r.remaining = *options.LimitBytes
	}
	return r, nil
}

// since is the oldest captured time that options let through.
func since(options *corev1.PodLogOptions, captured time.Time, offset time.Duration) time.Time {
	switch {
	case options.SinceSeconds != nil:
		// Seconds that reach beyond what a Duration holds reach beyond every log.
		const most = int64(100 * 365 * 24 * time.Hour / time.Second)
		return captured.Add(-time.Duration(min(*options.SinceSeconds, most)) * time.Second)
	case options.SinceTime != nil:
		return options.SinceTime.Add(-offset)
	}
	return time.Time{}
}

// tailStart is the offset of the last lines of a text. A last line without a
// newline is a line.
func tailStart(text io.ReaderAt, size, lines int64) (int64, error) {
	if lines <= 0 {
		return size, nil
	}
	block := make([]byte, 32<<10)
	for end := size; end > 0; {
		begin := max(0, end-int64(len(block)))
		part := block[:end-begin]
		if _, err := text.ReadAt(part, begin); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for at := bytes.LastIndexByte(part, '\n'); at >= 0; at = bytes.LastIndexByte(part[:at], '\n') {
			if begin+int64(at) == size-1 {
				continue // ends the last line, begins none
			}
			if lines--; lines == 0 {
				return begin + int64(at) + 1, nil
			}
		}
		end = begin
	}
	return 0, nil
}

// reader is a log's text line by line, filtered and in the episode's time.
type reader struct {
	ctx      context.Context
	text     io.Closer
	buffered *bufio.Reader
	// timestamped logs begin each line with a time and a space.
	timestamped, keepTimestamps bool
	since                       time.Time
	offset                      time.Duration
	// remaining bytes of the limit; negative without one.
	remaining int64
	follow    bool

	lineStart bool
	dropping  bool
	pending   []byte
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.text.Close() }

// Read implements io.Reader. It fills p from what is buffered, and waits for the
// file only for the first byte.
func (r *reader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.pending) == 0 {
			if n > 0 && r.buffered.Buffered() == 0 {
				return n, nil
			}
			if err := r.next(); err != nil {
				if n > 0 {
					return n, nil // the next Read meets the error again
				}
				return 0, err
			}
		}
		c := copy(p[n:], r.pending)
		r.pending = r.pending[c:]
		n += c
		if r.remaining > 0 {
			r.remaining -= int64(c)
		}
	}
	return n, nil
}

// next makes pending of the next line that is wanted.
func (r *reader) next() error {
	for len(r.pending) == 0 {
		if r.remaining == 0 {
			return io.EOF
		}
		part, err := r.buffered.ReadSlice('\n')
		if len(part) > 0 {
			r.take(part)
			continue
		}
		if errors.Is(err, io.EOF) && r.follow {
			// The kubelet would wait for more; a snapshot has none.
			<-r.ctx.Done()
		}
		if err != nil {
			return err
		}
	}
	if r.remaining > 0 && int64(len(r.pending)) > r.remaining {
		r.pending = r.pending[:r.remaining]
	}
	return nil
}

// take makes pending of a line, or of a part of one that is longer than the buffer.
func (r *reader) take(part []byte) {
	begins := r.lineStart
	r.lineStart = part[len(part)-1] == '\n'
	if begins && r.timestamped {
		stamp, message, found := bytes.Cut(part, []byte{' '})
		t, err := time.Parse(time.RFC3339Nano, string(stamp))
		stampless := err != nil || !found
		// A line that lost its timestamp belongs to the one before.
		if !stampless {
			r.dropping = t.Before(r.since)
			if !r.keepTimestamps {
				part = message
			}
		}
	}
	if r.dropping {
		return
	}
	r.pending = clock.ShiftText(part, r.offset)
}
