package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPageLooks opens the page as a person would, on wide and narrow screens, light and dark.
func TestPageLooks(t *testing.T) {
	b := newBrowser(t)
	var page bytes.Buffer
	if err := samplePage(t).WriteHTML(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range screens {
		t.Run(s.String(), func(t *testing.T) {
			b.t = t
			p := b.open("file://"+file, s)
			p.inspect("file://" + file)
			p.shoot("report-" + s.String())
			p.evaluate(`document.querySelectorAll('details').forEach(d => { d.open = true })`, nil)
			p.inspect("file://" + file)
			p.shoot("report-open-" + s.String())
		})
	}
}
