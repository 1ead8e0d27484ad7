package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/almost"
	"github.com/prometheus/prometheus/util/jsonutil"
)

// scriptOptions are what Prometheus' own scripts are run with.
var scriptOptions = parser.Options{EnableExperimentalFunctions: true, EnableBinopFillModifiers: true, EnableUnquotedUTF8Names: true}

// notLoaded are the scripts of what a case's samples can't have: start timestamps, and
// native histograms that are made of classic ones on the way in.
var notLoaded = map[string]string{"start_timestamps.test": "samples of text have no start timestamps"}

// TestPrometheusScripts runs Prometheus' own tests of its query language through the HTTP
// API, on series that are loaded into a store.
func TestPrometheusScripts(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus").Output()
	if err != nil {
		t.Skipf("the sources of Prometheus aren't at hand: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "promql", "promqltest", "testdata", "*.test"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if reason := notLoaded[filepath.Base(file)]; reason != "" {
				t.Skip(reason)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScript(t)
			s.run(string(text))
			t.Logf("%d evaluations, %d left out %v", s.done, s.leftOut, s.why)
			if s.done == 0 {
				t.Error("nothing was evaluated")
			}
		})
	}
}

var (
	loadLine    = regexp.MustCompile(`^load(_with_nhcb)?\s+(.+)$`)
	instantLine = regexp.MustCompile(`^eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(.+?))?\s+(.+)$`)
	rangeLine   = regexp.MustCompile(`^eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)$`)
	expectLine  = regexp.MustCompile(`^expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?$`)
	expectRange = regexp.MustCompile(`^expect range vector from\s+(.+)\s+to\s+(.+)\s+step\s+(.+)$`)
)

// script runs one file.
type script struct {
	t      *testing.T
	parser parser.Parser
	store  *store
	// tainted says why the loaded series aren't what the script means.
	tainted       string
	done, leftOut int
	why           map[string]int
	api           *api
}

func newScript(t *testing.T) *script {
	shim := New(Options{})
	shim.parser = parser.NewParser(scriptOptions)
	shim.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10000, Timeout: 100 * time.Second, NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		EnableAtModifier: true, EnableNegativeOffset: true, LookbackDelta: lookback, EnableDelayedNameRemoval: true, Parser: shim.parser,
	})
	return &script{t: t, parser: shim.parser, store: newStore(), why: map[string]int{}, api: &api{shim: shim}}
}

func (s *script) run(text string) {
	lines := strings.Split(text, "\n")
	for i := range lines {
		if lines[i] = strings.TrimSpace(lines[i]); strings.HasPrefix(lines[i], "#") {
			lines[i] = ""
		}
	}
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" {
			continue
		}
		end := i
		for end < len(lines) && lines[end] != "" {
			end++
		}
		switch block := lines[i:end]; {
		case block[0] == "clear":
			s.store, s.tainted = newStore(), ""
			end = i + 1
		case strings.HasPrefix(block[0], "load"):
			s.load(block)
		default:
			end = i + s.eval(i+1, block)
		}
		i = end - 1
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := model.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(d)
}

func (s *script) load(block []string) {
	m := loadLine.FindStringSubmatch(block[0])
	if m == nil {
		s.t.Fatalf("%q", block[0])
	}
	if m[1] != "" {
		s.tainted = "classic histograms are loaded as native ones"
	}
	step := duration(s.t, m[2]).Milliseconds()
	defined := map[*series]bool{}
	for _, line := range block[1:] {
		if strings.Contains(strings.SplitN(line, " ", 2)[0], "@st") {
			s.tainted = "start timestamps are loaded"
			continue
		}
		l, values, err := s.parser.ParseSeriesDesc(line)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		one, err := s.store.of(l)
		if err != nil {
			s.t.Fatal(err)
		}
		if defined[one] { // of two definitions in a block the second one holds
			one.floats, one.hists = nil, nil
		}
		defined[one] = true
		for i, v := range values {
			switch at := int64(i) * step; {
			case v.Omitted:
			case v.Histogram != nil:
				one.hists = append(one.hists, histogramPoint{at, v.Histogram})
			default:
				one.floats = append(one.floats, point{at, v.Value})
			}
		}
	}
}

// evaluation is an eval command with what it expects.
type evaluation struct {
	form           url.Values
	path           string
	start          int64
	step           int64
	fail, ordered  bool
	warn, info     bool
	noWarn, noInfo bool
	message        string
	pattern        *regexp.Regexp
	text           *string
	scalar         *float64
	series         []expected
}

type expected struct {
	labels labels.Labels
	values []parser.SequenceValue
}

// eval runs the command at the start of a block and returns how many lines it took.
func (s *script) eval(line int, block []string) int {
	e := evaluation{form: url.Values{}}
	mode := ""
	if m := instantLine.FindStringSubmatch(block[0]); m != nil {
		at := duration(s.t, m[2])
		mode, e.path, e.start = m[1], "query", at.Milliseconds()
		e.form = url.Values{"query": {m[3]}, "time": {seconds(at.Milliseconds())}}
	} else if m := rangeLine.FindStringSubmatch(block[0]); m != nil {
		from, to, step := duration(s.t, m[2]), duration(s.t, m[3]), duration(s.t, m[4])
		mode, e.path, e.start, e.step = m[1], "query_range", from.Milliseconds(), step.Milliseconds()
		e.form = url.Values{"query": {m[5]}, "start": {seconds(from.Milliseconds())}, "end": {seconds(to.Milliseconds())}, "step": {seconds(step.Milliseconds())}}
	} else {
		s.t.Fatalf("line %d: %q", line, block[0])
	}
	e.fail, e.warn, e.info, e.ordered = mode == "fail", mode == "warn", mode == "info", mode == "ordered"
	taken := 1
lines:
	for _, text := range block[1:] {
		taken++
		switch m := expectLine.FindStringSubmatch(text); {
		case strings.HasPrefix(text, "expected_fail_message"):
			e.message = strings.TrimSpace(strings.TrimPrefix(text, "expected_fail_message"))
			break lines
		case strings.HasPrefix(text, "expected_fail_regexp"):
			e.pattern = regexp.MustCompile(strings.TrimSpace(strings.TrimPrefix(text, "expected_fail_regexp")))
			break lines
		case expectRange.MatchString(text):
			r := expectRange.FindStringSubmatch(text)
			e.start, e.step = duration(s.t, r[1]).Milliseconds(), duration(s.t, r[3]).Milliseconds()
		case strings.HasPrefix(text, "expect string"):
			want, err := strconv.Unquote(strings.TrimSpace(strings.TrimPrefix(text, "expect string")))
			if err != nil {
				s.t.Fatalf("line %d: %v", line, err)
			}
			e.text = &want
		case m != nil:
			switch m[1] {
			case "ordered":
				e.ordered = true
			case "fail":
				e.fail = true
				if m[2] == "msg" {
					e.message = strings.TrimSpace(m[3])
				} else if m[2] == "regex" {
					e.pattern = regexp.MustCompile(strings.TrimSpace(m[3]))
				}
			case "warn":
				e.warn = true
			case "info":
				e.info = true
			case "no_warn":
				e.noWarn = true
			case "no_info":
				e.noInfo = true
			}
		default:
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				e.scalar = &f
				break lines
			}
			l, values, err := s.parser.ParseSeriesDesc(text)
			if err != nil {
				s.t.Fatalf("line %d: %s: %v", line, text, err)
			}
			e.series = append(e.series, expected{l, values})
		}
	}
	if s.tainted != "" {
		s.leftOut++
		s.why[s.tainted]++
		return taken
	}
	if err := s.check(e); err != nil {
		s.t.Errorf("line %d: %s: %v", line, block[0], err)
	}
	s.done++
	return taken
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) }

// answered is what the HTTP API answers.
type answered struct {
	Status, ErrorType, Error string
	Warnings, Infos          []string
	Data                     struct {
		ResultType string
		Result     json.RawMessage
	}
}

type answeredSeries struct {
	Metric     map[string]string
	Value      json.RawMessage
	Histogram  json.RawMessage
	Values     []json.RawMessage
	Histograms []json.RawMessage
}

func (s *script) check(e evaluation) error {
	copied := *s.store
	copied.series = slices.Clone(s.store.series)
	copied.seal()
	s.api.queryable = queryable{store: &copied}
	w := httptest.NewRecorder()
	s.api.routes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+e.path+"?"+e.form.Encode(), nil))
	var a answered
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		return fmt.Errorf("%w: %s", err, w.Body)
	}
	if e.fail {
		switch {
		case a.Status != "error":
			return errors.New("no error")
		case e.message != "" && a.Error != e.message && !strings.HasSuffix(a.Error, e.message):
			return fmt.Errorf("error %q, want %q", a.Error, e.message)
		case e.pattern != nil && !e.pattern.MatchString(a.Error):
			return fmt.Errorf("error %q, want %s", a.Error, e.pattern)
		}
		return nil
	}
	switch {
	case a.Status != "success":
		return errors.New(a.Error)
	case e.warn && len(a.Warnings) == 0, e.noWarn && len(a.Warnings) > 0, e.info && len(a.Infos) == 0, e.noInfo && len(a.Infos) > 0:
		return fmt.Errorf("warnings %q, infos %q", a.Warnings, a.Infos)
	}
	switch a.Data.ResultType {
	case "string", "scalar":
		var pair [2]any
		if err := json.Unmarshal(a.Data.Result, &pair); err != nil {
			return err
		}
		if a.Data.ResultType == "string" {
			if e.text == nil || pair[1] != *e.text {
				return fmt.Errorf("%v", pair)
			}
			return nil
		}
		got, err := strconv.ParseFloat(pair[1].(string), 64)
		if err != nil || e.scalar == nil || !almost.Equal(*e.scalar, got, 1e-6) {
			return fmt.Errorf("scalar %v", pair)
		}
		return nil
	}
	var series []answeredSeries
	if err := json.Unmarshal(a.Data.Result, &series); err != nil {
		return err
	}
	if len(series) != len(e.series) {
		return fmt.Errorf("%d series, want %d: %s", len(series), len(e.series), a.Data.Result)
	}
	for i, want := range e.series {
		if !e.ordered {
			i = slices.IndexFunc(series, func(got answeredSeries) bool { return maps.Equal(got.Metric, want.labels.Map()) })
		}
		if i < 0 || !maps.Equal(series[i].Metric, want.labels.Map()) {
			return fmt.Errorf("%s is not where it belongs: %s", want.labels, a.Data.Result)
		}
		if err := e.compare(want, series[i]); err != nil {
			return fmt.Errorf("%s: %w", want.labels, err)
		}
	}
	return nil
}

// compare compares points: floats as Prometheus' own runner does, histograms as JSON.
func (e evaluation) compare(want expected, got answeredSeries) error {
	floats, hists := got.Values, got.Histograms
	if got.Value != nil {
		floats = append(floats, got.Value)
	}
	if got.Histogram != nil {
		hists = append(hists, got.Histogram)
	}
	for i, v := range want.values {
		if v.Omitted {
			continue
		}
		from := &floats
		if v.Histogram != nil {
			from = &hists
		}
		if len(*from) == 0 {
			return fmt.Errorf("value %d of %v is missing", i, want.values)
		}
		var pair [2]json.RawMessage
		if err := json.Unmarshal((*from)[0], &pair); err != nil {
			return err
		}
		*from = (*from)[1:]
		if at, want := string(pair[0]), seconds(e.start+int64(i)*e.step); !same(at, want, 0) {
			return fmt.Errorf("value %d is at %s, want %s", i, at, want)
		}
		if v.Histogram != nil {
			if err := sameHistogram(v, pair[1]); err != nil {
				return err
			}
			continue
		}
		var text string
		if err := json.Unmarshal(pair[1], &text); err != nil {
			return err
		}
		if f, err := strconv.ParseFloat(text, 64); err != nil || !almost.Equal(v.Value, f, 1e-6) {
			return fmt.Errorf("value %d is %s, want %v", i, text, v.Value)
		}
	}
	if len(floats)+len(hists) > 0 {
		return fmt.Errorf("%d more values than %v", len(floats)+len(hists), want.values)
	}
	return nil
}

func same(a, b string, within float64) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && (math.Abs(x-y) <= within*max(math.Abs(x), math.Abs(y)) || math.IsNaN(x) && math.IsNaN(y))
}

// sameHistogram compares count, sum and buckets.
func sameHistogram(want parser.SequenceValue, got json.RawMessage) error {
	stream := jsoniter.ConfigCompatibleWithStandardLibrary.BorrowStream(nil)
	defer jsoniter.ConfigCompatibleWithStandardLibrary.ReturnStream(stream)
	jsonutil.MarshalHistogram(want.Histogram.Copy().Compact(0), stream)
	type histogram struct {
		Count, Sum string
		Buckets    [][4]any
	}
	var a, b histogram
	if err := errors.Join(json.Unmarshal(stream.Buffer(), &a), json.Unmarshal(got, &b)); err != nil {
		return err
	}
	close := cmp.Comparer(func(x, y string) bool { return x == y || same(x, y, 1e-6) })
	if diff := cmp.Diff(a, b, close); diff != "" {
		return fmt.Errorf("histogram (-want +got):\n%s", diff)
	}
	return nil
}
