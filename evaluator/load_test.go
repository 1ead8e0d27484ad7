package evaluator

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// example is the complete example of the documentation.
func example(t testing.TB) []byte {
	t.Helper()
	page, err := os.ReadFile("../docs/evidence-graphs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("docs/evidence-graphs.md has no example")
	}
	return []byte(text)
}

func TestParseTruthExample(t *testing.T) {
	truth, err := ParseTruth("truth.yaml", example(t))
	if err != nil {
		t.Fatal(err)
	}
	want := &Outcome{Component: "deployment/cart", Fault: "NodeSelectorMismatch", Layer: "Virtualization", Aliases: Aliases{Components: []string{"cartservice"}, Faults: []string{"wrong node selector"}}}
	if diff := cmp.Diff(want, truth.Outcome, cmpopts.IgnoreTypes(Place{})); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	ids := []string{"pod-pending/1.1", "no-endpoints/1.1", "failed-scheduling/1.1", "cart-objects", "labels-of-nodes"}
	if diff := cmp.Diff(ids, truth.Graph.ClauseIDs()); diff != "" {
		t.Errorf("clauses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cart-objects", "labels-of-nodes"}, truth.Graph.BundleIDs(2, 0, 0)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	if got := truth.Outcome.category() + ", " + truth.Outcome.difficulty(); got != "Scheduling, Easy" {
		t.Errorf("category and difficulty are %s", got)
	}
}

const head = "apiVersion: kubecase.io/v1\nkind: Truth\nnoFault: true\n" // lines 1 to 3

// graphText puts groups, written from line 6 on, into a truth file.
func graphText(groups string) string {
	return head + "graph:\n  source: authored\n  groups:\n" + groups // graph: is line 4, the first group line 7
}

func groupText(id, requires, clause string) string {
	return fmt.Sprintf("  - id: %s\n    requires: [%s]\n    milestones: [{id: m-%s, fact: f, bundles: [[%s]]}]\n", id, requires, id, clause)
}

const anyClause = `{tool: T8, holds: "alerts.size() > %d"}`

func clauseNumber(n int) string { return fmt.Sprintf(anyClause, n) }

// TestParseTruthErrors wants every message with its place and its fix.
func TestParseTruthErrors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"empty", " \n", []string{"t.yaml: is empty; write at least apiVersion"}},
		{"no YAML", "a: [", []string{"t.yaml:1: is not YAML"}},
		{"two documents", head + "---\n{}\n", []string{"holds more than one YAML document"}},
		{"a list", "- a\n", []string{"t.yaml:1:1: is not a YAML mapping"}},
		{"another version", "apiVersion: kubecase.io/v9\nkind: Truth\n", []string{`t.yaml:1:13: has apiVersion "kubecase.io/v9"; this kubecase reads kubecase.io/v1`}},
		{"no version, kind, outcome", "tasks: [detection]\n", []string{"apiVersion is missing", "kind is missing"}},
		{"another kind", "apiVersion: kubecase.io/v1\nkind: Case\nnoFault: true\n", []string{`t.yaml:2:7: kind is "Case"`}},
		{"unknown field", head + "grph: {}\n", []string{`t.yaml:4:1: unknown field "grph"; did you mean "graph"?`}},
		{"field twice", head + "noFault: true\n", []string{`t.yaml:4:1: field "noFault" is there twice`}},
		{"neither outcome nor noFault", "apiVersion: kubecase.io/v1\nkind: Truth\n", []string{"has neither an outcome nor noFault"}},
		{"both", head + "outcome: {component: a, fault: b}\n", []string{"t.yaml:4:10: has both an outcome and noFault"}},
		{"not a bool", "apiVersion: kubecase.io/v1\nkind: Truth\nnoFault: maybe\n", []string{"t.yaml:3:10: noFault is not true or false"}},
		{"null", "apiVersion: kubecase.io/v1\nkind: Truth\noutcome:\n", []string{"outcome is not a mapping"}},
		{"alias", "apiVersion: kubecase.io/v1\nkind: Truth\noutcome: &a {component: a, fault: b}\nmitigation: *a\n", []string{"t.yaml:4:13: mitigation is a YAML alias"}},
		{"category contradicts the fault", "apiVersion: kubecase.io/v1\nkind: Truth\noutcome: {component: a, fault: OOMKilled, category: Startup}\n", []string{`t.yaml:3:10: outcome.category is "Startup", but OOMKilled belongs to "Runtime"`}},
		{"difficulty contradicts the category", "apiVersion: kubecase.io/v1\nkind: Truth\noutcome: {component: a, fault: oom killed, difficulty: Hard}\n", []string{`outcome.difficulty is "Hard", but its category's is Easy`}},
		{"unknown task", head + "tasks: [detecting]\n", []string{`t.yaml:4:9: tasks is "detecting"; did you mean "detection"?`}},
		{"task without a fault", head + "tasks: [analysis]\n", []string{"poses the task analysis, but nothing is wrong"}},
		{"all at once", head + "x: 1\ny: 2\ntasks: {}\n", []string{`t.yaml:4:1: unknown field "x"`, `t.yaml:5:1: unknown field "y"`, "t.yaml:6:8: tasks is not a list"}},

		{"no groups", head + "graph: {source: authored, groups: []}\n", []string{"t.yaml:4:8: the graph has no groups"}},
		{"unknown source", head + "graph: {source: guessed, groups: []}\n", []string{`graph.source is "guessed"; known are authored, derived`}},
		{"no milestones", graphText("  - {id: a, milestones: []}\n"), []string{`t.yaml:7:5: the group "a" has no milestones`}},
		{"no bundles", graphText("  - {id: a, milestones: [{id: m, fact: f, bundles: []}]}\n"), []string{`the milestone "m" has no bundles`}},
		{"an empty bundle", graphText("  - {id: a, milestones: [{id: m, fact: f, bundles: [[]]}]}\n"), []string{`bundle 1 of the milestone "m" is empty`}},
		{"group twice", graphText(groupText("a", "", clauseNumber(1)) + groupText("a", "", clauseNumber(2))), []string{`t.yaml:10:5: the group "a" is there twice, first in line 7`, `the milestone "m-a" is in the group "a" already: groups must not share milestones`}},
		{"unusable id", graphText(groupText(`"a b"`, "", clauseNumber(1))), []string{`the id "a b" of a group is not usable`}},
		{"requires nothing known", graphText(groupText("first", "", clauseNumber(1)) + groupText("second", "frist", clauseNumber(2))), []string{`t.yaml:11:16: the group "second" requires "frist", which is no group; did you mean "first"?`}},
		{"requires twice", graphText(groupText("a", "", clauseNumber(1)) + groupText("b", "a, a", clauseNumber(2))), []string{`the group "b" requires "a" twice`}},
		{"requires itself", graphText(groupText("a", "a", clauseNumber(1))), []string{"a cycle, each requiring the next: a → a"}},
		{"cycle", graphText(groupText("a", "c", clauseNumber(1)) + groupText("b", "a", clauseNumber(2)) + groupText("c", "b", clauseNumber(3)) + groupText("d", "c", clauseNumber(4))),
			[]string{"t.yaml:7:5: the order of groups has a cycle, each requiring the next: a → c → b → a; delete", `t.yaml:16:5: the group "d" can't be reached from the query`}},
		{"superset bundle", graphText("  - {id: a, milestones: [{id: m, fact: f, bundles: [[" + clauseNumber(1) + "], [" + clauseNumber(2) + ", " + clauseNumber(1) + "]]}]}\n"), []string{`bundle 2 of the milestone "m" has all clauses of bundle 1, which suffices without it`}},
		{"equal bundles", graphText("  - {id: a, milestones: [{id: m, fact: f, bundles: [[" + clauseNumber(1) + "], [" + clauseNumber(1) + "]]}]}\n"), []string{`bundle 2 of the milestone "m" has all clauses of bundle 1`}},
		{"clause twice", graphText("  - {id: a, milestones: [{id: m, fact: f, bundles: [[" + clauseNumber(1) + ", " + clauseNumber(1) + "]]}]}\n"), []string{`bundle 1 of the milestone "m" has the clause "m/1.1" twice`}},
		{"unknown reference", graphText(groupText("a", "", "nothing")), []string{`t.yaml:9:48: bundle 1 of the milestone "m-a" refers to the clause "nothing", which is not under graph.clauses`}},
		{"unused clause", head + "graph:\n  source: authored\n  clauses:\n    spare: {tool: T8, holds: 'true'}\n  groups:\n" + groupText("a", "", clauseNumber(1)), []string{`t.yaml:7:12: the clause "spare" is in no bundle`}},
		{"unknown tool", graphText(groupText("a", "", "{tool: T13, holds: 'true'}")), []string{`t.yaml:9:55: `, `tool is "T13"; did you mean "T1"?`}},
		{"unknown argument", graphText(groupText("a", "", "{tool: T3, args: {service_name: x}, holds: 'true'}")), []string{`gives T3 an argument "service_name" that it doesn't take`, "known are service, namespace"}},
		{"empty matcher", graphText(groupText("a", "", "{tool: T3, args: {service: []}, holds: 'true'}")), []string{"args.service has no alternatives"}},
		{"no predicate", graphText(groupText("a", "", "{tool: T8}")), []string{"holds is missing"}},
		{"predicate of another type", graphText(groupText("a", "", "{tool: T8, holds: alerts.size()}")), []string{"t.yaml:9:66: ", "gives a value of type int, but a predicate must be of type bool"}},
		{"predicate on a plain line", graphText(groupText("a", "", "{tool: T8, holds: alrts.size() > 0}")), []string{"t.yaml:9:66: ", "undeclared reference to 'alrts'"}},
		{"predicate in a block", graphText("  - id: a\n    milestones:\n    - id: m\n      fact: f\n      bundles:\n      - - tool: T8\n          holds: |\n            alerts.size() > 0 &&\n            alerts.exists(a, a.labels.x == )\n"), []string{"t.yaml:15: the predicate of the clause \"m/1.1\": Syntax error"}},
		{"bad regular expression", graphText(groupText("a", "", `{tool: T5, holds: "lines.exists(l, l.matches('('))"}`)), []string{"error parsing regexp"}},
		{"condition reads more than objects", "apiVersion: kubecase.io/v1\nkind: Truth\noutcome: {component: a, fault: b}\nmitigation: {conditions: [{id: c, type: pods, holds: lines.size() == 0}]}\n", []string{`the condition "c" must read objects and nothing else`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseTruth("t.yaml", []byte(test.text))
			if err == nil {
				t.Fatalf("it was accepted:\n%s", test.text)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in:\n%v", want, err)
				}
			}
			var one *TruthError
			if !errors.As(err, &one) || one.File != "t.yaml" {
				t.Errorf("the error is no TruthError of the file: %v", err)
			}
		})
	}
}

// TestParseTruthAccepts holds files that look wrong and aren't.
func TestParseTruthAccepts(t *testing.T) {
	for name, text := range map[string]string{
		"no fault, no graph":           head,
		"a fault outside the taxonomy": "apiVersion: kubecase.io/v1\nkind: Truth\noutcome: {component: cart, fault: Gremlins, category: Other, difficulty: Hard}\n",
		"a byte order mark":            "\xEF\xBB\xBF" + head,
		"an inline clause like a named one": head + "graph:\n  source: derived\n  clauses:\n    alarm: {tool: T8, holds: alerts.size() > 1}\n  groups:\n" +
			groupText("a", "", clauseNumber(1)),
		"groups listed after what requires them": graphText(groupText("b", "a", clauseNumber(1)) + groupText("a", "", clauseNumber(2))),
	} {
		if _, err := ParseTruth("t.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseTruthBounds(t *testing.T) {
	_, err := ParseTruth("t.yaml", make([]byte, MaxTruthBytes+1))
	if err == nil || !strings.Contains(err.Error(), "is 1048577 bytes long") {
		t.Errorf("a file over the bound: %v", err)
	}
	_, err = ParseTruth("t.yaml", []byte(head+strings.Repeat("? {}\n", 10)+strings.Repeat("x: 1\n", 10_000)))
	if err == nil || len(err.Error()) > 100_000 || !strings.Contains(err.Error(), "more problems") {
		t.Errorf("ten thousand problems make %d bytes of message", len(fmt.Sprint(err)))
	}
	// A long predicate is refused, not parsed.
	_, err = ParseTruth("t.yaml", []byte(graphText(groupText("a", "", "{tool: T8, holds: '"+strings.Repeat("!", 9000)+"true'}"))))
	if err == nil || !strings.Contains(err.Error(), "4096") {
		t.Errorf("a predicate over the bound: %v", err)
	}
}

func FuzzParseTruth(f *testing.F) {
	f.Add(example(f))
	f.Add([]byte(head))
	f.Add([]byte(graphText(groupText("a", "a", clauseNumber(1)))))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		truth, err := ParseTruth("t.yaml", data)
		if (truth == nil) == (err == nil) {
			t.Fatalf("truth %v, error %v", truth, err)
		}
		if truth != nil && truth.Graph != nil {
			p := Scan(truth.Graph, []Observation{{Key: "all", Supplies: truth.Graph.ClauseIDs()}})
			if p.ECR != 1 || p.EOC != 1 {
				t.Errorf("one call that shows everything doesn't close the graph: %+v", p)
			}
		}
	})
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern, value string
		want           bool
	}{
		{"cart", "cart", true}, {"cart", "carts", false}, {"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "anything", true},
		{"cart-*", "cart-1", true}, {"cart-*", "cart", false}, {"*-db", "cart-db", true}, {"*-db", "cart-db-0", false},
		{"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false}, {"a*b", "ab", true}, {"**", "x", true}, {"a*a", "a", false},
	} {
		if got := (Matcher{test.pattern}).Match(test.value); got != test.want {
			t.Errorf("%q on %q: %v", test.pattern, test.value, got)
		}
	}
	if !(Matcher{"a", "b*"}).Match("bc") || (Matcher{}).Match("") {
		t.Error("a list matches when one of its entries does")
	}
}
