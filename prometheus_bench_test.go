package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// benchedAt is when the samples of BenchmarkPrometheus end.
var benchedAt = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

// benchedQueries are asked of both servers; a step makes one a range of fifty minutes.
var benchedQueries = []struct {
	name, query string
	step        int
}{
	{"instant", `rate(load{pod="p7"}[5m])`, 0},
	{"sum", `sum by (namespace) (rate(load[5m]))`, 0},
	{"range", `sum by (namespace) (rate(load[5m]))`, 60},
	{"heavy", `sum by (pod) (rate(load{namespace=~".+"}[5m])) / on() group_left() sum(quantile_over_time(0.9, load[10m]))`, 60},
}

// BenchmarkPrometheus compares the latency of queries with a Prometheus that has the same block:
// 400 series of an hour, every 15 s. Both are processes of their own on plain HTTP and take turns on
// kept connections; reported are medians and their ratio.
func BenchmarkPrometheus(b *testing.B) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		b.Skipf("%v: install prometheus to compare with it", err)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		b.Skipf("%v: install prometheus to compare with it", err)
	}
	dir := b.TempDir()
	var samples strings.Builder
	samples.WriteString("# TYPE load unknown\n")
	for s := range 400 {
		for i := range 240 {
			fmt.Fprintf(&samples, "load{namespace=\"n%d\",pod=\"p%d\"} %d %d\n", s%7, s, i*s, benchedAt.Unix()-int64(15*(239-i)))
		}
	}
	samples.WriteString("# EOF\n")
	text, data := filepath.Join(dir, "samples.txt"), filepath.Join(dir, "data")
	write := func(name, content string) {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write(text, samples.String())
	if out, err := exec.CommandContext(b.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", text, data).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	folder := filepath.Join(dir, "case")
	if err := os.CopyFS(filepath.Join(folder, "metrics", "blocks"), os.DirFS(data)); err != nil {
		b.Fatal(err)
	}
	write(filepath.Join(folder, "case.yaml"), "apiVersion: kubecase.io/v1\nkind: Case\nname: bench\ncapture: {time: "+benchedAt.Format(time.RFC3339)+"}\n")
	write(filepath.Join(dir, "prometheus.yml"), "")
	port := freePort(b)
	run(b, dir, prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:"+port)
	theirs := "http://127.0.0.1:" + port
	await(b, http.DefaultClient, theirs+"/-/ready", "")
	ours := serveMetrics(b, folder)
	clients := map[string]*http.Client{theirs: {Transport: &http.Transport{}}, ours: {Transport: &http.Transport{}}}
	for _, q := range benchedQueries {
		took := map[string][]time.Duration{}
		b.Run(q.name, func(b *testing.B) {
			clear(took)
			order := []string{theirs, ours}
			for n := 0; b.Loop(); n++ {
				for i := range order {
					server := order[(i+n)%2]
					began := time.Now()
					body := askMetrics(b, clients[server], server, q.query, q.step)
					took[server] = append(took[server], time.Since(began))
					if !strings.Contains(body, `"status":"success"`) || strings.Contains(body, `"result":[]`) {
						b.Fatalf("%s: %.300s", q.query, body)
					}
				}
			}
		})
		if len(took) == 0 {
			continue // it was not selected
		}
		a, k := percentile(took[theirs], 50), percentile(took[ours], 50)
		fmt.Printf("%-8s Prometheus %.3f ms, kubecase %.3f ms: %.2f\n", q.name, milliseconds(a), milliseconds(k), float64(k)/float64(a))
	}
}

// serveMetrics serves a case in a process of its own; it gives Prometheus' URL.
func serveMetrics(b *testing.B, folder string) string {
	b.Helper()
	services := serveProcess(b, folder, "--clock", "captured").Services
	for _, service := range services {
		if address, ok := strings.CutPrefix(service, "PROMETHEUS_URL="); ok {
			return address
		}
	}
	b.Fatalf("no Prometheus in %v", services)
	return ""
}

func askMetrics(b *testing.B, client *http.Client, server, query string, step int) string {
	b.Helper()
	form, path := url.Values{"query": {query}, "time": {fmt.Sprint(benchedAt.Unix())}}, "/api/v1/query?"
	if step > 0 {
		path = "/api/v1/query_range?"
		form = url.Values{"query": {query}, "start": {fmt.Sprint(benchedAt.Unix() - 3000)}, "end": {fmt.Sprint(benchedAt.Unix())}, "step": {fmt.Sprint(step)}}
	}
	answer, err := client.Get(server + path + form.Encode())
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return string(body)
}
