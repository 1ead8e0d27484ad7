package traces

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// api answers for one case as one clock sees it.
type api struct {
	shim    *Shim
	fixture *fixtures.Case
	clock   clock.Clock
}

// refusal is an answer that is none: a status and a text.
type refusal struct {
	code int
	err  error
}

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

func refuse(code int, format string, args ...any) error {
	return refusal{code, fmt.Errorf(format, args...)}
}

func badRequest(err error) error { return refusal{http.StatusBadRequest, err} }

// badParameter has Jaeger's text.
func badParameter(name string, err error) error {
	return refuse(http.StatusBadRequest, "unable to parse param '%s': %w", name, err)
}

func codeOf(err error) int {
	if r := (refusal{}); errors.As(err, &r) {
		return r.code
	}
	return http.StatusInternalServerError
}

// envelope is what all answers for Jaeger's UI are in.
type envelope struct {
	Data   any             `json:"data"`
	Total  int             `json:"total"`
	Limit  int             `json:"limit"`
	Offset int             `json:"offset"`
	Errors []envelopeError `json:"errors"`
	// size is the captured text that the answer is made of, in bytes.
	size int
}

type envelopeError struct {
	Code    int    `json:"code,omitempty"`
	Msg     string `json:"msg"`
	TraceID string `json:"traceID,omitempty"`
}

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*http.Request) (envelope, error){
		"services": a.services, "services/{service}/operations": a.operationNames, "operations": a.operations,
		"traces": a.search, "traces/{id}": a.trace, "dependencies": a.dependencies,
		"metrics/{name}": a.notCaptured("metrics"), "deep-dependencies": a.notCaptured("deep dependencies"), "quality-metrics": a.notCaptured("quality metrics"),
	} {
		mux.Handle("/api/"+path, a.wrap(http.MethodGet, answer))
	}
	mux.Handle("/api/archive/{id}", a.wrap(http.MethodPost, func(*http.Request) (envelope, error) {
		return envelope{}, refuse(http.StatusForbidden, "this Jaeger is a captured one and read-only: traces can't be archived")
	}))
	mux.Handle("/api/", a.wrap("", func(req *http.Request) (envelope, error) {
		return envelope{}, refuse(http.StatusNotFound, "there is no %s in the API of a captured Jaeger", req.URL.Path)
	}))
	for path, answer := range map[string]func(url.Values, string) (any, int, error){
		"services": a.services3, "operations": a.operations3, "traces": a.search3, "traces/{id}": a.trace3,
	} {
		mux.Handle("/api/v3/"+path, a.wrap3(answer))
	}
	// Jaeger has its pages here; who asks whether it is there is told so.
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := a.store(); err != nil {
			http.Error(w, err.Error(), codeOf(err))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("Jaeger's query API is at /api. Its pages were not captured.\n")) // a client that left needs no answer
	})
	return mux
}

// wrap answers requests of a method; of any when it is empty. An error is in an envelope
// that is sent as text, as Jaeger does.
func (a *api) wrap(method string, answer func(*http.Request) (envelope, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if method != "" && req.Method != method {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		e, err := answer(req)
		if err == nil {
			pretty := req.FormValue("prettyPrint")
			err = a.shim.send(w, req, "application/json", e.size, pretty != "" && pretty != "false", e)
		}
		if err != nil {
			text, _ := json.Marshal(envelope{Errors: []envelopeError{{Code: codeOf(err), Msg: err.Error()}}}) // texts always encode
			http.Error(w, string(text), codeOf(err))
		}
	})
}

// send encodes an answer that is made of so many bytes of captured text. Answers that
// wait for their clients are bounded together.
func (s *Shim) send(w http.ResponseWriter, req *http.Request, contentType string, size int, pretty bool, value any) error {
	weight := int64(size)
	if s.answers.Acquire(req.Context(), weight) != nil {
		return nil // the client left, or others take too long to read
	}
	defer s.answers.Release(weight)
	body, err := json.Marshal(value)
	if err == nil && pretty {
		var indented bytes.Buffer
		err = json.Indent(&indented, body, "", "    ")
		body = indented.Bytes()
	}
	if err != nil {
		return fmt.Errorf("failed writing HTTP response: %w", err)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(s.now().Add(writeTime)) // where the writer has deadlines
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that left needs no answer
	return nil
}

// store is the case's, where it has traces.
func (a *api) store() (*store, error) {
	s, err := a.shim.storeOf(a.fixture)
	if err != nil {
		return nil, fmt.Errorf("the captured traces can't be read: %w", err)
	}
	if s.documents == 0 {
		return nil, refuse(http.StatusNotImplemented, "the traces of Jaeger were not captured%s", a.fixture.WhyNot("traces"))
	}
	return s, nil
}

func (a *api) notCaptured(what string) func(*http.Request) (envelope, error) {
	return func(*http.Request) (envelope, error) {
		return envelope{}, refuse(http.StatusNotImplemented, "the %s of Jaeger were not captured", what)
	}
}

func (a *api) services(*http.Request) (envelope, error) {
	s, err := a.store()
	if err != nil {
		return envelope{}, err
	}
	names := slices.Sorted(maps.Keys(s.byService))
	return envelope{Data: names, Total: len(names)}, nil
}

// operationsOf gives the operations of a service; of all kinds when none is given.
func (a *api) operationsOf(service, kind string) ([]operation, error) {
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	found := []operation{}
	for _, o := range s.operations[service] {
		if kind == "" || o.SpanKind == kind {
			found = append(found, o)
		}
	}
	return found, nil
}

func (a *api) operations(req *http.Request) (envelope, error) {
	service := req.FormValue("service")
	if service == "" {
		return envelope{}, badRequest(errNoService)
	}
	found, err := a.operationsOf(service, req.FormValue("spanKind"))
	return envelope{Data: found, Total: len(found)}, err
}

func (a *api) operationNames(req *http.Request) (envelope, error) {
	// Jaeger takes + in the path for a space, so the path is read before it is unescaped.
	path := strings.TrimSuffix(req.URL.EscapedPath(), "/operations")
	service, _ := url.QueryUnescape(path[strings.LastIndexByte(path, '/')+1:]) // a name that doesn't unescape is nobody's
	found, err := a.operationsOf(service, "")
	var names []string
	for _, o := range found {
		if !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	return envelope{Data: names, Total: len(names)}, err
}

func (a *api) search(req *http.Request) (envelope, error) {
	q, ids, err := a.queryOf(req)
	if err != nil {
		return envelope{}, err
	}
	s, err := a.store()
	if err != nil {
		return envelope{}, err
	}
	if len(ids) == 0 {
		found, err := a.find(s, q)
		if err != nil {
			return envelope{}, err
		}
		return a.answer(found, nil)
	}
	var found []*trace
	var missing []envelopeError
	for _, id := range ids {
		if t := s.byID[id]; t != nil {
			found = append(found, t)
		} else {
			missing = append(missing, envelopeError{Msg: errNoTrace.Error(), TraceID: id.String()})
		}
	}
	return a.answer(found, missing)
}

// find searches, unless the case says that the traces of the service weren't to be had:
// those that others have of it aren't all.
func (a *api) find(s *store, q query) ([]*trace, error) {
	if why := a.fixture.WhyNot(tracesDir + q.service); why != "" {
		return nil, refuse(http.StatusNotImplemented, "the traces of the service %s were not captured%s", q.service, why)
	}
	return s.find(q), nil
}

// errNoTrace is Jaeger's.
var errNoTrace = errors.New("trace not found")

func (a *api) trace(req *http.Request) (envelope, error) {
	id, err := parseTraceID(req.PathValue("id"))
	if err != nil {
		return envelope{}, badRequest(err)
	}
	// Jaeger's in-memory storage finds a trace whatever times are given, but they must read.
	for _, name := range []string{"start", "end"} {
		if _, err := a.timeOf(req, name, time.Microsecond, time.Time{}); err != nil {
			return envelope{}, err
		}
	}
	if err := checkRaw(req); err != nil {
		return envelope{}, err
	}
	s, err := a.store()
	if err != nil {
		return envelope{}, err
	}
	t := s.byID[id]
	if t == nil {
		return envelope{}, refusal{http.StatusNotFound, errNoTrace}
	}
	return a.answer([]*trace{t}, nil)
}

// answer has the traces in the time of the clock.
func (a *api) answer(traces []*trace, missing []envelopeError) (envelope, error) {
	size, err := sizeOf(traces)
	if err != nil {
		return envelope{}, err
	}
	data := make([]jsonTrace, len(traces))
	for i, t := range traces {
		data[i] = t.moved(a.clock.Offset())
	}
	return envelope{Data: data, Errors: missing, size: size}, nil
}

// sizeOf is the captured text of traces in bytes, where an answer may have so much.
func sizeOf(traces []*trace) (int, error) {
	size := 0
	for _, t := range traces {
		if size += t.size; size > maxAnswer {
			return 0, refuse(http.StatusBadRequest, "the answer has more than %d MiB; ask for fewer traces with limit, or for a shorter time", maxAnswer>>20)
		}
	}
	return size, nil
}

func (a *api) dependencies(req *http.Request) (envelope, error) {
	asOf, err := a.asOf()
	if err != nil {
		return envelope{}, err
	}
	to, err := a.timeOf(req, "endTs", time.Millisecond, asOf)
	if err != nil {
		return envelope{}, err
	}
	lookback := 24 * time.Hour
	if text := req.FormValue("lookback"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return envelope{}, badParameter("lookback", err)
		}
		lookback = time.Duration(n) * time.Millisecond
	}
	if to.After(asOf) {
		to = asOf
	}
	all, err := a.allDependencies(to.Add(-lookback), to)
	return envelope{Data: summed(all, req.FormValue("service"))}, err
}

// allDependencies are the captured ones; else those of the traces between two times; else
// those that a mesh's metrics tell of.
func (a *api) allDependencies(from, to time.Time) ([]Dependency, error) {
	s, err := a.shim.storeOf(a.fixture)
	if err != nil {
		return nil, fmt.Errorf("the captured traces can't be read: %w", err)
	}
	if s.captured != nil {
		return s.captured, nil
	}
	if s.documents > 0 {
		return s.dependencies(from, to), nil
	}
	if a.shim.options.Mesh != nil {
		found, err := a.shim.options.Mesh(a.fixture, a.clock)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, refuse(http.StatusNotImplemented, "the dependencies of Jaeger were not captured%s", a.fixture.WhyNot("traces"))
}

// Dependencies are those of a case: what Jaeger answers for all the time before the capture; none
// where the case has neither traces nor a mesh's metrics.
func (s *Shim) Dependencies(c *fixtures.Case, k clock.Clock) ([]Dependency, error) {
	a := &api{shim: s, fixture: c, clock: k}
	asOf, err := a.asOf()
	if err != nil {
		return nil, err
	}
	found, err := a.allDependencies(time.Time{}, asOf)
	if codeOf(err) == http.StatusNotImplemented {
		return nil, nil
	}
	return summed(found, ""), err
}

// asOf is the last instant of which anything is known, in captured time: that of the
// capture, or just after the last span that was captured while the capture went on.
func (a *api) asOf() (time.Time, error) {
	s, err := a.shim.storeOf(a.fixture)
	if err != nil {
		return time.Time{}, fmt.Errorf("the captured traces can't be read: %w", err)
	}
	at := a.fixture.Manifest().Capture.Time.Time
	if s.spans > 0 {
		if last := time.UnixMicro(s.last + 1); last.After(at) {
			at = last
		}
	}
	return at, nil
}

// moved is a trace in the time of an episode.
func (t *trace) moved(by time.Duration) jsonTrace {
	out := t.jsonTrace
	if by == 0 {
		return out
	}
	out.Spans = make([]*span, len(t.Spans))
	for i, s := range t.Spans {
		moved := *s
		moved.StartTime = movedMicros(s.StartTime, by)
		moved.Tags = movedTags(s.Tags, by)
		if s.Logs != nil {
			moved.Logs = make([]logEntry, len(s.Logs))
		}
		for j, l := range s.Logs {
			moved.Logs[j] = logEntry{movedMicros(l.Timestamp, by), movedTags(l.Fields, by)}
		}
		out.Spans[i] = &moved
	}
	out.Processes = make(map[string]*process, len(t.Processes))
	for name, p := range t.Processes {
		out.Processes[name] = &process{p.ServiceName, movedTags(p.Tags, by)}
	}
	return out
}

// movedMicros moves microseconds since 1970. A time that isn't known is none that moves.
func movedMicros(t uint64, by time.Duration) uint64 {
	if t == 0 {
		return t
	}
	return t + uint64(by.Microseconds())
}

// movedTags moves the timestamps in texts.
func movedTags(tags []keyValue, by time.Duration) []keyValue {
	var out []keyValue
	for i, kv := range tags {
		text := clock.ShiftJSON(kv.Value, by)
		if len(text) == 0 || &text[0] == &kv.Value[0] {
			continue
		}
		if out == nil {
			out = slices.Clone(tags)
		}
		out[i].Value = text
	}
	if out == nil {
		return tags
	}
	return out
}
