package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/fixtures/clock"
)

// installedKubectls are the versions that are installed beside a kubectl of the search path;
// KUBECASE_KUBECTLS names others.
func installedKubectls() []string {
	if list := os.Getenv("KUBECASE_KUBECTLS"); list != "" {
		return filepath.SplitList(list)
	}
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// Tests have a folder with programs of their own in the path.
		found, err := filepath.EvalSymlinks(filepath.Join(dir, "kubectl"))
		if err != nil {
			continue
		}
		others, err := filepath.Glob(filepath.Join(filepath.Dir(found), "kubectl.[0-9]*.[0-9]*"))
		if err == nil {
			out = append(out, others...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var forwarding = regexp.MustCompile(`Forwarding from 127\.0\.0\.1:(\d+)`)

// TestKubectlsBesides runs what reaches beside the API server with each installed kubectl and the
// built-in one.
func TestKubectlsBesides(t *testing.T) {
	a := &app{tempDir: t.TempDir()}
	s, err := a.startServing(servingOptions{address: "127.0.0.1", clock: string(clock.Captured), synthetic: true, debug: true}, []string{"shop-evening", "testdata/incident", monitoredFolder(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	shop, incident, watched := s.served[0].kubeconfig, s.served[1].kubeconfig, s.served[2].kubeconfig
	binaries := append([]string{filepath.Join(programs(t), "kubectl")}, installedKubectls()...)
	if len(binaries) == 1 {
		t.Log("no kubectl is installed: only the built-in one is run")
	}
	for _, binary := range binaries {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			home := t.TempDir()
			kubectl := func(kubeconfig string, args ...string) *exec.Cmd {
				command := exec.CommandContext(t.Context(), binary, args...)
				command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TZ=UTC", "KUBECONFIG=" + kubeconfig}
				return command
			}
			for _, test := range []struct {
				kubeconfig string
				args       string
				code       int
				prints     string
			}{
				{shop, "top nodes", 0, "node-1"},
				{shop, "top pods -n shop --containers", 0, "toolbox"},
				{shop, "exec toolbox -n shop -- nc -zv redis.shop 6379", 0, "6379 port [tcp/*] succeeded!"},
				{shop, "exec toolbox -n shop -- nc -zv search 81", 126, "kubecase: not captured: "},
				{shop, "exec deploy/checkout -n shop -- ls", 1, `container not found ("checkout")`},
				{shop, "get --raw /api/v1/nodes/node-1/proxy/healthz", 0, "ok"},
				{shop, "get --raw /api/v1/namespaces/shop/services/email:http/proxy/", 1, `no endpoints available for service "email"`},
				{incident, "debug node/worker --image=busybox -i -- chroot /host systemctl status kubelet", 0, "Active: inactive (dead)"},
				{incident, "debug node/worker --image=busybox -- chroot /host crictl ps", 0, "Creating debugging pod node-debugger-worker-"},
			} {
				command := kubectl(test.kubeconfig, strings.Fields(test.args)...)
				out, err := command.CombinedOutput()
				if command.ProcessState == nil {
					t.Fatal(err)
				}
				if code := command.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.prints) {
					t.Errorf("kubectl %s: exit code %d, want %d, with %q:\n%s", test.args, code, test.code, test.prints, out)
				}
			}
			forward := kubectl(watched, "port-forward", "-n", "monitoring", "pod/prometheus-0", ":9090")
			out, err := forward.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs strings.Builder
			forward.Stderr = &errs
			if err := forward.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = forward.Process.Kill()
				_ = forward.Wait() // it was killed
			}()
			line, err := bufio.NewReader(out).ReadString('\n')
			m := forwarding.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("port-forward: %q, %v\n%s", line, err, &errs)
			}
			answer, err := http.Get("http://127.0.0.1:" + m[1] + "/api/v1/query?query=up")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"job":"x"`) {
				t.Errorf("Prometheus through port-forward: %s %s %v", answer.Status, body, err)
			}
		})
	}
}
