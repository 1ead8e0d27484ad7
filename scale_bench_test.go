package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/recorder/runs"
)

// BenchmarkScoring scores a run of ten thousand episodes: those that the four scripted
// agents leave on the shipped cases, copied under other ids. It reports seconds per
// run and the peak of the heap.
func BenchmarkScoring(b *testing.B) {
	const episodes = 10_000
	bin := b.TempDir()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"kubecase", "kubectl"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			b.Fatal(err)
		}
	}
	root := b.TempDir()
	var folders []*runs.Folder
	for _, agent := range []string{"closer", "guesser", "backwards", "repeater"} {
		dir := filepath.Join(root, agent)
		kubecase(b, bin, "run", "shop-nodes", "shop-outage", "shop-quiet", "--agent", agent, "--out", dir, "--", "agents/"+agent+".sh")
		folder, err := runs.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		multiply(b, folder, episodes/4)
		folders = append(folders, folder)
	}
	var peak uint64
	for b.Loop() {
		s, err := scoreRuns(b.Context(), folders, false)
		if err != nil {
			b.Fatal(err)
		}
		if len(s.scores) < episodes {
			b.Fatalf("%d episodes were scored", len(s.scores))
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapSys)
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/run")
	b.ReportMetric(float64(peak>>20), "MiB-heap")
}

// multiply copies a run's episodes until it has as many as asked for.
func multiply(b *testing.B, folder *runs.Folder, n int) {
	b.Helper()
	all, err := folder.Episodes()
	if err != nil {
		b.Fatal(err)
	}
	for i := len(all); i < n; i++ {
		e := all[i%len(all)]
		from, err := folder.EpisodeDir(e.ID)
		if err != nil {
			b.Fatal(err)
		}
		old := e.ID
		e.ID, e.Attempt = fmt.Sprintf("%032x", i), i/len(all)+1
		to, err := folder.EpisodeDir(e.ID)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"calls.jsonl", runs.AnswerFile, judgementFile} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if os.IsNotExist(err) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), []byte(strings.ReplaceAll(string(text), old, e.ID)), fs.FileMode(0o600))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := folder.WriteEpisode(e); err != nil {
			b.Fatal(err)
		}
	}
}
