package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/fixtures/capture"
)

// TestProgressLine prints a line per phase and per tenth where no terminal is, and
// one line that changes, no wider than the terminal, where one is.
func TestProgressLine(t *testing.T) {
	steps := []capture.Progress{{Phase: "discovery"}}
	for i := 1; i <= 40; i++ {
		steps = append(steps, capture.Progress{Phase: "logs", Done: i * 5, Total: 400, What: "shop/cart/cart"})
	}
	for _, test := range []struct {
		line progressLine
		want string
	}{
		// 5 of 400 is the phase's first; 40, 80, … are its tenths, up to 200.
		{progressLine{}, "capturing discovery\ncapturing logs: 5 of 400\ncapturing logs: 40 of 400\ncapturing logs: 80 of 400\ncapturing logs: 120 of 400\ncapturing logs: 160 of 400\ncapturing logs: 200 of 400\n"},
	} {
		var out bytes.Buffer
		test.line.out = &out
		for _, step := range steps {
			test.line.show(step)
		}
		test.line.end()
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	var out bytes.Buffer
	line := progressLine{out: &out, terminal: true, width: 53}
	line.show(capture.Progress{Phase: "logs", Done: 200, Total: 400, What: "shop/cart/cart"})
	line.end()
	// 30 places for the bar, of which half are done; 52 of the 53 columns are used.
	want := "\rlogs      [###############...............] 200/400 s\x1b[K\r\x1b[K"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
