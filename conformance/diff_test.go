package conformance

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// yamlAge finds a cell of a Table in YAML that is an age, or ends in one.
var yamlAge = regexp.MustCompile(`(?m)^(\s*- (?:\d+ \()?)` + ageText + `( ago\))?$`)

func unified(recorded, ours string) string {
	return string(diff.Diff("recorded", []byte(recorded), "ours", []byte(ours)))
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return text
}

// firstDifference describes the first line that differs.
func firstDifference(recorded, ours string) string {
	r, o := strings.SplitAfter(recorded, "\n"), strings.SplitAfter(ours, "\n")
	for i := range max(len(r), len(o)) {
		switch {
		case i >= len(o):
			return fmt.Sprintf("line %d missing: %q", i+1, oneLine(r[i]))
		case i >= len(r):
			return fmt.Sprintf("line %d not in the recording: %q", i+1, oneLine(o[i]))
		case r[i] != o[i]:
			return fmt.Sprintf("line %d: %q instead of %q", i+1, oneLine(o[i]), oneLine(r[i]))
		}
	}
	return "equal"
}
