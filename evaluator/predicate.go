package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Limits of predicates, which are outside input like all of a truth file.
const (
	// maxPredicate bounds a predicate's text, in code points.
	maxPredicate = 4096
	// predicateCost bounds one evaluation, in CEL's cost units: some hundred
	// thousand field accesses, well under a second.
	predicateCost = 5_000_000
	// interruptEvery is how many loop rounds may pass before a cancelled
	// context is noticed.
	interruptEvery = 256
)

// celFields are the variables of a predicate: a normalised response. A
// variable that the response didn't deliver is absent, not empty.
var celFields = []struct {
	name string
	typ  *cel.Type
}{
	{"rows", cel.ListType(cel.MapType(cel.StringType, cel.DynType))},
	{"objects", cel.ListType(cel.MapType(cel.StringType, cel.DynType))},
	{"related", cel.ListType(cel.MapType(cel.StringType, cel.DynType))},
	{"events", cel.ListType(cel.MapType(cel.StringType, cel.DynType))},
	{"lines", cel.ListType(cel.StringType)},
	{"text", cel.StringType},
	{"series", cel.ListType(cel.MapType(cel.StringType, cel.DynType))},
	{"alerts", cel.ListType(cel.MapType(cel.StringType, cel.DynType))},
	{"status", cel.IntType},
	{"reason", cel.StringType},
	{"message", cel.StringType},
	{"exitCode", cel.IntType},
	{"args", cel.MapType(cel.StringType, cel.StringType)},
}

var celEnv = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(jsonAdapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(maxPredicate),
		cel.ParserRecursionLimit(100),
		ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(), ext.Encoders(), ext.Regex(), ext.TwoVarComprehensions(), ext.Bindings(),
	}
	for _, f := range celFields {
		options = append(options, cel.Variable(f.name, f.typ))
	}
	return cel.NewEnv(options...)
})

// predicate is a compiled CEL expression, safe for concurrent use.
type predicate struct {
	program cel.Program
	// reads are the variables that the expression names, sorted.
	reads []string
}

// compileError is one error inside a predicate; lines and columns count from 1.
type compileError struct {
	Line, Column int
	Message      string
}

func compilePredicate(text string) (*predicate, []compileError) {
	env, err := celEnv()
	if err != nil {
		return nil, []compileError{{1, 1, err.Error()}}
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		var errs []compileError
		for _, e := range issues.Errors() {
			errs = append(errs, compileError{max(1, e.Location.Line()), max(0, e.Location.Column()) + 1, e.Message})
			if len(errs) == 10 {
				break
			}
		}
		return nil, errs
	}
	if checked.OutputType() != cel.BoolType {
		return nil, []compileError{{1, 1, fmt.Sprintf("gives a value of type %s, but a predicate must be of type bool", checked.OutputType())}}
	}
	// The cost of splitting and joining long texts is tracked like everything else.
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(predicateCost), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		// A constant pattern of matches() that is no regular expression shows up here.
		return nil, []compileError{{1, 1, err.Error()}}
	}
	return &predicate{program: program, reads: variables(checked)}, nil
}

// variables lists the response fields that an expression names.
func variables(checked *cel.Ast) []string {
	var names []string
	root := ast.NavigateAST(checked.NativeRep())
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		name := e.AsIdent()
		known := slices.ContainsFunc(celFields, func(f struct {
			name string
			typ  *cel.Type
		}) bool {
			return f.name == name
		})
		if known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// holds evaluates the predicate. Whatever is absent, a key of a map, an index
// of a list or a field that the response didn't deliver, makes what rests on it
// neither true nor false; || and && and the macros over lists decide without it
// where they can, and a predicate that can't be decided doesn't hold. Other
// errors (a text compared with a number, the cost limit) are returned.
//
// This is CEL's own rule, with the one addition that "can't be decided" isn't
// an error: a predicate needs no has() for every field, and what was not seen
// is never taken for seen to be absent.
func (p *predicate) holds(ctx context.Context, vars map[string]any) (bool, error) {
	value, _, err := p.program.ContextEval(ctx, vars)
	if err != nil {
		if absence(err) {
			return false, nil
		}
		return false, err
	}
	held, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the predicate gave a %s, not a bool", value.Type())
	}
	return held, nil
}

// absence recognises the errors that mean "not there". cel-go has no types for
// them outside its own packages; their texts are part of its conformance tests.
func absence(err error) bool {
	text := err.Error()
	for _, prefix := range []string{"no such key", "no such attribute", "index out of bounds"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// jsonAdapter gives JSON to CEL. A number that is whole is an int, as in
// Kubernetes' own CEL: spec.replicas + 1 works. Values are converted when they
// are looked at, not before.
type jsonAdapter struct{}

func (a jsonAdapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case []map[string]any:
		return types.NewDynamicList(a, v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return types.Int(v)
		}
		return types.Double(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return types.Int(n)
		}
		f, err := v.Float64()
		if err != nil {
			return types.NewErr("the number %s is out of range", v)
		}
		return types.Double(f)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// compile compiles every predicate of a truth file.
func (t *Truth) compile(p *problems) {
	compiled := map[string]*predicate{} // equal texts share a program
	one := func(what, text string, at HoldsAt) *predicate {
		if strings.TrimSpace(text) == "" {
			return nil // its absence has been reported
		}
		if done := compiled[text]; done != nil {
			return done
		}
		program, errs := compilePredicate(text)
		for _, e := range errs {
			p.add(at.inside(e), what+": "+e.Message, "see docs/evidence-graphs.md for what a predicate can read")
		}
		compiled[text] = program
		return program
	}
	if t.Graph != nil && t.Graph.plan != nil {
		for _, c := range t.Graph.plan.clauses {
			c.program = one("the predicate of the clause "+quote(c.ID), c.Holds, c.HoldsAt)
		}
	}
	if t.Mitigation != nil {
		for _, c := range t.Mitigation.Conditions {
			c.program = one("the predicate of the condition "+quote(c.ID), c.Holds, c.HoldsAt)
			if c.program != nil && !slices.Equal(c.program.reads, []string{"objects"}) {
				p.add(c.HoldsAt.Place, "the predicate of the condition "+quote(c.ID)+" must read objects and nothing else", "it decides over the objects that a repair left behind")
			}
		}
	}
}

// inside moves a place in a predicate to the file that holds it.
func (h HoldsAt) inside(e compileError) Place {
	switch {
	case h.Line == 0:
		return Place{Line: e.Line, Column: e.Column}
	case h.Block:
		return Place{Line: h.Line + e.Line} // how far a block is indented isn't known
	case e.Line > 1:
		return Place{Line: h.Line + e.Line - 1}
	}
	return Place{Line: h.Line, Column: h.Column + e.Column - 1}
}

// Predicate is a compiled predicate of its own, outside any truth file.
type Predicate struct{ p *predicate }

// CompilePredicate compiles a CEL expression over a normalised response. The
// error joins what is wrong, each with its line and column in the expression.
func CompilePredicate(text string) (*Predicate, error) {
	p, errs := compilePredicate(text)
	if len(errs) > 0 {
		report := &problems{file: "predicate"}
		for _, e := range errs {
			report.add(Place{e.Line, e.Column}, e.Message, "")
		}
		return nil, report.err()
	}
	return &Predicate{p}, nil
}

// Reads lists the response fields that the predicate names, sorted.
func (p *Predicate) Reads() []string { return slices.Clone(p.p.reads) }
