package connectivity

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
)

// TestPodPorts: an answer of one port of a pod is none of another, and what the API server's proxy
// said of a connection that failed is its own, not the pod's.
func TestPodPorts(t *testing.T) {
	pods, err := fixtures.DecodeList(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[
		{"metadata":{"name":"web","namespace":"shop"},"spec":{"nodeName":"n","containers":[{"name":"side"},{"name":"web","ports":[{"containerPort":8080},{"containerPort":9090}]}]},"status":{"podIP":"10.0.0.5"}},
		{"metadata":{"name":"bare","namespace":"shop"},"spec":{"nodeName":"n","containers":[{"name":"a"}]},"status":{"podIP":"10.0.0.6"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const refused = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"error trying to reach service: dial tcp 10.0.0.5:81: connect: connection refused","reason":"ServiceUnavailable","code":503}`
	c := fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, map[string]string{
		fixtures.AnswersDocument: encoded(t, []fixtures.HTTPAnswer{
			{Kind: "Pod", Namespace: "shop", Name: "web", Path: "", Status: 200, Body: "first port"},
			{Kind: "Pod", Namespace: "shop", Name: "web", Port: "9090", Path: "", Status: 200, Body: "second port"},
			{Kind: "Pod", Namespace: "shop", Name: "web", Port: "81", Path: "", Status: 503, ContentType: "application/json", Body: refused},
			{Kind: "Pod", Namespace: "shop", Name: "bare", Path: "", Status: 200, Body: "usual port"},
		}),
	}, pods)
	k := clock.New(clock.Captured, captured, captured)
	for name, want := range map[string]string{
		"web": "first port", "web:8080": "first port", "web:9090": "second port", "web:81": refused, "web:80": "", "web:7": "", "bare": "usual port", "bare:80": "usual port", "bare:8080": "",
	} {
		w := httptest.NewRecorder()
		err := Proxy(w, httptest.NewRequest(http.MethodGet, "/", nil), Proxied{Case: c, Clock: k, Kind: "Pod", Namespace: "shop", Name: name, Path: "/"})
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "was not captured")):
			t.Errorf("%s: %v, %q; want that it wasn't captured", name, err, w.Body)
		case want != "" && (err != nil || w.Body.String() != want):
			t.Errorf("%s: %v, %q; want %q", name, err, w.Body, want)
		}
	}
	f := &forwarder{Target: Target{Case: c, Clock: k, Namespace: "shop", Pod: "web"}}
	for port, want := range map[string]string{"8080": "first port", "9090": "second port", "80": "", "81": ""} {
		h := f.answers(port)
		if (h != nil) != (want != "") {
			t.Errorf("port-forward to %s: it is answered: %t", port, h != nil)
			continue
		}
		if h == nil {
			continue
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Body.String() != want {
			t.Errorf("port-forward to %s: %q, want %q", port, w.Body, want)
		}
	}
}
