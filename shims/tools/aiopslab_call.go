package tools

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxReply bounds an agent's reply, in bytes.
	maxReply = 64 << 10
	// maxNested bounds how deep the lists and dictionaries of an argument nest.
	maxNested = 32
	// maxTries bounds the places of a reply at which a call is looked for.
	maxTries = 16
)

// ErrNoCall says that a reply holds no call of an action.
var ErrNoCall = errors.New("the reply holds no call of an action")

// call is one action's call as an agent wrote it. Values are what encoding/json makes of JSON, and
// int64 for whole numbers.
type call struct {
	action     *Action
	positional []any
	named      map[string]any
}

// callError is what is wrong with a call; the agent reads it.
type callError struct{ error }

func badCall(format string, args ...any) error { return callError{fmt.Errorf(format, args...)} }

var (
	anyCall  = regexp.MustCompile(`[A-Za-z_]\w*\(`)
	fence    = "```"
	language = regexp.MustCompile(`^[A-Za-z]*\s*\n`)
)

// parseReply finds the call in a reply: in its first block of code if it has one, else anywhere.
func parseReply(reply string) (*call, error) {
	if len(reply) > maxReply {
		return nil, badCall("the reply has %d bytes, more than %d", len(reply), maxReply)
	}
	if !utf8.ValidString(reply) {
		reply = strings.ToValidUTF8(reply, "\uFFFD")
	}
	text := block(reply)
	var first error
	for _, at := range knownCalls(text) {
		c, end, err := parseCall(text[at:])
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if more := knownCalls(text[at+end:]); len(more) > 0 {
			return nil, badCall("there is more than one call in the reply: give one call a reply")
		}
		return c, nil
	}
	if first != nil {
		return nil, first
	}
	if name := anyCall.FindString(text); name != "" {
		return nil, badCall("there is no action %q; the actions are: %s", strings.TrimSuffix(name, "("), strings.Join(actionNames(), ", "))
	}
	return nil, fmt.Errorf("%w: write one in a block of code, such as\n```\nexec_shell(\"kubectl get pods\")\n```\nThe actions are: %s", ErrNoCall, strings.Join(actionNames(), ", "))
}

// block is the text of the first block of code; without one, all of the text.
func block(reply string) string {
	_, rest, found := strings.Cut(reply, fence)
	if !found {
		return reply
	}
	// A block that is never closed goes on to the end.
	inside, _, _ := strings.Cut(rest, fence)
	return strings.TrimPrefix(inside, language.FindString(inside))
}

// knownCalls are the places where the name of an action and a parenthesis stand, at most maxTries.
func knownCalls(text string) []int {
	var out []int
	for _, at := range callOfAction.FindAllStringIndex(text, maxTries) {
		out = append(out, at[0])
	}
	return out
}

// parseCall parses the call at the beginning of a text and says where it ends.
func parseCall(text string) (*call, int, error) {
	name, _, _ := strings.Cut(text, "(")
	p := &parser{text: text, at: len(name) + 1}
	c := &call{action: FindAction(strings.TrimSpace(name)), named: map[string]any{}}
	p.shell = c.action.shell
	err := p.arguments(c)
	if err == nil {
		return c, p.at, nil
	}
	if c.action.shell {
		if command, end, ok := unquoted(text, len(name)+1); ok {
			return &call{action: c.action, positional: []any{command}}, end, nil
		}
	}
	return nil, 0, badCall("%s: %w", c.action.Name, err)
}

// unquoted takes all between the outer quotes of a command in which quotes stand unescaped, as
// AIOpsLab does.
func unquoted(text string, begin int) (command string, end int, ok bool) {
	end = strings.LastIndexByte(text, ')')
	if end < begin {
		return "", 0, false
	}
	inside := strings.TrimSpace(text[begin:end])
	if rest, named := strings.CutPrefix(inside, "command"); named {
		if rest, named = strings.CutPrefix(strings.TrimSpace(rest), "="); named {
			inside = strings.TrimSpace(rest)
		}
	}
	for _, quote := range []string{`"""`, `'''`, `"`, `'`} {
		if len(inside) >= 2*len(quote) && strings.HasPrefix(inside, quote) && strings.HasSuffix(inside, quote) {
			return unescapeCommand(inside[len(quote) : len(inside)-len(quote)]), end + 1, true
		}
	}
	return "", 0, false
}

// unescapeCommand takes the backslash from quotes alone: other backslashes are the shell's.
func unescapeCommand(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\'`, `'`).Replace(text)
}

// parser reads Python's literals.
type parser struct {
	text  string
	at    int
	depth int
	// shell: strings are commands, whose backslashes are kept.
	shell bool
}

// space skips blanks and comments.
func (p *parser) space() {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.at++
		case c == '#':
			if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
				p.at += end
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

// take skips blanks and then c, if it is there.
func (p *parser) take(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// near is the text at which something is wrong.
func (p *parser) near() string {
	rest := strings.TrimSpace(p.text[min(p.at, len(p.text)):])
	if rest == "" {
		return "the end"
	}
	rest, _, _ = strings.Cut(rest, "\n")
	if runes := []rune(rest); len(runes) > 20 {
		rest = string(runes[:20]) + "…"
	}
	return strconv.Quote(rest)
}

// arguments parses what follows the opening parenthesis.
func (p *parser) arguments(c *call) error {
	for !p.take(')') {
		name := p.keyword()
		value, err := p.value()
		if err != nil {
			return err
		}
		switch _, twice := c.named[name]; {
		case name == "" && len(c.named) > 0:
			return errors.New("an argument without a name follows one with a name")
		case name == "":
			c.positional = append(c.positional, value)
		case twice:
			return fmt.Errorf("the argument %s is given twice", name)
		default:
			c.named[name] = value
		}
		if p.take(',') {
			continue
		}
		if !p.take(')') {
			return fmt.Errorf("a comma or a closing parenthesis is expected at %s", p.near())
		}
		return nil
	}
	return nil
}

var keywordArgument = regexp.MustCompile(`^([A-Za-z_]\w*)\s*=`)

// keyword takes the name of an argument and its equals sign, if they are there.
func (p *parser) keyword() string {
	p.space()
	m := keywordArgument.FindStringSubmatch(p.text[p.at:])
	if m == nil || strings.HasPrefix(p.text[p.at+len(m[0]):], "=") {
		return ""
	}
	p.at += len(m[0])
	return m[1]
}

var (
	number     = regexp.MustCompile(`^[-+]?(0[xX][0-9a-fA-F_]+|(\d[\d_]*)?\.?\d[\d_]*\.?([eE][-+]?\d+)?)`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*`)
	prefix     = regexp.MustCompile(`^([A-Za-z]{0,2})["']`)
)

func (p *parser) value() (any, error) {
	p.space()
	if p.depth++; p.depth > maxNested {
		return nil, fmt.Errorf("lists and dictionaries nest deeper than %d", maxNested)
	}
	defer func() { p.depth-- }()
	rest := p.text[p.at:]
	switch {
	case rest == "":
		return nil, errors.New("the closing parenthesis is missing")
	case prefix.MatchString(rest):
		return p.strings()
	case rest[0] == '[':
		p.at++
		return p.list(']')
	case rest[0] == '(':
		p.at++
		return p.list(')')
	case rest[0] == '{':
		p.at++
		return p.dictionary()
	}
	if name := identifier.FindString(rest); name != "" {
		switch name {
		case "True", "true":
			p.at += len(name)
			return true, nil
		case "False", "false":
			p.at += len(name)
			return false, nil
		case "None", "null":
			p.at += len(name)
			return nil, nil
		}
		return nil, fmt.Errorf("%s is no value: texts stand in quotes", name)
	}
	if text := number.FindString(rest); text != "" {
		p.at += len(text)
		plain, base := strings.ReplaceAll(text, "_", ""), 10
		if strings.ContainsAny(plain, "xX") {
			base = 0
		}
		if n, err := strconv.ParseInt(plain, base, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is no number", text)
		}
		return f, nil
	}
	return nil, fmt.Errorf("a value is expected at %s", p.near())
}

// list parses the values up to a closing bracket. One value in parentheses is itself.
func (p *parser) list(closing byte) (any, error) {
	out := []any{}
	comma := false
	for !p.take(closing) {
		if len(out) > 0 && !comma {
			return nil, fmt.Errorf("a comma or %q is expected at %s", closing, p.near())
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		comma = p.take(',')
	}
	if closing == ')' && len(out) == 1 && !comma {
		return out[0], nil
	}
	return out, nil
}

func (p *parser) dictionary() (any, error) {
	out := map[string]any{}
	for comma := true; !p.take('}'); comma = p.take(',') {
		if !comma {
			return nil, fmt.Errorf("a comma or '}' is expected at %s", p.near())
		}
		key, err := p.value()
		if err != nil {
			return nil, err
		}
		switch key.(type) {
		case []any, map[string]any:
			return nil, errors.New("a key of a dictionary is a list or a dictionary")
		}
		if !p.take(':') {
			return nil, fmt.Errorf("a colon is expected at %s", p.near())
		}
		if out[fmt.Sprint(key)], err = p.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// strings parses a string and those that follow it without a comma, which are one.
func (p *parser) strings() (any, error) {
	var out strings.Builder
	for n := 0; ; n++ {
		m := prefix.FindStringSubmatch(p.text[p.at:])
		if m == nil {
			return out.String(), nil
		}
		if n > 0 && p.shell {
			return nil, fmt.Errorf("a comma or a closing parenthesis is expected at %s", p.near())
		}
		letters := strings.ToLower(m[1])
		if strings.Trim(letters, "ru") != "" {
			return nil, fmt.Errorf("a string can't begin with %s: plain strings are taken", m[1])
		}
		p.at += len(m[1])
		text, err := p.string(strings.Contains(letters, "r"))
		if err != nil {
			return nil, err
		}
		out.WriteString(text)
		p.space()
	}
}

// string parses one string at its quote.
func (p *parser) string(raw bool) (string, error) {
	quote := p.text[p.at : p.at+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.text[p.at:], triple) {
		quote = triple
	}
	p.at += len(quote)
	begin := p.at
	for p.at < len(p.text) {
		switch {
		case strings.HasPrefix(p.text[p.at:], quote):
			inside := p.text[begin:p.at]
			p.at += len(quote)
			switch {
			case raw:
				return inside, nil
			case p.shell:
				return unescapeCommand(inside), nil
			}
			return unescape(inside)
		case p.text[p.at] == '\\':
			p.at += 2
		case p.text[p.at] == '\n' && len(quote) == 1 && !p.shell:
			return "", errors.New("a string isn't closed at the end of its line")
		default:
			p.at++
		}
	}
	p.at = len(p.text)
	return "", errors.New("a string isn't closed")
}

// escapes are Python's short ones.
var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\\': `\`, '\'': "'", '"': `"`, '\n': ""}

// unescape resolves a string's escapes as Python does: unknown ones stay as they are.
func unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		c := text[i]
		if short, ok := escapes[c]; ok {
			out.WriteString(short)
			continue
		}
		if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; digits > 0 {
			if i+digits >= len(text) {
				return "", fmt.Errorf(`\%c needs %d digits`, c, digits)
			}
			n, err := strconv.ParseUint(text[i+1:i+1+digits], 16, 32)
			if err != nil || n > utf8.MaxRune {
				return "", fmt.Errorf(`\%c%s is no character`, c, text[i+1:i+1+digits])
			}
			out.WriteRune(rune(n))
			i += digits
			continue
		}
		if c >= '0' && c <= '7' {
			end := i + 1
			for end < len(text) && end < i+3 && text[end] >= '0' && text[end] <= '7' {
				end++
			}
			n, err := strconv.ParseUint(text[i:end], 8, 16)
			if err != nil {
				return "", err
			}
			out.WriteRune(rune(n))
			i = end - 1
			continue
		}
		out.WriteByte('\\')
		out.WriteByte(c)
	}
	return out.String(), nil
}

// arguments gives a call's values the names of the action's arguments.
func (c *call) arguments() (map[string]any, error) {
	if len(c.positional) > len(c.action.Arguments) {
		return nil, badCall("%s takes %s, and %d were given: %s", c.action.Name, plural(len(c.action.Arguments), "argument"), len(c.positional), c.action.signature())
	}
	out := map[string]any{}
	for i, v := range c.positional {
		out[c.action.Arguments[i].Name] = v
	}
	for name, v := range c.named {
		i := slices.IndexFunc(c.action.Arguments, func(a Argument) bool { return a.Name == name || slices.Contains(a.Aliases, name) })
		if i < 0 {
			return nil, badCall("%s has no argument %q: %s", c.action.Name, name, c.action.signature())
		}
		known := c.action.Arguments[i].Name
		if _, twice := out[known]; twice {
			return nil, badCall("the argument %s of %s is given twice", known, c.action.Name)
		}
		out[known] = v
	}
	return out, nil
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
