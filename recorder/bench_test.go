package recorder_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/recorder"
)

func newListener() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// discard is a response writer without a connection.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkRecord measures what recording costs a request: everything but the
// answer itself.
func BenchmarkRecord(b *testing.B) {
	for _, bench := range []struct {
		name string
		size int
		kept bool
	}{{"get", 2 << 10, false}, {"get-kept", 2 << 10, true}, {"list-240kB-kept", 240 << 10, true}, {"list-240kB", 240 << 10, false}} {
		b.Run(bench.name, func(b *testing.B) {
			l, _ := newLog(b, nil)
			body := []byte(strings.Repeat(`{"a":"b"},`, bench.size/10))
			h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if bench.kept {
					recorder.FromContext(r.Context()).SameAs("key")
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(body)
			}), recorder.Source{Name: recorder.Kubernetes})
			r := httptest.NewRequest("GET", "/api/v1/namespaces/shop/pods?limit=500", nil)
			r.Header.Set("Kubectl-Session", "5e55")
			r.Header.Set("Kubectl-Command", "kubectl get")
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				h.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}
