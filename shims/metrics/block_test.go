package metrics_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/shims/metrics"
)

// block makes a block of Prometheus' TSDB of OpenMetrics text, with Prometheus' own tool.
func block(t *testing.T, text string) map[string]string {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool isn't installed: install prometheus to run this")
	}
	dir := t.TempDir()
	input := filepath.Join(dir, "samples.txt")
	if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", input, filepath.Join(dir, "data")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	documents := map[string]string{}
	root := os.DirFS(filepath.Join(dir, "data"))
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(name, "/") {
			return err
		}
		data, err := fs.ReadFile(root, name)
		documents["metrics/blocks/"+name] = string(data)
		return err
	})
	if err != nil || len(documents) < 3 {
		t.Fatalf("%d files: %v", len(documents), err)
	}
	return documents
}

// TestBlocks: samples in a block of the TSDB give the same answers as the same samples
// in text.
func TestBlocks(t *testing.T) {
	files := block(t, samples)
	shim := metrics.New(metrics.Options{})
	k := clock.New(clock.Captured, captured, captured)
	text := shim.Handler(newCase(t, map[string]string{"metrics/a.txt": samples}), k)
	blocks := shim.Handler(newCase(t, files), k)
	for path, form := range map[string]url.Values{
		"query":       {"query": {`{__name__=~".+"}[10m]`}},
		"query_range": {"query": {`http_requests_total`}, "start": {"1796084200"}, "end": {"1796084304"}, "step": {"13"}},
		"series":      {"match[]": {`{pod="a"}`}},
		"labels":      nil,
	} {
		code, want := ask(t, text, http.MethodGet, "/api/v1/"+path, form)
		got, body := ask(t, blocks, http.MethodGet, "/api/v1/"+path, form)
		if code != 200 || got != code || body != want {
			t.Errorf("%s: %d %s\nwant %d %s", path, got, body, code, want)
		}
	}
}

// TestDamagedBlocks: a block that was changed is read or refused, with its name.
func TestDamagedBlocks(t *testing.T) {
	files := block(t, samples)
	refused := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "meta.json") {
			continue
		}
		for at := 0; at < len(files[name]); at += max(1, len(files[name])/40) {
			damaged := maps.Clone(files)
			data := []byte(files[name])
			data[at] ^= 0x55
			damaged[name] = string(data)
			h := metrics.New(metrics.Options{}).Handler(newCase(t, damaged), clock.New(clock.Captured, captured, captured))
			code, body := ask(t, h, http.MethodGet, "/api/v1/query", url.Values{"query": {`{__name__=~".+"}[10m]`}})
			switch {
			case code == 200:
			case code == 500 && strings.Contains(body, "metrics/blocks/"):
				refused++
			default:
				t.Errorf("%s with another byte at %d: %d %s", name, at, code, body)
			}
		}
		cut := maps.Clone(files)
		cut[name] = files[name][:len(files[name])/2]
		h := metrics.New(metrics.Options{}).Handler(newCase(t, cut), clock.New(clock.Captured, captured, captured))
		if code, body := ask(t, h, http.MethodGet, "/api/v1/query", url.Values{"query": {"up"}}); code != 500 && !strings.HasSuffix(name, "tombstones") {
			t.Errorf("%s cut in half: %d %s", name, code, body)
		}
	}
	if refused < 10 {
		t.Errorf("only %d changed blocks were refused", refused)
	}
	t.Log(fmt.Sprint(refused, " changed blocks were refused"))
}
