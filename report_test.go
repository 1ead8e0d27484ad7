package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestScoreHTML: the page of two real runs tells what each agent found and missed, and the
// same runs give the same bytes.
func TestScoreHTML(t *testing.T) {
	bin := programs(t)
	dir := t.TempDir()
	var folders []string
	for _, agent := range []string{"closer", "guesser"} {
		folder := filepath.Join(dir, agent)
		kubecase(t, bin, "run", "shop-nodes", "--agent", agent, "--out", folder, "--", "agents/"+agent+".sh")
		folders = append(folders, folder)
	}
	file := filepath.Join(dir, "report.html")
	kubecase(t, bin, append([]string{"score", "--html", file}, folders...)...)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the page tells the truth and is readable by others: %v, %v", info.Mode(), err)
	}
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string]int{}
	for d := range root.Descendants() {
		for _, a := range d.Attr {
			if a.Key == "class" {
				for _, c := range strings.Fields(a.Val) {
					classes[c]++
				}
			}
		}
	}
	// Two episodes of a graph with five groups: one closes it, one looks at nothing.
	for class, want := range map[string]int{"kc-episode": 2, "kc-group": 10, "kc-missing-list": 1, "kc-point": 2} {
		if classes[class] != want {
			t.Errorf("there are %d of %s, not %d", classes[class], class, want)
		}
	}
	for _, want := range []string{"ServiceEnvVarAddressMismatch", "The cart can&#39;t reach pricing at port 8088.", "call 1: kubectl "} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	again := filepath.Join(dir, "again.html")
	kubecase(t, bin, append([]string{"score", "--html", again}, folders...)...)
	if other, err := os.ReadFile(again); err != nil || !bytes.Equal(page, other) {
		t.Errorf("the same runs give another page: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".report-*")); err != nil || len(left) > 0 {
		t.Errorf("files were left behind: %v, %v", left, err)
	}
}
