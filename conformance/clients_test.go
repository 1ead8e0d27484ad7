package conformance

import (
	"encoding/json"
	"io"
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
	return runClientOf(t, startCase(t, clockCaptured, kubeletCase).Subjects["viewer"].Kubeconfig, dir, extra, argv...)
}

func runClientOf(t *testing.T, kubeconfig, dir string, extra []string, argv ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	command.Dir = dir
	command.Env = append(append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir(), "TZ=UTC"), extra...)
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

// TestInsideContainers: executing commands, logs and usage through clients in other languages.
func TestInsideContainers(t *testing.T) {
	dir := clientsDir(t)
	kubeconfig := startCase(t, clockCaptured, "shop-evening").Subjects["admin"].Kubeconfig
	type ran struct {
		Stdout, Stderr, Status string
		Code                   int
	}
	var node struct {
		Open, Unknown, Piped ran
		Log                  string
	}
	c, err := cases.Open("shop-evening")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	frontend := ""
	for _, o := range c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Objects {
		if o.Labels["app"] == "frontend" {
			frontend = o.Name
		}
	}
	if err := json.Unmarshal([]byte(runClientOf(t, kubeconfig, dir, []string{"POD=" + frontend}, "node", filepath.Join(dir, "exec.mjs"))), &node); err != nil {
		t.Fatal(err)
	}
	const open = "Connection to redis.shop (10.245.2.15) 6379 port [tcp/*] succeeded!\n"
	if diff := cmp.Diff(ran{Stderr: open, Status: "Success"}, node.Open); diff != "" {
		t.Errorf("an open port (-want +node)\n%s", diff)
	}
	if node.Unknown.Status != "Failure" || node.Unknown.Code != 126 || !strings.HasPrefix(node.Unknown.Stderr, "kubecase: not captured: ") {
		t.Errorf("a port that wasn't tried: %+v", node.Unknown)
	}
	if want := "search shop.svc.cluster.local svc.cluster.local cluster.local\n"; node.Piped.Stdout != want || node.Piped.Status != "Success" {
		t.Errorf("a script: %+v, want %q", node.Piped, want)
	}
	captured, err := c.OpenLog(c.Log("shop", frontend, "frontend", false))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(captured)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.SplitAfter(string(text), "\n"); node.Log != strings.Join(lines[len(lines)-3:], "") {
		t.Errorf("the log's last two lines are %q, want %q", node.Log, lines[len(lines)-3:])
	}

	answers := map[string]struct {
		Error bool
		Text  string
	}{}
	out := runClientOf(t, kubeconfig, dir, []string{"POD=toolbox", "COMMAND=nc -zv redis.shop 6379"}, "node", filepath.Join(dir, "mcp.mjs"))
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		t.Fatal(err)
	}
	for call, holds := range map[string]string{"exec": strings.TrimSpace(open), "top": "toolbox", "pod": "toolbox"} {
		if a := answers[call]; a.Error || !strings.Contains(a.Text, holds) {
			t.Errorf("%s: error %v, lacks %q:\n%.500s", call, a.Error, holds, a.Text)
		}
	}
	if a := answers["log"]; a.Error {
		t.Errorf("log: %s", a.Text)
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
