package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/recorder"
)

// Bounds of shown texts, in characters.
const (
	nameBound    = 120
	textBound    = 400
	messageBound = 1000
)

// Plain is a text as it can be shown to a person, on a terminal too: on one line, at most n
// characters long, without control characters and without those that turn the direction
// of writing around, by which a text could pass for another.
func Plain(text string, n int) string {
	if len(text) > 8*n { // most of it will be cut
		text = text[:8*n]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029':
			return '\uFFFD'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// useText is a use as a line: the tool and its arguments in their canonical order.
func useText(u *recorder.Use) string {
	names, _ := evaluator.ToolArgs(u.Tool)
	parts := []string{string(u.Tool)}
	for _, name := range names {
		if v := u.Args[name]; v != "" {
			parts = append(parts, name+"="+v)
		}
	}
	return Plain(strings.Join(parts, " "), textBound)
}

// useTexts are a call's uses, each once, and at most so many.
func useTexts(c *recorder.Call, most int) []string {
	var out []string
	for i := range c.Uses {
		text := useText(&c.Uses[i])
		if slices.Contains(out, text) {
			continue
		}
		if len(out) == most {
			return append(out, fmt.Sprintf("and %d more", len(c.Uses)-i))
		}
		out = append(out, text)
	}
	return out
}

// since is a moment as seconds from the beginning of an episode: "+12.3 s".
func since(t, start time.Time) string {
	return fmt.Sprintf("+%.1f s", t.Sub(start).Seconds())
}

// count is a number with thousands apart, as in 10,000.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
