package nodes_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/nodes"
)

var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

func newCase(t testing.TB) *fixtures.Case {
	t.Helper()
	answers, err := fixtures.EncodeEntries([]fixtures.HTTPAnswer{
		{Path: "healthz", Status: 200, ContentType: "text/plain", Body: "ok"},
		{Path: "configz", Status: 500, Body: "no"},
		{Path: "metrics/cadvisor", Status: 200, ContentType: "text/plain; version=0.0.4", File: "cadvisor.txt"},
		{Path: "stats/summary", Status: 200, ContentType: "application/json", Body: `{"node":{"startTime":"2026-12-01T00:00:00Z"}}`},
		{Path: "logs/", Query: "query=kubelet", Status: 200, ContentType: "text/plain", Body: "2026-12-01T00:18:00Z a\n2026-12-01T00:18:01Z b\n2026-12-01T00:18:02Z c\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)},
		Coverage: fixtures.Coverage{Besides: []fixtures.BesidesCoverage{{What: "nodes/node-2", Reason: "the kubelet was silent"}}}}, map[string]string{
		fixtures.NodeAnswersDocument("node-1"): string(answers),
		"nodes/node-1/cadvisor.txt":            "# TYPE x gauge\ncontainer_start_time_seconds{id=\"a } b\"} 1.764547e+09 1796084300000\nx 1\n",
	})
}

func TestServe(t *testing.T) {
	c := newCase(t)
	still := clock.New(clock.Captured, captured, captured)
	moved := clock.New(clock.Shifted, captured, captured.Add(time.Hour))
	for _, test := range []struct {
		name, node, path string
		clock            clock.Clock
		code             int
		want             string
	}{
		{"whole", "node-1", "/healthz", still, 200, "ok"},
		{"with a port", "https:node-1:10250", "/healthz", still, 200, "ok"},
		{"a failure is an answer", "node-1", "/configz", still, 500, "no"},
		{"JSON moves", "node-1", "/stats/summary", moved, 200, `{"node":{"startTime":"2026-12-01T01:00:00Z"}}`},
		{"metrics move", "node-1", "/metrics/cadvisor", moved, 200, "# TYPE x gauge\ncontainer_start_time_seconds{id=\"a } b\"} 1.7645506e+09 1796087900000\nx 1\n"},
		{"a log moves", "node-1", "/logs/?query=kubelet", moved, 200, "2026-12-01T01:18:00Z a\n2026-12-01T01:18:01Z b\n2026-12-01T01:18:02Z c\n"},
		{"the end of a log", "node-1", "/logs/?query=kubelet&tailLines=2", still, 200, "2026-12-01T00:18:01Z b\n2026-12-01T00:18:02Z c\n"},
		{"more than all of a log", "node-1", "/logs/?tailLines=9&query=kubelet", still, 200, "2026-12-01T00:18:00Z a\n2026-12-01T00:18:01Z b\n2026-12-01T00:18:02Z c\n"},
		{"none of a log", "node-1", "/logs/?tailLines=0&query=kubelet", still, 200, ""},
		{"no slash", "node-1", "", still, 301, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, query, _ := strings.Cut(test.path, "?")
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodGet, "/x?"+query, nil)
			if err := nodes.Serve(w, req, c, test.clock, test.node, path); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.code || w.Body.String() != test.want {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, test.code, test.want)
			}
		})
	}
}

func TestNotCaptured(t *testing.T) {
	c := newCase(t)
	for _, test := range []struct{ node, path, want string }{
		{"node-1", "/pods", `"pods" of the kubelet of node "node-1" was not captured; captured are "healthz"`},
		{"node-1", "/logs/?query=containerd", `"logs/?query=containerd" of the kubelet`},
		{"node-1", "/../../truth.yaml", "was not captured"},
		{"node-1:4444", "/healthz", `port 4444 of node "node-1" was not captured`},
		{"node-2", "/healthz", `the kubelet of node "node-2" was not captured: the kubelet was silent`},
		{"../probes", "/http.json", "was not captured"},
	} {
		path, query, _ := strings.Cut(test.path, "?")
		w := httptest.NewRecorder()
		err := nodes.Serve(w, httptest.NewRequest(http.MethodGet, "/x?"+query, nil), c, clock.Clock{}, test.node, path)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s%s: %v, want %s", test.node, test.path, err, test.want)
		}
		if w.Body.Len() > 0 {
			t.Errorf("%s%s: something was written", test.node, test.path)
		}
	}
}
