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

// publicStep is a step of a public trajectory: a tool of the data set and what it was asked.
type publicStep struct {
	name string
	args map[string]string
}

var stepArgument = regexp.MustCompile(`(\w+): '([^']*)'`)

// publicSteps are those of the public trajectories, by the case's folder.
func publicSteps(t *testing.T) map[string][]publicStep {
	t.Helper()
	root := filepath.Join(publicCloudOpsBench, "golden-trajectory")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("%v: the public trajectories aren't compared", err)
	}
	out := map[string][]publicStep{}
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
			step := publicStep{s.Tool, map[string]string{}}
			for _, m := range stepArgument.FindAllStringSubmatch(s.Calling, -1) {
				step.args[m[1]] = m[2]
			}
			out[source] = append(out[source], step)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// publicRun runs a shell agent's script in an episode of each imported public case that has steps; it
// gives the folder of the run and what kubecase printed of it to check.
func publicRun(t *testing.T, script func(source string) string, check func(source, record, printed string)) {
	t.Helper()
	if testing.Short() {
		t.Skip("imports the public cases")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("%v: shell agents ask with it", err)
	}
	if _, err := os.Stat(publicCloudOpsBench); err != nil {
		t.Skipf("%v: the public cases aren't there", err)
	}
	dir := t.TempDir()
	results, err := cloudopsbench.Run(t.Context(), cloudopsbench.Options{Dir: filepath.Join(publicCloudOpsBench, "benchmark"), Out: dir, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	bin := programs(t)
	for _, r := range results {
		text := script(r.Source)
		if text == "" {
			continue
		}
		file := filepath.Join(dir, r.Name+".sh")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		record := filepath.Join(dir, r.Name+".run")
		command := exec.CommandContext(t.Context(), filepath.Join(bin, "kubecase"), "run", filepath.Join(dir, r.Name), "--out", record, "--", "sh", file)
		command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", r.Source, err, out)
		}
		check(r.Source, record, string(out))
	}
}

// shellStep is a step that a shell does without kubectl get, describe or logs.
type shellStep struct {
	tool recorder.Tool
	args map[string]string
	// command is what a shell agent runs instead.
	command string
}

func shellSteps(steps []publicStep) (out []shellStep) {
	for _, s := range steps {
		switch s.name {
		case "GetAlerts":
			out = append(out, shellStep{tool: recorder.GetAlerts, command: `curl -sf "$ALERTMANAGER_URL/api/v2/alerts"`})
		case "GetServiceDependencies":
			out = append(out, shellStep{tool: recorder.GetServiceDependencies, args: map[string]string{"service": s.args["service_name"]}, command: `curl -sf "$JAEGER_URL/api/dependencies"`})
		case "CheckNodeServiceStatus":
			node, component := s.args["node_name"], s.args["service_name"]
			out = append(out, shellStep{tool: recorder.CheckNodeServiceStatus, args: map[string]string{"node": node, "component": component},
				command: fmt.Sprintf("kubectl debug node/%s --image=busybox --profile=general -q -i -- chroot /host systemctl status %s </dev/null", node, component)})
		}
	}
	return out
}

// TestPublicShellSteps runs those steps as commands of a shell agent, each in an episode of its
// imported case, and demands the tool and arguments of the step on record.
func TestPublicShellSteps(t *testing.T) {
	steps := publicSteps(t)
	asked, mapped := map[recorder.Tool]int{}, map[recorder.Tool]int{}
	publicRun(t, func(source string) string {
		var text strings.Builder
		for _, s := range shellSteps(steps[source]) {
			text.WriteString(s.command + "\n")
		}
		return text.String()
	}, func(source, record, _ string) {
		episodes, err := filepath.Glob(filepath.Join(record, "episodes", "*"))
		if err != nil || len(episodes) != 1 {
			t.Fatalf("%s: episodes %v, %v", source, episodes, err)
		}
		trajectory, err := recorder.LoadCalls(episodes[0])
		if err != nil {
			t.Fatal(err)
		}
		own := shellSteps(steps[source])
		if len(trajectory.Calls) != len(own) {
			t.Errorf("%s: %d commands made %d calls", source, len(own), len(trajectory.Calls))
			return
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
			t.Errorf("%s: %s is on record as %+v", source, s.command, trajectory.Calls[i])
		}
	})
	t.Logf("steps %v, on record as such %v", asked, mapped)
	if len(asked) < 3 {
		t.Errorf("only steps of %v were there", asked)
	}
}

// found is the column of a run's summary that counts the facts that were established.
var found = regexp.MustCompile(`(\d+) of (\d+)`)

// TestPublicToolsEstablish uses the tools of each trajectory, as an agent of the data set does, and
// demands that they establish every fact of the imported case's graph.
func TestPublicToolsEstablish(t *testing.T) {
	steps := publicSteps(t)
	all := os.Getenv("KUBECASE_ALL_COMMANDS") != ""
	if !all {
		t.Log("every fourth case; KUBECASE_ALL_COMMANDS=1 (make fidelity) runs all, in two minutes")
	}
	seen, cases := 0, 0
	publicRun(t, func(source string) string {
		if seen++; !all && seen%4 != 1 {
			return ""
		}
		var text strings.Builder
		for _, s := range steps[source] {
			body, err := json.Marshal(s.args)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "curl -sf -o /dev/null -d '%s' \"$KUBECASE_TOOLS_URL/%s\"\n", body, s.name)
		}
		return text.String()
	}, func(source, _, printed string) {
		cases++
		if m := found.FindStringSubmatch(printed); m == nil || m[1] != m[2] || m[1] == "0" {
			t.Errorf("%s: not every fact was established:\n%s", source, printed)
		}
	})
	if cases < 3 || all && cases < 10 {
		t.Errorf("only %d cases were there", cases)
	}
}
