package report

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubecase/kubecase/evaluator"
)

func agentFigure(name string, jra, ecr float64) figure {
	return figure{source: evaluator.Authored, row: evaluator.Row{
		Agent: name, Metrics: map[evaluator.Metric]evaluator.Summary{evaluator.JRA: {Mean: jra, Low: jra, High: jra, Scored: 1, Cases: 1}},
		Process: map[evaluator.Source]map[evaluator.Metric]evaluator.Summary{evaluator.Authored: {evaluator.ECR: {Mean: ecr, Low: ecr, High: ecr, Scored: 1, Cases: 1}}},
	}}
}

// TestPlotLabels: no label covers another one or leaves the drawing, however close the points are.
func TestPlotLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var all []figure
		for i := range 1 + r.IntN(25) {
			all = append(all, agentFigure(fmt.Sprintf("agent-number-%d", i), float64(r.IntN(5))/4, float64(r.IntN(5))/4))
		}
		v := plot(all, evaluator.Authored)
		var boxes []rect
		labelled := 0
		for _, p := range v.Points {
			if p.Label == "" {
				continue
			}
			labelled++
			box := rect{p.LabelX, p.LabelY - 12, float64(len(p.Label)) * labelWide, 14}
			if box.x < 0 || box.y < 0 || box.x+box.w > v.Width || box.y+box.h > v.Height {
				t.Errorf("%s leaves the drawing", p.Label)
			}
			if overlaps(box, boxes) {
				t.Errorf("%s covers another label", p.Label)
			}
			boxes = append(boxes, box)
		}
		if labelled < min(len(all), 8) {
			t.Errorf("only %d of %d agents have a label", labelled, len(all))
		}
	}
}

func TestPlotOfNothing(t *testing.T) {
	if v := plot([]figure{agentFigure("a", 1, 1)}, evaluator.Derived); v != nil {
		t.Errorf("authored figures are in the plot of derived ones: %+v", v)
	}
}
