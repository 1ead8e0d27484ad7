package traces

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
)

// FuzzReadTraces: whatever a file of traces holds, it is read or refused, and what was
// read can be searched, moved, translated and answered.
func FuzzReadTraces(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "traces.json"))
	if err != nil {
		f.Fatal(err)
	}
	few := bytes.SplitN(text, []byte("\n"), 5)
	f.Add(append(bytes.TrimSuffix(bytes.Join(few[:4], nil), []byte(",")), "]}"...))
	f.Add([]byte(`{"data":[{"traceID":"a","spans":[{"traceID":"a","spanID":"1","process":{"serviceName":"w"},"startTime":18446744073709551615,"duration":18446744073709551615,
		"references":[{"refType":"CHILD_OF","traceID":"a","spanID":"1"}],"tags":[{"key":"span.kind","value":null},{"key":"x","type":"binary","value":{"a":[]}},{"key":"http.status_code","type":"string","value":"404"}]}]}]}`))
	f.Add([]byte(`{"data":null,"errors":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return // the case refuses it before
		}
		s := newStore()
		if err := s.readTraces(text); err != nil {
			return
		}
		s.seal()
		for service, of := range s.byService {
			if found := s.find(query{service: service, from: time.UnixMicro(-1 << 62), to: time.UnixMicro(1 << 62), tags: map[string]string{"x": "y"}}); len(found) > len(of) {
				t.Fatalf("%d of %d traces", len(found), len(of))
			}
		}
		summed(s.dependencies(time.Unix(0, 0), time.Now()), "")
		for _, one := range s.byID {
			if len(one.Spans) == 0 {
				t.Fatalf("%s has no spans", one.id)
			}
			moved := one.moved(49 * time.Hour)
			back := (&trace{jsonTrace: moved}).moved(-49 * time.Hour)
			for i, span := range back.Spans {
				if span.StartTime != one.Spans[i].StartTime && moved.Spans[i].StartTime != 0 {
					t.Fatalf("%d moved to and fro is %d", one.Spans[i].StartTime, span.StartTime)
				}
			}
			for _, answer := range []any{one.jsonTrace, moved, one.otlp(time.Hour)} {
				if _, err := json.Marshal(answer); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzParameters: whatever is asked, the answer is JSON and no failure of ours.
func FuzzParameters(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "traces.json"))
	if err != nil {
		f.Fatal(err)
	}
	captured := time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)
	c := fixturestest.Case(f, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, map[string]string{"traces/traces.json": string(text)})
	h := New(Options{}).Handler(c, clock.New(clock.Shifted, captured, time.Now()))
	f.Add("traces", "service=cart&start=9223372036854775807&end=-9223372036854775808&limit=2147483647")
	f.Add("traces", "service=cart&tags={\"a\":\"b\"}&tag=:&minDuration=-1h&maxDuration=9223372036854775807ns")
	f.Add("traces/abc123", "prettyPrint=1&raw=true")
	f.Add("services/a%2Fb+c/operations", "")
	f.Add("operations", "service=%00&spanKind=x")
	f.Add("dependencies", "endTs=9223372036854775807&lookback=-9223372036854775808")
	f.Add("v3/traces", "query.start_time_min=0000-01-01T00:00:00Z&query.start_time_max=9999-12-31T23:59:59Z&query.num_traces=-1&query.service_name=cart")
	f.Fuzz(func(t *testing.T, path, query string) {
		req := httptest.NewRequest(http.MethodGet, "/api/traces", nil)
		req.URL.RawQuery = query
		if clean := strings.Trim(filepath.ToSlash(filepath.Clean("/"+path)), "/"); clean == path {
			req.URL.Path = "/api/" + path
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code == http.StatusInternalServerError || w.Code < 300 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
		}
	})
}

// TestBounds: what is too much is refused with what to do.
func TestBounds(t *testing.T) {
	entry := `{"data":[{"traceID":"a","spans":[{"traceID":"a","spanID":"1","process":{"serviceName":"w"}}]}]}`
	for want, s := range map[string]*store{
		"more than 1000000 spans; capture fewer traces":      {byID: map[traceID]*trace{}, spans: maxSpans},
		"more than 268435456 bytes of traces; capture fewer": {byID: map[traceID]*trace{}, text: maxText},
	} {
		if err := s.readTraces([]byte(entry)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one that says: %s", err, want)
		}
	}
	if _, err := sizeOf([]*trace{{size: maxAnswer}, {size: 1}}); codeOf(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "more than 64 MiB; ask for fewer traces with limit") {
		t.Error(err)
	}
}

// TestManyEntriesOfOneTrace: entries are put together in a time that grows with their number.
func TestManyEntriesOfOneTrace(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"data":[`)
	const n = 20_000
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		id := traceID{low: uint64(i + 1)}.String()
		b.WriteString(`{"traceID":"a","warnings":["` + id + `"],"processes":{"p1":{"serviceName":"` + id + `"}},"spans":[{"traceID":"a","spanID":"` + id + `","processID":"p1"}]}`)
	}
	b.WriteString(`]}`)
	s := newStore()
	begin := time.Now()
	if err := s.readTraces([]byte(b.String())); err != nil {
		t.Fatal(err)
	}
	s.seal()
	one := s.byID[traceID{low: 10}]
	if len(one.Spans) != n || len(one.Processes) != n || len(one.Warnings) != n || len(s.byService) != n {
		t.Errorf("%d spans, %d processes, %d warnings, %d services, want %d", len(one.Spans), len(one.Processes), len(one.Warnings), len(s.byService), n)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
