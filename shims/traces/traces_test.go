package traces_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/traces"
)

// spanText is a span as a file has it, some time before the capture.
func spanText(trace, span, process, operation string, before time.Duration, more string) string {
	return fmt.Sprintf(`{"traceID":%q,"spanID":%q,"operationName":%q,"references":[%s],"startTime":%d,"duration":1000,"tags":[],"logs":[],"processID":%q,"warnings":null}`,
		trace, span, operation, more, captured.Add(-before).UnixMicro(), process)
}

func traceText(trace string, services []string, spans ...string) string {
	var processes []string
	for i, s := range services {
		processes = append(processes, fmt.Sprintf(`"p%d":{"serviceName":%q,"tags":[]}`, i+1, s))
	}
	return fmt.Sprintf(`{"traceID":%q,"spans":[%s],"processes":{%s},"warnings":null}`, trace, strings.Join(spans, ","), strings.Join(processes, ","))
}

func document(entries ...string) string { return `{"data":[` + strings.Join(entries, ",") + `]}` }

func childOf(trace, span string) string {
	return fmt.Sprintf(`{"refType":"CHILD_OF","traceID":%q,"spanID":%q}`, trace, span)
}

func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	w := ask(h, http.MethodGet, path)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestMoved: every time of an answer is the episode's, and so are those of requests.
func TestMoved(t *testing.T) {
	c := newCase(t, map[string]string{"traces/traces.json": testdata(t, "traces.json")})
	const offset = 30 * 24 * time.Hour
	start := captured.Add(offset)
	shim := traces.New(traces.Options{})
	still, h := shim.Handler(c, clock.New(clock.Captured, captured, captured)), shim.Handler(c, clock.New(clock.Shifted, captured, start))
	micro := func(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }
	// The answers of the two differ by nothing but times.
	was, is := get(t, still, "/api/traces?service=payment"), get(t, h, "/api/traces?service=payment")
	for _, at := range []time.Duration{-10 * time.Minute, -10*time.Minute + 9*time.Millisecond, -10*time.Minute + 10*time.Millisecond} {
		before, after := micro(captured.Add(at)), micro(start.Add(at))
		if !strings.Contains(was, before) || strings.Contains(is, before) || !strings.Contains(is, after) {
			t.Errorf("%s is not %s: %s", before, after, is)
		}
		was = strings.ReplaceAll(was, before, after)
	}
	if text := "2026-12-31T00:08:24.010Z"; !strings.Contains(is, text) {
		t.Errorf("no %s in a log: %s", text, is)
	}
	if was = strings.ReplaceAll(was, "2026-12-01T00:08:24.010Z", "2026-12-31T00:08:24.010Z"); len(was) != len(is) {
		t.Errorf("%d bytes, want %d", len(is), len(was))
	}
	if otlp := get(t, h, "/api/v3/traces/4bf92f3577b34da6a3ce929d0e0e4736"); !strings.Contains(otlp, micro(start.Add(-10*time.Minute))+"000") || !strings.Contains(otlp, "2026-12-31T00:08:24.010Z") {
		t.Errorf("times of OTLP: %s", otlp)
	}
	for path, want := range map[string]int{
		"service=frontend&start=" + micro(start.Add(-6*time.Minute)):                                               1,
		"service=frontend&end=" + micro(start.Add(-6*time.Minute)):                                                 1,
		"service=frontend&start=" + micro(captured.Add(-time.Hour)) + "&end=" + micro(captured):                    0,
		"service=payment&tag=at:2026-12-31T00:08:24.010Z":                                                          1,
		"service=payment&tag=at:2026-12-01T00:08:24.010Z":                                                          0,
		"service=frontend&start=" + micro(start.Add(-time.Hour)) + "&end=" + micro(start.Add(20*365*24*time.Hour)): 2,
	} {
		if got := ids(t, []byte(get(t, h, "/api/traces?"+path))); len(got) != want {
			t.Errorf("%s: %v, want %d", path, got, want)
		}
	}
	for path, want := range map[string]int{
		"endTs=" + strconv.FormatInt(start.Add(-4*time.Minute).UnixMilli(), 10) + "&lookback=120000": 2,
		"endTs=" + strconv.FormatInt(captured.UnixMilli(), 10):                                       0,
	} {
		if got := strings.Count(get(t, h, "/api/dependencies?"+path), "callCount"); got != want {
			t.Errorf("%s: %d dependencies, want %d", path, got, want)
		}
	}
}

// TestAsOfTheCapture: how late a search is made makes no difference.
func TestAsOfTheCapture(t *testing.T) {
	c := newCase(t, map[string]string{"traces/traces.json": testdata(t, "traces.json")})
	started := time.Now().Add(-20 * time.Minute) // an investigation that takes its time
	h := traces.New(traces.Options{}).Handler(c, clock.New(clock.Shifted, captured, started))
	now := time.Now()
	micro := func(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }
	for path, want := range map[string]int{
		"": 2,
		"&start=" + micro(now.Add(-7*time.Minute)) + "&end=" + micro(now): 1,
		// The last minutes end now, or what lies between the capture and now would be a gap.
		"&start=" + micro(now.Add(-11*time.Minute)) + "&end=" + micro(now):                               2,
		"&start=" + micro(now.Add(-11*time.Minute)) + "&end=" + micro(now) + "&lookback=custom&limit=20": 2,
		// Without an end the search begins where it says, and nothing is there.
		"&start=" + micro(now.Add(-7*time.Minute)): 0,
		// One that ends in the future is only cut.
		"&start=" + micro(now.Add(-26*time.Minute)) + "&end=" + micro(now.Add(time.Hour)): 1,
	} {
		if got := ids(t, []byte(get(t, h, "/api/traces?service=frontend"+path))); len(got) != want {
			t.Errorf("%s: %v, want %d", path, got, want)
		}
	}
	if got := strings.Count(get(t, h, "/api/dependencies?lookback=400000"), "callCount"); got != 6 {
		t.Errorf("%d dependencies, want 6", got)
	}
	v3 := "/api/v3/traces?query.service_name=frontend&query.start_time_min=" + now.Add(-7*time.Minute).UTC().Format(time.RFC3339Nano) + "&query.start_time_max=" + now.UTC().Format(time.RFC3339Nano)
	if got := get(t, h, v3); !strings.Contains(got, "0000000000000011") {
		t.Errorf("%s: %s", v3, got)
	}
}

// TestNotCaptured: what a case hasn't is refused, and not answered as empty.
func TestNotCaptured(t *testing.T) {
	empty := traces.New(traces.Options{}).Handler(newCase(t, nil), clock.Clock{})
	const refused = `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":501,"msg":"the traces of Jaeger were not captured: nobody was asked"}]}`
	for path, want := range map[string]string{
		"/api/services": refused, "/api/services/a/operations": refused, "/api/operations?service=a": refused,
		"/api/traces?service=a": refused, "/api/traces?traceID=1": refused, "/api/traces/1": refused,
		"/api/dependencies":  strings.Replace(refused, "traces", "dependencies", 1),
		"/api/v3/services":   `{"error":{"httpCode":501,"message":"the traces of Jaeger were not captured: nobody was asked"}}`,
		"/api/v3/traces/1":   `{"error":{"httpCode":501,"message":"the traces of Jaeger were not captured: nobody was asked"}}`,
		"/api/v3/operations": `{"error":{"httpCode":501,"message":"the traces of Jaeger were not captured: nobody was asked"}}`,
		"/":                  "the traces of Jaeger were not captured: nobody was asked",
	} {
		w := ask(empty, http.MethodGet, path)
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusNotImplemented || got != want {
			t.Errorf("%s: %d %s, want 501 %s", path, w.Code, got, want)
		}
	}
	h := traces.New(traces.Options{}).Handler(newCase(t, map[string]string{"traces/traces.json": `{"data":null}`}), clock.Clock{})
	for path, want := range map[string]string{
		"/api/services":         `{"data":null,"total":0,"limit":0,"offset":0,"errors":null}`,
		"/api/traces?service=a": `{"data":[],"total":0,"limit":0,"offset":0,"errors":null}`,
		"/api/dependencies":     `{"data":[],"total":0,"limit":0,"offset":0,"errors":null}`,
		"/api/v3/services":      `{}`,
		"/":                     "Jaeger's query API is at /api. Its pages were not captured.\n",
	} {
		if got := get(t, h, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if w := ask(h, http.MethodGet, "/api/transform"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "there is no /api/transform") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestServiceNotCaptured: of a service that couldn't be asked for, no search is answered
// with what others have of it.
func TestServiceNotCaptured(t *testing.T) {
	c := fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)},
		Coverage: fixtures.Coverage{Besides: []fixtures.BesidesCoverage{{What: "traces/redis", Reason: "the server answered 500"}}}}, map[string]string{"traces/traces.json": testdata(t, "traces.json")})
	h := http.StripPrefix("/jaeger", traces.New(traces.Options{}).Handler(c, clock.New(clock.Captured, captured, captured)))
	w := ask(h, http.MethodGet, "/jaeger/api/traces?service=redis")
	if want := `"errors":[{"code":501,"msg":"the traces of the service redis were not captured: the server answered 500"}]`; w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s, want 501 %s", w.Code, w.Body, want)
	}
	w = ask(h, http.MethodGet, "/jaeger/api/v3/traces?query.service_name=redis&query.start_time_min=2026-12-01T00:00:00Z&query.start_time_max=2026-12-01T00:18:24Z")
	if w.Code != http.StatusNotImplemented {
		t.Errorf("%d %s, want 501", w.Code, w.Body)
	}
	for _, path := range []string{"/jaeger/api/traces?service=checkout", "/jaeger/api/traces/abc123", "/jaeger/api/services/a%20service%2Fwith%20%3F/operations"} {
		if got := get(t, h, path); !strings.Contains(got, "redis") && !strings.Contains(got, `an operation \u0026 more`) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestMerged: entries of one trace are one, whichever file they stand in.
func TestMerged(t *testing.T) {
	c := newCase(t, map[string]string{
		"traces/traces.json": document(
			traceText("a", []string{"web", "api"}, spanText("a", "1", "p1", "first", time.Minute, ""), spanText("a", "2", "p2", "second", time.Minute, childOf("a", "1"))),
			traceText("b", []string{"web"}, spanText("b", "1", "p1", "x", 2*time.Minute, ""), spanText("b", "1", "p1", "y", 2*time.Minute, ""))),
		"traces/more.json": document(
			traceText("000000000000000a", []string{"api", "db"}, spanText("a", "1", "p1", "not this", 0, ""), spanText("a", "2", "p1", "second", time.Minute, childOf("a", "1")), spanText("0a", "3", "p2", "third", time.Minute, childOf("000a", "0002")))),
		"traces/further/ignored.json": `{}`,
	})
	h := traces.New(traces.Options{}).Handler(c, clock.Clock{})
	type answer struct {
		Data []struct {
			TraceID   string
			Spans     []struct{ SpanID, OperationName, ProcessID string }
			Processes map[string]struct{ ServiceName string }
		}
	}
	var got answer
	if err := json.Unmarshal([]byte(get(t, h, "/api/traces/a")), &got); err != nil {
		t.Fatal(err)
	}
	var spans []string
	for _, s := range got.Data[0].Spans {
		spans = append(spans, s.SpanID+" "+s.OperationName+" "+got.Data[0].Processes[s.ProcessID].ServiceName)
	}
	// more.json is read first.
	if diff := cmp.Diff([]string{"1 not this api", "2 second api", "3 third db"}, spans); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := strings.Count(get(t, h, "/api/traces/b"), "operationName"); got != 2 {
		t.Errorf("%d spans of b, want 2: an entry may have two of one id", got)
	}
	if got := ids(t, []byte(get(t, h, "/api/traces?service=web"))); !slices.Equal(got, []string{"b"}) {
		t.Errorf("traces of web: %v", got)
	}
	if got, want := get(t, h, "/api/dependencies"), `"data":[{"parent":"api","child":"db","callCount":1}]`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDependencies(t *testing.T) {
	documents := map[string]string{
		"traces/traces.json":       document(traceText("a", []string{"web"}, spanText("a", "1", "p1", "x", time.Minute, ""))),
		"traces/dependencies.json": `{"data":[{"parent":"web","child":"db","callCount":2},{"parent":"api","child":"db","callCount":3},{"parent":"web","child":"db","callCount":5}],"total":0}`,
	}
	mesh := func(*fixtures.Case, clock.Clock) ([]traces.Dependency, error) {
		return []traces.Dependency{{Parent: "mesh", Child: "db", CallCount: 1}}, nil
	}
	const captured, meshed, none = `[{"parent":"api","child":"db","callCount":3},{"parent":"web","child":"db","callCount":7}]`, `[{"parent":"mesh","child":"db","callCount":1}]`, `[]`
	for _, test := range []struct {
		name      string
		documents []string
		options   traces.Options
		query     string
		code      int
		want      string
	}{
		{"captured", []string{"traces/traces.json", "traces/dependencies.json"}, traces.Options{Mesh: mesh}, "", 200, captured},
		{"captured of a service", []string{"traces/dependencies.json"}, traces.Options{}, "?service=web&endTs=1", 200, `[{"parent":"web","child":"db","callCount":7}]`},
		{"of traces", []string{"traces/traces.json"}, traces.Options{Mesh: mesh}, "", 200, none},
		{"of the mesh", nil, traces.Options{Mesh: mesh}, "", 200, meshed},
		{"the mesh has none", nil, traces.Options{Mesh: func(*fixtures.Case, clock.Clock) ([]traces.Dependency, error) { return nil, nil }}, "", 501, ""},
		{"the mesh fails", nil, traces.Options{Mesh: func(*fixtures.Case, clock.Clock) ([]traces.Dependency, error) { return nil, errors.New("no") }}, "", 500, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			has := map[string]string{}
			for _, name := range test.documents {
				has[name] = documents[name]
			}
			w := ask(traces.New(test.options).Handler(newCase(t, has), clock.Clock{}), http.MethodGet, "/api/dependencies"+test.query)
			if w.Code != test.code || test.want != "" && !strings.Contains(w.Body.String(), `"data":`+test.want+`,`) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, test.code, test.want)
			}
		})
	}
}

// TestBadDocuments: what a file has wrong is said with its name and what to do.
func TestBadDocuments(t *testing.T) {
	good := spanText("a", "1", "p1", "x", time.Minute, "")
	for want, text := range map[string]string{
		`traces/traces.json: is no object with "data"`:                                `[]`,
		`traces/traces.json: has no "data"`:                                           `{}`,
		`traces/traces.json: "data" is no list`:                                       `{"data":{}}`,
		`trace 0: json: cannot unmarshal`:                                             `{"data":[1]}`,
		`trace 0 is null`:                                                             `{"data":[null]}`,
		`trace 0: "" is no id of a trace`:                                             `{"data":[{}]}`,
		`trace 0: 000000000000000a has no spans`:                                      `{"data":[{"traceID":"a"}]}`,
		`a span of 000000000000000a is null`:                                          `{"data":[{"traceID":"a","spans":[null]}]}`,
		`"zz" is no id of a span`:                                                     document(traceText("a", []string{"w"}, spanText("a", "zz", "p1", "x", 0, ""))),
		`says that it is of the trace "b"; it stands in 000000000000000a`:             document(traceText("a", []string{"w"}, spanText("b", "1", "p1", "x", 0, ""))),
		`names the process "p2", which the trace doesn't have`:                        document(traceText("a", []string{"w"}, spanText("a", "1", "p2", "x", 0, ""))),
		`the process "p1" of 000000000000000a is null`:                                `{"data":[{"traceID":"a","spans":[` + good + `],"processes":{"p1":null}}]}`,
		`spans.startTime`:                                                             `{"data":[{"traceID":"a","spans":[{"startTime":-1}]}]}`,
		`trace 1: "" is no id of a trace`:                                             document(traceText("a", []string{"w"}, good), `{}`),
		`TraceID cannot be longer than 32 hex characters: ` + strings.Repeat("0", 33): `{"data":[{"traceID":"` + strings.Repeat("0", 33) + `"}]}`,
	} {
		h := traces.New(traces.Options{}).Handler(newCase(t, map[string]string{"traces/traces.json": text}), clock.Clock{})
		for _, path := range []string{"/api/services", "/api/traces?service=w", "/api/traces/a", "/api/dependencies", "/api/v3/services"} {
			w := ask(h, http.MethodGet, path)
			var body struct {
				Errors []struct{ Msg string }
				Error  struct{ Message string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			got := body.Error.Message
			if len(body.Errors) > 0 {
				got = body.Errors[0].Msg
			}
			if w.Code != http.StatusInternalServerError || !strings.Contains(got, want) {
				t.Errorf("%s: %d %s, want 500 and: %s", path, w.Code, got, want)
			}
		}
	}
	for want, text := range map[string]string{
		"dependency 0 has no parent or no child":      `{"data":[{"parent":"a"}]}`,
		"dependency 0: json":                          `{"data":[{"parent":"a","child":"b","callCount":-1}]}`,
		`traces/dependencies.json: is no object with`: `"x"`,
	} {
		h := traces.New(traces.Options{}).Handler(newCase(t, map[string]string{"traces/dependencies.json": text}), clock.Clock{})
		if w := ask(h, http.MethodGet, "/api/dependencies"); w.Code != http.StatusInternalServerError || !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), want) {
			t.Errorf("%d %s, want 500 and: %s", w.Code, w.Body, want)
		}
	}
}

// TestManyEpisodesShareOneReading: a case is read once, and let go with its last holder.
func TestManyEpisodesShareOneReading(t *testing.T) {
	shim := traces.New(traces.Options{})
	gone := make(chan struct{})
	func() {
		c, err := fixtures.Open(caseDir(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				h := shim.Handler(c, clock.New(clock.Shifted, captured, captured.Add(time.Duration(i)*time.Hour)))
				for range 10 {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/traces?service=cart", nil))
					if w.Code != http.StatusOK {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				}
			})
		}
		all.Wait()
		if n := shim.Stores(); n != 1 {
			t.Errorf("%d stores, want 1", n)
		}
		runtime.AddCleanup(c, func(struct{}) { close(gone) }, struct{}{})
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-gone:
			for range 100 {
				if shim.Stores() == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Fatal("the traces of a case that is gone are kept")
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the case is kept")
}
