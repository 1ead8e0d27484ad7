package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	recentLines = "50"
	// maxErrorLines bounds what GetErrorLogs gives.
	maxErrorLines = 200
)

// kubectl gives what kubectl prints; of a failure its words, and of what wasn't captured
// ErrUnsupported.
func (s *Server) kubectl(ctx context.Context, args ...string) (string, error) {
	p, err := s.o.Kubectl(ctx, args...)
	if err != nil {
		return "", err
	}
	if p.ExitCode != 0 {
		if strings.Contains(p.Stderr, "(UnsupportedQuery)") {
			_, why, _ := strings.Cut(p.Stderr, "(UnsupportedQuery): ")
			return "", unsupported("%s", strings.TrimSpace(why))
		}
		return p.Stdout + strings.TrimSpace(p.Stderr), nil
	}
	return p.Stdout, nil
}

// kubectlType is the name by which kubectl knows a type: it has no singular of endpoints,
// which agents use.
func kubectlType(name string) string {
	if strings.EqualFold(name, "endpoint") {
		return "endpoints"
	}
	return name
}

func getResources(ctx context.Context, s *Server, a arguments) (string, error) {
	args := []string{"get", kubectlType(a["resource_type"])}
	if a["name"] != "" {
		args = append(args, a["name"])
	}
	switch {
	case a["namespace"] != "":
		args = append(args, "-n", a["namespace"])
	case a["name"] == "":
		args = append(args, "-A")
	}
	switch {
	case a.is("output_yaml"):
		args = append(args, "-o", "yaml")
	case a.is("output_wide"):
		args = append(args, "-o", "wide")
	}
	if a.is("show_labels") {
		args = append(args, "--show-labels")
	}
	if a["label_selector"] != "" {
		args = append(args, "-l", a["label_selector"])
	}
	return s.kubectl(ctx, args...)
}

func describeResource(ctx context.Context, s *Server, a arguments) (string, error) {
	args := []string{"describe", kubectlType(a["resource_type"]), a["name"]}
	if a["namespace"] != "" {
		args = append(args, "-n", a["namespace"])
	}
	return s.kubectl(ctx, args...)
}

// maxTree bounds the lines of a tree of calls.
const maxTree = 2000

// getServiceDependencies draws who calls a service and whom it calls, as the data set's tool does.
func getServiceDependencies(_ context.Context, s *Server, a arguments) (string, error) {
	text, found, err := s.captured("GetServiceDependencies", a)
	if found || err != nil {
		return text, err
	}
	var calls []Call
	if s.o.Dependencies != nil {
		if calls, err = s.o.Dependencies(); err != nil {
			return "", err
		}
	}
	if len(calls) == 0 {
		return "", unsupported("who calls whom was not captured%s", s.o.Case.WhyNot("tools", "traces"))
	}
	service := a["service_name"]
	downstream := map[string][]string{}
	var callers []string
	known := false
	for _, c := range calls {
		known = known || c.From == service || c.To == service
		if !slices.Contains(downstream[c.From], c.To) {
			downstream[c.From] = append(downstream[c.From], c.To)
		}
		if c.To == service && !slices.Contains(callers, c.From) {
			callers = append(callers, c.From)
		}
	}
	if !known {
		return "", unsupported("no call of %q was captured; there are calls of: %s", service, strings.Join(slices.Sorted(maps.Keys(downstream)), ", "))
	}
	out := []string{"[Service]: " + service, "[Upstream (Called By)]: " + cmp.Or(strings.Join(callers, ", "), "(None)"), "[Downstream (Calls)]:"}
	if len(downstream[service]) == 0 {
		return strings.Join(append(out, "(None - Leaf Service)"), "\n"), nil
	}
	out = append(out, service)
	// A service that calls itself through others is drawn once on each way.
	var draw func(name, indent string, way []string)
	draw = func(name, indent string, way []string) {
		for i, next := range downstream[name] {
			branch, below := "├── ", "│   "
			if i == len(downstream[name])-1 {
				branch, below = "└── ", "    "
			}
			if len(out) >= maxTree {
				return
			}
			out = append(out, indent+branch+next)
			if !slices.Contains(way, next) {
				draw(next, indent+below, append(slices.Clone(way), next))
			}
		}
	}
	draw(service, "", []string{service})
	if len(out) >= maxTree {
		out = append(out, fmt.Sprintf("(more than %d lines)", maxTree))
	}
	return strings.Join(out, "\n"), nil
}

// captured finds a tool's captured answer to these arguments, its text moved into the time
// of the episode.
func (s *Server) captured(tool string, a arguments) (text string, found bool, err error) {
	answers, err := fixtures.ReadEntries[fixtures.ToolAnswer](s.o.Case, fixtures.ToolDocument(tool))
	if err != nil {
		return "", false, err
	}
	for _, known := range answers {
		same := true
		for name, value := range known.Arguments {
			same = same && a[name] == value
		}
		if !same {
			continue
		}
		if json.Unmarshal(known.Answer, &text) != nil {
			text = string(known.Answer) // JSON that is no text is answered as it is
		}
		return string(clock.ShiftText([]byte(text), s.o.Clock.Offset())), true, nil
	}
	return "", false, nil
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// namespaceOf is the one that was given, or the one in which there is a workload or service of the
// name.
func (s *Server) namespaceOf(a arguments, name string) string {
	if a["namespace"] != "" {
		return a["namespace"]
	}
	for _, gvr := range []schema.GroupVersionResource{
		deployments, {Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "apps", Version: "v1", Resource: "daemonsets"}, {Version: "v1", Resource: "services"},
	} {
		r := s.o.Case.Resource(gvr)
		if r == nil {
			continue
		}
		if i := slices.IndexFunc(r.Objects, func(o *fixtures.Object) bool { return o.Name == name }); i >= 0 {
			return r.Objects[i].Namespace
		}
	}
	return ""
}

func getAppYAML(ctx context.Context, s *Server, a arguments) (string, error) {
	if text, found, err := s.captured("GetAppYAML", a); found || err != nil {
		return text, err
	}
	in := s.namespaceOf(a, a["app_name"])
	if in == "" {
		return "", unsupported("the case has no workload and no service %q; the manifests that were applied were not captured", a["app_name"])
	}
	var out []string
	for _, kind := range []string{"deployment", "statefulset", "daemonset", "service"} {
		p, err := s.o.Kubectl(ctx, "get", kind, a["app_name"], "-n", in, "-o", "yaml", "--ignore-not-found")
		if err != nil {
			return "", err
		}
		if p.ExitCode == 0 && p.Stdout != "" {
			out = append(out, p.Stdout)
		}
	}
	return strings.Join(out, "---\n"), nil
}

func getRecentLogs(ctx context.Context, s *Server, a arguments) (string, error) {
	lines := a["lines"]
	if lines == "" {
		lines = recentLines
	}
	in := s.namespaceOf(a, a["service_name"])
	args := []string{"logs", "-n", in, "--tail", lines}
	for _, kind := range []string{"deployments", "statefulsets", "daemonsets"} {
		r := s.o.Case.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: kind})
		if r != nil && r.Find(in, a["service_name"]) != nil {
			return s.kubectl(ctx, append(args, strings.TrimSuffix(kind, "s")+"/"+a["service_name"])...)
		}
	}
	return s.kubectl(ctx, append(args, "-l", "app="+a["service_name"])...)
}

// checkConnectivity words captured probes: one that holds for any place as it is, those of
// nodes as a report.
func checkConnectivity(_ context.Context, s *Server, a arguments) (string, error) {
	probes, err := fixtures.ReadEntries[fixtures.Probe](s.o.Case, fixtures.ConnectivityDocument)
	if err != nil {
		return "", err
	}
	var anywhere *fixtures.Probe
	var byNode []string
	for i := range probes {
		p := &probes[i]
		host, _, _ := strings.Cut(p.Host, ".")
		if fmt.Sprint(p.Port) != a["port"] || p.Host != a["service_name"] && host != a["service_name"] ||
			a["namespace"] != "" && p.From.Namespace != "" && p.From.Namespace != a["namespace"] {
			continue
		}
		text := p.Output
		if text == "" {
			text = string(p.Result)
		}
		if p.From.Node == "" {
			anywhere = p
			continue
		}
		byNode = append(byNode, fmt.Sprintf("Debug Pod test results deployed on %s: %s", p.From.Node, strings.TrimSpace(text)))
	}
	switch {
	case len(byNode) > 0:
		return fmt.Sprintf("=== Service %s:%s Connectivity test report ===\n%s\n", a["service_name"], a["port"], strings.Join(byNode, "\n")), nil
	case anywhere != nil:
		return anywhere.Output, nil
	}
	return "", unsupported("no connection to %s:%s was tried%s", a["service_name"], a["port"], s.o.Case.WhyNot("probes"))
}

// nodeConfiguration is what GetClusterConfiguration says of a node.
type nodeConfiguration struct {
	Name                 string            `json:"name"`
	Role                 string            `json:"role"`
	Status               string            `json:"status"`
	Conditions           map[string]string `json:"conditions"`
	Taints               []string          `json:"taints"`
	Labels               map[string]string `json:"labels"`
	AllocatableResources map[string]string `json:"allocatable_resources"`
}

func getClusterConfiguration(_ context.Context, s *Server, a arguments) (string, error) {
	if text, found, err := s.captured("GetClusterConfiguration", a); found || err != nil {
		return text, err
	}
	r := s.o.Case.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	if r == nil {
		return "", unsupported("the nodes were not captured")
	}
	out := struct {
		NodeCount int                 `json:"node_count"`
		Nodes     []nodeConfiguration `json:"nodes"`
	}{NodeCount: len(r.Objects)}
	for _, o := range r.Objects {
		var node corev1.Node
		if err := json.Unmarshal(o.Raw, &node); err != nil {
			return "", fmt.Errorf("the captured node %s doesn't fit its type: %w", o.Name, err)
		}
		n := nodeConfiguration{Name: node.Name, Role: "worker", Status: "NotReady", Conditions: map[string]string{}, Taints: []string{}, Labels: node.Labels, AllocatableResources: map[string]string{}}
		for label := range node.Labels {
			if label == "node-role.kubernetes.io/control-plane" || label == "node-role.kubernetes.io/master" {
				n.Role = "master"
			}
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				if c.Status == corev1.ConditionTrue {
					n.Status = "Ready"
				}
				continue
			}
			n.Conditions[string(c.Type)] = string(c.Status)
		}
		for _, t := range node.Spec.Taints {
			n.Taints = append(n.Taints, t.ToString())
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := node.Status.Allocatable[name]; ok {
				n.AllocatableResources[string(name)] = q.String()
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func getAlerts(_ context.Context, s *Server, a arguments) (string, error) {
	if text, found, err := s.captured("GetAlerts", a); found || err != nil {
		return text, err
	}
	data, err := s.o.Case.Document("alerts/alerts.json")
	if errors.Is(err, fs.ErrNotExist) {
		return "", unsupported("alerts were not captured%s", s.o.Case.WhyNot("alerts"))
	}
	if err != nil {
		return "", err
	}
	return string(clock.ShiftJSON(data, s.o.Clock.Offset())), nil
}

// errorLine is what the public data set counts as a line of an error.
var errorLine = regexp.MustCompile(`(?i)error|exception|fail|fatal|panic|critical|timeout|refused`)

func getErrorLogs(ctx context.Context, s *Server, a arguments) (string, error) {
	if text, found, err := s.captured("GetErrorLogs", a); found || err != nil {
		return text, err
	}
	text, err := getRecentLogs(ctx, s, arguments{"service_name": a["service_name"], "namespace": a["namespace"], "lines": "5000"})
	if err != nil {
		return "", err
	}
	var out []string
	total := 0
	for line := range strings.Lines(text) {
		total++
		if errorLine.MatchString(line) {
			out = append(out, line)
		}
	}
	found := len(out)
	if found > maxErrorLines {
		out = out[found-maxErrorLines:]
	}
	return fmt.Sprintf("%d of %d lines tell of errors; the last %d:\n%s", found, total, len(out), strings.Join(out, "")), nil
}

func checkNodeService(_ context.Context, s *Server, a arguments) (string, error) {
	runs, err := fixtures.ReadEntries[fixtures.CommandRun](s.o.Case, fixtures.NodeCommandsDocument(a["node_name"]))
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if slices.Equal(r.Command, []string{"systemctl", "status", a["service_name"]}) {
			text := clock.ShiftText([]byte(r.Stdout), s.o.Clock.Offset())
			return fmt.Sprintf("Service: %s\nNode: %s\nStatus: %s", a["service_name"], a["node_name"], text), nil
		}
	}
	return "", unsupported("the status of %s on node %q was not captured%s", a["service_name"], a["node_name"], s.o.Case.WhyNot("nodes/"+a["node_name"], "nodes"))
}

func listCodeFiles(_ context.Context, s *Server, a arguments) (string, error) {
	prefix := "source/" + a["app_name"] + "/"
	var out []string
	for _, name := range s.o.Case.DocumentNames() {
		if rest, found := strings.CutPrefix(name, prefix); found {
			out = append(out, rest)
		}
	}
	if len(out) == 0 {
		return "", unsupported("the source of %q was not captured%s", a["app_name"], s.o.Case.WhyNot("source/"+a["app_name"]))
	}
	sort.Strings(out)
	return strings.Join(out, "\n") + "\n", nil
}

func getSourceCode(_ context.Context, s *Server, a arguments) (string, error) {
	name := path.Join("source", path.Clean("/"+a["app_name"]), path.Clean("/"+a["file_path"]))
	if !strings.HasPrefix(name, "source/"+a["app_name"]+"/") {
		return "", fmt.Errorf("%w: %q is no path in the source of %q", ErrArguments, a["file_path"], a["app_name"])
	}
	data, err := s.o.Case.Document(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", unsupported("the file %q of %q was not captured; ListCodeFiles names those that were", a["file_path"], a["app_name"])
	}
	return string(data), err
}
