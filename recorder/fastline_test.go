package recorder

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestStraightLine compares each line that is written straight with that of the event.
func TestStraightLine(t *testing.T) {
	pod := &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIVersion: "v1", Resource: "pods", Namespace: "shop"}
	for name, test := range map[string]struct {
		method, target string
		header         http.Header
		info           *request.RequestInfo
		user           authnv1.UserInfo
		source         Source
		status         int
		answered       http.Header
		said           bool
		straight       bool
	}{
		"a list by kubectl": {target: "/api/v1/namespaces/shop/pods?limit=500", info: pod, straight: true, answered: http.Header{"Content-Type": {"application/json"}}, user: authnv1.UserInfo{Username: "investigator", Groups: []string{"system:authenticated"}},
			header: http.Header{"Accept": {"application/json;as=Table"}, "User-Agent": {`kubectl/v1.34.4 "x" \ é`}, "Kubectl-Session": {"5e55"}, "Kubectl-Command": {"kubectl get"}}},
		"an object of a group": {target: "/apis/apps/v1/namespaces/shop/deployments/a%2Fb", straight: true, user: authnv1.UserInfo{Username: "u", UID: "1"},
			info:     &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Namespace: "shop", Name: "a", Subresource: "status"},
			answered: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}},
		"the version":             {target: "/version", info: &request.RequestInfo{Verb: "get", Path: "/version"}, straight: true},
		"a refusal":               {target: "/version", info: &request.RequestInfo{Verb: "get"}, status: 403, straight: true},
		"of another source":       {method: "POST", target: "/api/v1/query?query=up", source: Source{Name: "prometheus"}, straight: true},
		"nobody knows what it is": {target: "/api/v1/pods"},
		"something was said":      {target: "/version", info: &request.RequestInfo{Verb: "get"}, said: true},
		"behind a prefix":         {target: "/e/1/version", info: &request.RequestInfo{Verb: "get"}, source: Source{Name: Kubernetes, Prefix: "/e/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 12, 1, 0, 18, 24, 7_000_123, time.FixedZone("", 3600))
			bodies, err := OpenBodies(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			l, err := Open(t.TempDir(), Options{Bodies: bodies, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if test.method == "" {
				test.method = http.MethodGet
			}
			r := httptest.NewRequest(test.method, test.target, nil)
			r.RemoteAddr = "127.0.0.1:4711"
			for key, values := range test.header {
				r.Header[key] = values
			}
			answer := httptest.NewRecorder()
			for key, values := range test.answered {
				answer.Header()[key] = values
			}
			if test.source.Name == "" {
				test.source.Name = Kubernetes
			}
			if test.status == 0 {
				test.status = 200
			}
			x := &Exchange{user: test.user, info: test.info}
			if test.said {
				x.Annotate("a", "b")
			}
			w := &recording{ResponseWriter: answer, log: l, source: test.source, exchange: x, request: r, status: test.status, wire: 17}
			w.at.arrived(l, r.Header)
			k := kept{wire: 17, size: 19, digest: "d1"}
			// Twice: what is kept of the last line gives the same.
			for range 2 {
				got, straight := w.straightLine(nil, k)
				if straight != test.straight {
					t.Fatalf("it is straight: %t, want %t", straight, test.straight)
				}
				if !straight {
					return
				}
				w.build()
				e := w.event
				w.complete(&e, true)
				e.Stage = auditv1.StageResponseComplete
				e.Annotations[KeyBody], e.Annotations[KeyBodySize] = k.digest, itoa(k.size)
				want, err := appendLine(nil, &e)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("(-event +straight)\n%s", diff)
				}
			}
		})
	}
}
