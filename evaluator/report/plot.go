package report

import (
	"fmt"

	"github.com/kubecase/kubecase/evaluator"
)

// The plot's measures, in pixels.
const (
	plotSide   = 284.0 // of the square from 0 to 1
	plotLeft   = 52.0
	plotTop    = 14.0
	plotRight  = 20.0
	plotBottom = 50.0
	labelLine  = 16.0
	labelWide  = 7.2 // a character of the 13 px font, on average
	labelChars = 18
	maxPoints  = 60
)

// plotView is outcome against evidence, one point per agent.
type plotView struct {
	Source        string
	Width, Height float64
	Left, Top     float64
	Right, Bottom float64
	Ticks         []tickView
	Points        []pointView
	More          string
}

type tickView struct {
	Label string
	X, Y  float64
}

// pointView is an agent: a point and the whiskers of its intervals.
type pointView struct {
	Number                int
	Name, Text            string
	X, Y                  float64
	Left, Right, Up, Down float64
	// Label is empty where no place was free; a line leads from the point to a label
	// that isn't next to it.
	Label          string
	LabelX, LabelY float64
	Leader         bool
	LeadX, LeadY   float64
	Hue            int
}

type rect struct{ x, y, w, h float64 }

func (r rect) meets(o rect) bool {
	return r.x < o.x+o.w && o.x < r.x+r.w && r.y < o.y+o.h && o.y < r.y+r.h
}

// plot places the agents of one source's leaderboard; nil without any.
func plot(all []figure, source evaluator.Source) *plotView {
	v := &plotView{
		Source: sourceName(source), Width: plotLeft + plotSide + plotRight, Height: plotTop + plotSide + plotBottom,
		Left: plotLeft, Top: plotTop, Right: plotLeft + plotSide, Bottom: plotTop + plotSide,
	}
	x := func(s float64) float64 { return plotLeft + plotSide*s }
	y := func(s float64) float64 { return plotTop + plotSide*(1-s) }
	for i := range 5 {
		s := float64(i) / 4
		v.Ticks = append(v.Ticks, tickView{Label: fmt.Sprintf("%.2f", s), X: x(s), Y: y(s)})
	}
	left := 0
	for _, f := range all {
		jra, ok := f.summary(evaluator.JRA)
		ecr, has := f.summary(evaluator.ECR)
		if f.source != source || !ok || !has {
			continue
		}
		if len(v.Points) == maxPoints {
			left++
			continue
		}
		name := Plain(f.row.Agent, labelChars)
		if name == "" {
			name = "(no name)"
		}
		v.Points = append(v.Points, pointView{
			Number: len(v.Points) + 1, Name: name, Hue: len(v.Points) % 6,
			Text: fmt.Sprintf("%s: JRA %.2f (%.2f–%.2f), ECR %.2f (%.2f–%.2f)", Plain(f.row.Agent, nameBound), jra.Mean, jra.Low, jra.High, ecr.Mean, ecr.Low, ecr.High),
			X:    x(ecr.Mean), Y: y(jra.Mean), Left: x(ecr.Low), Right: x(ecr.High), Up: y(jra.High), Down: y(jra.Low),
		})
	}
	if len(v.Points) == 0 {
		return nil
	}
	if left > 0 {
		v.More = count(left) + " more agents are left out"
	}
	v.label()
	return v
}

// label gives each point the first free place around it, nearest first; a label never
// covers a point, another label, or the frame.
func (v *plotView) label() {
	var taken []rect
	for _, p := range v.Points {
		taken = append(taken, rect{p.X - 6, p.Y - 6, 12, 12})
	}
	for i := range v.Points {
		p := &v.Points[i]
		w := float64(len([]rune(p.Name)))*labelWide + 4
	search:
		for _, away := range []float64{10, 24, 42, 64, 90, 120} {
			for _, to := range [][2]float64{{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {0.8, -0.8}, {-0.8, -0.8}, {0.8, 0.8}, {-0.8, 0.8}} {
				// The middle of the label's nearest side is this far from the point.
				cx, cy := p.X+to[0]*away, p.Y+to[1]*away
				box := rect{cx - w/2, cy - labelLine/2, w, labelLine}
				switch {
				case to[0] > 0:
					box.x = cx
				case to[0] < 0:
					box.x = cx - w
				case to[1] < 0:
					box.y = cy - labelLine + 2
				default:
					box.y = cy - 2
				}
				if box.x < v.Left+2 || box.x+box.w > v.Width-2 || box.y < 1 || box.y+box.h > v.Bottom-1 || overlaps(box, taken) {
					continue
				}
				p.Label, p.LabelX, p.LabelY = p.Name, box.x+2, box.y+labelLine-4
				p.Leader = away > 10
				p.LeadX, p.LeadY = min(max(p.X, box.x), box.x+box.w), min(max(p.Y, box.y), box.y+box.h)
				taken = append(taken, box)
				break search
			}
		}
	}
}

func overlaps(box rect, taken []rect) bool {
	for _, t := range taken {
		if box.meets(t) {
			return true
		}
	}
	return false
}
