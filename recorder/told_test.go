package recorder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToldByTools(t *testing.T) {
	zero, one := 0, 1
	for name, test := range map[string]struct {
		use  Use
		text string
		want Response
		args map[string]string
	}{
		"manifests": {
			Use{Tool: GetAppYAML, Args: map[string]string{"service": "cart"}}, "kind: Deployment\nmetadata:\n  name: cart\n  namespace: shop \n---\nkind: Service\nmetadata: {name: cart}\n--- # the end\n",
			Response{Objects: []map[string]any{
				{"kind": "Deployment", "metadata": map[string]any{"name": "cart", "namespace": "shop"}},
				{"kind": "Service", "metadata": map[string]any{"name": "cart"}},
			}},
			map[string]string{"service": "cart", "namespace": "shop"},
		},
		"a list of manifests": {
			Use{Tool: GetAppYAML, Args: map[string]string{"service": "cart", "namespace": "shop"}}, "kind: List\nitems:\n- kind: Service\n  metadata: {name: cart}\n",
			Response{Objects: []map[string]any{{"kind": "Service", "metadata": map[string]any{"name": "cart"}}}},
			map[string]string{"service": "cart", "namespace": "shop"},
		},
		"no manifests": {Use{Tool: GetAppYAML}, "Error: no such app: [", Response{}, nil},
		"nodes": {
			Use{Tool: GetClusterConfig}, `{"node_count":1,"nodes":[{"name":"n1","status":"NotReady","conditions":{"DiskPressure":"False"},"taints":["a=b:NoSchedule"],"labels":{"x":"y"},"allocatable_resources":{"cpu":"8"}}]}`,
			Response{Objects: []map[string]any{{
				"metadata": map[string]any{"name": "n1", "labels": map[string]any{"x": "y"}},
				"spec":     map[string]any{"taints": []any{map[string]any{"key": "a", "value": "b", "effect": "NoSchedule"}}},
				"status": map[string]any{"allocatable": map[string]any{"cpu": "8"}, "conditions": []any{
					map[string]any{"type": "Ready", "status": "False"}, map[string]any{"type": "DiskPressure", "status": "False"},
				}},
			}}}, nil,
		},
		"a probe":        {Use{Tool: CheckConnectivity}, "Connection to cart (10.0.0.1) 80 port [tcp/http] succeeded!", Response{ExitCode: &zero}, nil},
		"a failed one":   {Use{Tool: CheckConnectivity}, "nc: connect to cart (10.0.0.1) port 80 (tcp) failed: Connection refused", Response{ExitCode: &one}, nil},
		"a report":       {Use{Tool: CheckConnectivity}, "=== Service cart:80 Connectivity test report ===\nDebug Pod test results deployed on n1: Connection to cart 80 port [tcp/http] succeeded!\nDebug Pod test results deployed on n2:\n", Response{ExitCode: &zero}, nil},
		"a mixed one":    {Use{Tool: CheckConnectivity}, "=== x ===\nDebug Pod test results deployed on n1: succeeded!\nDebug Pod test results deployed on n2: timed out", Response{}, nil},
		"an empty one":   {Use{Tool: CheckConnectivity}, "", Response{}, nil},
		"text of others": {Use{Tool: GetAlerts}, "kind: Service", Response{}, nil},
	} {
		test.use.read(test.text)
		if diff := cmp.Diff(test.want, test.use.Response); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(test.args, test.use.Args); diff != "" {
			t.Errorf("%s: arguments (-want +got)\n%s", name, diff)
		}
	}
}
