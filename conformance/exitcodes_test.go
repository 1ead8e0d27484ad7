package conformance

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestExitCodes runs every transcript's command with each installed kubectl and
// with the one built into kubecase, and demands the recorded exit code. It takes
// some minutes: `make kubectls` sets KUBECASE_ALL_KUBECTLS.
func TestExitCodes(t *testing.T) {
	if os.Getenv("KUBECASE_ALL_KUBECTLS") == "" {
		t.Skip("KUBECASE_ALL_KUBECTLS is not set: only the recorded kubectl versions are run (make kubectls runs all)")
	}
	dir := recordings(t)
	var recorded []*Transcript
	for _, tr := range loadTranscripts(t, dir) {
		if tr.Version == "1.34" && outcomes.known[tr.ID] == "" {
			recorded = append(recorded, tr)
		}
	}
	binaries := map[string]string{"built-in": builtInKubectl(t)}
	for _, name := range installedKubectls() {
		binaries[filepath.Base(name)] = name
	}
	if len(binaries) == 1 {
		t.Log("no kubectl is installed: only the built-in one is run")
	}
	server := startServer(t, clockShifted)
	present, err := server.present()
	if err != nil {
		t.Fatal(err)
	}
	for name, binary := range maps.All(binaries) {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, server, present, dir)
			b.kubectl["1.34"] = binary
			pool(t, len(recorded), func(i int) (string, func(*testing.T)) {
				tr := recorded[i]
				return tr.ID, func(t *testing.T) {
					ours, err := b.run(t.Context(), tr)
					if err != nil {
						t.Fatal(err)
					}
					if reason := otherExitCodes[name+" "+tr.ID]; ours.ExitCode != tr.ExitCode && reason == "" {
						t.Errorf("kubectl %q: exit code %d instead of %d: %s", tr.Args, ours.ExitCode, tr.ExitCode, oneLine(ours.Stderr))
					}
				}
			})
		})
	}
}

// otherExitCodes are commands that a kubectl version ends otherwise against any
// server, by version and transcript, with the reason.
var otherExitCodes = map[string]string{
	"kubectl.1.27 1.34/296-admin-auth-whoami":                noWhoami,
	"kubectl.1.27 1.34/297-admin-auth-whoami-o-yaml":         noWhoami,
	"kubectl.1.27 1.34/407-viewer-auth-whoami":               noWhoami,
	"kubectl.1.27 1.34/484-nobody-auth-whoami":               noWhoami,
	"built-in 1.34/463-viewer-auth-reconcile-f-10-base-yaml": reconcilePanics,
	"built-in 1.34/540-nobody-auth-reconcile-f-10-base-yaml": reconcilePanics,
}

const (
	noWhoami        = "knows SelfSubjectReview in alpha and beta only, which the cluster doesn't have"
	reconcilePanics = "kubectl 1.37 crashes when it may not read what it reconciles"
)

// builtInKubectl builds kubecase and returns a kubectl that is it.
func builtInKubectl(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kubectl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}
