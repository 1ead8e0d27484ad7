// Package tools offers a case through the twelve diagnostic tools T1 to T12 of the
// Cloud-OpsBench interface, as JSON over HTTP with an OpenAPI document and as an MCP
// server.
//
// What kubectl prints is kubectl's own: lists, descriptions, manifests and logs are asked
// for with it, through the same server. Answers that were captured of a tool win over those
// that are made of other data of the case. What the case doesn't hold is UnsupportedQuery.
package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// Printed is what a command of kubectl printed.
type Printed struct {
	Stdout, Stderr string
	ExitCode       int
}

// Options are what a Server answers from.
type Options struct {
	Case  *fixtures.Case
	Clock clock.Clock
	// Kubectl runs kubectl against the case as the episode's subject.
	Kubectl func(ctx context.Context, args ...string) (Printed, error)
	// Dependencies are the calls between services that traces or a mesh's metrics tell of, for
	// a case that has no answers of GetServiceDependencies itself; nil: there are none.
	Dependencies func() ([]Call, error)
	// Record is told, before the answer, which tool ("T6") was used with which canonical
	// arguments; nil: nobody is. Uses that kubectl's own requests tell of aren't reported.
	Record func(ctx context.Context, tool string, arguments map[string]string)
}

// Call is that one service calls another.
type Call struct{ From, To string }

// Server answers for one episode.
type Server struct{ o Options }

// New makes the tools of an episode.
func New(o Options) *Server { return &Server{o} }

// ErrUnsupported says that an answer is outside what was captured.
var ErrUnsupported = errors.New("UnsupportedQuery")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// ErrArguments says that a call's arguments are wrong.
var ErrArguments = errors.New("InvalidArguments")

// Argument is one of a tool's.
type Argument struct {
	Name string
	// Aliases are other names that are taken for it.
	Aliases     []string
	Description string
	// Type is "string", "boolean" or "integer", as in JSON Schema.
	Type     string
	Required bool
}

// Tool is one of the twelve.
type Tool struct {
	// Number is the field's ("T1"), Name that of the Cloud-OpsBench interface.
	Number, Name string
	Aliases      []string
	Description  string
	Arguments    []Argument
	answer       func(ctx context.Context, s *Server, a arguments) (string, error)
	// throughKubectl: the requests of kubectl are the record of it.
	throughKubectl bool
}

var (
	resourceType = Argument{Name: "resource_type", Aliases: []string{"type", "kind", "resource"}, Description: "pods, deployments.apps, nodes, …", Type: "string", Required: true}
	namespace    = Argument{Name: "namespace", Aliases: []string{"ns"}, Description: "the namespace; without: all of them for lists, default for one object", Type: "string"}
	serviceName  = Argument{Name: "service_name", Aliases: []string{"svc_name", "service", "app_name", "name"}, Description: "the service", Type: "string", Required: true}
	appName      = Argument{Name: "app_name", Aliases: []string{"service_name", "service", "app", "name"}, Description: "the app", Type: "string", Required: true}
)

// Tools are the twelve, in their order.
var Tools = []Tool{
	{Number: "T1", Name: "GetResources", Description: "List resources, or get one, as kubectl get prints them.", throughKubectl: true, answer: getResources, Arguments: []Argument{
		resourceType, {Name: "name", Description: "one object; without: the list", Type: "string"}, namespace,
		{Name: "output_wide", Aliases: []string{"wide"}, Description: "more columns", Type: "boolean"}, {Name: "show_labels", Description: "with labels", Type: "boolean"},
		{Name: "output_yaml", Aliases: []string{"yaml"}, Description: "as YAML", Type: "boolean"}, {Name: "label_selector", Aliases: []string{"selector", "labels"}, Description: "app=cart", Type: "string"},
	}},
	{Number: "T2", Name: "DescribeResource", Description: "Describe one object, events included, as kubectl describe does.", throughKubectl: true, answer: describeResource, Arguments: []Argument{
		resourceType, {Name: "name", Description: "the object", Type: "string", Required: true}, namespace,
	}},
	{Number: "T3", Name: "GetAppYAML", Description: "The configuration of an app: the manifests that were applied, or else the objects.", answer: getAppYAML, Arguments: []Argument{appName, namespace}},
	{Number: "T4", Name: "GetServiceDependencies", Description: "Who calls a service, and whom it calls.", answer: getServiceDependencies, Arguments: []Argument{serviceName}},
	{Number: "T5", Name: "GetRecentLogs", Description: "The last lines of a service's logs.", throughKubectl: true, answer: getRecentLogs, Arguments: []Argument{
		serviceName, namespace, {Name: "lines", Description: "how many; 50", Type: "integer"},
	}},
	{Number: "T6", Name: "CheckServiceConnectivity", Aliases: []string{"CheckConnectivity"}, Description: "Whether a service's port can be reached, from where it was tried.", answer: checkConnectivity, Arguments: []Argument{
		{Name: "service_name", Aliases: []string{"svc_name", "service", "host"}, Description: "the service", Type: "string", Required: true}, namespace,
		{Name: "port", Description: "the port", Type: "integer", Required: true},
	}},
	{Number: "T7", Name: "GetClusterConfiguration", Description: "The nodes: status, conditions, taints, labels, resources.", answer: getClusterConfiguration},
	{Number: "T8", Name: "GetAlerts", Description: "The alerts that were firing.", answer: getAlerts},
	{Number: "T9", Name: "GetErrorLogs", Description: "The lines of a service's logs that tell of errors.", answer: getErrorLogs, Arguments: []Argument{serviceName, namespace}},
	{Number: "T10", Name: "CheckNodeServiceStatus", Description: "The status of a service of a node: kubelet, containerd, kube-proxy, kube-scheduler.", answer: checkNodeService, Arguments: []Argument{
		{Name: "node_name", Aliases: []string{"node"}, Description: "the node", Type: "string", Required: true},
		{Name: "service_name", Aliases: []string{"component_name", "component", "service"}, Description: "kubelet, containerd, …", Type: "string", Required: true},
	}},
	{Number: "T11", Name: "ListCodeFiles", Description: "The files of an app's source.", answer: listCodeFiles, Arguments: []Argument{appName}},
	{Number: "T12", Name: "GetSourceCode", Description: "One file of an app's source.", answer: getSourceCode, Arguments: []Argument{
		appName, {Name: "file_path", Aliases: []string{"path", "file"}, Description: "as ListCodeFiles has it", Type: "string", Required: true},
	}},
}

// canonicalNames are what the record calls the arguments.
var canonicalNames = map[string]string{"service_name": "service", "svc_name": "service", "node_name": "node", "app_name": "app", "file_path": "path", "resource_type": "type"}

// Find gives a tool by name, alias or number; nil for none.
func Find(name string) *Tool {
	for i := range Tools {
		if t := &Tools[i]; strings.EqualFold(t.Name, name) || strings.EqualFold(t.Number, name) || slices.ContainsFunc(t.Aliases, func(a string) bool { return strings.EqualFold(a, name) }) {
			return t
		}
	}
	return nil
}

// arguments are a call's by their canonical names; absent ones are empty.
type arguments map[string]string

func (a arguments) is(name string) bool { return a[name] == "true" }

// read takes the arguments of a call, as JSON has them, by name or alias.
func (t *Tool) read(given map[string]any) (arguments, error) {
	out := arguments{}
	for name, value := range given {
		i := slices.IndexFunc(t.Arguments, func(a Argument) bool { return a.Name == name })
		if i < 0 {
			i = slices.IndexFunc(t.Arguments, func(a Argument) bool { return slices.Contains(a.Aliases, name) })
		}
		if i < 0 {
			names := make([]string, len(t.Arguments))
			for j, a := range t.Arguments {
				names[j] = a.Name
			}
			return nil, fmt.Errorf("%w: %s has no argument %q; it has: %s", ErrArguments, t.Name, name, strings.Join(names, ", "))
		}
		switch v := value.(type) {
		case nil:
		case string:
			out[t.Arguments[i].Name] = v
		case bool:
			out[t.Arguments[i].Name] = fmt.Sprint(v)
		case float64:
			if v != float64(int64(v)) {
				return nil, fmt.Errorf("%w: %s of %s is no whole number", ErrArguments, name, t.Name)
			}
			out[t.Arguments[i].Name] = fmt.Sprint(int64(v))
		default:
			return nil, fmt.Errorf("%w: %s of %s is neither text nor a number nor true or false", ErrArguments, name, t.Name)
		}
		if text := out[t.Arguments[i].Name]; len(text) > 4096 || strings.HasPrefix(text, "-") {
			return nil, fmt.Errorf("%w: %s of %s can't be %.40q", ErrArguments, name, t.Name, text)
		}
	}
	for _, a := range t.Arguments {
		if a.Required && out[a.Name] == "" {
			return nil, fmt.Errorf("%w: %s needs %s: %s", ErrArguments, t.Name, a.Name, a.Description)
		}
	}
	return out, nil
}

// Call uses a tool. The error wraps ErrArguments or ErrUnsupported where that is the reason.
func (s *Server) Call(ctx context.Context, t *Tool, given map[string]any) (string, error) {
	a, err := t.read(given)
	if err != nil {
		return "", err
	}
	if s.o.Record != nil && !t.throughKubectl {
		canonical := map[string]string{}
		for name, value := range a {
			if known, ok := canonicalNames[name]; ok {
				name = known
			}
			if t.Number == "T10" && name == "service" {
				name = "component"
			}
			canonical[name] = value
		}
		if t.Number == "T3" && canonical["app"] != "" {
			canonical["service"] = canonical["app"]
			delete(canonical, "app")
		}
		s.o.Record(ctx, t.Number, canonical)
	}
	return t.answer(ctx, s, a)
}
