package traces

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kubecase/kubecase/fixtures"
)

// store is all traces of a case, in captured time. It is immutable once it is sealed.
type store struct {
	byID map[traceID]*trace
	// byService are the traces that a service has a span in, oldest first.
	byService map[string][]*trace
	// operations by service, sorted.
	operations map[string][]operation
	// last is the latest start of a span, in microseconds since 1970.
	last int64
	// captured are the dependencies that were captured; nil when they weren't.
	captured []Dependency
	// documents of traces, of which a case may have none; spans and bytes that were read.
	documents, spans, text int
	// values are those that were read, each once: most repeat. It is nil once the store is sealed.
	values map[string]json.RawMessage
	names  map[string]string
}

// trace is one trace, put together of all documents.
type trace struct {
	id traceID
	jsonTrace
	// start is that of its first span, in microseconds since 1970.
	start int64
	// size is the length of its captured text.
	size int
	// merging is nil once the store is sealed.
	merging *merging
}

type operation struct {
	Name     string `json:"name"`
	SpanKind string `json:"spanKind"`
}

func newStore() *store {
	return &store{byID: map[traceID]*trace{}, byService: map[string][]*trace{}, operations: map[string][]operation{}, last: math.MinInt64, values: map[string]json.RawMessage{}, names: map[string]string{}}
}

// load reads all traces of a case. A case without any has an empty store.
func load(c *fixtures.Case) (*store, error) {
	s := newStore()
	var problems []error
	for _, name := range c.DocumentNames() {
		if !isTraces(name) {
			continue
		}
		s.documents++
		text, err := c.Document(name)
		if err == nil {
			err = s.readTraces(text)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	text, err := c.Document(dependenciesDocument)
	if err == nil {
		s.captured, err = readDependencies(text)
	}
	if err != nil && !notThere(err) {
		problems = append(problems, fmt.Errorf("%s: %w", dependenciesDocument, err))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	s.seal()
	return s, nil
}

// merging is what is known of a trace while its entries are put together.
type merging struct {
	spans    map[uint64]bool
	warnings map[string]bool
	// names are what processes are called, by their JSON.
	names map[string]string
	// last is the number of the last name that was made.
	last int
}

// add puts an entry of a document to what other entries have of the same trace. Spans
// that are there already stay as they were.
func (s *store) add(entry *jsonTrace, size int) error {
	id, err := entry.check()
	if err != nil {
		return err
	}
	if s.spans += len(entry.Spans); s.spans > maxSpans {
		return fmt.Errorf("the case has more than %d spans; capture fewer traces or a shorter range", maxSpans)
	}
	t := s.byID[id]
	if t == nil {
		t = &trace{
			id: id, jsonTrace: jsonTrace{TraceID: entry.TraceID, Processes: map[string]*process{}},
			merging: &merging{map[uint64]bool{}, map[string]bool{}, map[string]string{}, 0},
		}
		s.byID[id] = t
	}
	t.size += size
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(entry.Processes)) {
		if names[name], err = t.adopt(name, entry.Processes[name]); err != nil {
			return err
		}
	}
	before := len(t.Spans)
	for _, span := range entry.Spans {
		if t.merging.spans[span.id] {
			continue
		}
		name, ok := names[span.ProcessID]
		if !ok {
			if name, err = t.adopt("p1", span.Process); err != nil {
				return err
			}
		}
		span.ProcessID, span.Process, span.from = name, nil, t.Processes[name]
		s.share(span)
		t.Spans = append(t.Spans, span)
	}
	// An entry may have spans of one id: Jaeger keeps those of one kind.
	for _, span := range t.Spans[before:] {
		t.merging.spans[span.id] = true
	}
	for _, warning := range entry.Warnings {
		if !t.merging.warnings[warning] {
			t.merging.warnings[warning] = true
			t.Warnings = append(t.Warnings, warning)
		}
	}
	return nil
}

// share lets a span have the texts that others have as well.
func (s *store) share(span *span) {
	span.OperationName, span.TraceID = s.name(span.OperationName), s.name(span.TraceID)
	for i := range span.References {
		ref := &span.References[i]
		ref.RefType, ref.TraceID = s.name(ref.RefType), s.name(ref.TraceID)
	}
	s.shareTags(span.Tags)
	for _, l := range span.Logs {
		s.shareTags(l.Fields)
	}
}

func (s *store) shareTags(tags []keyValue) {
	for i := range tags {
		kv := &tags[i]
		kv.Key, kv.Type = s.name(kv.Key), s.name(kv.Type)
		known, ok := s.values[string(kv.Value)]
		if !ok {
			known = kv.Value
			s.values[string(kv.Value)] = known
		}
		kv.Value = known
	}
}

func (s *store) name(text string) string {
	known, ok := s.names[text]
	if !ok {
		known = text
		s.names[text] = text
	}
	return known
}

// adopt adds a process, and says what it is called in the trace: as it is in its entry,
// unless another is called so.
func (t *trace) adopt(name string, p *process) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	if as, known := t.merging.names[string(text)]; known {
		return as, nil
	}
	for t.Processes[name] != nil {
		t.merging.last++
		name = "p" + strconv.Itoa(t.merging.last)
	}
	t.Processes[name] = p
	t.merging.names[string(text)] = name
	return name, nil
}

// seal orders everything.
func (s *store) seal() {
	s.values, s.names = nil, nil
	all := make([]*trace, 0, len(s.byID))
	operations := map[string]map[operation]bool{}
	for _, t := range s.byID {
		t.merging = nil
		t.start = math.MaxInt64
		for _, span := range t.Spans {
			t.start, s.last = min(t.start, int64(span.StartTime)), max(s.last, int64(span.StartTime))
			service := span.from.ServiceName
			if operations[service] == nil {
				operations[service] = map[operation]bool{}
			}
			operations[service][operation{span.OperationName, span.kind()}] = true
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *trace) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.id.high, b.id.high), cmp.Compare(a.id.low, b.id.low))
	})
	for _, t := range all {
		for _, span := range t.Spans {
			service := span.from.ServiceName
			if of := s.byService[service]; len(of) == 0 || of[len(of)-1] != t {
				s.byService[service] = append(of, t)
			}
		}
	}
	for service, of := range operations {
		s.operations[service] = slices.SortedFunc(maps.Keys(of), func(a, b operation) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SpanKind, b.SpanKind))
		})
	}
}

// kind is one of Jaeger's kinds of spans; empty where there is none or another.
func (s *span) kind() string {
	for _, tag := range s.Tags {
		if tag.Key == "span.kind" {
			switch kind := tag.text(); kind {
			case "client", "server", "producer", "consumer", "internal":
				return kind
			}
			return ""
		}
	}
	return ""
}

// start is when a span began.
func (s *span) start() time.Time { return time.UnixMicro(int64(s.StartTime)) }

// duration is how long a span took.
func (s *span) duration() time.Duration {
	return time.Duration(min(s.Duration, math.MaxInt64/1000)) * time.Microsecond
}

// parent is the id of a span's parent: of its first parent in the same trace, else of the
// first span in the same trace that it follows from; 0 for none.
func (s *span) parent(of traceID) uint64 {
	var follows uint64
	for _, ref := range s.References {
		if t, err := parseTraceID(ref.TraceID); err != nil || t != of {
			continue
		}
		id, err := parseSpanID(ref.SpanID)
		if err != nil {
			continue
		}
		if ref.RefType != "FOLLOWS_FROM" {
			return id
		}
		if follows == 0 {
			follows = id
		}
	}
	return follows
}

// query is what traces are searched by, in captured time. Zero values ask for anything.
type query struct {
	service, operation string
	from, to           time.Time
	shortest, longest  time.Duration
	tags               map[string]string
	// limit is how many traces are wanted; all when it isn't positive.
	limit int
}

// find gives the newest traces that have a span as asked for, oldest first.
func (s *store) find(q query) []*trace {
	found := []*trace{}
	of := s.byService[q.service]
	for i := len(of) - 1; i >= 0 && (q.limit <= 0 || len(found) < q.limit); i-- {
		if slices.ContainsFunc(of[i].Spans, q.selects) {
			found = append(found, of[i])
		}
	}
	slices.Reverse(found)
	return found
}

// selects is the rule of Jaeger's in-memory storage: one span must be all that is asked for.
func (q query) selects(s *span) bool {
	if s.from.ServiceName != q.service || q.operation != "" && s.OperationName != q.operation {
		return false
	}
	if d := s.duration(); q.shortest != 0 && d < q.shortest || q.longest != 0 && d > q.longest {
		return false
	}
	if start := s.start(); start.Before(q.from) || start.After(q.to) {
		return false
	}
	for key, value := range q.tags {
		if !s.tagged(key, value) {
			return false
		}
	}
	return true
}

// tagged reports whether a span has a tag: of its own, of its process or of one of its logs.
func (s *span) tagged(key, value string) bool {
	is := func(kv keyValue) bool { return kv.Key == key && kv.text() == value }
	return slices.ContainsFunc(s.Tags, is) || slices.ContainsFunc(s.from.Tags, is) ||
		slices.ContainsFunc(s.Logs, func(l logEntry) bool { return slices.ContainsFunc(l.Fields, is) })
}

// dependencies are counted as Jaeger's in-memory storage does: the calls between different
// services in traces that have a span between two times.
func (s *store) dependencies(from, to time.Time) []Dependency {
	var out []Dependency
	for _, t := range s.byID {
		if !slices.ContainsFunc(t.Spans, func(s *span) bool { return s.start().After(from) && to.After(s.start()) }) {
			continue
		}
		first := map[uint64]*span{}
		for _, span := range t.Spans {
			if first[span.id] == nil {
				first[span.id] = span
			}
		}
		for _, span := range t.Spans {
			if parent := first[span.parent(t.id)]; parent != nil && parent.from.ServiceName != span.from.ServiceName {
				out = append(out, Dependency{parent.from.ServiceName, span.from.ServiceName, 1})
			}
		}
	}
	return out
}

// summed are dependencies with one entry for each pair, sorted; of a service, where one is named.
func summed(all []Dependency, service string) []Dependency {
	counts := map[[2]string]uint64{}
	for _, d := range all {
		if service == "" || d.Parent == service || d.Child == service {
			counts[[2]string{d.Parent, d.Child}] += d.CallCount
		}
	}
	out := make([]Dependency, 0, len(counts))
	for pair, n := range counts {
		out = append(out, Dependency{pair[0], pair[1], n})
	}
	slices.SortFunc(out, func(a, b Dependency) int {
		return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Child, b.Child))
	})
	return out
}
