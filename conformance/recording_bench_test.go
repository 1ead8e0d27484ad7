package conformance

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// BenchmarkRecording measures what recording adds to a request over TLS. Requests of
// an episode that is recorded and of one that isn't take turns on one
// connection, so that both see the same machine. Reported are the medians in microseconds and
// what recording adds to it in percent.
func BenchmarkRecording(b *testing.B) {
	server := newRecordingServer(b, restored(b, kubeletCase))
	recorded := server.episode(b, "")
	bare, err := server.api.AddEpisode(apiserver.EpisodeOptions{Case: server.c, Clock: clock.Captured})
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.ca)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true, MaxIdleConnsPerHost: 1,
	}}
	for _, bench := range []struct{ name, path, accept string }{
		{"get", "/api/v1/namespaces/shop/pods/redis-0", "application/json"},
		{"list", "/api/v1/namespaces/shop/pods", "application/json"},
		{"table", "/api/v1/namespaces/shop/events", "application/json;as=Table;v=v1;g=meta.k8s.io"},
		{"log", "/api/v1/namespaces/shop/pods/cart-545f97c6f6-czgbc/log", "*/*"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			took := map[string][]time.Duration{}
			ask := func(e *apiserver.Episode) {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.url+e.Path()+bench.path, nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Accept", bench.accept)
				req.Header.Set("Authorization", "Bearer "+e.Token)
				began := time.Now()
				resp, err := client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				_, err = io.Copy(io.Discard, resp.Body)
				took[e.ID] = append(took[e.ID], time.Since(began))
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				_ = resp.Body.Close()
			}
			for range 20 {
				ask(bare)
				ask(recorded.Episode)
			}
			clear(took)
			for b.Loop() {
				ask(bare)
				ask(recorded.Episode)
			}
			median := func(e *apiserver.Episode) float64 {
				all := slices.Sorted(slices.Values(took[e.ID]))
				return float64(all[len(all)/2].Nanoseconds()) / 1000
			}
			with, without := median(recorded.Episode), median(bare)
			b.ReportMetric(without, "bare-p50-µs")
			b.ReportMetric(with, "recorded-p50-µs")
			b.ReportMetric(100*(with-without)/without, "added-%")
		})
	}
}
