package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/recorder"
)

// publicCases is where the public cases may lie: beside the checkout, never in it,
// for their data set states no licence.
var publicCases = filepath.Join("..", "..", "shared", "cloud-opsbench", "cases")

// goldenStep is a step of a public trajectory.
type goldenStep struct {
	// source is the case's folder below that of all cases.
	source    string
	tool      string
	arguments map[string]string
	// system's namespace, in which tools without one look.
	namespace string
}

// goldenArgument is one of "name: 'value'", "name: None", "name: 10".
var goldenArgument = regexp.MustCompile(`(\w+): (?:'([^']*)'|(\w+))`)

// goldenSteps reads all steps of the public trajectories, file by file in order.
func goldenSteps(t *testing.T) []goldenStep {
	t.Helper()
	root := filepath.Join(publicCases, "golden-trajectory")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: the public trajectories aren't compared", root)
	}
	var steps []goldenStep
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
		namespace := "boutique"
		if strings.Contains(filepath.ToSlash(name), "/trainticket/") {
			namespace = "train-ticket"
		}
		for i, s := range document.Trace {
			_, text, ok := strings.Cut(s.Calling, "arguments=")
			if !ok {
				return fmt.Errorf("%s: step %d has no arguments: %s", name, i+1, s.Calling)
			}
			arguments := map[string]string{}
			for _, m := range goldenArgument.FindAllStringSubmatch(text, -1) {
				if m[3] != "None" && m[3] != "False" {
					arguments[m[1]] = m[2] + m[3]
				}
			}
			steps = append(steps, goldenStep{source, s.Tool, arguments, namespace})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// goldenKind is a type as the trajectories name it.
type goldenKind struct {
	resource, group, version, kind string
	cluster                        bool
}

// goldenKinds are the types by every name that the trajectories give them.
var goldenKinds = map[string]goldenKind{
	"pod": {"pods", "core", "v1", "Pod", false}, "po": {"pods", "core", "v1", "Pod", false},
	"svc": {"services", "core", "v1", "Service", false}, "service": {"services", "core", "v1", "Service", false},
	"ep": {"endpoints", "core", "v1", "Endpoints", false}, "endpoint": {"endpoints", "core", "v1", "Endpoints", false},
	"event": {"events", "core", "v1", "Event", false}, "secret": {"secrets", "core", "v1", "Secret", false},
	"node": {"nodes", "core", "v1", "Node", true}, "pv": {"persistentvolumes", "core", "v1", "PersistentVolume", true},
	"pvc":           {"persistentvolumeclaims", "core", "v1", "PersistentVolumeClaim", false},
	"resourcequota": {"resourcequotas", "core", "v1", "ResourceQuota", false},
	"deploy":        {"deployments", "apps", "v1", "Deployment", false},
	"replicaset":    {"replicasets", "apps", "v1", "ReplicaSet", false},
}

// lookedUp are resources that kubectl reads besides the one that it was asked for.
var lookedUp = []goldenKind{
	{"serviceaccounts", "core", "v1", "ServiceAccount", false}, {"namespaces", "core", "v1", "Namespace", true},
	{"endpointslices", "discovery.k8s.io", "v1", "EndpointSlice", false}, {"leases", "coordination.k8s.io", "v1", "Lease", false},
}

// command is what a shell agent runs instead of the step, and the use that it must
// be mapped to, as useText writes it. No command: a tool that no kubectl serves.
func (s goldenStep) command(t *testing.T) (command, use string) {
	t.Helper()
	a := s.arguments
	kind := goldenKinds[a["resource_type"]]
	named := a["resource_type"]
	if named == "endpoint" {
		named = "endpoints" // kubectl knows no singular of it
	}
	namespace := a["namespace"]
	if namespace == "" {
		namespace = s.namespace
	}
	service := a["service_name"] + a["app_name"]
	pod := service + "-5d4f8c7b6-x2v9k"
	switch s.tool {
	case "GetResources", "DescribeResource":
		if kind.resource == "" {
			t.Fatalf("the type %q of %v is not in goldenKinds", a["resource_type"], a)
		}
		in := namespace
		if kind.cluster {
			in = ""
		}
		use = " type=" + kind.resource + " namespace=" + in
		if a["name"] != "" {
			use += " name=" + a["name"]
		}
		if s.tool == "DescribeResource" {
			return "describe " + named + " " + a["name"] + " -n " + namespace, "T2" + use
		}
		command = strings.TrimSpace("get "+named+" "+a["name"]) + " -n " + namespace
		if a["output_wide"] == "True" {
			command += " -o wide"
		}
		if a["show_labels"] == "True" {
			command += " --show-labels"
		}
		if a["label_selector"] != "" {
			command += " -l " + a["label_selector"]
			use += " labels=" + a["label_selector"]
		}
		return command, "T1" + strings.Replace(use, " labels=", " labels=", 1) + " output=table"
	case "GetAppYAML":
		return "get deploy,svc,sa " + service + " -o yaml -n " + namespace, "T3 namespace=" + namespace + " service=" + service
	case "GetRecentLogs":
		lines := a["lines"]
		if lines == "" {
			lines = "50"
		}
		return "logs deploy/" + service + " --tail=" + lines + " -n " + namespace,
			"T5 namespace=" + namespace + " service=" + service + " pod=" + pod + " container=main"
	case "GetErrorLogs":
		return "logs deploy/" + service + " -n " + namespace,
			"T9 namespace=" + namespace + " service=" + service + " pod=" + pod + " container=main"
	case "GetClusterConfiguration":
		return "get nodes -o yaml", "T7"
	}
	return "", ""
}

// goldenCase is a case with an object of every kind and name that steps ask for,
// and for each service a deployment with a pod that logs.
func goldenCase(t *testing.T, steps []goldenStep) *fixtures.Case {
	t.Helper()
	const created = `"creationTimestamp": "2026-12-01T00:00:00Z"`
	items := map[goldenKind]map[string]string{}
	files := fstest.MapFS{
		"case.yaml":    {Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: golden\ncapture: {time: \"2026-12-01T00:10:00Z\"}\ncoverage: {logs: [\"*\"]}\n")},
		"version.json": {Data: []byte(`{"major": "1", "minor": "34", "gitVersion": "v1.34.4"}`)},
	}
	add := func(kind goldenKind, namespace, name, rest string) {
		if items[kind] == nil {
			items[kind] = map[string]string{}
		}
		if name == "" {
			return
		}
		in := ""
		if !kind.cluster {
			in = fmt.Sprintf(`, "namespace": %q`, namespace)
		}
		if rest == "" {
			rest = `, "labels": {}}`
		}
		items[kind][namespace+"/"+name] = fmt.Sprintf(`{"metadata": {"name": %q%s, "uid": %q, "resourceVersion": "7", %s%s}`, name, in, "u-"+kind.resource+"-"+name, created, rest)
	}
	for _, kind := range goldenKinds {
		add(kind, "", "", "")
	}
	for _, kind := range lookedUp {
		add(kind, "", "", "")
	}
	add(goldenKinds["node"], "", "worker-01", `, "labels": {"role": "worker"}}`)
	for _, s := range steps {
		namespace := s.arguments["namespace"]
		if namespace == "" {
			namespace = s.namespace
		}
		add(lookedUp[1], "", namespace, "")
		if kind := goldenKinds[s.arguments["resource_type"]]; kind.resource != "" {
			if kind.resource == "deployments" {
				continue // below
			}
			if kind.cluster {
				namespace = ""
			}
			add(kind, namespace, s.arguments["name"], "")
		}
	}
	for _, s := range steps {
		service := s.arguments["service_name"] + s.arguments["app_name"]
		if s.arguments["resource_type"] == "deploy" {
			service = s.arguments["name"]
		}
		if service == "" || s.tool == "CheckNodeServiceStatus" {
			continue
		}
		pod := service + "-5d4f8c7b6-x2v9k"
		template := fmt.Sprintf(`"selector": {"matchLabels": {"app": %q}}, "template": {"metadata": {"labels": {"app": %q}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}`, service, service)
		add(goldenKinds["deploy"], s.namespace, service, `}, "spec": {"replicas": 1, `+template+`}`)
		add(goldenKinds["svc"], s.namespace, service, `}, "spec": {"ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": "x"}, "type": "ClusterIP"}`)
		add(lookedUp[0], s.namespace, service, "")
		add(goldenKinds["pod"], s.namespace, pod, fmt.Sprintf(`, "labels": {"app": %q}}, "spec": {"nodeName": "worker-01", "containers": [{"name": "main", "image": "x"}]}, "status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "x", "imageID": "", "state": {"running": {"startedAt": "2026-12-01T00:00:00Z"}}}]}`, service))
		files["logs/"+s.namespace+"/"+pod+"/main.plain.log"] = &fstest.MapFile{Data: []byte("started\nERROR cannot reach the database\n")}
	}
	for kind, objects := range items {
		var list []string
		for _, key := range slices.Sorted(func(yield func(string) bool) {
			for key := range objects {
				if !yield(key) {
					return
				}
			}
		}) {
			list = append(list, objects[key])
		}
		apiVersion := kind.version
		if kind.group != "core" {
			apiVersion = kind.group + "/" + kind.version
		}
		files["objects/"+kind.group+"_"+kind.version+"_"+kind.resource+".json"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			`{"kind": "%sList", "apiVersion": %q, "metadata": {"resourceVersion": "9"}, "items": [%s]}`, kind.kind, apiVersion, strings.Join(list, ",\n"))}
	}
	c, err := fixtures.OpenFS("golden", files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestGoldenTrajectories runs, for every step of the public trajectories that
// kubectl can do, the command that does it, and demands the call that the step was.
// Steps that are the same are run once.
func TestGoldenTrajectories(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	steps := goldenSteps(t)
	server := newRecordingServer(t, goldenCase(t, steps))
	type command struct {
		line, use string
		steps     map[string]int // by tool
	}
	var commands []*command
	served, others := map[string]int{}, map[string]int{}
	for _, s := range steps {
		line, use := s.command(t)
		if line == "" {
			others[s.tool]++
			continue
		}
		served[s.tool]++
		i := slices.IndexFunc(commands, func(c *command) bool { return c.line == line && c.use == use })
		if i < 0 {
			i = len(commands)
			commands = append(commands, &command{line: line, use: use, steps: map[string]int{}})
		}
		commands[i].steps[s.tool]++
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	mapped, home := map[string]int{}, t.TempDir()
	binary := builtIn(t)
	for w := range workers {
		group.Go(func() {
			// An episode's commands run one after the other, as an agent's do.
			e := server.episode(t, "")
			var mine []*command
			var ran []kubectlRun
			for i := w; i < len(commands); i += workers {
				mine = append(mine, commands[i])
				ran = append(ran, e.kubectl(t, binary, home, strings.Fields(commands[i].line)...))
			}
			calls := e.calls(t)
			if len(calls) != len(mine) {
				t.Errorf("%d commands made %d calls", len(mine), len(calls))
			}
			for i, c := range mine {
				own := ran[i].between(calls)
				if len(own) != 1 {
					t.Errorf("kubectl %s: %d calls instead of one", c.line, len(own))
					continue
				}
				j := slices.IndexFunc(own[0].Uses, func(u recorder.Use) bool { return useText(u) == c.use })
				if j < 0 || own[0].Class != recorder.Delivered {
					t.Errorf("kubectl %s: (-want +got)\n%s\n%s", c.line, cmp.Diff([]string{string(recorder.Delivered), c.use}, callText(own[0])), ran[i].stderr)
					continue
				}
				mu.Lock()
				for tool, n := range c.steps {
					mapped[tool] += n
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff(served, mapped); diff != "" {
		t.Errorf("steps that kubectl serves, and those that were mapped (-want +got):\n%s", diff)
	}
	total := 0
	for _, n := range mapped {
		total += n
	}
	t.Logf("%d steps, %d different commands: mapped %v, %d in all; tools that kubectl doesn't serve: %v", len(steps), len(commands), mapped, total, others)
}
