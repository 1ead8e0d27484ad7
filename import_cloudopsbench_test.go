package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/fixtures/fidelity"
)

const (
	// cloudOpsBenchSample is in the data set's layout; kubectl 1.31 printed it of a shipped case.
	cloudOpsBenchSample = "testdata/cloud-opsbench"
	// publicCloudOpsBench is where some cases of the data set itself may lie.
	publicCloudOpsBench = "../shared/cloud-opsbench/cases"
)

// runKubecase runs a command line in this process.
func runKubecase(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{args: args, in: strings.NewReader(""), out: &stdout, err: &stderr, tempDir: t.TempDir(), environ: os.Environ(), lookup: func(string) (string, bool) { return "", false }}
	code = a.run(t.Context())
	return code, stdout.String(), stderr.String()
}

func TestImportCloudOpsBench(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := runKubecase(t, "import", "cloud-opsbench", cloudOpsBenchSample, dir)
	if code != exitFailure || !strings.Contains(out, "not imported: ") || !strings.Contains(errs, "1 of 2 cases were not imported") {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
	made, err := filepath.Glob(filepath.Join(dir, "cob-*"))
	if err != nil || len(made) != 1 {
		t.Fatalf("made %v, %v", made, err)
	}
	// the name is taken
	if code, out, _ := runKubecase(t, "import", "cloud-opsbench", cloudOpsBenchSample+"/benchmark/shop/1", dir); code != exitFailure || !strings.Contains(out, "is there already") {
		t.Errorf("code %d\n%s", code, out)
	}
	if code, _, errs := runKubecase(t, "import", "cloud-opsbench", dir, t.TempDir()); code != exitFailure || !strings.Contains(errs, "holds no case of Cloud-OpsBench") {
		t.Errorf("code %d: %s", code, errs)
	}
	if code, _, errs := runKubecase(t, "import", "cloud-opsbench", dir); code != exitUsage {
		t.Errorf("code %d: %s", code, errs)
	}
}

// TestImportedTruth reads the truth of imported cases as scoring does.
func TestImportedTruth(t *testing.T) {
	sources := []string{cloudOpsBenchSample + "/benchmark/shop/1"}
	if _, err := os.Stat(publicCloudOpsBench); err == nil {
		sources = append(sources, publicCloudOpsBench)
	} else {
		t.Log("the public cases are not beside the checkout: only the sample is read")
	}
	for _, source := range sources {
		dir := t.TempDir()
		if code, out, errs := runKubecase(t, "import", "cloud-opsbench", source, dir); code != exitOK {
			t.Fatalf("code %d\n%s\n%s", code, out, errs)
		}
		made, err := filepath.Glob(filepath.Join(dir, "cob-*", truthFile))
		if err != nil || len(made) == 0 {
			t.Fatalf("made %v, %v", made, err)
		}
		for _, name := range made {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			truth, err := evaluator.ParseTruth(truthFile, data)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, data)
				continue
			}
			if truth.Graph == nil || truth.Graph.Source != evaluator.Derived {
				t.Errorf("%s: the graph isn't marked as derived", name)
			}
			// The case itself must answer each clause, with kubectl or with the tool.
			if code, out, errs := runKubecase(t, "validate", filepath.Dir(name)); code != exitOK {
				t.Errorf("code %d\n%s\n%s", code, out, errs)
			}
		}
	}
}

// TestFidelity runs the sample's commands with the kubectl that is built in, which is
// newer than the one that printed the sample: it words probes and projected volumes
// otherwise, and leaves out kube-proxy's version, tokens and endpoints that aren't ready.
func TestFidelity(t *testing.T) {
	dir, bin := t.TempDir(), programs(t)
	if code, out, errs := runKubecase(t, "import", "cloud-opsbench", cloudOpsBenchSample+"/benchmark/shop/1", dir); code != exitOK {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	made, _ := filepath.Glob(filepath.Join(dir, "cob-*"))
	report := measured(t, made[0], filepath.Join(bin, "kubectl"))
	for _, o := range report.Different {
		newer := o.Verb() == "describe" && (strings.Contains(o.Stdout, "successThreshold") || strings.Contains(o.Stdout, "Optional: ") ||
			slices.Contains([]string{"nodes", "services", "serviceaccounts"}, o.Kind()))
		// the sample's list of events lost all but its last lines
		if !newer && o.Kind() != "events" {
			t.Errorf("%s differs:\n%s", o.Line, fidelity.Diff(o.Command, o.Stdout, o.Stderr))
		}
	}
	for _, total := range report.Totals {
		if total.Commands == 0 || total.Verb == "yaml" && total.Exact != total.Commands || total.Verb == "get" && total.Exact < total.Commands-1 {
			t.Errorf("got %+v", total)
		}
	}
}

// measured is the report of a case with a kubectl.
func measured(t *testing.T, name, kubectl string) *fidelity.Report {
	t.Helper()
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, tempDir: t.TempDir(), lookup: func(string) (string, bool) { return "", false }}
	a.newRoot()
	a.config.Set("kubectl", kubectl)
	report, err := a.measureFidelity(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// transcriptSize is the size of a case's transcripts, in bytes.
func transcriptSize(t *testing.T, name string) (size int64) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(name, "transcripts", "*"))
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// TestPublicFidelity holds the public cases to what is asked of them, with a kubectl
// of the version that they were captured with.
func TestPublicFidelity(t *testing.T) {
	if testing.Short() {
		t.Skip("runs kubectl thousands of times: not with -short")
	}
	if _, err := os.Stat(publicCloudOpsBench); err != nil {
		t.Skip("the public cases are not beside the checkout, in " + publicCloudOpsBench)
	}
	kubectl := ""
	for _, name := range []string{os.Getenv("KUBECASE_KUBECTL_1_31"), "kubectl.1.31", "kubectl"} {
		if path, err := exec.LookPath(name); err == nil && strings.HasPrefix(clientVersion(context.Background(), path), "v1.31.") {
			kubectl = path
			break
		}
	}
	if kubectl == "" {
		t.Skip("no kubectl 1.31 was found: name one in KUBECASE_KUBECTL_1_31, or have kubectl.1.31 in PATH")
	}
	dir := t.TempDir()
	if code, out, errs := runKubecase(t, "import", "cloud-opsbench", publicCloudOpsBench, dir); code != exitOK {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	made, _ := filepath.Glob(filepath.Join(dir, "cob-*"))
	if os.Getenv("KUBECASE_ALL_COMMANDS") == "" {
		t.Logf("a small and a big one of %d cases; KUBECASE_ALL_COMMANDS=1 runs all, in some eight minutes", len(made))
		slices.SortFunc(made, func(a, b string) int { return cmp.Compare(transcriptSize(t, a), transcriptSize(t, b)) })
		made = []string{made[0], made[len(made)-1]}
	}
	sums := map[string]*fidelity.Row{}
	for _, name := range made {
		for _, total := range measured(t, name, kubectl).Totals {
			if sums[total.Verb] == nil {
				sums[total.Verb] = &fidelity.Row{Within: make([]int, len(fidelity.Tolerances))}
			}
			sums[total.Verb].Commands += total.Commands
			sums[total.Verb].Exact += total.Exact
			sums[total.Verb].Within[0] += total.Within[0]
		}
	}
	for verb, least := range map[string]struct{ exact, equal float64 }{"get": {0.97, 0.99}, "describe": {0, 0.97}, "yaml": {1, 1}} {
		s := sums[verb]
		if s == nil {
			t.Errorf("%s: no command", verb)
			continue
		}
		exact, equal := float64(s.Exact)/float64(s.Commands), float64(s.Within[0])/float64(s.Commands)
		t.Logf("%s: %d commands, exact %.2f %%, equal but for ages that print alike %.2f %%", verb, s.Commands, 100*exact, 100*equal)
		if exact < least.exact || equal < least.equal {
			t.Errorf("%s: less than %v", verb, least)
		}
	}
}
