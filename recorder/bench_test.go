package recorder_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

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
			// Kubernetes' chain, which answers, has read the path.
			r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIVersion: "v1", Resource: "pods", Namespace: "shop"}))
			r.Header.Set("Kubectl-Session", "5e55")
			r.Header.Set("Kubectl-Command", "kubectl get")
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				h.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}

// investigation is an episode of 30 requests in 12 calls.
func investigation() []step {
	var steps []step
	add := func(s step) {
		s.at = float64(len(steps))
		steps = append(steps, s)
	}
	for i := range 6 {
		get, describe := kubectl(fmt.Sprint("g", i), "get"), kubectl(fmt.Sprint("d", i), "describe")
		add(step{request: "/apis", headers: get, body: "{}"})
		add(step{request: fmt.Sprintf("/api/v1/namespaces/shop/pods?labelSelector=n%%3D%d", i), headers: table(get), body: podTable})
		add(step{request: "/api/v1/namespaces/shop/pods/web-1", headers: describe, body: pod})
		add(step{request: "/api/v1/namespaces/shop/pods/web-1", headers: describe, body: pod})
		add(step{request: "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dweb-1", headers: describe, body: events})
	}
	return steps
}

// BenchmarkReadTrajectory derives an episode of 30 requests with small bodies.
func BenchmarkReadTrajectory(b *testing.B) {
	dir, bodies := record(b, investigation()...)
	for b.Loop() {
		trajectory, err := recorder.ReadTrajectory(dir, recorder.DeriveOptions{Bodies: bodies}, nil)
		if err != nil || len(trajectory.Calls) != 12 {
			b.Fatal(len(trajectory.Calls), err)
		}
	}
}

// BenchmarkLoadCalls reads the same episode's saved calls, without their responses.
func BenchmarkLoadCalls(b *testing.B) {
	dir, bodies := record(b, investigation()...)
	trajectory, err := recorder.ReadTrajectory(dir, recorder.DeriveOptions{Bodies: bodies}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := recorder.SaveCalls(dir, &trajectory, bodies); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := recorder.LoadCalls(dir); err != nil {
			b.Fatal(err)
		}
	}
}
