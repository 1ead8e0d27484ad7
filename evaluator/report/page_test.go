package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/report"
)

func write(t testing.TB, p *report.Page) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteHTML(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parse(t testing.TB, page []byte) *html.Node {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// all are the elements below n that fit a tag, or .class, or #id.
func all(n *html.Node, selector string) (out []*html.Node) {
	for d := range n.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		switch {
		case selector[0] == '.' && slices.Contains(strings.Fields(attr(d, "class")), selector[1:]),
			selector[0] == '#' && attr(d, "id") == selector[1:],
			d.Data == selector:
			out = append(out, d)
		}
	}
	return out
}

func one(t testing.TB, n *html.Node, selector string) *html.Node {
	t.Helper()
	found := all(n, selector)
	if len(found) != 1 {
		t.Fatalf("there are %d of %s, not one", len(found), selector)
	}
	return found[0]
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text is what a person reads, with single spaces.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "style" && d.Parent.Data != "title" {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// cells are a table's body as text.
func cells(table *html.Node) (out [][]string) {
	for _, body := range all(table, "tbody") {
		for _, tr := range all(body, "tr") {
			var row []string
			for d := range tr.ChildNodes() {
				if d.Type == html.ElementNode {
					row = append(row, text(d))
				}
			}
			out = append(out, row)
		}
	}
	return out
}

// TestPageFigures: the values are worked out by hand from the definitions.
func TestPageFigures(t *testing.T) {
	p := samplePage(t)
	for i := range p.Episodes {
		p.Episodes[i].Score.Agent, _, _ = strings.Cut(p.Episodes[i].Score.Agent, " ")
	}
	root := parse(t, write(t, p))
	leaders := all(one(t, root, "#leaderboard"), "table")[0]
	want := [][]string{
		{"careful", "2", "1.00 1.00–1.00", "1.00 1.00–1.00", "1.00 1.00–1.00", "1.00 1.00–1.00", "1.00 1.00–1.00", "1.00 1.00–1.00", "0.86 0.71–1.00", "0.07 0.00–0.14", "6.0 5.0–7.0"},
		{"hasty", "2", "0.00 0.00–0.00", "0.00 0.00–0.00", "0.00 0.00–0.00", "0.20 0.00–0.40", "0.00 0.00–0.00", "0.00 0.00–0.00", "0.00 0.00–0.00", "0.12 0.00–0.25", "2.5 1.0–4.0"},
	}
	if d := cmp.Diff(want, cells(leaders)); d != "" {
		t.Errorf("leaderboard (-want +got):\n%s", d)
	}
	// The interval of hasty's MC is drawn from 0 to 0.4, its mean at 0.2, of 100.
	bar := all(all(leaders, "tr")[2], ".kc-span")[3]
	if got, want := attr(bar, "x")+" "+attr(bar, "width"), "0.00 40.00"; got != want {
		t.Errorf("the bar of MC is at %s, not %s", got, want)
	}
	compared := cells(all(one(t, root, "#comparison"), "table")[0])
	if d := cmp.Diff([]string{"MC", "1.00", "0.20", "+0.80 +0.60 to +1.00", "0.500", "0.500", "2"}, compared[3]); d != "" {
		t.Errorf("comparison of MC (-want +got):\n%s", d)
	}
	for _, title := range []string{"By category", "By difficulty", "By system", "Scheduling", "Easy", "shop"} {
		if !strings.Contains(text(one(t, root, "#breakdown")), title) {
			t.Errorf("the breakdown lacks %q", title)
		}
	}
	missed := cells(one(t, one(t, root, "#missed"), "table"))
	if d := cmp.Diff([]string{"cart", "The shop answers with errors", "1 of 2", "The front end logs that requests to the cart fail."}, missed[0]); d != "" {
		t.Errorf("missed (-want +got):\n%s", d)
	}
	// careful has JRA = ECR = 1, the upper right corner; hasty the lower left.
	points := all(one(t, one(t, root, "#plot"), ".kc-plot"), "circle")
	if len(points) != 2 || attr(points[0], "cx") != "336.0" || attr(points[0], "cy") != "14.0" || attr(points[1], "cx") != "52.0" || attr(points[1], "cy") != "298.0" {
		t.Errorf("the points are at the wrong places: %v", points)
	}
}

func TestPageEpisode(t *testing.T) {
	root := parse(t, write(t, samplePage(t)))
	episodes := all(root, ".kc-episode")
	if len(episodes) != 4 {
		t.Fatalf("%d episodes, not 4", len(episodes))
	}
	tables := all(episodes[1], "table")
	if d := cmp.Diff([][]string{
		{"component", "deployment/cart", "deployment/cart", "right"},
		{"fault", "NodeSelectorMismatch", "NodeSelectorMismatch", "right"},
		{"layer", "Virtualization", "Virtualization", "right"},
	}, cells(tables[0])); d != "" {
		t.Errorf("found (-want +got):\n%s", d)
	}
	// The pods were seen before the symptom was known, and again after.
	milestones := cells(tables[1])
	if d := cmp.Diff([]string{"● grounded", "The pod of cart is Pending. The cart doesn't run", "call 1: kubectl get pods -n shop grounded at call 3: kubectl get pods -n shop", "cart-pending"}, milestones[1]); d != "" {
		t.Errorf("milestone (-want +got):\n%s", d)
	}
	if got := milestones[2][0]; got != "○ not needed" {
		t.Errorf("the interchangeable fact is %q", got)
	}
	calls := cells(tables[2])
	if d := cmp.Diff([][]string{
		{"3", "+3.4 s", "kubectl get pods -n shop T1 type=pods namespace=shop output=table", "delivered", "credited", "cart-pending, others-running"},
		{"4", "+4.9 s", "kubectl get pods -n shop T1 type=pods namespace=shop output=table", "delivered", "redundant", "cart-pending, others-running"},
		{"5", "+6.4 s", "kubectl describe pod -n shop cart-1 T2 type=pods namespace=shop name=cart-1 established: The scheduler finds no node that matches the pod's node selector.", "delivered", "credited", "cart-events"},
	}, calls[2:5]); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	// The hasty agent's drawing: two groups seen out of order, three missing.
	states := map[string]string{}
	for _, g := range all(one(t, episodes[2], ".kc-graph"), ".kc-group") {
		states[attr(g, "data-group")] = strings.TrimPrefix(attr(g, "class"), "kc-group ")
	}
	if d := cmp.Diff(map[string]string{
		"symptom": "kc-missing", "pending": "kc-established", "others": "kc-established", "scheduling": "kc-missing", "cause": "kc-missing",
	}, states); d != "" {
		t.Errorf("states (-want +got):\n%s", d)
	}
	var missing []string
	for _, li := range all(one(t, episodes[2], ".kc-missing-list"), "li") {
		name, _, _ := strings.Cut(text(li), ":")
		missing = append(missing, name)
	}
	if d := cmp.Diff([]string{"The shop answers with errors", "It can't be scheduled", "The selector fits no node"}, missing); d != "" {
		t.Errorf("missing (-want +got):\n%s", d)
	}
	if got := text(all(episodes[2], ".kc-state")[1]); got != "◐ established, out of order" {
		t.Errorf("a fact seen too early is %q", got)
	}
	if got := text(episodes[3]); !strings.Contains(got, "No answer could be read.") {
		t.Errorf("an episode without an answer doesn't say so: %s", got)
	}
}

// faults are what a page must not have: anything that runs, or that comes from elsewhere.
func faults(root *html.Node) (out []string) {
	for d := range root.Descendants() {
		if d.Type == html.CommentNode {
			out = append(out, "a comment")
		}
		if d.Type != html.ElementNode {
			continue
		}
		switch d.Data {
		case "script", "link", "img", "iframe", "object", "embed", "base", "form", "input", "button", "foreignObject", "use", "image", "animate", "set", "template":
			out = append(out, "an element "+d.Data)
		}
		for _, a := range d.Attr {
			name := strings.ToLower(a.Key)
			switch {
			case strings.HasPrefix(name, "on"), name == "src", name == "style", name == "srcset", name == "action":
				out = append(out, "an attribute "+name)
			case (name == "href" || name == "xlink:href") && !strings.HasPrefix(a.Val, "#"):
				out = append(out, "a reference to "+a.Val)
			}
		}
	}
	return out
}

func TestPageIsSelfContained(t *testing.T) {
	page := write(t, samplePage(t))
	root := parse(t, page)
	for _, fault := range faults(root) {
		t.Errorf("the page has %s", fault)
	}
	style := one(t, root, "style")
	if strings.Contains(style.FirstChild.Data, "url(") || strings.Contains(style.FirstChild.Data, "@import") {
		t.Error("the style sheet refers outside")
	}
	sum := sha256.Sum256([]byte(style.FirstChild.Data))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	policy := ""
	for _, meta := range all(root, "meta") {
		if attr(meta, "http-equiv") == "Content-Security-Policy" {
			policy = attr(meta, "content")
		}
	}
	if policy != want {
		t.Errorf("policy %q, want %q", policy, want)
	}
	for _, id := range all(root, "a") {
		if target := strings.TrimPrefix(attr(id, "href"), "#"); len(all(root, "#"+target)) != 1 {
			t.Errorf("#%s leads nowhere", target)
		}
	}
}

// shape is a page's elements in their order, without texts.
func shape(root *html.Node) (out []string) {
	for d := range root.Descendants() {
		if d.Type == html.ElementNode {
			out = append(out, d.Data)
		}
	}
	return out
}

// TestPageHostile: a hostile text changes no element of the page; it is there to be read.
func TestPageHostile(t *testing.T) {
	page := write(t, samplePage(t))
	root := parse(t, page)
	harmless := samplePage(t)
	for i := range harmless.Episodes {
		s := harmless.Episodes[i].Score
		s.Agent, _, _ = strings.Cut(s.Agent, " ")
	}
	if d := cmp.Diff(shape(parse(t, write(t, harmless))), shape(root)); d != "" {
		t.Errorf("a hostile name changes the page (-harmless +hostile):\n%s", d)
	}
	if !strings.Contains(text(root), `</title></style><script>alert(1)</script><img src=x onerror=alert(2)>"'&{{.}}`) {
		t.Error("the hostile text can't be read")
	}
	for _, bad := range []string{"\x1b", "\u202e", "\x00"} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page has a %q", bad)
		}
	}
}

func TestPageIsDeterministic(t *testing.T) {
	first := write(t, samplePage(t))
	for range 5 {
		if !bytes.Equal(first, write(t, samplePage(t))) {
			t.Fatal("the same episodes give other bytes")
		}
	}
}

func TestPageWithoutEpisodes(t *testing.T) {
	root := parse(t, write(t, &report.Page{Title: "nothing"}))
	if !strings.Contains(text(root), "There are no episodes.") {
		t.Errorf("an empty page says %q", text(root))
	}
}

func TestPageUnscored(t *testing.T) {
	truth := loadSample(t)
	of := evaluator.New(truth, evaluator.Options{})
	score, err := of.Score(t.Context(), evaluator.Episode{Case: "cart", Agent: "a", Infrastructure: "the server <b>ended</b>"})
	if err != nil {
		t.Fatal(err)
	}
	root := parse(t, write(t, &report.Page{Title: "report", Episodes: []report.Episode{{Score: score, Truth: truth}}}))
	if got := text(all(root, ".kc-badge")[0]); got != "not scored" {
		t.Errorf("the episode is %q", got)
	}
	if got := text(one(t, root, "#episodes")); !strings.Contains(got, "infrastructure: the server <b>ended</b>") {
		t.Errorf("it doesn't say why: %s", got)
	}
}

// TestPageBounds: a run of 10,000 episodes makes a page that a browser can show, and that
// says what it leaves out.
func TestPageBounds(t *testing.T) {
	truth := loadSample(t)
	one := episode(t, truth, "careful", "cart", rightAnswer, "errors", "pods", "events", "selector", "nodes")
	p := &report.Page{Title: "large", Details: 30}
	for i := range 10_000 {
		e := one
		s := *one.Score
		s.Agent, s.Case = fmt.Sprintf("agent-%d", i%250), fmt.Sprintf("case-%d", i%40)
		e.Score = &s
		p.Episodes = append(p.Episodes, e)
	}
	page := write(t, p)
	root := parse(t, page)
	if n := len(all(root, ".kc-episode")); n != 30 {
		t.Errorf("%d episodes are shown, not 30", n)
	}
	if n := len(page); n > 4<<20 {
		t.Errorf("the page has %d bytes", n)
	}
	for _, want := range []string{"10,000 episodes by 250 agents on 40 cases", "The first 30 of 10,000 episodes are shown call by call; the other 9,970 are in the figures alone.", "50 more rows are left out"} {
		if !strings.Contains(text(root), want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
}

// FuzzPage: whatever an agent writes, nothing in the page runs.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{hostile, "{{.}}", "'-alert(1)-'", "\xff\xfe<svg onload=1>", "]]>", "-->", "</textarea>", "javascript:alert(1)"} {
		f.Add(seed)
	}
	truth := loadSample(f)
	f.Fuzz(func(t *testing.T, s string) {
		e := episode(t, truth, "agent", "cart", "", "pods", "hostile")
		e.Score.Agent, e.Score.Case, e.Score.System, e.Ended = s, s, s, s
		e.Score.Submission = &evaluator.Submission{Component: s, Fault: s, Layer: s, Commands: []string{s}, Problems: []string{s}}
		e.Score.Failures = []string{s}
		root := parse(t, write(t, &report.Page{Title: s, Notes: []string{s}, Episodes: []report.Episode{e}}))
		for _, fault := range faults(root) {
			t.Errorf("%q gives %s", s, fault)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	p := samplePage(b)
	b.ReportAllocs()
	for b.Loop() {
		write(b, p)
	}
}
