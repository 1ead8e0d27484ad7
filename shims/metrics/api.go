package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// maxForm bounds what is read of a POST, in bytes.
const maxForm = 1 << 20

// api answers for one case as one clock sees it.
type api struct {
	shim    *Shim
	fixture *fixtures.Case
	clock   clock.Clock
	// queryable replaces the case's samples; nil but in tests.
	queryable storage.Queryable
}

// result is what a route answers.
type result struct {
	data     any
	warnings annotations.Annotations
	// query, for the places in warnings.
	query string
	// done is called when the answer is encoded.
	done func()
}

// handler answers a request whose form is parsed.
type handler func(*http.Request) (result, error)

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]handler{
		"query": a.query, "query_range": a.queryRange, "query_exemplars": a.exemplars, "format_query": a.format,
		"labels": a.labelNames, "series": a.series,
	} {
		mux.Handle("GET /api/v1/"+path, a.wrap(h))
		mux.Handle("POST /api/v1/"+path, a.wrap(h))
	}
	for path, h := range map[string]handler{
		"label/{name}/values": a.labelValues, "metadata": a.metadata, "targets": a.targets, "rules": a.rules,
		"alerts": a.document("alerts"), "status/buildinfo": a.buildInfo, "alertmanagers": a.document("alertmanagers"),
		"scrape_pools": a.document("scrape_pools"), "status/{name}": a.status,
	} {
		mux.Handle("GET /api/v1/"+path, a.wrap(h))
	}
	for _, method := range []string{"POST", "PUT"} {
		mux.Handle(method+" /api/v1/admin/tsdb/{action}", a.wrap(func(*http.Request) (result, error) {
			return result{}, failure{unavailable, errors.New("admin APIs disabled")}
		}))
	}
	mux.HandleFunc("GET /-/healthy", a.alive("Healthy"))
	mux.HandleFunc("GET /-/ready", a.alive("Ready"))
	return mux
}

// wrap reads the form, answers, and encodes in the shape of Prometheus' API.
func (a *api) wrap(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Body = http.MaxBytesReader(w, req.Body, maxForm)
		ctx, cancel := context.WithTimeout(req.Context(), a.shim.options.Timeout)
		defer cancel()
		req = req.WithContext(ctx)
		var r result
		err := req.ParseForm()
		if err != nil {
			err = failure{badData, fmt.Errorf("error parsing form values: %w", err)}
		} else {
			r, err = h(req)
		}
		a.shim.respond(ctx, w, r, err)
	})
}

// alive answers as Prometheus' management API does, where there is anything to ask.
func (a *api) alive(state string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if _, err := a.samples(); err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "Prometheus Server is %s.\n", state)
	}
}

// samples are the case's, in the time of the clock.
func (a *api) samples() (storage.Queryable, error) {
	if a.queryable != nil {
		return a.queryable, nil
	}
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	return queryable{s, a.clock}, nil
}

func (a *api) store() (*store, error) {
	s, err := a.shim.storeOf(a.fixture)
	switch {
	case errors.Is(err, errNoSamples):
		return nil, failure{notCaptured, err}
	case err != nil:
		return nil, failure{internal, fmt.Errorf("the captured metrics can't be read: %w", err)}
	}
	return s, nil
}

// present is the last instant of which anything is known, in the episode's time: that of
// the capture; of a data set that isn't a live Prometheus', the end of the samples, since
// nobody scraped on until the capture.
func (a *api) present() time.Time {
	end := a.clock.CapturedNow(a.shim.now())
	if a.fixture != nil {
		if a.clock.Mode() == clock.Shifted {
			end = a.fixture.Manifest().Capture.Time.Time
		}
		if s, err := a.store(); err == nil && !s.live && len(s.series) > 0 {
			if last := time.UnixMilli(s.last); last.Before(end) {
				end = last
			}
		}
	}
	return end.Add(a.clock.Offset())
}

// evaluate runs a query when it is its turn; the turn ends with result.done.
func (a *api) evaluate(req *http.Request, prepare func(context.Context, storage.Queryable, promql.QueryOpts) (promql.Query, error)) (r result, err error) {
	ctx := req.Context()
	limit, err := limitOf(req)
	if err != nil {
		return r, invalid("limit", err)
	}
	timeout, err := timeoutOf(req)
	if err != nil {
		return r, err
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var delta time.Duration
	if text := req.FormValue("lookback_delta"); text != "" {
		if delta, err = parseDuration(text); err != nil {
			return r, failure{badData, fmt.Errorf("error parsing lookback delta duration: %w", err)}
		}
	}
	from, err := a.samples()
	if err != nil {
		return r, err
	}
	options := promql.NewPrometheusQueryOpts(req.FormValue("stats") == "all", delta, nil)
	query, err := prepare(ctx, from, options)
	if err != nil {
		return r, invalid("query", err)
	}
	waited, release, err := a.shim.acquire(ctx)
	if err != nil {
		query.Close()
		return r, err
	}
	r.done = func() { query.Close(); release() }
	defer func() {
		if p := recover(); p != nil {
			r.done()
			panic(p)
		}
	}()
	var found *promql.Result
	if waited {
		// Queries are many, so that none is in a hurry.
		soon, cancel := context.WithTimeout(ctx, a.shim.behindAtMost)
		behind(func() { found = query.Exec(soon) })
		late := soon.Err() != nil && ctx.Err() == nil && found.Err != nil
		cancel()
		if late { // others take all processors
			again, err := prepare(ctx, from, options)
			if err != nil {
				return r, invalid("query", err)
			}
			query.Close()
			query, found = again, nil
		}
	}
	if found == nil {
		found = query.Exec(ctx)
	}
	r.warnings, r.query = found.Warnings, req.FormValue("query")
	if found.Err != nil {
		return r, found.Err
	}
	value, cut := truncated(found.Value, limit)
	if cut {
		r.warnings.Add(errTruncated)
	}
	data := queryData{value: value}
	if req.FormValue("stats") != "" {
		data.stats = stats.NewQueryStats(query.Stats())
	}
	r.data = data
	return r, nil
}

// errTruncated is Prometheus' warning.
var errTruncated = errors.New("results truncated due to limit")

func truncated(value parser.Value, limit int) (parser.Value, bool) {
	switch v := value.(type) {
	case promql.Matrix:
		if limit > 0 && len(v) > limit {
			return v[:limit], true
		}
	case promql.Vector:
		if limit > 0 && len(v) > limit {
			return v[:limit], true
		}
	}
	return value, false
}

// query is an instant query. For what is later than the present it is answered as of
// the present.
func (a *api) query(req *http.Request) (result, error) {
	present := a.present()
	at, err := timeOf(req, "time", present)
	if err != nil {
		return result{}, invalid("time", err)
	}
	if a.queryable == nil && at.After(present) {
		at = present
	}
	return a.evaluate(req, func(ctx context.Context, q storage.Queryable, o promql.QueryOpts) (promql.Query, error) {
		return a.shim.engine.NewInstantQuery(ctx, q, o, req.FormValue("query"), at)
	})
}

func (a *api) queryRange(req *http.Request) (result, error) {
	start, err := parseTime(req.FormValue("start"))
	if err != nil {
		return result{}, invalid("start", err)
	}
	end, err := parseTime(req.FormValue("end"))
	if err != nil {
		return result{}, invalid("end", err)
	}
	if end.Before(start) {
		return result{}, invalid("end", errors.New("end timestamp must not be before start time"))
	}
	step, err := parseDuration(req.FormValue("step"))
	if err != nil {
		return result{}, invalid("step", err)
	}
	if step <= 0 {
		return result{}, invalid("step", errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer"))
	}
	if end.Sub(start)/step > 11000 {
		return result{}, failure{badData, errors.New("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")}
	}
	r, err := a.evaluate(req, func(ctx context.Context, q storage.Queryable, o promql.QueryOpts) (promql.Query, error) {
		return a.shim.engine.NewRangeQuery(ctx, q, o, req.FormValue("query"), start, end, step)
	})
	if err == nil && a.queryable == nil {
		if present := a.present(); start.After(present) {
			r.warnings.Add(fmt.Errorf("nothing was captured after %s, before the start of the range", present.UTC().Format(time.RFC3339)))
		}
	}
	return r, err
}

// exemplars aren't captured by the text that holds samples.
func (a *api) exemplars(req *http.Request) (result, error) {
	if _, err := a.samples(); err != nil {
		return result{}, err
	}
	start, err := timeOf(req, "start", minTime)
	if err != nil {
		return result{}, invalid("start", err)
	}
	end, err := timeOf(req, "end", maxTime)
	if err != nil {
		return result{}, invalid("end", err)
	}
	if end.Before(start) {
		return result{}, failure{badData, errors.New("end timestamp must not be before start timestamp")}
	}
	if _, err := a.shim.parser.ParseExpr(req.FormValue("query")); err != nil {
		return result{}, failure{badData, err}
	}
	return result{data: []struct{}{}}, nil
}

func (a *api) format(req *http.Request) (result, error) {
	expr, err := a.shim.parser.ParseExpr(req.FormValue("query"))
	if err != nil {
		return result{}, invalid("query", err)
	}
	return result{data: expr.Pretty(0)}, nil
}

// selection is what labels, label values and series are asked for.
type selection struct {
	limit    int
	matchers [][]*labels.Matcher
	querier  storage.Querier
	from, to int64
}

func (a *api) selection(req *http.Request) (s selection, err error) {
	if s.limit, err = limitOf(req); err != nil {
		return s, invalid("limit", err)
	}
	start, err := timeOf(req, "start", minTime)
	if err != nil {
		return s, invalid("start", err)
	}
	end, err := timeOf(req, "end", maxTime)
	if err != nil {
		return s, invalid("end", err)
	}
	if s.matchers, err = a.matchers(req); err != nil {
		return s, err
	}
	q, err := a.samples()
	if err != nil {
		return s, err
	}
	s.from, s.to = start.UnixMilli(), end.UnixMilli()
	s.querier, err = q.Querier(s.from, s.to)
	return s, err
}

// matchers are the selectors of match[].
func (a *api) matchers(req *http.Request) ([][]*labels.Matcher, error) {
	sets, err := a.shim.parser.ParseMetricSelectors(req.Form["match[]"])
	if err != nil {
		return nil, failure{badData, err}
	}
	for _, set := range sets {
		if !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, failure{badData, errors.New("match[] must contain at least one non-empty matcher")}
		}
	}
	return sets, nil
}

// union asks for each selector and puts the answers together, in order.
func (s selection) union(ask func(...*labels.Matcher) ([]string, annotations.Annotations, error)) (result, error) {
	defer s.querier.Close()
	sets := s.matchers
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	all := map[string]bool{}
	for _, set := range sets {
		some, _, err := ask(set...)
		if err != nil {
			return result{}, err
		}
		for _, one := range some {
			all[one] = true
		}
	}
	found := slices.AppendSeq([]string{}, maps.Keys(all))
	slices.Sort(found)
	r := result{data: found}
	if s.limit > 0 && len(found) > s.limit {
		r.data = found[:s.limit]
		r.warnings.Add(errTruncated)
	}
	return r, nil
}

func (a *api) labelNames(req *http.Request) (result, error) {
	s, err := a.selection(req)
	if err != nil {
		return result{}, err
	}
	return s.union(func(m ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.querier.LabelNames(req.Context(), nil, m...)
	})
}

func (a *api) labelValues(req *http.Request) (result, error) {
	name := req.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return result{}, failure{badData, fmt.Errorf("invalid label name: %q", name)}
	}
	s, err := a.selection(req)
	if err != nil {
		return result{}, err
	}
	return s.union(func(m ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.querier.LabelValues(req.Context(), name, nil, m...)
	})
}

func (a *api) series(req *http.Request) (result, error) {
	if len(req.Form["match[]"]) == 0 {
		return result{}, failure{badData, errors.New("no match[] parameter provided")}
	}
	s, err := a.selection(req)
	if err != nil {
		if f := (failure{}); errors.As(err, &f) && f.kind == badData && !strings.HasPrefix(f.Error(), "invalid parameter") {
			return result{}, invalid("match[]", f.err)
		}
		return result{}, err
	}
	defer s.querier.Close()
	hints := &storage.SelectHints{Start: s.from, End: s.to, Func: "series"}
	sets := make([]storage.SeriesSet, len(s.matchers))
	for i, m := range s.matchers {
		sets[i] = s.querier.Select(req.Context(), true, hints, m...)
	}
	set := storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	found := []labels.Labels{}
	r := result{}
	for set.Next() {
		if s.limit > 0 && len(found) == s.limit {
			r.warnings.Add(errTruncated)
			break
		}
		found = append(found, set.At().Labels())
	}
	r.data = found
	return r, set.Err()
}

// minTime and maxTime are Prometheus' own ends of time.
var (
	minTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	maxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)
