package evaluator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Place is a position in the truth file; lines and columns count from 1, and
// the zero Place is none.
type Place struct {
	Line, Column int
}

// TruthError is one thing wrong with a truth file: where, what, and what to do
// about it.
type TruthError struct {
	File string
	Place
	// Problem is what is wrong, Fix what to do about it.
	Problem, Fix string
}

// Error says everything in one line.
func (e *TruthError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	b.WriteString(": " + e.Problem)
	if e.Fix != "" {
		b.WriteString("; " + e.Fix)
	}
	return b.String()
}

// maxErrors bounds what one file reports; a broken file must not flood a terminal.
const maxErrors = 100

// problems gathers what is wrong with one truth file.
type problems struct {
	file    string
	list    []error
	dropped int
}

func (p *problems) add(at Place, problem, fix string) {
	if len(p.list) >= maxErrors {
		p.dropped++
		return
	}
	p.list = append(p.list, &TruthError{File: p.file, Place: at, Problem: problem, Fix: fix})
}

// err joins all problems, nil when there are none.
func (p *problems) err() error {
	if p.dropped > 0 {
		return errors.Join(append(p.list, &TruthError{File: p.file, Problem: fmt.Sprintf("and %d more problems", p.dropped)})...)
	}
	return errors.Join(p.list...)
}

// quote shortens and quotes a text from a file, so that it can't confuse a terminal.
func quote(s string) string {
	const longest = 100
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return strconv.Quote(s)
}

// didYouMean ends a message with the known name that is nearest to a mistaken
// one, or with all of them.
func didYouMean(name string, known []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, k := range known {
		if len(name) > 100 {
			break
		}
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	const most = 30
	if len(known) > most {
		return "known are " + strings.Join(known[:most], ", ") + ", …"
	}
	if len(known) == 0 {
		return "none is known"
	}
	return "known are " + strings.Join(known, ", ")
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
