package alerts_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/alerts"
)

var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

var documents = map[string]string{
	"alerts/alerts.json": `[
 {"fingerprint":"1","labels":{"alertname":"Down","team":"x"},"receivers":[{"name":"oncall"}],"startsAt":"2026-12-01T00:10:00Z","status":{"state":"active","silencedBy":[],"inhibitedBy":[]},"generatorURL":"http://p/?a\u0026b"},
 {"fingerprint":"2","labels":{"alertname":"Slow"},"receivers":[{"name":"shop"}],"startsAt":"2026-12-01T00:11:00Z","status":{"state":"suppressed","silencedBy":["s1"],"inhibitedBy":[]}},
 {"fingerprint":"3","labels":{"alertname":"Errors"},"receivers":[{"name":"shop"}],"startsAt":"2026-12-01T00:12:00Z","status":{"state":"suppressed","silencedBy":[],"inhibitedBy":["1"]}},
 {"fingerprint":"4","labels":{"alertname":"New"},"receivers":[{"name":"shop"}],"startsAt":"2026-12-01T00:18:00Z","status":{"state":"unprocessed","silencedBy":[],"inhibitedBy":[]}}]`,
	"alerts/groups.json": `[{"alerts":[{"fingerprint":"1","labels":{"alertname":"Down","team":"x"},"status":{"state":"active"}}],"labels":{"team":"x"},"receiver":{"name":"oncall"}},
 {"alerts":[{"fingerprint":"2","labels":{"alertname":"Slow"},"status":{"state":"suppressed","silencedBy":["s1"]}}],"labels":{},"receiver":{"name":"shop"}}]`,
	"alerts/silences.json": `[{"id":"s1","matchers":[{"name":"alertname","value":"Slow","isRegex":false,"isEqual":true}],"status":{"state":"active"}},{"id":"s2","matchers":[],"status":{"state":"expired"}}]`,
}

func newCase(t testing.TB, documents map[string]string) *fixtures.Case {
	t.Helper()
	return fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)},
		Coverage: fixtures.Coverage{Besides: []fixtures.BesidesCoverage{{What: "alerts", Reason: "nobody was asked"}}}}, documents)
}

func ask(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestNarrowing(t *testing.T) {
	h := alerts.Handler(newCase(t, documents), clock.New(clock.Captured, captured, captured))
	for path, want := range map[string]string{
		"alerts":                                   "1 2 3 4",
		"alerts?active=false":                      "2 3 4",
		"alerts?silenced=false":                    "1 3 4",
		"alerts?inhibited=false":                   "1 2 4",
		"alerts?unprocessed=false":                 "1 2 3",
		"alerts?receiver=sh.p":                     "2 3 4",
		"alerts?receiver=sh":                       "",
		"alerts?filter=alertname%3DDown":           "1",
		"alerts?filter=alertname%3D~%22D.*|S.*%22": "1 2",
		"alerts?filter=team%3D":                    "2 3 4",
		"alerts?filter=team!%3D%22%22":             "1",
		"alerts?filter=alertname!%3DDown&filter=alertname!~%22S.*%22": "3 4",
		"alerts/groups":                 "1 2",
		"alerts/groups?receiver=oncall": "1",
		"alerts/groups?silenced=false":  "1",
	} {
		code, body := ask(h, http.MethodGet, "/api/v2/"+path)
		type entry struct {
			Fingerprint string
			Alerts      []struct{ Fingerprint string }
		}
		var found []entry
		if err := json.Unmarshal([]byte(body), &found); err != nil || code != 200 {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		var got []string
		for _, e := range found {
			if e.Fingerprint != "" {
				got = append(got, e.Fingerprint)
			}
			for _, a := range e.Alerts {
				got = append(got, a.Fingerprint)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	h := alerts.Handler(newCase(t, documents), clock.New(clock.Shifted, captured, captured.Add(time.Hour)))
	for _, test := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/api/v2/alerts?filter=alertname%3DDown", 200,
			`[{"fingerprint":"1","labels":{"alertname":"Down","team":"x"},"receivers":[{"name":"oncall"}],"startsAt":"2026-12-01T01:10:00Z","status":{"state":"active","silencedBy":[],"inhibitedBy":[]},"generatorURL":"http://p/?a\u0026b"}]`},
		{"GET", "/api/v2/silences?expired=false", 200, `[{"id":"s1","matchers":[{"name":"alertname","value":"Slow","isRegex":false,"isEqual":true}],"status":{"state":"active"}}]`},
		{"GET", "/api/v2/silences?filter=alertname%3DDown", 200, `[]`},
		{"GET", "/api/v2/silence/s2", 200, `{"id":"s2","matchers":[],"status":{"state":"expired"}}`},
		{"GET", "/api/v2/silence/s3", 404, `"silence not found"`},
		{"GET", "/api/v2/receivers", 501, `"the receivers of Alertmanager were not captured: nobody was asked"`},
		{"GET", "/api/v2/alerts?filter=%3D", 400, `"bad matcher format: ="`},
		{"GET", "/api/v2/alerts?receiver=(", 400, "\"failed to parse receiver param: error parsing regexp: missing closing ): `^(?:()$`\""},
		{"GET", "/api/v2/alerts?active=perhaps", 422, `{"code":601,"message":"active in query must be of type boolean: \"perhaps\""}`},
		{"POST", "/api/v2/silences", 403, `"this Alertmanager is a captured one and read-only: alerts can't be sent, silences neither made nor ended"`},
		{"DELETE", "/api/v2/silence/s1", 403, `"this Alertmanager is a captured one and read-only: alerts can't be sent, silences neither made nor ended"`},
	} {
		code, body := ask(h, test.method, test.path)
		if diff := cmp.Diff(test.want, strings.TrimSpace(body)); code != test.code || diff != "" {
			t.Errorf("%s %s: %d, want %d (-want +got):\n%s", test.method, test.path, code, test.code, diff)
		}
	}
}

// TestAmtool asks a case that came from a real Alertmanager with its own tool.
func TestAmtool(t *testing.T) {
	amtool, err := exec.LookPath("amtool")
	if err != nil {
		t.Skip("amtool isn't installed: install prometheus-alertmanager to run this")
	}
	c, err := cases.Open("shop-evening")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	server := httptest.NewServer(alerts.Handler(c, clock.New(clock.Captured, captured, captured)))
	t.Cleanup(server.Close)
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), amtool, append(args, "--alertmanager.url="+server.URL)...).CombinedOutput()
		return string(out), err
	}
	text, err := c.Document("alerts/alerts.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Labels map[string]string }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	names := func(of []struct{ Labels map[string]string }) (out []string) {
		for _, a := range of {
			out = append(out, a.Labels["alertname"]+" "+a.Labels["pod"]+a.Labels["service"])
		}
		slices.Sort(out)
		return out
	}
	for filter, keep := range map[string]func(map[string]string) bool{
		"":                          func(map[string]string) bool { return true },
		"TargetDown":                func(l map[string]string) bool { return l["alertname"] == "TargetDown" },
		`alertname=~"Req.*|Cont.*"`: func(l map[string]string) bool { return l["alertname"] != "TargetDown" },
	} {
		args := []string{"alert", "query", "-o", "json"}
		if filter != "" {
			args = append(args, filter)
		}
		out, err := run(args...)
		var got []struct{ Labels map[string]string }
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("amtool %q: %s", args, out)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(a struct{ Labels map[string]string }) bool { return !keep(a.Labels) })
		if diff := cmp.Diff(names(want), names(got)); err != nil || diff != "" || len(want) == 0 {
			t.Errorf("amtool %q: %v (-want +got):\n%s", args, err, diff)
		}
	}
	if out, err := run("silence", "add", "alertname=TargetDown", "-c", "quiet"); err == nil || !strings.Contains(out, "403") {
		t.Errorf("a silence was not refused: %v %s", err, out)
	}
	for _, args := range [][]string{{"silence", "query"}, {"config", "show"}, {"cluster", "show"}} {
		if out, err := run(args...); err != nil {
			t.Errorf("amtool %q: %v %s", args, err, out)
		}
	}
}

// FuzzParameters: whatever is asked, the answer is a status and JSON.
func FuzzParameters(f *testing.F) {
	h := alerts.Handler(newCase(f, documents), clock.New(clock.Shifted, captured, captured.Add(time.Hour)))
	f.Add("alerts", "filter=alertname%3D~%22D.*%22&active=false")
	f.Add("alerts/groups", "receiver=(")
	f.Add("silences", "filter=%7Ba%3D")
	f.Fuzz(func(t *testing.T, path, query string) {
		req := httptest.NewRequest(http.MethodGet, "/api/v2/alerts", nil)
		req.URL.RawQuery = query
		if path == "silences" || path == "alerts/groups" {
			req.URL.Path = "/api/v2/" + path
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code >= 500 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
		}
	})
}
