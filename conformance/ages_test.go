package conformance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Ages are the one thing in an answer that every moment changes. They aren't
// masked: all ages of one answer must be explained by one and the same
// difference between the moment of the recording and the moment of our answer,
// and that difference must lie in the window that the caller knows.

// ageText is an age as Kubernetes prints it: 4m51s, 10m, 2d3h.
const ageText = `(?:\d+[ydhms])+`

var (
	ageExpr    = regexp.MustCompile(`\b` + ageText + `\b`)
	agoExpr    = regexp.MustCompile(`\(` + ageText + ` ago\)`)
	ageUnits   = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'y': 365 * 24 * time.Hour}
	agePart    = regexp.MustCompile(`(\d+)([ydhms])`)
	agePattern = regexp.MustCompile(`^` + ageText + `$`)
)

// age is an age found in an answer.
type age struct {
	text  string
	where string
	// fixed allows that the age doesn't move at all: the DURATION of a job
	// that is done stays, the one of a running job grows.
	fixed bool
}

// parseAge returns the shortest duration that Kubernetes prints as text, and
// the first longer one that it prints differently.
func parseAge(text string) (from, until time.Duration, err error) {
	if !agePattern.MatchString(text) {
		return 0, 0, fmt.Errorf("%q is no age", text)
	}
	for _, part := range agePart.FindAllStringSubmatch(text, -1) {
		count, err := strconv.Atoi(part[1])
		if err != nil {
			return 0, 0, err
		}
		from += time.Duration(count) * ageUnits[part[2][0]]
	}
	if printed := duration.HumanDuration(from); printed != text {
		return 0, 0, fmt.Errorf("%q is not how Kubernetes prints %v (%q)", text, from, printed)
	}
	// Steps as in HumanDuration.
	const day = 24 * time.Hour
	step := time.Second
	switch {
	case from >= 8*365*day:
		step = 365 * day
	case from >= 8*day:
		step = day
	case from >= 8*time.Hour:
		step = time.Hour
	case from >= 10*time.Minute:
		step = time.Minute
	}
	return from, from + step, nil
}

// window is the range in which recorded age minus our age must lie.
type window struct{ from, to time.Duration }

// compareAges demands that one difference within w explains every pair of
// ages. It returns what contradicts that, or "".
func compareAges(recorded, ours []age, w window) string {
	if len(recorded) != len(ours) {
		return fmt.Sprintf("%d ages instead of %d", len(ours), len(recorded))
	}
	for i := range recorded {
		r, o := recorded[i], ours[i]
		if r.fixed && r.text == o.text {
			continue
		}
		rFrom, rUntil, err := parseAge(r.text)
		if err != nil {
			return fmt.Sprintf("%s: recorded %v", r.where, err)
		}
		oFrom, oUntil, err := parseAge(o.text)
		if err != nil {
			return fmt.Sprintf("%s: %v", o.where, err)
		}
		pair := window{rFrom - oUntil, rUntil - oFrom}
		if pair.from > w.to || pair.to < w.from {
			return fmt.Sprintf("%s: age %s instead of %s: a difference of %v to %v, where %v to %v is allowed",
				r.where, o.text, r.text, pair.from, pair.to, w.from, w.to)
		}
		w.from, w.to = max(w.from, pair.from), min(w.to, pair.to)
	}
	return ""
}

// ageColumns tells which columns of tables hold ages. The value tells whether
// the whole cell may hold ages, or only "(… ago)" after a number.
var ageColumns = map[string]struct{ onlyAgo, fixed bool }{
	"AGE":           {},
	"LAST SEEN":     {},
	"FIRST SEEN":    {},
	"LAST SCHEDULE": {},
	"DURATION":      {fixed: true},
	"RESTARTS":      {onlyAgo: true},
}

// takeAges replaces the ages of a cell in the named column and returns them.
func takeAges(column, cell string) (string, []age) {
	rule, ok := ageColumns[strings.ToUpper(column)]
	if !ok {
		return cell, nil
	}
	expr := ageExpr
	if rule.onlyAgo {
		expr = agoExpr
	}
	var ages []age
	cell = expr.ReplaceAllStringFunc(cell, func(text string) string {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "("), " ago)")
		ages = append(ages, age{text: text, where: column, fixed: rule.fixed})
		return "<age>"
	})
	return cell, ages
}
