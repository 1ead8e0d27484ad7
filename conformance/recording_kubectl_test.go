package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordedCommand is a command and what it must be recorded as.
type recordedCommand struct {
	line    string
	subject string // of episodeSubjects
	class   string // of the call
	uses    []string
}

// uncovered is shop-nodes with one resource swept in one namespace only, and one not at all.
const uncovered = `apiVersion: kubecase.io/v1
kind: Case
name: recorded
capture: {time: "2026-12-01T00:55:22Z"}
coverage:
  resources:
    - {group: apps, version: v1, resource: statefulsets, namespaces: [shop], reason: the capture was of the shop alone}
    - {version: v1, resource: podtemplates, reason: nobody uses them}
  logs: ["*"]
`

const (
	orders   = "orders-8c4d7847-pmzbt"
	pricing  = "pricing-7544f76d8d-gkbp6"
	shipping = "shipping-5d8bdbd4cf-p8gzx"
)

// recordedCommands were mapped by hand from what each command prints: a use is
// what the person who typed it has seen.
var recordedCommands = []recordedCommand{
	// get
	{"get pods -n shop", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pods -n shop -o wide", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pods -n shop --show-labels", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pods -n shop -o yaml", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get po -n shop -o json", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get pods -n shop -o name", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get pods -n shop -o jsonpath={.items[*].metadata.name}", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get pods -n shop -o custom-columns=N:.metadata.name", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get pods -n shop -o 'go-template={{len .items}}'", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get pods -n shop --server-print=false", "", "delivered", []string{"T1 type=pods namespace=shop output=object"}},
	{"get pods -n shop --no-headers", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pods -n shop -l app=cart", "", "delivered", []string{"T1 type=pods namespace=shop labels=app=cart output=table"}},
	{"get pods -n shop -l 'tier!=web,app in (checkout,cart)'", "", "delivered", []string{"T1 type=pods namespace=shop labels=app in (cart,checkout),tier!=web output=table"}},
	{"get pods -n shop --field-selector status.phase!=Running", "", "delivered", []string{"T1 type=pods namespace=shop fields=status.phase!=Running output=table"}},
	{"get pods -n shop --field-selector metadata.name=redis-0", "", "delivered", []string{"T1 type=pods namespace=shop name=redis-0 output=table"}},
	{"get pods -A", "", "delivered", []string{"T1 type=pods namespace=* output=table"}},
	{"get pods,services -n shop", "", "delivered", []string{"T1 type=pods namespace=shop output=table", "T1 type=services namespace=shop output=table"}},
	{"get pod redis-0 redis-1 -n shop", "", "delivered", []string{"T1 type=pods namespace=shop name=redis-0 output=table", "T1 type=pods namespace=shop name=redis-1 output=table"}},
	{"get deploy/cart svc/cart -n shop", "", "delivered", []string{"T1 type=deployments namespace=shop name=cart output=table", "T1 type=services namespace=shop name=cart output=table"}},
	{"get deploy cart -n shop -o yaml", "", "delivered", []string{"T1 type=deployments namespace=shop name=cart output=object", "T3 namespace=shop service=cart"}},
	{"get deploy,svc,sa cart -n shop -o yaml", "", "delivered", []string{
		"T1 type=deployments namespace=shop name=cart output=object", "T1 type=serviceaccounts namespace=shop name=cart output=object !not-found",
		"T1 type=services namespace=shop name=cart output=object", "T3 namespace=shop service=cart"}},
	{"get deploy cart -n shop --subresource=status", "", "delivered", []string{"T1 type=deployments/status namespace=shop name=cart output=table"}},
	{"get all -n batch", "", "delivered", []string{
		"T1 type=cronjobs namespace=batch output=table", "T1 type=daemonsets namespace=batch output=table", "T1 type=deployments namespace=batch output=table",
		"T1 type=horizontalpodautoscalers namespace=batch output=table", "T1 type=jobs namespace=batch output=table", "T1 type=pods namespace=batch output=table",
		"T1 type=replicasets namespace=batch output=table", "T1 type=replicationcontrollers namespace=batch output=table", "T1 type=services namespace=batch output=table",
		"T1 type=statefulsets namespace=batch output=table !unsupported"}},
	{"get --raw /api/v1/namespaces/shop/pods/redis-0", "", "delivered", []string{"T1 type=pods namespace=shop name=redis-0 output=object"}},
	{"get --raw /apis/apps/v1", "", "delivered", nil},
	{"get --raw /readyz?verbose", "", "delivered", []string{"T10 component=kube-apiserver"}},
	{"get --raw /api/v1/nodes/node-1/proxy/healthz", "", "unsupported", []string{"T10 node=node-1 component=kubelet !unsupported"}},
	{"get --raw /api/v1/namespaces/shop/services/http:cart:80/proxy/", "", "unsupported", []string{"T6 namespace=shop service=cart port=80 !unsupported"}},
	{"get --raw /no/such/path", "", "failed", nil},
	{"get pods -n shop --watch --request-timeout=2s", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pod redis-0 -n shop --watch --request-timeout=2s", "", "delivered", []string{"T1 type=pods namespace=shop name=redis-0 output=table"}},
	{"get pods -n shop --watch-only --request-timeout=2s", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pods -n shop --sort-by=.metadata.creationTimestamp", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get pods -n shop --chunk-size=5", "", "delivered", []string{"T1 type=pods namespace=shop output=table"}},
	{"get events -n shop", "", "delivered", []string{"T1 type=events namespace=shop output=table"}},
	{"get events -n shop --field-selector type=Warning -o yaml", "", "delivered", []string{"T1 type=events namespace=shop fields=type=Warning output=object"}},
	{"get nodes", "", "delivered", []string{"T1 type=nodes namespace= output=table"}},
	{"get nodes -o yaml", "", "delivered", []string{"T1 type=nodes namespace= output=object", "T7"}},
	{"get node node-1 -o json", "", "delivered", []string{"T1 type=nodes namespace= name=node-1 output=object", "T7"}},
	{"get cs", "", "delivered", []string{"T1 type=componentstatuses namespace= output=table", "T10 component=*"}},
	{"get pods.metrics.k8s.io -n shop", "", "delivered", []string{"T1 type=pods.metrics.k8s.io namespace=shop output=table"}},
	{"get ns shop -o yaml", "", "delivered", []string{"T1 type=namespaces namespace= name=shop output=object"}},
	// What isn't there.
	{"get pod nope -n shop", "", "not-found", []string{"T1 type=pods namespace=shop name=nope output=table !not-found"}},
	{"get pod nope -n shop --ignore-not-found", "", "not-found", []string{"T1 type=pods namespace=shop name=nope output=table !not-found"}},
	{"get pods -n nowhere", "", "delivered", []string{"T1 type=pods namespace=nowhere output=table"}},
	{"get foos -n shop", "", "failed", nil},
	{"get sts -n batch", "", "unsupported", []string{"T1 type=statefulsets namespace=batch output=table !unsupported"}},
	{"get sts -A", "", "unsupported", []string{"T1 type=statefulsets namespace=* output=table !unsupported"}},
	{"get podtemplates -n shop", "", "unsupported", []string{"T1 type=podtemplates namespace=shop output=table !unsupported"}},
	{"get secrets -n shop", "viewer", "refused", []string{"T1 type=secrets namespace=shop output=table !refused"}},
	{"get secrets -n shop --as viewer --as-group viewers", "admin", "refused", []string{"T1 type=secrets namespace=shop output=table !refused"}},
	{"get pods,nodes -n shop", "viewer", "delivered", []string{"T1 type=nodes namespace= output=table !refused", "T1 type=pods namespace=shop output=table"}},
	// describe
	{"describe pod redis-0 -n shop", "", "delivered", []string{"T2 type=pods namespace=shop name=redis-0"}},
	{"describe pods redis -n shop", "", "delivered", []string{"T2 type=pods namespace=shop name=redis-0", "T2 type=pods namespace=shop name=redis-1"}},
	{"describe pods -l app=redis -n shop", "", "delivered", []string{"T2 type=pods namespace=shop name=redis-0", "T2 type=pods namespace=shop name=redis-1"}},
	{"describe pods -n batch", "", "delivered", []string{"T2 type=pods namespace=batch name=importer-6c8b488577-dq5hm", "T2 type=pods namespace=batch name=importer-6c8b488577-tnctm"}},
	{"describe deploy cart -n shop", "", "delivered", []string{"T2 type=deployments namespace=shop name=cart"}},
	{"describe rs -n batch", "", "delivered", []string{"T2 type=replicasets namespace=batch name=importer-6c8b488577"}},
	{"describe svc cart -n shop", "", "delivered", []string{"T2 type=services namespace=shop name=cart"}},
	{"describe deploy/cart svc/cart -n shop", "", "delivered", []string{"T2 type=deployments namespace=shop name=cart", "T2 type=services namespace=shop name=cart"}},
	{"describe node node-1", "", "delivered", []string{"T2 type=nodes namespace= name=node-1", "T7"}},
	{"describe nodes", "", "delivered", []string{"T2 type=nodes namespace= name=node-1", "T2 type=nodes namespace= name=node-2", "T2 type=nodes namespace= name=node-3", "T7"}},
	{"describe ns batch", "", "delivered", []string{"T2 type=namespaces namespace= name=batch"}},
	{"describe quota -n batch", "", "delivered", []string{"T2 type=resourcequotas namespace=batch name=batch-quota"}},
	{"describe pvc uploads-data -n shop", "", "delivered", []string{"T2 type=persistentvolumeclaims namespace=shop name=uploads-data"}},
	{"describe secret payments-api -n shop", "", "delivered", []string{"T2 type=secrets namespace=shop name=payments-api"}},
	{"describe cm shop-config -n shop", "", "delivered", []string{"T2 type=configmaps namespace=shop name=shop-config"}},
	{"describe hpa frontend -n shop", "", "delivered", []string{"T2 type=horizontalpodautoscalers namespace=shop name=frontend"}},
	{"describe cronjobs -n batch", "", "delivered", []string{"T2 type=cronjobs namespace=batch"}},
	{"describe pods,deploy,rs -n batch", "", "delivered", []string{
		"T2 type=deployments namespace=batch name=importer", "T2 type=pods namespace=batch name=importer-6c8b488577-dq5hm",
		"T2 type=pods namespace=batch name=importer-6c8b488577-tnctm", "T2 type=replicasets namespace=batch name=importer-6c8b488577"}},
	{"describe pod nope -n shop", "", "not-found", []string{"T2 type=pods namespace=shop name=nope !not-found"}},
	{"describe foos -n shop", "", "failed", nil},
	{"describe secret payments-api -n shop", "viewer", "refused", []string{"T2 type=secrets namespace=shop name=payments-api !refused"}},
	// logs
	{"logs redis-0 -n shop", "", "delivered", []string{"T5 namespace=shop service=redis pod=redis-0 container=redis"}},
	{"logs deploy/pricing -n shop", "", "delivered", []string{"T5 namespace=shop service=pricing pod=" + pricing + " container=pricing"}},
	{"logs -l app=cart -n shop --tail=-1", "", "delivered", []string{
		"T5 namespace=shop service=cart pod=cart-545f97c6f6-26fgh container=cart", "T5 namespace=shop service=cart pod=cart-545f97c6f6-czgbc container=cart",
		"T9 namespace=shop service=cart pod=cart-545f97c6f6-26fgh container=cart", "T9 namespace=shop service=cart pod=cart-545f97c6f6-czgbc container=cart"}},
	{"logs multi -n shop -c app", "", "delivered", []string{"T5 namespace=shop service=multi pod=multi container=app"}},
	{"logs multi -n shop --all-containers", "", "delivered", []string{
		"T5 namespace=shop service=multi pod=multi container=app", "T5 namespace=shop service=multi pod=multi container=proxy", "T5 namespace=shop service=multi pod=multi container=setup",
		"T5 namespace=shop service=multi pod=multi container=ticker", "T5 namespace=shop service=multi pod=multi container=tools"}},
	{"logs " + orders + " -n shop --previous", "", "delivered", []string{"T5 namespace=shop service=orders pod=" + orders + " container=orders previous=true"}},
	{"logs redis-0 -n shop --tail=5 --since=24h --timestamps", "", "delivered", []string{"T5 namespace=shop service=redis pod=redis-0 container=redis"}},
	{"logs redis-0 -n shop -f --tail=1 --request-timeout=2s", "", "delivered", []string{"T5 namespace=shop service=redis pod=redis-0 container=redis"}},
	{"logs nope -n shop", "", "not-found", []string{"T5 namespace=shop service=nope pod=nope !not-found"}},
	{"logs deploy/nope -n shop", "", "not-found", []string{"T5 namespace=shop service=nope !not-found"}},
	{"logs " + shipping + " -n shop", "", "failed", []string{"T5 namespace=shop service=shipping pod=" + shipping + " container=shipping !failed"}},
	// events, top
	{"events -n shop", "", "delivered", []string{"T1 type=events namespace=shop output=object"}},
	{"events -A --types=Warning", "", "delivered", []string{"T1 type=events namespace=* output=object"}},
	{"top pods -n shop", "", "delivered", []string{"T1 type=pods.metrics.k8s.io namespace=shop output=object"}},
	{"top pod redis-0 -n shop", "", "delivered", []string{"T1 type=pods.metrics.k8s.io namespace=shop name=redis-0 output=object"}},
	{"top nodes", "", "delivered", []string{"T1 type=nodes.metrics.k8s.io namespace= output=object"}},
	// Housekeeping that was asked for by hand.
	{"auth can-i list pods -n shop", "", "delivered", nil},
	{"auth can-i delete pods -n shop", "", "delivered", nil},
	{"auth can-i --list -n shop", "", "delivered", nil},
	{"api-resources", "", "delivered", nil},
	{"api-versions", "", "delivered", nil},
	{"explain pods.spec", "", "delivered", nil},
	{"version", "", "delivered", nil},
	{"cluster-info", "", "delivered", nil},
	// What waits.
	{"rollout status deploy/frontend -n shop --timeout=2s", "", "delivered", []string{"T1 type=deployments namespace=shop name=frontend output=object"}},
	{"rollout history deploy/frontend -n shop", "", "delivered", []string{"T1 type=deployments namespace=shop name=frontend output=object", "T1 type=replicasets namespace=shop labels=app=frontend output=object"}},
	{"wait --for=condition=Available deploy/frontend -n shop --timeout=2s", "", "delivered", []string{"T1 type=deployments namespace=shop name=frontend output=object"}},
	{"wait --for=condition=Ready pod/redis-0 pod/nope -n shop --timeout=2s", "", "delivered", []string{"T1 type=pods namespace=shop name=nope output=object !not-found", "T1 type=pods namespace=shop name=redis-0 output=object"}},
	// Into containers: not captured.
	{"exec redis-0 -n shop -- ls /", "", "unsupported", nil},
	{"exec toolbox -n shop -- nc -zv redis 6379", "", "unsupported", []string{"T6 namespace=shop service=redis port=6379 !unsupported"}},
	{"exec deploy/pricing -n shop -- sh -c 'curl -s http://cart.shop.svc:8080/healthz'", "", "unsupported", []string{"T6 namespace=shop service=cart port=8080 !unsupported"}},
	{"exec nope -n shop -- nc -zv redis 6379", "", "not-found", nil},
	{"port-forward svc/cart 18080:80 -n shop", "", "unsupported", []string{"T6 namespace=shop service=cart !unsupported"}},
	{"port-forward pod/redis-0 16379:6379 -n shop", "", "unsupported", []string{"T6 namespace=shop service=redis !unsupported"}},
	{"cp shop/redis-0:/etc/hosts hosts", "", "unsupported", nil},
	{"attach redis-0 -n shop", "", "unsupported", nil},
	{"debug node/node-1 --image=busybox", "", "write", []string{"T10 node=node-1 !write"}},
	{"debug redis-0 -n shop --image=busybox", "", "write", nil},
	// Writes, each refused.
	{"delete pod redis-0 -n shop", "", "write", nil},
	{"delete pods -n shop -l app=redis", "", "write", nil},
	{"apply -f pod.yaml --dry-run=server", "", "write", nil},
	{"apply -f pod.yaml", "", "write", nil},
	{"apply -f pod.yaml --server-side", "", "write", nil},
	{"create -f pod.yaml", "", "write", nil},
	{"create ns another", "", "write", nil},
	{"diff -f redis.yaml", "", "write", nil},
	{"replace -f redis.yaml", "", "write", nil},
	{"scale deploy/cart --replicas=3 -n shop", "", "write", nil},
	{"label pod redis-0 a=b -n shop", "", "write", nil},
	{"annotate pod redis-0 a=b -n shop", "", "write", nil},
	{"edit cm shop-config -n shop", "", "write", nil},
	{`patch deploy cart -n shop -p {"spec":{"replicas":1}}`, "", "write", nil},
	{"set image deploy/cart cart=x:2 -n shop", "", "write", nil},
	{"rollout restart deploy/cart -n shop", "", "write", nil},
	// It finds nothing to go back to, and so tries to write nothing.
	{"rollout undo deploy/cart -n shop", "", "delivered", nil},
	{"autoscale deploy/cart --max=3 -n shop", "", "write", nil},
	{"expose deploy/pricing --port=80 --name=another -n shop", "", "write", nil},
	{"run another --image=busybox -n shop", "", "write", nil},
	{"cordon node-1", "", "write", nil},
	{"taint node node-1 a=b:NoSchedule", "", "write", nil},
	{"drain node-1 --ignore-daemonsets --timeout=2s", "", "write", nil},
}

// commandHome is where commands run: its files are what they name.
func commandHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for name, text := range map[string]string{
		"pod.yaml":   "apiVersion: v1\nkind: Pod\nmetadata: {name: another, namespace: shop}\nspec: {containers: [{name: main, image: x}]}\n",
		"redis.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop-config, namespace: shop}\ndata: {a: b}\n",
		"editor":     "#!/bin/sh\necho '  another: line' >> \"$1\"\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// TestRecordedKubectl runs every command of the table with several kubectls and
// demands that each is one call with the expected class and uses.
func TestRecordedKubectl(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	server := newRecordingServer(t, overlaid(t, "shop-nodes", map[string]string{"case.yaml": uncovered}))
	for name, binary := range recordedKubectls(t) {
		t.Run(name, func(t *testing.T) {
			home := commandHome(t)
			var group sync.WaitGroup
			for w := range workers {
				group.Go(func() {
					episodes := map[string]*recordedEpisode{}
					type pair struct {
						recordedCommand
						ran kubectlRun
					}
					ran := map[string][]pair{}
					for i := w; i < len(recordedCommands); i += workers {
						c := recordedCommands[i]
						if episodes[c.subject] == nil {
							episodes[c.subject] = server.episode(t, c.subject)
						}
						args, err := splitCommand("kubectl " + c.line)
						if err != nil {
							t.Error(err)
							continue
						}
						ran[c.subject] = append(ran[c.subject], pair{c, episodes[c.subject].kubectl(t, binary, home, args[1:]...)})
					}
					for subject, pairs := range ran {
						calls := episodes[subject].calls(t)
						if len(calls) != len(pairs) {
							t.Errorf("%q: %d commands made %d calls", subject, len(pairs), len(calls))
						}
						for _, p := range pairs {
							own := p.ran.between(calls)
							if len(own) != 1 {
								t.Errorf("kubectl %s: %d calls instead of one\n%s", p.line, len(own), p.ran.stderr)
								continue
							}
							want := append([]string{p.class}, slices.Sorted(slices.Values(p.uses))...)
							if diff := cmp.Diff(want, callText(own[0])); diff != "" {
								t.Errorf("kubectl %s: (-want +got)\n%s%s\n%s", p.line, diff, own[0].Message, strings.TrimSpace(p.ran.stderr))
							}
							if own[0].Client != "kubectl" {
								t.Errorf("kubectl %s: the client is %q", p.line, own[0].Client)
							}
						}
					}
				})
			}
			group.Wait()
		})
	}
	t.Logf("%d commands", len(recordedCommands))
}
