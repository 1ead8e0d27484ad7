package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/shims/metrics"
)

// heavy is a query over all of manySamples.
const heavy = `sum by (pod) (rate(load{namespace=~".+"}[5m])) / on() group_left() sum(quantile_over_time(0.9, load[10m]))`

// manySamples are 400 series of an hour, every 15 s: 96,000 samples.
func manySamples() string {
	var b strings.Builder
	end := captured.Unix()
	b.WriteString("# TYPE load counter\n")
	for s := range 400 {
		for i := range 240 {
			fmt.Fprintf(&b, "load_total{namespace=\"n%d\",pod=\"p%d\"} %d %d\n", s%7, s, i*s, end-int64(15*(239-i)))
		}
	}
	b.WriteString("# EOF\n")
	return strings.ReplaceAll(b.String(), "load_total", "load")
}

// heavyForm asks for heavy every step seconds.
func heavyForm(step int) url.Values {
	end := captured.Unix()
	return url.Values{"query": {heavy}, "start": {fmt.Sprint(end - 3000)}, "end": {fmt.Sprint(end)}, "step": {fmt.Sprint(step)}}
}

// TestQueryStorm lets 64 clients ask for heavy ranges at once: all are answered, memory
// stays bounded, and the answers are the same.
func TestQueryStorm(t *testing.T) {
	c := newCase(t, map[string]string{"metrics/load.txt": manySamples()})
	h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Captured, captured, captured))
	code, want := ask(t, h, http.MethodGet, "/api/v1/query_range", heavyForm(100))
	if code != 200 || len(want) < 10_000 {
		t.Fatalf("%d %.200s", code, want)
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	done := make(chan struct{})
	var watching, clients sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak.Store(max(peak.Load(), now.HeapAlloc))
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	for range 64 {
		clients.Go(func() {
			if code, body := ask(t, h, http.MethodGet, "/api/v1/query_range", heavyForm(100)); code != 200 || body != want {
				t.Errorf("%d, %d bytes instead of %d: %.200s", code, len(body), len(want), body)
			}
		})
	}
	clients.Wait()
	close(done)
	watching.Wait()
	// One query holds 80 MB at most; answers of 64 clients wait in their recorders.
	grown := int64(peak.Load()-before.HeapAlloc) >> 20
	t.Logf("the heap grew by %d MiB at most, an answer has %d KiB", grown, len(want)>>10)
	if grown > 512 {
		t.Errorf("the heap grew by %d MiB", grown)
	}
}

// BenchmarkQuery is an instant query of one series of many.
func BenchmarkQuery(b *testing.B) {
	c := newCase(b, map[string]string{"metrics/load.txt": manySamples()})
	h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Captured, captured, captured))
	form := url.Values{"query": {`rate(load{pod="p7"}[5m])`}}
	for b.Loop() {
		if code, body := ask(b, h, http.MethodGet, "/api/v1/query", form); code != 200 {
			b.Fatal(body)
		}
	}
}

// BenchmarkRange is a heavy range query.
func BenchmarkRange(b *testing.B) {
	c := newCase(b, map[string]string{"metrics/load.txt": manySamples()})
	h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Captured, captured, captured))
	for b.Loop() {
		if code, body := ask(b, h, http.MethodGet, "/api/v1/query_range", heavyForm(15)); code != 200 {
			b.Fatal(body)
		}
	}
}

// BenchmarkLoad reads a case's samples: 96,000 of them.
func BenchmarkLoad(b *testing.B) {
	c := newCase(b, map[string]string{"metrics/load.txt": manySamples()})
	for b.Loop() {
		h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Captured, captured, captured))
		if code, body := ask(b, h, http.MethodGet, "/api/v1/labels", nil); code != 200 {
			b.Fatal(body)
		}
	}
}

// BenchmarkOthersDuringStorm is what another handler's answers take, at the 99th
// percentile, while 64 clients ask for heavy ranges, and when nobody does.
func BenchmarkOthersDuringStorm(b *testing.B) {
	c := newCase(b, map[string]string{"metrics/load.txt": manySamples()})
	h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Captured, captured, captured))
	text := []byte(strings.Repeat("a pod of a list\n", 4096))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	b.Cleanup(server.Close)
	for _, clients := range []int{0, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			done := make(chan struct{})
			var storm sync.WaitGroup
			for range clients {
				storm.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							ask(b, h, http.MethodGet, "/api/v1/query_range", heavyForm(15))
						}
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				answer, err := http.Get(server.URL)
				if err != nil {
					b.Fatal(err)
				}
				_ = answer.Body.Close()
				took = append(took, time.Since(begin))
			}
			close(done)
			storm.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
