package metrics

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/kubecase/kubecase/fixtures/clock"
)

// contextInterval is after how many series the context is looked at.
const contextInterval = 256

// queryable is a store in the time of an episode.
type queryable struct {
	store *store
	clock clock.Clock
}

// Querier implements storage.Queryable. The times are the episode's, in milliseconds.
func (q queryable) Querier(from, to int64) (storage.Querier, error) {
	offset := q.clock.Offset().Milliseconds()
	return &querier{queryable: q, offset: offset, from: back(from, offset), to: back(to, offset)}, nil
}

// back is a time of the episode in captured time, without leaving the range.
func back(t, offset int64) int64 {
	switch {
	case offset > 0 && t < math.MinInt64+offset:
		return math.MinInt64
	case offset < 0 && t > math.MaxInt64+offset:
		return math.MaxInt64
	}
	return t - offset
}

// querier has its times in captured time.
type querier struct {
	queryable
	offset, from, to int64
}

// Close implements storage.Querier.
func (q *querier) Close() error { return nil }

// Select implements storage.Querier. The series are always in order.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	from, to, limit := q.from, q.to, 0
	if hints != nil {
		from, to, limit = max(from, back(hints.Start, q.offset)), min(to, back(hints.End, q.offset)), hints.Limit
	}
	set := &seriesSet{querier: q}
	for i, s := range q.store.candidates(matchers) {
		if i%contextInterval == 0 && ctx.Err() != nil {
			return storage.ErrSeriesSet(ctx.Err())
		}
		if matches(s.labels, matchers) && s.within(from, to) {
			set.found = append(set.found, s)
			if limit > 0 && len(set.found) >= limit {
				break
			}
		}
	}
	return set
}

// overlaps reports whether the store has anything of the querier's time. Like a head of
// Prometheus' own, labels aren't asked more precisely than that.
func (q *querier) overlaps() bool { return q.from <= q.store.last && q.to >= q.store.first }

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	found := map[string]bool{}
	err := q.each(ctx, matchers, func(l labels.Labels) {
		if value := l.Get(name); value != "" {
			found[value] = true
		}
	})
	return slices.Sorted(maps.Keys(found)), nil, err
}

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	found := map[string]bool{}
	err := q.each(ctx, matchers, func(l labels.Labels) {
		l.Range(func(l labels.Label) { found[l.Name] = true })
	})
	return slices.Sorted(maps.Keys(found)), nil, err
}

func (q *querier) each(ctx context.Context, matchers []*labels.Matcher, do func(labels.Labels)) error {
	if !q.overlaps() {
		return nil
	}
	for i, s := range q.store.candidates(matchers) {
		if i%contextInterval == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if matches(s.labels, matchers) {
			do(s.labels)
		}
	}
	return nil
}

// seriesSet is a list of series in the time of a querier.
type seriesSet struct {
	querier *querier
	found   []*series
	next    int
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	s.next++
	return s.next <= len(s.found)
}

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return movedSeries{s.found[s.next-1], s.querier} }

// Err implements storage.SeriesSet.
func (s *seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// movedSeries is a series in the time of a querier.
type movedSeries struct {
	*series
	querier *querier
}

// Labels implements storage.Series.
func (s movedSeries) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s movedSeries) Iterator(again chunkenc.Iterator) chunkenc.Iterator {
	it, ok := again.(*iterator)
	if !ok {
		it = &iterator{}
	}
	*it = iterator{floats: s.floats, hists: s.hists, offset: s.querier.offset, float: -1, hist: -1}
	if s.moment {
		it.clock = &s.querier.clock
	}
	return it
}

// milliseconds since 1970. An alias, as chunkenc.Iterator's Seek is no io.Seeker's, for
// which go vet would take it.
type milliseconds = int64

// iterator goes through floats and histograms by time. float and hist are where it is,
// or was last, in each; of says in which it is.
type iterator struct {
	floats      []point
	hists       []histogramPoint
	float, hist int
	of          chunkenc.ValueType
	offset      int64
	// clock moves values that are moments; nil for others.
	clock *clock.Clock
}

// Next implements chunkenc.Iterator.
func (i *iterator) Next() chunkenc.ValueType {
	float, hist := i.float+1, i.hist+1
	return i.settle(float, hist)
}

// settle moves to the earlier of the two that come next.
func (i *iterator) settle(float, hist int) chunkenc.ValueType {
	switch {
	case float < len(i.floats) && (hist >= len(i.hists) || i.floats[float].t <= i.hists[hist].t):
		i.float, i.hist, i.of = float, hist-1, chunkenc.ValFloat
	case hist < len(i.hists):
		i.float, i.hist, i.of = float-1, hist, chunkenc.ValFloatHistogram
	default:
		i.float, i.hist, i.of = len(i.floats), len(i.hists), chunkenc.ValNone
	}
	return i.of
}

// Seek implements chunkenc.Iterator.
func (i *iterator) Seek(t milliseconds) chunkenc.ValueType {
	if i.of != chunkenc.ValNone && i.AtT() >= t {
		return i.of
	}
	t = back(t, i.offset)
	return i.settle(seek(i.floats, i.float+1, t, func(p point) int64 { return p.t }), seek(i.hists, i.hist+1, t, func(p histogramPoint) int64 { return p.t }))
}

// seek finds the first point at or after t. Most seeks are for one of the next few.
func seek[T any](points []T, from int, t int64, at func(T) int64) int {
	for near := min(from+8, len(points)); from < near; from++ {
		if at(points[from]) >= t {
			return from
		}
	}
	if from >= len(points) {
		return len(points)
	}
	n, _ := slices.BinarySearchFunc(points[from:], t, func(p T, t int64) int {
		if at(p) < t {
			return -1
		}
		return 1
	})
	return from + n
}

// At implements chunkenc.Iterator.
func (i *iterator) At() (int64, float64) {
	p := i.floats[i.float]
	if i.clock != nil {
		p.v = i.clock.ShiftSeconds(p.v)
	}
	return p.t + i.offset, p.v
}

// AtHistogram implements chunkenc.Iterator. All histograms are kept as floats.
func (i *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return i.AtT(), nil
}

// AtFloatHistogram implements chunkenc.Iterator. The caller may change what it gets.
func (i *iterator) AtFloatHistogram(into *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	h := i.hists[i.hist].h
	if into == nil {
		return i.AtT(), h.Copy()
	}
	h.CopyTo(into)
	return i.AtT(), into
}

// AtT implements chunkenc.Iterator.
func (i *iterator) AtT() int64 {
	if i.of == chunkenc.ValFloatHistogram {
		return i.hists[i.hist].t + i.offset
	}
	return i.floats[i.float].t + i.offset
}

// AtST implements chunkenc.Iterator; start times aren't kept.
func (i *iterator) AtST() int64 { return 0 }

// Err implements chunkenc.Iterator.
func (i *iterator) Err() error { return nil }
