package conformance

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/shims/tools"
)

// TestPublicToolAnswers holds what the diagnostic tools answer from an imported case to what the
// data set's own tools answered, for every answer but those of kubectl get and describe.
func TestPublicToolAnswers(t *testing.T) {
	dir := filepath.Join(publicCases, "benchmark")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("%v: the public data set isn't there", err)
	}
	compared, different := map[string]int{}, map[string]int{}
	for source, c := range publicImports(t) {
		defer c.Close()
		captured := c.Manifest().Capture.Time.Time
		server := tools.New(tools.Options{Case: c, Clock: clock.New(clock.Captured, captured, captured), Kubectl: func(context.Context, ...string) (tools.Printed, error) {
			return tools.Printed{}, errors.New("none of these is kubectl's")
		}})
		for key, answer := range toolCache(t, filepath.Join(dir, source)) {
			name, raw, _ := strings.Cut(key, ":")
			tool := tools.Find(name)
			var arguments map[string]any
			if tool == nil || slices.Contains([]string{"T1", "T2"}, tool.Number) || raw == "" || json.Unmarshal([]byte(raw), &arguments) != nil {
				continue // kubectl's, or a key that names no call
			}
			compared[name]++
			want := ""
			if json.Unmarshal(answer, &want) != nil {
				want = string(answer)
			}
			got, err := server.Call(t.Context(), tool, arguments)
			if err == nil && sameAnswer(want, got) {
				continue
			}
			if different[name]++; different[name] <= 3 {
				t.Logf("%s: %s\n%q, %v\nwant\n%q", source, key, got, err, want)
			}
		}
	}
	for _, name := range slices.Sorted(keysOf(compared)) {
		t.Logf("%s: %d of %d", name, compared[name]-different[name], compared[name])
		if different[name] > 0 {
			t.Errorf("%s: %d of %d answers differ", name, different[name], compared[name])
		}
	}
	if len(compared) == 0 {
		t.Error("no answer was compared")
	}
}

func keysOf(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// sameAnswer compares texts but for white space at their end, and JSON by value.
func sameAnswer(want, got string) bool {
	if strings.TrimRight(want, " \n") == strings.TrimRight(got, " \n") {
		return true
	}
	var a, b any
	return json.Unmarshal([]byte(want), &a) == nil && json.Unmarshal([]byte(got), &b) == nil && fmt.Sprint(a) == fmt.Sprint(b)
}

// toolCache reads the answers of a case of the data set, packed or not.
func toolCache(t *testing.T, dir string) map[string]json.RawMessage {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "tool_cache.json"))
	var r io.Reader = f
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = os.Open(filepath.Join(dir, "tool_cache.json.gz")); err == nil {
			r, err = gzip.NewReader(f)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out map[string]json.RawMessage
	if err := json.NewDecoder(r).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
