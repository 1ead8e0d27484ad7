package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// terminal is a program on a screen of its own, driven by tmux.
type terminal struct {
	t      *testing.T
	socket string
}

func (p terminal) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// keys types, then waits until the screen shows all that is wanted.
func (p terminal) keys(wants []string, keys ...string) {
	p.t.Helper()
	if len(keys) > 0 {
		p.tmux(append([]string{"send-keys", "-t", "main"}, keys...)...)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	screen := ""
	for {
		screen = p.tmux("capture-pane", "-p", "-t", "main")
		missing := ""
		for _, want := range wants {
			if !strings.Contains(screen, want) {
				missing = want
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("after %q the screen lacks %q:\n%s", keys, missing, screen)
		}
	}
}

// TestK9s looks at pods, logs, a description and YAML in k9s, as a person does.
func TestK9s(t *testing.T) {
	dir := clientsDir(t)
	server := startCase(t, clockShifted, kubeletCase)
	home := t.TempDir()
	p := terminal{t, filepath.Join(home, "tmux")}
	command := fmt.Sprintf("env -i PATH=%s TERM=xterm-256color HOME=%s KUBECONFIG=%s %s -n shop --readonly",
		os.Getenv("PATH"), home, server.Subjects["admin"].Kubeconfig, filepath.Join(dir, "k9s"))
	p.tmux("new-session", "-d", "-s", "main", "-x", "200", "-y", "60", command)
	defer p.tmux("kill-server")

	p.keys([]string{"frontend-6ff7c79fd7-kfcss", "CrashLoopBackOff"})
	p.keys([]string{"[1]", "frontend-6ff7c79fd7-kfcss"}, "/frontend-6ff7c79fd7-kfcss", "Enter")
	p.keys([]string{"downstream call failed"}, "l")
	p.keys([]string{"[1]", "frontend-6ff7c79fd7-kfcss"}, "Escape")
	p.keys([]string{"Service Account:", "frontend-6ff7c79fd7-kfcss"}, "d")
	p.keys([]string{"[1]", "frontend-6ff7c79fd7-kfcss"}, "Escape")
	p.keys([]string{"apiVersion: v1", "kind: Pod"}, "y")
}
