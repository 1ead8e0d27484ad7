package evaluator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// ParseTruth reads a truth file strictly: unknown fields, wrong shapes, a broken
// graph and predicates that don't compile are errors, each with file, line and
// fix, all of them at once (see errors.Join). The name is used in messages only.
func ParseTruth(name string, data []byte) (*Truth, error) {
	r := &reader{problems: problems{file: name}}
	truth := r.parse(data)
	if err := r.err(); err != nil {
		return nil, err
	}
	truth.file = name
	r.semantics(truth)
	if truth.Graph != nil {
		truth.Graph.link(&r.problems)
	}
	truth.compile(&r.problems)
	if err := r.err(); err != nil {
		return nil, err
	}
	return truth, nil
}

// reader decodes YAML nodes, which know their places, into the types of Truth.
type reader struct {
	problems
}

func at(n *yaml.Node) Place {
	if n == nil {
		return Place{}
	}
	return Place{Line: n.Line, Column: n.Column}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n\s*)?(?:line (\d+): )?`)

func (r *reader) parse(data []byte) *Truth {
	start := "write at least apiVersion: " + TruthVersion + ", kind: " + TruthKind + ", and outcome or noFault"
	if len(data) > MaxTruthBytes {
		r.add(Place{}, fmt.Sprintf("is %d bytes long", len(data)), fmt.Sprintf("a truth file has at most %d", MaxTruthBytes))
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	if len(bytes.TrimSpace(data)) == 0 {
		r.add(Place{}, "is empty", start)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		place := Place{}
		if match := yamlLine.FindStringSubmatch(err.Error()); match != nil && match[1] != "" {
			place.Line, _ = strconv.Atoi(match[1])
		}
		r.add(place, "is not YAML: "+yamlLine.ReplaceAllString(err.Error(), ""), "correct it there or on the line above")
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		r.add(at(&second), "holds more than one YAML document", "delete what follows the first")
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		r.add(at(&doc), "is not a YAML mapping", start)
		return nil
	}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "apiVersion" && root.Content[i+1].Value != TruthVersion {
			r.add(at(root.Content[i+1]), "has apiVersion "+quote(root.Content[i+1].Value), "this kubecase reads "+TruthVersion)
			return nil // another version's fields would only add noise
		}
	}
	truth := &Truth{}
	r.decode(root, reflect.ValueOf(truth).Elem(), "")
	return truth
}

// scalar gives a node's text. Aliases are refused throughout: a small file could
// stand for a huge one.
func (r *reader) scalar(n *yaml.Node, path string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.wrong(n, path, "a text", "write one value")
		return "", false
	}
	return n.Value, true
}

func (r *reader) wrong(n *yaml.Node, path, want, fix string) {
	if n.Kind == yaml.AliasNode {
		r.add(at(n), path+" is a YAML alias", "write it out; a clause that is used twice goes under graph.clauses")
		return
	}
	r.add(at(n), path+" is not "+want, fix)
}

// decode fills v from n. It recurses over Truth's types, which are finite, so
// that nesting can't make it run away.
func (r *reader) decode(n *yaml.Node, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch target := v.Addr().Interface().(type) {
	case *Matcher:
		r.matcher(n, target, path)
		return
	case *Ref:
		target.ID, _ = r.scalar(n, path)
		target.Place = at(n)
		return
	case *Entry:
		target.Place = at(n)
		if n.Kind == yaml.MappingNode {
			target.Inline = &Clause{}
			r.decode(n, reflect.ValueOf(target.Inline).Elem(), path)
			return
		}
		if text, ok := r.scalar(n, path); ok && text == "" {
			r.add(at(n), path+" is empty", "write a clause, or the id of one under graph.clauses")
		} else {
			target.Ref = text
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.structure(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.wrong(n, path, "a list", "write each entry on its own line, after a dash")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, element := range n.Content {
			r.decode(element, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			r.wrong(n, path, "a mapping", "write its names, indented, on the lines below")
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, ok := r.scalar(n.Content[i], path)
			if !ok {
				continue
			}
			name := reflect.ValueOf(key)
			if v.MapIndex(name).IsValid() {
				r.add(at(n.Content[i]), path+" has "+quote(key)+" twice", "delete one of them")
				continue
			}
			value := reflect.New(v.Type().Elem()).Elem()
			r.decode(n.Content[i+1], value, path+"."+key)
			v.SetMapIndex(name, value)
		}
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
			r.wrong(n, path, "true or false", "write one of them")
			return
		}
		v.SetBool(n.Value == "true")
	case reflect.String:
		if text, ok := r.scalar(n, path); ok {
			v.SetString(text)
		}
	default:
		panic("evaluator: no way to read a " + v.Type().String()) // a programming error, met by every test
	}
}

func (r *reader) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, path, "a mapping", "write its fields, indented, on the lines below")
		return
	}
	type field struct {
		value    reflect.Value
		required bool
		enum     string
	}
	known := map[string]field{}
	var names []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		known[name] = field{v.Field(i), f.Tag.Get("required") == "true", f.Tag.Get("enum")}
		names = append(names, name)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		f, ok := known[key.Value]
		switch {
		case !ok:
			r.add(at(key), "unknown field "+quote(name), didYouMean(key.Value, names))
		case seen[key.Value]:
			r.add(at(key), "field "+quote(name)+" is there twice", "delete one of them")
		default:
			r.decode(value, f.value, name)
			r.enum(value, f.value, f.enum, name)
			if key.Value == "holds" {
				place := HoldsAt{Place: at(value), Block: value.Style == yaml.LiteralStyle || value.Style == yaml.FoldedStyle}
				v.FieldByName("HoldsAt").Set(reflect.ValueOf(place))
			}
		}
		seen[key.Value] = true
	}
	for _, name := range names {
		if f := known[name]; f.required && (!seen[name] || f.value.Kind() == reflect.String && f.value.String() == "") {
			r.add(at(n), strings.TrimPrefix(path+"."+name, ".")+" is missing", "write it")
		}
	}
	if place := v.FieldByName("Place"); place.IsValid() {
		place.Set(reflect.ValueOf(at(n)))
	}
}

// enum checks a text, or each text of a list, against the values that its
// field may have.
func (r *reader) enum(n *yaml.Node, v reflect.Value, enum, path string) {
	if enum == "" {
		return
	}
	allowed := strings.Split(enum, ",")
	check := func(n *yaml.Node, value string) {
		for _, a := range allowed {
			if value == a {
				return
			}
		}
		if value != "" {
			r.add(at(n), path+" is "+quote(value), didYouMean(value, allowed))
		}
	}
	switch {
	case v.Kind() == reflect.String:
		check(n, v.String())
	case v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, element := range n.Content {
			check(element, v.Index(i).String())
		}
	}
}

func (r *reader) matcher(n *yaml.Node, m *Matcher, path string) {
	if n.Kind == yaml.SequenceNode {
		if len(n.Content) == 0 {
			r.add(at(n), path+" has no alternatives", `write at least one, or delete the argument to accept any value`)
		}
		for i, element := range n.Content {
			if text, ok := r.scalar(element, fmt.Sprintf("%s[%d]", path, i)); ok {
				*m = append(*m, text)
			}
		}
		return
	}
	if text, ok := r.scalar(n, path); ok {
		*m = Matcher{text}
	}
}

// semantics checks what the types can't say, the graph's structure excepted.
func (r *reader) semantics(t *Truth) {
	switch {
	case t.NoFault && t.Outcome != nil:
		r.add(t.Outcome.Place, "has both an outcome and noFault: true", "delete one of them")
	case !t.NoFault && t.Outcome == nil:
		r.add(Place{Line: 1}, "has neither an outcome nor noFault: true", "write what was broken under outcome, or noFault: true")
	}
	if o := t.Outcome; o != nil {
		if NormalComponent(o.Component) == "" {
			r.add(o.Place, "outcome.component "+quote(o.Component)+" names nothing", "write the component's name")
		}
		fault, known := LookupFault(o.Fault)
		if known && o.Category != "" && fold(o.Category) != fold(fault.Category) {
			r.add(o.Place, fmt.Sprintf("outcome.category is %s, but %s belongs to %q", quote(o.Category), fault.Name, fault.Category), "delete the category: it follows from the fault")
		}
		if difficulty := o.difficulty(); o.Difficulty != "" && difficulty != o.Difficulty {
			r.add(o.Place, fmt.Sprintf("outcome.difficulty is %s, but its category's is %s", quote(o.Difficulty), difficulty), "delete the difficulty: it follows from the category")
		}
	}
	for _, task := range t.Tasks {
		if t.NoFault && task != Detection {
			r.add(Place{Line: 1}, fmt.Sprintf("poses the task %s, but nothing is wrong", task), "a case without a fault poses detection alone")
		}
		if task == MitigateTask && t.Mitigation == nil {
			r.add(Place{Line: 1}, "poses the task mitigation without saying when it is solved", "write mitigation.conditions")
		}
	}
	if t.Mitigation != nil {
		seen := map[string]bool{}
		for _, c := range t.Mitigation.Conditions {
			if seen[c.ID] {
				r.add(c.Place, "the condition "+quote(c.ID)+" is there twice", "give each its own id")
			}
			seen[c.ID] = true
		}
		if len(t.Mitigation.Conditions) == 0 {
			r.add(Place{Line: 1}, "mitigation.conditions is empty", "write at least one, or delete mitigation")
		}
	}
}
