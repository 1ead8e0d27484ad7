package metrics_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/shims/metrics"
)

func TestMesh(t *testing.T) {
	type edges = []metrics.Edge
	for _, test := range []struct {
		name, samples string
		want          edges
	}{
		{"requests, of the side that was called", `
istio_requests_total{reporter="destination",source_workload="web",destination_workload="cart",response_code="200"} 100 1796084244
istio_requests_total{reporter="destination",source_workload="web",destination_workload="cart",response_code="200"} 130 1796084304
istio_requests_total{reporter="destination",source_workload="web",destination_workload="cart",response_code="500"} 0 1796084244
istio_requests_total{reporter="destination",source_workload="web",destination_workload="cart",response_code="500"} 7 1796084304
istio_requests_total{reporter="source",source_workload="web",destination_workload="cart",response_code="200"} 0 1796084244
istio_requests_total{reporter="source",source_workload="web",destination_workload="cart",response_code="200"} 99 1796084304
`, edges{{"web", "cart", 37}}},
		{"of the side that called, where the other counted none", `
istio_requests_total{reporter="source",source_workload="web",destination_workload="unknown",destination_service_name="email"} 1 1796084244
istio_requests_total{reporter="source",source_workload="web",destination_workload="unknown",destination_service_name="email"} 4 1796084304
istio_requests_total{reporter="destination",source_workload="unknown",destination_workload="email"} 1 1796084244
istio_requests_total{reporter="destination",source_workload="unknown",destination_workload="email"} 9 1796084304
`, edges{{"web", "email", 3}}},
		{"a counter that began anew, and one that was NaN", `
istio_requests_total{source_canonical_service="web",destination_canonical_service="cart"} 50 1796084184
istio_requests_total{source_canonical_service="web",destination_canonical_service="cart"} 60 1796084204
istio_requests_total{source_canonical_service="web",destination_canonical_service="cart"} NaN 1796084224
istio_requests_total{source_canonical_service="web",destination_canonical_service="cart"} 5 1796084244
istio_requests_total{source_canonical_service="web",destination_canonical_service="cart"} 8 1796084304
`, edges{{"web", "cart", 18}}},
		{"one sample", `
istio_requests_total{source_workload="web",destination_workload="cart"} 50 1796084304
`, edges{{"web", "cart", 0}}},
		{"connections, where there are no requests", `
istio_tcp_connections_opened_total{source_workload="cart",destination_workload="redis"} 2 1796084244
istio_tcp_connections_opened_total{source_workload="cart",destination_workload="redis"} 4 1796084304
istio_tcp_connections_opened_total{source_workload="web",destination_workload="cart"} 0 1796084244
istio_tcp_connections_opened_total{source_workload="web",destination_workload="cart"} 9 1796084304
istio_requests_total{source_workload="web",destination_workload="cart"} 0 1796084244
istio_requests_total{source_workload="web",destination_workload="cart"} 3 1796084304
`, edges{{"cart", "redis", 2}, {"web", "cart", 3}}},
		{"of Linkerd", `
request_total{direction="outbound",deployment="web",dst_deployment="emoji"} 10 1796084244
request_total{direction="outbound",deployment="web",dst_deployment="emoji"} 12 1796084304
request_total{direction="inbound",deployment="emoji",client_id="web"} 10 1796084244
request_total{direction="inbound",deployment="emoji",client_id="web"} 12 1796084304
`, edges{{"web", "emoji", 2}}},
		{"none that was derived, none of an unknown end", `
istio_requests_total{source_workload="web",destination_workload="cart",synthetic="true"} 0 1796084244
istio_requests_total{source_workload="web",destination_workload="cart",synthetic="true"} 3 1796084304
istio_requests_total{source_workload="unknown",destination_workload="cart"} 0 1796084244
istio_requests_total{destination_workload="cart"} 3 1796084304
up 1 1796084304
`, edges{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCase(t, map[string]string{"metrics/mesh.txt": strings.TrimLeft(test.samples, "\n") + "# EOF\n"})
			got, err := metrics.New(metrics.Options{}).Mesh(c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got, err := metrics.New(metrics.Options{}).Mesh(newCase(t, nil)); len(got) > 0 || err != nil {
		t.Errorf("a case without metrics: %v, %v", got, err)
	}
	if _, err := metrics.New(metrics.Options{}).Mesh(newCase(t, map[string]string{"metrics/bad.txt": "x 1\n# EOF\n"})); err == nil || !strings.Contains(err.Error(), "metrics/bad.txt") {
		t.Errorf("metrics that don't read: %v", err)
	}
}
