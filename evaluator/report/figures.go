package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kubecase/kubecase/evaluator"
)

// The metrics of the tables.
var (
	leaderMetrics = []evaluator.Metric{
		evaluator.JRA, evaluator.CA, evaluator.FA, evaluator.MC, evaluator.EOC, evaluator.ECR, evaluator.EE, evaluator.RAR, evaluator.Steps,
	}
	// A breakdown has a column more for names, and CA and FA less.
	breakdownMetrics = append(leaderMetrics[:1:1], leaderMetrics[3:]...)
	taskMetrics      = []evaluator.Metric{
		evaluator.DetectionAccuracy, evaluator.LocalisationAt1, evaluator.LocalisationAt3, evaluator.AnalysisLayer, evaluator.AnalysisFault,
		evaluator.MitigationAccuracy, evaluator.TimeToDetect, evaluator.TimeToMitigate, evaluator.InputTokens, evaluator.OutputTokens,
	}
)

// meaning says in a sentence what a metric is; docs/metrics.md defines it.
var meaning = map[evaluator.Metric]string{
	evaluator.CA:    "the component is right",
	evaluator.FA:    "the fault type is right",
	evaluator.JRA:   "component and fault type are both right",
	evaluator.MC:    "milestone groups that the evidence established, of all",
	evaluator.EOC:   "groups established in an order that bears them out, of all",
	evaluator.ECR:   "the evidence is complete: all groups are established",
	evaluator.EE:    "calls that contributed evidence, of all calls",
	evaluator.RAR:   "calls that repeated an earlier one for nothing, of all calls",
	evaluator.Steps: "tool calls made",
}

// unbounded are the metrics that are no share of 1.
func unbounded(m evaluator.Metric) bool {
	switch m {
	case evaluator.Steps, evaluator.TimeToDetect, evaluator.TimeToMitigate, evaluator.InputTokens, evaluator.OutputTokens:
		return true
	}
	return false
}

// tableView is a table of figures.
type tableView struct {
	Title   string
	Heads   []string // of the columns that name a row
	Metrics []metricView
	Rows    []rowView
	// More is how many rows were left out.
	More string
}

type metricView struct{ Name, Meaning string }

type rowView struct {
	Names []string
	Cases string
	Cells []cellView
}

// cellView is a mean with its interval; bars are drawn on a scale of 0 to 100.
type cellView struct {
	Empty          bool
	Mean, Interval string
	// Part says how many cases were scored, when not all were.
	Part           string
	Low, Width, At float64
	// Zero is where zero is, for differences; negative: at the left end.
	Zero float64
}

// figure is a row of Aggregate for one source of graphs.
type figure struct {
	row    evaluator.Row
	source evaluator.Source
}

func (f figure) summary(m evaluator.Metric) (evaluator.Summary, bool) {
	s, ok := f.row.Metrics[m]
	if of, is := f.row.Process[f.source][m]; is {
		s, ok = of, true
	}
	return s, ok && s.Scored > 0
}

func (f figure) mean(m evaluator.Metric) float64 {
	if s, ok := f.summary(m); ok {
		return s.Mean
	}
	return -1
}

// figures has a line per row and source of graphs, which are never mixed.
func figures(scores []*evaluator.Score, by ...evaluator.Dimension) []figure {
	var out []figure
	for _, row := range evaluator.Aggregate(scores, by...) {
		sources := slices.Sorted(maps.Keys(row.Process))
		if len(sources) == 0 {
			sources = []evaluator.Source{""}
		}
		for _, source := range sources {
			out = append(out, figure{row, source})
		}
	}
	return out
}

// best sorts figures for a leaderboard: by outcome, then evidence, then name.
func best(figures []figure) {
	slices.SortStableFunc(figures, func(a, b figure) int {
		return cmp.Or(
			cmp.Compare(b.mean(evaluator.JRA), a.mean(evaluator.JRA)),
			cmp.Compare(b.mean(evaluator.ECR), a.mean(evaluator.ECR)),
			cmp.Compare(b.mean(evaluator.MC), a.mean(evaluator.MC)),
			cmp.Compare(a.row.Agent, b.row.Agent),
			cmp.Compare(a.source, b.source),
		)
	})
}

// table makes a table of the metrics that were scored at all.
func table(title string, heads []string, all []figure, metrics []evaluator.Metric, names func(figure) []string) *tableView {
	t := &tableView{Title: title, Heads: heads}
	highest := map[evaluator.Metric]float64{}
	var shown []evaluator.Metric
	for _, m := range metrics {
		any := false
		for _, f := range all {
			s, ok := f.summary(m)
			any = any || ok
			highest[m] = max(highest[m], s.High)
		}
		if any {
			shown = append(shown, m)
			t.Metrics = append(t.Metrics, metricView{string(m), meaning[m]})
		}
	}
	for i, f := range all {
		if i == maxRows {
			t.More = count(len(all)-maxRows) + " more rows are left out"
			break
		}
		row := rowView{Names: names(f), Cases: count(f.row.Cases)}
		if f.row.Episodes != f.row.Cases {
			row.Cases += " × " + trim(float64(f.row.Episodes)/float64(f.row.Cases))
		}
		for _, m := range shown {
			s, ok := f.summary(m)
			if !ok {
				row.Cells = append(row.Cells, cellView{Empty: true})
				continue
			}
			scale := 1.0
			if unbounded(m) && highest[m] > 0 {
				scale = highest[m]
			}
			c := cellView{Mean: number(m, s.Mean), Interval: number(m, s.Low) + "–" + number(m, s.High), Zero: -1}
			c.Low, c.Width, c.At = 100*s.Low/scale, 100*(s.High-s.Low)/scale, 100*s.Mean/scale
			if s.Scored < s.Cases {
				c.Part = fmt.Sprintf("%s of %s cases", count(s.Scored), count(s.Cases))
			}
			row.Cells = append(row.Cells, c)
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 || len(t.Metrics) == 0 {
		return nil
	}
	return t
}

// trim is a number with one decimal where it has one.
func trim(v float64) string {
	if v == float64(int(v)) {
		return count(int(v))
	}
	return fmt.Sprintf("%.1f", v)
}

func number(m evaluator.Metric, v float64) string {
	if m == evaluator.InputTokens || m == evaluator.OutputTokens {
		return count(int(v + 0.5))
	}
	if unbounded(m) {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// sourceName names the graphs that figures rest on.
func sourceName(s evaluator.Source) string {
	if s == "" {
		return "no graphs"
	}
	return string(s) + " graphs"
}

// comparisonView pairs two agents.
type comparisonView struct {
	A, B string
	// Source of the graphs, where there are several.
	Source string
	Rows   []pairView
}

type pairView struct {
	Metric metricView
	A, B   string
	Cell   cellView
	// SignP and PermutationP are the two tests' probabilities.
	SignP, PermutationP string
	Cases               string
}

// comparisons pairs the agents if there are exactly two, per source of graphs.
func comparisons(scores []*evaluator.Score) []comparisonView {
	of := map[string][]*evaluator.Score{}
	sources := map[evaluator.Source]bool{}
	for _, s := range scores {
		of[s.Agent] = append(of[s.Agent], s)
		if s.Source != "" {
			sources[s.Source] = true
		}
	}
	if len(of) != 2 {
		return nil
	}
	agents := slices.Sorted(maps.Keys(of))
	kinds := slices.Sorted(maps.Keys(sources))
	if len(kinds) == 0 {
		kinds = []evaluator.Source{""}
	}
	var out []comparisonView
	for _, source := range kinds {
		v := comparisonView{A: Plain(agents[0], nameBound), B: Plain(agents[1], nameBound)}
		if len(kinds) > 1 {
			v.Source = sourceName(source)
		}
		for _, m := range leaderMetrics {
			p := evaluator.Compare(of[agents[0]], of[agents[1]], m, source)
			if p.Cases == 0 {
				continue
			}
			scale := 1.0
			if unbounded(m) {
				if scale = max(-p.Low, p.High, -p.Difference, p.Difference); scale == 0 {
					scale = 1
				}
			}
			at := func(v float64) float64 { return 50 + 50*v/scale }
			sign := func(v float64) string {
				if v > 0 {
					return "+" + number(m, v)
				}
				if v < 0 {
					return "−" + number(m, -v)
				}
				return number(m, 0)
			}
			row := pairView{
				Metric: metricView{string(m), meaning[m]}, A: number(m, p.MeanA), B: number(m, p.MeanB),
				Cell: cellView{
					Mean: sign(p.Difference), Interval: sign(p.Low) + " to " + sign(p.High),
					Low: at(p.Low), Width: at(p.High) - at(p.Low), At: at(p.Difference), Zero: 50,
				},
				SignP: fmt.Sprintf("%.3f", p.SignP), PermutationP: fmt.Sprintf("%.3f", p.PermutationP), Cases: count(p.Cases),
			}
			if p.OnlyA+p.OnlyB > 0 {
				row.Cases += fmt.Sprintf(" (left out: %s of the one's, %s of the other's)", count(p.OnlyA), count(p.OnlyB))
			}
			v.Rows = append(v.Rows, row)
		}
		if len(v.Rows) > 0 {
			out = append(out, v)
		}
	}
	return out
}

// reasonView says why marks are missing, and in how many episodes.
type reasonView struct{ Agent, Reason, Metrics, Episodes string }

// reasons are why metrics of the leaderboard weren't scored.
func reasons(scores []*evaluator.Score) (out []reasonView, more string) {
	type key struct{ agent, reason string }
	metrics := map[key]map[evaluator.Metric]int{}
	for _, s := range scores {
		for _, m := range leaderMetrics {
			if mark, ok := s.Marks[m]; ok && !mark.Scored() {
				k := key{s.Agent, mark.Unscored}
				if metrics[k] == nil {
					metrics[k] = map[evaluator.Metric]int{}
				}
				metrics[k][m]++
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(metrics), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.agent, b.agent), cmp.Compare(a.reason, b.reason))
	})
	for i, k := range keys {
		if i == maxReasons {
			more = count(len(keys)-i) + " more reasons are left out"
			break
		}
		names, most := "", 0
		for _, m := range leaderMetrics {
			if n := metrics[k][m]; n > 0 {
				if names != "" {
					names += ", "
				}
				names += string(m)
				most = max(most, n)
			}
		}
		out = append(out, reasonView{Plain(k.agent, nameBound), Plain(k.reason, textBound), names, count(most)})
	}
	return out, more
}
