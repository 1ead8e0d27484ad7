package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// stormClients ask for heavy ranges all the time.
const stormClients = 64

// BenchmarkGetDuringStorm is what a GET of a node and a list of pods take at the 99th percentile, in
// ms, when nobody else asks and while 64 clients ask the same process for heavy ranges of metrics.
func BenchmarkGetDuringStorm(b *testing.B) {
	// The client's own collector, which would run every 27 ms, isn't what is measured.
	defer debug.SetGCPercent(debug.SetGCPercent(2000))
	s := startKubecase(b, "shop-evening")
	var end struct{ quiet, storm map[string]time.Duration }
	measure := func(b *testing.B) map[string]time.Duration {
		out := map[string]time.Duration{}
		for name, path := range map[string]string{"get": "/api/v1/nodes/node-1", "list": "/api/v1/namespaces/shop/pods"} {
			var took []time.Duration
			for range 10_000 {
				began := time.Now()
				s.get(b, path, "application/json")
				took = append(took, time.Since(began))
			}
			out[name] = percentile(took, 99)
		}
		return out
	}
	for b.Loop() {
		end.quiet = measure(b)
		done := make(chan struct{})
		var storm sync.WaitGroup
		var answered, failed sync.Map
		for i := range stormClients {
			storm.Go(func() {
				client := newClient()
				defer client.CloseIdleConnections()
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					if err := heavyRange(client, s, i); err != nil {
						failed.Store(err.Error(), true)
						continue
					}
					answered.Store([2]int{i, n}, true)
				}
			})
		}
		end.storm = measure(b)
		close(done)
		storm.Wait()
		count := 0
		answered.Range(func(any, any) bool { count++; return true })
		failed.Range(func(err, _ any) bool { b.Error(err); return true })
		if count == 0 {
			b.Error("no query was answered: there was no storm")
		}
		b.ReportMetric(float64(count), "queries")
	}
	for name, quiet := range end.quiet {
		b.ReportMetric(milliseconds(quiet), name+"-p99-ms")
		b.ReportMetric(milliseconds(end.storm[name]), name+"-storm-p99-ms")
	}
}

// heavyRange asks for sums of everything, each client at steps of its own.
func heavyRange(client *http.Client, s *comparedServer, i int) error {
	now := time.Now()
	form := url.Values{
		"query": {`sum by (instance) (last_over_time({__name__=~".+"}[5m])) + on (instance) sum by (instance) (last_over_time({__name__=~".+_total"}[10m]))`},
		"start": {fmt.Sprint(now.Add(-55 * time.Minute).Unix())}, "end": {fmt.Sprint(now.Unix())}, "step": {fmt.Sprint(15 + i%5)},
	}
	req, err := http.NewRequest(http.MethodPost, s.url+"/prometheus/api/v1/query_range", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", answer.Status, body)
	}
	return err
}
