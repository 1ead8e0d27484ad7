// Package metrics answers Prometheus' HTTP API from the samples of a case.
//
// The queries are evaluated by Prometheus' own engine over the captured samples, which
// are read once per case when they are first asked for, kept in memory, shared by all
// episodes of the case and dropped with it. Samples' timestamps, values that are moments,
// and the times in captured documents are in the time of the episode's clock.
//
// Nothing is made up: what has no samples or no captured document is refused as not
// captured, in the shape of Prometheus' errors, with status 501 and the error type
// "not_captured". There is no present after the capture instant: an instant query for a
// later time is answered as of the capture, so that the answer doesn't depend on how fast
// an investigator is. Samples, series, time, concurrency and answers are bounded.
package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"golang.org/x/sync/semaphore"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	// lookback is Prometheus' default: how long a sample stands for its series.
	lookback = 5 * time.Minute
	// defaultTimeout is Prometheus' own for a query, waiting included.
	defaultTimeout = 2 * time.Minute
	// defaultMaxSamples is how many samples a query may hold at once, 16 bytes each. It
	// is a tenth of Prometheus' own: cases are small, and many are served by one process.
	defaultMaxSamples = 5_000_000
	// defaultBehind is how long a query that had to wait for its turn runs behind all else; then it is
	// begun anew like any other.
	defaultBehind = 400 * time.Millisecond
	// maxWaiting bounds the queries that wait for their turn.
	maxWaiting = 256
	// maxAnswer bounds one answer, and maxAnswers all that wait for slow clients, in bytes.
	maxAnswer, maxAnswers = 64 << 20, 256 << 20
)

// Options bound a Shim. The zero value has the defaults.
type Options struct {
	// NoSynthetic leaves out the counters and histograms that are made of derived gauges.
	NoSynthetic bool
	// MaxSamples that a query may hold in memory at once.
	MaxSamples int
	// Concurrency is how many queries are evaluated at once; the default is half the
	// processors, so that the API server always has the other half.
	Concurrency int
	// Timeout of a query, waiting for its turn included.
	Timeout time.Duration
}

// Shim answers for any number of cases. It is safe for concurrent use.
type Shim struct {
	options Options
	engine  *promql.Engine
	parser  parser.Parser
	// slots are the queries that may be evaluated now; waiting bounds those that may wait.
	slots, waiting chan struct{}
	answers        *semaphore.Weighted
	now            func() time.Time
	behindAtMost   time.Duration

	stores fixtures.PerCase[*store]
}

// New returns a shim that has read nothing yet.
func New(o Options) *Shim {
	if o.MaxSamples <= 0 {
		o.MaxSamples = defaultMaxSamples
	}
	if o.Concurrency <= 0 {
		o.Concurrency = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	p := parser.NewParser(parser.Options{})
	return &Shim{
		options: o,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: slog.New(slog.DiscardHandler), MaxSamples: o.MaxSamples, Timeout: o.Timeout, LookbackDelta: lookback,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true, Parser: p,
		}),
		parser: p, slots: make(chan struct{}, o.Concurrency), waiting: make(chan struct{}, maxWaiting),
		answers: semaphore.NewWeighted(maxAnswers), now: time.Now, behindAtMost: defaultBehind,
	}
}

// Handler is Prometheus' HTTP API of a case as an episode's clock sees it: /api/v1/…,
// /-/healthy and /-/ready. The case must stay open for as long as it is asked.
func (s *Shim) Handler(c *fixtures.Case, k clock.Clock) http.Handler {
	a := &api{shim: s, fixture: c, clock: k}
	return a.routes()
}

// storeOf reads the samples of a case when they are first asked for.
func (s *Shim) storeOf(c *fixtures.Case) (*store, error) {
	return s.stores.Get(c, func(c *fixtures.Case) (*store, error) { return load(c, !s.options.NoSynthetic) })
}

// errBusy is that too many queries wait already.
var errBusy = errors.New("too many queries are waiting; try again later")

// acquire waits for a query's turn, and tells whether it had to.
func (s *Shim) acquire(ctx context.Context) (waited bool, release func(), err error) {
	release = func() { <-s.slots }
	select {
	case s.slots <- struct{}{}:
		return false, release, nil
	default:
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return false, nil, errBusy
	}
	select {
	case s.slots <- struct{}{}:
		return true, release, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return false, nil, promql.ErrQueryTimeout("query queue")
		}
		return false, nil, promql.ErrQueryCanceled("query queue")
	}
}
