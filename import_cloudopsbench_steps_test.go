package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/fixtures/importers/cloudopsbench"
	"github.com/kubecase/kubecase/recorder"
)

// shellStep is a step of a public trajectory that a shell does without kubectl get, describe or logs.
type shellStep struct {
	tool recorder.Tool
	args map[string]string
	// command is what a shell agent runs instead.
	command string
}

var stepArgument = regexp.MustCompile(`(\w+): '([^']*)'`)

// shellSteps are those of the public trajectories, by the case's folder.
func shellSteps(t *testing.T) map[string][]shellStep {
	t.Helper()
	root := filepath.Join(publicCloudOpsBench, "golden-trajectory")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("%v: the public trajectories aren't compared", err)
	}
	out := map[string][]shellStep{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), "path") || filepath.Ext(name) != ".json" {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var document struct {
			Trace []struct {
				Tool    string `json:"tool_name"`
				Calling string `json:"calling"`
			} `json:"diagnostic_trace"`
		}
		if err := json.Unmarshal(data, &document); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		source, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, s := range document.Trace {
			a := map[string]string{}
			for _, m := range stepArgument.FindAllStringSubmatch(s.Calling, -1) {
				a[m[1]] = m[2]
			}
			switch s.Tool {
			case "GetAlerts":
				out[source] = append(out[source], shellStep{tool: recorder.GetAlerts, command: `curl -sf "$ALERTMANAGER_URL/api/v2/alerts"`})
			case "GetServiceDependencies":
				out[source] = append(out[source], shellStep{tool: recorder.GetServiceDependencies, args: map[string]string{"service": a["service_name"]}, command: `curl -sf "$JAEGER_URL/api/dependencies"`})
			case "CheckNodeServiceStatus":
				out[source] = append(out[source], shellStep{tool: recorder.CheckNodeServiceStatus, args: map[string]string{"node": a["node_name"], "component": a["service_name"]},
					command: fmt.Sprintf("kubectl debug node/%s --image=busybox --profile=general -q -i -- chroot /host systemctl status %s </dev/null", a["node_name"], a["service_name"])})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPublicShellSteps runs those steps as commands of a shell agent, each in an episode of its
// imported case, and demands the tool and arguments of the step on record.
func TestPublicShellSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("imports the public cases")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("%v: shell agents ask Jaeger and Alertmanager with it", err)
	}
	steps := shellSteps(t)
	dir := t.TempDir()
	results, err := cloudopsbench.Run(t.Context(), cloudopsbench.Options{Dir: filepath.Join(publicCloudOpsBench, "benchmark"), Out: dir, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	bin := programs(t)
	asked, mapped := map[recorder.Tool]int{}, map[recorder.Tool]int{}
	for _, r := range results {
		own := steps[r.Source]
		if len(own) == 0 {
			continue
		}
		script := filepath.Join(dir, r.Name+".sh")
		var text strings.Builder
		for _, s := range own {
			text.WriteString(s.command + "\n")
		}
		if err := os.WriteFile(script, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		record := filepath.Join(dir, r.Name+".run")
		command := exec.CommandContext(t.Context(), filepath.Join(bin, "kubecase"), "run", filepath.Join(dir, r.Name), "--out", record, "--", "sh", script)
		command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", r.Source, err, out)
		}
		episodes, err := filepath.Glob(filepath.Join(record, "episodes", "*"))
		if err != nil || len(episodes) != 1 {
			t.Fatalf("%s: episodes %v, %v", r.Source, episodes, err)
		}
		trajectory, err := recorder.LoadCalls(episodes[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(trajectory.Calls) != len(own) {
			t.Errorf("%s: %d commands made %d calls", r.Source, len(own), len(trajectory.Calls))
			continue
		}
		for i, s := range own {
			asked[s.tool]++
			if slices.ContainsFunc(trajectory.Calls[i].Uses, func(u recorder.Use) bool {
				for name, value := range s.args {
					if u.Args[name] != value {
						return false
					}
				}
				return u.Tool == s.tool && u.Class == recorder.Delivered
			}) {
				mapped[s.tool]++
				continue
			}
			t.Errorf("%s: %s is on record as %+v", r.Source, s.command, trajectory.Calls[i])
		}
	}
	t.Logf("steps %v, on record as such %v", asked, mapped)
	if len(asked) < 3 {
		t.Errorf("only steps of %v were there", asked)
	}
}
