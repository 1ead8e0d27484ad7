package recorder_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/recorder"
)

// TestOneLogPerRecord: a second Open fails, of this process and of another, until
// the first is closed.
func TestOneLogPerRecord(t *testing.T) {
	dir := t.TempDir()
	bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
	if err != nil {
		t.Fatal(err)
	}
	episode := filepath.Join(dir, "episode")
	first, err := recorder.Open(episode, recorder.Options{Bodies: bodies})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := recorder.Open(episode, recorder.Options{Bodies: bodies}); !errors.Is(err, recorder.ErrInUse) || !strings.Contains(err.Error(), episode) {
		t.Errorf("a second Open: %v, %v; want ErrInUse that names %s", second, err, episode)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+dir)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(string(out), recorder.ErrInUse.Error()) {
		t.Errorf("another process' Open: %v\n%s", err, out)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := recorder.Open(episode, recorder.Options{Bodies: bodies})
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
