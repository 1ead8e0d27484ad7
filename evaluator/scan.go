package evaluator

import "slices"

// Observation is what one call contributed.
type Observation struct {
	// Key is the call's canonical tool-and-argument pair; calls with the same
	// key are repeats of one another. Empty: the call used no diagnostic tool
	// and repeats nothing.
	Key string
	// Supplies are the ids of S_i, the clauses that the call's response showed.
	// Ids that the graph doesn't have are ignored.
	Supplies []string
}

// Process is how an investigation went, in the terms of a graph. Calls count
// from 1; 0 stands for never.
type Process struct {
	Steps int     `json:"steps"`
	MC    float64 `json:"mc"`
	EOC   float64 `json:"eoc"`
	ECR   float64 `json:"ecr"`
	EE    float64 `json:"ee"`
	RAR   float64 `json:"rar"`
	// Groups and Milestones are in the order of the graph.
	Groups     []GroupState     `json:"groups"`
	Milestones []MilestoneState `json:"milestones"`
	// Credited and Redundant are calls, in ascending order.
	Credited  []int `json:"credited"`
	Redundant []int `json:"redundant"`
}

// GroupState is what became of a group.
type GroupState struct {
	ID string `json:"id"`
	// Established is the call at which the group entered K_est.
	Established int `json:"established"`
	// Grounded is the call at which the group entered K_ord, through Milestone.
	Grounded  int    `json:"grounded"`
	Milestone string `json:"milestone,omitempty"`
}

// MilestoneState is what became of a milestone.
type MilestoneState struct {
	ID    string `json:"id"`
	Group string `json:"group"`
	// Established is the call that completed its first satisfied bundle, which
	// Bundle (counting from 1) and Clauses tell.
	Established int      `json:"established"`
	Bundle      int      `json:"bundle,omitempty"`
	Clauses     []string `json:"clauses,omitempty"`
	// Grounded is the call at which its group was grounded through this
	// milestone, by GroundedBundle; Credits are the calls credited for it.
	Grounded       int      `json:"grounded"`
	GroundedBundle int      `json:"groundedBundle,omitempty"`
	GroundedBy     []string `json:"groundedBy,omitempty"`
	Credits        []int    `json:"credits,omitempty"`
}

// Scan computes the process metrics of docs/metrics.md from what each call
// supplied, in one pass over the calls in their order. The graph must come from
// ParseTruth or NewGraph.
func Scan(g *Graph, calls []Observation) *Process {
	p := g.plan
	s := &scan{
		plan:     p,
		earliest: make([]int, len(p.clauses)),
		current:  newBits(len(p.clauses)),
		groups:   make([]GroupState, len(g.Groups)),
		credited: make([]bool, len(calls)+1),
	}
	first := make([]int, len(g.Groups)) // of each group: its first milestone in s.milestones
	for k, group := range g.Groups {
		s.groups[k].ID = group.ID
		first[k] = len(s.milestones)
		for _, m := range group.Milestones {
			s.milestones = append(s.milestones, MilestoneState{ID: m.ID, Group: group.ID})
		}
	}
	out := &Process{Steps: len(calls), Credited: []int{}, Redundant: []int{}}
	seen := make(map[string]bool, len(calls))
	established, grounded := 0, 0
	for i := 1; i <= len(calls); i++ {
		call := calls[i-1]
		fresh := s.observe(i, call.Supplies)
		progress := false
		for k := range s.groups {
			if s.establish(i, k, first[k]) {
				established++
				progress = true
			}
		}
		// [choice] Topological order within a step, so that one observation that
		// shows cause and effect together grounds both.
		for _, k := range p.order {
			if s.ground(i, k, first[k]) {
				grounded++
				progress = true
			}
		}
		if call.Key != "" {
			if seen[call.Key] && !fresh && !progress {
				out.Redundant = append(out.Redundant, i)
			}
			seen[call.Key] = true
		}
	}
	for i, credited := range s.credited {
		if credited {
			out.Credited = append(out.Credited, i)
		}
	}
	out.Groups, out.Milestones = s.groups, s.milestones
	total := float64(len(g.Groups))
	out.MC = float64(established) / total
	out.EOC = float64(grounded) / total
	if established == len(g.Groups) {
		out.ECR = 1
	}
	if n := float64(len(calls)); n > 0 { // [choice] no calls: EE = RAR = 0
		out.EE = float64(len(out.Credited)) / n
		out.RAR = float64(len(out.Redundant)) / n
	}
	return out
}

// scan is the state between calls. O_i is the clauses whose earliest call isn't
// 0; current is S_i.
type scan struct {
	plan       *plan
	earliest   []int
	current    bitset
	groups     []GroupState
	milestones []MilestoneState
	credited   []bool
}

// observe takes in S_i and tells whether it has a clause that was not in O_{i-1}.
func (s *scan) observe(i int, supplies []string) (fresh bool) {
	s.current.clear()
	for _, id := range supplies {
		n, ok := s.plan.number[id]
		if !ok {
			continue
		}
		s.current.set(n)
		if s.earliest[n] == 0 {
			s.earliest[n] = i
			fresh = true
		}
	}
	return fresh
}

// observed tells whether B ⊆ O_i.
func (s *scan) observed(bundle []int) bool {
	return !slices.ContainsFunc(bundle, func(c int) bool { return s.earliest[c] == 0 })
}

// establish notes the milestones that became established at call i, and tells
// whether their group did.
func (s *scan) establish(i, k, first int) bool {
	entered := false
	for m, bundles := range s.plan.groups[k].milestones {
		state := &s.milestones[first+m]
		if state.Established > 0 {
			continue
		}
		best := -1
		for b, bundle := range bundles {
			if s.observed(bundle) && (best < 0 || len(bundle) < len(bundles[best])) {
				best = b
			}
		}
		if best < 0 {
			continue
		}
		state.Established, state.Bundle, state.Clauses = i, best+1, s.ids(bundles[best])
		if s.groups[k].Established == 0 {
			s.groups[k].Established = i
			entered = true
		}
	}
	return entered
}

// ground enters group k into K_ord if call i allows it, and credits the calls.
func (s *scan) ground(i, k, first int) bool {
	if s.groups[k].Grounded > 0 {
		return false
	}
	for _, a := range s.plan.groups[k].ancestors {
		if s.groups[a].Grounded == 0 {
			return false
		}
	}
	// [choice] Among several qualifying bundles the one with fewest clauses
	// counts, then the first listed.
	var best []int
	var bestMilestone, bestBundle int
	for m, bundles := range s.plan.groups[k].milestones {
		for b, bundle := range bundles {
			if (best == nil || len(bundle) < len(best)) && s.observed(bundle) && slices.ContainsFunc(bundle, s.current.has) {
				best, bestMilestone, bestBundle = bundle, m, b
			}
		}
	}
	if best == nil {
		return false
	}
	state := &s.milestones[first+bestMilestone]
	state.Grounded, state.GroundedBundle, state.GroundedBy = i, bestBundle+1, s.ids(best)
	s.groups[k].Grounded, s.groups[k].Milestone = i, state.ID
	for _, c := range best {
		// [choice] The current call if it supplied the clause, else the earliest that did.
		call := s.earliest[c]
		if s.current.has(c) {
			call = i
		}
		s.credited[call] = true
		if !slices.Contains(state.Credits, call) {
			state.Credits = append(state.Credits, call)
		}
	}
	slices.Sort(state.Credits)
	return true
}

func (s *scan) ids(bundle []int) []string {
	out := make([]string, len(bundle))
	for i, c := range bundle {
		out[i] = s.plan.clauses[c].ID
	}
	return out
}

// bitset is a set of small numbers.
type bitset []uint64

func newBits(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) set(n int)      { b[n/64] |= 1 << (n % 64) }
func (b bitset) has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }
func (b bitset) clear()         { clear(b) }
