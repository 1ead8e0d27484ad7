package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Lines tells of a run in lines of text: each call once it is over, and each milestone when
// it lights up.
type Lines struct {
	out    io.Writer
	colour bool
	told   map[string]*told
	err    error
}

// told is what was told of an episode.
type told struct {
	call       int
	milestones map[string]bool
	ended      bool
}

// NewLines writes to out, with the terminal's colours if it has any.
func NewLines(out io.Writer, colour bool) *Lines {
	return &Lines{out: out, colour: colour, told: map[string]*told{}}
}

// The colours, by ECMA-48's numbers.
const (
	green, yellow, red, faint = "32", "33", "31", "2"
)

func (l *Lines) paint(text, colour string) string {
	if !l.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (l *Lines) line(e *Live, text string) {
	name := e.Case
	if e.Attempt > 1 {
		name += "/" + strconv.Itoa(e.Attempt)
	}
	if _, err := fmt.Fprintf(l.out, "%s  %s\n", l.paint(name, faint), text); err != nil && l.err == nil {
		l.err = err
	}
}

// Tell tells what is new of an episode. The error is the writer's first.
func (l *Lines) Tell(e *Live) error {
	t := l.told[e.ID]
	if t == nil {
		t = &told{milestones: map[string]bool{}}
		l.told[e.ID] = t
		l.line(e, "began")
	}
	if t.ended {
		return l.err
	}
	for _, c := range e.Calls {
		if c.Index <= t.call || !c.Settled {
			continue
		}
		if c.Index > t.call+1 && t.call+1 < e.Calls[0].Index {
			l.line(e, plural(c.Index-t.call-1, "call")+" not shown")
		}
		t.call = c.Index
		l.line(e, l.call(c))
		l.light(e, t, e.established(c.Index))
	}
	for _, m := range e.Milestones { // by calls that were told before, or are out of the list
		if m.Call > 0 && m.Call <= t.call {
			l.light(e, t, []LiveMilestone{m})
		}
	}
	if e.Ended != "" {
		for _, m := range e.Milestones {
			if m.Call == 0 && t.milestones[m.Group+"\x00"+m.Fact] {
				l.line(e, l.paint("○ not established after all: "+m.Fact+" (it was answered, and not printed to the agent)", yellow))
			}
		}
		t.ended = true
		l.line(e, l.end(e))
	}
	return l.err
}

func (l *Lines) call(c LiveCall) string {
	colour := ""
	text := fmt.Sprintf("%3d %9s  %s", c.Index, c.Since, c.Command)
	if c.Class != "delivered" && c.Class != "" {
		text += "  [" + c.Class + "]"
		colour = yellow
		if c.Class == "not-found" {
			colour = ""
		}
	}
	text = l.paint(text, colour)
	if len(c.Uses) > 0 {
		text += "  " + l.paint(strings.Join(c.Uses, "; "), faint)
	}
	return text
}

func (l *Lines) light(e *Live, t *told, milestones []LiveMilestone) {
	for _, m := range milestones {
		key := m.Group + "\x00" + m.Fact
		if t.milestones[key] {
			continue
		}
		t.milestones[key] = true
		l.line(e, l.paint("● "+m.Fact, green)+l.paint(" ("+m.Group+")", faint))
	}
}

func (l *Lines) end(e *Live) string {
	parts := []string{e.Ended, plural(e.Count, "call")}
	if e.Groups > 0 {
		parts = append(parts, fmt.Sprintf("evidence %d of %d", e.Established, e.Groups))
	}
	text := strings.Join(parts, ", ")
	switch e.Verdict {
	case "right":
		text += ", " + l.paint("answer right", green)
	case "wrong":
		text += ", " + l.paint("answer wrong", red)
	default:
		text += ", " + e.Verdict
	}
	if missing := e.missing(); len(missing) > 0 {
		text += "; missing: " + strings.Join(missing, ", ")
	}
	return text
}

// Totals tells of the whole run.
func (l *Lines) Totals(t Totals) error {
	_, err := fmt.Fprintf(l.out, "%s: %d of %s ended, %d right, %d with complete evidence\n", t.Over, t.Ended, plural(t.Planned, "episode"), t.Right, t.Closed)
	return err
}
