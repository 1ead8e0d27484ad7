package recorder

import (
	"fmt"
	"net/http"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	// unshiftContext is how many of the last bytes are looked at again when more
	// come, and unshiftWindow how many of these are written again: a timestamp, 35
	// bytes at most, may be cut by a write's end.
	unshiftContext = 128
	unshiftWindow  = 40
)

// stream is the file of a response that is being sent: each piece is in it, in
// captured time, before the client gets it.
type stream struct {
	log    *Log
	source Source
	path   string
	file   *os.File
	// unshift moves timestamps; nil when none are moved, or the bytes are compressed.
	unshift func([]byte) []byte
	size    int64 // bytes in the file
	over    bool  // MaxBody was reached
	last    []byte
}

func (l *Log) newStream(source Source, id string, header http.Header) (*stream, error) {
	path := l.streamPath(id)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	s := &stream{log: l, source: source, path: path, file: file}
	if header.Get("Content-Encoding") == "" {
		s.unshift = l.unshift(source, header.Get("Content-Type"))
	}
	return s, nil
}

func (s *stream) append(p []byte) error {
	room := s.log.o.MaxBody - s.size
	if int64(len(p)) > room {
		p, s.over = p[:max(0, room)], true
	}
	if len(p) == 0 {
		return nil
	}
	at, out := s.size, p
	if s.unshift != nil {
		joined := append(append([]byte(nil), s.last...), p...)
		moved := s.unshift(joined)
		if len(moved) == len(joined) {
			again := min(len(s.last), unshiftWindow)
			at, out = s.size-int64(again), moved[len(s.last)-again:]
		} else {
			out = s.unshift(p)
		}
		s.last = append(s.last[:0], joined[max(0, len(joined)-unshiftContext):]...)
	}
	if _, err := s.file.WriteAt(out, at); err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	s.size = at + int64(len(out))
	return nil
}

// takeBack removes the last n bytes, which the client didn't take.
func (s *stream) takeBack(n int) {
	if s.over {
		return // they may be beyond what is kept
	}
	s.size = max(0, s.size-int64(n))
	_ = s.file.Truncate(s.size) // the line says that the write failed
}

// finish stores the body and notes it in the event. The file stays until the line is written.
func (s *stream) finish(e *auditv1.Event) error {
	s.close()
	body, err := readBounded(s.path)
	if err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	body = s.log.unpacked(s.source, e, body)
	if s.over {
		e.Annotations[KeyTruncated] = "body"
	}
	return s.log.storeStream(e, body)
}

func (s *stream) close() {
	if s.file != nil {
		_ = s.file.Close() // written with WriteAt; nothing is buffered
		s.file = nil
	}
}

func (s *stream) remove() { _ = os.Remove(s.path) } // Open removes what stays
