package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/recorder/runs"
)

// kubecaseBinary is kubecase under its own name.
func kubecaseBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kubecase")
	if err := os.Symlink(builtIn(t), binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

// runShell runs a shell script as the agent of one episode and returns its calls and
// the run's folder.
func runShell(t *testing.T, script string, args ...string) ([]recorder.Call, *runs.Folder) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	argv := append(append([]string{"run"}, args...), "--out", out, "--", "sh", "-c", script)
	if text, err := exec.CommandContext(t.Context(), kubecaseBinary(t), argv...).CombinedOutput(); err != nil {
		t.Fatalf("kubecase run: %v\n%s", err, text)
	}
	folder, err := runs.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	episodes, err := folder.Episodes()
	if err != nil || len(episodes) != 1 {
		t.Fatal(len(episodes), err)
	}
	dir, err := folder.EpisodeDir(episodes[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	trajectory, err := recorder.LoadCalls(dir)
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := folder.Bodies()
	if err != nil {
		t.Fatal(err)
	}
	for i := range trajectory.Calls {
		for j := range trajectory.Calls[i].Uses {
			if err := trajectory.Calls[i].Uses[j].LoadResponse(bodies); err != nil {
				t.Fatal(err)
			}
		}
	}
	return trajectory.Calls, folder
}

// Clauses whose predicate is still to come.
const (
	clausePods  = "tool: T1, args: {type: pods, namespace: shop}, holds: "
	clausePod   = "tool: T1, args: {type: pods, namespace: shop, name: redis-0}, holds: "
	clauseAbout = "tool: T2, args: {type: pods, namespace: shop, name: redis-0}, holds: "
	clauseCart  = "tool: T3, args: {service: cart, namespace: shop}, holds: "
	clauseLines = "tool: T5, args: {service: cart, namespace: shop}, holds: "
)

// TestWrapperCountsWhatWasShown: through `kubecase run`, a clause on what a filter or
// an output format left out is not supplied, and one on what it let through is.
func TestWrapperCountsWhatWasShown(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubecase")
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc: the wrapper can't see what it is piped to")
	}
	tests := []shownCommand{
		{"kubectl get pods -n shop", []string{clausePods + `"rows.exists(r, r.NAME == 'redis-1' && r.NODE == 'node-1')"`}, nil},
		{"kubectl get pods -n shop | grep redis-0", []string{clausePods + `"rows.exists(r, r.NAME == 'redis-0')"`}, []string{clausePods + `"rows.exists(r, r.NAME == 'redis-1')"`}},
		{"kubectl get pods -n shop | grep -v Running | grep -c .", nil, []string{clausePods + `"rows.exists(r, r.NAME == 'redis-0')"`}},
		{"kubectl get pods -n shop | tail -3", []string{clausePods + `"rows.exists(r, r.NAME == 'toolbox')"`}, []string{clausePods + `"rows.exists(r, r.NAME.startsWith('badcmd-'))"`}},
		{"kubectl get pod redis-0 -n shop -o jsonpath='{.status.phase}'", []string{clausePod + `"objects.exists(o, o.status.phase == 'Running')"`}, []string{clausePod + `"objects.exists(o, o.spec.nodeName == 'node-2')"`}},
		{"kubectl get pods -n shop -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName", []string{clausePods + `"objects.exists(o, o.metadata.name == 'redis-0' && o.spec.nodeName == 'node-2')"`},
			[]string{clausePods + `"objects.exists(o, o.status.phase == 'Running')"`, clausePods + `"objects.exists(o, o.metadata.labels.app == 'node-agent')"`}},
		{"kubectl get pods -n shop -o name", []string{clausePods + `"objects.exists(o, o.metadata.name == 'redis-0')"`}, []string{clausePods + `"objects.exists(o, o.status.phase == 'Running')"`}},
		{"kubectl describe pod redis-0 -n shop", []string{clauseAbout + `"objects.exists(o, o.spec.nodeName == 'node-2')"`}, nil},
		{"kubectl describe pod redis-0 -n shop | grep Image:", []string{clauseAbout + `"objects.exists(o, o.spec.containers.exists(c, c.image == 'registry.local/shopapp:1.4.2'))"`},
			[]string{clauseAbout + `"objects.exists(o, o.spec.nodeName == 'node-2')"`, clauseAbout + `"objects.exists(o, o.status.phase == 'Running')"`}},
		{"kubectl get deploy cart -n shop -o yaml | grep image:", []string{clauseCart + `"objects.exists(o, o.spec.template.spec.containers.exists(c, c.image.contains('shopapp')))"`},
			[]string{clauseCart + `"objects.exists(o, o.spec.template.spec.containers.exists(c, has(c.readinessProbe)))"`}},
		{"kubectl get deploy cart -n shop -o yaml", []string{clauseCart + `"objects.exists(o, o.spec.template.spec.containers.exists(c, has(c.readinessProbe)))"`}, nil},
		{"kubectl logs deploy/cart -n shop | grep -i error | tail -n 2", []string{clauseLines + `"lines.size() == 2 && lines.all(l, l.contains('ERROR'))"`}, []string{clauseLines + `"lines.size() > 2"`}},
		{"kubectl logs deploy/cart -n shop --tail=20", []string{clauseLines + `"lines.size() == 20"`}, nil},
	}
	checkShown(t, tests)
}

// shownCommand is a command with clauses on what it showed and on what it didn't.
type shownCommand struct {
	command       string
	shown, hidden []string
}

func checkShown(t *testing.T, tests []shownCommand) {
	t.Helper()
	var script []string
	for _, test := range tests {
		script = append(script, test.command)
	}
	calls, _ := runShell(t, strings.Join(script, "\n"), "shop-nodes")
	if len(calls) != len(tests) {
		t.Fatalf("%d commands made %d calls", len(tests), len(calls))
	}
	for i, test := range tests {
		if calls[i].Argv == nil {
			t.Errorf("%s: the wrapper noted nothing", test.command)
		}
		for _, clause := range test.shown {
			if len(supplied(t, calls[i:i+1], clause)) == 0 {
				t.Errorf("%s: a clause on what it showed is not supplied: %s\n%s", test.command, clause, fmt.Sprintf("%.1000v", calls[i].Uses))
			}
		}
		for _, clause := range test.hidden {
			if len(supplied(t, calls[i:i+1], clause)) != 0 {
				t.Errorf("%s: a clause on what it didn't show is supplied: %s", test.command, clause)
			}
		}
	}
}

// TestWrapperFilterThatLeavesEarly: head leaves as soon as it has its lines, and kubectl
// or the filter before it then writes to nobody.
func TestWrapperFilterThatLeavesEarly(t *testing.T) {
	checkShown(t, []shownCommand{
		{"kubectl get pods -n shop --no-headers | head -n 1", []string{clausePods + `"rows.exists(r, r.NAME.startsWith('badcmd-'))"`}, []string{clausePods + `"rows.exists(r, r.NAME == 'toolbox')"`}},
		{"kubectl logs deploy/cart -n shop | grep -i error | head -n 2", []string{clauseLines + `"lines.size() == 2 && lines.all(l, l.contains('ERROR'))"`}, []string{clauseLines + `"lines.size() > 2"`}},
	})
}
