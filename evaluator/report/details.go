package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/recorder"
)

// pageView is what the template shows.
type pageView struct {
	Style, Policy     any
	Title             string
	Agents, Cases     string
	Count             string
	Runs              string
	Leaders           []*tableView
	Plots             []*plotView
	Breakdowns        []*tableView
	Tasks             *tableView
	Comparisons       []comparisonView
	Pairs             string
	Reasons           []reasonView
	MoreReasons       string
	Missed            []missedView
	Meanings          []metricView
	Episodes          []*episodeView
	Rest              string
	Notes             []string
	Single, WithGraph bool
}

// missedView is a group of a case that some agents' evidence never established.
type missedView struct{ Case, Group, Fact, Missed string }

// episodeView is one episode, call by call.
type episodeView struct {
	Anchor, Case, Agent, Attempt, ID string
	Kind                             string
	// Verdict is "right", "wrong" or "not scored".
	Verdict    string
	Ended      string
	Figures    []metricView
	Found      []foundView
	Graph      template.HTML
	Milestones []milestoneView
	Missing    []string
	Calls      []callView
	Strip      *stripView
	MoreCalls  string
	Problems   []string
	Failures   []string
	Unreadable string
}

type foundView struct{ What, Found, Truth, Verdict string }

type milestoneView struct {
	Group, Fact string
	State       evaluator.State
	Word, Mark  string
	Established string
	Grounded    string
	Clauses     string
}

type callView struct {
	Index                   int
	Since, Command, Message string
	Uses                    []string
	Class                   string
	Marks                   []string
	Clauses                 string
	Lit                     []string
}

// stripView draws the calls as a row of squares.
type stripView struct {
	Width, Height int
	Cells         []stripCell
}

type stripCell struct {
	X, Y        int
	Class, Text string
	Lit         bool
}

// Words and marks for states, so that no one needs to see their colours.
var (
	stateWords = map[evaluator.State]string{evaluator.Missing: "missing", evaluator.Seen: "established", evaluator.Grounded: "grounded"}
	stateMarks = map[evaluator.State]string{evaluator.Missing: "○", evaluator.Seen: "◐", evaluator.Grounded: "●"}
)

func (p *Page) view(ctx context.Context) (*pageView, error) {
	var scores []*evaluator.Score
	agents, cases := map[string]bool{}, map[string]bool{}
	for i := range p.Episodes {
		s := p.Episodes[i].Score
		scores = append(scores, s)
		agents[s.Agent], cases[s.System+"\x00"+s.Case] = true, true
	}
	style := pageStyle()
	v := &pageView{
		Style:  template.CSS(style),
		Policy: "default-src 'none'; style-src " + styleDigest(style) + "; base-uri 'none'; form-action 'none'",
		Title:  Plain(p.Title, nameBound), Agents: plural(len(agents), "agent"), Cases: plural(len(cases), "case"), Count: plural(len(scores), "episode"),
		Comparisons: comparisons(scores), Missed: missed(p.Episodes),
	}
	if len(agents) > 2 {
		v.Pairs = "Agents are compared in pairs: score the runs of two of them to see their difference."
	}
	leaders := figures(scores, evaluator.ByAgent)
	best(leaders)
	for _, source := range []evaluator.Source{evaluator.Authored, evaluator.Derived, ""} {
		var of []figure
		for _, f := range leaders {
			if f.source == source {
				of = append(of, f)
			}
		}
		title := ""
		if source != evaluator.Authored {
			title = "Over " + sourceName(source)
		}
		if t := table(title, []string{"agent"}, of, leaderMetrics, agentNames); t != nil {
			v.Leaders = append(v.Leaders, t)
		}
		if pl := plot(of, source); pl != nil {
			v.Plots = append(v.Plots, pl)
		}
	}
	var whole []figure // the tasks don't rest on graphs
	for _, f := range leaders {
		if !slices.ContainsFunc(whole, func(o figure) bool { return o.row.Agent == f.row.Agent }) {
			whole = append(whole, f)
		}
	}
	v.Tasks = table("", []string{"agent"}, whole, taskMetrics, agentNames)
	for _, d := range []evaluator.Dimension{evaluator.ByCategory, evaluator.ByDifficulty, evaluator.BySystem} {
		all := figures(scores, evaluator.ByAgent, d)
		value := func(r evaluator.Row) string {
			return map[evaluator.Dimension]string{evaluator.ByCategory: r.Category, evaluator.ByDifficulty: r.Difficulty, evaluator.BySystem: r.System}[d]
		}
		if !slices.ContainsFunc(all, func(f figure) bool { return value(f.row) != "" }) {
			continue
		}
		rank := map[string]int{"Easy": 1, "Medium": 2, "Hard": 3}
		slices.SortStableFunc(all, func(a, b figure) int {
			x, y := value(a.row), value(b.row)
			if d := rank[x] - rank[y]; d != 0 {
				return d
			}
			return strings.Compare(x, y)
		})
		names := func(f figure) []string {
			name := Plain(value(f.row), nameBound)
			if name == "" {
				name = "none"
			}
			return append([]string{name}, agentNames(f)...)
		}
		if t := table("By "+string(d), []string{string(d), "agent"}, all, breakdownMetrics, names); t != nil {
			v.Breakdowns = append(v.Breakdowns, t)
		}
	}
	v.Reasons, v.MoreReasons = reasons(scores)
	for _, m := range leaderMetrics {
		v.Meanings = append(v.Meanings, metricView{string(m), meaning[m]})
	}
	for _, note := range p.Notes[:min(len(p.Notes), maxReasons)] {
		v.Notes = append(v.Notes, Plain(note, textBound))
	}
	details, rows := p.Details, maxCallRows
	if details <= 0 {
		details = DefaultDetails
	}
	for i := range p.Episodes[:min(details, len(p.Episodes))] {
		e, err := p.Episodes[i].view(ctx, i+1, &rows)
		if err != nil {
			return nil, err
		}
		v.Episodes = append(v.Episodes, e)
	}
	if rest := len(p.Episodes) - len(v.Episodes); rest > 0 {
		v.Rest = fmt.Sprintf("The first %s of %s episodes are shown call by call; the other %s are in the figures alone.", count(len(v.Episodes)), count(len(p.Episodes)), count(rest))
	}
	return v, nil
}

func agentNames(f figure) []string {
	name := Plain(f.row.Agent, nameBound)
	if name == "" {
		name = "(no name)"
	}
	return []string{name}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return count(n) + " " + word + "s"
}

// missed counts in how many scored episodes of a case each group was never established,
// the most often missed first.
func missed(episodes []Episode) []missedView {
	type tally struct {
		kase, group, fact string
		missed, of        int
	}
	at := map[[3]string]*tally{}
	var order []*tally
	for i := range episodes {
		e := &episodes[i]
		if e.Score.Process == nil || e.Truth == nil || e.Truth.Graph == nil {
			continue
		}
		for n, g := range e.Score.Process.Groups {
			if n >= len(e.Truth.Graph.Groups) {
				break
			}
			key := [3]string{e.Score.System, e.Score.Case, g.ID}
			t := at[key]
			if t == nil {
				t = &tally{kase: e.Score.Case, group: groupTitle(e.Truth.Graph.Groups[n]), fact: facts(e.Truth.Graph.Groups[n])}
				at[key], order = t, append(order, t)
			}
			t.of++
			if g.Established == 0 {
				t.missed++
			}
		}
	}
	order = slices.DeleteFunc(order, func(t *tally) bool { return t.missed == 0 })
	slices.SortStableFunc(order, func(a, b *tally) int { return b.missed*a.of - a.missed*b.of })
	var out []missedView
	for _, t := range order[:min(len(order), maxReasons)] {
		out = append(out, missedView{Plain(t.kase, nameBound), t.group, t.fact, fmt.Sprintf("%s of %s", count(t.missed), count(t.of))})
	}
	return out
}

func groupTitle(g *evaluator.Group) string {
	if g.Title != "" {
		return Plain(g.Title, nameBound)
	}
	return Plain(g.ID, nameBound)
}

// facts are a group's, any one of which completes it.
func facts(g *evaluator.Group) string {
	var out []string
	for _, m := range g.Milestones {
		out = append(out, m.Fact)
	}
	return Plain(strings.Join(out, " Or: "), textBound)
}

func (e *Episode) view(ctx context.Context, n int, rows *int) (*episodeView, error) {
	s := e.Score
	v := &episodeView{
		Anchor: "episode-" + strconv.Itoa(n), Case: Plain(s.Case, nameBound), Agent: Plain(s.Agent, nameBound), ID: Plain(s.Episode, nameBound),
		Ended: Plain(e.Ended, textBound), Verdict: verdict(s.Marks[evaluator.JRA]),
	}
	if e.Attempt > 1 {
		v.Attempt = "attempt " + strconv.Itoa(e.Attempt)
	}
	var kind []string
	for _, k := range []string{s.System, s.Category, s.Difficulty} {
		if k != "" {
			kind = append(kind, Plain(k, nameBound))
		}
	}
	v.Kind = strings.Join(kind, " · ")
	for _, m := range leaderMetrics[3:] {
		mark, ok := s.Marks[m]
		switch {
		case ok && mark.Scored() && m == evaluator.Steps:
			v.Figures = append(v.Figures, metricView{string(m), trim(mark.Value)})
		case ok && mark.Scored():
			v.Figures = append(v.Figures, metricView{string(m), number(m, mark.Value)})
		}
	}
	if mark := s.Marks[evaluator.JRA]; !mark.Scored() {
		v.Problems = append(v.Problems, "Not scored: "+Plain(mark.Unscored, messageBound))
	}
	e.found(v)
	for _, f := range s.Failures[:min(len(s.Failures), maxReasons)] {
		v.Failures = append(v.Failures, Plain(f, messageBound))
	}
	var t *recorder.Trajectory
	var observations []evaluator.Observation
	if e.Calls != nil {
		var err error
		t, observations, err = e.Calls(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			v.Unreadable, t = Plain(err.Error(), messageBound), nil
		}
	}
	if e.Truth != nil && e.Truth.Graph != nil && s.Process != nil {
		if err := e.evidence(v, t); err != nil {
			return nil, err
		}
	}
	if t != nil {
		e.timeline(v, t, observations, rows)
	}
	return v, nil
}

func verdict(m evaluator.Mark) string {
	switch {
	case !m.Scored():
		return "not scored"
	case m.Value == 1:
		return "right"
	}
	return "wrong"
}

// found sets what the agent said beside the truth.
func (e *Episode) found(v *episodeView) {
	s, t := e.Score, e.Truth
	sub := s.Submission
	if sub == nil {
		sub = &evaluator.Submission{}
		v.Problems = append(v.Problems, "No answer could be read.")
	}
	row := func(what, found, truth string, m evaluator.Metric) {
		if found == "" {
			found = "not said"
		}
		f := foundView{What: what, Found: Plain(found, textBound), Truth: Plain(truth, textBound)}
		if mark, ok := s.Marks[m]; ok && m != "" {
			f.Verdict = verdict(mark)
		}
		v.Found = append(v.Found, f)
	}
	detected := ""
	if sub.Detected != nil {
		detected = map[bool]string{true: "something is wrong", false: "nothing is wrong"}[*sub.Detected]
	}
	component := sub.Component
	if component == "" && len(sub.Components) > 0 {
		component = strings.Join(sub.Components[:min(5, len(sub.Components))], ", ")
	}
	switch {
	case t == nil:
		row("component", component, "", evaluator.CA)
		row("fault", sub.Fault, "", evaluator.FA)
	case t.NoFault:
		row("state", strings.TrimSpace(detected+" "+component+" "+sub.Fault), "nothing is wrong", evaluator.JRA)
	case t.Outcome != nil:
		row("component", component, t.Outcome.Component, evaluator.CA)
		row("fault", sub.Fault, t.Outcome.Fault, evaluator.FA)
		if t.Outcome.Layer != "" && sub.Layer != "" {
			row("layer", sub.Layer, t.Outcome.Layer, evaluator.AnalysisLayer)
		}
	}
	if n := len(sub.Commands) + len(sub.Patches); n > 0 {
		repair := slices.Clone(sub.Commands[:min(5, len(sub.Commands))])
		for _, p := range sub.Patches[:min(5, len(sub.Patches))] {
			var b bytes.Buffer
			if json.Compact(&b, p) == nil {
				repair = append(repair, b.String())
			}
		}
		f := foundView{What: "repair", Found: Plain(strings.Join(repair, "; "), textBound)}
		if m := s.Marks[evaluator.MitigationAccuracy]; m.Scored() {
			f.Verdict = verdict(m)
		} else {
			f.Truth = Plain(m.Unscored, textBound)
		}
		v.Found = append(v.Found, f)
	}
	for _, problem := range sub.Problems[:min(len(sub.Problems), maxReasons)] {
		v.Problems = append(v.Problems, Plain(problem, textBound))
	}
}

// evidence draws the graph and lists the milestones.
func (e *Episode) evidence(v *episodeView, t *recorder.Trajectory) error {
	graph, process := e.Truth.Graph, e.Score.Process
	states := process.States()
	drawing, err := Drawing(graph, states)
	if err != nil {
		return err
	}
	v.Graph = template.HTML(drawing)
	command := func(call int) string {
		if call < 1 {
			return ""
		}
		text := "call " + strconv.Itoa(call)
		if t != nil && call <= len(t.Calls) {
			text += ": " + Plain(t.Calls[call-1].Command, textBound)
		}
		return text
	}
	n := 0
	for k, group := range graph.Groups {
		for _, m := range group.Milestones {
			if n >= len(process.Milestones) || k >= len(process.Groups) {
				return nil // a score of another graph
			}
			is := process.Milestones[n]
			n++
			state := states[m.ID]
			mv := milestoneView{
				Group: groupTitle(group), Fact: Plain(m.Fact, textBound), State: state, Word: stateWords[state], Mark: stateMarks[state],
				Established: command(is.Established), Clauses: Plain(strings.Join(is.Clauses, ", "), textBound),
			}
			if is.Grounded > 0 && is.Grounded != is.Established {
				mv.Grounded = command(is.Grounded)
			}
			if state == evaluator.Missing && process.Groups[k].Established > 0 {
				mv.Word = "not needed"
			}
			if is.Established > 0 && is.Grounded == 0 && process.Groups[k].Grounded == 0 {
				mv.Word = "established, out of order"
			}
			v.Milestones = append(v.Milestones, mv)
		}
		if process.Groups[k].Established == 0 {
			v.Missing = append(v.Missing, groupTitle(group)+": "+facts(group))
		}
	}
	return nil
}

// Drawing is the graph's drawing without its style sheet, which the page has once.
func Drawing(g *evaluator.Graph, states map[string]evaluator.State) (string, error) {
	var b strings.Builder
	if err := g.SVG(&b, states); err != nil {
		return "", err
	}
	return strings.Replace(b.String(), "<style>"+evaluator.SVGStyle+"</style>\n", "", 1), nil
}

// timeline lists the calls.
func (e *Episode) timeline(v *episodeView, t *recorder.Trajectory, observations []evaluator.Observation, rows *int) {
	process := e.Score.Process
	if process == nil {
		process = &evaluator.Process{}
	}
	lit := map[int][]string{}
	if e.Truth != nil && e.Truth.Graph != nil {
		fact := map[string]string{}
		for _, g := range e.Truth.Graph.Groups {
			for _, m := range g.Milestones {
				fact[m.ID] = m.Fact
			}
		}
		for _, m := range process.Milestones {
			if m.Established > 0 {
				lit[m.Established] = append(lit[m.Established], Plain(fact[m.ID], textBound))
			}
		}
	}
	shown := min(len(t.Calls), maxCalls, max(0, *rows))
	*rows -= shown
	if rest := len(t.Calls) - shown; rest > 0 {
		v.MoreCalls = plural(rest, "more call") + " left out"
	}
	const side, gap, perRow = 14, 4, 60
	for i := range t.Calls[:shown] {
		c := &t.Calls[i]
		call := callView{
			Index: c.Index, Since: since(c.Start, t.Captured), Command: Plain(c.Command, textBound), Message: Plain(c.Message, textBound),
			Uses: useTexts(c, maxUses), Class: Plain(string(c.Class), nameBound), Lit: lit[c.Index],
		}
		class := "kc-plain"
		if _, credited := slices.BinarySearch(process.Credited, c.Index); credited {
			call.Marks, class = append(call.Marks, "credited"), "kc-credited"
		}
		if _, redundant := slices.BinarySearch(process.Redundant, c.Index); redundant {
			call.Marks, class = append(call.Marks, "redundant"), "kc-redundant"
		}
		if class == "kc-plain" && c.Class != recorder.Delivered && c.Class != recorder.NotFound {
			class = "kc-failed"
		}
		if i < len(observations) {
			call.Clauses = Plain(strings.Join(observations[i].Supplies, ", "), textBound)
		}
		v.Calls = append(v.Calls, call)
		if v.Strip == nil {
			v.Strip = &stripView{}
		}
		cell := stripCell{X: i%perRow*(side+gap) + 1, Y: i/perRow*(side+gap) + 1, Class: class, Lit: len(call.Lit) > 0, Text: fmt.Sprintf("call %d: %s", c.Index, call.Command)}
		v.Strip.Cells = append(v.Strip.Cells, cell)
		v.Strip.Width, v.Strip.Height = max(v.Strip.Width, cell.X+side+1), cell.Y+side+1
	}
}
