package evaluator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of a graph: far beyond what a person writes, small enough that a
// hostile file can't make a check or a scan slow.
const (
	maxGroups     = 200
	maxMilestones = 500
	maxBundles    = 32 // of one milestone
	maxBundle     = 32 // clauses in one bundle
	maxClauses    = 2000
)

// plan is a graph ready for scanning: everything by number.
type plan struct {
	clauses []*Clause
	number  map[string]int // of a clause, by id
	groups  []planGroup
	order   []int // of groups: prerequisites first, then as listed
}

type planGroup struct {
	ancestors  []int // the transitive closure of its prerequisites
	milestones [][][]int
}

// NewGraph checks the structure of a graph that was put together in code (see
// docs/evidence-graphs.md) and makes it ready for Scan. Predicates are not compiled.
func NewGraph(g Graph) (*Graph, error) {
	p := &problems{file: "graph"}
	g.link(p)
	if err := p.err(); err != nil {
		return nil, err
	}
	return &g, nil
}

// ClauseIDs are the ids of all clauses, in the order of first use.
func (g *Graph) ClauseIDs() []string {
	ids := make([]string, len(g.plan.clauses))
	for i, c := range g.plan.clauses {
		ids[i] = c.ID
	}
	return ids
}

// Clause gives a clause by its id, nil when there is none.
func (g *Graph) Clause(id string) *Clause {
	if i, ok := g.plan.number[id]; ok {
		return g.plan.clauses[i]
	}
	return nil
}

// Order gives the groups with all prerequisites before what requires them, and
// as listed otherwise.
func (g *Graph) Order() []*Group {
	out := make([]*Group, len(g.plan.order))
	for i, k := range g.plan.order {
		out[i] = g.Groups[k]
	}
	return out
}

// BundleIDs are the clause ids of one bundle of a milestone, counted from 0, in
// the order in which they were written.
func (g *Graph) BundleIDs(group, milestone, bundle int) []string {
	var ids []string
	for _, c := range g.plan.groups[group].milestones[milestone][bundle] {
		ids = append(ids, g.plan.clauses[c].ID)
	}
	return ids
}

// link resolves references, checks the structure and builds the plan.
func (g *Graph) link(p *problems) {
	if g.Source != Authored && g.Source != Derived {
		if g.Source != "" { // its absence has been reported, where it was read
			p.add(g.Place, "graph.source is "+quote(string(g.Source)), "write authored or derived")
		} else {
			g.Source = Authored
		}
	}
	if len(g.Groups) == 0 {
		p.add(g.Place, "the graph has no groups", "write at least one, or delete the graph")
		return
	}
	if len(g.Groups) > maxGroups {
		p.add(g.Place, fmt.Sprintf("the graph has %d groups", len(g.Groups)), fmt.Sprintf("at most %d are allowed", maxGroups))
		return
	}
	l := &linker{problems: p, graph: g, plan: &plan{number: map[string]int{}}, byContent: map[string]*Clause{}, used: map[string]bool{}}
	l.named()
	l.milestones()
	l.order()
	for _, id := range slices.Sorted(maps.Keys(g.Clauses)) {
		if c := g.Clauses[id]; !l.used[id] {
			p.add(c.Place, "the clause "+quote(id)+" is in no bundle", "refer to it, or delete it")
		}
	}
	g.plan = l.plan
}

type linker struct {
	*problems
	graph     *Graph
	plan      *plan
	byContent map[string]*Clause
	used      map[string]bool
}

// named checks the clauses that are referred to by id.
func (l *linker) named() {
	for _, id := range slices.Sorted(maps.Keys(l.graph.Clauses)) {
		c := l.graph.Clauses[id]
		if c.ID != "" && c.ID != id {
			l.add(c.Place, fmt.Sprintf("the clause %s says that its id is %s", quote(id), quote(c.ID)), "delete its id: the key is the id")
		}
		c.ID = id
		l.name(c.Place, "clause", id)
		l.tool(c)
		if same := l.byContent[c.content()]; same != nil {
			l.add(c.Place, fmt.Sprintf("the clause %s is the same as %s", quote(id), quote(same.ID)), "delete one, and refer to the other")
			continue
		}
		l.byContent[c.content()] = c
	}
}

// name checks an id: it must fit on one line of a drawing and of a message.
func (l *linker) name(at Place, what, id string) {
	switch {
	case id == "":
		l.add(at, "a "+what+" has no id", "write a short one, like pod-pending")
	case len(id) > 100 || strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r))
	}):
		l.add(at, "the id "+quote(id)+" of a "+what+" is not usable", "use at most 100 letters, digits, dashes, dots, slashes and underscores")
	}
}

func (l *linker) tool(c *Clause) {
	args, ok := toolArgs[c.Tool]
	if !ok {
		if c.Tool != "" {
			l.add(c.Place, fmt.Sprintf("the clause %s uses the tool %s", quote(c.ID), quote(string(c.Tool))), didYouMean(string(c.Tool), toolNames()))
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		if !slices.Contains(args, name) {
			l.add(c.Place, fmt.Sprintf("the clause %s gives %s an argument %s that it doesn't take", quote(c.ID), c.Tool, quote(name)), didYouMean(name, args))
		}
	}
}

// milestones checks ids and bundles. That each milestone is written inside its
// group makes the groups a partition, as long as ids are unique.
func (l *linker) milestones() {
	groups, milestones := map[string]Place{}, map[string]string{}
	l.plan.groups = make([]planGroup, len(l.graph.Groups))
	for k, group := range l.graph.Groups {
		l.name(group.Place, "group", group.ID)
		if first, twice := groups[group.ID]; twice {
			l.add(group.Place, fmt.Sprintf("the group %s is there twice, first in line %d", quote(group.ID), first.Line), "give each group its own id")
		}
		groups[group.ID] = group.Place
		if len(group.Milestones) == 0 {
			l.add(group.Place, "the group "+quote(group.ID)+" has no milestones", "write at least one, or delete the group")
		}
		for _, m := range group.Milestones {
			l.name(m.Place, "milestone", m.ID)
			if first, twice := milestones[m.ID]; twice {
				l.add(m.Place, fmt.Sprintf("the milestone %s is in the group %s already: groups must not share milestones", quote(m.ID), quote(first)), "give each milestone its own id, or delete one")
			}
			milestones[m.ID] = group.ID
			l.plan.groups[k].milestones = append(l.plan.groups[k].milestones, l.bundles(m))
		}
		if len(milestones) > maxMilestones {
			l.add(group.Place, fmt.Sprintf("the graph has more than %d milestones", maxMilestones), "make it smaller")
			return
		}
	}
}

func (l *linker) bundles(m *Milestone) [][]int {
	switch {
	case len(m.Bundles) == 0:
		l.add(m.Place, "the milestone "+quote(m.ID)+" has no bundles: nothing can establish it", "write at least one")
	case len(m.Bundles) > maxBundles:
		l.add(m.Place, fmt.Sprintf("the milestone %s has %d bundles", quote(m.ID), len(m.Bundles)), fmt.Sprintf("at most %d are allowed", maxBundles))
		return nil
	}
	out := make([][]int, len(m.Bundles))
	for b, bundle := range m.Bundles {
		where := fmt.Sprintf("bundle %d of the milestone %s", b+1, quote(m.ID))
		if len(bundle) == 0 {
			l.add(m.Place, where+" is empty: it would always hold", "write at least one clause")
		}
		if len(bundle) > maxBundle {
			l.add(m.Place, fmt.Sprintf("%s has %d clauses", where, len(bundle)), fmt.Sprintf("at most %d are allowed", maxBundle))
			continue
		}
		for i, entry := range bundle {
			c := l.clause(entry, fmt.Sprintf("%s/%d.%d", m.ID, b+1, i+1), where)
			if c == nil {
				continue
			}
			n := l.plan.number[c.ID]
			if slices.Contains(out[b], n) {
				l.add(entry.Place, where+" has the clause "+quote(c.ID)+" twice", "delete one")
				continue
			}
			out[b] = append(out[b], n)
		}
	}
	for b := range out {
		for other := range out {
			if b == other || len(out[b]) == 0 || len(out[other]) == 0 || len(m.Bundles[b]) == 0 {
				continue
			}
			equal := len(out[b]) == len(out[other])
			if contains(out[b], out[other]) && !(equal && b < other) {
				l.add(m.Bundles[b][0].Place, fmt.Sprintf("bundle %d of the milestone %s has all clauses of bundle %d, which suffices without it", b+1, quote(m.ID), other+1), "delete it, or delete the clause that makes the other too weak")
			}
		}
	}
	return out
}

func contains(set, part []int) bool {
	return !slices.ContainsFunc(part, func(n int) bool { return !slices.Contains(set, n) })
}

// clause finds or registers the clause of an entry.
func (l *linker) clause(e Entry, made, where string) *Clause {
	var c *Clause
	if e.Inline == nil {
		if c = l.graph.Clauses[e.Ref]; c == nil {
			l.add(e.Place, where+" refers to the clause "+quote(e.Ref)+", which is not under graph.clauses", didYouMean(e.Ref, slices.Sorted(maps.Keys(l.graph.Clauses))))
			return nil
		}
		l.used[e.Ref] = true
	} else {
		c = e.Inline
		if same := l.byContent[c.content()]; same != nil {
			// The same clause written twice is one clause, so that credit and
			// redundancy don't depend on how the file was written.
			if c.ID != "" && c.ID != same.ID {
				l.add(e.Place, fmt.Sprintf("the clause %s is the same as %s", quote(c.ID), quote(same.ID)), "refer to it, or delete the id")
			}
			if l.graph.Clauses[same.ID] == same {
				l.used[same.ID] = true
			}
			c = same
		} else {
			if c.ID == "" {
				c.ID = made
			}
			l.name(c.Place, "clause", c.ID)
			_, twice := l.plan.number[c.ID]
			if named := l.graph.Clauses[c.ID]; twice || named != nil {
				l.add(e.Place, "the clause id "+quote(c.ID)+" is there twice", "give each clause its own id")
				return nil
			}
			l.tool(c)
			l.byContent[c.content()] = c
		}
	}
	if _, known := l.plan.number[c.ID]; !known {
		if len(l.plan.clauses) == maxClauses {
			l.add(e.Place, fmt.Sprintf("the graph has more than %d clauses", maxClauses), "make it smaller")
		}
		l.plan.number[c.ID] = len(l.plan.clauses)
		l.plan.clauses = append(l.plan.clauses, c)
	}
	return c
}

// order sorts the groups topologically and closes the relation. Query and
// outcome are implied: a group without prerequisites follows from the query, a
// group that none requires leads to the outcome. So exactly the groups on a
// cycle, and those behind one, are unreachable or lead nowhere.
func (l *linker) order() {
	groups := l.graph.Groups
	number := map[string]int{}
	var ids []string
	for k, group := range groups {
		if _, twice := number[group.ID]; !twice {
			number[group.ID] = k
		}
		ids = append(ids, group.ID)
	}
	requires := make([][]int, len(groups))
	for k, group := range groups {
		for _, ref := range group.Requires {
			n, ok := number[ref.ID]
			switch {
			case !ok:
				l.add(ref.Place, fmt.Sprintf("the group %s requires %s, which is no group", quote(group.ID), quote(ref.ID)), didYouMean(ref.ID, ids))
			case slices.Contains(requires[k], n):
				l.add(ref.Place, fmt.Sprintf("the group %s requires %s twice", quote(group.ID), quote(ref.ID)), "delete one")
			default:
				requires[k] = append(requires[k], n)
			}
		}
	}
	placed := make([]bool, len(groups))
	for progress := true; progress; {
		progress = false
		for k := range groups {
			if placed[k] || slices.ContainsFunc(requires[k], func(n int) bool { return !placed[n] }) {
				continue
			}
			closure := map[int]bool{}
			for _, n := range requires[k] {
				closure[n] = true
				for _, a := range l.plan.groups[n].ancestors {
					closure[a] = true
				}
			}
			l.plan.groups[k].ancestors = slices.Sorted(maps.Keys(closure))
			placed[k], progress = true, true
			l.plan.order = append(l.plan.order, k)
			break // begin again, so that the order stays close to the listed one
		}
	}
	l.cycles(requires, placed)
}

// cycles reports each cycle among the groups that could not be placed, and the
// groups that only follow from one.
func (l *linker) cycles(requires [][]int, placed []bool) {
	onCycle := make([]bool, len(placed))
	for start := range placed {
		if placed[start] || onCycle[start] {
			continue
		}
		if path := pathBack(start, requires, placed); path != nil {
			var names []string
			for _, k := range path {
				onCycle[k] = true
				names = append(names, l.graph.Groups[k].ID)
			}
			names = append(names, names[0])
			l.add(l.graph.Groups[start].Place, "the order of groups has a cycle, each requiring the next: "+strings.Join(names, " → "), "delete one of these prerequisites")
		}
	}
	for k := range placed {
		if !placed[k] && !onCycle[k] {
			l.add(l.graph.Groups[k].Place, "the group "+quote(l.graph.Groups[k].ID)+" can't be reached from the query: it follows from a cycle", "break the cycle")
		}
	}
}

// pathBack finds a shortest way from start over prerequisites back to start.
func pathBack(start int, requires [][]int, placed []bool) []int {
	from := map[int]int{}
	queue := []int{start}
	for len(queue) > 0 {
		k := queue[0]
		queue = queue[1:]
		for _, n := range requires[k] {
			if n == start {
				path := []int{k}
				for k != start {
					k = from[k]
					path = append(path, k)
				}
				slices.Reverse(path)
				return path
			}
			if _, seen := from[n]; !seen && !placed[n] {
				from[n] = k
				queue = append(queue, n)
			}
		}
	}
	return nil
}
