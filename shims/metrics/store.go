package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	// maxStored bounds a case's samples: 160 MB.
	maxStored = 10_000_000
	maxSeries = 500_000
)

// store is all series of a case, in captured time. It is immutable once it is sealed.
type store struct {
	series []*series // by labels, once sealed
	byName map[string][]*series
	// first and last are the times of the oldest and the newest sample.
	first, last int64
	families    map[string]family
	// live reports that a Prometheus was asked, which scraped until the capture.
	live bool

	byLabels map[string]*series
	samples  int
}

// family is what a file says of a metric.
type family struct{ kind, help, unit string }

// series are the samples of one series, by time, no two of one time.
type series struct {
	labels labels.Labels
	floats []point
	hists  []histogramPoint
	// moment reports that the values are seconds since 1970.
	moment bool
}

// point is a sample: milliseconds since 1970 and a value.
type point struct {
	t int64
	v float64
}

// histogramPoint is a native histogram, which only blocks can hold.
type histogramPoint struct {
	t int64
	h *histogram.FloatHistogram
}

func newStore() *store {
	return &store{byLabels: map[string]*series{}, families: map[string]family{}}
}

// of returns the series of these labels, made if need be.
func (s *store) of(l labels.Labels) (*series, error) {
	key := string(l.Bytes(nil))
	if known := s.byLabels[key]; known != nil {
		return known, nil
	}
	if len(s.byLabels) >= maxSeries {
		return nil, fmt.Errorf("the case has more than %d series; capture fewer metrics", maxSeries)
	}
	made := &series{labels: l, moment: clock.IsMomentMetric(l.Get(labels.MetricName))}
	s.byLabels[key] = made
	s.series = append(s.series, made)
	return made, nil
}

func (s *store) count() error {
	if s.samples++; s.samples > maxStored {
		return fmt.Errorf("the case has more than %d samples; capture fewer metrics or a shorter range", maxStored)
	}
	return nil
}

// seal orders everything. Of two samples of one time the first one stays, as
// Prometheus refuses the second.
func (s *store) seal() {
	s.byLabels = nil
	slices.SortFunc(s.series, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	s.byName = map[string][]*series{}
	s.first, s.last = math.MaxInt64, math.MinInt64
	for _, one := range s.series {
		one.floats = ordered(one.floats, func(p point) int64 { return p.t })
		one.hists = ordered(one.hists, func(p histogramPoint) int64 { return p.t })
		name := one.labels.Get(labels.MetricName)
		s.byName[name] = append(s.byName[name], one)
		for _, ends := range [][2]int64{ends(one.floats, func(p point) int64 { return p.t }), ends(one.hists, func(p histogramPoint) int64 { return p.t })} {
			s.first, s.last = min(s.first, ends[0]), max(s.last, ends[1])
		}
	}
}

func ordered[T any](points []T, at func(T) int64) []T {
	compare := func(a, b T) int { return cmp.Compare(at(a), at(b)) }
	if !slices.IsSortedFunc(points, compare) {
		slices.SortStableFunc(points, compare)
	}
	return slices.Clip(slices.CompactFunc(points, func(a, b T) bool { return at(a) == at(b) }))
}

func ends[T any](points []T, at func(T) int64) [2]int64 {
	if len(points) == 0 {
		return [2]int64{math.MaxInt64, math.MinInt64}
	}
	return [2]int64{at(points[0]), at(points[len(points)-1])}
}

// within reports whether a series has a sample in [from, to].
func (s *series) within(from, to int64) bool {
	i, _ := slices.BinarySearchFunc(s.floats, from, func(p point, t int64) int { return cmp.Compare(p.t, t) })
	if i < len(s.floats) && s.floats[i].t <= to {
		return true
	}
	i, _ = slices.BinarySearchFunc(s.hists, from, func(p histogramPoint, t int64) int { return cmp.Compare(p.t, t) })
	return i < len(s.hists) && s.hists[i].t <= to
}

// candidates are the series that matchers can select: those of one name where they
// give it, else all.
func (s *store) candidates(matchers []*labels.Matcher) []*series {
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual && m.Value != "" {
			return s.byName[m.Value]
		}
	}
	return s.series
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}
