package evaluator

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// State is what became of a milestone, for drawings.
type State string

// The states.
const (
	// Missing: never established.
	Missing State = "missing"
	// Seen: established, but its group was not grounded through it.
	Seen State = "established"
	// Grounded: its group was grounded through it.
	Grounded State = "grounded"
)

// States gives each milestone's state by its id.
func (p *Process) States() map[string]State {
	states := make(map[string]State, len(p.Milestones))
	for _, m := range p.Milestones {
		switch {
		case m.Grounded > 0:
			states[m.ID] = Grounded
		case m.Established > 0:
			states[m.ID] = Seen
		default:
			states[m.ID] = Missing
		}
	}
	return states
}

// stateMarks show a state without colour.
var stateMarks = map[State]string{Missing: "○ ", Seen: "◐ ", Grounded: "● "}

// state is that of a group: the best of its milestones.
func (g *Group) state(states map[string]State) State {
	best := State("")
	for _, m := range g.Milestones {
		switch s := states[m.ID]; {
		case s == Grounded, s == Seen && best != Grounded, s == Missing && best == "":
			best = s
		}
	}
	return best
}

func (g *Group) title() string {
	if g.Title != "" {
		return g.Title
	}
	return g.ID
}

// edges are the immediate prerequisites, as pairs of group numbers.
func (g *Graph) edges() [][2]int {
	number := map[string]int{}
	for k, group := range g.Groups {
		number[group.ID] = k
	}
	var out [][2]int
	for k, group := range g.Groups {
		for _, r := range group.Requires {
			out = append(out, [2]int{number[r.ID], k})
		}
	}
	return out
}

var stateFills = map[State]string{Missing: "#f6f6f6", Seen: "#fff1c2", Grounded: "#d3f0d6"}

// DOT writes the graph in Graphviz's language. States may be nil.
func (g *Graph) DOT(w io.Writer, states map[string]State) error {
	var b bytes.Buffer
	b.WriteString("digraph evidence {\n  rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", fontname=\"sans-serif\"];\n")
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ", "\x00", "").Replace
	for k, group := range g.Groups {
		label := escape(group.title()) + `\n`
		for _, m := range group.Milestones {
			for i, line := range wrap(stateMarks[states[m.ID]]+m.Fact, 44) {
				if i > 0 {
					line = "   " + line
				}
				label += escape(line) + `\l`
			}
		}
		fmt.Fprintf(&b, "  g%d [label=\"%s\"", k, label)
		if fill := stateFills[group.state(states)]; fill != "" {
			fmt.Fprintf(&b, ", fillcolor=%q", fill)
		}
		b.WriteString("];\n")
	}
	for _, e := range g.edges() {
		fmt.Fprintf(&b, "  g%d -> g%d;\n", e[0], e[1])
	}
	b.WriteString("}\n")
	_, err := w.Write(b.Bytes())
	return err
}

// Mermaid writes the graph as a Mermaid flowchart. States may be nil.
func (g *Graph) Mermaid(w io.Writer, states map[string]State) error {
	var b bytes.Buffer
	b.WriteString("flowchart TD\n")
	// Mermaid's own entities; its texts are HTML later.
	escape := strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", "\n", " ", "\r", " ", "\x00", "").Replace
	for k, group := range g.Groups {
		fmt.Fprintf(&b, "  subgraph g%d[\"%s\"]\n", k, escape(group.title()))
		for n, m := range group.Milestones {
			fmt.Fprintf(&b, "    g%dm%d[\"%s\"]", k, n, escape(stateMarks[states[m.ID]]+m.Fact))
			if s := states[m.ID]; stateFills[s] != "" {
				b.WriteString(":::" + string(s))
			}
			b.WriteString("\n")
		}
		b.WriteString("  end\n")
	}
	for _, e := range g.edges() {
		fmt.Fprintf(&b, "  g%d --> g%d\n", e[0], e[1])
	}
	if len(states) > 0 {
		for _, s := range []State{Missing, Seen, Grounded} {
			fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:#555,color:#111\n", s, stateFills[s])
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// wrap breaks a text into lines of at most so many columns, at spaces where it can.
func wrap(s string, columns int) []string {
	var lines []string
	line, width := "", 0
	for _, word := range strings.Fields(s) {
		w := columnsOf(word)
		for w > columns { // no space to break at
			if line != "" {
				lines = append(lines, line)
				line, width = "", 0
			}
			cut, n := 0, 0
			for i, r := range word {
				if n += runeColumns(r); n > columns {
					cut = i
					break
				}
			}
			lines = append(lines, word[:cut])
			word = word[cut:]
			w = columnsOf(word)
		}
		switch {
		case line == "":
			line, width = word, w
		case width+1+w <= columns:
			line, width = line+" "+word, width+1+w
		default:
			lines = append(lines, line)
			line, width = word, w
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

func columnsOf(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns is 2 for the scripts whose letters are wide.
func runeColumns(r rune) int {
	if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd) {
		return 2
	}
	return 1
}
