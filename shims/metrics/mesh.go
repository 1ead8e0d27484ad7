package metrics

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/kubecase/kubecase/fixtures"
)

// Edge is how often one workload called another, by the metrics of a service mesh.
type Edge struct {
	Source, Destination string
	// Calls are the requests or connections that were counted within the captured samples.
	Calls uint64
}

// meshMetric is a counter of calls, with the labels that name its two ends, best first.
type meshMetric struct {
	name                  string
	sources, destinations []string
	// side is the label that says which end counted, and sides its values, those first that
	// count. A series without the label has an empty one.
	side  string
	sides [][]string
}

var (
	istioSources      = []string{"source_workload", "source_canonical_service"}
	istioDestinations = []string{"destination_workload", "destination_canonical_service", "destination_service_name"}
	istioSides        = [][]string{{"destination", ""}, {"source", "waypoint"}}
)

// meshMetrics are in the order in which they count. Linkerd names both ends only where
// the caller's proxy counted.
var meshMetrics = []meshMetric{
	{"istio_requests_total", istioSources, istioDestinations, "reporter", istioSides},
	{"request_total", []string{"deployment", "statefulset", "daemonset"}, []string{"dst_deployment", "dst_statefulset", "dst_daemonset", "dst_service"}, "direction", [][]string{{"outbound"}}},
	{"istio_tcp_connections_opened_total", istioSources, istioDestinations, "reporter", istioSides},
}

// Mesh gives the calls between workloads that the captured counters of a service mesh
// tell of, by source and destination; none where the case has no such metrics.
//
// The calls of a series are its increase from its first captured sample to its last. A
// value that is smaller than the one before it is that of a counter that began anew, and
// all of it counts. What was counted before the first sample doesn't: the samples don't say
// when it was. An edge is there, with 0 calls, where a series has only one value.
//
// Both proxies of a call count it, in Istio. The calls of an edge are those that the called
// side counted; where it counted none, those of the calling side. Connections count only
// where no requests do. Series of which an end is "unknown", and those that were made of
// derived gauges, are left out.
func (s *Shim) Mesh(c *fixtures.Case) ([]Edge, error) {
	captured, err := s.storeOf(c)
	if errors.Is(err, errNoSamples) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := map[[2]string]float64{}
	for _, m := range meshMetrics {
		for _, sides := range m.sides {
			counted := map[[2]string]float64{}
			for _, one := range captured.byName[m.name] {
				edge := m.edge(one.labels)
				if edge[0] != "" && edge[1] != "" && slices.Contains(sides, one.labels.Get(m.side)) {
					counted[edge] += increase(one.floats)
				}
			}
			for edge, calls := range counted {
				if found[edge] == 0 {
					found[edge] = calls
				}
			}
		}
	}
	out := make([]Edge, 0, len(found))
	for edge, calls := range found {
		out = append(out, Edge{edge[0], edge[1], uint64(min(math.Round(calls), 1<<53))})
	}
	slices.SortFunc(out, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination))
	})
	return out, nil
}

// edge names the two ends of a series; an end that isn't known is empty.
func (m meshMetric) edge(l labels.Labels) [2]string {
	if l.Get(syntheticLabel) == "true" {
		return [2]string{}
	}
	return [2]string{firstKnown(l, m.sources), firstKnown(l, m.destinations)}
}

func firstKnown(l labels.Labels, names []string) string {
	for _, name := range names {
		if value := l.Get(name); value != "" && value != "unknown" {
			return value
		}
	}
	return ""
}

// increase is how much a counter rose between its first sample and its last.
func increase(of []point) float64 {
	total, last := 0.0, math.NaN()
	for _, p := range of {
		switch {
		case math.IsNaN(p.v) || math.IsInf(p.v, 0) || p.v < 0:
			continue // no count
		case p.v >= last:
			total += p.v - last
		case p.v < last:
			total += p.v
		}
		last = p.v
	}
	return total
}
