package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/kubecase/kubecase/fixtures/clock"
)

// document answers with what Prometheus answered when it was captured.
func (a *api) document(name string) handler {
	return func(*http.Request) (result, error) {
		data, err := a.captured(name)
		return result{data: data}, err
	}
}

// captured is the data of a captured answer, in the time of the clock.
func (a *api) captured(name string) (json.RawMessage, error) {
	file := apiDir + name + ".json"
	text, err := a.fixture.Document(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure{notCaptured, fmt.Errorf("what Prometheus says of its %s was not captured%s", name, a.fixture.WhyNot(strings.TrimSuffix(file, ".json"), "metrics"))}
	}
	if err != nil {
		return nil, failure{internal, err}
	}
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	var data bytes.Buffer
	if err := json.Unmarshal(text, &envelope); err != nil {
		return nil, failure{internal, fmt.Errorf("%s: %w", file, err)}
	}
	if len(envelope.Data) == 0 {
		return nil, failure{internal, fmt.Errorf("%s has no data: keep Prometheus' answer whole", file)}
	}
	if err := json.Compact(&data, envelope.Data); err != nil {
		return nil, failure{internal, err}
	}
	return clock.ShiftJSON(data.Bytes(), a.clock.Offset()), nil
}

// decoded is captured data as a value.
func decoded[T any](a *api, name string) (T, error) {
	var out T
	data, err := a.captured(name)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, failure{internal, fmt.Errorf("%s%s.json: %w", apiDir, name, err)}
	}
	return out, nil
}

// status answers status/<name> from the document of that name.
func (a *api) status(req *http.Request) (result, error) {
	name := req.PathValue("name")
	if !fs.ValidPath(name) {
		return result{}, failure{badData, fmt.Errorf("no status %q", name)}
	}
	return a.document(name)(req)
}

// buildInfo is that of the captured Prometheus; where it isn't known, that of what answers.
func (a *api) buildInfo(*http.Request) (result, error) {
	data, err := a.captured("buildinfo")
	if kindOf(err) != notCaptured || err == nil {
		return result{data: data}, err
	}
	if _, err := a.samples(); err != nil {
		return result{}, err
	}
	return result{data: struct {
		Version   string `json:"version"`
		Revision  string `json:"revision"`
		Branch    string `json:"branch"`
		BuildUser string `json:"buildUser"`
		BuildDate string `json:"buildDate"`
		GoVersion string `json:"goVersion"`
	}{Version: engineVersion(), Revision: "kubecase", GoVersion: runtime.Version()}}, nil
}

// engineVersion is the version of Prometheus that the engine is of: its module v0.316.0
// is release 3.16.0.
func engineVersion() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "3"
	}
	for _, m := range build.Deps {
		if m.Path != "github.com/prometheus/prometheus" {
			continue
		}
		parts := strings.Split(strings.TrimPrefix(m.Version, "v0."), ".")
		if n, err := strconv.Atoi(parts[0]); err == nil && len(parts) == 2 {
			return fmt.Sprintf("%d.%d.%s", n/100, n%100, parts[1])
		}
	}
	return "3"
}

// targets narrows the captured targets as Prometheus does.
func (a *api) targets(req *http.Request) (result, error) {
	all, err := decoded[struct {
		Active  []json.RawMessage `json:"activeTargets"`
		Dropped []json.RawMessage `json:"droppedTargets"`
		Counts  json.RawMessage   `json:"droppedTargetCounts,omitempty"`
	}](a, "targets")
	if err != nil {
		return result{}, err
	}
	pool, state := req.URL.Query().Get("scrapePool"), strings.ToLower(req.URL.Query().Get("state"))
	narrow := func(targets []json.RawMessage, shown bool) []json.RawMessage {
		return slices.DeleteFunc(append([]json.RawMessage{}, targets...), func(t json.RawMessage) bool {
			var of struct {
				ScrapePool string `json:"scrapePool"`
			}
			return !shown || pool != "" && (json.Unmarshal(t, &of) != nil || of.ScrapePool != pool)
		})
	}
	all.Active = narrow(all.Active, state == "" || state == "any" || state == "active")
	dropped := state == "" || state == "any" || state == "dropped"
	all.Dropped = narrow(all.Dropped, dropped)
	if !dropped && len(all.Counts) > 0 {
		all.Counts = json.RawMessage("null")
	}
	return result{data: all}, nil
}

// rules narrows the captured rules as Prometheus does.
func (a *api) rules(req *http.Request) (result, error) {
	kind := strings.ToLower(req.FormValue("type"))
	if kind != "" && kind != "alert" && kind != "record" {
		return result{}, invalid("type", fmt.Errorf("not supported value %q", kind))
	}
	noAlerts := false
	if text := req.FormValue("exclude_alerts"); text != "" {
		var err error
		if noAlerts, err = strconv.ParseBool(text); err != nil {
			return result{}, invalid("exclude_alerts", fmt.Errorf("error converting exclude_alerts: %w", err))
		}
	}
	sets, err := a.matchers(req)
	if err != nil {
		return result{}, err
	}
	all, err := decoded[struct {
		Groups []orderedObject `json:"groups"`
	}](a, "rules")
	if err != nil {
		return result{}, err
	}
	names, groups, files := req.Form["rule_name[]"], req.Form["rule_group[]"], req.Form["file[]"]
	narrowed := len(names) > 0 || len(sets) > 0 || kind != ""
	kept := []orderedObject{}
	for _, g := range all.Groups {
		if len(groups) > 0 && !slices.Contains(groups, g.text("name")) || len(files) > 0 && !slices.Contains(files, g.text("file")) {
			continue
		}
		var rules []orderedObject
		if err := json.Unmarshal(g.get("rules"), &rules); err != nil {
			return result{}, failure{internal, fmt.Errorf("%srules.json: %w", apiDir, err)}
		}
		shown := []orderedObject{}
		for _, r := range rules {
			alerting := r.text("type") == "alerting"
			if kind == "alert" && !alerting || kind == "record" && alerting || len(names) > 0 && !slices.Contains(names, r.text("name")) || !r.selected(sets) {
				continue
			}
			if noAlerts && alerting {
				r.set("alerts", json.RawMessage("[]"))
			}
			shown = append(shown, r)
		}
		if narrowed && len(shown) == 0 {
			continue
		}
		encoded, err := json.Marshal(shown)
		if err != nil {
			return result{}, err
		}
		g.set("rules", encoded)
		kept = append(kept, g)
	}
	return result{data: struct {
		Groups []orderedObject `json:"groups"`
	}{kept}}, nil
}

// metadata is what the captured Prometheus knew of its metrics; where that isn't known,
// what the captured text says of them.
func (a *api) metadata(req *http.Request) (result, error) {
	limit, perMetric := -1, -1
	for name, n := range map[string]*int{"limit": &limit, "limit_per_metric": &perMetric} {
		text := req.FormValue(name)
		if text == "" {
			continue
		}
		var err error
		if *n, err = strconv.Atoi(text); err != nil {
			return result{}, failure{badData, fmt.Errorf("%s must be a number", name)}
		}
	}
	all, err := decoded[map[string][]json.RawMessage](a, "metadata")
	if kindOf(err) == notCaptured && err != nil {
		all, err = a.families()
	}
	if err != nil {
		return result{}, err
	}
	found := map[string][]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if limit >= 0 && len(found) >= limit {
			break
		}
		if wanted := req.FormValue("metric"); wanted != "" && wanted != name {
			continue
		}
		entries := all[name]
		if perMetric > 0 && len(entries) > perMetric {
			entries = entries[:perMetric]
		}
		found[name] = entries
	}
	return result{data: found}, nil
}

func (a *api) families() (map[string][]json.RawMessage, error) {
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	out := map[string][]json.RawMessage{}
	for name, f := range s.families {
		if out[name], err = one(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func one(f family) ([]json.RawMessage, error) {
	text, err := json.Marshal(struct {
		Type string `json:"type"`
		Help string `json:"help"`
		Unit string `json:"unit"`
	}{f.kind, f.help, f.unit})
	return []json.RawMessage{text}, err
}

// orderedObject is a JSON object that keeps its fields in their order.
type orderedObject []field

type field struct {
	name  string
	value json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *orderedObject) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("not an object"), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		f := field{name: name.(string)} // an object's keys are texts
		if err := d.Decode(&f.value); err != nil {
			return err
		}
		*o = append(*o, f)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (o orderedObject) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (o orderedObject) get(name string) json.RawMessage {
	if i := slices.IndexFunc(o, func(f field) bool { return f.name == name }); i >= 0 {
		return o[i].value
	}
	return json.RawMessage("null")
}

func (o orderedObject) set(name string, value json.RawMessage) {
	if i := slices.IndexFunc(o, func(f field) bool { return f.name == name }); i >= 0 {
		o[i].value = value
	}
}

// text is a field's text; empty for anything else.
func (o orderedObject) text(name string) string {
	var out string
	if json.Unmarshal(o.get(name), &out) != nil {
		return ""
	}
	return out
}

// selected reports whether a rule's labels are selected by one of the sets.
func (o orderedObject) selected(sets [][]*labels.Matcher) bool {
	if len(sets) == 0 {
		return true
	}
	var of map[string]string
	if json.Unmarshal(o.get("labels"), &of) != nil {
		return false
	}
	l := labels.FromMap(of)
	return slices.ContainsFunc(sets, func(set []*labels.Matcher) bool { return matches(l, set) })
}
