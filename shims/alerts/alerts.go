// Package alerts answers Alertmanager's API, version 2, from what a case's Alertmanager
// answered when it was captured.
//
// The captured answers are narrowed by the parameters of a request as Alertmanager narrows
// them, with its own matchers, and their times are those of the episode's clock. An alert
// that was there at the capture stays there. What wasn't captured is refused with status 501;
// silences can't be made or ended, and alerts can't be sent.
package alerts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/alertmanager/matcher/parse"
	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// api answers for one case as one clock sees it.
type api struct {
	fixture *fixtures.Case
	clock   clock.Clock
}

// refusal is an answer that is none: a status and a text.
type refusal struct {
	code int
	err  error
}

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// Handler is Alertmanager's HTTP API of a case as an episode's clock sees it: /api/v2/…,
// /-/healthy and /-/ready. The case must stay open for as long as it is asked.
func Handler(c *fixtures.Case, k clock.Clock) http.Handler {
	a := &api{c, k}
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*http.Request) (any, error){
		"alerts": a.alerts, "alerts/groups": a.groups, "silences": a.silences, "silence/{id}": a.silence,
		"status": a.whole("status"), "receivers": a.whole("receivers"),
	} {
		mux.Handle("GET /api/v2/"+path, wrap(answer))
	}
	for _, write := range []string{"POST /api/v2/alerts", "POST /api/v2/silences", "DELETE /api/v2/silence/{id}"} {
		mux.Handle(write, wrap(func(*http.Request) (any, error) {
			return nil, refusal{http.StatusForbidden, errors.New("this Alertmanager is a captured one and read-only: alerts can't be sent, silences neither made nor ended")}
		}))
	}
	alive := func(w http.ResponseWriter, _ *http.Request) {
		if _, err := a.captured("alerts"); err != nil {
			http.Error(w, err.Error(), codeOf(err))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("OK")) // a client that left needs no answer
	}
	mux.HandleFunc("GET /-/healthy", alive)
	mux.HandleFunc("GET /-/ready", alive)
	return mux
}

func codeOf(err error) int {
	if r := (refusal{}); errors.As(err, &r) {
		return r.code
	}
	return http.StatusInternalServerError
}

// wrap writes JSON as Alertmanager does: an error is a text.
func wrap(answer func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		code := http.StatusOK
		value, err := answer(req)
		if err != nil {
			code, value = codeOf(err), err.Error()
		}
		if p := (parameterError{}); errors.As(err, &p) {
			value = p
		}
		var body bytes.Buffer
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false) // captured texts keep their escapes
		if err := e.Encode(value); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
		w.WriteHeader(code)
		_, _ = w.Write(body.Bytes()) // a client that left needs no answer
	})
}

// captured is a document of the case in the time of the clock.
func (a *api) captured(name string) (json.RawMessage, error) {
	file := "alerts/" + name + ".json"
	text, err := a.fixture.Document(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal{http.StatusNotImplemented, fmt.Errorf("the %s of Alertmanager were not captured%s", name, a.fixture.WhyNot("alerts/"+name, "alerts"))}
	}
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return clock.ShiftJSON(compact.Bytes(), a.clock.Offset()), nil
}

// Listed are the captured alerts, all of them, as Alertmanager lists them.
func Listed(c *fixtures.Case, k clock.Clock) (json.RawMessage, error) {
	return (&api{c, k}).captured("alerts")
}

// list is a captured list, each entry decoded and as it is.
func list[T any](a *api, name string) ([]T, []json.RawMessage, error) {
	text, err := a.captured(name)
	if err != nil {
		return nil, nil, err
	}
	var entries []T
	var raw []json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &entries), json.Unmarshal(text, &raw)); err != nil {
		return nil, nil, fmt.Errorf("alerts/%s.json: %w", name, err)
	}
	return entries, raw, nil
}

// whole answers with a document as it is.
func (a *api) whole(name string) func(*http.Request) (any, error) {
	return func(*http.Request) (any, error) { return a.captured(name) }
}

// alert is what alerts are narrowed by.
type alert struct {
	Labels    map[string]string `json:"labels"`
	Receivers []receiver        `json:"receivers"`
	Status    struct {
		State       string   `json:"state"`
		SilencedBy  []string `json:"silencedBy"`
		InhibitedBy []string `json:"inhibitedBy"`
	} `json:"status"`
}

type receiver struct {
	Name string `json:"name"`
}

func (a *api) alerts(req *http.Request) (any, error) {
	n, err := narrowingOf(req)
	if err != nil {
		return nil, err
	}
	entries, raw, err := list[alert](a, "alerts")
	if err != nil {
		return nil, err
	}
	kept := []json.RawMessage{}
	for i, e := range entries {
		if n.keeps(e) && n.receives(e.Receivers) {
			kept = append(kept, raw[i])
		}
	}
	return kept, nil
}

func (a *api) groups(req *http.Request) (any, error) {
	n, err := narrowingOf(req)
	if err != nil {
		return nil, err
	}
	type group struct {
		Alerts   []json.RawMessage `json:"alerts"`
		Labels   json.RawMessage   `json:"labels"`
		Receiver receiver          `json:"receiver"`
	}
	groups, _, err := list[group](a, "groups")
	if err != nil {
		return nil, err
	}
	kept := []group{}
	for _, g := range groups {
		if !n.receives([]receiver{g.Receiver}) {
			continue
		}
		alerts := []json.RawMessage{}
		for _, raw := range g.Alerts {
			var e alert
			if err := json.Unmarshal(raw, &e); err != nil {
				return nil, fmt.Errorf("alerts/groups.json: %w", err)
			}
			if n.keeps(e) {
				alerts = append(alerts, raw)
			}
		}
		if len(alerts) > 0 {
			g.Alerts = alerts
			kept = append(kept, g)
		}
	}
	return kept, nil
}

// silence is what silences are narrowed by.
type silence struct {
	ID       string `json:"id"`
	Matchers []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"matchers"`
	Status struct {
		State string `json:"state"`
	} `json:"status"`
}

func (a *api) silences(req *http.Request) (any, error) {
	matchers, err := matchersOf(req)
	if err != nil {
		return nil, err
	}
	states := map[string]bool{}
	for _, state := range []string{"active", "expired", "pending"} {
		if states[state], err = flag(req, state); err != nil {
			return nil, err
		}
	}
	entries, raw, err := list[silence](a, "silences")
	if err != nil {
		return nil, err
	}
	kept := []json.RawMessage{}
	for i, e := range entries {
		names := map[string]string{}
		for _, m := range e.Matchers {
			names[m.Name] = m.Value
		}
		if shown, known := states[e.Status.State]; (shown || !known) && matches(matchers, names) {
			kept = append(kept, raw[i])
		}
	}
	return kept, nil
}

func (a *api) silence(req *http.Request) (any, error) {
	entries, raw, err := list[silence](a, "silences")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(s silence) bool { return s.ID == req.PathValue("id") })
	if i < 0 {
		return nil, refusal{http.StatusNotFound, errors.New("silence not found")}
	}
	return raw[i], nil
}

// narrowing is what of alerts is asked for.
type narrowing struct {
	matchers []*labels.Matcher
	receiver *regexp.Regexp
	// which kinds of alerts are shown
	active, silenced, inhibited, unprocessed bool
}

func narrowingOf(req *http.Request) (n narrowing, err error) {
	if n.matchers, err = matchersOf(req); err != nil {
		return n, err
	}
	if text := req.FormValue("receiver"); text != "" {
		if n.receiver, err = regexp.Compile("^(?:" + text + ")$"); err != nil {
			return n, refusal{http.StatusBadRequest, fmt.Errorf("failed to parse receiver param: %w", err)}
		}
	}
	for name, f := range map[string]*bool{"active": &n.active, "silenced": &n.silenced, "inhibited": &n.inhibited, "unprocessed": &n.unprocessed} {
		if *f, err = flag(req, name); err != nil {
			return n, err
		}
	}
	return n, nil
}

// keeps reports whether an alert is asked for, whoever receives it.
func (n narrowing) keeps(a alert) bool {
	return matches(n.matchers, a.Labels) && (n.active || a.Status.State != "active") && (n.unprocessed || a.Status.State != "unprocessed") &&
		(n.silenced || len(a.Status.SilencedBy) == 0) && (n.inhibited || len(a.Status.InhibitedBy) == 0)
}

func (n narrowing) receives(by []receiver) bool {
	return n.receiver == nil || slices.ContainsFunc(by, func(r receiver) bool { return n.receiver.MatchString(r.Name) })
}

// matchersOf reads filter=…, as Alertmanager does: in its present syntax, else the older.
func matchersOf(req *http.Request) ([]*labels.Matcher, error) {
	if err := req.ParseForm(); err != nil {
		return nil, refusal{http.StatusBadRequest, err}
	}
	var out []*labels.Matcher
	for _, text := range req.Form["filter"] {
		m, err := parse.Matcher(text)
		if err != nil {
			if m, err = labels.ParseMatcher(text); err != nil {
				return nil, refusal{http.StatusBadRequest, err}
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// matches is Alertmanager's own rule: an empty value matches a label that isn't there.
func matches(matchers []*labels.Matcher, of map[string]string) bool {
	for _, m := range matchers {
		value, present := of[m.Name]
		negative := m.Type == labels.MatchNotEqual || m.Type == labels.MatchNotRegexp
		if m.Value == "" && present == negative {
			continue
		}
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

// parameterError is what Alertmanager answers to a parameter that doesn't read.
type parameterError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (p parameterError) Error() string { return p.Message }

// flag reads a boolean, which is true when it isn't given.
func flag(req *http.Request, name string) (bool, error) {
	text := req.FormValue(name)
	switch strings.ToLower(text) {
	case "", "true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled":
		return true, nil
	case "false", "0", "no", "n", "off", "f", "disabled", "unchecked", "unselected":
		return false, nil
	}
	return false, refusal{http.StatusUnprocessableEntity, parameterError{601, fmt.Sprintf("%s in query must be of type boolean: %q", name, text)}}
}
