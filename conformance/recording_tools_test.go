package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/importers/cloudopsbench"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/tools"
)

// publicImports imports the public cases and opens each, by its folder below that of all cases.
// Who uses one closes it.
func publicImports(t *testing.T) map[string]*fixtures.Case {
	t.Helper()
	out := t.TempDir()
	results, err := cloudopsbench.Run(t.Context(), cloudopsbench.Options{Dir: filepath.Join(publicCases, "benchmark"), Out: out, Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	opened := map[string]*fixtures.Case{}
	for _, r := range results {
		if r.Name == "" {
			t.Fatalf("%s was not imported: %v", r.Source, r)
		}
		if opened[r.Source], err = fixtures.Open(filepath.Join(out, r.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return opened
}

// asTool are the arguments of a step as the tool takes them, and the tool and canonical
// arguments that must be on record: those of the evaluation's definition.
func (s goldenStep) asTool(t *testing.T) (given map[string]any, want recorder.Use) {
	t.Helper()
	tool := tools.Find(s.tool)
	if tool == nil {
		t.Fatalf("%s is no tool", s.tool)
	}
	given = map[string]any{}
	for name, value := range s.arguments {
		given[name] = value
		if n, err := strconv.Atoi(value); err == nil {
			given[name] = n
		}
		if value == "True" {
			given[name] = true
		}
	}
	want = recorder.Use{Tool: recorder.Tool(tool.Number), Args: map[string]string{}}
	service := s.arguments["service_name"] + s.arguments["app_name"]
	switch s.tool {
	case "GetResources", "DescribeResource":
		kind := goldenKinds[s.arguments["resource_type"]]
		want.Args["type"], want.Args["namespace"] = kind.resource, s.arguments["namespace"]
		if kind.cluster {
			want.Args["namespace"] = ""
		}
		if name := s.arguments["name"]; name != "" {
			want.Args["name"] = name
		}
	case "CheckNodeServiceStatus":
		want.Args["node"], want.Args["component"] = s.arguments["node_name"], service
	case "GetAlerts", "GetClusterConfiguration":
	default:
		want.Args["service"] = service
		if s.arguments["namespace"] != "" {
			want.Args["namespace"] = s.arguments["namespace"]
		}
	}
	return given, want
}

// TestGoldenTools uses, for every step of the public trajectories, the tool itself on the
// imported case, and demands that use on record.
func TestGoldenTools(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	steps := goldenSteps(t)
	opened := publicImports(t)
	binary, home := builtIn(t), t.TempDir()
	used, mapped := map[string]int{}, map[string]int{}
	for source, c := range opened {
		e := newRecordingServer(t, c).episode(t, "")
		server := tools.New(tools.Options{
			Case: c, Clock: e.Clock,
			Kubectl: func(_ context.Context, args ...string) (tools.Printed, error) {
				r := e.kubectl(t, binary, home, args...)
				return tools.Printed{Stdout: r.stdout, Stderr: r.stderr, ExitCode: r.code}, nil
			},
			Record: func(ctx context.Context, tool string, arguments map[string]string) {
				text, err := json.Marshal(arguments)
				if err != nil {
					t.Error(err)
				}
				recorder.FromContext(ctx).Annotate(recorder.KeyTool, tool)
				recorder.FromContext(ctx).Annotate(recorder.KeyArgs, string(text))
			},
		})
		web := httptest.NewServer(e.log.Handler(server.Handler(), recorder.Source{Name: recorder.Tools}))
		var wants []recorder.Use
		var asked []string
		for _, s := range steps {
			if s.source != source {
				continue
			}
			given, want := s.asTool(t)
			wants, asked = append(wants, want), append(asked, fmt.Sprint(s.tool, s.arguments))
			used[s.tool]++
			body, err := json.Marshal(given)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.Post(web.URL+"/"+s.tool, "application/json", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			// A client that leaves before the end and asks the same again makes one call.
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s%v: %s, %v", source, s.tool, s.arguments, response.Status, err)
			}
		}
		web.Close()
		requests, err := recorder.Requests(e.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			if why := r.Annotations[recorder.KeyAborted]; why != "" && r.Source() == recorder.Tools {
				t.Errorf("%s: %s was not answered whole: %s", source, r.RequestURI, why)
			}
		}
		if len(wants) == 0 {
			t.Errorf("%s: no step is of this case", source)
		}
		calls := e.calls(t)
		if len(calls) != len(wants) {
			var made []string
			for _, c := range calls {
				made = append(made, c.Command+" "+strings.Join(callText(c), " "))
			}
			t.Errorf("%s: %d uses of tools made %d calls: %s\n%s", source, len(wants), len(calls), strings.Join(asked, "\n"), strings.Join(made, "\n"))
			continue
		}
		for i, want := range wants {
			found := slices.ContainsFunc(calls[i].Uses, func(u recorder.Use) bool {
				if u.Tool != want.Tool {
					return false
				}
				for name, value := range want.Args {
					if u.Args[name] != value {
						return false
					}
				}
				return true
			})
			if !found {
				t.Errorf("%s: %s: (-want +got)\n%s", source, asked[i], cmp.Diff([]string{useText(want)}, callText(calls[i])))
				continue
			}
			mapped[tools.Find(string(want.Tool)).Name]++
		}
	}
	if diff := cmp.Diff(used, mapped); diff != "" {
		t.Errorf("steps, and those on record as they were (-want +got):\n%s", diff)
	}
	t.Logf("mapped %v of %d", mapped, len(steps))
}

// podOn finds a pod of a namespace that runs, on a node unless that is "".
func podOn(t *testing.T, c *fixtures.Case, namespace, node string) string {
	t.Helper()
	for _, o := range c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Objects {
		var pod corev1.Pod
		if err := json.Unmarshal(o.Raw, &pod); err != nil {
			t.Fatal(err)
		}
		running := len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil
		if o.Namespace == namespace && running && pod.DeletionTimestamp == nil && (node == "" || pod.Spec.NodeName == node) {
			return o.Name
		}
	}
	t.Fatalf("no pod of %s runs on node %q", namespace, node)
	return ""
}

// TestPublicConnectivity asks nc and curl in a captured container for every
// connection that the public cases' own tool checked, from the node where it did.
func TestPublicConnectivity(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	if _, err := os.Stat(filepath.Join(publicCases, "benchmark")); err != nil {
		t.Skipf("%v: the public data set isn't there", err)
	}
	binary, home := builtIn(t), t.TempDir()
	compared := 0
	for source, c := range publicImports(t) {
		kubeconfig := serveCase(t, clockCaptured, c, nil).Subjects["admin"].Kubeconfig
		// by namespace and node
		type vantage struct{ namespace, node string }
		scripts, open := map[vantage][]string{}, map[vantage][]bool{}
		for key, answer := range toolCache(t, filepath.Join(publicCases, "benchmark", source)) {
			name, raw, _ := strings.Cut(key, ":")
			var asked struct {
				Namespace string
				Service   string `json:"service_name"`
				Port      int
			}
			var text string
			if name != "CheckServiceConnectivity" || json.Unmarshal([]byte(raw), &asked) != nil || json.Unmarshal(answer, &text) != nil {
				continue
			}
			parts := strings.Split(text, "Debug Pod test results deployed on ")
			if len(parts) > 1 {
				parts = parts[1:]
			} else {
				parts[0] = ":" + parts[0]
			}
			for _, part := range parts {
				node, result, _ := strings.Cut(part, ":")
				if strings.TrimSpace(result) == "" {
					continue // told nothing
				}
				v := vantage{asked.Namespace, node}
				scripts[v] = append(scripts[v], fmt.Sprintf("nc -z -w 2 %[1]s %[2]d; echo nc $?; curl -sS -m 2 telnet://%[1]s:%[2]d </dev/null; echo curl $?", asked.Service, asked.Port))
				open[v] = append(open[v], strings.Contains(result, "Succeeded"))
			}
		}
		for v, script := range scripts {
			command := exec.CommandContext(t.Context(), binary, "exec", podOn(t, c, v.namespace, v.node), "-n", v.namespace, "--", "sh", "-c", strings.Join(script, "; "))
			command.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + home, "PATH=" + os.Getenv("PATH")}
			var stderr strings.Builder
			command.Stderr = &stderr
			printed, err := command.Output()
			if err != nil {
				t.Errorf("%s from %v: %v", source, v, err)
			}
			var want []string
			got := strings.Split(strings.TrimSpace(string(printed)), "\n")
			for _, o := range open[v] {
				compared++
				if o {
					want = append(want, "nc 0", "curl 0")
				} else {
					want = append(want, "nc 1", "curl 7")
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s from %v: (-want +got)\n%s%s", source, v, diff, &stderr)
			}
		}
	}
	if compared == 0 {
		t.Error("no check was compared")
	}
	t.Logf("%d results of checks", compared)
}
