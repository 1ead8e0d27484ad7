package evaluator

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubecase/kubecase/recorder"
)

// TestScore scores the documentation's example. Its calls: 1 unsupported, 2 and 3
// the same list of pods, 4 a description with the event, 5 the deployment, 6 the
// nodes. By hand: all three groups are established and grounded; credited are
// 2 (symptom), 4 (scheduling), 5 and 6 (cause): EE = 4/6; 3 is redundant: RAR = 1/6.
func TestScore(t *testing.T) {
	truth, err := ParseTruth("truth.yaml", example(t))
	if err != nil {
		t.Fatal(err)
	}
	episode := Episode{
		Case: "c", System: "shop", Agent: "a", ID: "e1", Trajectory: exampleTrajectory(t),
		Submission: &Submission{Component: "Deployment/Cart", Fault: "node_selector_mismatch", Layer: "virtualization", Components: []string{"web", "app/cartservice"}},
	}
	score, err := New(truth, Options{}).Score(t.Context(), episode)
	if err != nil || len(score.Failures) > 0 {
		t.Fatal(err, score.Failures)
	}
	want := map[Metric]Mark{
		CA: {Value: 1}, FA: {Value: 1}, JRA: {Value: 1}, MC: {Value: 1}, EOC: {Value: 1}, ECR: {Value: 1}, EE: {Value: 4.0 / 6}, Steps: {Value: 6}, RAR: {Value: 1.0 / 6},
		DetectionAccuracy: {Value: 1}, LocalisationAt1: {}, LocalisationAt3: {Value: 1}, AnalysisLayer: {Value: 1}, AnalysisFault: {Value: 1}, MitigationAccuracy: {},
		TimeToDetect: {Unscored: NotGiven}, TimeToMitigate: {Unscored: NotGiven}, InputTokens: {Unscored: NotGiven}, OutputTokens: {Unscored: NotGiven},
	}
	if diff := cmp.Diff(want, score.Marks); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	if !slices.Equal(score.Process.Credited, []int{2, 4, 5, 6}) || !slices.Equal(score.Process.Redundant, []int{3}) {
		t.Errorf("credited %v, redundant %v", score.Process.Credited, score.Process.Redundant)
	}
	if score.Category != "Scheduling" || score.Difficulty != "Easy" || score.Source != Authored {
		t.Errorf("%s, %s, %s", score.Category, score.Difficulty, score.Source)
	}
	data, err := json.Marshal(score)
	if err != nil {
		t.Fatal(err)
	}
	var back Score
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(score, &back); diff != "" {
		t.Errorf("a score read again (-want +got):\n%s", diff)
	}

	episode.Infrastructure = "the server ended"
	score, err = New(truth, Options{}).Score(t.Context(), episode)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Metrics {
		if score.Marks[m] != (Mark{Unscored: "infrastructure: the server ended"}) {
			t.Errorf("%s of a broken episode is %+v", m, score.Marks[m])
		}
	}
}

// TestOutcome marks diagnoses, in cases with a fault and without.
func TestOutcome(t *testing.T) {
	const faulty = "apiVersion: kubecase.io/v1\nkind: Truth\noutcome: {component: cart, fault: OOMKilled}\n"
	for _, test := range []struct {
		name, truth         string
		submission          *Submission
		ca, fa, jra, detect float64
		at1, at3            string // "0", "1", "-" for not posed
	}{
		{"right", faulty, &Submission{Component: "cart", Fault: "oom killed"}, 1, 1, 1, 1, "1", "1"},
		{"component alone", faulty, &Submission{Component: "cart", Fault: "CodeMemoryLeak"}, 1, 0, 0, 1, "1", "1"},
		{"fault alone", faulty, &Submission{Component: "web", Fault: "OOMKilled"}, 0, 1, 0, 1, "0", "0"},
		{"component missing", faulty, &Submission{Fault: "OOMKilled"}, 0, 1, 0, 1, "0", "0"},
		{"ranked third", faulty, &Submission{Components: []string{"a", "b", "cart", "d"}}, 0, 0, 0, 1, "0", "1"},
		{"ranked fourth", faulty, &Submission{Components: []string{"a", "b", "c", "cart"}}, 0, 0, 0, 1, "0", "0"},
		{"says that nothing is wrong", faulty, &Submission{Detected: ptr(false)}, 0, 0, 0, 0, "0", "0"},
		{"says nothing", faulty, &Submission{}, 0, 0, 0, 0, "0", "0"},
		{"none submitted", faulty, nil, 0, 0, 0, 0, "0", "0"},
		{"no fault, none seen", head, &Submission{Detected: ptr(false)}, 1, 1, 1, 1, "-", "-"},
		{"no fault, called none", head, &Submission{Component: "none", Fault: "No fault"}, 1, 1, 1, 1, "-", "-"},
		{"no fault, false alarm", head, &Submission{Detected: ptr(true)}, 0, 0, 0, 0, "-", "-"},
		{"no fault, one named", head, &Submission{Detected: ptr(false), Component: "cart"}, 0, 0, 0, 0, "-", "-"},
		{"no fault, some ranked", head, &Submission{Components: []string{"cart"}}, 0, 0, 0, 0, "-", "-"},
		{"no fault, silence", head, &Submission{}, 0, 0, 0, 0, "-", "-"},
		{"no fault, none submitted", head, nil, 0, 0, 0, 0, "-", "-"},
	} {
		truth, err := ParseTruth("t.yaml", []byte(test.truth))
		if err != nil {
			t.Fatal(err)
		}
		score, err := New(truth, Options{}).Score(t.Context(), Episode{Submission: test.submission})
		if err != nil {
			t.Fatal(err)
		}
		mark := map[string]Mark{"0": {}, "1": {Value: 1}, "-": {Unscored: NotPosed}}
		want := map[Metric]Mark{CA: {Value: test.ca}, FA: {Value: test.fa}, JRA: {Value: test.jra}, DetectionAccuracy: {Value: test.detect}, LocalisationAt1: mark[test.at1], LocalisationAt3: mark[test.at3], MC: {Unscored: NoGraph}, Steps: {}, MitigationAccuracy: {Unscored: NotPosed}, AnalysisLayer: {Unscored: NotPosed}}
		for m, w := range want {
			if score.Marks[m] != w {
				t.Errorf("%s: %s = %+v, want %+v", test.name, m, score.Marks[m], w)
			}
		}
		if len(score.Marks) != len(Metrics) {
			t.Errorf("%s: %d marks, want %d", test.name, len(score.Marks), len(Metrics))
		}
	}
}

// TestUnsupportedIsNoEvidence scores a trajectory of which nothing was delivered:
// it has steps, and nothing else.
func TestUnsupportedIsNoEvidence(t *testing.T) {
	truth, err := ParseTruth("truth.yaml", example(t))
	if err != nil {
		t.Fatal(err)
	}
	trajectory := exampleTrajectory(t)
	for i := range trajectory.Calls {
		trajectory.Calls[i].Uses[0].Class = recorder.Unsupported
	}
	score, err := New(truth, Options{}).Score(t.Context(), Episode{Trajectory: trajectory})
	if err != nil {
		t.Fatal(err)
	}
	// Call 3 repeats call 2, and learns nothing from it either: RAR = 1/6.
	for m, want := range map[Metric]float64{Steps: 6, MC: 0, EOC: 0, ECR: 0, EE: 0, RAR: 1.0 / 6} {
		if got := score.Marks[m]; got != (Mark{Value: want}) {
			t.Errorf("%s = %+v, want %v", m, got, want)
		}
	}
}

func TestJudgeMitigation(t *testing.T) {
	truth, err := ParseTruth("truth.yaml", example(t))
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]float64{
		`{"nodeSelector":{"disk":"nvme"}}`: 0,
		`{"nodeSelector":{"zone":"a"}}`:    1,
		`{}`:                               1,
	} {
		var pod map[string]any
		if err := json.Unmarshal([]byte(spec), &pod); err != nil {
			t.Fatal(err)
		}
		mark, failed, err := truth.JudgeMitigation(t.Context(), func(resource, namespace, name string) []map[string]any {
			if resource != "deployments" || namespace != "shop" || name != "cart" {
				t.Errorf("asked for %s %s/%s", resource, namespace, name)
			}
			return []map[string]any{{"spec": map[string]any{"template": map[string]any{"spec": pod}}}}
		})
		if err != nil || mark != (Mark{Value: want}) || (want == 0) != slices.Equal(failed, []string{"schedulable"}) {
			t.Errorf("%s: %+v, failed %v, %v", spec, mark, failed, err)
		}
	}
	mark, failed, err := truth.JudgeMitigation(t.Context(), func(string, string, string) []map[string]any { return nil })
	if err != nil || mark.Value != 0 || len(failed) != 1 {
		t.Errorf("without the object: %+v, %v, %v", mark, failed, err)
	}
}

func TestMarkJSON(t *testing.T) {
	for _, text := range []string{`{}`, `{"value":1,"unscored":"x"}`, `[]`} {
		var m Mark
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s was read as %+v", text, m)
		}
	}
}

func scoreOf(agent, name string, m Metric, value float64) *Score {
	return &Score{Case: name, System: "s", Agent: agent, Category: "Runtime", Difficulty: "Easy", Source: Authored, Marks: map[Metric]Mark{m: {Value: value}}}
}

// TestAggregate averages by hand: repeats of a case weigh as one, broken
// episodes stay out of the mean and in the count.
func TestAggregate(t *testing.T) {
	broken := scoreOf("a", "c3", JRA, 0)
	broken.Marks[JRA] = Mark{Unscored: "infrastructure: x"}
	scores := []*Score{scoreOf("a", "c1", JRA, 1), scoreOf("a", "c1", JRA, 0), scoreOf("a", "c2", JRA, 1), broken, scoreOf("b", "c1", JRA, 1)}
	rows := Aggregate(scores, ByAgent)
	if len(rows) != 2 || rows[0].Agent != "a" || rows[1].Agent != "b" || rows[0].Cases != 3 || rows[0].Episodes != 4 {
		t.Fatalf("rows: %+v", rows)
	}
	got := rows[0].Metrics[JRA]
	// Resamples of {0.5, 1} have the means 0.5, 0.75 and 1 with the probabilities
	// 1/4, 1/2 and 1/4, so the outer 2.5 % on both sides are 0.5 and 1.
	want := Summary{Mean: 0.75, Low: 0.5, High: 1, Scored: 2, Cases: 3, Unscored: map[string]int{"infrastructure: x": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if got := rows[1].Metrics[JRA]; got.Low != 1 || got.High != 1 || got.Mean != 1 {
		t.Errorf("one case: %+v", got)
	}

	derived := scoreOf("a", "c4", MC, 0)
	derived.Source = Derived
	none := scoreOf("a", "c5", JRA, 0)
	none.Source = ""
	row := Aggregate([]*Score{scoreOf("a", "c1", MC, 1), derived, none})[0]
	if a, d := row.Process[Authored][MC], row.Process[Derived][MC]; a.Mean != 1 || d.Mean != 0 || a.Cases != 1 || d.Cases != 1 {
		t.Errorf("authored and derived graphs: %+v, %+v", a, d)
	}
	if _, mixed := row.Metrics[MC]; mixed {
		t.Error("a figure mixes graphs of both sources")
	}
}

// TestDeterminism wants the same bytes whatever order the scores come in.
func TestDeterminism(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var scores []*Score
	for i := range 60 {
		s := scoreOf([]string{"a", "b"}[i%2], string(rune('a'+i/4)), JRA, r.Float64())
		s.Marks[MC] = Mark{Value: r.Float64()}
		scores = append(scores, s)
	}
	var first []byte
	for range 5 {
		r.Shuffle(len(scores), func(i, j int) { scores[i], scores[j] = scores[j], scores[i] })
		var a, b []*Score
		for _, s := range scores {
			if s.Agent == "a" {
				a = append(a, s)
			} else {
				b = append(b, s)
			}
		}
		out, err := json.Marshal([]any{Aggregate(scores, ByAgent, ByDifficulty), Compare(a, b, JRA, ""), Compare(a, b, MC, Authored)})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out
		}
		if string(first) != string(out) {
			t.Fatalf("another order gives other bytes:\n%s\n%s", first, out)
		}
	}
}

// TestCompare has p-values by hand: with n cases that all differ the same way by
// the same amount, two of 2^n sign patterns are as extreme.
func TestCompare(t *testing.T) {
	agent := func(name string, values ...float64) (out []*Score) {
		for i, v := range values {
			out = append(out, scoreOf(name, string(rune('a'+i)), JRA, v))
		}
		return out
	}
	for _, test := range []struct {
		name                          string
		a, b                          []float64
		difference, sign, permutation float64
		higher, lower, equal          int
		onlyA, onlyB                  int
	}{
		{"always better", []float64{1, 1, 1, 1, 1}, []float64{0, 0, 0, 0, 0}, 1, 2.0 / 32, 2.0 / 32, 5, 0, 0, 0, 0},
		{"the same", []float64{1, 0}, []float64{1, 0}, 0, 1, 1, 0, 0, 2, 0, 0},
		// Sign: 2 (C(4,0)+C(4,1)) / 16. Permutation: |±1±1±1±1| ≥ 2 in all but C(4,2) = 6 patterns.
		{"three of four", []float64{1, 1, 1, 0}, []float64{0, 0, 0, 1}, 0.5, 10.0 / 16, 10.0 / 16, 3, 1, 0, 0, 0},
		{"more cases in one", []float64{1, 1, 1}, []float64{0}, 1, 1, 1, 1, 0, 0, 2, 0},
		{"nothing in common", nil, []float64{0}, 0, 1, 1, 0, 0, 0, 0, 1},
	} {
		got := Compare(agent("a", test.a...), agent("b", test.b...), JRA, "")
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !near(got.Difference, test.difference) || !near(got.SignP, test.sign) || !near(got.PermutationP, test.permutation) || got.Higher != test.higher || got.Lower != test.lower || got.Equal != test.equal || got.OnlyA != test.onlyA || got.OnlyB != test.onlyB {
			t.Errorf("%s: %+v", test.name, got)
		}
		if got.Low > got.Difference || got.High < got.Difference {
			t.Errorf("%s: %v is not between %v and %v", test.name, got.Difference, got.Low, got.High)
		}
	}
	// Beyond the exact range: 40 of 40 is as unlikely as sampling can tell.
	many := Compare(agent("a", slices.Repeat([]float64{1}, 40)...), agent("b", slices.Repeat([]float64{0}, 40)...), JRA, "")
	if many.PermutationP != 1.0/(sampledFlips+1) || many.SignP > 1e-11 || many.SignP <= 0 {
		t.Errorf("forty of forty: %+v", many)
	}
	// Figures of graphs don't mix sources.
	if got := Compare([]*Score{scoreOf("a", "c", MC, 1)}, []*Score{scoreOf("b", "c", MC, 0)}, MC, Derived); got.Cases != 0 {
		t.Errorf("authored graphs were compared as derived ones: %+v", got)
	}
}
