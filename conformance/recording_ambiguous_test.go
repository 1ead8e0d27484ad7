package conformance

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/recorder"
)

// supplied tells which of the calls supply a clause, counted from 1. The clause is
// in the words of a truth file: "tool: T1, args: {…}, holds: …".
func supplied(t *testing.T, calls []recorder.Call, clause string) (out []int) {
	t.Helper()
	truth, err := evaluator.ParseTruth("test/truth.yaml", fmt.Appendf(nil, `apiVersion: kubecase.io/v1
kind: Truth
outcome: {component: deployment/cart, fault: none}
graph:
  source: authored
  groups:
    - id: only
      milestones:
        - id: fact
          fact: The fact.
          bundles:
            - - {id: clause, %s}
`, clause))
	if err != nil {
		t.Fatal(err)
	}
	observations, failures, err := evaluator.New(truth, evaluator.Options{}).Observe(t.Context(), &recorder.Trajectory{Calls: calls})
	if err != nil || len(failures) > 0 {
		t.Fatal(err, failures)
	}
	for i, o := range observations {
		if slices.Contains(o.Supplies, "clause") {
			out = append(out, i+1)
		}
	}
	return out
}

// ambiguity is a script for sh in which kubectl is the built-in one, and the calls that it is.
type ambiguity struct {
	name   string
	script string
	calls  [][]string
	check  func(t *testing.T, e *recordedEpisode, calls []recorder.Call)
}

// names are the values of a column, sorted.
func names(rows []map[string]any, column string) (out []string) {
	for _, row := range rows {
		out = append(out, fmt.Sprint(row[column]))
	}
	return slices.Sorted(slices.Values(out))
}

const (
	allPods    = "T1 type=pods namespace=shop output=table"
	shopPods   = 43 // as captured
	everyPod   = 48
	batchPodA  = "importer-6c8b488577-dq5hm"
	batchPodB  = "importer-6c8b488577-tnctm"
	clusterPod = "coredns-64df7dfbd5-ftzgg"
)

// ambiguities are the requests whose meaning as calls had to be settled;
// docs/recorder.md lists them in the same order.
var ambiguities = []ambiguity{
	{"1 wide and labels look like plain get", "kubectl get pods -n shop; kubectl get pods -n shop -o wide; kubectl get pods -n shop --show-labels",
		[][]string{{"delivered", allPods}, {"delivered", allPods}, {"delivered", allPods}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			for i, c := range calls {
				if diff := cmp.Diff(calls[0].Uses[0].Response, c.Uses[0].Response); diff != "" {
					t.Errorf("call %d has another response than plain get:\n%s", i+1, diff)
				}
			}
			// What only -o wide prints was in the plain answer too.
			if got := supplied(t, calls, "tool: T1, args: {type: pods, name: redis-0}, holds: \"rows.exists(r, r.NODE == 'node-2' && r.LABELS.app == 'redis')\""); !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("the node is shown by the calls %v", got)
			}
		}},
	{"2 without a wrapper a filter isn't seen", "kubectl get pods -n shop | grep redis-0; kubectl get pods -n shop -o jsonpath='{.items[0].metadata.name}'",
		[][]string{{"delivered", allPods}, {"delivered", "T1 type=pods namespace=shop output=object"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			if a, b := len(calls[0].Uses[0].Response.Rows), len(calls[1].Uses[0].Response.Objects); a != shopPods || b != shopPods {
				t.Errorf("%d rows and %d objects of %d pods", a, b, shopPods)
			}
		}},
	{"3 selectors and whole lists differ", "kubectl get pods -n shop -l app=redis; kubectl get pods -n shop --field-selector spec.nodeName=node-2; kubectl get pods -n shop",
		[][]string{
			{"delivered", "T1 type=pods namespace=shop labels=app=redis output=table"},
			{"delivered", "T1 type=pods namespace=shop fields=spec.nodeName=node-2 output=table"}, {"delivered", allPods}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			if diff := cmp.Diff([]string{"redis-0", "redis-1"}, names(calls[0].Uses[0].Response.Rows, "NAME")); diff != "" {
				t.Error(diff)
			}
			if got := supplied(t, calls, "tool: T1, args: {type: pods, labels: 'app=redis'}, holds: 'rows.size() == 2'"); !slices.Equal(got, []int{1}) {
				t.Errorf("a clause on the selector is supplied by the calls %v", got)
			}
		}},
	{"4 all namespaces", "kubectl get pods -A; kubectl get pods -A -o json",
		[][]string{{"delivered", "T1 type=pods namespace=* output=table"}, {"delivered", "T1 type=pods namespace=* output=object"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			rows := calls[0].Uses[0].Response.Rows
			if len(rows) != everyPod || len(calls[1].Uses[0].Response.Objects) != everyPod {
				t.Errorf("%d rows, %d objects", len(rows), len(calls[1].Uses[0].Response.Objects))
			}
			if diff := cmp.Diff([]string{"batch", "kube-system", "shop"}, slices.Compact(names(rows, "NAMESPACE"))); diff != "" {
				t.Errorf("namespaces of the rows (-want +got):\n%s", diff)
			}
		}},
	{"5 a watch is one call", "kubectl get pods -n shop -w --request-timeout=2s; kubectl get pods -n shop --watch-only -o json --request-timeout=2s",
		[][]string{{"delivered", allPods}, {"delivered", "T1 type=pods namespace=shop output=object"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			if n := len(calls[0].Uses[0].Response.Rows); n != shopPods {
				t.Errorf("%d rows of %d pods", n, shopPods)
			}
		}},
	{"6 xargs runs as many calls as it runs kubectls", "kubectl get pods -n batch -o name | xargs -n 1 kubectl describe -n batch",
		[][]string{
			{"delivered", "T1 type=pods namespace=batch output=object"},
			{"delivered", "T2 type=pods namespace=batch name=" + batchPodA}, {"delivered", "T2 type=pods namespace=batch name=" + batchPodB}}, nil},
	{"7 what waits is one call and no configuration", "kubectl wait deploy/frontend -n shop --for=condition=Available --timeout=2s; kubectl rollout status deploy/frontend -n shop --timeout=2s; " +
		"kubectl wait pod/redis-0 -n shop --for=condition=NoSuch --timeout=1s",
		[][]string{
			{"delivered", "T1 type=deployments namespace=shop name=frontend output=object"}, {"delivered", "T1 type=deployments namespace=shop name=frontend output=object"},
			{"delivered", "T1 type=pods namespace=shop name=redis-0 output=object"}}, nil},
	{"8 describe deployment shows the configuration", "kubectl describe deploy cart -n shop; kubectl get deploy cart -n shop -o yaml; kubectl get deploy cart -n shop",
		[][]string{
			{"delivered", "T2 type=deployments namespace=shop name=cart"},
			{"delivered", "T1 type=deployments namespace=shop name=cart output=object", "T3 namespace=shop service=cart"},
			{"delivered", "T1 type=deployments namespace=shop name=cart output=table"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			clause := "tool: T3, args: {service: cart, namespace: shop}, holds: \"objects.exists(d, d.spec.template.spec.containers.exists(c, c.name == 'cart'))\""
			if got := supplied(t, calls, clause); !slices.Equal(got, []int{1, 2}) {
				t.Errorf("the container's name is shown by the calls %v", got)
			}
		}},
	{"9 what isn't there is evidence", "kubectl get svc ledger -n shop; kubectl get sts redis -n batch; kubectl get svc ledger -n shop --as nobody",
		[][]string{
			{"not-found", "T1 type=services namespace=shop name=ledger output=table !not-found"},
			{"unsupported", "T1 type=statefulsets namespace=batch name=redis output=table !unsupported"},
			{"refused", "T1 type=services namespace=shop name=ledger output=table !refused"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			clause := "tool: T1, args: {namespace: [shop, batch]}, holds: 'status >= 400'"
			if got := supplied(t, calls, clause); !slices.Equal(got, []int{1}) {
				t.Errorf("evidence are the calls %v", got)
			}
		}},
	{"10 pages are one list", "kubectl get pods -n shop --chunk-size=7; kubectl get pods -n shop --chunk-size=7 -o json",
		[][]string{{"delivered", allPods}, {"delivered", "T1 type=pods namespace=shop output=object"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			if a, b := len(calls[0].Uses[0].Response.Rows), len(calls[1].Uses[0].Response.Objects); a != shopPods || b != shopPods {
				t.Errorf("%d rows and %d objects of %d pods", a, b, shopPods)
			}
			if len(calls[0].Requests) < 7 {
				t.Errorf("%d requests for %d pods, seven at a time", len(calls[0].Requests), shopPods)
			}
		}},
	{"11 describe by prefix", "kubectl describe pod redis -n shop; kubectl describe pod nope -n shop",
		[][]string{
			{"delivered", "T2 type=pods namespace=shop name=redis-0", "T2 type=pods namespace=shop name=redis-1"},
			{"not-found", "T2 type=pods namespace=shop name=nope !not-found"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			for _, u := range calls[0].Uses {
				if len(u.Response.Objects) != 1 || u.Response.Objects[0]["metadata"].(map[string]any)["name"] != u.Args["name"] {
					t.Errorf("%s has not its object alone", useText(u))
				}
			}
		}},
	{"12 get --raw is what its path is", "kubectl get --raw /api/v1/namespaces/shop/pods?labelSelector=app%3Dredis; kubectl get --raw /api/v1/namespaces/shop/pods/redis-0/log; kubectl get --raw /livez; kubectl get --raw /api/v1",
		[][]string{
			{"delivered", "T1 type=pods namespace=shop labels=app=redis output=object"}, {"delivered", "T5 namespace=shop service=redis pod=redis-0"},
			{"delivered", "T10 component=kube-apiserver"}, {"delivered"}}, nil},
	{"13 parallel kubectls are apart", "for i in 1 2 3; do kubectl describe pod redis-0 -n shop & kubectl get pods -n batch & done; wait",
		[][]string{
			{"delivered", "T1 type=pods namespace=batch output=table"}, {"delivered", "T1 type=pods namespace=batch output=table"}, {"delivered", "T1 type=pods namespace=batch output=table"},
			{"delivered", "T2 type=pods namespace=shop name=redis-0"}, {"delivered", "T2 type=pods namespace=shop name=redis-0"}, {"delivered", "T2 type=pods namespace=shop name=redis-0"}},
		func(t *testing.T, _ *recordedEpisode, calls []recorder.Call) {
			for i := 1; i < len(calls); i++ {
				if calls[i].Start.Before(calls[i-1].Start) {
					t.Errorf("call %d began before call %d", i+1, i)
				}
			}
		}},
	{"14 what a harness cuts off is known from a wrapper alone", "kubectl get pods -A",
		[][]string{{"delivered", "T1 type=pods namespace=* output=table"}},
		func(t *testing.T, e *recordedEpisode, calls []recorder.Call) {
			if n := len(calls[0].Uses[0].Response.Rows); n != everyPod {
				t.Errorf("%d rows of %d pods", n, everyPod)
			}
			shown := "NAMESPACE  NAME  READY\nbatch  " + batchPodA + "  1/1\nkube-system  " + clusterPod + "  1/1\n[output cut]\n"
			v := recorder.Invocation{Argv: []string{"kubectl", "get", "pods", "-A"}, Start: calls[0].Start.Add(-time.Minute), End: calls[0].End, Shown: &shown}
			if err := recorder.AppendInvocation(e.dir, v); err != nil {
				t.Fatal(err)
			}
			rows := e.calls(t)[0].Uses[0].Response.Rows
			if diff := cmp.Diff([]string{clusterPod, batchPodA}, names(rows, "NAME")); diff != "" {
				t.Errorf("rows that were shown (-want +got):\n%s", diff)
			}
		}},
}

// TestAmbiguousRequests runs each script and demands the calls that it was settled to be.
func TestAmbiguousRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	server := newRecordingServer(t, overlaid(t, "shop-nodes", map[string]string{"case.yaml": uncovered}))
	binary, home := builtIn(t), t.TempDir()
	pool(t, len(ambiguities), func(i int) (string, func(*testing.T)) {
		a := ambiguities[i]
		return a.name, func(t *testing.T) {
			subject := "admin" // may act as somebody else
			e := server.episode(t, subject)
			folder := t.TempDir()
			if err := exec.Command("ln", "-s", binary, folder+"/kubectl").Run(); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "sh", "-c", a.script)
			command.Env = e.env(home)
			command.Env[0] = strings.Replace(command.Env[0], "PATH=", "PATH="+folder+":", 1)
			if out, err := command.CombinedOutput(); err != nil {
				t.Logf("%v\n%s", err, out) // some are refused
			}
			calls := e.calls(t)
			var got [][]string
			for _, c := range calls {
				got = append(got, callText(c))
			}
			if strings.Contains(a.script, "&") {
				slices.SortFunc(got, slices.Compare)
			}
			want := make([][]string, len(a.calls))
			for i, c := range a.calls {
				want[i] = slices.Clone(c)
				slices.Sort(want[i][1:])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if a.check != nil {
				a.check(t, e, calls)
			}
		}
	})
}
