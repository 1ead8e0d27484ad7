package traces_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/traces"
)

var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

func newCase(t testing.TB, documents map[string]string) *fixtures.Case {
	t.Helper()
	return fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)},
		Coverage: fixtures.Coverage{Besides: []fixtures.BesidesCoverage{{What: "traces", Reason: "nobody was asked"}}}}, documents)
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// recorded is an answer of a real Jaeger; see testdata/README.md.
type recorded struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Status int             `json:"status"`
	Type   string          `json:"type"`
	JSON   json.RawMessage `json:"json"`
	Text   string          `json:"text"`
}

// differs are the requests that are meant to be answered otherwise, and how.
var differs = map[string]string{
	"/api/archive/abc123":             `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":403,"msg":"this Jaeger is a captured one and read-only: traces can't be archived"}]}`,
	"/api/metrics/calls?service=cart": `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":501,"msg":"the metrics of Jaeger were not captured"}]}`,
	"/api/metrics/calls":              `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":501,"msg":"the metrics of Jaeger were not captured"}]}`,
	"/api/metrics/latencies":          `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":501,"msg":"the metrics of Jaeger were not captured"}]}`,
	"/api/metrics/minstep":            `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":501,"msg":"the metrics of Jaeger were not captured"}]}`,
}

// TestAsJaeger compares with the answers of a real Jaeger that has the same traces.
func TestAsJaeger(t *testing.T) {
	h := traces.New(traces.Options{}).Handler(newCase(t, map[string]string{"traces/traces.json": testdata(t, "traces.json")}), clock.New(clock.Captured, captured, captured))
	var all []recorded
	if err := json.Unmarshal([]byte(testdata(t, "answers.json")), &all); err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, want := range all {
		method := cmp.Or(want.Method, http.MethodGet)
		w := ask(h, method, want.Path)
		if other, ok := differs[want.Path]; ok {
			if diff := gocmp.Diff(other, strings.TrimSpace(w.Body.String())); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", method, want.Path, diff)
			}
			continue
		}
		same++
		if w.Code != want.Status || w.Header().Get("Content-Type") != want.Type {
			t.Errorf("%s %s: %d %s, want %d %s", method, want.Path, w.Code, w.Header().Get("Content-Type"), want.Status, want.Type)
		}
		// The two versions of the API word a warning differently; the captured one is that of the first.
		wantText := strings.ReplaceAll(cmp.Or(string(want.JSON), want.Text), "parent span ID=0000000000000099 is not in the trace", "invalid parent span IDs=0000000000000099")
		if diff := gocmp.Diff(normal(t, []byte(wantText)), normal(t, w.Body.Bytes())); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", method, want.Path, diff)
		}
		// Where a limit cuts, Jaeger's storage has an order.
		if strings.Contains(want.Path, "limit=3") {
			if diff := gocmp.Diff(ids(t, want.JSON), ids(t, w.Body.Bytes())); diff != "" {
				t.Errorf("%s: other traces, or another order (-want +got):\n%s", want.Path, diff)
			}
		}
		// What is indented is compared with its spaces, too.
		if strings.Contains(want.Path, "prettyPrint") && len(w.Body.String()) != len(want.Text) {
			t.Errorf("%s: %d bytes, want %d", want.Path, w.Body.Len(), len(want.Text))
		}
	}
	t.Logf("%d answers are those of Jaeger, %d are others", same, len(all)-same)
}

// ids are those of the traces of an answer, in its order.
func ids(t *testing.T, text []byte) []string {
	t.Helper()
	var answer struct {
		Data []struct {
			TraceID string `json:"traceID"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out := []string{}
	for _, one := range answer.Data {
		out = append(out, one.TraceID)
	}
	return out
}

// normal is JSON with the order that Jaeger makes anew at random for each answer: of
// traces, spans, processes and their names, services, operations and dependencies.
func normal(t *testing.T, text []byte) any {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return ordered(value, nil)
}

func ordered(value any, processes map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		if named, ok := v["processes"].(map[string]any); ok {
			processes = named
			delete(v, "processes")
		}
		if id, ok := v["processID"].(string); ok {
			v["processID"] = processes[id]
		}
		for key, one := range v {
			v[key] = ordered(one, processes)
		}
	case []any:
		for i, one := range v {
			v[i] = ordered(one, processes)
		}
		slices.SortFunc(v, func(a, b any) int { return cmp.Compare(encoded(a), encoded(b)) })
	}
	return value
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// caseDir is a case with the traces of testdata.
func caseDir(t testing.TB) string {
	t.Helper()
	return fixturestest.Write(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, map[string]string{"traces/traces.json": testdata(t, "traces.json")})
}
