package evaluator

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDrawings draws the worked graph in every format, after the calls of example 3.
func TestDrawings(t *testing.T) {
	g := graphOf(t, worked)
	g.Groups[1].Title = `B & "friends" <two>`
	states := Scan(g, callsOf("a e b f")).States()
	if diff := cmp.Diff(map[string]State{"m1": Grounded, "m2": Grounded, "m3": Missing, "m4": Seen, "m5": Seen, "m6": Missing}, states); diff != "" {
		t.Fatalf("states (-want +got):\n%s", diff)
	}
	for name, test := range map[string]struct {
		draw func(io.Writer, map[string]State) error
		want []string
	}{
		"DOT":     {g.DOT, []string{"digraph evidence {", `g1 [label="B & \"friends\" <two>\n● m2\l○ m3\l", fillcolor="#d3f0d6"]`, "g0 -> g1;", "g1 -> g2;", "g2 -> g3;", "g2 -> g4;"}},
		"Mermaid": {g.Mermaid, []string{"flowchart TD", `subgraph g1["B #amp; #quot;friends#quot; #lt;two#gt;"]`, `g2m0["◐ m4"]:::established`, "g2 --> g4", "classDef grounded"}},
		"SVG":     {g.SVG, []string{"B &amp; &#34;friends&#34; &lt;two&gt;", `class="kc-group kc-grounded" data-group="A"`, `class="kc-group kc-established" data-group="C"`, `class="kc-group kc-missing" data-group="E"`, "prefers-color-scheme:dark"}},
	} {
		var with, again, without bytes.Buffer
		if err := errors.Join(test.draw(&with, states), test.draw(&again, states), test.draw(&without, nil)); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(with.String(), want) {
				t.Errorf("%s: %q is not in:\n%s", name, want, with.String())
			}
		}
		if with.String() != again.String() {
			t.Errorf("%s differs when it is drawn again", name)
		}
		if strings.ContainsAny(without.String(), "●◐○") {
			t.Errorf("%s shows states that it was not given", name)
		}
		if err := test.draw(failing{}, states); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s to a closed pipe: %v", name, err)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestSVGLayout wants well-formed XML, no boxes over one another, and every
// prerequisite above what requires it, also with lines that skip layers.
func TestSVGLayout(t *testing.T) {
	g := graphOf(t, "A=m1:a; B=m2:b <A; C=m3:c <B; D=m4:d <A,C; E=m5:e <A; F=m6:f <D,E")
	g.Groups[2].Milestones[0].Fact = strings.Repeat("a long fact ", 20) + strings.Repeat("x", 200) + "長い事実\x01<b>"
	layers, paths := g.layout(nil)
	var all []*node
	for _, layer := range layers {
		all = append(all, layer...)
	}
	for i, n := range all {
		for _, m := range all[:i] {
			if n.x < m.x+m.width && m.x < n.x+n.width && n.y < m.y+m.height && m.y < n.y+n.height {
				t.Errorf("boxes of the groups %d and %d overlap", n.group, m.group)
			}
		}
	}
	if len(paths) != 7 {
		t.Errorf("%d lines, want 7", len(paths))
	}
	for _, path := range paths {
		for i := range len(path) - 1 {
			if path[i].y+path[i].height >= path[i+1].y {
				t.Errorf("the line from %d to %d doesn't go down", path[0].group, path[len(path)-1].group)
			}
		}
	}
	var b bytes.Buffer
	if err := g.SVG(&b, nil); err != nil {
		t.Fatal(err)
	}
	boxes := 0
	decoder := xml.NewDecoder(&b)
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			boxes++
		}
	}
	if boxes != 6 {
		t.Errorf("%d boxes, want 6", boxes)
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    []string
	}{
		{"", 5, nil},
		{"one two three", 7, []string{"one two", "three"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"a abcdef", 4, []string{"a", "abcd", "ef"}},
		{"長い事実", 4, []string{"長い", "事実"}},
	} {
		if diff := cmp.Diff(test.want, wrap(test.text, test.columns)); diff != "" {
			t.Errorf("%q in %d columns (-want +got):\n%s", test.text, test.columns, diff)
		}
	}
}
