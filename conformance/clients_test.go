package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

// clientsDir is where `make clients` installs what these tests run; they are
// skipped without it, because the clients are large.
func clientsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBECASE_CLIENTS")
	if dir == "" {
		t.Skip("KUBECASE_CLIENTS is not set: make clients installs other clients and runs them")
	}
	return dir
}

// runClient runs a client in a folder against an episode of the shop's nodes and
// returns what it printed.
func runClient(t *testing.T, dir string, extra []string, argv ...string) string {
	t.Helper()
	server := startCase(t, clockCaptured, kubeletCase)
	command := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	command.Dir = dir
	command.Env = append(append(os.Environ(), "KUBECONFIG="+server.Subjects["viewer"].Kubeconfig, "HOME="+t.TempDir(), "TZ=UTC"), extra...)
	errs := &strings.Builder{}
	command.Stderr = errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, errs, out)
	}
	return string(out)
}

// expectation is what the case holds, counted from its objects.
type expectation struct {
	Pods      []string       `json:"pods"`
	Selected  int            `json:"selected"`
	Page      int            `json:"page"`
	Continues bool           `json:"continues"`
	Log       int            `json:"log"`
	Events    int            `json:"events"`
	Watched   map[string]int `json:"watched"`
	Followed  int            `json:"followed"`
	Deleted   int            `json:"deleted"`
}

func expected(t *testing.T) expectation {
	t.Helper()
	c, err := cases.Open(kubeletCase)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := expectation{Page: 1, Continues: true, Log: 2, Followed: 1, Deleted: 403}
	of := func(resource string) []*fixtures.Object {
		return slices.DeleteFunc(slices.Clone(c.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Objects),
			func(o *fixtures.Object) bool { return o.Namespace != "shop" })
	}
	for _, pod := range of("pods") {
		want.Pods = append(want.Pods, pod.Name)
		if pod.Labels["app"] == "cart" || pod.Labels["app"] == "checkout" {
			want.Selected++
		}
	}
	for _, event := range of("events") {
		if strings.Contains(string(event.Raw), `"type":"Warning"`) {
			want.Events++
		}
	}
	want.Watched = map[string]int{"ADDED": len(want.Pods), "other": 0}
	return want
}

// TestLibraries: list, select, page, watch, logs, following and a refused write
// through other languages' clients.
func TestLibraries(t *testing.T) {
	dir := clientsDir(t)
	here, err := filepath.Abs("clients")
	if err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"node":   {"node", filepath.Join(dir, "client.mjs")},
		"python": {"/usr/bin/python3", filepath.Join(here, "client.py")},
	} {
		t.Run(name, func(t *testing.T) {
			got := expectation{}
			if err := json.Unmarshal([]byte(runClient(t, dir, nil, argv...)), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected(t), got); diff != "" {
				t.Errorf("(-case +client):\n%s", diff)
			}
		})
	}
}

// TestMCPServer: an MCP server that agents use, unchanged.
func TestMCPServer(t *testing.T) {
	dir := clientsDir(t)
	want := expected(t)
	pod := want.Pods[slices.IndexFunc(want.Pods, func(n string) bool { return strings.HasPrefix(n, "frontend-") })]
	answers := map[string]struct {
		Error bool
		Text  string
	}{}
	out := runClient(t, dir, []string{"POD=" + pod}, "node", filepath.Join(dir, "mcp.mjs"))
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		t.Fatal(err)
	}
	for call, holds := range map[string]string{
		"pods": pod, "pod": pod, "log": `"level"`, "events": "BackOff", "deployments": "checkout",
	} {
		if a := answers[call]; a.Error || !strings.Contains(a.Text, holds) {
			t.Errorf("%s: error %v, lacks %q:\n%.500s", call, a.Error, holds, a.Text)
		}
	}
	if lines := strings.Count(strings.TrimSpace(answers["log"].Text), "\n") + 1; lines != 2 {
		t.Errorf("a tail of 2 has %d lines", lines)
	}
}

// TestStern: stern finds pods by watching and follows their logs.
func TestStern(t *testing.T) {
	dir := clientsDir(t)
	out := runClient(t, dir, nil, filepath.Join(dir, "stern"), "-n", "shop", "frontend", "--no-follow", "--tail", "1", "--output", "raw")
	if lines := strings.Count(out, "\n"); lines != 3 {
		t.Errorf("%d lines of three pods:\n%s", lines, out)
	}
}
