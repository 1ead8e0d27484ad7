package evaluator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kubecase/kubecase/recorder"
)

// Options are what an Evaluator may be given besides the truth.
type Options struct {
	// Digest names a response, so that what clauses say of it is remembered: equal
	// digests must mean equal responses. Nil, or an empty digest: nothing is.
	Digest func(*recorder.Use) string
	// Load fills in the response of a use that holds only its digest; nil: all do hold theirs.
	// It is called when no remembered answer does.
	Load func(*recorder.Use) error
	// Remember bounds how many answers are kept; 0 stands for 100,000.
	Remember int
}

// Evaluator evaluates trajectories against one truth. It is safe for
// concurrent use.
type Evaluator struct {
	truth   *Truth
	options Options
	// byUse are the clauses that a use of a tool may serve.
	byUse map[recorder.Tool][]serving

	mu   sync.Mutex
	memo map[memoKey]*answer
}

type serving struct {
	clause int
	rules  []*rule
}

type memoKey struct {
	use, digest string
	class       recorder.Class
}

// answer is which clauses a use supplies, and which predicates failed on it.
type answer struct {
	supplies []string
	failures []string
}

// New prepares a truth that ParseTruth loaded.
func New(truth *Truth, options Options) *Evaluator {
	if options.Remember <= 0 {
		options.Remember = 100_000
	}
	e := &Evaluator{truth: truth, options: options, byUse: map[recorder.Tool][]serving{}, memo: map[memoKey]*answer{}}
	if truth.Graph == nil {
		return e
	}
	for i, c := range truth.Graph.plan.clauses {
		byTool := map[recorder.Tool][]*rule{}
		for n := range equivalence()[c.Tool] {
			r := &equivalence()[c.Tool][n]
			byTool[r.Use] = append(byTool[r.Use], r)
		}
		for tool, rules := range byTool {
			e.byUse[tool] = append(e.byUse[tool], serving{clause: i, rules: rules})
		}
	}
	return e
}

// Truth is what the evaluator was made of.
func (e *Evaluator) Truth() *Truth { return e.truth }

// CallKey is the canonical tool-and-argument pair of a call: its uses, each once,
// sorted. It is empty for a call that used no diagnostic tool.
func CallKey(call *recorder.Call) string {
	keys := make([]string, 0, len(call.Uses))
	for i := range call.Uses {
		keys = append(keys, useKey(&call.Uses[i]))
	}
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "\x1e")
}

func useKey(u *recorder.Use) string {
	var b strings.Builder
	b.WriteString(string(u.Tool))
	for _, name := range slices.Sorted(maps.Keys(u.Args)) {
		// Lengths, so that no value can pass for two arguments.
		b.WriteString("\x1f" + name + "=" + strconv.Itoa(len(u.Args[name])) + ":" + u.Args[name])
	}
	return b.String()
}

// Observe finds out what each call supplies. Predicates that failed, other than
// for want of something, are told one by one; they supply nothing. The error is
// the context's, or Options.Load's.
func (e *Evaluator) Observe(ctx context.Context, trajectory *recorder.Trajectory) (observations []Observation, failures []string, err error) {
	if trajectory == nil {
		return nil, nil, nil
	}
	observations = make([]Observation, len(trajectory.Calls))
	for i := range trajectory.Calls {
		call := &trajectory.Calls[i]
		observations[i].Key = CallKey(call)
		for n := range call.Uses {
			a, err := e.ask(ctx, &call.Uses[n])
			if err != nil {
				return nil, nil, err
			}
			observations[i].Supplies = append(observations[i].Supplies, a.supplies...)
			for _, f := range a.failures {
				failures = append(failures, fmt.Sprintf("call %d: %s", i+1, f))
			}
		}
		slices.Sort(observations[i].Supplies)
		observations[i].Supplies = slices.Compact(observations[i].Supplies)
	}
	return observations, failures, nil
}

// ask evaluates every clause that a use may serve, or remembers having done so.
func (e *Evaluator) ask(ctx context.Context, u *recorder.Use) (*answer, error) {
	servings := e.byUse[u.Tool]
	if len(servings) == 0 || !evidence(u.Class) {
		return &answer{}, nil
	}
	var key memoKey
	if e.options.Digest != nil {
		if digest := e.options.Digest(u); digest != "" {
			key = memoKey{use: useKey(u), digest: digest, class: u.Class}
			e.mu.Lock()
			a := e.memo[key]
			e.mu.Unlock()
			if a != nil {
				return a, nil
			}
		}
	}
	if e.options.Load != nil {
		loaded := *u // the caller's stays small
		if err := e.options.Load(&loaded); err != nil {
			return nil, fmt.Errorf("the record is damaged: %w", err)
		}
		u = &loaded
	}
	a := &answer{}
	for _, s := range servings {
		c := e.truth.Graph.plan.clauses[s.clause]
		for _, r := range s.rules {
			vars, why := view(c, u, r)
			if why != "" || c.program == nil {
				continue
			}
			held, err := c.program.holds(ctx, vars)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				a.failures = append(a.failures, fmt.Sprintf("the predicate of the clause %s failed: %v", quote(c.ID), err))
			}
			if held {
				a.supplies = append(a.supplies, c.ID)
				break
			}
		}
	}
	if key.digest != "" {
		e.mu.Lock()
		if len(e.memo) >= e.options.Remember {
			clear(e.memo) // what is asked again is soon there again
		}
		e.memo[key] = a
		e.mu.Unlock()
	}
	return a, nil
}

// Explanation says why a use supplies a clause, or why not.
type Explanation struct {
	Clause string `json:"clause"`
	Holds  bool   `json:"holds"`
	// Attempts are the rules of the equivalence table that were tried.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Reason says it in a sentence.
	Reason string `json:"reason"`
}

// Attempt is one rule of the equivalence table, tried.
type Attempt struct {
	Rule string `json:"rule"`
	// Refused says why the rule doesn't apply to the use; empty: it does.
	Refused string `json:"refused,omitempty"`
	// Sees counts what the predicate saw, by field: elements, or bytes of text.
	Sees  map[string]int `json:"sees,omitempty"`
	Holds bool           `json:"holds"`
	Error string         `json:"error,omitempty"`
}

// Explain evaluates one clause against one use. An unknown clause is an error.
func (e *Evaluator) Explain(ctx context.Context, clause string, u *recorder.Use) (*Explanation, error) {
	if e.truth.Graph == nil {
		return nil, errors.New("the truth has no graph, and so no clauses")
	}
	c := e.truth.Graph.Clause(clause)
	if c == nil {
		return nil, fmt.Errorf("there is no clause %s; %s", quote(clause), didYouMean(clause, e.truth.Graph.ClauseIDs()))
	}
	x := &Explanation{Clause: clause}
	if !evidence(u.Class) {
		x.Reason = fmt.Sprintf("the use is %s: evidence neither for nor against", u.Class)
		return x, nil
	}
	for _, r := range equivalence()[c.Tool] {
		if r.Use != u.Tool {
			continue
		}
		attempt := Attempt{Rule: fmt.Sprintf("%s by %s: %s", r.Clause, r.Use, r.Why)}
		vars, why := view(c, u, &r)
		attempt.Refused = why
		if why == "" && c.program != nil {
			attempt.Sees = sees(vars)
			held, err := c.program.holds(ctx, vars)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				attempt.Error = err.Error()
			}
			attempt.Holds = held
			x.Holds = x.Holds || held
			if missing := missingReads(c.program.reads, vars); !held && err == nil && len(missing) > 0 {
				attempt.Error = "not delivered by this use: " + strings.Join(missing, ", ")
			}
		}
		x.Attempts = append(x.Attempts, attempt)
	}
	switch {
	case x.Holds:
		x.Reason = "the predicate holds over what was delivered"
	case len(x.Attempts) == 0:
		x.Reason = fmt.Sprintf("a clause on %s isn't served by a use of %s", c.Tool, u.Tool)
	case !slices.ContainsFunc(x.Attempts, func(a Attempt) bool { return a.Refused == "" }):
		x.Reason = "the use is not one that the clause accepts"
	default:
		x.Reason = "the predicate doesn't hold over what was delivered"
	}
	return x, nil
}

func missingReads(reads []string, vars map[string]any) []string {
	var missing []string
	for _, name := range reads {
		if _, ok := vars[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

func sees(vars map[string]any) map[string]int {
	out := map[string]int{}
	for name, v := range vars {
		switch v := v.(type) {
		case []map[string]any:
			out[name] = len(v)
		case []string:
			out[name] = len(v)
		case string:
			out[name] = len(v)
		}
	}
	return out
}
