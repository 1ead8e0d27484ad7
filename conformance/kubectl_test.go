package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// clients are what the recorded clients were built from, beside the module in
// kubectl/<version>: 1.34 from the tag for the recording, 1.32 by the Cloud SDK.
// The toolchain matters: it prints in versions, and between 1.23 and 1.26 the
// order changed in which sort.Sort leaves equal rows (kubectl get --sort-by).
var clients = map[string]client{
	"1.34": {toolchain: "go1.26.8", stamps: map[string]string{
		"gitVersion":   "v1.34.4",
		"gitMajor":     "1",
		"gitMinor":     "34",
		"gitCommit":    "oracle",
		"gitTreeState": "clean",
		"buildDate":    "2026-11-30T00:00:00Z",
	}},
	"1.32": {toolchain: "go1.23.8", stamps: map[string]string{
		"gitVersion":   "v1.32.4-dispatcher",
		"gitMajor":     "1",
		"gitMinor":     "32+",
		"gitCommit":    "4cb5f0764b8d5f425645c6f433394fede34a8a26",
		"gitTreeState": "clean",
		"buildDate":    "2025-05-15T20:09:34Z",
	}},
}

type client struct {
	toolchain string
	stamps    map[string]string // variables of the version packages
}

var kubectlBuilds sync.Map // version -> func() (string, error)

// kubectlBinary returns the path of kubectl in the given recorded version. It
// is built from the module in kubectl/<version> once per machine and kept in
// the user's cache directory; KUBECASE_KUBECTL_1_34 and KUBECASE_KUBECTL_1_32
// name a binary to use instead.
func kubectlBinary(t *testing.T, version string) string {
	t.Helper()
	if binary := os.Getenv("KUBECASE_KUBECTL_" + strings.ReplaceAll(version, ".", "_")); binary != "" {
		return binary
	}
	build, _ := kubectlBuilds.LoadOrStore(version, sync.OnceValues(func() (string, error) {
		return buildKubectl(version)
	}))
	binary, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func buildKubectl(version string) (string, error) {
	module := filepath.Join("kubectl", version)
	var flags []string
	for name, value := range clients[version].stamps {
		for _, variable := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags = append(flags, fmt.Sprintf("-X %s.%s=%s", variable, name, value))
		}
	}
	slices.Sort(flags)
	ldflags := "-s -w " + strings.Join(flags, " ")

	key := sha256.New()
	fmt.Fprintln(key, clients[version].toolchain, ldflags)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		key.Write(data)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "kubecase", "kubectl-"+version+"-"+hex.EncodeToString(key.Sum(nil))[:12])
	binary := filepath.Join(dir, "kubectl")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Printf("conformance: building kubectl %s, which takes minutes the first time\n", version)
	// Built under another name and renamed, so that a build that was cut short
	// is never taken for the binary.
	partial := fmt.Sprintf("%s.%d", binary, os.Getpid())
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", partial, ".")
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOTOOLCHAIN="+clients[version].toolchain)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building kubectl %s: %w\n%s", version, err, out)
	}
	return binary, os.Rename(partial, binary)
}

// installedKubectls returns the kubectl binaries of this machine: those that
// KUBECASE_KUBECTLS lists (separated as in PATH), or those beside the kubectl
// on PATH that carry their version in their name, as the Cloud SDK's do.
func installedKubectls() []string {
	if list := os.Getenv("KUBECASE_KUBECTLS"); list != "" {
		return filepath.SplitList(list)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return nil
	}
	if kubectl, err = filepath.EvalSymlinks(kubectl); err != nil {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(kubectl), "kubectl.[0-9]*.[0-9]*"))
	if err != nil {
		return nil // the pattern is constant; only a broken directory name gets here
	}
	slices.Sort(found)
	return found
}

// TestKubectlVersions demands that the clients are the recorded ones.
func TestKubectlVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	for _, version := range kubectlVersions {
		out, err := exec.Command(kubectlBinary(t, version), "version", "--client").Output()
		if err != nil {
			t.Errorf("kubectl %s: %v", version, err)
			continue
		}
		if want := "Client Version: " + clients[version].stamps["gitVersion"] + "\n"; !strings.HasPrefix(string(out), want) {
			t.Errorf("kubectl %s: %q, want %q", version, out, want)
		}
	}
}
