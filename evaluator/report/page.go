package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/recorder"
)

// Bounds of a page, so that a browser can show a run of any size.
const (
	// DefaultDetails is how many episodes are shown call by call.
	DefaultDetails = 100
	maxRows        = 200  // of a table of figures
	maxCalls       = 300  // of one episode
	maxCallRows    = 6000 // of the page
	maxUses        = 6    // of one call
	maxReasons     = 20
)

// Page is a report on scored episodes.
type Page struct {
	Title string
	// Episodes are shown in this order.
	Episodes []Episode
	// Notes are what the reader should know, such as cases without truth.
	Notes []string
	// Details is how many episodes, from the first, are shown call by call; 0: DefaultDetails.
	Details int
}

// Episode is a scored episode and what is known about it besides.
type Episode struct {
	Score *evaluator.Score
	// Truth is what it was scored against.
	Truth   *evaluator.Truth
	Attempt int
	// Ended says how it ended, in words.
	Ended string
	// Calls reads its trajectory and what each call supplied. It is asked for the
	// episodes that are shown call by call, and may be nil.
	Calls func(context.Context) (*recorder.Trajectory, []evaluator.Observation, error)
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed shared.css
	sharedCSS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
)

// pageStyle is the whole style sheet of the page; its digest is all that the page's policy admits.
func pageStyle() string { return sharedCSS + pageCSS + evaluator.SVGStyle }

func styleDigest(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// WriteHTML writes one page that refers to nothing outside, runs no script, and forbids both to
// itself. Equal input gives equal bytes. The error is the writer's or the context's;
// an episode whose calls can't be read says so in its place.
func (p *Page) WriteHTML(ctx context.Context, w io.Writer) error {
	v, err := p.view(ctx)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}
