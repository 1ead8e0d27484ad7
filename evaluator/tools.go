package evaluator

import (
	"maps"
	"slices"

	"github.com/kubecase/kubecase/recorder"
)

// toolArgs are the canonical arguments that the recorder writes for each tool.
var toolArgs = map[recorder.Tool][]string{
	recorder.GetResources:           {"type", "namespace", "name", "labels", "fields", "output"},
	recorder.DescribeResource:       {"type", "namespace", "name"},
	recorder.GetAppYAML:             {"service", "namespace"},
	recorder.GetServiceDependencies: {"service", "query"},
	recorder.GetRecentLogs:          {"namespace", "service", "pod", "container", "previous"},
	recorder.CheckConnectivity:      {"namespace", "service", "port"},
	recorder.GetClusterConfig:       {},
	recorder.GetAlerts:              {"query"},
	recorder.GetErrorLogs:           {"namespace", "service", "pod", "container", "previous"},
	recorder.CheckNodeServiceStatus: {"node", "component"},
	recorder.ListCodeFiles:          {"app"},
	recorder.GetSourceCode:          {"app", "path"},
}

// ToolArgs gives the argument names of a tool in their canonical order, and
// whether there is such a tool.
func ToolArgs(tool recorder.Tool) ([]string, bool) {
	args, ok := toolArgs[tool]
	return slices.Clone(args), ok
}

// toolNames are T1 to T12, in that order.
func toolNames() []string {
	names := make([]string, 0, len(toolArgs))
	for tool := range maps.Keys(toolArgs) {
		names = append(names, string(tool))
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		if a < b {
			return -1
		}
		return 1
	})
	return names
}
