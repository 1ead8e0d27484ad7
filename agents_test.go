package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/evaluator"
)

// TestScriptedAgents runs the four scripted agents over all shipped cases. What
// each gets follows from the definitions in docs/metrics.md:
//
//   - in shop-evening the list of pods shows the restarts; the description shows them too,
//     and how the last run ended, and the limit. Backwards, the log comes before all that
//     it depends on, and the list has nothing left to show: one of three looks counts.
//   - shop-nodes has five groups in two branches, and the closer's five looks establish
//     one each, in order. Backwards, all are established but only the symptom, which
//     comes last, is grounded. The repeater looks fifteen times, ten of them in vain.
//   - in shop-outage the list of pods shows the symptom, the restarts and that payments
//     serves; the description shows the cause, and all but payments again.
//   - shop-quiet has four groups; workloads come before answers and checkout.
func TestScriptedAgents(t *testing.T) {
	// case, then JRA, MC, EOC, ECR, EE, Steps, RAR
	want := map[string][]string{
		"closer": {
			"shop-evening 1 1 1 1 1 3 0",
			"shop-nodes 1 1 1 1 1 5 0",
			"shop-outage 1 1 1 1 1 2 0",
			"shop-quiet 1 1 1 1 1 4 0",
		},
		"guesser": {
			"shop-evening 1 0 0 0 0 0 0",
			"shop-nodes 1 0 0 0 0 0 0",
			"shop-outage 1 0 0 0 0 0 0",
			"shop-quiet 1 0 0 0 0 0 0",
		},
		"backwards": {
			"shop-evening 1 1 0.75 1 0.3333 3 0",
			"shop-nodes 1 1 0.2 1 0.2 5 0",
			"shop-outage 1 1 1 1 1 2 0",
			"shop-quiet 1 1 0.5 1 0.5 4 0",
		},
		"repeater": {
			"shop-evening 1 1 1 1 0.3333 9 0.6667",
			"shop-nodes 1 1 1 1 0.3333 15 0.6667",
			"shop-outage 1 1 1 1 0.3333 6 0.6667",
			"shop-quiet 1 1 1 1 0.3333 12 0.6667",
		},
	}
	bin := programs(t)
	out := t.TempDir()
	var dirs []string
	for agent, expected := range want {
		dir := filepath.Join(out, agent)
		dirs = append(dirs, dir)
		kubecase(t, bin, "run", "shop-evening", "shop-nodes", "shop-outage", "shop-quiet", "--parallel", "2", "--agent", agent, "--out", dir, "-o", "json", "--", "agents/"+agent+".sh")
		document := struct{ Episodes []*evaluator.Score }{}
		text := kubecase(t, bin, "score", dir, "-o", "json")
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range document.Episodes {
			line := s.Case
			for _, m := range []evaluator.Metric{evaluator.JRA, evaluator.MC, evaluator.EOC, evaluator.ECR, evaluator.EE, evaluator.Steps, evaluator.RAR} {
				line += fmt.Sprintf(" %.4g", s.Marks[m].Value)
			}
			got = append(got, line)
			mitigated := s.Marks[evaluator.MitigationAccuracy]
			if (s.Case == "shop-nodes" || s.Case == "shop-evening") && (!mitigated.Scored() || mitigated.Value != 1) {
				t.Errorf("%s: the proposed repair of %s is marked %+v, want 1", agent, s.Case, mitigated)
			}
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", agent, diff)
		}
		if again := kubecase(t, bin, "score", dir, "-o", "json"); !bytes.Equal(text, again) {
			t.Errorf("%s: scoring again gives other bytes", agent)
		}
	}
	if text := string(kubecase(t, bin, append([]string{"score", "-o", "csv"}, dirs...)...)); strings.Count(text, "\n") != 17 {
		t.Errorf("CSV of all runs has not a header and sixteen episodes:\n%s", text)
	}
}

// kubecase runs the program and returns what it printed.
func kubecase(t testing.TB, bin string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(bin, "kubecase"), args...)
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubecase %s: %v\n%s%s", strings.Join(args, " "), err, stderr.String(), out)
	}
	return out
}
