package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// requestsLimit bounds the requests that are read of one record.
const requestsLimit = 1 << 20

// Events yields a record's events in the order in which they were written. A line
// that is none is yielded as an error that names it, and reading goes on; a torn end
// (no newline) is left out. A record that doesn't exist yields fs.ErrNotExist.
func Events(dir string) iter.Seq2[auditv1.Event, error] {
	return func(yield func(auditv1.Event, error) bool) {
		path := filepath.Join(dir, AuditFile)
		f, err := openRecord(dir)
		if err != nil {
			yield(auditv1.Event{}, fmt.Errorf("recorder: %w", err))
			return
		}
		defer func() { _ = f.Close() }()
		readEvents(f, path, yield)
	}
}

func readEvents(r io.Reader, name string, yield func(auditv1.Event, error) bool) {
	line, more := 0, true
	_, err := scanLines(r, func(text []byte) bool {
		line++
		if !more || len(text) == 0 {
			return true
		}
		event, err := parseEvent(text)
		if err != nil {
			err = fmt.Errorf("%s:%d: %w; opening the record for writing cuts off a damaged end", name, line, err)
		}
		more = yield(event, err)
		return true
	})
	if err != nil && more {
		yield(auditv1.Event{}, fmt.Errorf("recorder: %s: %w", name, err))
	}
}

// Request is one request as recorded: the event of its end, or of its start where
// the record has no end.
type Request struct {
	auditv1.Event
	// Open reports that only the start is on record.
	Open bool

	path  string
	query url.Values
}

// Requests reads a record's requests in the order in which they arrived. The
// error joins what couldn't be read; the requests are good with it.
func Requests(dir string) ([]Request, error) {
	return requests(Events(dir))
}

func requests(events iter.Seq2[auditv1.Event, error]) ([]Request, error) {
	var out []Request
	var errs []error
	at := map[string]int{}
	for event, err := range events {
		if err != nil {
			if len(errs) < 16 {
				errs = append(errs, err)
			}
			continue
		}
		r := Request{Event: event, Open: event.Stage == auditv1.StageResponseStarted || event.Stage == auditv1.StageRequestReceived}
		if i, ok := at[string(event.AuditID)]; ok {
			if !r.Open {
				out[i] = r
			}
			continue
		}
		if len(out) >= requestsLimit {
			errs = append(errs, fmt.Errorf("recorder: more than %d requests; the rest is left out", requestsLimit))
			break
		}
		at[string(event.AuditID)] = len(out)
		out = append(out, r)
	}
	for i := range out {
		out[i].parse()
	}
	slices.SortStableFunc(out, func(a, b Request) int {
		return cmp.Or(a.Start().Compare(b.Start()))
	})
	return out, errors.Join(errs...)
}

// parse takes the URI apart. One that can't be is a path without meaning.
func (r *Request) parse() {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		r.path, r.query = r.RequestURI, url.Values{}
		return
	}
	r.path, r.query = u.Path, u.Query()
}

// Start is when the request arrived, in captured time.
func (r *Request) Start() time.Time { return r.RequestReceivedTimestamp.Time }

// End is when its last line was written, in captured time.
func (r *Request) End() time.Time {
	if r.StageTimestamp.Before(&r.RequestReceivedTimestamp) {
		return r.Start()
	}
	return r.StageTimestamp.Time
}

// Status is the HTTP status, 0 when none was sent.
func (r *Request) Status() int {
	if r.ResponseStatus == nil {
		return 0
	}
	return int(r.ResponseStatus.Code)
}

// Body reads the response's body, decoded and in captured time: empty when none
// was delivered or stored. A response that is still open in the record has what
// its file holds; if it is compressed, its times are still those that the client got.
func (r *Request) Body(dir string, bodies *Bodies) ([]byte, error) {
	if digest := r.Annotations[KeyBody]; digest != "" && bodies != nil {
		return bodies.Get(digest)
	}
	if r.Open && r.Annotations[KeyStream] == "true" && dir != "" {
		body, err := readBounded(filepath.Join(dir, streamsFolder, streamName(string(r.AuditID))))
		if errors.Is(err, fs.ErrNotExist) {
			// It has ended since the record was read.
			for event, err := range Events(dir) {
				if err == nil && event.AuditID == r.AuditID && event.Annotations[KeyBody] != "" && bodies != nil {
					return bodies.Get(event.Annotations[KeyBody])
				}
			}
			return nil, nil
		}
		if r.Annotations[KeyContentEncoding] == "gzip" && len(body) > 0 {
			body, _ = unpack(body, storedBodyLimit) // its end is still to come
		}
		return body, err
	}
	return nil, nil
}
