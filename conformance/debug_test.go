package conformance

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/fixtures"
)

// attachRace are what kubectl printed of attaching to a container that had ended meanwhile; here
// it has ended before kubectl looks.
var attachRace = regexp.MustCompile(`(?m)^(All commands and output from this session|If you don't see a command prompt|warning: couldn't attach to pod/).*\n`)

// madeUp is what differs between two pods that were made alike: names, times, ids, and the events
// that the kubelet makes, which are no part of what kubectl creates.
var madeUp = []struct {
	expr *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\b(node-debugger-node-\d|kube-api-access)-[a-z0-9]{5}\b`), "$1-NAME"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000`), "TIME"},
	{regexp.MustCompile(`containerd://[0-9a-f]{64}`), "containerd://ID"},
	{regexp.MustCompile(`(?s)\nEvents:.*`), "\nEvents"},
}

func alike(text string) string {
	for _, m := range madeUp {
		text = m.expr.ReplaceAllString(text, m.by)
	}
	return text
}

// debugTranscripts are the recorded commands of a series, by the number that begins their names.
func debugTranscripts(t *testing.T, series string) map[string]*Transcript {
	t.Helper()
	out := map[string]*Transcript{}
	for _, tr := range kubeletTranscripts(t, series) {
		out[tr.ID[:4]] = tr
	}
	return out
}

// TestDebugNode runs the recorded commands that debugged nodes, and what was asked of
// their pods: the pods are described, listed and logged as those of the real cluster.
func TestDebugNode(t *testing.T) {
	made, asked := debugTranscripts(t, "y"), debugTranscripts(t, "w")
	// What y004 printed is what the command printed on the node.
	b := newBench(t, commandsServer(t, map[string][]fixtures.CommandRun{
		fixtures.NodeCommandsDocument("node-3"): {{Command: []string{"sh", "-c", "df -h / | tail -1; uptime"}, Stdout: made["y004"].Stdout}},
		fixtures.NodeCommandsDocument("node-1"): {{Command: []string{"sh", "-c", "hostname; ls /var/log; ls /var/log/pods | head -5; cat /etc/hostname; crictl ps 2>&1 | head -3"}, Stdout: "node-1\n"}},
	}), "", recordings(t))
	run := func(tr *Transcript) *run {
		t.Helper()
		ours, err := b.run(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		return ours
	}
	names := map[string]string{} // of our pods, by the recording that made theirs
	for _, id := range []string{"y001", "y003", "y004", "y005", "y013"} {
		tr := made[id]
		ours := run(tr)
		if want, got := alike(tr.Stdout), alike(ours.Stdout); want != got {
			t.Errorf("%s: stdout (-recorded +ours)\n%s", tr.ID, cmp.Diff(want, got))
		}
		if want, got := attachRace.ReplaceAllString(tr.Stderr, ""), ours.Stderr; want != got {
			t.Errorf("%s: stderr (-recorded +ours)\n%s", tr.ID, cmp.Diff(want, got))
		}
		if ours.ExitCode != tr.ExitCode {
			t.Errorf("%s: exit code %d, want %d", tr.ID, ours.ExitCode, tr.ExitCode)
		}
		if m := regexp.MustCompile(`pod (node-debugger\S+)`).FindStringSubmatch(ours.Stdout); m != nil {
			names[id] = m[1]
		}
	}
	for id, of := range map[string]string{"w004": "y001", "w009": "y003", "w010": "y003"} {
		tr := asked[id]
		args := slices.Clone(tr.Args)
		i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "pod/node-debugger-") })
		args[i] = "pod/" + names[of]
		ours := run(&Transcript{ID: tr.ID, Version: tr.Version, As: tr.As, Args: args})
		if diff := cmp.Diff(alike(tr.Stdout), alike(ours.Stdout)); diff != "" || ours.ExitCode != 0 {
			t.Errorf("%s: (-recorded +ours)\n%s%s", tr.ID, diff, ours.Stderr)
		}
	}
	listed := run(&Transcript{Version: "1.34", As: "admin", Args: []string{"get", "pod", names["y001"], "-n", "shop", "--no-headers"}})
	if got := strings.Fields(listed.Stdout); len(got) != 5 || !slices.Equal(got[1:4], []string{"0/1", "Completed", "0"}) {
		t.Errorf("the pod is listed as %q", listed.Stdout)
	}
}
