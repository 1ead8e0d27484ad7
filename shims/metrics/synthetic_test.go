package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// quantile is Prometheus' estimate (promql/quantile.go): linear within a bucket.
func quantile(q float64, shares []float64) float64 {
	for i, share := range shares {
		if share < q {
			continue
		}
		if i == len(shares)-1 {
			return buckets[i-1]
		}
		begin := 0.0
		if i > 0 {
			begin = shares[i-1]
		}
		return below(i) + (buckets[i]-below(i))*(q-begin)/(share-begin)
	}
	return math.NaN()
}

// TestDistribution: the quantiles of any histogram come back from what is made of them.
func TestDistribution(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		weights, total := make([]float64, len(buckets)), 0.0
		for i := range weights[:len(weights)-1] {
			if random.IntN(3) == 0 {
				weights[i] = random.ExpFloat64()
				total += weights[i]
			}
		}
		if total == 0 {
			continue
		}
		shares, sum := make([]float64, len(buckets)), 0.0
		for i, w := range weights {
			sum += w / total
			shares[i] = sum
		}
		qs := []float64{0.5, 0.95}
		values := []float64{quantile(qs[0], shares), quantile(qs[1], shares)}
		made := distribution(qs, values)
		for i := 1; i < len(made); i++ {
			if made[i] < made[i-1] {
				t.Fatalf("%v: the shares fall: %v", values, made)
			}
		}
		for i, q := range qs {
			if got := quantile(q, made); math.Abs(got-values[i]) > 1e-6*values[i] {
				t.Fatalf("the quantile %v of %v is %v instead of %v: %v", q, shares, got, values[i], made)
			}
		}
	}
}

// TestSynthetic asks for derived gauges as agents ask for the counters they came of.
func TestSynthetic(t *testing.T) {
	captured := time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)
	var text strings.Builder
	for name, value := range map[string]float64{
		`service:container_cpu_usage_cores{namespace="shop",service="cart"}`:                      0.25,
		`service:container_cpu_cfs_throttled_seconds_per_second{namespace="shop",service="cart"}`: 0.125,
		`service:container_memory_working_set_bytes{namespace="shop",service="cart"}`:             1e6,
		`service:requests_per_second{namespace="shop",service="cart"}`:                            8,
		`service:request_success_ratio{namespace="shop",service="cart"}`:                          0.75,
		`service:network_receive_packets_per_second{namespace="shop",service="cart"}`:             30,
		`service:request_duration_milliseconds{namespace="shop",service="cart",quantile="0.50"}`:  17.5,
		`service:request_duration_milliseconds{namespace="shop",service="cart",quantile="0.95"}`:  420,
		`node:cpu_utilization_percent{node="node-1"}`:                                             40,
		`node:memory_utilization_percent{node="node-1"}`:                                          60,
	} {
		for i := range 50 {
			fmt.Fprintf(&text, "%s %g %d\n", name, value, captured.Unix()-int64(5*(49-i)))
		}
	}
	text.WriteString("# EOF\n")
	dir := filepath.Join(t.TempDir(), "case")
	w, err := fixtures.Create(dir, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}})
	if err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(dir, "objects")
	err = errors.Join(w.WriteDocument("metrics/derived.txt", []byte(text.String())), w.Close(), os.MkdirAll(objects, 0o700),
		os.WriteFile(filepath.Join(objects, "core_v1_pods.json"), []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
{"metadata":{"name":"cart-0","namespace":"shop","labels":{"app":"cart"}},"spec":{"nodeName":"node-1","containers":[{"name":"istio-proxy"},{"name":"server"}]}}]}`), 0o600),
		os.WriteFile(filepath.Join(objects, "core_v1_nodes.json"), []byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
{"metadata":{"name":"node-1"},"status":{"capacity":{"memory":"1000"}}}]}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	c, err := fixtures.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	k := clock.New(clock.Captured, captured, captured)
	value := func(h http.Handler, query string) (string, bool) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?"+url.Values{"query": {query}}.Encode(), nil))
		var a struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || len(a.Data.Result) > 1 || w.Code != 200 {
			t.Fatalf("%s: %s", query, w.Body)
		}
		if len(a.Data.Result) == 0 {
			return "", false
		}
		return a.Data.Result[0].Value[1].(string), true
	}
	h, honest := New(Options{}).Handler(c, k), New(Options{NoSynthetic: true}).Handler(c, k)
	for query, want := range map[string]float64{
		`sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="shop",pod="cart-0",container!=""}[1m]))`:                       0.25,
		`rate(container_cpu_usage_seconds_total{container="server",synthetic="true"}[1m])`:                                              0.25,
		`rate(container_cpu_cfs_throttled_seconds_total{pod=~"cart.*"}[1m])`:                                                            0.125,
		`sum(container_memory_working_set_bytes{namespace="shop"})`:                                                                     1e6,
		`sum(rate(istio_requests_total{destination_workload="cart"}[1m]))`:                                                              8,
		`sum(rate(istio_requests_total{response_code!~"5.."}[1m])) / sum(rate(istio_requests_total[1m]))`:                               0.75,
		`rate(container_network_receive_packets_total{pod="cart-0"}[1m])`:                                                               30,
		`histogram_quantile(0.5, sum by (le) (rate(istio_request_duration_milliseconds_bucket{destination_workload="cart"}[1m])))`:      17.5,
		`histogram_quantile(0.95, sum by (le) (rate(istio_request_duration_milliseconds_bucket{destination_service_name="cart"}[1m])))`: 420,
		`sum(rate(istio_request_duration_milliseconds_count[1m]))`:                                                                      8,
		`100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m])))`:                                                 40,
		`100 * (1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)`:                                                       60,
	} {
		got, ok := value(h, query)
		if f, err := strconv.ParseFloat(got, 64); err != nil || math.Abs(f-want) > 1e-6*want {
			t.Errorf("%s: %q (%t), want %v", query, got, ok, want)
		}
		if got, ok := value(honest, query); ok {
			t.Errorf("%s: %s without synthetic series", query, got)
		}
	}
	if got, ok := value(honest, `service:requests_per_second`); !ok || got != "8" {
		t.Errorf("the gauge itself: %q", got)
	}
}
