package conformance

import (
	"regexp"
	"strings"
	"time"
)

// The times in what kubectl prints, in the forms it prints: RFC 3339 with any
// number of digits after the second, RFC 1123 with a numeric zone, and Go's own.
var shiftedExpr = regexp.MustCompile(
	`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z` +
		`|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d \+0000` +
		`|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC`)

// buildDateExpr finds the time that is part of a version, which no clock moves.
var buildDateExpr = regexp.MustCompile(`buildDate"?: `)

// shiftBack moves every time in text back by offset, in the form it has.
func shiftBack(text string, offset time.Duration) string {
	if offset == 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if buildDateExpr.MatchString(line) {
			continue
		}
		lines[i] = shiftedExpr.ReplaceAllStringFunc(line, func(value string) string {
			layout := time.RFC1123Z
			switch {
			case strings.HasSuffix(value, " UTC"):
				layout = "2006-01-02 15:04:05 -0700 UTC"
			case strings.Contains(value, "."):
				layout = "2006-01-02T15:04:05." + strings.Repeat("0", len(value)-strings.IndexByte(value, '.')-2) + "Z"
			case value[4] == '-':
				layout = "2006-01-02T15:04:05Z"
			}
			t, err := time.Parse(layout, value)
			if err != nil {
				return value // 2026-02-31: not a time that a server has moved
			}
			return t.Add(-offset).Format(layout)
		})
	}
	return strings.Join(lines, "")
}
