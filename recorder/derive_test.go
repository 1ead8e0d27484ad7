package recorder_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/recorder"
)

// step is one request of a golden exchange: what a client sends, and the answer.
type step struct {
	at      float64 // seconds after the episode's begin
	request string  // "GET /path?query"; without a method: GET
	status  int     // default 200
	body    string
	kind    string // content type; default application/json
	headers []string
	post    string // the request's body
	said    []string
	source  string
}

// play sends steps through the recorder's handler and derives the trajectory.
func play(t testing.TB, o recorder.DeriveOptions, steps ...step) recorder.Trajectory {
	t.Helper()
	dir, bodies := record(t, steps...)
	requests, err := recorder.Requests(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Bodies = bodies
	return recorder.Derive(requests, o)
}

// record sends steps through the recorder's handler.
func record(t testing.TB, steps ...step) (dir string, bodies *recorder.Bodies) {
	t.Helper()
	now := noon
	l, bodies := newLog(t, func(o *recorder.Options) { o.Now = func() time.Time { return now } })
	for _, s := range steps {
		now = noon.Add(time.Duration(s.at * float64(time.Second)))
		source := s.source
		if source == "" {
			source = recorder.Kubernetes
		}
		h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for i := 0; i+1 < len(s.said); i += 2 {
				recorder.FromContext(r.Context()).Annotate(s.said[i], s.said[i+1])
			}
			kind := s.kind
			if kind == "" {
				kind = "application/json"
			}
			w.Header().Set("Content-Type", kind)
			if s.status != 0 {
				w.WriteHeader(s.status)
			}
			_, _ = io.WriteString(w, s.body)
		}), recorder.Source{Name: source})
		method, uri, ok := strings.Cut(s.request, " ")
		if !ok {
			method, uri = "GET", s.request
		}
		r := httptest.NewRequest(method, uri, strings.NewReader(s.post))
		for i := 0; i+1 < len(s.headers); i += 2 {
			r.Header.Set(s.headers[i], s.headers[i+1])
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	return l.Dir(), bodies
}

// kubectl gives the headers of a kubectl invocation.
func kubectl(session, command string) []string {
	return []string{"Kubectl-Session", session, "Kubectl-Command", "kubectl " + command, "User-Agent", "kubectl/v1.34.1 (linux/amd64) kubernetes/93248f9"}
}

func table(headers []string) []string {
	return append([]string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}, headers...)
}

func agent(name string) []string { return []string{"User-Agent", name} }

const (
	podTable = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name"},{"name":"Ready"},{"name":"Status"},{"name":"Restarts"}],
"rows":[{"cells":["web-6f7d9c8b5d-x2x4z","0/1","CrashLoopBackOff",7],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web-6f7d9c8b5d-x2x4z","namespace":"shop","labels":{"app":"storefront"}}}},
{"cells":["db-0","1/1","Running",0],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"db-0","namespace":"shop"}}}]}`
	pod      = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"u1","resourceVersion":"5","labels":{"app":"web"}},"spec":{"nodeName":"n1"},"status":{"phase":"Pending"}}`
	deploy   = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":0}}`
	event    = `{"metadata":{"name":"web-1.1"},"reason":"FailedScheduling","message":"0/3 nodes are available"}`
	events   = `{"kind":"EventList","apiVersion":"v1","items":[` + event + `]}`
	notFound = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"nope\" not found","reason":"NotFound","details":{"name":"nope","kind":"pods"},"code":404}`
	denied   = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"secrets is forbidden","reason":"Forbidden","details":{"kind":"secrets"},"code":403}`
	uncaught = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"not captured","reason":"UnsupportedQuery","code":501}`
)

// summary writes a trajectory down: a line per call, "class client: command", and one per use,
// "tool{arguments} class: what was delivered".
func summary(t recorder.Trajectory) string {
	var b strings.Builder
	for i, c := range t.Calls {
		if c.Index != i+1 {
			fmt.Fprintf(&b, "(index %d) ", c.Index)
		}
		fmt.Fprintf(&b, "%s %s: %s\n", c.Class, c.Client, c.Command)
		for _, u := range c.Uses {
			var args []string
			for _, key := range []string{"type", "namespace", "name", "labels", "fields", "output", "service", "pod", "container", "previous", "port", "node", "component", "query"} {
				if v, ok := u.Args[key]; ok {
					args = append(args, key+"="+v)
				}
			}
			if len(args) != len(u.Args) {
				args = append(args, fmt.Sprint(u.Args))
			}
			fmt.Fprintf(&b, "  %s{%s} %s:", u.Tool, strings.Join(args, " "), u.Class)
			r := u.Response
			for _, row := range r.Rows {
				fmt.Fprintf(&b, " row %v", row["NAME"])
			}
			for what, list := range map[string][]map[string]any{"": r.Objects} {
				for _, o := range list {
					meta, _ := o["metadata"].(map[string]any)
					fmt.Fprintf(&b, " %s%v/%v", what, o["kind"], meta["name"])
				}
			}
			for _, o := range r.Related {
				meta, _ := o["metadata"].(map[string]any)
				fmt.Fprintf(&b, " related %v/%v", o["kind"], meta["name"])
			}
			for _, e := range r.Events {
				fmt.Fprintf(&b, " event %v", e["reason"])
			}
			if len(r.Lines) > 0 {
				fmt.Fprintf(&b, " %q", r.Lines)
			}
			if len(r.Series) > 0 {
				fmt.Fprintf(&b, " series %v", r.Series)
			}
			if len(r.Alerts) > 0 {
				fmt.Fprintf(&b, " alerts %v", r.Alerts)
			}
			if r.ExitCode != nil {
				fmt.Fprintf(&b, " exit %d", *r.ExitCode)
			}
			if r.Reason != "" {
				fmt.Fprintf(&b, " %d %s", r.Status, r.Reason)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func list(kind, version string, items ...string) string {
	return `{"kind":"` + kind + `List","apiVersion":"` + version + `","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
}

func object(kind, version, name, namespace string) string {
	return `{"kind":"` + kind + `","apiVersion":"` + version + `","metadata":{"name":"` + name + `","namespace":"` + namespace + `"}}`
}

func TestCalls(t *testing.T) {
	discovery := func(at float64, headers []string) []step {
		return []step{
			{at: at, request: "/api", headers: headers, body: `{"kind":"APIVersions"}`},
			{at: at, request: "/apis", headers: headers, body: `{"kind":"APIGroupList","apiVersion":"v1"}`},
		}
	}
	get := kubectl("s1", "get")
	describe := kubectl("s1", "describe")
	logs := kubectl("s1", "logs")
	tests := []struct {
		name  string
		steps []step
		want  string
	}{
		{"get prints a table", append(discovery(0, get), step{at: 0.1, request: "/api/v1/namespaces/shop/pods?limit=500", headers: table(get), body: podTable}),
			"delivered kubectl: kubectl get\n  T1{type=pods namespace=shop output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n"},
		{"get with selectors, all namespaces", []step{{request: "/api/v1/pods?labelSelector=tier%3Dfront%2Capp%3Dweb&fieldSelector=status.phase!%3DRunning%2Cspec.nodeName%3Dn1&limit=500", headers: table(get), body: podTable}},
			"delivered kubectl: kubectl get\n  T1{type=pods namespace=* labels=app=web,tier=front fields=spec.nodeName=n1,status.phase!=Running output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n"},
		{"several types and names are one call", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/web-1", headers: get, body: pod},
			{at: 0.1, request: "/api/v1/namespaces/shop/services/web", headers: get, body: object("Service", "v1", "web", "shop")},
			{at: 0.2, request: "/apis/apps/v1/namespaces/shop/deployments/web", headers: get, body: deploy},
		}, "delivered kubectl: kubectl get\n" +
			"  T1{type=pods namespace=shop name=web-1 output=object} delivered: Pod/web-1\n" +
			"  T1{type=services namespace=shop name=web output=object} delivered: Service/web\n" +
			"  T1{type=deployments namespace=shop name=web output=object} delivered: Deployment/web\n" +
			"  T3{namespace=shop service=web} delivered: Deployment/web Service/web\n"},
		{"a watch from nowhere is a question of its own", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods", headers: agent("python"), body: list("Pod", "v1", pod)},
			{at: 0.5, request: "/api/v1/namespaces/shop/pods?watch=True", headers: agent("python"), body: `{"type":"ADDED","object":` + pod + "}\n"},
		}, "delivered python: list pods\n  T1{type=pods namespace=shop output=object} delivered: Pod/web-1\n" +
			"delivered python: watch pods\n  T1{type=pods namespace=shop output=object} delivered: Pod/web-1\n"},
		{"a refused WebSocket and the SPDY after it are one attempt", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/web-1/exec?command=nc&command=-zv&command=db&command=5432", status: 501, headers: agent("probe/v1"), body: uncaught},
			{at: 0.1, request: "POST /api/v1/namespaces/shop/pods/web-1/exec?command=nc&command=-zv&command=db&command=5432", status: 501, headers: agent("probe/v1"), body: uncaught},
			{at: 0.2, request: "/api/v1/namespaces/shop/pods/web-1/portforward?ports=80", status: 403, headers: agent("probe/v1"), body: denied},
			{at: 0.3, request: "POST /api/v1/namespaces/shop/pods/web-1/portforward?ports=80", status: 101, headers: agent("probe/v1")},
		}, "unsupported probe: get pods/web-1 exec\n  T6{namespace=shop service=db port=5432} unsupported: 501 UnsupportedQuery\n" +
			"delivered probe: get pods/web-1 portforward\n  T6{namespace=shop service=web port=80} delivered:\n"},
		{"pages are one list", []step{
			{at: 0, request: "/api/v1/namespaces/shop/configmaps?limit=1", headers: get, body: list("ConfigMap", "v1", `{"metadata":{"name":"a","namespace":"shop"}}`)},
			{at: 9, request: "/api/v1/namespaces/shop/configmaps?continue=x&limit=1", headers: get, body: list("ConfigMap", "v1", `{"metadata":{"name":"b","namespace":"shop"}}`)},
		}, "delivered kubectl: kubectl get\n  T1{type=configmaps namespace=shop output=object} delivered: ConfigMap/a ConfigMap/b\n"},
		{"a watch adds what changed", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dweb-1&limit=500", headers: get, body: list("Pod", "v1", pod)},
			{at: 60, request: "/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Dweb-1&watch=true&resourceVersion=5", headers: get,
				body: `{"type":"ADDED","object":` + pod + "}\n" + `{"type":"MODIFIED","object":` + strings.Replace(pod, `"5"`, `"6"`, 1) + "}\n" + `{"type":"BOOKMARK","object":` + pod + "}\n{\"type\":\"MOD"},
		}, "delivered kubectl: kubectl get\n  T1{type=pods namespace=shop name=web-1 output=object} delivered: Pod/web-1 Pod/web-1\n"},
		{"what isn't there, isn't allowed, isn't captured", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/nope", status: 404, headers: table(get), body: notFound},
			{at: 1, request: "/api/v1/namespaces/shop/secrets", status: 403, headers: table(kubectl("s2", "get")), body: denied},
			{at: 2, request: "/api/v1/namespaces/other/pods", status: 501, headers: table(kubectl("s3", "get")), body: uncaught},
			{at: 0.1, request: "/api/v1/namespaces/shop", headers: get, body: object("Namespace", "v1", "shop", "")},
			{at: 3, request: "/apis/example.com/v1/gadgets", status: 404, kind: "text/plain", headers: table(kubectl("s4", "get")), body: "404 page not found\n"},
		}, "not-found kubectl: kubectl get\n  T1{type=pods namespace=shop name=nope output=table} not-found: 404 NotFound\n" +
			"refused kubectl: kubectl get\n  T1{type=secrets namespace=shop output=table} refused: 403 Forbidden\n" +
			"unsupported kubectl: kubectl get\n  T1{type=pods namespace=other output=table} unsupported: 501 UnsupportedQuery\n" +
			"failed kubectl: kubectl get\n  T1{type=gadgets.example.com namespace=* output=table} failed:\n"},
		{"events, as a table and whole", []step{
			{at: 0, request: "/api/v1/namespaces/shop/events?limit=500", headers: get, body: events},
			{at: 1, request: "/api/v1/namespaces/shop/events?limit=500", headers: kubectl("s2", "events"), body: events},
		}, "delivered kubectl: kubectl get\n  T1{type=events namespace=shop output=object} delivered: event FailedScheduling\n" +
			"delivered kubectl: kubectl events\n  T1{type=events namespace=shop output=object} delivered: event FailedScheduling\n"},
		{"describe reads twice, then the events", append(discovery(0, describe),
			step{at: 1, request: "/api/v1/namespaces/shop/pods/web-1", headers: describe, body: pod},
			step{at: 1.1, request: "/api/v1/namespaces/shop/pods/web-1", headers: describe, body: pod},
			step{at: 1.2, request: "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dweb-1%2CinvolvedObject.namespace%3Dshop&limit=500", headers: describe, body: events},
		), "delivered kubectl: kubectl describe\n  T2{type=pods namespace=shop name=web-1} delivered: Pod/web-1 event FailedScheduling\n"},
		{"describe deployment, with its ReplicaSets", []step{
			{at: 0, request: "/apis/apps/v1/namespaces/shop/deployments/web", headers: describe, body: deploy},
			{at: 0.1, request: "/apis/apps/v1/namespaces/shop/deployments/web", headers: describe, body: deploy},
			{at: 0.2, request: "/apis/apps/v1/namespaces/shop/replicasets?labelSelector=app%3Dweb", headers: describe, body: list("ReplicaSet", "apps/v1", `{"metadata":{"name":"web-1"}}`)},
			{at: 0.3, request: "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dweb", headers: describe, body: events},
		}, "delivered kubectl: kubectl describe\n  T2{type=deployments namespace=shop name=web} delivered: Deployment/web related ReplicaSet/web-1 event FailedScheduling\n"},
		{"describe by prefix", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/web", status: 404, headers: describe, body: strings.ReplaceAll(notFound, "nope", "web")},
			{at: 0.1, request: "/api/v1/namespaces/shop/pods", headers: describe, body: list("Pod", "v1", pod, `{"metadata":{"name":"db-0","namespace":"shop"}}`)},
			{at: 0.2, request: "/api/v1/namespaces/shop/pods/web-1", headers: describe, body: pod},
			{at: 0.3, request: "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dweb-1", headers: describe, body: events},
		}, "delivered kubectl: kubectl describe\n  T2{type=pods namespace=shop name=web-1} delivered: Pod/web-1 event FailedScheduling\n"},
		{"describe by a prefix of nothing", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/nope", status: 404, headers: describe, body: notFound},
			{at: 0.1, request: "/api/v1/namespaces/shop/pods", headers: describe, body: list("Pod", "v1", pod)},
		}, "not-found kubectl: kubectl describe\n  T2{type=pods namespace=shop name=nope} not-found: 404 NotFound\n"},
		{"describe nodes is the cluster's configuration too", []step{
			{at: 0, request: "/api/v1/nodes?limit=500", headers: describe, body: list("Node", "v1", `{"metadata":{"name":"n1"}}`, `{"metadata":{"name":"n2"}}`)},
			{at: 0.1, request: "/api/v1/nodes/n1", headers: describe, body: object("Node", "v1", "n1", "")},
			{at: 0.2, request: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1", headers: describe, body: object("Lease", "coordination.k8s.io/v1", "n1", "kube-node-lease")},
			{at: 0.3, request: "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", headers: describe, body: list("Pod", "v1", pod)},
			{at: 0.4, request: "/api/v1/events?fieldSelector=involvedObject.name%3Dn1", headers: describe, body: events},
			{at: 0.5, request: "/api/v1/events?fieldSelector=involvedObject.name%3Dn1%2CinvolvedObject.uid%3Dn1", headers: describe, body: list("Event", "v1")},
			{at: 0.6, request: "/api/v1/nodes/n2", headers: describe, body: object("Node", "v1", "n2", "")},
			{at: 0.7, request: "/api/v1/events?fieldSelector=involvedObject.name%3Dn2", headers: describe, body: list("Event", "v1")},
		}, "delivered kubectl: kubectl describe\n" +
			"  T2{type=nodes namespace= name=n1} delivered: Node/n1 related Lease/n1 related Pod/web-1 event FailedScheduling\n" +
			"  T2{type=nodes namespace= name=n2} delivered: Node/n2\n" +
			"  T7{} delivered: Node/n1 Node/n2\n"},
		{"a kubectl without session headers", []step{
			{at: 0, request: "/api?timeout=32s", headers: agent("kubectl/v1.21.0 (linux/amd64) kubernetes/cb303e6"), body: "{}"},
			{at: 0.1, request: "/api/v1/namespaces/shop/pods/web-1", headers: agent("kubectl/v1.21.0 (linux/amd64) kubernetes/cb303e6"), body: pod},
			{at: 0.2, request: "/api/v1/namespaces/shop/pods/web-1", headers: agent("kubectl/v1.21.0 (linux/amd64) kubernetes/cb303e6"), body: pod},
			{at: 0.3, request: "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dweb-1", headers: agent("kubectl/v1.21.0 (linux/amd64) kubernetes/cb303e6"), body: events},
		}, "delivered kubectl: kubectl describe\n  T2{type=pods namespace=shop name=web-1} delivered: Pod/web-1 event FailedScheduling\n"},
		{"logs, the service from a table before", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods", headers: table(get), body: podTable},
			{at: 1, request: "/api/v1/namespaces/shop/pods/web-6f7d9c8b5d-x2x4z", headers: kubectl("s2", "logs"), body: object("Pod", "v1", "web-6f7d9c8b5d-x2x4z", "shop")},
			{at: 1.1, request: "/api/v1/namespaces/shop/pods/web-6f7d9c8b5d-x2x4z/log?container=app&previous=true&timestamps=true", headers: kubectl("s2", "logs"), kind: "text/plain",
				body: "2026-03-01T11:59:00.123456789Z starting\n2026-03-01T11:59:01Z Connection REFUSED\n2026-03-01T11:59:02Z \n"},
		}, "delivered kubectl: kubectl get\n  T1{type=pods namespace=shop output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n" +
			"delivered kubectl: kubectl logs\n" +
			"  T5{namespace=shop service=storefront pod=web-6f7d9c8b5d-x2x4z container=app previous=true} delivered: [\"starting\" \"Connection REFUSED\" \"\"]\n" +
			"  T9{namespace=shop service=storefront pod=web-6f7d9c8b5d-x2x4z container=app previous=true} delivered: [\"Connection REFUSED\"]\n"},
		{"logs, the service from the name", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/cart-6f7d9c8b5d-x2x4z/log?container=app", headers: logs, kind: "text/plain", body: "ok"},
			{at: 1, request: "/api/v1/namespaces/shop/pods/mysql-0/log", headers: kubectl("s2", "logs"), kind: "text/plain", body: ""},
			{at: 2, request: "/api/v1/namespaces/shop/pods/agent-x2x4z/log", headers: kubectl("s3", "logs"), status: 501, body: uncaught},
			{at: 3, request: "/api/v1/namespaces/shop/pods/nope", headers: kubectl("s4", "logs"), status: 404, body: notFound},
			{at: 4, request: "/api/v1/namespaces/shop/pods?labelSelector=app%3Dfront", headers: kubectl("s5", "logs"), body: list("Pod", "v1")},
			{at: 5, request: "/api/v1/namespaces/shop/pods?labelSelector=app+in+%28front%2Ccart%29", headers: kubectl("s6", "logs"), body: list("Pod", "v1")},
		}, "delivered kubectl: kubectl logs\n  T5{namespace=shop service=cart pod=cart-6f7d9c8b5d-x2x4z container=app} delivered: [\"ok\"]\n" +
			"delivered kubectl: kubectl logs\n  T5{namespace=shop service=mysql pod=mysql-0} delivered:\n" +
			"unsupported kubectl: kubectl logs\n  T5{namespace=shop service=agent pod=agent-x2x4z} unsupported: 501 UnsupportedQuery\n" +
			"not-found kubectl: kubectl logs\n  T5{namespace=shop service=nope pod=nope} not-found: 404 NotFound\n" +
			"delivered kubectl: kubectl logs\n  T5{namespace=shop service=front} delivered:\n" +
			"delivered kubectl: kubectl logs\n  T5{namespace=shop} delivered:\n"},
		{"exec of a probe, port-forward, proxies", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/web-1", headers: kubectl("s1", "exec"), body: pod},
			{at: 0.1, request: "POST /api/v1/namespaces/shop/pods/web-1/exec?command=nc&command=-zv&command=-w&command=3&command=cart.backend.svc.cluster.local&command=8080&container=app&stdout=true",
				headers: kubectl("s1", "exec"), status: 101, said: []string{recorder.KeyExitCode, "1", recorder.KeyOutput, "refused"}},
			{at: 1, request: "POST /api/v1/namespaces/shop/pods/web-1/portforward", headers: kubectl("s2", "port-forward"), status: 101, said: []string{recorder.KeyPort, "80"}},
			{at: 1.5, request: "POST /api/v1/namespaces/shop/pods/web-1/portforward", headers: kubectl("s20", "port-forward"), status: 101, said: []string{recorder.KeyPort, "80,81", recorder.KeyAnswers, "2"}},
			{at: 1.6, request: "POST /api/v1/namespaces/shop/pods/web-1/portforward", headers: kubectl("s21", "port-forward"), status: 101, said: []string{recorder.KeyPort, "82", recorder.KeyAnswers, "0"}},
			{at: 1.7, request: "POST /api/v1/namespaces/shop/pods/web-1/portforward", headers: kubectl("s22", "port-forward"), status: 101, said: []string{recorder.KeyPort, "83", recorder.KeyAnswers, "0", recorder.KeyNotCaptured, "true"}},
			{at: 1.8, source: recorder.Forwarded, request: "/health", headers: agent("curl/8.5.0"), status: 503, kind: "text/plain", body: "overloaded",
				said: []string{recorder.KeyTool, "T6", recorder.KeyArgs, `{"namespace":"shop","pod":"web-1","port":"80"}`}},
			{at: 2, request: "/api/v1/namespaces/shop/services/http:cart:8080/proxy/health", headers: kubectl("s3", "get"), status: 503, body: strings.Replace(denied, "Forbidden", "ServiceUnavailable", 1)},
			{at: 3, request: "/api/v1/nodes/n1/proxy/logs/?query=kubelet", headers: kubectl("s4", "get"), kind: "text/plain", body: "a\nb\n"},
			{at: 4, request: "/api/v1/nodes/n1/proxy/healthz", headers: kubectl("s5", "get"), kind: "text/plain", body: "ok"},
			{at: 5, request: "POST /api/v1/namespaces/shop/pods/web-1/exec?command=ls", headers: kubectl("s6", "exec"), status: 501, body: uncaught},
			{at: 6, request: "POST /api/v1/namespaces/shop/pods/web-1/exec?command=nc&command=-zv&command=db&command=5432", headers: kubectl("s7", "exec"), status: 101,
				said: []string{recorder.KeyExitCode, "126", recorder.KeyOutput, "not captured", recorder.KeyNotCaptured, "true"}},
		}, "delivered kubectl: kubectl exec\n  T6{namespace=backend service=cart port=8080} delivered: exit 1\n" +
			"delivered kubectl: kubectl port-forward\n  T6{namespace=shop service=web port=80} delivered:\n" +
			"delivered kubectl: kubectl port-forward\n  T6{namespace=shop service=web port=80} delivered:\n  T6{namespace=shop service=web port=81} delivered:\n" +
			"failed kubectl: kubectl port-forward\n  T6{namespace=shop service=web port=82} failed:\n" +
			"unsupported kubectl: kubectl port-forward\n  T6{namespace=shop service=web port=83} unsupported:\n" +
			"delivered curl: GET /health\n  T6{namespace=shop service=web port=80} delivered:\n" +
			"delivered kubectl: kubectl get\n  T6{namespace=shop service=cart port=8080} delivered: 503 ServiceUnavailable\n" +
			"delivered kubectl: kubectl get\n  T10{node=n1 component=kubelet} delivered: [\"a\" \"b\"]\n" +
			"delivered kubectl: kubectl get\n  T10{node=n1 component=kubelet} delivered:\n" +
			"unsupported kubectl: kubectl exec\n" +
			"unsupported kubectl: kubectl exec\n  T6{namespace=shop service=db port=5432} unsupported: exit 126\n"},
		{"a type that isn't there; a path outside the resources", []step{
			{at: 0, request: "/api", headers: get, body: "{}"},
			{at: 0.1, request: "/apis", headers: get, body: "{}"},
			{at: 1, request: "/apis", headers: kubectl("s2", "get"), body: "{}"},
		}, "failed kubectl: kubectl get\ndelivered kubectl: kubectl get\n"},
		{"an empty table watch; rollout shows no YAML", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods?limit=500", headers: table(get), body: podTable},
			{at: 0.1, request: "/api/v1/namespaces/shop/pods?watch=true", headers: table(get)},
			{at: 1, request: "/apis/apps/v1/namespaces/shop/deployments/web", headers: kubectl("s2", "rollout status"), body: deploy},
		}, "delivered kubectl: kubectl get\n  T1{type=pods namespace=shop output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n" +
			"delivered kubectl: kubectl rollout status\n  T1{type=deployments namespace=shop name=web output=object} delivered: Deployment/web\n"},
		{"a session is a call even without data", []step{
			{at: 0, request: "/version", headers: kubectl("s1", "version"), body: "{}"},
			{at: 1, request: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", headers: kubectl("s2", "auth can-i"), post: "{}", status: 201, body: "{}"},
			{at: 2, request: "/api", headers: kubectl("s3", "api-resources"), body: "{}"},
		}, "delivered kubectl: kubectl version\ndelivered kubectl: kubectl auth can-i\ndelivered kubectl: kubectl api-resources\n"},
		{"writes", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods/web-1", headers: kubectl("s1", "delete"), body: pod},
			{at: 0.1, request: "DELETE /api/v1/namespaces/shop/pods/web-1", headers: kubectl("s1", "delete"), status: 403, body: denied},
			{at: 1, request: "POST /api/v1/namespaces/default/pods", headers: kubectl("s2", "debug"), post: `{"spec":{"nodeName":"n1"}}`, status: 403, body: denied},
			{at: 2, request: "PATCH /api/v1/namespaces/shop/pods/web-1?dryRun=All", headers: agent("curl/8.5.0"), status: 403, body: denied},
		}, "write kubectl: kubectl delete\nwrite kubectl: kubectl debug\n  T10{node=n1} write: 403 Forbidden\nwrite curl: patch pods/web-1\n"},
		{"top shows metrics alone", []step{
			{at: 0, request: "/apis/metrics.k8s.io/v1beta1/nodes", headers: kubectl("s1", "top node"), body: list("NodeMetrics", "metrics.k8s.io/v1beta1", `{"metadata":{"name":"n1"}}`)},
			{at: 0.1, request: "/api/v1/nodes", headers: kubectl("s1", "top node"), body: list("Node", "v1", `{"metadata":{"name":"n1"}}`)},
		}, "delivered kubectl: kubectl top node\n  T1{type=nodes.metrics.k8s.io namespace= output=object} delivered: NodeMetrics/n1\n"},
		{"parallel sessions are ordered by their first data", []step{
			{at: 0, request: "/api", headers: kubectl("slow", "get"), body: "{}"},
			{at: 0.1, request: "/api/v1/nodes", headers: table(kubectl("fast", "get")), body: podTable},
			{at: 0.2, request: "/api/v1/namespaces", headers: table(kubectl("slow", "get")), body: podTable},
		}, "delivered kubectl: kubectl get\n  T1{type=nodes namespace= output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n" +
			"delivered kubectl: kubectl get\n  T1{type=namespaces namespace= output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n"},
		{"an informer is one call, its lease and its discovery none", []step{
			{at: 0, request: "/apis", headers: agent("controller/v1 (linux/amd64)"), body: "{}"},
			{at: 0.1, request: "GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/c", headers: agent("controller/v1 leader-election"), body: "{}"},
			{at: 0.1, request: "PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/c", headers: agent("controller/v1 leader-election"), post: "{}", status: 403, body: denied},
			{at: 0.2, request: "/api/v1/pods?limit=500&resourceVersion=0", headers: agent("controller/v1 (linux/amd64)"), body: list("Pod", "v1", pod)},
			{at: 0.3, request: "/api/v1/pods?allowWatchBookmarks=true&resourceVersion=5&watch=true", headers: agent("controller/v1 (linux/amd64)"), body: `{"type":"ADDED","object":` + pod + "}\n"},
			{at: 0.4, request: "/api/v1/nodes?resourceVersion=0", headers: agent("controller/v1 (linux/amd64)"), body: list("Node", "v1", `{"metadata":{"name":"n1"}}`)},
		}, "delivered controller: list pods\n  T1{type=pods namespace=* output=object} delivered: Pod/web-1\n" +
			"delivered controller: list nodes\n  T1{type=nodes namespace= output=object} delivered: Node/n1\n  T7{} delivered: Node/n1\n"},
		{"curl asks once per request, retries included", []step{
			{at: 0, request: "/api/v1/namespaces/shop/pods", status: 429, headers: agent("curl/8.5.0"), kind: "text/plain", body: "slow down"},
			{at: 1, request: "/api/v1/namespaces/shop/pods", headers: agent("curl/8.5.0"), body: list("Pod", "v1", pod)},
			{at: 1.1, request: "/api/v1/namespaces/shop/pods", headers: agent("curl/8.5.0"), body: list("Pod", "v1", pod)},
			{at: 1.2, request: "/version", headers: agent("curl/8.5.0"), body: "{}"},
			{at: 1.3, request: "/livez", headers: agent("curl/8.5.0"), kind: "text/plain", body: "ok"},
		}, "delivered curl: list pods\n  T1{type=pods namespace=shop output=object} delivered: Pod/web-1\n" +
			"delivered curl: list pods\n  T1{type=pods namespace=shop output=object} delivered: Pod/web-1\n" +
			"delivered curl: GET /version\n" +
			"delivered curl: GET /livez\n  T10{component=kube-apiserver} delivered:\n"},
		{"a client reads a pod, then its log", []step{
			{at: 0, request: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", headers: agent("kubernetes-mcp-server/0.0.50"), post: "{}", status: 201, body: "{}"},
			{at: 0.1, request: "/api/v1/namespaces/shop/pods/web-1", headers: agent("kubernetes-mcp-server/0.0.50"), body: pod},
			{at: 0.2, request: "/api/v1/namespaces/shop/pods/web-1/log?container=app", headers: agent("kubernetes-mcp-server/0.0.50"), kind: "text/plain", body: "ok\n"},
			{at: 9, request: "/api/v1/namespaces/shop/pods/web-1", headers: agent("kubernetes-mcp-server/0.0.50"), body: pod},
		}, "delivered kubernetes-mcp-server: get pods/web-1\n  T5{namespace=shop service=web pod=web-1 container=app} delivered: [\"ok\"]\n" +
			"delivered kubernetes-mcp-server: get pods/web-1\n  T1{type=pods namespace=shop name=web-1 output=object} delivered: Pod/web-1\n"},
		{"alerts and queries", []step{
			{at: 0, source: "alerts", request: "/api/v2/alerts?active=true", headers: agent("Python-urllib/3.13"), body: `[{"labels":{"alertname":"A"}}]`},
			{at: 1, source: "metrics", request: "POST /api/v1/query", headers: append(agent("Go-http-client/1.1"), "Content-Type", "application/x-www-form-urlencoded"), post: "query=up%20%20%3D%3D+0", body: `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"x"},"value":[1,"0"]}]}}`},
			{at: 2, source: "metrics", request: "/api/v1/query?query=rate(istio_requests_total%7Bdestination_workload%3D%22cart%22%7D%5B1m%5D)", headers: agent("curl/8"), body: `{"status":"success","data":{"resultType":"matrix","result":[]}}`},
			{at: 3, source: "tools", request: "POST /tools/T11", headers: agent("curl/8"), said: []string{recorder.KeyTool, "T11", recorder.KeyArgs, `{"service":"cart"}`}, kind: recorder.ResponseType, body: `{"lines":["main.go"]}`},
			{at: 4, request: "/api/v1/componentstatuses/scheduler", headers: table(get), body: podTable},
			{at: 5, source: "tools", request: "POST /GetAlerts", headers: agent("curl/8"), said: []string{recorder.KeyTool, "T8", recorder.KeyAlerts, `[{"labels":{"alertname":"A"}}]`}, body: `{"tool":"GetAlerts","result":"one alert"}`},
			{at: 5.5, source: "tools", request: "POST /mcp", headers: agent("curl/8"), body: `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`},
			{at: 5.6, source: "tools", request: "POST /GetResources", headers: agent("curl/8"), body: `{"tool":"GetResources","result":"NAME"}`},
			{at: 5.7, source: "tools", request: "POST /GetNothing", headers: agent("curl/8"), status: 404, body: `{"tool":"GetNothing","error":"there is no such tool","reason":"NotFound"}`},
			{at: 6, source: "tools", request: "POST /mcp", headers: agent("curl/8"), said: []string{recorder.KeyTool, "T9", recorder.KeyArgs, `{"service":"cart"}`}, body: `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ERROR 1\nERROR 2\n"}]}}`},
		}, "delivered Python-urllib: GET /api/v2/alerts\n  T8{} delivered: alerts [map[labels:map[alertname:A]]]\n" +
			"delivered Go-http-client: POST /api/v1/query\n  T8{query=up == 0} delivered: series [map[metric:map[job:x] values:[[1 0]]]]\n" +
			"delivered curl: GET /api/v1/query\n  T8{query=rate(istio_requests_total{destination_workload=\"cart\"}[1m])} delivered:\n  T4{service=cart query=rate(istio_requests_total{destination_workload=\"cart\"}[1m])} delivered:\n" +
			"delivered curl: POST /tools/T11\n  T11{service=cart} delivered: [\"main.go\"]\n" +
			"delivered kubectl: kubectl get\n  T1{type=componentstatuses namespace= name=scheduler output=table} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n  T10{component=scheduler} delivered: row web-6f7d9c8b5d-x2x4z row db-0\n" +
			"delivered curl: POST /GetAlerts\n  T8{} delivered: alerts [map[labels:map[alertname:A]]]\n" +
			"failed curl: POST /GetNothing\n" +
			"delivered curl: POST /mcp\n  T9{service=cart} delivered: [\"ERROR 1\" \"ERROR 2\"]\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := summary(play(t, recorder.DeriveOptions{}, test.steps...))
			if diff := cmp.Diff(strings.Split(test.want, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
