package metrics

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kubecase/kubecase/fixtures/clock"
)

// FuzzReadText: whatever a file of samples holds, it is read or refused, and what was
// read is in order.
func FuzzReadText(f *testing.F) {
	f.Add([]byte("# TYPE a counter\na_total{b=\"c\"} 1 1796084304\na_total{b=\"c\"} 2 1796084304.5\n# EOF\n"))
	f.Add([]byte("a 1\n# EOF\n"))
	f.Add([]byte("{\"quoted.name\",x=\"\\n\"} NaN 1e3\n# EOF\n"))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 2 3 # {trace=\"1\"} 0.5\n# EOF\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newStore()
		if err := s.readText(text); err != nil {
			return
		}
		s.seal()
		for _, one := range s.series {
			last := int64(math.MinInt64)
			for _, p := range one.floats {
				if p.t <= last && !(p.t == math.MinInt64 && last == math.MinInt64) {
					t.Fatalf("%s: %d after %d", one.labels, p.t, last)
				}
				last = p.t
			}
		}
	})
}

// FuzzParameters: whatever is asked, the answer is JSON and no failure of ours.
func FuzzParameters(f *testing.F) {
	s := newStore()
	if err := s.readText([]byte("up{job=\"a\"} 1 1000\nup{job=\"a\"} 0 1060\nx_time_seconds 5 1000\n# EOF\n")); err != nil {
		f.Fatal(err)
	}
	s.seal()
	a := &api{shim: New(Options{MaxSamples: 10_000, Timeout: time.Second}), queryable: queryable{store: s, clock: clock.Clock{}}}
	h := a.routes()
	f.Add("query", "query=up&time=1000")
	f.Add("query_range", "query=rate(up[1m])&start=0&end=2000&step=15s")
	f.Add("series", "match[]={job%3D~\"a.*\"}&start=-1e300&end=NaN")
	f.Add("labels", "limit=99999999999999999999")
	f.Add("query", "query=up&lookback_delta=-1&timeout=1ms&stats=all&limit=1")
	f.Fuzz(func(t *testing.T, path, query string) {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/query", nil)
		req.URL.RawQuery = query
		switch path {
		case "query_range", "series", "labels", "format_query", "query_exemplars":
			req.URL.Path = "/api/v1/" + path
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code == http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
		}
	})
}
