package traces

import (
	"cmp"
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
)

// wrap3 answers as version 3 of Jaeger's API does: the type is that of text, and an error
// is in an envelope of its own. The answer is told the id in the path; size is the
// captured text of what it gives, in bytes.
func (a *api) wrap3(answer func(values url.Values, id string) (value any, size int, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		value, size, err := answer(req.URL.Query(), req.PathValue("id"))
		if err == nil {
			err = a.shim.send(w, req, "text/plain; charset=utf-8", size, false, value)
		}
		if err != nil {
			type details struct {
				HTTPCode int    `json:"httpCode"`
				Message  string `json:"message"`
			}
			text, _ := json.Marshal(map[string]details{"error": {codeOf(err), err.Error()}}) // texts always encode
			http.Error(w, string(text), codeOf(err))
		}
	})
}

func malformed(name string, err error) error {
	return refuse(http.StatusBadRequest, "malformed parameter %s: %w", name, err)
}

func (a *api) services3(url.Values, string) (any, int, error) {
	s, err := a.store()
	if err != nil {
		return nil, 0, err
	}
	return struct {
		Services []string `json:"services,omitempty"`
	}{slices.Sorted(maps.Keys(s.byService))}, 0, nil
}

func (a *api) operations3(values url.Values, _ string) (any, int, error) {
	type named struct {
		Name     string `json:"name,omitempty"`
		SpanKind string `json:"spanKind,omitempty"`
	}
	found, err := a.operationsOf(values.Get("service"), values.Get("span_kind"))
	out := make([]named, len(found))
	for i, o := range found {
		out[i] = named(o)
	}
	return map[string][]named{"operations": out}, 0, err
}

func (a *api) trace3(values url.Values, text string) (any, int, error) {
	id, err := parseTraceID(text)
	if err != nil {
		return nil, 0, malformed("trace_id", err)
	}
	for _, name := range []string{"start_time", "end_time"} {
		if text := values.Get(name); text != "" {
			if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
				return nil, 0, malformed(name, err)
			}
		}
	}
	if err := checkRaw3(values, "raw_traces"); err != nil {
		return nil, 0, err
	}
	s, err := a.store()
	if err != nil {
		return nil, 0, err
	}
	var found []*trace
	if t := s.byID[id]; t != nil {
		found = append(found, t)
	}
	return a.answer3(found)
}

func checkRaw3(values url.Values, name string) error {
	if text := values.Get(name); text != "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return malformed(name, err)
		}
	}
	return nil
}

func (a *api) search3(values url.Values, _ string) (any, int, error) {
	q, err := a.queryOf3(values)
	if err != nil {
		return nil, 0, err
	}
	s, err := a.store()
	if err != nil {
		return nil, 0, err
	}
	found, err := a.find(s, q)
	if err != nil {
		return nil, 0, err
	}
	return a.answer3(found)
}

// queryOf3 reads the parameters of a search. Tags can't be searched in this version.
func (a *api) queryOf3(values url.Values) (q query, err error) {
	asOf, err := a.asOf()
	if err != nil {
		return q, err
	}
	const from, to = "query.start_time_min", "query.start_time_max"
	q = query{service: values.Get("query.service_name"), operation: values.Get("query.operation_name")}
	if values.Get(from) == "" || values.Get(to) == "" {
		return q, badRequest(errors.New(from + " and " + to + " are required"))
	}
	for _, p := range []struct {
		name string
		into *time.Time
	}{{from, &q.from}, {to, &q.to}} {
		t, err := time.Parse(time.RFC3339Nano, values.Get(p.name))
		if err != nil {
			return q, malformed(p.name, err)
		}
		*p.into = t.Add(-a.clock.Offset())
	}
	a.clamp(&q, asOf, true)
	if text := values.Get("query.num_traces"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil {
			return q, malformed("query.num_traces", err)
		}
	}
	for _, p := range []struct {
		name string
		into *time.Duration
	}{{"query.duration_min", &q.shortest}, {"query.duration_max", &q.longest}} {
		if text := values.Get(p.name); text != "" {
			if *p.into, err = time.ParseDuration(text); err != nil {
				return q, malformed(p.name, err)
			}
		}
	}
	return q, checkRaw3(values, "query.raw_traces")
}

// answer3 has the traces as OTLP, in the time of the clock.
func (a *api) answer3(traces []*trace) (any, int, error) {
	if len(traces) == 0 {
		return nil, 0, refusal{http.StatusNotFound, errors.New("No traces found")}
	}
	size, err := sizeOf(traces)
	if err != nil {
		return nil, 0, err
	}
	type result struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	var all []resourceSpans
	for _, t := range traces {
		all = append(all, t.otlp(a.clock.Offset())...)
	}
	return map[string]result{"result": {all}}, size, nil
}

// The types of OTLP's JSON, of which zero fields are left out.
type (
	resourceSpans struct {
		Resource   otlpResource `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes attributes `json:"attributes,omitempty"`
	}
	scopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name    string `json:"name,omitempty"`
		Version string `json:"version,omitempty"`
	}
	otlpSpan struct {
		TraceID      string      `json:"traceId"`
		SpanID       string      `json:"spanId"`
		TraceState   string      `json:"traceState,omitempty"`
		ParentSpanID string      `json:"parentSpanId,omitempty"`
		Name         string      `json:"name,omitempty"`
		Kind         int         `json:"kind,omitempty"`
		Start        string      `json:"startTimeUnixNano,omitempty"`
		End          string      `json:"endTimeUnixNano,omitempty"`
		Attributes   attributes  `json:"attributes,omitempty"`
		Events       []otlpEvent `json:"events,omitempty"`
		Links        []otlpLink  `json:"links,omitempty"`
		Status       otlpStatus  `json:"status"`
	}
	otlpEvent struct {
		Time       string     `json:"timeUnixNano,omitempty"`
		Name       string     `json:"name,omitempty"`
		Attributes attributes `json:"attributes,omitempty"`
	}
	otlpLink struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		Attributes attributes `json:"attributes,omitempty"`
	}
	otlpStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"`
	}
	attribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	attributes []attribute
)

const (
	stringValue = "stringValue"
	statusOK    = 1
	statusError = 2
)

// otlpKinds are the numbers of the kinds of spans.
var otlpKinds = map[string]int{"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}

// otlp is a trace in the time of an episode, as Jaeger translates it.
func (t *trace) otlp(by time.Duration) []resourceSpans {
	moved := t.moved(by)
	byProcess := map[string][]*span{}
	for _, s := range moved.Spans {
		byProcess[s.ProcessID] = append(byProcess[s.ProcessID], s)
	}
	var out []resourceSpans
	for _, name := range slices.Sorted(maps.Keys(byProcess)) {
		r := resourceSpans{Resource: otlpResource{moved.Processes[name].otlp()}}
		for _, s := range byProcess[name] {
			attrs := attributesOf(s.Tags)
			scope := otlpScope{Name: attrs.takeText("otel.scope.name")}
			if scope.Name != "" {
				scope.Version = attrs.takeText("otel.scope.version")
			}
			i := slices.IndexFunc(r.ScopeSpans, func(in scopeSpans) bool { return in.Scope == scope })
			if i < 0 {
				i = len(r.ScopeSpans)
				r.ScopeSpans = append(r.ScopeSpans, scopeSpans{Scope: scope})
			}
			r.ScopeSpans[i].Spans = append(r.ScopeSpans[i].Spans, s.otlp(t.id, attrs))
		}
		out = append(out, r)
	}
	return out
}

// otlp are the attributes of a process as a resource.
func (p *process) otlp() attributes {
	attrs := attributesOf(p.Tags)
	attrs.put("service.name", stringValue, p.ServiceName)
	if v, ok := attrs.get("hostname"); ok && !attrs.has("host.name") {
		attrs.take("hostname")
		attrs = append(attrs, attribute{"host.name", v})
	}
	if attrs.has("jaeger.version") && !attrs.has("opencensus.exporterversion") {
		attrs.put("opencensus.exporterversion", stringValue, "Jaeger-"+attrs.takeText("jaeger.version"))
	}
	return attrs.sorted()
}

// otlp has the ids in full and times in nanoseconds.
func (s *span) otlp(of traceID, attrs attributes) otlpSpan {
	out := otlpSpan{
		TraceID: of.full(), SpanID: fmt.Sprintf("%016x", s.id), Name: s.OperationName,
		Start: nanos(int64(s.StartTime)), End: nanos(int64(s.StartTime) + s.duration().Microseconds()),
		Kind: otlpKinds[attrs.takeText("span.kind")],
	}
	parent := s.parent(of)
	if parent != 0 {
		out.ParentSpanID = fmt.Sprintf("%016x", parent)
	}
	out.Status = attrs.takeStatus(out.Kind)
	out.TraceState = attrs.takeText("w3c.tracestate")
	if len(s.Warnings) > 0 {
		values := make([]map[string]any, len(s.Warnings))
		for i, w := range s.Warnings {
			values[i] = map[string]any{stringValue: w}
		}
		attrs.put("@jaeger@warnings", "arrayValue", map[string]any{"values": values})
	}
	out.Attributes = attrs.sorted()
	for _, l := range s.Logs {
		fields := attributesOf(l.Fields)
		out.Events = append(out.Events, otlpEvent{Time: nanos(int64(l.Timestamp)), Name: fields.takeText("event"), Attributes: fields.sorted()})
	}
	slices.SortStableFunc(out.Events, func(a, b otlpEvent) int { return cmp.Compare(a.Name, b.Name) })
	for _, ref := range s.References {
		trace, err := parseTraceID(ref.TraceID)
		id, err2 := parseSpanID(ref.SpanID)
		kind := "child_of"
		if ref.RefType == "FOLLOWS_FROM" {
			kind = "follows_from"
		}
		if errors.Join(err, err2) != nil || id == parent && kind == "child_of" {
			continue
		}
		out.Links = append(out.Links, otlpLink{trace.full(), fmt.Sprintf("%016x", id), attributes{{"opentracing.ref_type", map[string]any{stringValue: kind}}}})
	}
	return out
}

func (t traceID) full() string { return fmt.Sprintf("%016x%016x", t.high, t.low) }

// nanos are microseconds since 1970 in OTLP's unit, whose numbers JSON has as text.
func nanos(micros int64) string { return strconv.FormatInt(time.UnixMicro(micros).UnixNano(), 10) }

// takeStatus takes the tags that say how a span ended. The tag error counts most, then the
// status that OpenTelemetry gave, then HTTP's.
func (a *attributes) takeStatus(kind int) (s otlpStatus) {
	failed := false
	if v, ok := a.get("error"); ok && v["boolValue"] == true {
		failed, s.Code = true, statusError
		a.take("error")
		if a.has("otel.status_description") {
			s.Message = a.takeText("otel.status_description")
		} else {
			s.Message = a.text("http.status_message")
		}
	}
	switch {
	case a.has("otel.status_code"):
		code := strings.ToUpper(a.takeText("otel.status_code"))
		if failed {
			return s
		}
		switch code {
		case "OK":
			s.Code = statusOK
		case "ERROR":
			s.Code = statusError
		}
		s.Message = a.takeText("otel.status_description")
	case !failed && a.has("http.status_code"):
		code, ok := a.number("http.status_code")
		if !ok || code >= 100 && code < 399 || code >= 400 && code < 500 && kind == otlpKinds["server"] {
			return s
		}
		return otlpStatus{Code: statusError, Message: a.text("http.status_message")}
	}
	return s
}

// attributesOf are tags, of which each key has its last value.
func attributesOf(tags []keyValue) attributes {
	out := make(attributes, 0, len(tags))
	at := map[string]int{}
	for _, kv := range tags {
		i, known := at[kv.Key]
		if !known {
			i = len(out)
			at[kv.Key] = i
			out = append(out, attribute{Key: kv.Key})
		}
		out[i].Value = kv.otlp()
	}
	return out
}

// otlp is a value of the type that it says; a value that isn't of it is a text.
func (kv keyValue) otlp() map[string]any {
	var text string
	isText := json.Unmarshal(kv.Value, &text) == nil
	if !isText {
		text = string(kv.Value)
	}
	switch kv.Type {
	case "bool":
		if b, err := strconv.ParseBool(text); err == nil {
			return map[string]any{"boolValue": b}
		}
	case "int64":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return map[string]any{"intValue": strconv.FormatInt(n, 10)}
		}
	case "float64":
		if f, err := strconv.ParseFloat(text, 64); err == nil && !isText {
			return map[string]any{"doubleValue": f}
		}
	case "binary":
		if isText {
			return map[string]any{"bytesValue": text}
		}
	}
	return map[string]any{stringValue: text}
}

func (a attributes) index(key string) int {
	return slices.IndexFunc(a, func(one attribute) bool { return one.Key == key })
}

func (a attributes) has(key string) bool { return a.index(key) >= 0 }

func (a attributes) get(key string) (map[string]any, bool) {
	i := a.index(key)
	if i < 0 {
		return nil, false
	}
	return a[i].Value, true
}

// text is a value that is a text; empty for any other.
func (a attributes) text(key string) string {
	v, _ := a.get(key)
	s, _ := v[stringValue].(string)
	return s
}

// number is a value that is a whole number, or a text that writes one.
func (a attributes) number(key string) (int64, bool) {
	v, _ := a.get(key)
	s, ok := v["intValue"].(string)
	if !ok {
		s, _ = v[stringValue].(string)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func (a *attributes) take(key string) {
	if i := a.index(key); i >= 0 {
		*a = slices.Delete(*a, i, i+1)
	}
}

func (a *attributes) takeText(key string) string {
	s := a.text(key)
	a.take(key)
	return s
}

func (a *attributes) put(key, kind string, value any) {
	a.take(key)
	*a = append(*a, attribute{key, map[string]any{kind: value}})
}

func (a attributes) sorted() attributes {
	slices.SortFunc(a, func(one, two attribute) int { return cmp.Compare(one.Key, two.Key) })
	return a
}
