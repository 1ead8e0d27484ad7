package recorder

import (
	"encoding/json"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxTold bounds the documents and nodes that are read of one answer of a tool.
const maxTold = 1000

// read makes of a tool's text what kubectl's answer to the same is: objects of manifests
// and of nodes, and an exit code of a probe. A text of another form stays text.
func (u *Use) read(text string) {
	switch u.Tool {
	case GetAppYAML:
		u.Response.Objects = manifests(text)
		for _, o := range u.Response.Objects {
			// The tool takes no namespace; where the app is, its manifests say.
			if namespace := strings.TrimSpace(textOf(o, "metadata", "namespace")); u.Args["namespace"] == "" && namespace != "" && u.Args != nil {
				u.Args["namespace"] = namespace
			}
		}
	case GetClusterConfig:
		u.Response.Objects = nodesTold(text)
	case CheckConnectivity:
		u.Response.ExitCode = probesTold(text)
	}
}

func textOf(o map[string]any, path ...string) string { return text(field(o, path...)) }

var documentEnd = regexp.MustCompile(`(?m)^---.*$`)

// manifests are the objects in YAML documents, those of lists too.
func manifests(in string) []map[string]any {
	var out []map[string]any
	for _, document := range documentEnd.Split(in, maxTold) {
		var o map[string]any
		if yaml.Unmarshal([]byte(document), &o) != nil || text(o["kind"]) == "" {
			continue
		}
		items, list := o["items"].([]any)
		if !list {
			out = append(out, o)
			continue
		}
		for _, item := range items[:min(len(items), maxTold)] {
			if inner, ok := item.(map[string]any); ok {
				out = append(out, inner)
			}
		}
	}
	return out
}

// nodesTold are the nodes of GetClusterConfiguration in the shape of nodes.
func nodesTold(in string) []map[string]any {
	var told struct {
		Nodes []struct {
			Name        string            `json:"name"`
			Status      string            `json:"status"`
			Conditions  map[string]string `json:"conditions"`
			Taints      []string          `json:"taints"`
			Labels      map[string]any    `json:"labels"`
			Allocatable map[string]any    `json:"allocatable_resources"`
		} `json:"nodes"`
	}
	if json.Unmarshal([]byte(in), &told) != nil {
		return nil
	}
	var out []map[string]any
	for _, n := range told.Nodes[:min(len(told.Nodes), maxTold)] {
		ready := "False"
		if n.Status == "Ready" {
			ready = "True"
		}
		conditions := []any{map[string]any{"type": "Ready", "status": ready}}
		for kind, status := range n.Conditions {
			conditions = append(conditions, map[string]any{"type": kind, "status": status})
		}
		var taints []any
		for _, t := range n.Taints {
			key, effect, _ := strings.Cut(t, ":")
			key, value, _ := strings.Cut(key, "=")
			taint := map[string]any{"key": key, "effect": effect}
			if value != "" {
				taint["value"] = value
			}
			taints = append(taints, taint)
		}
		out = append(out, map[string]any{
			"metadata": map[string]any{"name": n.Name, "labels": n.Labels},
			"spec":     map[string]any{"taints": taints},
			"status":   map[string]any{"conditions": conditions, "allocatable": n.Allocatable},
		})
	}
	return out
}

// probesTold is 0 where every probe in a report of CheckServiceConnectivity succeeded, 1 where none
// did; nil where they differ, or where there is none.
func probesTold(in string) *int {
	if _, report, titled := strings.Cut(in, "===\n"); titled {
		in = report
	}
	parts := strings.Split(in, "Debug Pod test results deployed on ")
	if len(parts) > 1 { // each begins with its node
		parts = parts[1:]
		for i := range parts {
			_, parts[i], _ = strings.Cut(parts[i], ":")
		}
	}
	succeeded, failed := 0, 0
	for _, part := range parts {
		switch {
		case strings.TrimSpace(part) == "": // it tells nothing
		case strings.Contains(strings.ToLower(part), "succeeded"):
			succeeded++
		default:
			failed++
		}
	}
	code := 0
	switch {
	case succeeded > 0 && failed == 0:
	case failed > 0 && succeeded == 0:
		code = 1
	default:
		return nil
	}
	return &code
}
