package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kubecase/kubecase/recorder"
)

// Metric names a number that an episode gets.
type Metric string

// The metrics; docs/metrics.md defines each.
const (
	CA    Metric = "CA"
	FA    Metric = "FA"
	JRA   Metric = "JRA"
	MC    Metric = "MC"
	EOC   Metric = "EOC"
	ECR   Metric = "ECR"
	EE    Metric = "EE"
	Steps Metric = "Steps"
	RAR   Metric = "RAR"

	DetectionAccuracy  Metric = "Detection"
	LocalisationAt1    Metric = "Acc@1"
	LocalisationAt3    Metric = "Acc@3"
	AnalysisLayer      Metric = "Layer"
	AnalysisFault      Metric = "FaultType"
	MitigationAccuracy Metric = "Mitigation"
	TimeToDetect       Metric = "TTD"
	TimeToMitigate     Metric = "TTM"
	InputTokens        Metric = "InputTokens"
	OutputTokens       Metric = "OutputTokens"
)

// Metrics are all metrics, in the order of reports.
var Metrics = []Metric{
	CA, FA, JRA, MC, EOC, ECR, EE, Steps, RAR,
	DetectionAccuracy, LocalisationAt1, LocalisationAt3, AnalysisLayer, AnalysisFault, MitigationAccuracy,
	TimeToDetect, TimeToMitigate, InputTokens, OutputTokens,
}

// ofGraph tells whether a metric depends on the evidence graph, so that its
// figures must not mix authored with derived ones.
func (m Metric) ofGraph() bool { return slices.Contains([]Metric{MC, EOC, ECR, EE, RAR}, m) }

// Mark is the value of a metric, or the reason why there is none. An unscored
// mark is not zero: it leaves the mean alone and is counted beside it.
type Mark struct {
	Value float64
	// Unscored is a reason; empty: Value counts.
	Unscored string
}

// Scored tells whether the mark has a value.
func (m Mark) Scored() bool { return m.Unscored == "" }

// MarshalJSON writes {"value": 0.5} or {"unscored": "reason"}.
func (m Mark) MarshalJSON() ([]byte, error) {
	if m.Scored() {
		return json.Marshal(map[string]float64{"value": m.Value})
	}
	return json.Marshal(map[string]string{"unscored": m.Unscored})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Mark) UnmarshalJSON(data []byte) error {
	var v struct {
		Value    *float64
		Unscored string
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if (v.Value == nil) == (v.Unscored == "") {
		return fmt.Errorf("a mark has either a value or a reason why it has none: %s", quote(string(data)))
	}
	*m = Mark{Unscored: v.Unscored}
	if v.Value != nil {
		m.Value = *v.Value
	}
	return nil
}

// Reasons of unscored marks that don't depend on a case's details.
const (
	NoGraph   = "the case has no evidence graph"
	NotPosed  = "the case doesn't pose this task"
	NotGiven  = "the submission doesn't say"
	NotJudged = "the repair was not judged"
)

// Episode is one agent's investigation of a case, as recorded.
type Episode struct {
	// Case, System and Agent are for the figures.
	Case, System, Agent string
	// ID is the episode's opaque id.
	ID         string
	Trajectory *recorder.Trajectory
	// Submission is nil when the agent submitted nothing that could be read: wrong
	// in every metric it enters.
	Submission *Submission
	// Infrastructure says what broke that was not the agent's doing (the server
	// ended, the recording is damaged). Such an episode is unscored throughout.
	Infrastructure string
	// Mitigation is the judgement of the proposed repair, where one was made.
	Mitigation *Mark
}

// Score is what an episode got.
type Score struct {
	Case       string `json:"case"`
	System     string `json:"system,omitempty"`
	Agent      string `json:"agent,omitempty"`
	Episode    string `json:"episode,omitempty"`
	Category   string `json:"category,omitempty"`
	Difficulty string `json:"difficulty,omitempty"`
	// Source is the graph's, empty without one.
	Source Source `json:"source,omitempty"`
	// Marks has every metric.
	Marks map[Metric]Mark `json:"marks"`
	// Process is nil without a graph, and when nothing could be scored.
	Process    *Process    `json:"process,omitempty"`
	Submission *Submission `json:"submission,omitempty"`
	// Failures are predicates that failed, to be repaired in the truth file.
	Failures []string `json:"failures,omitempty"`
}

// NoFaultCategory is the category of cases in which nothing is wrong.
const NoFaultCategory = "No Fault"

// Score scores an episode. The same input gives the same score. The error is the
// context's, or Options.Load's.
func (e *Evaluator) Score(ctx context.Context, ep Episode) (*Score, error) {
	t := e.truth
	s := &Score{Case: ep.Case, System: ep.System, Agent: ep.Agent, Episode: ep.ID, Submission: ep.Submission, Marks: map[Metric]Mark{}}
	if t.Outcome != nil {
		s.Category, s.Difficulty = t.Outcome.category(), t.Outcome.difficulty()
	} else {
		s.Category = NoFaultCategory
	}
	if t.Graph != nil {
		s.Source = t.Graph.Source
	}
	if ep.Infrastructure != "" {
		for _, m := range Metrics {
			s.Marks[m] = Mark{Unscored: "infrastructure: " + ep.Infrastructure}
		}
		return s, nil
	}
	steps := 0
	if ep.Trajectory != nil {
		steps = len(ep.Trajectory.Calls)
	}
	s.Marks[Steps] = Mark{Value: float64(steps)}
	if t.Graph == nil {
		for _, m := range []Metric{MC, EOC, ECR, EE, RAR} {
			s.Marks[m] = Mark{Unscored: NoGraph}
		}
	} else {
		observations, failures, err := e.Observe(ctx, ep.Trajectory)
		if err != nil {
			return nil, err
		}
		s.Failures = failures
		p := Scan(t.Graph, observations)
		s.Process = p
		for m, v := range map[Metric]float64{MC: p.MC, EOC: p.EOC, ECR: p.ECR, EE: p.EE, RAR: p.RAR} {
			s.Marks[m] = Mark{Value: v}
		}
	}
	t.outcome(ep.Submission, s.Marks)
	t.tasks(ep, s.Marks)
	return s, nil
}

func indicator(holds bool) Mark {
	if holds {
		return Mark{Value: 1}
	}
	return Mark{}
}

// outcome marks CA, FA and JRA.
//
// [choice] Without a fault, C* and F* are empty, and the only diagnosis that
// equals them says that nothing is wrong; silence doesn't say it.
func (t *Truth) outcome(s *Submission, marks map[Metric]Mark) {
	if t.NoFault {
		alarm, said := s.alarm()
		right := indicator(said && !alarm)
		marks[CA], marks[FA], marks[JRA] = right, right, right
		return
	}
	var component, fault bool
	if s != nil {
		component = t.isComponent(s.Component)
		fault = matches(s.Fault, t.Outcome.Fault, t.Outcome.Aliases.Faults, NormalFault)
	}
	marks[CA], marks[FA], marks[JRA] = indicator(component), indicator(fault), indicator(component && fault)
}

func (t *Truth) isComponent(name string) bool {
	return matches(name, t.Outcome.Component, t.Outcome.Aliases.Components, NormalComponent)
}

func (t *Truth) poses(task Task) bool {
	return len(t.Tasks) == 0 || slices.Contains(t.Tasks, task)
}

// tasks marks AIOpsLab's tasks.
func (t *Truth) tasks(ep Episode, marks map[Metric]Mark) {
	s := ep.Submission
	mark := func(task Task, m Metric, apply bool, value func() bool) {
		switch {
		case !t.poses(task) || !apply:
			marks[m] = Mark{Unscored: NotPosed}
		default:
			marks[m] = indicator(value())
		}
	}
	mark(Detection, DetectionAccuracy, true, func() bool {
		alarm, said := s.alarm()
		return said && alarm == !t.NoFault
	})
	// [choice] Without a ranked list, the component is a list of one.
	for k, m := range map[int]Metric{1: LocalisationAt1, 3: LocalisationAt3} {
		mark(Localisation, m, !t.NoFault, func() bool {
			if s == nil {
				return false
			}
			ranked := s.Components
			if len(ranked) == 0 {
				ranked = []string{s.Component}
			}
			return slices.ContainsFunc(ranked[:min(k, len(ranked))], t.isComponent)
		})
	}
	mark(Analysis, AnalysisLayer, !t.NoFault && t.Outcome.Layer != "", func() bool {
		return s != nil && matches(s.Layer, t.Outcome.Layer, t.Outcome.Aliases.Layers, fold)
	})
	mark(Analysis, AnalysisFault, !t.NoFault, func() bool { return marks[FA].Value == 1 })
	switch {
	case t.Mitigation == nil || !t.poses(MitigateTask):
		marks[MitigationAccuracy] = Mark{Unscored: NotPosed}
	case ep.Mitigation != nil:
		marks[MitigationAccuracy] = *ep.Mitigation
	case s == nil || len(s.Commands)+len(s.Patches) == 0:
		marks[MitigationAccuracy] = Mark{} // no repair was proposed: wrong
	default:
		marks[MitigationAccuracy] = Mark{Unscored: NotJudged}
	}
	if s == nil {
		s = &Submission{}
	}
	number := func(m Metric, given bool, value func() float64) {
		marks[m] = Mark{Unscored: NotGiven}
		if given {
			marks[m] = Mark{Value: value()}
		}
	}
	number(TimeToDetect, s.TimeToDetect != nil, func() float64 { return *s.TimeToDetect })
	number(TimeToMitigate, s.TimeToMitigate != nil, func() float64 { return *s.TimeToMitigate })
	number(InputTokens, s.InputTokens != nil, func() float64 { return float64(*s.InputTokens) })
	number(OutputTokens, s.OutputTokens != nil, func() float64 { return float64(*s.OutputTokens) })
}

// JudgeMitigation marks a repair by the objects that it left behind, which the
// function gives by type, namespace and name (empty: all of them). Conditions
// that fail are told by their ids.
func (t *Truth) JudgeMitigation(ctx context.Context, objects func(resource, namespace, name string) []map[string]any) (Mark, []string, error) {
	if t.Mitigation == nil {
		return Mark{Unscored: NotPosed}, nil, nil
	}
	var failed []string
	for _, c := range t.Mitigation.Conditions {
		found := objects(c.Type, c.Namespace, c.Name)
		if found == nil {
			found = []map[string]any{}
		}
		held, err := c.program.holds(ctx, map[string]any{"objects": found})
		if ctx.Err() != nil {
			return Mark{}, nil, context.Cause(ctx)
		}
		if err != nil {
			return Mark{}, nil, fmt.Errorf("the condition %s: %w", quote(c.ID), err)
		}
		if !held {
			failed = append(failed, c.ID)
		}
	}
	return indicator(len(failed) == 0), failed, nil
}
