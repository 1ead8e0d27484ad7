package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
)

// monitored is a case with a Prometheus in the cluster.
func monitored(t *testing.T) *fixtures.Case {
	t.Helper()
	c, err := fixtures.Open(monitoredFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func monitoredFolder(t *testing.T) string {
	t.Helper()
	captured := time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "case")
	w, err := fixtures.Create(dir, &fixtures.Manifest{Name: "monitored", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}})
	if err != nil {
		t.Fatal(err)
	}
	for resource, list := range map[string]string{
		"pods": `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
{"metadata":{"name":"prometheus-0","namespace":"monitoring","labels":{"app":"prometheus"}},"status":{"phase":"Running"},"spec":{"nodeName":"n","containers":[
 {"name":"prometheus","image":"quay.io/prometheus/prometheus:v3.5.0","ports":[{"name":"web","containerPort":9090}]},
 {"name":"reloader","image":"quay.io/prometheus-operator/prometheus-config-reloader:v0.80.0","ports":[{"name":"reloader-web","containerPort":8080}]}]}},
{"metadata":{"name":"exporter","namespace":"monitoring","labels":{"app":"exporter"}},"spec":{"nodeName":"n","containers":[{"name":"e","image":"prom/node-exporter:v1","ports":[{"containerPort":9090}]}]}}]}`,
		"services": `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
{"metadata":{"name":"metrics","namespace":"monitoring"},"spec":{"selector":{"app":"prometheus"},"ports":[{"name":"http","port":80,"targetPort":"web"},{"name":"reload","port":8080,"targetPort":8080}]}},
{"metadata":{"name":"exporter","namespace":"monitoring"},"spec":{"selector":{"app":"exporter"},"ports":[{"port":9090}]}},
{"metadata":{"name":"prometheus-k8s","namespace":"elsewhere"},"spec":{"selector":{"app":"unseen"},"ports":[{"name":"web","port":9090,"targetPort":"web"}]}},
{"metadata":{"name":"prometheus-adapter","namespace":"elsewhere"},"spec":{"selector":{"app":"unseen"},"ports":[{"port":9090}]}}]}`,
		"endpointslices": `{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[
{"metadata":{"name":"metrics-1","namespace":"monitoring","labels":{"kubernetes.io/service-name":"metrics"}},"addressType":"IPv4","ports":[{"name":"http","port":9090,"protocol":"TCP"}],
 "endpoints":[{"addresses":["10.0.0.9"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"prometheus-0","namespace":"monitoring"}}]}]}`,
	} {
		objects := filepath.Join(dir, "objects")
		group := "core_v1_"
		if resource == "endpointslices" {
			group = "discovery.k8s.io_v1_"
		}
		if err := errors.Join(os.MkdirAll(objects, 0o700), os.WriteFile(filepath.Join(objects, group+resource+".json"), []byte(list), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteDocument("metrics/up.txt", []byte("up{job=\"x\"} 1 1796084300\n# EOF\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSite: Prometheus answers behind what leads to a container of its image.
func TestSite(t *testing.T) {
	c := monitored(t)
	e, err := newAPI(nil).AddEpisode(apiserver.EpisodeOptions{Case: c})
	if err != nil {
		t.Fatal(err)
	}
	s := newServices(true)
	for place, want := range map[string]bool{
		"Pod monitoring prometheus-0 9090": true, "Pod monitoring prometheus-0 web": true, "Pod monitoring prometheus-0 ": true,
		"Pod monitoring prometheus-0 8080": false, "Pod monitoring exporter 9090": false, "Pod monitoring nobody 9090": false,
		"Service monitoring metrics http": true, "Service monitoring metrics 80": true, "Service monitoring metrics reload": false,
		"Service monitoring exporter 9090": false, "Service monitoring nobody 9090": false,
		"Service elsewhere prometheus-k8s web": true, "Service elsewhere prometheus-adapter 9090": false,
	} {
		p := strings.Split(place, " ")
		h := s.site(c, e.Clock, p[0], p[1], p[2], p[3])
		if got := h != nil; got != want {
			t.Errorf("%s: Prometheus is there: %t, want %t", place, got, want)
			continue
		}
		if h == nil {
			continue
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=up", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"job":"x"`) {
			t.Errorf("%s: %d %s", place, w.Code, w.Body)
		}
	}
}

// TestProxiedPrometheus asks through the API server's proxies, with the episode's token,
// and without it.
func TestProxiedPrometheus(t *testing.T) {
	c := monitored(t)
	api := newAPI(nil)
	e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c})
	if err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]int{
		"services/metrics:http/proxy/api/v1/query?query=up":   http.StatusOK,
		"services/metrics:80/proxy/api/v1/query?query=up":     http.StatusOK,
		"pods/prometheus-0:9090/proxy/api/v1/query?query=up":  http.StatusOK,
		"services/metrics:http/proxy/api/v1/query?query=up(":  http.StatusBadRequest,
		"services/metrics:http/proxy/api/v1/status/flags":     http.StatusNotImplemented,
		"services/metrics:reload/proxy/api/v1/query?query=up": http.StatusNotImplemented,
	} {
		for _, token := range []string{e.Token, "another"} {
			req := httptest.NewRequest(http.MethodGet, e.Path()+"/api/v1/namespaces/monitoring/"+path, nil)
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, req)
			want := code
			if token != e.Token {
				want = http.StatusUnauthorized
			}
			if w.Code != want || want == http.StatusOK && !strings.Contains(w.Body.String(), `"job":"x"`) {
				t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
			}
		}
	}
}

// TestPrometheusClient asks with Prometheus' own client for Go, at the URL that an agent
// is told.
func TestPrometheusClient(t *testing.T) {
	a := &app{tempDir: t.TempDir()}
	s, err := a.startServing(servingOptions{address: "127.0.0.1", clock: "shifted", synthetic: true}, []string{"shop-evening"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	v := s.served[0]
	variables := s.services.variables(v.fixture, s.plain.url, v.episode)
	if len(variables) < 2 || !strings.HasPrefix(variables[0], "PROMETHEUS_URL=http://agent:") {
		t.Fatalf("variables %q", variables)
	}
	client, err := promapi.NewClient(promapi.Config{Address: strings.TrimPrefix(variables[0], "PROMETHEUS_URL=")})
	if err != nil {
		t.Fatal(err)
	}
	prometheus := promv1.NewAPI(client)
	ctx, now := context.Background(), time.Now()
	value, warnings, _, err := prometheus.Query(ctx, `count(up == 0)`, now)
	if vector, ok := value.(model.Vector); err != nil || len(warnings) > 0 || !ok || len(vector) != 1 || vector[0].Value != 6 {
		t.Errorf("query: %v %v %v", value, warnings, err)
	}
	value, _, _, err = prometheus.QueryRange(ctx, `up`, promv1.Range{Start: now.Add(-30 * time.Minute), End: now, Step: time.Minute})
	if matrix, ok := value.(model.Matrix); err != nil || !ok || len(matrix) < 10 || len(matrix[0].Values) < 5 {
		t.Errorf("range: %v %v", value, err)
	}
	if series, _, _, err := prometheus.Series(ctx, []string{"up"}, now.Add(-time.Hour), now); err != nil || len(series) < 10 {
		t.Errorf("series: %d %v", len(series), err)
	}
	if names, _, _, err := prometheus.LabelNames(ctx, nil, now.Add(-time.Hour), now); err != nil || len(names) < 10 {
		t.Errorf("labels: %v %v", names, err)
	}
	if values, _, _, err := prometheus.LabelValues(ctx, "job", []string{"up"}, now.Add(-time.Hour), now); err != nil || fmt.Sprint(values) != "[pods]" {
		t.Errorf("label values: %v %v", values, err)
	}
	if targets, err := prometheus.Targets(ctx); err != nil || len(targets.Active) < 10 || now.Sub(targets.Active[0].LastScrape).Abs() > 5*time.Minute {
		t.Errorf("targets: %v %v", targets, err)
	}
	if rules, err := prometheus.Rules(ctx, nil); err != nil || len(rules.Groups) == 0 {
		t.Errorf("rules: %v %v", rules, err)
	}
	if alerts, err := prometheus.Alerts(ctx); err != nil || len(alerts.Alerts) < 5 {
		t.Errorf("alerts: %v %v", alerts, err)
	}
	if metadata, err := prometheus.Metadata(ctx, "", "5"); err != nil || len(metadata) != 5 {
		t.Errorf("metadata: %v %v", metadata, err)
	}
	if info, err := prometheus.Buildinfo(ctx); err != nil || !strings.HasPrefix(info.Version, "2.42.0") {
		t.Errorf("buildinfo: %v %v", info, err)
	}
	_, _, _, err = prometheus.Query(ctx, `sum(`, now)
	if failure, ok := err.(*promv1.Error); !ok || failure.Type != promv1.ErrBadData {
		t.Errorf("bad query: %v", err)
	}
}
