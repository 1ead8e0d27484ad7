package apiserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures/clock"
)

const tableAccept = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// TestCalls is the wire, one line a call: what a reader of the small case gets.
func TestCalls(t *testing.T) {
	s := newSite(t)
	e := s.episode(capturedReader(openCase(t, smallCase)))
	for _, test := range []struct {
		method, url string
		headers     []string
		status      int
		contains    []string
		lacks       []string
	}{
		// Captured text is the answer, with fields that no version knows.
		{url: "/api/v1/namespaces/shop/pods/a", status: 200, contains: []string{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"`, `"futureField":{"kept":[1,2.50]}`}},
		{url: "/api/v1/namespaces/shop/pods", status: 200, contains: []string{`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":[{"metadata":{"name":"a"`}, lacks: []string{`"name":"c"`}},
		{url: "/api/v1/namespaces/shop/pods/a", headers: []string{"Accept: application/yaml"}, status: 200, contains: []string{"apiVersion: v1\nkind: Pod\n", "futureField:"}},
		{url: "/api/v1/namespaces/shop/pods/a?pretty=true", status: 200, contains: []string{"{\n  \"kind\": \"Pod\","}},
		{url: "/api/v1/namespaces/shop/pods/a", headers: []string{"Accept: application/vnd.kubernetes.protobuf"}, status: 200, contains: []string{"k8s\x00"}},
		{url: "/apis/example.com/v1/namespaces/shop/widgets", status: 200, contains: []string{`{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget",`, `"metadata":{"continue":"","resourceVersion":"100"}}`}},
		// An API without versions keeps its order.
		{url: "/apis/metrics.k8s.io/v1beta1/nodes?limit=1", status: 200, contains: []string{`"items":[{"metadata":{"name":"n2"}`, `{"metadata":{"name":"n1"}`}},
		{url: "/apis/metrics.k8s.io/v1beta1/nodes/n1", status: 200, contains: []string{`"name":"n1"`}},
		{url: "/apis/metrics.k8s.io/v1beta1/nodes?watch=true", status: 405},
		// Selectors.
		{url: "/api/v1/pods?labelSelector=app%3Dweb", status: 200, contains: []string{`"name":"a"`, `"name":"c"`}, lacks: []string{`"name":"b"`}},
		{url: "/api/v1/pods?labelSelector=app%20notin%20(web)", status: 200, contains: []string{`"name":"b"`}, lacks: []string{`"name":"a"`, `"name":"c"`}},
		{url: "/api/v1/pods?fieldSelector=status.phase%3DPending", status: 200, contains: []string{`"name":"b"`}, lacks: []string{`"name":"a"`}},
		{url: "/api/v1/pods?fieldSelector=spec.nodeName%3D", status: 200, contains: []string{`"name":"b"`}, lacks: []string{`"name":"a"`}},
		{url: "/api/v1/pods?fieldSelector=spec.hostNetwork%3Dfalse,metadata.namespace%3Dtest", status: 200, contains: []string{`"name":"c"`}, lacks: []string{`"name":"a"`}},
		{url: "/apis/example.com/v1/widgets?fieldSelector=spec.size%3Dbig", status: 200, contains: []string{`"name":"w"`}},
		{url: "/apis/example.com/v1/widgets?fieldSelector=spec.size%3Dsmall", status: 200, lacks: []string{`"name":"w"`}},
		{url: "/apis/example.com/v1/widgets?fieldSelector=spec.color%3Dred", status: 400, contains: []string{"field label not supported: spec.color"}},
		// Pages and versions.
		{url: "/api/v1/pods?limit=1", status: 200, contains: []string{`"remainingItemCount":2`, `"continue":"`}, lacks: []string{`"name":"b"`}},
		{url: "/api/v1/pods?limit=1&labelSelector=app%3Dweb", status: 200, contains: []string{`"continue":"`}, lacks: []string{"remainingItemCount"}},
		{url: "/api/v1/pods?limit=1&continue=abc", status: 400, contains: []string{"continue key is not valid"}},
		{url: "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact", status: 410, contains: []string{"too old"}},
		{url: "/api/v1/pods?resourceVersion=101&resourceVersionMatch=Exact", status: 200, contains: []string{`"resourceVersion":"101"`}},
		{url: "/api/v1/pods?watch=true&resourceVersion=7", status: 200, contains: []string{`{"type":"ERROR","object":{"kind":"Status"`, "too old resource version: 7 (100)"}},
		{url: "/api/v1/namespaces/shop/pods?watch=true&timeoutSeconds=1&labelSelector=app%3Dweb", status: 200, contains: []string{`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"`}, lacks: []string{`"name":"b"`}},
		{url: "/apis/example.com/v1/widgets?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", status: 200,
			contains: []string{`{"type":"ADDED","object":{"apiVersion":"example.com/v1","kind":"Widget"`, `{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"100"}}}`}},
		// Captured and empty, missing, not captured: three different things.
		{url: "/api/v1/namespaces/nope/pods", status: 200, contains: []string{`"items":[]`}},
		{url: "/api/v1/namespaces/shop/pods/nope", status: 404, contains: []string{`"reason":"NotFound"`}},
		{url: "/api/v1/namespaces/shop/endpoints", status: 501, contains: []string{`"reason":"UnsupportedQuery"`, "nobody asked for it"}},
		{url: "/api/v1/namespaces/shop/secrets/s", status: 200},
		{url: "/api/v1/namespaces/test/secrets", status: 501, contains: []string{`secrets in the namespace \"test\" were not captured`, "the rest was forbidden"}},
		{url: "/api/v1/secrets", status: 501, contains: []string{"not captured in all namespaces"}},
		{url: "/api/v1/namespaces/shop/bindings", status: 405, contains: []string{"MethodNotAllowed"}},
		{url: "/api/v1/widgets", status: 404, contains: []string{`"message":"the server could not find the requested resource"`}},
		{url: "/apis/example.com/v1/gadgets", status: 404, contains: []string{"404 page not found"}},
		{url: "/apis/nope.example.com/v1/foos", status: 404, contains: []string{"404 page not found"}},
		{url: "/api/v1/namespaces/shop/namespaces", status: 404},
		{url: "/api/v1/pods/a", status: 404},
		{url: "/metrics", status: 501, contains: []string{"UnsupportedQuery"}},
		// OpenAPI that was not captured is the binary's own, and made from definitions.
		{url: "/openapi/v2", status: 200, contains: []string{`"swagger":"2.0"`}},
		{url: "/openapi/v3", status: 200, contains: []string{`"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=`, `"apis/example.com/v1":`}, lacks: []string{"apis/apps/v1", "metrics.k8s.io"}},
		{url: "/openapi/v3/api/v1", status: 200, contains: []string{"io.k8s.api.core.v1.Pod"}},
		{url: "/openapi/v3/apis/example.com/v1", status: 200, contains: []string{`"com.example.v1.Widget"`}},
		{url: "/openapi/v3/apis/apps/v1", status: 404},
		{url: "/version", status: 200, contains: []string{"{\n  \"major\": \"1\",", "v1.34.4"}},
		{url: "/healthz?verbose", status: 200, contains: []string{"[+]ping ok"}},
		// Media types, both refusals.
		{url: "/api/v1/pods", headers: []string{"Accept: text/html"}, status: 406, contains: []string{"Available representations"}},
		{url: "/api/v1/pods", headers: []string{"Accept: application/json;as=Table;v=v9;g=meta.k8s.io"}, status: 406, contains: []string{"only the following media types are accepted"}},
		{url: "/api/v1/namespaces/shop/pods/a", headers: []string{"Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}, status: 200, contains: []string{`{"kind":"PartialObjectMetadata"`, `"uid":"u-a"`}, lacks: []string{"nodeName"}},
		// Logs.
		{url: "/api/v1/namespaces/shop/pods/a/log", status: 200, contains: []string{"one at 2026-12-01T00:08:59Z\ntwo\nthree\n"}},
		{url: "/api/v1/namespaces/shop/pods/a/log?sinceSeconds=30", status: 200, contains: []string{"two\nthree\n"}, lacks: []string{"one"}},
		{url: "/api/v1/namespaces/shop/pods/a/log?previous=true", status: 501, contains: []string{`the previous log of container \"main\" in pod \"a\" was not captured`}},
		{url: "/api/v1/namespaces/shop/pods/b/log", status: 400, contains: []string{"choose one of: [one two]"}},
		{url: "/api/v1/namespaces/shop/pods/b/log?container=one", status: 204},
		{url: "/api/v1/namespaces/test/pods/c/log", status: 400, contains: []string{`container \"main\" in pod \"c\" is not available`}},
		{url: "/api/v1/namespaces/shop/pods/a/log?tailLines=-1", status: 422},
		// Streams and writes.
		{url: "/api/v1/namespaces/shop/pods/a/exec?command=ls", status: 400, contains: []string{"Upgrade request required"}},
		{method: "DELETE", url: "/api/v1/namespaces/shop/pods/a", status: 403, contains: []string{`User \"investigator\" cannot delete resource \"pods\"`}},
		{method: "PATCH", url: "/api/v1/namespaces/shop/pods/a/status", status: 403},
		{method: "POST", url: "/api/v1/namespaces/shop/pods?dryRun=All", status: 403},
		{method: "PUT", url: "/version", status: 403},
	} {
		if test.method == "" {
			test.method = http.MethodGet
		}
		t.Run(test.method+" "+test.url, func(t *testing.T) {
			got := s.call(t.Context(), test.method, e.Path()+test.url, e.Token, nil, test.headers...)
			if got.status != test.status {
				t.Errorf("status %d, want %d: %s", got.status, test.status, got.body)
			}
			for _, want := range test.contains {
				if !strings.Contains(got.body, want) {
					t.Errorf("lacks %q:\n%s", want, got.body)
				}
			}
			for _, unwanted := range append(test.lacks, e.ID, e.Token, "nightingale") {
				if strings.Contains(got.body, unwanted) {
					t.Errorf("holds %q:\n%s", unwanted, got.body)
				}
			}
		})
	}
}

// TestPagesHoldEverything walks lists page by page.
func TestPagesHoldEverything(t *testing.T) {
	s := newSite(t)
	e := s.episode(capturedReader(openCase(t, smallCase)))
	for limit := 1; limit <= 4; limit++ {
		var names []string
		next := ""
		for pages := 0; pages < 10; pages++ {
			got := s.call(t.Context(), "GET", e.Path()+"/api/v1/pods?limit="+string(rune('0'+limit))+"&continue="+next, e.Token, nil)
			page := struct {
				Metadata struct{ Continue string }
				Items    []struct{ Metadata struct{ Name string } }
			}{}
			if err := json.Unmarshal([]byte(got.body), &page); err != nil {
				t.Fatalf("%s: %v", got.body, err)
			}
			for _, item := range page.Items {
				names = append(names, item.Metadata.Name)
			}
			if next = page.Metadata.Continue; next == "" {
				break
			}
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

// table asks for a Table and returns its columns and rows as text.
func table(t *testing.T, s *site, e *apiserver.Episode, url string) [][]any {
	t.Helper()
	got := s.call(t.Context(), "GET", e.Path()+url, e.Token, nil, tableAccept)
	out := struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct{ Cells []any }
	}{}
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.status != 200 {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	header := []any{}
	for _, c := range out.ColumnDefinitions {
		header = append(header, c.Name)
	}
	rows := [][]any{header}
	for _, r := range out.Rows {
		rows = append(rows, r.Cells)
	}
	return rows
}

// TestCapturedTableWins: what the real server printed is printed again, except
// for ages; an object without a captured row is printed by Kubernetes' printer
// as far as the captured columns go.
func TestCapturedTableWins(t *testing.T) {
	s := newSite(t)
	c := openCase(t, smallCase)
	e := s.episode(capturedReader(c))
	want := [][]any{
		{"Name", "Mood", "Status", "Restarts", "Age"},
		{"a", "grim", "Captured", "2 (6m ago)", "10m"},
		{"b", "calm", "Captured", "0", "10m"},
		{"c", nil, "Failed", "0", "10m"},
	}
	if diff := cmp.Diff(want, table(t, s, e, "/api/v1/pods")); diff != "" {
		t.Errorf("at the capture instant (-want +got):\n%s", diff)
	}
	// An hour into a shifted episode everything is an hour older.
	later := s.episode(apiserver.EpisodeOptions{Case: c, Clock: clock.Shifted, Start: time.Now().Add(-time.Hour)})
	want[1][3], want[1][4], want[2][4], want[3][4] = "2 (66m ago)", "70m", "70m", "70m"
	if diff := cmp.Diff(want, table(t, s, later, "/api/v1/pods")); diff != "" {
		t.Errorf("an hour later (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]any{{"Name", "Size", "Since"}, {"w", "big", "3m"}}, table(t, s, e, "/apis/example.com/v1/widgets")); diff != "" {
		t.Errorf("a definition's columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]any{{"Name", "Created At"}, {"widgets.example.com", "2026-12-01T00:00:00Z"}}, table(t, s, e, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")); diff != "" {
		t.Errorf("a moment that is printed as such (-want +got):\n%s", diff)
	}
}

// TestShiftedClock: every timestamp moves by the same offset, in every form, and
// bytes that only look like one don't.
func TestShiftedClock(t *testing.T) {
	s := newSite(t)
	start := captured.Add(24 * time.Hour)
	e := s.episode(apiserver.EpisodeOptions{Case: openCase(t, smallCase), Clock: clock.Shifted, Start: start})
	for url, wants := range map[string][]string{
		"/api/v1/namespaces/shop/pods/a":                                    {`"creationTimestamp":"2026-12-02T00:00:00Z"`, `"finishedAt":"2026-12-02T00:04:00Z"`},
		"/api/v1/namespaces/shop/pods?watch=1&timeoutSeconds=1":             {`"startTime":"2026-12-02T00:00:01Z"`},
		"/apis/example.com/v1/namespaces/shop/widgets/w":                    {`"since":"2026-12-02T00:07:00Z"`},
		"/api/v1/namespaces/shop/pods/a/log?timestamps=true":                {"2026-12-02T00:09:00.000000000Z one at 2026-12-02T00:08:59Z\n"},
		"/api/v1/namespaces/shop/pods/a/log?sinceTime=2026-12-02T00:09:59Z": {"three\n"},
		"/api/v1/namespaces/shop/secrets/s":                                 {`"k":"MjAyNi0xMi0wMVQwMDowMDowMFo="`},
	} {
		got := s.call(t.Context(), "GET", e.Path()+url, e.Token, nil)
		for _, want := range wants {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s lacks %s:\n%s", url, want, got.body)
			}
		}
		if strings.Contains(got.body, "2026-12-01T") {
			t.Errorf("%s has a timestamp that did not move:\n%s", url, got.body)
		}
	}
}

// TestAgesAtCapture: at the captured clock, `kubectl events` and `describe` count
// ages from their own present, so the times of events, and of nothing else, move.
func TestAgesAtCapture(t *testing.T) {
	s := newSite(t)
	files := fstest.MapFS{
		"objects/core_v1_events.json": {Data: []byte(`{"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
  {"metadata": {"name": "e", "namespace": "shop", "resourceVersion": "8", "creationTimestamp": "2026-12-01T00:00:00Z"},
   "involvedObject": {"kind": "Pod", "name": "a"}, "lastTimestamp": "2026-12-01T00:05:00Z"}]}`)},
		"objects/core_v1_pods.json": smallCase["objects/core_v1_pods.json"],
		"case.yaml":                 {Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: small\ncapture: {time: \"2026-12-01T00:10:00Z\"}\n")},
	}
	e := s.episode(capturedReader(openCase(t, files)))
	ages := func(path string, headers ...string) time.Duration {
		got := s.call(t.Context(), "GET", e.Path()+path, e.Token, nil, headers...)
		object := struct {
			LastTimestamp time.Time
			Metadata      struct{ CreationTimestamp time.Time }
		}{}
		if err := json.Unmarshal([]byte(got.body), &object); err != nil {
			t.Fatalf("%s: %v", got.body, err)
		}
		if object.LastTimestamp.IsZero() {
			return time.Since(object.Metadata.CreationTimestamp)
		}
		return time.Since(object.LastTimestamp)
	}
	const event, pod = "/api/v1/namespaces/shop/events/e", "/api/v1/namespaces/shop/pods/a"
	for _, command := range []string{"kubectl describe", "kubectl events"} {
		if got := ages(event, "Kubectl-Command: "+command); got < 5*time.Minute || got > 6*time.Minute {
			t.Errorf("%s: the event is %v old, want the 5m that it was at the capture", command, got)
		}
		if got := ages(pod, "Kubectl-Command: "+command); got < 10*time.Minute+time.Since(captured)-11*time.Minute {
			t.Errorf("%s: the pod's own times moved", command)
		}
	}
	if got := ages(event, "Kubectl-Command: kubectl get"); got < time.Since(captured) {
		t.Errorf("kubectl get: the event's times moved: %v old", got)
	}
}

// TestSealedEpisodes: a token opens its own episode and nothing else.
func TestSealedEpisodes(t *testing.T) {
	s := newSite(t)
	c := openCase(t, smallCase)
	one, other := s.episode(capturedReader(c)), s.episode(capturedReader(c))
	const pods = "/api/v1/namespaces/shop/pods/a"
	for _, test := range []struct {
		name, url, token string
		status           int
	}{
		{"its own", one.Path() + pods, one.Token, 200},
		{"the other's token", one.Path() + pods, other.Token, 401},
		{"a wrong token", one.Path() + pods, "wrong", 401},
		{"no token", one.Path() + pods, "", 403},
		{"no token, public path", one.Path() + "/version", "", 200},
		{"by the token alone", pods, one.Token, 200},
		{"no path and a wrong token", pods, "wrong", 404},
		{"no path and no token", pods, "", 404},
		{"another id", apiserver.PathPrefix + "00000000000000000000000000000000" + pods, one.Token, 404},
		{"a prefix of the id", apiserver.PathPrefix + one.ID[:8] + pods, one.Token, 404},
		{"out of the episode", one.Path() + "/../" + other.ID + pods, one.Token, 404},
		{"the list of episodes", apiserver.PathPrefix, one.Token, 404},
		{"the root", "/", "", 404},
	} {
		if got := s.call(t.Context(), "GET", test.url, test.token, nil); got.status != test.status {
			t.Errorf("%s: status %d, want %d: %s", test.name, got.status, test.status, got.body)
		}
	}
	s.api.RemoveEpisode(one)
	if got := s.call(t.Context(), "GET", one.Path()+pods, one.Token, nil); got.status != 404 {
		t.Errorf("after the end: status %d, want 404", got.status)
	}
	if got := s.call(t.Context(), "GET", pods, one.Token, nil); got.status != 404 {
		t.Errorf("after the end, by the token alone: status %d, want 404", got.status)
	}
}

// TestWritesAreRefusedUnread: an endless body doesn't delay the refusal.
func TestWritesAreRefusedUnread(t *testing.T) {
	s := newSite(t)
	c := openCase(t, smallCase)
	for _, o := range []apiserver.EpisodeOptions{
		capturedReader(c),
		{Case: c, User: "root", Groups: []string{"system:masters"}},
	} {
		body, feed := io.Pipe()
		defer feed.Close()
		e := s.episode(o)
		got := s.call(t.Context(), "POST", e.Path()+"/api/v1/namespaces/shop/pods", e.Token, body, "Content-Type: application/json")
		if want := `cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"`; got.status != 403 || !strings.Contains(got.body, want) {
			t.Errorf("%s: status %d: %s", e.User(), got.status, got.body)
		}
	}
}

// TestNothingChanges: many clients at once get what one alone gets, in every
// form, and the case is what it was.
func TestNothingChanges(t *testing.T) {
	s := newSite(t)
	c := openCase(t, smallCase)
	e := s.episode(capturedReader(c))
	before := raw(t, c)
	type request struct{ url, accept string }
	requests := []request{
		{"/api/v1/pods", "application/json"}, {"/api/v1/pods", "application/yaml"}, {"/api/v1/pods", "application/vnd.kubernetes.protobuf"},
		{"/api/v1/pods", strings.TrimPrefix(tableAccept, "Accept: ")}, {"/api/v1/pods?includeObject=Object", strings.TrimPrefix(tableAccept, "Accept: ")},
		{"/api/v1/pods", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}, {"/apis/example.com/v1/widgets", "application/json"},
		{"/api/v1/namespaces/shop/pods?watch=1&timeoutSeconds=1", "application/json"}, {"/api/v1/namespaces/shop/pods/a/log", "*/*"}, {"/apis", "application/json"},
	}
	alone := make([]answer, len(requests))
	for i, r := range requests {
		alone[i] = s.call(t.Context(), "GET", e.Path()+r.url, e.Token, nil, "Accept: "+r.accept)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, r := range requests {
				got := s.call(t.Context(), "GET", e.Path()+r.url, e.Token, nil, "Accept: "+r.accept)
				if got.status != 200 || got.body != alone[i].body {
					t.Errorf("%s as %s: %d bytes with status %d, alone %d bytes", r.url, r.accept, len(got.body), got.status, len(alone[i].body))
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, raw(t, c)); diff != "" {
		t.Errorf("the case changed (-before +after):\n%s", diff)
	}
}

// TestDeadline: a request that waits for a version that will not come ends at its
// own timeout, with the words of upstream's filter.
func TestDeadline(t *testing.T) {
	s := newSite(t)
	e := s.episode(apiserver.EpisodeOptions{Case: openCase(t, smallCase)})
	got := s.call(t.Context(), "GET", e.Path()+"/api/v1/namespaces/shop/pods?resourceVersion=9999999&timeout=1s", e.Token, nil)
	if want := "request did not complete within the allotted timeout"; got.status != 504 || !strings.Contains(got.body, want) {
		t.Errorf("status %d, %s; want 504 and %q", got.status, got.body, want)
	}
}

// TestRowsAreOfTheirObjects: whatever order a printer puts its rows in, each row
// carries the object that it is of.
func TestRowsAreOfTheirObjects(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"shop-outage", "shop-quiet"} {
		c := shipped(t, name)
		e := s.episode(apiserver.EpisodeOptions{Case: c})
		rows := 0
		for _, r := range c.Resources() {
			path := "/apis/" + r.GVR.Group + "/" + r.GVR.Version + "/" + r.GVR.Resource
			if r.GVR.Group == "" {
				path = "/api/" + r.GVR.Version + "/" + r.GVR.Resource
			}
			got := s.call(t.Context(), "GET", e.Path()+path, e.Token, nil, tableAccept)
			table := metav1.Table{}
			if err := json.Unmarshal([]byte(got.body), &table); err != nil || got.status != 200 {
				t.Fatalf("%s: status %d, %v", path, got.status, err)
			}
			column := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Name" })
			if column < 0 {
				continue // events print who they are about
			}
			for _, row := range table.Rows {
				of := metav1.PartialObjectMetadata{}
				if err := json.Unmarshal(row.Object.Raw, &of); err != nil {
					t.Fatal(err)
				}
				cell, _, _ := strings.Cut(row.Cells[column].(string), " ") // "standard (default)"
				if cell != of.Name {
					t.Errorf("%s: the row of %v carries %s", path, row.Cells[column], of.Name)
				}
				rows++
			}
		}
		if rows < 300 {
			t.Errorf("%s: only %d rows were looked at", name, rows)
		}
	}
}
