package evaluator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
)

// graphOf reads a graph from one line: "A=m1:a; B=m2:b|c+d/m3:e <A" has a group A
// of one milestone, and a group B after A, of m2 with the bundles {b} and {c,d},
// and of m3.
func graphOf(t testing.TB, text string) *Graph {
	t.Helper()
	g := Graph{Source: Authored, Clauses: map[string]*Clause{}}
	for _, part := range strings.Split(text, ";") {
		id, rest, _ := strings.Cut(strings.TrimSpace(part), "=")
		rest, requires, _ := strings.Cut(rest, "<")
		group := &Group{ID: id}
		for _, r := range strings.Split(requires, ",") {
			if r = strings.TrimSpace(r); r != "" {
				group.Requires = append(group.Requires, Ref{ID: r})
			}
		}
		for _, m := range strings.Split(strings.TrimSpace(rest), "/") {
			name, bundles, _ := strings.Cut(m, ":")
			milestone := &Milestone{ID: name, Fact: name}
			for _, b := range strings.Split(bundles, "|") {
				var bundle Bundle
				for _, c := range strings.Split(b, "+") {
					g.Clauses[c] = &Clause{Tool: "T8", Holds: "text == '" + c + "'"}
					bundle = append(bundle, Entry{Ref: c})
				}
				milestone.Bundles = append(milestone.Bundles, bundle)
			}
			group.Milestones = append(group.Milestones, milestone)
		}
		g.Groups = append(g.Groups, group)
	}
	out, err := NewGraph(g)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// callsOf reads calls from one line: "a b,c@k -" is a call that supplies a, one
// that supplies b and c and has the key k, and one that supplies nothing. A
// call without @ has a key of its own.
func callsOf(text string) []Observation {
	var calls []Observation
	for i, word := range strings.Fields(text) {
		supplies, key, named := strings.Cut(word, "@")
		call := Observation{Key: key}
		if !named {
			call.Key = fmt.Sprint("own ", i)
		}
		if supplies != "-" {
			call.Supplies = strings.Split(supplies, ",")
		}
		calls = append(calls, call)
	}
	return calls
}

const (
	worked  = "A=m1:a; B=m2:b/m3:c+d <A; C=m4:e <B; D=m5:f <C; E=m6:g <C"
	chain   = "A=m1:a; B=m2:b <A; C=m3:c <B"
	diamond = "A=m1:a; B=m2:b <A; C=m3:c <A; D=m4:d <B,C"
	joint   = "A=m1:a+b"
	either  = "A=m1:a+b|c"
)

// TestScan holds the worked examples of the definition (1 to 10), and more whose
// values were computed by hand from it.
func TestScan(t *testing.T) {
	for _, test := range []struct {
		name, graph, calls string
		est, ord           string // groups
		mc, eoc, ecr       float64
		credited           []int
		ee                 float64
		redundant          []int
		rar                float64
	}{
		{"1 straight", worked, "a b e f g", "ABCDE", "ABCDE", 1, 1, 1, []int{1, 2, 3, 4, 5}, 1, nil, 0},
		{"2 joint bundle, ends exchanged", worked, "a c d e g f", "ABCDE", "ABCDE", 1, 1, 1, []int{1, 2, 3, 4, 5, 6}, 1, nil, 0},
		{"3 effect before cause", worked, "a e b f", "ABCD", "AB", 0.8, 0.4, 0, []int{1, 3}, 0.5, nil, 0},
		{"4 refreshed after its cause", worked, "a e@k b e@k", "ABC", "ABC", 0.6, 0.6, 0, []int{1, 3, 4}, 0.75, nil, 0},
		{"5 repeated in vain", worked, "a@k a@k b", "AB", "AB", 0.4, 0.4, 0, []int{1, 3}, 2.0 / 3, []int{2}, 1.0 / 3},
		{"6 all in one call", worked, "a,b,e", "ABC", "ABC", 0.6, 0.6, 0, []int{1}, 1, nil, 0},
		{"7 half a joint bundle early", worked, "d a c", "AB", "AB", 0.4, 0.4, 0, []int{1, 2, 3}, 1, nil, 0},
		{"8 nothing supplied", worked, "- -", "", "", 0, 0, 0, nil, 0, nil, 0},
		{"9 no calls", worked, "", "", "", 0, 0, 0, nil, 0, nil, 0},
		{"10 joint bundle refreshed by one clause", worked, "c@k d a c@k", "AB", "AB", 0.4, 0.4, 0, []int{2, 3, 4}, 0.75, nil, 0},

		{"joint bundle in two calls", joint, "a b", "A", "A", 1, 1, 1, []int{1, 2}, 1, nil, 0},
		{"joint bundle, half", joint, "a", "", "", 0, 0, 0, nil, 0, nil, 0},
		{"joint bundle in one call", joint, "a,b", "A", "A", 1, 1, 1, []int{1}, 1, nil, 0},
		{"joint bundle with a pause", joint, "b - a", "A", "A", 1, 1, 1, []int{1, 3}, 2.0 / 3, nil, 0},
		{"joint bundle, same query, another answer", joint, "a@k b@k", "A", "A", 1, 1, 1, []int{1, 2}, 1, nil, 0},
		{"new evidence without progress isn't redundant", "A=m1:a+b+c", "a@k b@k", "", "", 0, 0, 0, nil, 0, nil, 0},
		{"interchangeable facts: the second credits nothing", "A=m1:a/m2:b", "b a", "A", "A", 1, 1, 1, []int{1}, 0.5, nil, 0},
		{"interchangeable facts: grounded by the other", "A=m1:a; B=m2:b/m3:c <A", "b a c", "AB", "AB", 1, 1, 1, []int{2, 3}, 2.0 / 3, nil, 0},
		{"alternatives: the joint one is complete first", either, "a b c", "A", "A", 1, 1, 1, []int{1, 2}, 2.0 / 3, nil, 0},
		{"alternatives: the short one is complete first", either, "a c", "A", "A", 1, 1, 1, []int{2}, 0.5, nil, 0},
		{"alternatives complete together: fewest clauses", either, "a b,c", "A", "A", 1, 1, 1, []int{2}, 0.5, nil, 0},
		{"alternatives complete together: the first listed", "A=m1:a+b|a+c", "b a c", "A", "A", 1, 1, 1, []int{1, 2}, 2.0 / 3, nil, 0},
		{"milestones complete together: fewest clauses", "A=m1:a+b/m2:c", "a b,c", "A", "A", 1, 1, 1, []int{2}, 0.5, nil, 0},
		{"diamond", diamond, "a b c d", "ABCD", "ABCD", 1, 1, 1, []int{1, 2, 3, 4}, 1, nil, 0},
		{"diamond, other side first", diamond, "a c b d", "ABCD", "ABCD", 1, 1, 1, []int{1, 2, 3, 4}, 1, nil, 0},
		{"diamond, end before one side", diamond, "a b d c", "ABCD", "ABC", 1, 0.75, 1, []int{1, 2, 4}, 0.75, nil, 0},
		{"diamond, end refreshed", diamond, "a b d@k c d@k", "ABCD", "ABCD", 1, 1, 1, []int{1, 2, 4, 5}, 0.8, nil, 0},
		{"diamond backwards", diamond, "d c b a", "ABCD", "A", 1, 0.25, 1, []int{4}, 0.25, nil, 0},
		{"diamond in one call", diamond, "d,c,b,a", "ABCD", "ABCD", 1, 1, 1, []int{1}, 1, nil, 0},
		{"diamond in two calls", diamond, "a b,c,d", "ABCD", "ABCD", 1, 1, 1, []int{1, 2}, 1, nil, 0},
		{"refreshed by another query", chain, "a c b c", "ABC", "ABC", 1, 1, 1, []int{1, 3, 4}, 0.75, nil, 0},
		{"a repeat without its cause stays redundant", chain, "c@k c@k", "C", "", 1.0 / 3, 0, 0, nil, 0, []int{2}, 0.5},
		{"three of the same", "A=m1:a", "a@k a@k a@k", "A", "A", 1, 1, 1, []int{1}, 1.0 / 3, []int{2, 3}, 2.0 / 3},
		{"empty answers repeated", "A=m1:a", "-@k -@k -@k a", "A", "A", 1, 1, 1, []int{4}, 0.25, []int{2, 3}, 0.5},
		{"the same evidence by another query isn't redundant", "A=m1:a", "a@k a@l", "A", "A", 1, 1, 1, []int{1}, 0.5, nil, 0},
		{"a clause that serves two groups", "A=m1:a; B=m2:a+b <A", "a b", "AB", "AB", 1, 1, 1, []int{1, 2}, 1, nil, 0},
		{"a clause that grounds its group and the next", "A=m1:a; B=m2:a+b <A", "b a", "AB", "AB", 1, 1, 1, []int{1, 2}, 1, nil, 0},
		{"credit to the earliest call", "A=m1:a; B=m2:b+c <A", "b b a c", "AB", "AB", 1, 1, 1, []int{1, 3, 4}, 0.75, nil, 0},
		{"credit to the current call", "A=m1:a; B=m2:b+c <A", "b a b,c", "AB", "AB", 1, 1, 1, []int{2, 3}, 2.0 / 3, nil, 0},
		{"unordered groups", "A=m1:a; B=m2:b", "b a", "AB", "AB", 1, 1, 1, []int{1, 2}, 1, nil, 0},
		{"evidence of no clause", "A=m1:a", "z a", "A", "A", 1, 1, 1, []int{2}, 0.5, nil, 0},
		{"calls of no tool repeat nothing", "A=m1:a", "a@ -@ -@", "A", "A", 1, 1, 1, []int{1}, 1.0 / 3, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := callsOf(test.calls)
			got := Scan(graphOf(t, test.graph), calls)
			est, ord := "", ""
			for _, g := range got.Groups {
				if g.Established > 0 {
					est += g.ID
				}
				if g.Grounded > 0 {
					ord += g.ID
				}
			}
			if est != test.est || ord != test.ord {
				t.Errorf("K_est = %q, K_ord = %q, want %q, %q", est, ord, test.est, test.ord)
			}
			for _, m := range []struct {
				name      string
				got, want float64
			}{{"MC", got.MC, test.mc}, {"EOC", got.EOC, test.eoc}, {"ECR", got.ECR, test.ecr}, {"EE", got.EE, test.ee}, {"RAR", got.RAR, test.rar}} {
				if math.Abs(m.got-m.want) > 1e-12 {
					t.Errorf("%s = %v, want %v", m.name, m.got, m.want)
				}
			}
			if got.Steps != len(calls) || !slices.Equal(got.Credited, test.credited) || !slices.Equal(got.Redundant, test.redundant) {
				t.Errorf("steps %d, credited %v, redundant %v; want %d, %v, %v", got.Steps, got.Credited, got.Redundant, len(calls), test.credited, test.redundant)
			}
		})
	}
}

// TestScanStates looks at what reports are made of, in example 10.
func TestScanStates(t *testing.T) {
	got := Scan(graphOf(t, worked), callsOf("c@k d a c@k"))
	wantGroups := []GroupState{{ID: "A", Established: 3, Grounded: 3, Milestone: "m1"}, {ID: "B", Established: 2, Grounded: 4, Milestone: "m3"}, {ID: "C"}, {ID: "D"}, {ID: "E"}}
	wantMilestones := []MilestoneState{
		{ID: "m1", Group: "A", Established: 3, Bundle: 1, Clauses: []string{"a"}, Grounded: 3, GroundedBundle: 1, GroundedBy: []string{"a"}, Credits: []int{3}},
		{ID: "m2", Group: "B"},
		{ID: "m3", Group: "B", Established: 2, Bundle: 1, Clauses: []string{"c", "d"}, Grounded: 4, GroundedBundle: 1, GroundedBy: []string{"c", "d"}, Credits: []int{2, 4}},
		{ID: "m4", Group: "C"}, {ID: "m5", Group: "D"}, {ID: "m6", Group: "E"},
	}
	if diff := cmp.Diff(wantGroups, got.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantMilestones, got.Milestones); diff != "" {
		t.Errorf("milestones (-want +got):\n%s", diff)
	}
}

// randomGraph has up to eight groups over twelve clauses, in an order without cycles.
func randomGraph(t testing.TB, r *rand.Rand) *Graph {
	var b strings.Builder
	for k := range 1 + r.IntN(8) {
		if k > 0 {
			b.WriteString(";")
		}
		fmt.Fprintf(&b, "G%d=", k)
		for m := range 1 + r.IntN(2) {
			if m > 0 {
				b.WriteString("/")
			}
			// Two disjoint bundles can't be supersets of one another.
			clauses := r.Perm(12)
			fmt.Fprintf(&b, "m%d.%d:%s", k, m, names(clauses[:1+r.IntN(3)]))
			if r.IntN(2) == 0 {
				b.WriteString("|" + names(clauses[6:7+r.IntN(3)]))
			}
		}
		b.WriteString(" <")
		for other := range k {
			if r.IntN(3) == 0 {
				fmt.Fprintf(&b, "G%d,", other)
			}
		}
	}
	return graphOf(t, b.String())
}

func names(numbers []int) string {
	var out []string
	for _, n := range numbers {
		out = append(out, fmt.Sprint("c", n))
	}
	return strings.Join(out, "+")
}

func randomCalls(r *rand.Rand) []Observation {
	calls := make([]Observation, r.IntN(15))
	for i := range calls {
		calls[i].Key = fmt.Sprint(r.IntN(6))
		for range r.IntN(4) {
			calls[i].Supplies = append(calls[i].Supplies, fmt.Sprint("c", r.IntN(12)))
		}
	}
	return calls
}

// TestScanProperties checks what must hold of every graph and trajectory.
func TestScanProperties(t *testing.T) {
	property := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		g, calls := randomGraph(t, r), randomCalls(r)
		p := Scan(g, calls)
		ok := true
		expect := func(holds bool, what string) {
			if !holds {
				ok = false
				t.Errorf("seed %d: %s: %+v", seed, what, p)
			}
		}
		expect(p.EOC <= p.MC, "EOC > MC")
		expect((p.ECR == 1) == (p.MC == 1), "ECR = 1 without MC = 1, or the other way round")
		for _, v := range []float64{p.MC, p.EOC, p.ECR, p.EE, p.RAR} {
			expect(v >= 0 && v <= 1, "a metric outside [0,1]")
		}
		for _, i := range p.Redundant {
			expect(!slices.ContainsFunc(p.Groups, func(g GroupState) bool { return g.Established == i || g.Grounded == i }), "a redundant call that established or grounded a group")
		}
		for _, group := range p.Groups {
			expect(group.Grounded == 0 || group.Established > 0 && group.Established <= group.Grounded, "a group grounded before it was established")
		}

		// The order in which groups are listed doesn't matter.
		shuffled := *g
		shuffled.Groups = slices.Clone(g.Groups)
		r.Shuffle(len(shuffled.Groups), func(i, j int) {
			shuffled.Groups[i], shuffled.Groups[j] = shuffled.Groups[j], shuffled.Groups[i]
		})
		other, err := NewGraph(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		q := Scan(other, calls)
		expect(p.MC == q.MC && p.EOC == q.EOC && p.ECR == q.ECR && p.EE == q.EE && p.RAR == q.RAR, "the order of groups changed a metric")

		// Irrelevant calls raise nothing but Steps; repeated ones may raise RAR,
		// where more is worse.
		for _, key := range []string{"fresh", "0"} {
			q := Scan(g, append(slices.Clone(calls), Observation{Key: key, Supplies: []string{"irrelevant"}}))
			expect(q.Steps == p.Steps+1, "Steps didn't count a call")
			expect(q.MC == p.MC && q.EOC == p.EOC && q.ECR == p.ECR && q.EE <= p.EE, "an irrelevant call raised a metric")
			expect(key != "fresh" || q.RAR <= p.RAR, "an irrelevant new call raised RAR")
		}

		// More evidence never lowers coverage.
		q = Scan(g, append(slices.Clone(calls), Observation{Key: "more", Supplies: []string{"c0", "c1", "c2", "c3"}}))
		expect(q.MC >= p.MC && q.EOC >= p.EOC, "evidence lowered coverage")
		return ok
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func BenchmarkScan(b *testing.B) {
	g := graphOf(b, worked)
	calls := callsOf(strings.Repeat("a c d e g f - b@k b@k ", 5))
	b.ReportAllocs()
	for b.Loop() {
		Scan(g, calls)
	}
}
