// Package traces answers Jaeger's query API from the captured traces of a case.
//
// The traces are read once per case when they are first asked for, kept in memory, shared
// by all episodes of the case and dropped with it. They are searched as Jaeger's in-memory
// storage searches, and answered in the shapes of Jaeger's API for its UI (/api/…) and of
// its version 3 (/api/v3/…). Times of spans and logs, and timestamps in tags, are in the
// time of the episode's clock.
//
// Nothing is made up: what has no captured document is refused in the shape of Jaeger's
// errors with status 501. There is no present after the capture: a search until now, or
// until later than the capture, is answered as of the capture, so that the answer doesn't
// depend on how fast an investigator is. Spans, documents and answers are bounded.
package traces

import (
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	// maxSpans bounds the spans of a case, and maxText the bytes of its documents of traces.
	maxSpans, maxText = 1_000_000, 256 << 20
	// maxAnswer bounds the captured text of one answer, and maxAnswers that of all that wait
	// for slow clients, in bytes.
	maxAnswer, maxAnswers = 64 << 20, 256 << 20
	// writeTime is what a client has to take an answer.
	writeTime = time.Minute
)

// Dependency is how many calls one service made to another.
type Dependency struct {
	Parent    string `json:"parent"`
	Child     string `json:"child"`
	CallCount uint64 `json:"callCount"`
}

// Options of a Shim. The zero value has the defaults.
type Options struct {
	// Mesh gives the dependencies that a service mesh's metrics tell of, for a case that has
	// neither captured dependencies nor traces. None and no error is that there are none
	// captured. Nil: there are none in any case.
	Mesh func(*fixtures.Case, clock.Clock) ([]Dependency, error)
}

// Shim answers for any number of cases. It is safe for concurrent use.
type Shim struct {
	options Options
	answers *semaphore.Weighted
	now     func() time.Time

	stores fixtures.PerCase[*store]
}

// New returns a shim that has read nothing yet.
func New(o Options) *Shim {
	return &Shim{options: o, answers: semaphore.NewWeighted(maxAnswers), now: time.Now}
}

// Handler is Jaeger's HTTP API of a case as an episode's clock sees it: /api/… and /. The
// case must stay open for as long as it is asked.
func (s *Shim) Handler(c *fixtures.Case, k clock.Clock) http.Handler {
	a := &api{shim: s, fixture: c, clock: k}
	return a.routes()
}

// storeOf reads the traces of a case when they are first asked for.
func (s *Shim) storeOf(c *fixtures.Case) (*store, error) {
	return s.stores.Get(c, load)
}
