package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/shims/logs"
)

func raw(t testing.TB, c *fixtures.Case) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range c.Resources() {
		for _, o := range r.Objects {
			out[r.GVR.String()+" "+o.Namespace+"/"+o.Name] = string(o.Raw)
		}
	}
	if len(out) == 0 {
		t.Fatal("the case is empty")
	}
	return out
}

// FuzzRequest sends anything to an episode: no panic, no answer but those that a
// server has, nothing about the episode or the case in any.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"/api/v1/namespaces/shop/pods?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTAwLCJzdGFydCI6ImEifQ", "application/json", "GET"},
		{"/api/v1/pods?labelSelector=app+in+(web)&fieldSelector=status.phase!=Running,metadata.name=a", "application/json;as=Table;v=v1;g=meta.k8s.io", "GET"},
		{"/api/v1/namespaces/shop/pods/a/log?tailLines=1&sinceTime=2026-12-01T00:00:00Z&limitBytes=5", "*/*", "GET"},
		{"/apis/example.com/v1/widgets?resourceVersion=100&resourceVersionMatch=Exact", "application/yaml;q=0.5,application/json", "GET"},
		{"/api/v1//namespaces/../pods/%2e%2e/x", "text/plain, */*;q=0", "HEAD"},
		{"/openapi/v3/../../case.yaml", "", "GET"},
		{"/api/v1/namespaces/shop/pods/a/exec?command=ls", "application/json", "POST"},
		{"/api/v1/namespaces/shop/services/http:x:80/proxy/a/b", "application/json", "GET"},
		{"/healthz/etcd?verbose&exclude=x", "", "GET"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	c := openCase(f, smallCase)
	api := apiserver.New(apiserver.Config{Logs: logs.Source{}})
	e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c})
	if err != nil {
		f.Fatal(err)
	}
	before := raw(f, c)
	f.Fuzz(func(t *testing.T, target, accept, method string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.Contains(method, " ") {
			return
		}
		// What waits by design would only make this slow: watches, following, the future.
		if q := u.Query(); q.Has("watch") || q.Has("follow") || q.Has("resourceVersion") && len(q.Get("resourceVersion")) > 3 || strings.Contains(u.Path, "watch") || q.Has("continue") && len(q.Get("continue")) > 200 {
			return
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1"+e.Path(), nil)
		if err != nil {
			return
		}
		req.URL.Path, req.URL.RawQuery, req.RequestURI = e.Path()+u.Path, u.RawQuery, e.Path()+target
		req.Header.Set("Authorization", "Bearer "+e.Token)
		req.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, req)
		switch w.Code {
		case 200, 201, 204, 301, 304, 400, 401, 403, 404, 405, 406, 410, 415, 422, 501, 504:
		default:
			t.Errorf("%s %s (%s): status %d: %.300s", method, target, accept, w.Code, w.Body)
		}
		for _, secret := range []string{e.ID, e.Token, "kubecase.io"} {
			if strings.Contains(w.Body.String(), secret) && !strings.Contains(target+accept+method, secret) && w.Code != 301 {
				t.Errorf("%s %s: the answer holds %q: %.300s", method, target, secret, w.Body)
			}
		}
		if len(before) != len(raw(t, c)) {
			t.Error("the case changed")
		}
	})
}
