package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The committed sample is for checkouts without the recordings. It is drawn
// from them by TestSample, run with KUBECASE_UPDATE_SAMPLE=1.
const (
	sampleExchanges = 3     // of each category
	sampleBytes     = 14000 // the largest exchange or transcript in the sample
)

// TestSample demands that the sample has every family of what is recorded, and
// draws it anew when asked to.
func TestSample(t *testing.T) {
	dir := recordings(t)
	if filepath.Base(dir) == "testdata" {
		t.Skip("the recordings are not here")
	}
	if os.Getenv("KUBECASE_UPDATE_SAMPLE") != "" {
		drawSample(t, dir)
	}
	categories := map[string]bool{}
	for _, e := range loadExchanges(t, "testdata") {
		categories[e.Category] = true
	}
	for _, e := range loadExchanges(t, dir) {
		if !categories[e.Category] {
			t.Errorf("no exchange of category %s in the sample", e.Category)
			categories[e.Category] = true
		}
	}
	verbs := map[string]bool{}
	for _, tr := range loadTranscripts(t, "testdata") {
		verbs[tr.Args[0]] = true
	}
	for _, tr := range loadTranscripts(t, dir) {
		if !verbs[tr.Args[0]] {
			t.Errorf("no transcript of kubectl %s in the sample", tr.Args[0])
			verbs[tr.Args[0]] = true
		}
	}
}

func drawSample(t *testing.T, dir string) {
	if err := os.RemoveAll("testdata"); err != nil {
		t.Fatal(err)
	}
	write := func(data []byte, elements ...string) {
		name := filepath.Join(append([]string{"testdata"}, elements...)...)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	byCategory := map[string][]*Exchange{}
	for _, e := range loadExchanges(t, dir) {
		if len(e.Body) <= sampleBytes {
			byCategory[e.Category] = append(byCategory[e.Category], e)
		}
	}
	for _, all := range byCategory {
		for _, e := range spread(all, sampleExchanges) {
			name, err := filepath.Glob(filepath.Join(dir, "http", e.ID+"-*.json"))
			if err != nil || len(name) != 1 {
				t.Fatal(name, err)
			}
			data, err := os.ReadFile(name[0])
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(data, &value); err != nil {
				t.Fatal(err)
			}
			write([]byte(render(value)+"\n"), "http", filepath.Base(name[0]))
		}
	}
	// One transcript for each verb and user with 1.34, one for each verb with
	// 1.32; the largest that fits, for the more it prints the more it proves.
	best := map[string]*Transcript{}
	for _, tr := range loadTranscripts(t, dir) {
		key := tr.Version + " " + tr.Family
		if tr.Version == "1.32" {
			key = tr.Version + " " + tr.Args[0]
		} else if tr.As == "nobody" && tr.Args[0] != "get" && tr.Args[0] != "auth" {
			continue // nobody may do anything: all of them read alike
		}
		size := len(tr.Stdout) + len(tr.Stderr)
		if old := best[key]; size <= sampleBytes && (old == nil || size > len(old.Stdout)+len(old.Stderr)) {
			best[key] = tr
		}
	}
	manifests := map[string]bool{}
	for _, tr := range best {
		version, folder, _ := strings.Cut(tr.ID, "/")
		for _, name := range []string{"cmd.txt", "stdout", "stderr", "exit_code"} {
			data, err := os.ReadFile(filepath.Join(dir, "kubectl-"+version, folder, name))
			if os.IsNotExist(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			write(data, "kubectl-"+version, folder, name)
		}
		for _, arg := range tr.Args {
			if strings.HasSuffix(arg, ".yaml") {
				manifests[arg] = true
			}
		}
	}
	for name := range manifests {
		data, err := os.ReadFile(filepath.Join(dir, "manifests", name))
		if err != nil {
			t.Fatal(err)
		}
		write(data, "manifests", name)
	}
}

// spread picks count items of a list at equal distances.
func spread(all []*Exchange, count int) []*Exchange {
	var picked []*Exchange
	for i := range min(count, len(all)) {
		picked = append(picked, all[i*len(all)/min(count, len(all))])
	}
	return slices.Compact(picked)
}
