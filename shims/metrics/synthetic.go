package metrics

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/kubecase/kubecase/fixtures"
)

// syntheticLabel marks series that were made of others.
const syntheticLabel = "synthetic"

// buckets are the upper bounds of Istio's histogram of durations, in milliseconds.
var buckets = []float64{
	0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000, math.Inf(1),
}

// integrals are gauges per second and the counters whose rate they are.
var integrals = []struct{ gauge, counter string }{
	{"service:container_cpu_usage_cores", "container_cpu_usage_seconds_total"},
	{"service:container_cpu_cfs_throttled_seconds_per_second", "container_cpu_cfs_throttled_seconds_total"},
	{"service:network_receive_packets_per_second", "container_network_receive_packets_total"},
	{"service:network_transmit_packets_per_second", "container_network_transmit_packets_total"},
	{"node:tcp_retransmitted_segments_per_second", "node_netstat_Tcp_RetransSegs"},
}

// synthesizer makes counters and histograms of the gauges of a data set that kept only
// what it had derived, so that the usual queries return the gauges' values:
// rate(counter[w]) is the gauge's mean over the window w, and a histogram's quantile is
// the gauge's where the rate is that of one interval.
type synthesizer struct {
	store   *store
	fixture *fixtures.Case
	pods    []corev1.Pod
}

func (s *store) synthesize(c *fixtures.Case) error {
	derived := slices.ContainsFunc(s.series, func(one *series) bool {
		name := one.labels.Get(labels.MetricName)
		return name == rateGauge || name == durationGauge || name == nodeCPUGauge ||
			slices.ContainsFunc(integrals, func(i struct{ gauge, counter string }) bool { return i.gauge == name })
	})
	if !derived {
		return nil
	}
	y := &synthesizer{store: s, fixture: c, pods: objects[corev1.Pod](c, "pods")}
	for _, make := range []func([]*series) error{y.integrate, y.memory, y.requests, y.durations, y.nodes} {
		if err := make(slices.Clone(s.series)); err != nil {
			return err
		}
	}
	return nil
}

const (
	rateGauge     = "service:requests_per_second"
	successGauge  = "service:request_success_ratio"
	durationGauge = "service:request_duration_milliseconds"
	memoryGauge   = "service:container_memory_working_set_bytes"
	nodeCPUGauge  = "node:cpu_utilization_percent"
	nodeMemGauge  = "node:memory_utilization_percent"
)

// objects are a case's objects of a core resource; what doesn't decode is passed over.
func objects[T any](c *fixtures.Case, name string) []T {
	r := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: name})
	if r == nil {
		return nil
	}
	var out []T
	for _, o := range r.Objects {
		var obj T
		if json.Unmarshal(o.Raw, &obj) == nil {
			out = append(out, obj)
		}
	}
	return out
}

// named are the series of one name.
func named(all []*series, name string) []*series {
	var out []*series
	for _, s := range all {
		if s.labels.Get(labels.MetricName) == name {
			slices.SortFunc(s.floats, func(a, b point) int { return int(a.t - b.t) })
			out = append(out, s)
		}
	}
	return out
}

// add makes a series of points.
func (y *synthesizer) add(name string, with map[string]string, points []point) error {
	b := labels.NewBuilder(labels.FromMap(with))
	b.Set(labels.MetricName, name).Set(syntheticLabel, "true")
	one, err := y.store.of(b.Labels())
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := y.store.count(); err != nil {
			return err
		}
		one.floats = append(one.floats, p)
	}
	return nil
}

// integral is the counter whose rate between two samples is the gauge's mean of them.
func integral(of []point) []point {
	out := make([]point, len(of))
	total := 0.0
	for i, p := range of {
		if i > 0 {
			mean := (p.v + of[i-1].v) / 2
			if mean > 0 { // a counter never falls; NaN is no rise
				total += mean * float64(p.t-of[i-1].t) / 1000
			}
		}
		out[i] = point{p.t, total}
	}
	return out
}

// container are the labels that cAdvisor gives a service's container: pod and container
// only where the service has one pod, as the gauge is of the whole service.
func (y *synthesizer) container(s *series) map[string]string {
	namespace, service := s.labels.Get("namespace"), s.labels.Get("service")
	out := map[string]string{"namespace": namespace, "service": service, "container": service}
	var of []*corev1.Pod
	for i := range y.pods {
		if p := &y.pods[i]; p.Namespace == namespace && (p.Labels["app"] == service || p.Labels["app.kubernetes.io/name"] == service || p.Name == service) {
			of = append(of, p)
		}
	}
	if len(of) == 1 {
		out["pod"], out["node"] = of[0].Name, of[0].Spec.NodeName
		for _, c := range of[0].Spec.Containers {
			if c.Name != "istio-proxy" {
				out["container"] = c.Name
				break
			}
		}
	}
	return out
}

func (y *synthesizer) integrate(all []*series) error {
	for _, i := range integrals {
		for _, s := range named(all, i.gauge) {
			with := map[string]string{"node": s.labels.Get("node"), "instance": s.labels.Get("node")}
			if s.labels.Has("service") {
				with = y.container(s)
			}
			if i.counter == "container_network_receive_packets_total" || i.counter == "container_network_transmit_packets_total" {
				delete(with, "container") // cAdvisor counts a pod's network, not a container's
				with["interface"] = "eth0"
			}
			if err := y.add(i.counter, with, integral(s.floats)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (y *synthesizer) memory(all []*series) error {
	for _, s := range named(all, memoryGauge) {
		if err := y.add("container_memory_working_set_bytes", y.container(s), s.floats); err != nil {
			return err
		}
	}
	return nil
}

// workload are the labels that Istio gives requests to a service.
func workload(s *series) map[string]string {
	namespace, service := s.labels.Get("namespace"), s.labels.Get("service")
	return map[string]string{
		"reporter": "destination", "destination_workload": service, "destination_workload_namespace": namespace,
		"destination_service_name": service, "destination_service_namespace": namespace, "destination_app": service, "namespace": namespace,
	}
}

// at is a gauge's value at a time, if it has a sample then.
func at(s *series, t int64) (float64, bool) {
	i, found := slices.BinarySearchFunc(s.floats, t, func(p point, t int64) int { return int(p.t - t) })
	if !found || math.IsNaN(s.floats[i].v) {
		return 0, false
	}
	return s.floats[i].v, true
}

// sameService finds the gauge of a name that is of the same service.
func sameService(all []*series, name string, as *series) *series {
	for _, s := range named(all, name) {
		if s.labels.Get("namespace") == as.labels.Get("namespace") && s.labels.Get("service") == as.labels.Get("service") {
			return s
		}
	}
	return nil
}

// requests are counted as succeeded and failed where the share is known.
func (y *synthesizer) requests(all []*series) error {
	for _, s := range named(all, rateGauge) {
		success := sameService(all, successGauge, s)
		if success == nil {
			if err := y.add("istio_requests_total", workload(s), integral(s.floats)); err != nil {
				return err
			}
			continue
		}
		var good, bad []point
		for _, p := range s.floats {
			if share, ok := at(success, p.t); ok {
				share = min(max(share, 0), 1)
				good, bad = append(good, point{p.t, p.v * share}), append(bad, point{p.t, p.v * (1 - share)})
			}
		}
		for code, points := range map[string][]point{"200": good, "500": bad} {
			with := workload(s)
			with["response_code"] = code
			if err := y.add("istio_requests_total", with, integral(points)); err != nil {
				return err
			}
		}
	}
	return nil
}

// quantileGauge is a duration's quantile.
type quantileGauge struct {
	q float64
	s *series
}

// durations makes a histogram for each service from the quantiles that are known of it.
func (y *synthesizer) durations(all []*series) error {
	services := map[[2]string][]quantileGauge{}
	for _, s := range named(all, durationGauge) {
		q, err := strconv.ParseFloat(s.labels.Get("quantile"), 64)
		if err != nil || q <= 0 || q >= 1 {
			continue
		}
		key := [2]string{s.labels.Get("namespace"), s.labels.Get("service")}
		services[key] = append(services[key], quantileGauge{q, s})
	}
	for _, gauges := range services {
		slices.SortFunc(gauges, func(a, b quantileGauge) int { return int(math.Copysign(1, a.q-b.q)) })
		if err := y.histogram(gauges, sameService(all, rateGauge, gauges[0].s)); err != nil {
			return err
		}
	}
	return nil
}

// histogram counts one request a second where the rate isn't known.
func (y *synthesizer) histogram(gauges []quantileGauge, rate *series) error {
	perSecond := make([][]point, len(buckets))
	for _, p := range gauges[0].s.floats {
		weight := 1.0
		if rate != nil {
			if r, ok := at(rate, p.t); ok {
				weight = max(r, 0)
			}
		}
		var qs, values []float64
		for _, k := range gauges {
			if v, ok := at(k.s, p.t); ok && v > 0 {
				qs, values = append(qs, k.q), append(values, v)
			}
		}
		if len(qs) == 0 {
			continue
		}
		for i, share := range distribution(qs, values) {
			perSecond[i] = append(perSecond[i], point{p.t, weight * share})
		}
	}
	for i, points := range perSecond {
		with := workload(gauges[0].s)
		with["le"] = strconv.FormatFloat(buckets[i], 'f', -1, 64)
		if err := y.add("istio_request_duration_milliseconds_bucket", with, integral(points)); err != nil {
			return err
		}
	}
	return y.add("istio_request_duration_milliseconds_count", workload(gauges[0].s), integral(perSecond[len(buckets)-1]))
}

// known are the quantiles whose values are in one bucket: the first and the last of them.
type known struct {
	bucket      int
	q, v        float64 // of the last
	firstQ, one float64 // of the first, and its value
}

// place is where in its bucket the last value is: 0 at the lower bound, 1 at the upper.
func (k known) place() float64 {
	return (k.v - below(k.bucket)) / (buckets[k.bucket] - below(k.bucket))
}

// below is a bucket's lower bound.
func below(bucket int) float64 {
	if bucket == 0 {
		return 0
	}
	return buckets[bucket-1]
}

// distribution is, for each bucket, the share of requests within its bound, such that
// histogram_quantile, which takes a bucket's requests as evenly spread, gives the values
// at the quantiles qs (ascending) as far as the buckets can.
func distribution(qs, values []float64) []float64 {
	var groups []known
	for i, v := range values {
		bucket, _ := slices.BinarySearch(buckets, v)
		switch last := len(groups) - 1; {
		case bucket >= len(buckets)-1 || last >= 0 && v < groups[last].v:
			// beyond the last bound, or quantiles that contradict each other
		case last >= 0 && groups[last].bucket == bucket:
			groups[last].q, groups[last].v = qs[i], v
		default:
			groups = append(groups, known{bucket: bucket, q: qs[i], v: v, firstQ: qs[i], one: v})
		}
	}
	out := make([]float64, len(buckets))
	share, filled := 0.0, 0 // the share within the bound before out[filled]
	for i, g := range groups {
		limit, exact := 1.0, false
		if i+1 < len(groups) {
			next := groups[i+1]
			limit = (g.q + next.firstQ) / 2
			if exact = next.bucket == g.bucket+1; exact {
				// What this bucket ends with, the next begins with: between what the next needs and
				// what this one can be given.
				low, high := g.q, next.q
				if r := next.place(); r < 1 {
					low = min(max(low, (next.q-r)/(1-r)), next.q)
				}
				if r := g.place(); r > 0 {
					high = max(low, min(high, (g.q-(1-r)*share)/r))
				}
				limit = (low + high) / 2
			}
		}
		begin, end := g.ends(share, limit, filled == g.bucket, exact)
		for ; filled < g.bucket; filled++ {
			out[filled] = share
		}
		if g.bucket > 0 {
			out[g.bucket-1] = max(share, begin)
		}
		out[g.bucket] = max(end, begin)
		share, filled = out[g.bucket], g.bucket+1
	}
	for ; filled < len(out); filled++ {
		out[filled] = 1
	}
	return out
}

// ends are the shares below a bucket and within its bound that put its quantiles where
// they are. The first is at least share, and share itself where it is fixed; the second is
// limit where that is exact, else at most limit.
func (k known) ends(share, limit float64, fixed, exact bool) (begin, end float64) {
	r := k.place()
	switch {
	case k.q > k.firstQ && k.v > k.one:
		slope := (k.q - k.firstQ) / (k.v - k.one)
		return max(share, k.firstQ-slope*(k.one-below(k.bucket))), min(1, k.q+slope*(buckets[k.bucket]-k.v))
	case fixed:
		return share, min(1, share+(k.q-share)/r)
	case !exact && share+(k.q-share)/r <= limit:
		return share, share + (k.q-share)/r
	case r >= 1:
		return share, k.q
	}
	return max(share, (k.q-r*limit)/(1-r)), limit
}

func (y *synthesizer) nodes(all []*series) error {
	for _, s := range named(all, nodeCPUGauge) {
		node := s.labels.Get("node")
		for mode, share := range map[string]func(float64) float64{
			"idle": func(v float64) float64 { return 1 - v/100 }, "user": func(v float64) float64 { return v / 100 },
		} {
			points := make([]point, len(s.floats))
			for i, p := range s.floats {
				points[i] = point{p.t, share(p.v)}
			}
			if err := y.add("node_cpu_seconds_total", map[string]string{"node": node, "instance": node, "cpu": "0", "mode": mode}, integral(points)); err != nil {
				return err
			}
		}
	}
	for _, s := range named(all, nodeMemGauge) {
		total, ok := y.capacity(s.labels.Get("node"))
		if !ok {
			continue
		}
		with := map[string]string{"node": s.labels.Get("node"), "instance": s.labels.Get("node")}
		totals, available := make([]point, len(s.floats)), make([]point, len(s.floats))
		for i, p := range s.floats {
			totals[i], available[i] = point{p.t, total}, point{p.t, total * (1 - p.v/100)}
		}
		for name, points := range map[string][]point{"node_memory_MemTotal_bytes": totals, "node_memory_MemAvailable_bytes": available} {
			if err := y.add(name, with, points); err != nil {
				return err
			}
		}
	}
	return nil
}

// capacity is a node's memory in bytes.
func (y *synthesizer) capacity(name string) (float64, bool) {
	for _, n := range objects[corev1.Node](y.fixture, "nodes") {
		if n.Name == name {
			m := n.Status.Capacity[corev1.ResourceMemory]
			return m.AsApproximateFloat64(), m.Cmp(resource.Quantity{}) > 0
		}
	}
	return 0, false
}
