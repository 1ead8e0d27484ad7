package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
)

// nodeCase has a node that is ready.
func nodeCase(t *testing.T) *fixtures.Case {
	t.Helper()
	c, err := fixtures.OpenFS("a", fstest.MapFS{
		"case.yaml":                       {Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: a\ncapture: {time: \"2026-12-01T00:10:00Z\"}\n")},
		"objects/core_v1_namespaces.json": {Data: []byte(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"default"}}]}`)},
		"objects/core_v1_nodes.json":      {Data: []byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`)},
		"objects/core_v1_pods.json":       {Data: []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func debugPod(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"nodeName":"n","containers":[{"name":"debugger","image":"busybox"}]}}`, name)
}

// TestDebuggingPods: of many clients that make a pod of one name one succeeds, an episode has a bounded
// number, and each is in that episode's lists only.
func TestDebuggingPods(t *testing.T) {
	s := newSite(t)
	c := nodeCase(t)
	one, other := s.episode(apiserver.EpisodeOptions{Case: c}), s.episode(apiserver.EpisodeOptions{Case: c})
	const pods = "/api/v1/namespaces/default/pods"
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got := s.call(t.Context(), "POST", one.Path()+pods, one.Token, strings.NewReader(debugPod("node-debugger-n-same")), "Content-Type: application/json")
			mu.Lock()
			codes[got.status]++
			mu.Unlock()
		})
	}
	all.Wait()
	if codes[http.StatusCreated] != 1 || codes[http.StatusConflict] != 7 {
		t.Errorf("eight of one name: %v", codes)
	}
	for i := range 64 {
		want := http.StatusCreated
		if i == 63 {
			want = http.StatusForbidden // that of the same name was the first
		}
		got := s.call(t.Context(), "POST", one.Path()+pods, one.Token, strings.NewReader(debugPod(fmt.Sprint("node-debugger-n-", i))), "Content-Type: application/json")
		if got.status != want {
			t.Errorf("number %d: %d, want %d: %s", i, got.status, want, got.body)
		}
	}
	if got := s.call(t.Context(), "GET", one.Path()+pods, one.Token, nil); strings.Count(got.body, `"uid":`) != 64 {
		t.Errorf("its own list has %d pods", strings.Count(got.body, `"uid":`))
	}
	if got := s.call(t.Context(), "GET", other.Path()+pods, other.Token, nil); got.status != http.StatusOK || strings.Contains(got.body, "node-debugger") {
		t.Errorf("another episode's list: %d %s", got.status, got.body)
	}
	for _, test := range []struct{ name, body string }{
		{"two containers", strings.Replace(debugPod("node-debugger-n-x"), `}]}}`, `},{"name":"b","image":"b"}]}}`, 1)},
		{"a node that isn't there", strings.ReplaceAll(debugPod("node-debugger-m-x"), `"nodeName":"n"`, `"nodeName":"m"`)},
		{"another name", debugPod("debugger-n-x")},
		{"no pod", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"node-debugger-n-x"}}`},
		{"no JSON", `{`},
	} {
		got := s.call(t.Context(), "POST", other.Path()+pods, other.Token, strings.NewReader(test.body), "Content-Type: application/json")
		if got.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", test.name, got.status, got.body)
		}
	}
}
