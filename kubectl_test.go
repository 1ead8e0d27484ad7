package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// kubectls are the built-in kubectl and those that are installed: next to the
// kubectl of PATH as kubectl.<version>, or named by KUBECASE_KUBECTLS.
func kubectls(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"built-in": filepath.Join(programs(t), "kubectl")}
	names := filepath.SplitList(os.Getenv("KUBECASE_KUBECTLS"))
	// Not LookPath: the folder of this test's own kubectl comes first in PATH.
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "kubectl")); err == nil {
			siblings, _ := filepath.Glob(filepath.Join(filepath.Dir(real), "kubectl.*"))
			names = append(names, siblings...)
		}
	}
	for _, name := range names {
		found[filepath.Base(name)] = name
	}
	if len(found) == 1 {
		t.Log("no other kubectl is installed beside the one in PATH: only the built-in one is tested")
	}
	return found
}

// serveForTest starts a case for a test and returns the environment for kubectl.
func serveForTest(t *testing.T, name string, options servingOptions) []string {
	t.Helper()
	setLogging(0)
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, tempDir: t.TempDir()}
	options.address = "127.0.0.1"
	s, err := a.startServing(options, []string{name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return append(os.Environ(), "KUBECONFIG="+s.served[0].kubeconfig, "HOME="+t.TempDir(), "TZ=UTC")
}

type kubectlResult struct {
	stdout, stderr string
	code           int
}

func runKubectl(t *testing.T, kubectl string, env []string, args ...string) kubectlResult {
	t.Helper()
	command := exec.CommandContext(t.Context(), kubectl, args...)
	var out, errs bytes.Buffer
	command.Env, command.Stdout, command.Stderr = env, &out, &errs
	err := command.Run()
	if err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return kubectlResult{out.String(), errs.String(), command.ProcessState.ExitCode()}
}

// listable are the resources that a server lists, by full name.
func listable(t *testing.T, kubectl string, env []string) (names []string) {
	t.Helper()
	r := runKubectl(t, kubectl, env, "api-resources", "--verbs=list", "-o", "name")
	if r.code != 0 {
		t.Fatalf("api-resources: %s", r.stderr)
	}
	return strings.Fields(r.stdout)
}

// TestEveryResource gets, in every form, and describes each resource that the
// shipped cases list, with the built-in kubectl; all must succeed, and list what
// the case holds.
func TestEveryResource(t *testing.T) {
	builtIn := kubectls(t)["built-in"]
	for _, name := range []string{"shop-outage", "shop-nodes"} {
		env := serveForTest(t, name, servingOptions{clock: "shifted"})
		resources := listable(t, builtIn, env)
		if len(resources) < 55 {
			t.Fatalf("%s: only %d resources are listed", name, len(resources))
		}
		all := strings.Join(resources, ",")
		for _, args := range [][]string{
			{"get", all, "-n", "shop"},
			{"get", all, "-A"},
			{"get", all, "-A", "-o", "wide", "--show-labels"},
			{"get", all, "-A", "-o", "yaml"},
			{"get", all, "-A", "-o", "name", "--chunk-size=50"},
			{"get", "pods,deployments", "-n", "shop", "-o", "name", "--chunk-size=5"},
			{"describe", all, "-n", "shop"},
		} {
			r := runKubectl(t, builtIn, env, args...)
			if r.code != 0 {
				t.Errorf("%s: kubectl %s %s: exit code %d: %s", name, args[0], strings.Join(args[2:], " "), r.code, r.stderr)
			}
			if !strings.Contains(r.stdout, "checkout") {
				t.Errorf("%s: kubectl %s %s: nothing of the shop in:\n%.300s", name, args[0], strings.Join(args[2:], " "), r.stdout)
			}
		}
	}
}

// TestNoFieldIsLost compares every captured object, field by field, with what
// kubectl -o json prints of it.
func TestNoFieldIsLost(t *testing.T) {
	builtIn := kubectls(t)["built-in"]
	for _, name := range []string{"shop-outage", "shop-nodes"} {
		env := serveForTest(t, name, servingOptions{clock: "captured"})
		c, err := openCase(name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		objects := 0
		for _, r := range c.Resources() {
			full := r.GVR.Resource + "." + r.GVR.Version + "." + r.GVR.Group
			result := runKubectl(t, builtIn, env, "get", full, "-A", "-o", "json", "--show-managed-fields")
			if result.code != 0 {
				t.Errorf("%s: %s", full, result.stderr)
				continue
			}
			got := struct{ Items []map[string]any }{}
			if err := json.Unmarshal([]byte(result.stdout), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Items) != len(r.Objects) {
				t.Errorf("%s: %d objects, captured %d", full, len(got.Items), len(r.Objects))
				continue
			}
			for i, o := range r.Objects {
				want := map[string]any{}
				if err := json.Unmarshal(o.Raw, &want); err != nil {
					t.Fatal(err)
				}
				delete(got.Items[i], "apiVersion")
				delete(got.Items[i], "kind")
				if a, b := mustJSON(t, want), mustJSON(t, got.Items[i]); a != b {
					t.Errorf("%s %s/%s: printed\n%s\ncaptured\n%s", full, o.Namespace, o.Name, b, a)
				}
				objects++
			}
		}
		if objects < 800 {
			t.Errorf("%s: only %d objects were compared", name, objects)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestKubectlVersions holds the installed kubectls to the built-in one: what the
// server prints is the same for all of them, and so are exit codes.
func TestKubectlVersions(t *testing.T) {
	all := kubectls(t)
	env := serveForTest(t, "shop-nodes", servingOptions{clock: "captured"})
	resources := strings.Join(listable(t, all["built-in"], env), ",")
	for _, test := range []struct {
		args []string
		// exact: the text comes from the server; else only its presence counts,
		// because describe differs between kubectl versions.
		exact bool
	}{
		{[]string{"get", resources, "-A", "-o", "wide"}, true},
		{[]string{"get", "pods", "-n", "shop", "-l", "app in (cart,checkout)", "--sort-by", ".metadata.name"}, true},
		{[]string{"get", "pods", "-n", "shop", "--field-selector", "status.phase!=Running", "--chunk-size=5"}, true},
		{[]string{"get", "events", "-n", "shop", "-o", "wide"}, true},
		{[]string{"logs", "-n", "shop", "deploy/frontend", "--tail", "5", "--timestamps"}, true},
		{[]string{"get", "--raw", "/api/v1/namespaces/shop/pods?limit=1"}, true},
		{[]string{"auth", "can-i", "list", "secrets", "-A"}, true},
		{[]string{"auth", "can-i", "delete", "pods", "-n", "shop"}, true},
		{[]string{"get", "pod", "nope", "-n", "shop"}, true},
		{[]string{"delete", "pod", "redis-0", "-n", "shop"}, true},
		{[]string{"describe", "pods,deployments,services,jobs,statefulsets,configmaps,persistentvolumeclaims", "-n", "shop"}, false},
		{[]string{"describe", "nodes,namespaces"}, false},
		{[]string{"events", "-n", "shop", "--types", "Warning"}, false},
		{[]string{"rollout", "status", "deploy/frontend", "-n", "shop", "--timeout", "5s"}, false},
		{[]string{"wait", "--for=condition=Ready", "pod", "-l", "app=frontend", "-n", "shop", "--timeout", "5s"}, true},
		{[]string{"explain", "deployment.spec.strategy", "--recursive"}, false},
		{[]string{"api-resources", "--verbs=list", "-o", "name"}, true},
	} {
		label := test.args[0] + " " + strings.TrimPrefix(strings.Join(test.args[1:], " "), resources)
		want := runKubectl(t, all["built-in"], env, test.args...)
		for name, kubectl := range all {
			if name == "built-in" {
				continue
			}
			got := runKubectl(t, kubectl, env, test.args...)
			if got.code != want.code {
				t.Errorf("%s %s: exit code %d, built-in %d: %s", name, label, got.code, want.code, got.stderr)
			}
			if test.exact && squeeze(got.stdout) != squeeze(want.stdout) {
				t.Errorf("%s %s: printed\n%.2000s\nbuilt-in\n%.2000s", name, label, got.stdout, want.stdout)
			}
			if (got.stdout == "") != (want.stdout == "") {
				t.Errorf("%s %s: one of them printed nothing", name, label)
			}
		}
	}
}

var columnGap = regexp.MustCompile(`  +`)

// squeeze takes out what depends on the moment: ages that were counted in
// different seconds can't occur in the captured clock, padding can.
func squeeze(s string) string { return columnGap.ReplaceAllString(s, "  ") }
