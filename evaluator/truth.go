package evaluator

import (
	"maps"
	"slices"
	"strings"

	"github.com/kubecase/kubecase/recorder"
)

// TruthVersion and TruthKind head every truth file.
const (
	TruthVersion = "kubecase.io/v1"
	TruthKind    = "Truth"
)

// MaxTruthBytes bounds a truth file.
const MaxTruthBytes = 1 << 20

// Truth is what really happened in a case, and what must be seen to know it. It
// is immutable once loaded, and safe for concurrent use.
type Truth struct {
	APIVersion string `json:"apiVersion" required:"true" enum:"kubecase.io/v1" doc:"The version of this file's format."`
	Kind       string `json:"kind" required:"true" enum:"Truth" doc:"Always Truth."`
	// Outcome is R*; nil exactly when NoFault.
	Outcome *Outcome `json:"outcome,omitempty" doc:"What was broken, and how. Left out when noFault is true."`
	NoFault bool     `json:"noFault,omitempty" doc:"True for a case in which nothing is wrong: any alarm is false."`
	// Tasks are the questions that the case asks; empty: all that can be scored.
	Tasks      []Task      `json:"tasks,omitempty" enum:"detection,localisation,analysis,mitigation" doc:"The tasks that the case poses; left out: every task that can be scored."`
	Mitigation *Mitigation `json:"mitigation,omitempty" doc:"What must hold of the objects after the agent's commands and patches were applied to a copy."`
	// Graph is D*; nil: the process can't be scored.
	Graph *Graph `json:"graph,omitempty" doc:"The evidence graph: the facts that a diagnosis rests on, and what shows them."`

	file string
}

// Outcome is the faulty component and the type of its fault.
type Outcome struct {
	Component  string  `json:"component" required:"true" doc:"The faulty component, like cart, deployment/cart or node/worker-1."`
	Fault      string  `json:"fault" required:"true" doc:"The fault type, one of the taxonomy's where it has one."`
	Category   string  `json:"category,omitempty" doc:"The fault's category; follows from the taxonomy for its own faults."`
	Difficulty string  `json:"difficulty,omitempty" enum:"Easy,Medium,Hard" doc:"The difficulty; follows from the category for the taxonomy's own."`
	Layer      string  `json:"layer,omitempty" doc:"The layer at fault, for the analysis task."`
	Aliases    Aliases `json:"aliases,omitempty" doc:"Other names that count as right in this case."`
	Place      Place   `json:"-"`
}

// Aliases are further right names, compared after normalisation.
type Aliases struct {
	Components []string `json:"components,omitempty" doc:"Other names of the component."`
	Faults     []string `json:"faults,omitempty" doc:"Other names of the fault type."`
	Layers     []string `json:"layers,omitempty" doc:"Other names of the layer."`
}

// Task is a question that a case asks of an agent, in AIOpsLab's classes.
type Task string

// The tasks.
const (
	Detection    Task = "detection"
	Localisation Task = "localisation"
	Analysis     Task = "analysis"
	MitigateTask Task = "mitigation"
)

// Mitigation says when a proposed repair counts.
type Mitigation struct {
	Conditions []*Condition `json:"conditions" required:"true" doc:"All of them must hold."`
}

// Condition is a CEL predicate over the objects that a repair left behind.
type Condition struct {
	ID        string  `json:"id" required:"true" doc:"A name for messages and reports."`
	Type      string  `json:"type" required:"true" doc:"The plural resource, like deployments or widgets.example.com."`
	Namespace string  `json:"namespace,omitempty" doc:"The namespace; empty for cluster-scoped objects."`
	Name      string  `json:"name,omitempty" doc:"The object's name; empty for all of the type."`
	Holds     string  `json:"holds" required:"true" doc:"A CEL expression over objects."`
	Place     Place   `json:"-"`
	HoldsAt   HoldsAt `json:"-"`

	program *predicate
}

// HoldsAt is where the text of a predicate begins, for errors inside it.
type HoldsAt struct {
	Place
	// Block: the text is a YAML block, whose lines begin below Line.
	Block bool
}

// Source says how a graph came to be. Figures never mix the two.
type Source string

// The sources.
const (
	// Authored: written by a person who knows the case.
	Authored Source = "authored"
	// Derived: made from recorded solution paths.
	Derived Source = "derived"
)

// Graph is an evidence graph: groups of milestones, their order, and the
// evidence of each milestone.
type Graph struct {
	Source Source `json:"source" required:"true" enum:"authored,derived" doc:"Who made the graph: a person, or a program from recorded paths."`
	// Clauses are those that are referenced by id, by that id.
	Clauses map[string]*Clause `json:"clauses,omitempty" doc:"Clauses that bundles refer to by id."`
	Groups  []*Group           `json:"groups" required:"true" doc:"The groups, each complete when one of its milestones is established."`
	Place   Place              `json:"-"`

	plan *plan
}

// Group is a set of interchangeable facts: established when one of them is.
type Group struct {
	ID    string `json:"id" required:"true" doc:"Unique among the groups."`
	Title string `json:"title,omitempty" doc:"A short title for drawings."`
	// Requires are the immediate prerequisites.
	Requires   []Ref        `json:"requires,omitempty" doc:"The groups that must be grounded before this one."`
	Milestones []*Milestone `json:"milestones" required:"true" doc:"Facts, any one of which completes the group."`
	Place      Place        `json:"-"`
}

// Ref names a group, and knows where it was written.
type Ref struct {
	ID    string
	Place Place
}

// Milestone is one atomic diagnostic fact.
type Milestone struct {
	ID   string `json:"id" required:"true" doc:"Unique among the milestones."`
	Fact string `json:"fact" required:"true" doc:"The fact, as a sentence: never an action."`
	// Bundles are alternatives; the milestone is established when all clauses of one were observed.
	Bundles []Bundle `json:"bundles" required:"true" doc:"Alternatives, each a list of clauses that must all be observed."`
	Place   Place    `json:"-"`
}

// Bundle is a set of clauses that together show a fact.
type Bundle []Entry

// Entry is one clause of a bundle: a reference to one of Graph.Clauses, or a
// clause written in place.
type Entry struct {
	Ref    string
	Inline *Clause
	Place  Place
}

// Clause is a tool, the arguments that it was used with, and what the response
// must show.
type Clause struct {
	ID   string        `json:"id,omitempty" doc:"Unique among the clauses; left out: made from the milestone's."`
	Tool recorder.Tool `json:"tool" required:"true" enum:"T1,T2,T3,T4,T5,T6,T7,T8,T9,T10,T11,T12" doc:"The diagnostic tool."`
	// Args are by name; a name that isn't there may have any value.
	Args map[string]Matcher `json:"args,omitempty" doc:"What the tool's arguments must be; any value where left out."`
	// Holds is a CEL expression of type bool over the normalised response.
	Holds   string  `json:"holds" required:"true" doc:"A CEL expression over the response: rows, objects, related, events, lines, text, series, alerts, status, reason, message, exitCode, args."`
	Place   Place   `json:"-"`
	HoldsAt HoldsAt `json:"-"`

	program *predicate
}

// Matcher accepts a value: one of several texts, in which "*" stands for any
// run of characters.
type Matcher []string

// Match tells whether one of the alternatives fits the whole value.
func (m Matcher) Match(value string) bool {
	return slices.ContainsFunc(m, func(pattern string) bool { return glob(pattern, value) })
}

// Exact tells whether no alternative has a "*".
func (m Matcher) Exact() bool {
	return !slices.ContainsFunc(m, func(p string) bool { return strings.Contains(p, "*") })
}

// glob matches in time linear in the product of both lengths: the last "*" seen
// is the only one that is ever tried again.
func glob(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// content is what makes two clauses the same.
func (c *Clause) content() string {
	var b strings.Builder
	b.WriteString(string(c.Tool))
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		values := slices.Clone(c.Args[name])
		slices.Sort(values)
		b.WriteString("\x00" + name + "\x01" + strings.Join(values, "\x02"))
	}
	b.WriteString("\x03" + strings.TrimSpace(c.Holds))
	return b.String()
}
