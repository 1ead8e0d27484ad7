package conformance

import (
	"regexp"
	"strings"
	"unicode"
)

// What kubectl prints for people: tables, whose column widths depend on the
// ages in them, and text with ages in a few fixed places.

var (
	// getHeader is the first line of a table of kubectl get or events.
	getHeader = regexp.MustCompile(`^[A-Z][A-Z0-9()/-]*( +[A-Z][A-Z0-9()/-]*)*$`)
	// describeHeader is that of the events, or of a node's pods, in kubectl describe.
	describeHeader = regexp.MustCompile(`^\s+(Type\s+Reason\s+Age\s|Namespace\s+Name\s.*\sAge$)`)
	columnStart    = regexp.MustCompile(`(^|\s{2,})\S`)
	// proseAge finds ages outside of tables: "(5m ago)", and "Age: 5m".
	proseAge = regexp.MustCompile(`\(` + ageText + ` ago\)|^Age:\s+` + ageText + `$`)
	// bareAge finds the age at the end of a table's line without a header.
	bareAge = regexp.MustCompile(`\s{3}` + ageText + `$`)
)

// skeleton returns text with its ages taken out, and its tables that have
// columns of ages reduced to their cells, so that widths don't count. With
// bare, the text is a table whose header was suppressed.
func skeleton(text string, bare bool) (string, []age) {
	var out strings.Builder
	var ages []age
	var header columns // of the table that the line is in; nil outside
	for line := range strings.Lines(text) {
		line, newline := strings.CutSuffix(line, "\n")
		switch columns := tableColumns(line); {
		case columns != nil:
			header = columns
			for _, c := range columns {
				out.WriteString(c.name + "\t")
			}
		case header != nil && header[0].start <= leading(line) && line != "" && header.row(line, &out, &ages):
		default:
			header = nil
			replace := func(expr *regexp.Regexp, line string) string {
				return expr.ReplaceAllStringFunc(line, func(match string) string {
					text := ageExpr.FindString(match)
					ages = append(ages, age{text: text, where: "line " + oneLine(match)})
					return strings.Replace(match, text, "<age>", 1)
				})
			}
			line = replace(proseAge, line)
			if bare {
				line = regexp.MustCompile(`\s{2,}`).ReplaceAllString(replace(bareAge, line), "  ")
			}
			out.WriteString(line)
		}
		if newline {
			out.WriteString("\n")
		}
	}
	return out.String(), ages
}

type column struct {
	name  string
	start int // in runes
}

type columns []column

// tableColumns returns the columns of a header line that has one with ages,
// else nil.
func tableColumns(line string) columns {
	if !getHeader.MatchString(strings.TrimRight(line, " ")) && !describeHeader.MatchString(line) {
		return nil
	}
	var found columns
	hasAges := false
	for _, match := range columnStart.FindAllStringIndex(line, -1) {
		start := match[1] - 1
		name, _, _ := strings.Cut(line[start:], "  ")
		name = strings.TrimSpace(name)
		if _, ok := ageColumns[strings.ToUpper(name)]; ok {
			hasAges = true
		}
		found = append(found, column{name, start})
	}
	if !hasAges {
		return nil
	}
	return found
}

// row writes a table line's cells. It reports false, and writes nothing, if
// the line isn't aligned with the columns.
func (c columns) row(line string, out *strings.Builder, ages *[]age) bool {
	runes := []rune(line)
	for _, col := range c[1:] {
		if col.start <= len(runes) && runes[col.start-1] != ' ' {
			return false
		}
	}
	for i, col := range c {
		end := len(runes)
		if i+1 < len(c) {
			end = min(end, c[i+1].start)
		}
		cell := ""
		if col.start < len(runes) {
			cell = strings.TrimRightFunc(string(runes[col.start:end]), unicode.IsSpace)
		}
		cell, taken := takeAges(col.name, cell)
		*ages = append(*ages, taken...)
		out.WriteString(cell + "\t")
	}
	return true
}

func leading(line string) int {
	return len(line) - len(strings.TrimLeft(line, " "))
}
