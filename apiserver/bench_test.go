package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures/cases"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// requests are what the benchmarks ask for.
var requests = []struct{ name, path, accept string }{
	{"GET_node", "/api/v1/nodes/node-1", "application/json"},
	{"LIST_events_JSON", "/api/v1/namespaces/shop/events", "application/json"},
	{"LIST_events_Table", "/api/v1/namespaces/shop/events", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
	{"LIST_events_protobuf", "/api/v1/namespaces/shop/events", "application/vnd.kubernetes.protobuf"},
	{"LIST_pods_JSON", "/api/v1/namespaces/shop/pods", "application/json"},
	{"LIST_pods_Table", "/api/v1/namespaces/shop/pods", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
	{"LIST_replicasets_JSON", "/apis/apps/v1/replicasets", "application/json"},
	{"LIST_replicasets_Table", "/apis/apps/v1/replicasets", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
	{"version", "/version", "application/json"},
	{"discovery", "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
}

// discard is a response that nobody reads.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

// BenchmarkAgain is a request that was made before in its episode, without the network.
func BenchmarkAgain(b *testing.B) {
	api, e := shopOutage(b)
	for _, r := range requests {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(ask(b, api, e, r.path, r.accept)))
			}
		})
	}
}

// BenchmarkFirst is a request that is new to its episode: nothing that was made
// for another one can be sent.
func BenchmarkFirst(b *testing.B) {
	c, err := cases.Open("shop-outage")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	api := apiserver.New(apiserver.Config{Done: b.Context().Done()})
	start := time.Now()
	for _, r := range requests {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				start = start.Add(time.Second) // every episode has an offset of its own
				e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c, Clock: clock.Shifted, Start: start})
				if err != nil {
					b.Fatal(err)
				}
				ask(b, api, e, r.path, r.accept)
			}
		})
	}
}

// BenchmarkServed is BenchmarkAgain over TLS with one client that keeps its
// connection; "bare" is a Go server that sends the same bytes and does nothing else.
func BenchmarkServed(b *testing.B) {
	api, e := shopOutage(b)
	real := httptest.NewTLSServer(api)
	defer real.Close()
	for _, r := range requests {
		body := fetch(b, real.Client(), real.URL+e.Path()+r.path, e.Token, r.accept)
		bare := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(body) //nolint:errcheck // the client notices
		}))
		for _, side := range []struct {
			name   string
			client *http.Client
			url    string
		}{{"kubecase", real.Client(), real.URL + e.Path() + r.path}, {"bare", bare.Client(), bare.URL + "/"}} {
			b.Run(r.name+"/"+side.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					fetch(b, side.client, side.url, e.Token, r.accept)
				}
			})
		}
		bare.Close()
	}
}

func shopOutage(b *testing.B) (*apiserver.Server, *apiserver.Episode) {
	b.Helper()
	c, err := cases.Open("shop-outage")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	api := apiserver.New(apiserver.Config{})
	e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c, Clock: clock.Shifted})
	if err != nil {
		b.Fatal(err)
	}
	return api, e
}

func ask(b *testing.B, api http.Handler, e *apiserver.Episode, path, accept string) int {
	req := httptest.NewRequest(http.MethodGet, e.Path()+path, nil)
	req.Header.Set("Authorization", "Bearer "+e.Token)
	req.Header.Set("Accept", accept)
	w := &discard{header: http.Header{}}
	api.ServeHTTP(w, req)
	if w.bytes == 0 {
		b.Fatal("no answer")
	}
	return w.bytes
}

func fetch(b *testing.B, client *http.Client, url, token, accept string) []byte {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity") // the client would spend its time on unpacking
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s: %v", url, resp.Status, err)
	}
	return data
}
