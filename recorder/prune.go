package recorder

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// prune cuts a response to what was printed, as the kubectl wrapper saw it: the
// rows of which a line is there, the leaves of objects whose text is there, the
// events and log lines that are there. What prints everything, or words it in its own way
// (-o yaml, -o json, describe), is cut only when it went through a filter.
func prune(u *Use, v *Invocation, printed string) {
	r := &u.Response
	r.Text = bounded(printed, annotationLimit)
	if u.Class != Delivered || v.Shown == nil && (u.Tool == DescribeResource || v.printsAll()) {
		return
	}
	p := newPrinting(printed)
	named := u.Args["name"] != "" || u.Tool == GetAppYAML
	r.Rows = filter(r.Rows, p.row)
	r.Objects = p.objects(r.Objects, named)
	r.Related = p.objects(r.Related, false)
	r.Events = filter(r.Events, p.event)
	r.Lines = slices.DeleteFunc(slices.Clone(r.Lines), func(line string) bool { return !p.line(line) })
}

// printsAll reports an output format that shows all of an object.
func (v *Invocation) printsAll() bool {
	for i, arg := range v.Argv {
		format, ok := "", false
		switch {
		case (arg == "-o" || arg == "--output") && i+1 < len(v.Argv):
			format, ok = v.Argv[i+1], true
		case strings.HasPrefix(arg, "--output="):
			format, ok = strings.TrimPrefix(arg, "--output="), true
		case strings.HasPrefix(arg, "-o"):
			format, ok = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "="), true
		}
		if ok {
			return format == "yaml" || format == "json"
		}
	}
	return false
}

func filter(in []map[string]any, keep func(map[string]any) bool) []map[string]any {
	var out []map[string]any
	for _, m := range in {
		if keep(m) {
			out = append(out, m)
		}
	}
	return out
}

// printing is a text, ready to be asked what it holds.
type printing struct {
	text   string
	lines  map[string]bool
	tokens map[string]bool
	// printed are the lines in their order, words each one's.
	printed []string
	words   []map[string]bool
}

func newPrinting(s string) *printing {
	p := &printing{text: s, lines: map[string]bool{}, tokens: map[string]bool{}}
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		p.lines[line] = true
		words := map[string]bool{}
		for _, word := range strings.Fields(line) {
			words[word] = true
			// get of several types prints "pod/web-1".
			if _, name, ok := strings.Cut(word, "/"); ok {
				words[name] = true
			}
		}
		p.printed = append(p.printed, line)
		p.words = append(p.words, words)
		for _, token := range strings.FieldsFunc(line, separates) {
			p.tokens[token] = true
			p.tokens[strings.TrimRight(token, ":.")] = true
			// -o name prints "pod/web-1", "deployment.apps/web".
			if _, name, ok := strings.Cut(token, "/"); ok && !strings.Contains(name, "/") {
				p.tokens[name] = true
			}
		}
	}
	return p
}

// separates tells what stands between tokens. What names, images, quantities and
// times are made of does not.
func separates(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`"'{}[](),;=|<>`, r)
}

// row: its NAME stands on a line. Events, whose names are printed with -o wide
// alone, are known by what they are about and what they say.
func (p *printing) row(row map[string]any) bool {
	object, message := text(row["OBJECT"]), strings.TrimSpace(text(row["MESSAGE"]))
	if object != "" && message != "" {
		for i, line := range p.printed {
			if p.words[i][object] && strings.Contains(line, message) {
				return true
			}
		}
		return false
	}
	name := text(row["NAME"])
	return name != "" && slices.ContainsFunc(p.words, func(words map[string]bool) bool { return words[name] })
}

// line: a log line stands on a line of its own, perhaps behind a prefix or a timestamp.
func (p *printing) line(line string) bool {
	line = strings.TrimSpace(line)
	if line == "" {
		return false
	}
	if p.lines[line] {
		return true
	}
	return strings.Contains(p.text, " "+line+"\n") || strings.HasSuffix(p.text, " "+line)
}

func (p *printing) event(e map[string]any) bool {
	for _, key := range []string{"message", "note"} {
		if m := strings.TrimSpace(text(e[key])); m != "" {
			line, _, _ := strings.Cut(m, "\n")
			return strings.Contains(p.text, line)
		}
	}
	return p.holds(e["reason"])
}

// objects keeps what is printed of each. One that was asked for by name keeps who
// it is; of others that have nothing printed nothing is kept.
func (p *printing) objects(in []map[string]any, asked bool) []map[string]any {
	var out []map[string]any
	for _, o := range in {
		cut, _ := p.leaves(o).(map[string]any)
		if cut == nil && !asked {
			continue
		}
		if cut == nil {
			cut = map[string]any{}
		}
		for _, key := range []string{"kind", "apiVersion"} {
			if v, ok := o[key]; ok {
				cut[key] = v
			}
		}
		meta, _ := cut["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			cut["metadata"] = meta
		}
		for _, key := range []string{"name", "namespace"} {
			if v := field(o, "metadata", key); v != nil {
				meta[key] = v
			}
		}
		out = append(out, cut)
	}
	return out
}

// leaves copies the part of v whose scalars are printed; nil when there is none.
func (p *printing) leaves(v any) any {
	switch v := v.(type) {
	case map[string]any:
		var out map[string]any
		for key, item := range v {
			if cut := p.leaves(item); cut != nil {
				if out == nil {
					out = map[string]any{}
				}
				out[key] = cut
			}
		}
		if out == nil {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			if cut := p.leaves(item); cut != nil {
				out = append(out, cut)
			}
		}
		if out == nil {
			return nil
		}
		return out
	}
	if p.holds(v) {
		return v
	}
	return nil
}

func (p *printing) holds(v any) bool {
	switch v := v.(type) {
	case string:
		s := strings.TrimSpace(v)
		if s == "" {
			return false
		}
		if strings.ContainsFunc(s, separates) {
			// A sentence, or several lines of which the first decides.
			line, _, _ := strings.Cut(s, "\n")
			return strings.Contains(p.text, strings.TrimSpace(line)) || strings.Contains(p.text, escaped(line))
		}
		return p.tokens[s] || p.tokens[strings.TrimRight(s, ":.")]
	case nil:
		return false
	}
	b, err := json.Marshal(v)
	return err == nil && p.tokens[string(b)]
}

// escaped is the text as it stands between the quotes of JSON.
func escaped(s string) string {
	b, _ := json.Marshal(s)
	return strings.Trim(string(b), `"`)
}
