package traces

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// jsonTrace is a trace as Jaeger's API for its UI has it. The fields are in Jaeger's order.
type jsonTrace struct {
	TraceID   string              `json:"traceID"`
	Spans     []*span             `json:"spans"`
	Processes map[string]*process `json:"processes"`
	Warnings  []string            `json:"warnings"`
}

// span has its times in microseconds, StartTime since 1970.
type span struct {
	TraceID       string      `json:"traceID"`
	SpanID        string      `json:"spanID"`
	ParentSpanID  string      `json:"parentSpanID,omitempty"`
	Flags         uint32      `json:"flags,omitempty"`
	OperationName string      `json:"operationName"`
	References    []reference `json:"references"`
	StartTime     uint64      `json:"startTime"`
	Duration      uint64      `json:"duration"`
	Tags          []keyValue  `json:"tags"`
	Logs          []logEntry  `json:"logs"`
	ProcessID     string      `json:"processID,omitempty"`
	Process       *process    `json:"process,omitempty"`
	Warnings      []string    `json:"warnings"`

	// id is SpanID's number. from is the process that the span is of, which the store names
	// by ProcessID.
	id   uint64
	from *process
}

type reference struct {
	RefType string `json:"refType"`
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

type process struct {
	ServiceName string     `json:"serviceName"`
	Tags        []keyValue `json:"tags"`
}

// logEntry has its time in microseconds since 1970.
type logEntry struct {
	Timestamp uint64     `json:"timestamp"`
	Fields    []keyValue `json:"fields"`
}

// keyValue keeps the value as it was written, so that no digit of it is lost.
type keyValue struct {
	Key   string          `json:"key"`
	Type  string          `json:"type,omitempty"`
	Value json.RawMessage `json:"value"`
}

// text is the value as Jaeger compares it with a tag of a search.
func (kv keyValue) text() string {
	var s string
	if json.Unmarshal(kv.Value, &s) != nil {
		s = string(kv.Value)
	}
	switch kv.Type {
	case "float64":
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return strconv.FormatFloat(f, 'g', 10, 64)
		}
	case "binary":
		if b, err := base64.StdEncoding.DecodeString(s); err == nil {
			return hex.EncodeToString(b)
		}
	}
	return s
}

// traceID is the number that a trace's id writes in hexadecimal digits.
type traceID struct{ high, low uint64 }

// String writes ids of 64 bits with 16 digits, and others with 32, as Jaeger does.
func (t traceID) String() string {
	if t.high == 0 {
		return fmt.Sprintf("%016x", t.low)
	}
	return fmt.Sprintf("%016x%016x", t.high, t.low)
}

// parseTraceID has Jaeger's errors.
func parseTraceID(s string) (t traceID, err error) {
	if len(s) > 32 {
		return t, fmt.Errorf("TraceID cannot be longer than 32 hex characters: %s", s)
	}
	if rest := len(s) - 16; rest > 0 {
		if t.high, err = strconv.ParseUint(s[:rest], 16, 64); err != nil {
			return traceID{}, err
		}
		s = s[rest:]
	}
	if t.low, err = strconv.ParseUint(s, 16, 64); err != nil {
		return traceID{}, err
	}
	return t, nil
}

func parseSpanID(s string) (uint64, error) {
	if len(s) > 16 {
		return 0, fmt.Errorf("SpanID cannot be longer than 16 hex characters: %s", s)
	}
	return strconv.ParseUint(s, 16, 64)
}

// readTraces adds the traces of a document, {"data": […]}.
func (s *store) readTraces(text []byte) error {
	if s.text += len(text); s.text > maxText {
		return fmt.Errorf("the case has more than %d bytes of traces; capture fewer traces", maxText)
	}
	at := 0
	return eachOf(text, func(d *json.Decoder) error {
		before := d.InputOffset()
		var t *jsonTrace
		if err := d.Decode(&t); err != nil {
			return fmt.Errorf("trace %d: %w; write it as GET /api/traces of Jaeger does", at, err)
		}
		if t == nil {
			return fmt.Errorf("trace %d is null; leave it out", at)
		}
		if err := s.add(t, int(d.InputOffset()-before)); err != nil {
			return fmt.Errorf("trace %d: %w", at, err)
		}
		at++
		return nil
	})
}

// eachOf calls read where each of the entries of data begins.
func eachOf(text []byte, read func(*json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New(`is no object with "data": keep Jaeger's answer whole`), err)
	}
	found := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name != "data" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return err
			}
			continue
		}
		found = true
		begin, err := d.Token()
		if err != nil {
			return err
		}
		if begin == nil {
			continue // what Jaeger answers when there is nothing
		}
		if begin != json.Delim('[') {
			return errors.New(`"data" is no list: keep Jaeger's answer whole`)
		}
		for d.More() {
			if err := read(d); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if !found {
		return errors.New(`has no "data": keep Jaeger's answer whole`)
	}
	return nil
}

// readDependencies reads {"data": [{"parent", "child", "callCount"}]}.
func readDependencies(text []byte) ([]Dependency, error) {
	out := []Dependency{}
	err := eachOf(text, func(d *json.Decoder) error {
		var one Dependency
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("dependency %d: %w; write it as GET /api/dependencies of Jaeger does", len(out), err)
		}
		if one.Parent == "" || one.Child == "" {
			return fmt.Errorf("dependency %d has no parent or no child", len(out))
		}
		out = append(out, one)
		return nil
	})
	return out, err
}

// check reads the ids of an entry, and says what is wrong with it.
func (t *jsonTrace) check() (traceID, error) {
	id, err := parseTraceID(t.TraceID)
	if err != nil {
		return id, fmt.Errorf("%.60q is no id of a trace: %w", t.TraceID, err)
	}
	if len(t.Spans) == 0 {
		return id, fmt.Errorf("%s has no spans; leave it out", id)
	}
	for name, p := range t.Processes {
		if p == nil {
			return id, fmt.Errorf("the process %.60q of %s is null", name, id)
		}
	}
	for _, s := range t.Spans {
		if s == nil {
			return id, fmt.Errorf("a span of %s is null", id)
		}
		if s.id, err = parseSpanID(s.SpanID); err != nil {
			return id, fmt.Errorf("%.60q is no id of a span of %s: %w", s.SpanID, id, err)
		}
		if of, err := parseTraceID(s.TraceID); err != nil || of != id {
			return id, fmt.Errorf("the span %s says that it is of the trace %.60q; it stands in %s", s.SpanID, s.TraceID, id)
		}
		if t.Processes[s.ProcessID] == nil && s.Process == nil {
			return id, fmt.Errorf("the span %s of %s names the process %.60q, which the trace doesn't have", s.SpanID, id, s.ProcessID)
		}
	}
	return id, nil
}

const (
	tracesDir            = "traces/"
	dependenciesDocument = tracesDir + "dependencies.json"
)

// isTraces reports whether a document of a case holds traces.
func isTraces(name string) bool {
	file, ok := strings.CutPrefix(name, tracesDir)
	return ok && strings.HasSuffix(file, ".json") && !strings.Contains(file, "/") && name != dependenciesDocument
}

// notThere reports whether a case doesn't have a document.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
