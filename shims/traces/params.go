package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	// defaultLimit is how many traces Jaeger gives when it isn't told.
	defaultLimit = 100
	// defaultLookback is how far back Jaeger searches when it isn't told.
	defaultLookback = 48 * time.Hour
)

// These are Jaeger's.
var (
	errNoService = errors.New("parameter 'service' is required")
	errDurations = errors.New("'maxDuration' should be greater than 'minDuration'")
)

// queryOf reads the parameters of a search, with the errors of Jaeger. ids are the traces
// that are asked for by id; then nothing else of the query counts.
func (a *api) queryOf(req *http.Request) (q query, ids []traceID, err error) {
	asOf, err := a.asOf()
	if err != nil {
		return q, nil, err
	}
	q = query{service: req.FormValue("service"), operation: req.FormValue("operation"), limit: defaultLimit}
	if q.from, err = a.timeOf(req, "start", time.Microsecond, asOf.Add(-defaultLookback)); err != nil {
		return q, nil, err
	}
	if q.to, err = a.timeOf(req, "end", time.Microsecond, asOf); err != nil {
		return q, nil, err
	}
	a.clamp(&q, asOf, req.FormValue("start") != "")
	if q.tags, err = tagsOf(req.Form["tag"], req.Form["tags"]); err != nil {
		return q, nil, badRequest(err)
	}
	for key, value := range q.tags {
		q.tags[key] = clock.ShiftString(value, -a.clock.Offset())
	}
	if text := req.FormValue("limit"); text != "" {
		limit, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return q, nil, badRequest(err)
		}
		q.limit = int(limit)
	}
	if q.shortest, err = durationOf(req, "minDuration"); err != nil {
		return q, nil, err
	}
	if q.longest, err = durationOf(req, "maxDuration"); err != nil {
		return q, nil, err
	}
	for _, text := range req.Form["traceID"] {
		id, err := parseTraceID(text)
		if err != nil {
			return q, nil, refuse(http.StatusBadRequest, "cannot parse traceID param: %w", err)
		}
		ids = append(ids, id)
	}
	if err := checkRaw(req); err != nil {
		return q, nil, err
	}
	if len(ids) == 0 && q.service == "" {
		return q, nil, badRequest(errNoService)
	}
	if q.shortest != 0 && q.longest != 0 && q.longest < q.shortest {
		return q, nil, badRequest(errDurations)
	}
	return q, ids, nil
}

// clamp answers a search that ends after the capture as of the capture. One that ends
// between the capture and now was meant to end now, and is moved back as a whole, so that
// the last hour is the hour before the capture however late it is asked for; one that
// ends in the future is only cut.
func (a *api) clamp(q *query, asOf time.Time, started bool) {
	late := q.to.Sub(asOf)
	if late <= 0 {
		return
	}
	if started && !q.to.After(a.clock.CapturedNow(a.shim.now())) {
		q.from = q.from.Add(-late)
	}
	q.to = asOf
}

// timeOf reads a time of the episode, units since 1970, and gives it in captured time.
// What is too large wraps around, as Jaeger's own does.
func (a *api) timeOf(req *http.Request, name string, unit time.Duration, otherwise time.Time) (time.Time, error) {
	text := req.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, badParameter(name, err)
	}
	return time.Unix(0, 0).Add(time.Duration(n) * unit).Add(-a.clock.Offset()), nil
}

func durationOf(req *http.Request, name string) (time.Duration, error) {
	text := req.FormValue(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, badParameter(name, err)
	}
	return d, nil
}

// checkRaw reads raw, which makes no difference here: captured traces are as Jaeger
// adjusted them.
func checkRaw(req *http.Request) error {
	text := req.FormValue("raw")
	if text == "" {
		return nil
	}
	if _, err := strconv.ParseBool(text); err != nil {
		return badParameter("raw", err)
	}
	return nil
}

// tagsOf reads tag=key:value and tags={"key":"value"}.
func tagsOf(simple, objects []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range simple {
		key, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("malformed 'tag' parameter, expecting key:value, received: %s", text)
		}
		out[key] = value
	}
	for _, text := range objects {
		var some map[string]string
		if err := json.Unmarshal([]byte(text), &some); err != nil {
			return nil, fmt.Errorf("malformed 'tags' parameter, cannot unmarshal JSON: %w", err)
		}
		maps.Copy(out, some)
	}
	return out, nil
}
