package conformance

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/metrics"
)

// maskMetrics hides what changes with every scrape: the moment, the window, the usage,
// and the resource's own moment, which metrics-server sets to the request's.
func maskMetrics(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			switch key {
			case "timestamp", "window", "creationTimestamp", "cpu", "memory":
				v[key] = "…"
			case "cells": // name, cpu, memory, window
				if cells := v[key].([]any); len(cells) == 4 {
					v[key] = []any{cells[0], "…", "…", "…"}
				}
			case "containers": // in no order
				containers := v[key].([]any)
				slices.SortFunc(containers, func(a, b any) int {
					return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
				})
				maskMetrics(containers)
			case "items", "rows":
				if list, ok := v[key].([]any); ok {
					v[key] = maskMetrics(slices.DeleteFunc(list, isCrashing))
				}
			case "fault": // a label that the shipped case leaves out: it names the fault
				delete(v, key)
			default:
				v[key] = maskMetrics(v[key])
			}
		}
	case []any:
		for i := range v {
			v[i] = maskMetrics(v[i])
		}
	}
	return value
}

// isCrashing reports the metrics of a pod whose container starts and dies: they come and
// go, and the case was captured at another moment.
func isCrashing(entry any) bool {
	of := entry.(map[string]any)
	if object, ok := of["object"].(map[string]any); ok {
		of = object
	}
	return strings.HasPrefix(of["metadata"].(map[string]any)["name"].(string), "orders-")
}

// TestResourceMetrics asks for metrics.k8s.io as the recorded clients did, and holds the
// answers to those of the real metrics-server, usage and moments apart.
func TestResourceMetrics(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(recordings(t), "kubelet", "http", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	server := startCase(t, clockCaptured, kubeletCase)
	compared := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		e := &kubeletExchange{}
		if err := json.Unmarshal(data, e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e.Category != "metrics" || strings.HasPrefix(e.ResponseHeaders["Content-Type"], "application/vnd.kubernetes.protobuf") {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			client, err := server.Subjects[e.As].client()
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			ours, err := replay(t.Context(), server, client, "", &e.Exchange)
			if err != nil {
				t.Fatal(err)
			}
			if ours.Status != e.Status {
				t.Fatalf("%s?%s: status %d instead of %d: %s", e.Path, e.Query, ours.Status, e.Status, ours.Body)
			}
			if got, want := ours.Header.Get("Content-Type"), e.ResponseHeaders["Content-Type"]; got != want {
				t.Errorf("content type %q instead of %q", got, want)
			}
			var recorded, got any
			if e.Body == "" || json.Unmarshal([]byte(e.Body), &recorded) != nil {
				t.Skip("the recorded body was cut")
			}
			if err := json.Unmarshal(ours.Body, &got); err != nil {
				t.Fatalf("%v: %s", err, ours.Body)
			}
			if diff := cmp.Diff(maskMetrics(recorded), maskMetrics(got)); diff != "" {
				t.Errorf("%s?%s (-recorded +ours):\n%s", e.Path, e.Query, diff)
			}
			compared++
		})
	}
	t.Logf("%d answers compared", compared)
	if compared < 15 {
		t.Errorf("only %d answers were compared", compared)
	}
}

// usage are the cells that change with every scrape, and what their widths change.
var usage = regexp.MustCompile(`\b\d+(m|Mi|%)|<unknown>| +|_+`)

// maskTop is what kubectl top printed, usage and the order by usage apart.
func maskTop(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "orders-") {
			continue // comes and goes, see isCrashing
		}
		out = append(out, strings.TrimSpace(usage.ReplaceAllStringFunc(line, func(s string) string {
			return strings.TrimLeft(s, "0123456789 _") + " "
		})))
	}
	slices.Sort(out)
	return out
}

// TestTop runs the recorded kubectl top commands, and compares what they print, usage apart.
func TestTop(t *testing.T) {
	b := newBench(t, startCase(t, clockCaptured, kubeletCase), "", recordings(t))
	compared := 0
	for _, tr := range kubeletTranscripts(t, "") {
		if tr.Args[0] != "top" || strings.HasPrefix(tr.ID, "w") {
			continue // w…: when debugging had made pods that the case doesn't have
		}
		ours, err := b.run(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(maskTop(tr.Stdout+tr.Stderr), maskTop(ours.Stdout+ours.Stderr)); diff != "" || ours.ExitCode != tr.ExitCode {
			t.Errorf("%s: kubectl %s: exit code %d, want %d (-recorded +ours):\n%s", tr.ID, strings.Join(tr.Args, " "), ours.ExitCode, tr.ExitCode, diff)
		}
		compared++
	}
	t.Logf("%d commands compared", compared)
	if compared < 15 {
		t.Errorf("only %d commands were compared", compared)
	}
}

// prometheusExchange is a question to the Prometheus of that cluster.
type prometheusExchange struct {
	ID, Path, Query, Body string
	Status                int
}

// otherTexts are errors that Prometheus words differently since the recorded version, 2.42.
var otherTexts = map[string]string{
	"no-query": `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": unknown position: parse error: no expression found in input"}`,
	"bad-time": `{"status":"error","errorType":"bad_data","error":"invalid parameter \"time\": invalid time value for 'time': cannot parse \"x\" to a valid timestamp"}`,
}

// derived are questions whose samples the recording doesn't have, only what was computed of them.
var derived = []string{"cpu", "downstream", "hist", "requests", "restarts", "oom"}

// TestPrometheusAnswers asks what a real Prometheus was asked, of the samples that its answers
// show, and expects the same JSON, byte for byte but for the order of series, which
// Prometheus leaves open.
func TestPrometheusAnswers(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(recordings(t), "kubelet", "prometheus", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Skip("no recordings of a Prometheus")
	}
	var exchanges []prometheusExchange
	documents := map[string]string{}
	var samples strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var e prometheusExchange
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		exchanges = append(exchanges, e)
		switch id, _, _ := strings.Cut(filepath.Base(name), "."); id {
		case "alerts", "rules", "targets", "metadata", "buildinfo":
			documents["metrics/api/"+id+".json"] = e.Body
		case "range-up", "range-memory":
			writeSamples(t, &samples, e.Body)
		case "series":
			var answer struct{ Data []map[string]string }
			if err := json.Unmarshal([]byte(e.Body), &answer); err != nil {
				t.Fatal(err)
			}
			for _, l := range answer.Data {
				writeSample(&samples, l, "0", 1796086679)
			}
		}
	}
	samples.WriteString("# EOF\n")
	documents["metrics/samples.txt"] = samples.String()
	captured := time.Unix(1796086679, 0).UTC()
	c := fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, documents)
	h := metrics.New(metrics.Options{}).Handler(c, clock.New(clock.Captured, captured, captured))
	compared := 0
	for _, e := range exchanges {
		if e.ID == "labels" || e.ID == "label-values" || slices.ContainsFunc(derived, func(d string) bool { return strings.HasSuffix(e.ID, "-"+d) }) {
			continue // of all series, or of samples that weren't recorded
		}
		query, err := url.ParseQuery(e.Query)
		if err != nil {
			t.Fatal(err)
		}
		if _, of, _ := strings.Cut(e.ID, "-"); of == "up" || of == "memory" {
			query.Set("lookback_delta", "1") // the recorded points are no samples that stand for five minutes
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, e.Path+"?"+query.Encode(), nil))
		want := e.Body
		if text := otherTexts[e.ID]; text != "" {
			want = text
		}
		if answer.Code != e.Status {
			t.Errorf("%s: status %d instead of %d: %s", e.ID, answer.Code, e.Status, answer.Body)
		}
		if diff := cmp.Diff(ordered(want), ordered(answer.Body.String())); diff != "" {
			t.Errorf("%s (-recorded +ours):\n%s", e.ID, diff)
		}
		compared++
	}
	t.Logf("%d answers compared", compared)
	if compared < 15 {
		t.Errorf("only %d answers were compared", compared)
	}
}

// ordered is a text with its series, which are objects in a list, in an order of their own.
func ordered(text string) []string {
	parts := strings.Split(strings.NewReplacer("[{", "\x00{", "},{", "}\x00{", "}]", "}\x00").Replace(text), "\x00")
	slices.Sort(parts)
	return parts
}

func writeSamples(t *testing.T, out *strings.Builder, body string) {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	for _, series := range answer.Data.Result {
		for _, v := range series.Values {
			writeSample(out, series.Metric, v[1].(string), v[0].(float64))
		}
	}
}

func writeSample(out *strings.Builder, labels map[string]string, value string, at float64) {
	out.WriteString(labels["__name__"] + "{")
	for name, value := range labels {
		if name != "__name__" {
			out.WriteString(name + "=" + strconv.Quote(value) + ",")
		}
	}
	out.WriteString("} " + value + " " + strconv.FormatFloat(at, 'f', -1, 64) + "\n")
}
