package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metricsGroup is served by metrics-server, which doesn't use the store that all else
// is kept in, and prints, pages and refuses in ways of its own
// (github.com/kubernetes-sigs/metrics-server, pkg/api).
const metricsGroup = "metrics.k8s.io"

func (r *resource) ofMetricsServer() bool {
	return r.gvr.Group == metricsGroup && (r.gvr.Resource == "pods" || r.gvr.Resource == "nodes")
}

// noMetrics is metrics-server's error of a node or a pod that it has no metrics of. It
// asks for the object first, and knows only pods that run.
func (s *snapshot) noMetrics(r *resource, namespace, name string) error {
	known := false
	of := s.resources[schema.GroupVersionResource{Version: "v1", Resource: r.gvr.Resource}]
	if of != nil {
		if e := of.entry(namespace, name); e != nil {
			var pod struct {
				Status struct {
					Phase corev1.PodPhase `json:"phase"`
				} `json:"status"`
			}
			known = !r.namespaced || json.Unmarshal(e.Raw, &pod) == nil && pod.Status.Phase == corev1.PodRunning
		}
	}
	switch {
	case known && r.namespaced:
		return apierrors.NewNotFound(schema.GroupResource{Group: metricsGroup, Resource: "podmetrics"}, namespace+"/"+name)
	case known:
		return apierrors.NewNotFound(schema.GroupResource{Group: metricsGroup, Resource: "nodemetrics"}, name)
	case r.namespaced:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "node"}, name)
}

// printMetrics is metrics-server's table: a column for each resource that the first
// object has, of which a pod's is the sum of its containers'.
func printMetrics(objects []*object) (*metav1.Table, error) {
	table := &metav1.Table{}
	var names []corev1.ResourceName
	for _, o := range objects {
		var of struct {
			Window     metav1.Duration     `json:"window"`
			Usage      corev1.ResourceList `json:"usage"`
			Containers []struct {
				Usage corev1.ResourceList `json:"usage"`
			} `json:"containers"`
		}
		if err := json.Unmarshal(o.entry.Raw, &of); err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("the captured metrics of %q: %w", o.entry.Name, err))
		}
		usage := corev1.ResourceList{}
		maps.Copy(usage, of.Usage)
		for _, c := range of.Containers {
			for name, amount := range c.Usage {
				sum := usage[name]
				sum.Add(amount)
				usage[name] = sum
			}
		}
		if names == nil {
			names = slices.Sorted(maps.Keys(usage))
			table.ColumnDefinitions = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"}}
			for _, name := range names {
				table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: string(name), Type: "string", Format: "quantity"})
			}
			table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: "Window", Type: "string", Format: "duration"})
		}
		cells := []any{o.entry.Name}
		for _, name := range names {
			amount := usage[name]
			cells = append(cells, amount.String())
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: append(cells, of.Window.Duration.String())})
	}
	return table, nil
}
