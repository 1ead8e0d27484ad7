package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// presentCase is a case with a pod that is terminating, one of a namespace that wasn't
// swept, and an event.
func presentCase(t *testing.T) *fixtures.Case {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"case.yaml": `apiVersion: kubecase.io/v1
kind: Case
name: present
capture: {time: 2026-12-01T00:10:00Z}
coverage:
  resources:
  - {version: v1, resource: pods, namespaces: [shop], fields: [spec.nodeName], reason: not asked for}
  - {version: v1, resource: events, fields: [involvedObject.name], reason: not asked for}
`,
		"objects/core_v1_pods.json": `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
 {"metadata": {"name": "cart", "namespace": "shop", "creationTimestamp": "2026-12-01T00:05:00Z", "deletionTimestamp": "2026-12-01T00:09:00Z"}, "spec": {"nodeName": "n"}},
 {"metadata": {"name": "dns", "namespace": "kube-system", "creationTimestamp": "2026-12-01T00:06:00Z"}, "spec": {"nodeName": "n"}}]}`,
		"objects/core_v1_events.json": `{"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
 {"metadata": {"name": "e", "namespace": "shop"}, "involvedObject": {"kind": "Pod", "name": "cart", "namespace": "shop"}, "lastTimestamp": "2026-12-01T00:07:00Z"}]}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := fixtures.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestPresent counts ages from an instant of the sweep: those in Tables, and those that
// `kubectl describe` counts itself.
func TestPresent(t *testing.T) {
	c := presentCase(t)
	server := apiserver.New(apiserver.Config{})
	present := time.Date(2026, 12, 1, 0, 9, 30, 0, time.UTC)
	e, err := server.AddEpisode(apiserver.EpisodeOptions{Case: c, Clock: clock.Captured, Present: present})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, accept, command string) (int, string) {
		req := httptest.NewRequest(http.MethodGet, e.Path()+path, nil)
		req.Header.Set("Authorization", "Bearer "+e.Token)
		req.Header.Set("Accept", accept)
		if command != "" {
			req.Header.Set("Kubectl-Command", command)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	if _, body := ask("/api/v1/namespaces/shop/pods", "application/json;as=Table;v=v1;g=meta.k8s.io", ""); !strings.Contains(body, `"4m30s"`) {
		t.Errorf("the age in a Table isn't that of the present: %s", body)
	}
	const onNode = "?fieldSelector=spec.nodeName%3Dn"
	since := func(body, field string) time.Duration {
		m := regexp.MustCompile(`"` + field + `":"([^"]*)"`).FindStringSubmatch(body)
		if m == nil {
			t.Fatalf("no %s in %s", field, body)
		}
		at, err := time.Parse(time.RFC3339, m[1])
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(at).Truncate(time.Second)
	}
	_, body := ask("/api/v1/namespaces/shop/pods/cart", "application/json", "kubectl describe")
	// a second may have turned since
	if age := since(body, "deletionTimestamp"); age < 30*time.Second || age > 31*time.Second {
		t.Errorf("the pod is terminating for %s, want 30s", age)
	}
	if !strings.Contains(body, `"creationTimestamp":"2026-12-01T00:05:00Z"`) {
		t.Errorf("a time that is printed as such was moved: %s", body)
	}
	_, body = ask("/api/v1/pods"+onNode, "application/json", "kubectl describe")
	if age := since(body, "creationTimestamp"); !strings.Contains(body, `"dns"`) || age < 3*time.Minute+30*time.Second || age > 3*time.Minute+31*time.Second {
		t.Errorf("the first pod of the node is %s old, want 3m30s: %s", age, body)
	}
	_, body = ask("/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dcart", "application/json", "kubectl describe")
	if age := since(body, "lastTimestamp"); age < 150*time.Second || age > 151*time.Second {
		t.Errorf("the event is %s old, want 2m30s", age)
	}
	for path, want := range map[string]int{
		"/api/v1/pods" + onNode: http.StatusOK,
		"/api/v1/pods":          http.StatusNotImplemented,
		"/api/v1/pods?fieldSelector=spec.nodeName!%3Dn":           http.StatusNotImplemented,
		"/api/v1/namespaces/kube-system/pods":                     http.StatusNotImplemented,
		"/api/v1/namespaces/shop/events":                          http.StatusNotImplemented,
		"/api/v1/events?fieldSelector=involvedObject.name%3Dcart": http.StatusOK,
	} {
		if code, body := ask(path, "application/json", ""); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
	if _, err := server.AddEpisode(apiserver.EpisodeOptions{Case: c, Present: present}); err == nil {
		t.Error("a clock that moves has no other present")
	}
}
