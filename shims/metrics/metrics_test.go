package metrics_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/metrics"
)

// captured is a whole second, as clocks count.
var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

const samples = `# TYPE http_requests counter
# HELP http_requests Requests.
http_requests_total{code="200",pod="a"} 0 1796084244
http_requests_total{code="200",pod="a"} 60 1796084304
http_requests_total{code="500",pod="a"} 5 1796084304
# TYPE process_start_time_seconds gauge
process_start_time_seconds{pod="a"} 1796080704 1796084304
# EOF
`

func newCase(t testing.TB, documents map[string]string) *fixtures.Case {
	t.Helper()
	return fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)},
		Coverage: fixtures.Coverage{Besides: []fixtures.BesidesCoverage{{What: "metrics", Reason: "Prometheus was down"}}}}, documents)
}

func ask(t testing.TB, h http.Handler, method, path string, form url.Values) (int, string) {
	t.Helper()
	var body io.Reader
	target := path
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else if len(form) > 0 {
		target += "?" + form.Encode()
	}
	req := httptest.NewRequest(method, target, body)
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func TestAPI(t *testing.T) {
	c := newCase(t, map[string]string{
		"metrics/a.txt":            samples,
		"metrics/api/targets.json": `{"status":"success","data":{"activeTargets":[{"scrapePool":"pods","lastScrape":"2026-12-01T00:18:20Z"},{"scrapePool":"nodes"}],"droppedTargets":[]}}`,
		"metrics/api/rules.json":   `{"status":"success","data":{"groups":[{"name":"g","file":"f","rules":[{"name":"A","alerts":[{"activeAt":"2026-12-01T00:00:00Z"}],"labels":{"team":"x"},"type":"alerting"},{"name":"R","type":"recording"}]}]}}`,
		"metrics/api/alerts.json":  `{"status":"success","data":{"alerts":[{"labels":{"alertname":"A"},"activeAt":"2026-12-01T00:00:00Z"}]}}`,
	})
	shim := metrics.New(metrics.Options{})
	still := shim.Handler(c, clock.New(clock.Captured, captured, captured))
	moved := shim.Handler(c, clock.New(clock.Shifted, captured, captured.Add(time.Hour)))
	at := func(s int) string { return fmt.Sprint(1796084304 + s) }
	for _, test := range []struct {
		name, path string
		form       url.Values
		handler    http.Handler
		code       int
		want       string
	}{
		{"instant", "query", url.Values{"query": {`http_requests_total{code="200"}`}, "time": {at(0)}}, still, 200,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"http_requests_total","code":"200","pod":"a"},"value":[1796084304,"60"]}]}}`},
		{"the present is the capture", "query", url.Values{"query": {`time()`}}, still, 200,
			`{"status":"success","data":{"resultType":"scalar","result":[1796084304,"1796084304"]}}`},
		{"nothing is later than the capture", "query", url.Values{"query": {`time()`}, "time": {"2027-01-01T00:00:00Z"}}, still, 200,
			`{"status":"success","data":{"resultType":"scalar","result":[1796084304,"1796084304"]}}`},
		{"the present moves", "query", url.Values{"query": {`rate(http_requests_total{code="200"}[1m])`}}, moved, 200,
			`{"status":"success","data":{"resultType":"vector","result":[]}}`},
		{"time and moments move together", "query", url.Values{"query": {`time() - process_start_time_seconds`}}, moved, 200,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1796087904,"3600"]}]}}`},
		{"a moment moves", "query", url.Values{"query": {`process_start_time_seconds`}}, moved, 200,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"process_start_time_seconds","pod":"a"},"value":[1796087904,"1796084304"]}]}}`},
		{"range", "query_range", url.Values{"query": {`http_requests_total{code="200"}`}, "start": {at(-60)}, "end": {at(0)}, "step": {"30"}}, still, 200,
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"http_requests_total","code":"200","pod":"a"},"values":[[1796084244,"0"],[1796084274,"0"],[1796084304,"60"]]}]}}`},
		{"range after the capture", "query_range", url.Values{"query": {`up`}, "start": {at(60)}, "end": {at(90)}, "step": {"30"}}, still, 200,
			`{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["nothing was captured after 2026-12-01T00:18:24Z, before the start of the range"]}`},
		{"matrix", "query", url.Values{"query": {`http_requests_total{code="200"}[2m]`}}, moved, 200,
			`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"http_requests_total","code":"200","pod":"a"},"values":[[1796087844,"0"],[1796087904,"60"]]}]}}`},
		{"string", "query", url.Values{"query": {`"x"`}}, still, 200, `{"status":"success","data":{"resultType":"string","result":[1796084304,"x"]}}`},
		{"limit", "query", url.Values{"query": {`{pod="a"}`}, "limit": {"1"}}, still, 200,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"http_requests_total","code":"200","pod":"a"},"value":[1796084304,"60"]}]},"warnings":["results truncated due to limit"]}`},
		{"no query", "query", nil, still, 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": unknown position: parse error: no expression found in input"}`},
		{"bad step", "query_range", url.Values{"query": {"up"}, "start": {"0"}, "end": {"1"}, "step": {"0"}}, still, 400,
			`{"status":"error","errorType":"bad_data","error":"invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer"}`},
		{"many to many", "query", url.Values{"query": {`http_requests_total + on(pod) http_requests_total`}}, still, 422,
			`{"status":"error","errorType":"execution","error":"found duplicate series for the match group {pod=\"a\"} on the right hand-side of the operation: [{__name__=\"http_requests_total\", code=\"200\", pod=\"a\"}, {__name__=\"http_requests_total\", code=\"500\", pod=\"a\"}];many-to-many matching not allowed: matching labels must be unique on one side"}`},
		{"series", "series", url.Values{"match[]": {`http_requests_total{code="500"}`, `process_start_time_seconds`}}, still, 200,
			`{"status":"success","data":[{"__name__":"http_requests_total","code":"500","pod":"a"},{"__name__":"process_start_time_seconds","pod":"a"}]}`},
		{"no series there", "series", url.Values{"match[]": {`http_requests_total`}, "end": {at(-61)}}, still, 200, `{"status":"success","data":[]}`},
		{"series of nothing", "series", nil, still, 400, `{"status":"error","errorType":"bad_data","error":"no match[] parameter provided"}`},
		{"labels", "labels", nil, still, 200, `{"status":"success","data":["__name__","code","pod"]}`},
		{"labels of one", "labels", url.Values{"match[]": {"process_start_time_seconds"}}, still, 200, `{"status":"success","data":["__name__","pod"]}`},
		{"targets of a pool", "targets", url.Values{"scrapePool": {"pods"}}, moved, 200,
			`{"status":"success","data":{"activeTargets":[{"scrapePool":"pods","lastScrape":"2026-12-01T01:18:20Z"}],"droppedTargets":[]}}`},
		{"rules that alert", "rules", url.Values{"type": {"alert"}, "exclude_alerts": {"true"}}, still, 200,
			`{"status":"success","data":{"groups":[{"name":"g","file":"f","rules":[{"name":"A","alerts":[],"labels":{"team":"x"},"type":"alerting"}]}]}}`},
		{"alerts", "alerts", nil, moved, 200, `{"status":"success","data":{"alerts":[{"labels":{"alertname":"A"},"activeAt":"2026-12-01T01:00:00Z"}]}}`},
		{"metadata", "metadata", url.Values{"metric": {"http_requests"}}, still, 200, `{"status":"success","data":{"http_requests":[{"type":"counter","help":"Requests.","unit":""}]}}`},
		{"exemplars", "query_exemplars", url.Values{"query": {"up"}}, still, 200, `{"status":"success","data":[]}`},
		{"format", "format_query", url.Values{"query": {"sum( up )"}}, still, 200, `{"status":"success","data":"sum(up)"}`},
		{"flags", "status/flags", nil, still, 501, `{"status":"error","errorType":"not_captured","error":"what Prometheus says of its flags was not captured: Prometheus was down"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, body := ask(t, test.handler, http.MethodGet, "/api/v1/"+test.path, test.form)
			if code != test.code || body != test.want {
				t.Errorf("%d %s\nwant %d %s", code, body, test.code, test.want)
			}
			if strings.HasPrefix(test.path, "query") {
				if posted, same := ask(t, test.handler, http.MethodPost, "/api/v1/"+test.path, test.form); posted != code || same != body {
					t.Errorf("POST answers %d %s", posted, same)
				}
			}
		})
	}
	if code, body := ask(t, still, http.MethodGet, "/api/v1/label/code/values", nil); body != `{"status":"success","data":["200","500"]}` {
		t.Errorf("label values: %d %s", code, body)
	}
	if code, body := ask(t, still, http.MethodGet, "/-/ready", nil); code != 200 || body != "Prometheus Server is Ready.\n" {
		t.Errorf("ready: %d %q", code, body)
	}
}

func TestNotCaptured(t *testing.T) {
	h := metrics.New(metrics.Options{}).Handler(newCase(t, nil), clock.New(clock.Captured, captured, captured))
	for path, form := range map[string]url.Values{
		"query": {"query": {"up"}}, "query_range": {"query": {"up"}, "start": {"0"}, "end": {"1"}, "step": {"1"}},
		"series": {"match[]": {"up"}}, "labels": nil, "label/a/values": nil, "metadata": nil, "status/buildinfo": nil, "query_exemplars": {"query": {"up"}},
	} {
		code, body := ask(t, h, http.MethodGet, "/api/v1/"+path, form)
		if want := `{"status":"error","errorType":"not_captured","error":"no metrics were captured: Prometheus was down"}`; code != 501 || body != want {
			t.Errorf("%s: %d %s, want 501 %s", path, code, body, want)
		}
	}
}

func TestBadSamples(t *testing.T) {
	for name, text := range map[string]string{
		"no time": "up 1\n# EOF\n", "no end": "up 1 1\n", "no value": "up\n# EOF\n", "not text": "\x00\xff", "open label": "up{a=\"\n# EOF\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := metrics.New(metrics.Options{}).Handler(newCase(t, map[string]string{"metrics/bad.txt": text}), clock.New(clock.Captured, captured, captured))
			code, body := ask(t, h, http.MethodGet, "/api/v1/query", url.Values{"query": {"up"}})
			if code != 500 || !strings.Contains(body, "metrics/bad.txt: entry") {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

// TestBounds: a query that needs too much says so as Prometheus does.
func TestBounds(t *testing.T) {
	c := newCase(t, map[string]string{"metrics/a.txt": samples})
	h := metrics.New(metrics.Options{MaxSamples: 2}).Handler(c, clock.New(clock.Captured, captured, captured))
	code, body := ask(t, h, http.MethodGet, "/api/v1/query", url.Values{"query": {`{pod="a"}`}})
	if code != 422 || !strings.Contains(body, "query processing would load too many samples into memory") {
		t.Errorf("%d %s", code, body)
	}
}

// TestPresent: a data set's samples end when they end, and a live Prometheus' at the capture.
func TestPresent(t *testing.T) {
	const early = "load_total 0 1796084000\nload_total 60 1796084060\n# EOF\n"
	for name, test := range map[string]struct {
		documents map[string]string
		want      string
	}{
		"data set": {map[string]string{"metrics/a.txt": early}, `[{"metric":{},"value":[1796084060,"60"]}]`},
		"live":     {map[string]string{"metrics/a.txt": early, "metrics/api/buildinfo.json": `{"data":{"version":"3"}}`}, `[]`},
	} {
		h := metrics.New(metrics.Options{}).Handler(newCase(t, test.documents), clock.New(clock.Captured, captured, captured))
		_, body := ask(t, h, http.MethodGet, "/api/v1/query", url.Values{"query": {"increase(load_total[61s])"}})
		if !strings.Contains(body, `"result":`+test.want) {
			t.Errorf("%s: %s, want %s", name, body, test.want)
		}
	}
}

// TestShippedCase asks a case that came from a real Prometheus.
func TestShippedCase(t *testing.T) {
	c, err := cases.Open("shop-evening")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	at := c.Manifest().Capture.Time.Time
	start := at.Add(1000 * time.Hour)
	h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Shifted, at, start))
	countAt := func(query, at string) string {
		t.Helper()
		form := url.Values{"query": {query}}
		if at != "" {
			form.Set("time", at)
		}
		code, body := ask(t, h, http.MethodGet, "/api/v1/query", form)
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); code != 200 || err != nil {
			t.Fatalf("%s: %d %s %v", query, code, body, err)
		}
		if len(answer.Data.Result) != 1 {
			t.Fatalf("%s: %s", query, body)
		}
		return answer.Data.Result[0].Value[1].(string)
	}
	count := func(query string) string { return countAt(query, "") }
	// The captured Prometheus says of its targets which are up; the samples, which are of one
	// job, must agree.
	code, body := ask(t, h, http.MethodGet, "/api/v1/targets", url.Values{"scrapePool": {"pods"}})
	var targets struct {
		Data struct {
			ActiveTargets []struct {
				Health string
				Labels map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &targets); code != 200 || err != nil || len(targets.Data.ActiveTargets) < 10 {
		t.Fatal(code, err, body)
	}
	for _, target := range targets.Data.ActiveTargets {
		want := map[string]string{"up": "1", "down": "0"}[target.Health]
		if got := count(fmt.Sprintf("up{instance=%q,pod=%q}", target.Labels["instance"], target.Labels["pod"])); got != want {
			t.Errorf("up of %v is %s, want %s", target.Labels, got, want)
		}
	}
	// An alert's value is what its expression gave when Prometheus evaluated it last.
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Query, LastEvaluation string
					Alerts                []struct {
						Labels map[string]string
						Value  string
					}
				}
			}
		}
	}
	_, body = ask(t, h, http.MethodGet, "/api/v1/rules", url.Values{"type": {"alert"}})
	if err := json.Unmarshal([]byte(body), &rules); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, group := range rules.Data.Groups {
		for _, rule := range group.Rules {
			for _, alert := range rule.Alerts {
				by, value := "pod", alert.Labels["pod"]
				if value == "" {
					by, value = "service", alert.Labels["service"]
				}
				got := countAt(fmt.Sprintf(`sum by (%s) (%s) and on(%s) label_replace(vector(0), %q, %q, "", "")`, by, rule.Query, by, by, value), rule.LastEvaluation)
				if !near(got, alert.Value) {
					t.Errorf("%s of %s: %s, Prometheus had %s", rule.Query, value, got, alert.Value)
				}
				compared++
			}
		}
	}
	if compared < 5 {
		t.Errorf("only %d alerts were compared", compared)
	}
}

// near compares values as their sums may round in another order.
func near(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && math.Abs(x-y) <= 1e-9*math.Abs(y)
}
