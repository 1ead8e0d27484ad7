package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubecase/kubecase/fixtures/clock"
)

// TestQueriesThatWait: a query that had to wait answers as one that hadn't, whether it had time
// enough behind all else or was begun anew, and its errors are its own.
func TestQueriesThatWait(t *testing.T) {
	s := newStore()
	if err := s.readText([]byte("load{a=\"b\"} 7 1796084300\n# EOF\n")); err != nil {
		t.Fatal(err)
	}
	s.seal()
	for _, behind := range []time.Duration{time.Minute, time.Nanosecond} {
		shim := New(Options{Concurrency: 1})
		shim.behindAtMost = behind
		a := &api{shim: shim, queryable: queryable{store: s, clock: clock.Clock{}}}
		ask := func(query string) string {
			w := httptest.NewRecorder()
			a.routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?time=1796084304&query="+query, nil))
			return w.Body.String()
		}
		for query, want := range map[string]string{"sum(load)": `"value":[1796084304,"7"]`, "load*2": `"value":[1796084304,"14"]`, "label_replace(load,%22%22,%22x%22,%22a%22,%22.*%22)": `"errorType":"execution"`} {
			alone := ask(query)
			if !strings.Contains(alone, want) {
				t.Fatalf("%s: %s, want %s", query, alone, want)
			}
			shim.slots <- struct{}{}
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					if got := ask(query); got != alone {
						t.Errorf("%s after a wait, %s behind: %s, want %s", query, behind, got, alone)
					}
				})
			}
			for len(shim.waiting) < 3 {
				time.Sleep(time.Millisecond) // until they wait
			}
			<-shim.slots
			group.Wait()
		}
	}
}

// TestBehindPassesPanics: what goes wrong on another thread is the caller's.
func TestBehindPassesPanics(t *testing.T) {
	defer func() {
		if p := recover(); p != "why" {
			t.Errorf("recovered %v", p)
		}
	}()
	behind(func() { panic("why") })
	t.Error("it went on")
}
