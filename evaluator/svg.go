package evaluator

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
)

// The drawing's measures, in pixels. Texts are measured by columns: a column of
// the 13 px font is at most that wide on average.
const (
	svgColumns  = 36 // of a fact's text
	svgColumn   = 7.4
	svgLine     = 18
	svgPad      = 12
	svgGapX     = 28
	svgGapY     = 44
	svgMargin   = 12
	svgBoxWidth = svgColumns*svgColumn + 2*svgPad
	// svgSkip is how wide a line is that passes a layer on its way.
	svgSkip = 20
)

// SVGStyle is the style sheet in each drawing. It colours for light and dark
// pages; a page that chooses itself sets the class kc-light or kc-dark on an element
// around it. A page with many drawings may leave the element out and have it once.
const SVGStyle = `.kc-graph{--kc-ink:#1c2430;--kc-line:#6b7686;--kc-box:#ffffff;--kc-missing:#f3f4f6;--kc-established:#fff0bf;--kc-grounded:#d2f0d5;font:13px/18px ui-sans-serif,system-ui,sans-serif}
@media (prefers-color-scheme:dark){.kc-graph{--kc-ink:#e6eaf0;--kc-line:#93a0b2;--kc-box:#1b212b;--kc-missing:#262c36;--kc-established:#574714;--kc-grounded:#1d4a27}}
.kc-light .kc-graph{--kc-ink:#1c2430;--kc-line:#6b7686;--kc-box:#ffffff;--kc-missing:#f3f4f6;--kc-established:#fff0bf;--kc-grounded:#d2f0d5}
.kc-dark .kc-graph{--kc-ink:#e6eaf0;--kc-line:#93a0b2;--kc-box:#1b212b;--kc-missing:#262c36;--kc-established:#574714;--kc-grounded:#1d4a27}
.kc-graph text{fill:var(--kc-ink)}.kc-graph .kc-title{font-weight:600}
.kc-graph rect{fill:var(--kc-box);stroke:var(--kc-line)}.kc-graph .kc-missing rect{fill:var(--kc-missing);stroke-dasharray:5 4}
.kc-graph .kc-established rect{fill:var(--kc-established)}.kc-graph .kc-grounded rect{fill:var(--kc-grounded)}
.kc-graph path{fill:none;stroke:var(--kc-line);stroke-width:1.5}.kc-graph .kc-arrow{fill:var(--kc-line);stroke:none}
`

// node is a group's box, or a point where a line passes a layer (group -1).
type node struct {
	group         int
	layer, place  int
	x, y          float64 // of its upper left corner
	width, height float64
	lines         []svgText
	up, down      []*node
}

type svgText struct {
	text, class string
	indent      float64
}

// SVG draws the graph, prerequisites above what requires them. States may be
// nil. The drawing is a single element without outside references, and can be
// put into a page as it is.
func (g *Graph) SVG(w io.Writer, states map[string]State) error {
	layers, paths := g.layout(states)
	width, height := 0.0, 0.0
	for _, layer := range layers {
		for _, n := range layer {
			width, height = max(width, n.x+n.width), max(height, n.y+n.height)
		}
	}
	width, height = width+svgMargin, height+svgMargin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="kc-graph" role="img" aria-label="Evidence graph" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n<style>%s</style>\n", width, height, width, height, SVGStyle)
	for _, path := range paths {
		first, last := path[0], path[len(path)-1]
		x, y := first.x+first.width/2, first.y+first.height
		fmt.Fprintf(&b, `<path d="M%.1f %.1f`, x, y)
		for i, n := range path[1:] {
			nx, ny := n.x+n.width/2, n.y
			if i == len(path)-2 {
				ny -= 7 // room for the arrow's head
			}
			middle := (y + ny) / 2
			fmt.Fprintf(&b, "C%.1f %.1f %.1f %.1f %.1f %.1f", x, middle, nx, middle, nx, ny)
			x, y = nx, ny
			if n.group < 0 {
				y += n.height
				fmt.Fprintf(&b, "V%.1f", y)
			}
		}
		x, y = last.x+last.width/2, last.y
		fmt.Fprintf(&b, `"/><path class="kc-arrow" d="M%.1f %.1fl-5 -8h10z"/>`+"\n", x, y)
	}
	for _, layer := range layers {
		for _, n := range layer {
			if n.group >= 0 {
				g.box(&b, n, states)
			}
		}
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func (g *Graph) box(b *bytes.Buffer, n *node, states map[string]State) {
	group := g.Groups[n.group]
	b.WriteString(`<g class="kc-group`)
	if s := group.state(states); stateFills[s] != "" {
		b.WriteString(" kc-" + string(s))
	}
	b.WriteString(`" data-group="`)
	escapeXML(b, group.ID)
	fmt.Fprintf(b, `"><rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="8"/>`, n.x, n.y, n.width, n.height)
	for i, line := range n.lines {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f"`, n.x+svgPad+line.indent, n.y+svgPad+float64(i)*svgLine+13)
		if line.class != "" {
			fmt.Fprintf(b, ` class="%s"`, line.class)
		}
		b.WriteString(">")
		escapeXML(b, line.text)
		b.WriteString("</text>")
	}
	b.WriteString("</g>\n")
}

func escapeXML(b *bytes.Buffer, s string) {
	_ = xml.EscapeText(b, []byte(s)) // a buffer's writes don't fail
}

// layout places the groups in layers, each group below all that it requires
// (the longest path decides), orders the layers to avoid crossings by the
// barycenter rule of Sugiyama, Tagawa and Toda (1981), and centres them.
func (g *Graph) layout(states map[string]State) (layers [][]*node, paths [][]*node) {
	boxes := make([]*node, len(g.Groups))
	requires := make([][]int, len(g.Groups))
	for _, e := range g.edges() {
		requires[e[1]] = append(requires[e[1]], e[0])
	}
	for _, k := range g.plan.order {
		n := &node{group: k, width: svgBoxWidth}
		for _, r := range requires[k] {
			n.layer = max(n.layer, boxes[r].layer+1)
		}
		group := g.Groups[k]
		for _, text := range wrap(group.title(), svgColumns-2) {
			n.lines = append(n.lines, svgText{text: text, class: "kc-title"})
		}
		for _, m := range group.Milestones {
			mark := stateMarks[states[m.ID]]
			if mark == "" {
				mark = "• " // where one fact ends and the next begins
			}
			for i, text := range wrap(m.Fact, svgColumns-2) {
				line := svgText{text: mark + text}
				if i > 0 {
					line = svgText{text: text, indent: float64(len([]rune(mark))) * svgColumn}
				}
				n.lines = append(n.lines, line)
			}
		}
		n.height = float64(len(n.lines))*svgLine + 2*svgPad
		boxes[k] = n
		for len(layers) <= n.layer {
			layers = append(layers, nil)
		}
		layers[n.layer] = append(layers[n.layer], n)
	}
	for k := range g.Groups {
		for _, r := range requires[k] {
			path := []*node{boxes[r]}
			for layer := boxes[r].layer + 1; layer < boxes[k].layer; layer++ {
				skip := &node{group: -1, layer: layer, width: svgSkip}
				layers[layer] = append(layers[layer], skip)
				path = append(path, skip)
			}
			path = append(path, boxes[k])
			for i := range len(path) - 1 {
				path[i].down = append(path[i].down, path[i+1])
				path[i+1].up = append(path[i+1].up, path[i])
			}
			paths = append(paths, path)
		}
	}
	sortLayers(layers)
	widest := 0.0
	widths := make([]float64, len(layers))
	for i, layer := range layers {
		for _, n := range layer {
			widths[i] += n.width + svgGapX
		}
		widths[i] -= svgGapX
		widest = max(widest, widths[i])
	}
	y := float64(svgMargin)
	for i, layer := range layers {
		x := svgMargin + (widest-widths[i])/2
		height := 0.0
		for _, n := range layer {
			n.x, n.y = x, y
			x += n.width + svgGapX
			height = max(height, n.height)
		}
		for _, n := range layer {
			if n.group < 0 {
				n.height = height
			}
		}
		y += height + svgGapY
	}
	return layers, paths
}

func sortLayers(layers [][]*node) {
	number := func(layer []*node) {
		for i, n := range layer {
			n.place = i
		}
	}
	for _, layer := range layers {
		number(layer)
	}
	sortBy := func(layer []*node, neighbours func(*node) []*node) {
		center := map[*node]float64{}
		for _, n := range layer {
			center[n] = float64(n.place)
			if near := neighbours(n); len(near) > 0 {
				sum := 0.0
				for _, m := range near {
					sum += float64(m.place)
				}
				center[n] = sum / float64(len(near))
			}
		}
		slices.SortStableFunc(layer, func(a, b *node) int { return cmp.Compare(center[a], center[b]) })
		number(layer)
	}
	for range 4 {
		for _, layer := range layers {
			sortBy(layer, func(n *node) []*node { return n.up })
		}
		for _, layer := range slices.Backward(layers) {
			sortBy(layer, func(n *node) []*node { return n.down })
		}
	}
}
