package mitigation

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is one kubectl command of a repair.
type Command struct {
	// Args are kubectl's arguments.
	Args []string
	// Stdin is what it reads: a here-document, or what echo, printf or cat wrote to its pipe.
	Stdin string
}

const (
	// maxCommands bounds a repair, maxText the text of all its commands, in bytes.
	maxCommands, maxText = 200, 1 << 20
)

// verbs are the kubectl commands that a repair may use.
var verbs = []string{
	"annotate", "apply", "autoscale", "cordon", "create", "delete", "drain", "expose", "get", "label", "patch", "replace", "rollout",
	"run", "scale", "set", "taint", "uncordon",
}

// forbiddenFlags would lead kubectl to other servers, files or programs.
var forbiddenFlags = []string{
	"--kubeconfig", "--server", "--context", "--cluster", "--user", "--token", "--as", "--as-group", "--as-uid", "--username", "--password",
	"--certificate-authority", "--client-certificate", "--client-key", "--tls-server-name", "--proxy-url", "--cache-dir", "--profile-output",
	"--kustomize", "--patch-file", "--from-file", "--from-env-file", "--cert", "--key", "--template", "--edit", "--attach", "--stdin", "--tty",
	"--watch", "--watch-only", "--raw", "--prune", "--prune-allowlist", "--kuberc", "--subresource-file", "--vmodule", "--log-file",
}

// ParseCommands reads shell text as kubectl commands. It runs nothing: words must be
// literal, and what isn't kubectl, or text that is piped into kubectl, is an
// error that says so.
func ParseCommands(text string) ([]Command, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the commands have %d bytes, more than %d", len(text), maxText)
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, fmt.Errorf("not a shell command: %w", err)
	}
	var out []Command
	for _, statement := range file.Stmts {
		commands, err := parseStatement(statement, "")
		if err != nil {
			return nil, err
		}
		if out = append(out, commands...); len(out) > maxCommands {
			return nil, fmt.Errorf("more than %d commands", maxCommands)
		}
	}
	return out, nil
}

func parseStatement(s *syntax.Stmt, stdin string) ([]Command, error) {
	for _, r := range s.Redirs {
		if r.Hdoc == nil {
			if r.Op == syntax.RdrOut || r.Op == syntax.DplOut {
				continue // what is printed doesn't matter
			}
			return nil, errors.New("input from files isn't known here: use a here-document")
		}
		text, err := literal(r.Hdoc)
		if err != nil {
			return nil, err
		}
		stdin = text
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		switch c.Op {
		case syntax.AndStmt, syntax.OrStmt:
			left, err := parseStatement(c.X, "")
			if err != nil {
				return nil, err
			}
			right, err := parseStatement(c.Y, "")
			return append(left, right...), err
		case syntax.Pipe:
			text, err := writtenBy(c.X)
			if err != nil {
				return nil, err
			}
			return parseStatement(c.Y, text)
		}
	case *syntax.CallExpr:
		words, err := literals(c.Args)
		if err != nil {
			return nil, err
		}
		if len(words) == 0 {
			return nil, nil
		}
		if path.Base(words[0]) != "kubectl" {
			return nil, fmt.Errorf("%q is not kubectl: a repair is made of kubectl commands and patches", words[0])
		}
		if err := checkArgs(words[1:]); err != nil {
			return nil, err
		}
		return []Command{{Args: words[1:], Stdin: stdin}}, nil
	case nil:
		return nil, nil
	}
	return nil, errors.New("only plain kubectl commands, && and pipes of literal text into them are known here")
}

// writtenBy is what the left side of a pipe writes: echo, printf or cat of literal text.
func writtenBy(s *syntax.Stmt) (string, error) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return "", errors.New("only echo, printf or cat of literal text can be piped into kubectl here")
	}
	words, err := literals(call.Args)
	if err != nil {
		return "", err
	}
	switch {
	case len(words) == 1 && words[0] == "cat" && len(s.Redirs) == 1 && s.Redirs[0].Hdoc != nil:
		return literal(s.Redirs[0].Hdoc)
	case len(words) > 1 && words[0] == "echo" && len(s.Redirs) == 0:
		if words[1] == "-e" || words[1] == "-n" {
			words = words[1:]
		}
		return strings.Join(words[1:], " ") + "\n", nil
	case len(words) == 2 && words[0] == "printf" && len(s.Redirs) == 0:
		return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `%%`, "%").Replace(words[1]), nil
	}
	return "", errors.New("only echo, printf or cat of literal text can be piped into kubectl here")
}

func literals(words []*syntax.Word) ([]string, error) {
	var out []string
	for _, w := range words {
		text, err := literal(w)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// literal is a word without expansions.
func literal(w *syntax.Word) (string, error) {
	var b strings.Builder
	var walk func(parts []syntax.WordPart, quoted bool) error
	walk = func(parts []syntax.WordPart, quoted bool) error {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(unescape(p.Value, quoted))
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				if err := walk(p.Parts, true); err != nil {
					return err
				}
			default:
				return errors.New("variables and substitutions aren't known here: write the words out")
			}
		}
		return nil
	}
	err := walk(w.Parts, false)
	return b.String(), err
}

func unescape(text string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.ContainsRune("\"\\$`\n", rune(text[i+1]))) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// checkArgs refuses what reaches beyond the overlay.
func checkArgs(args []string) error {
	verb := ""
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			break
		}
		name, value, given := strings.Cut(arg, "=")
		if !strings.HasPrefix(arg, "-") {
			if verb == "" {
				verb = arg
			}
			continue
		}
		if strings.HasPrefix(arg, "-s") && !strings.HasPrefix(arg, "--") || slices.Contains(forbiddenFlags, name) ||
			arg == "-k" || arg == "-i" || arg == "-t" || arg == "-it" || arg == "-w" {
			return fmt.Errorf("kubectl %s can't be used in a repair", name)
		}
		switch {
		case name == "--filename" || name == "-f":
			if !given && i+1 < len(args) {
				i++
				value = args[i]
			}
			if value != "-" {
				return errors.New("files aren't known here: give the manifest with -f - and a here-document")
			}
		case strings.HasPrefix(arg, "-f") && !strings.HasPrefix(arg, "--") && arg != "-f-":
			return errors.New("files aren't known here: give the manifest with -f - and a here-document")
		case !given && (name == "-n" || name == "--namespace" || name == "-l" || name == "--selector" || name == "-p" || name == "--patch" ||
			name == "--type" || name == "--replicas" || name == "-o" || name == "--output" || name == "-c" || name == "--containers"):
			i++
			if (name == "-o" || name == "--output") && i < len(args) && strings.Contains(args[i], "file") {
				return errors.New("files aren't known here")
			}
		case (name == "-o" || name == "--output" || strings.HasPrefix(arg, "-o")) && strings.Contains(arg, "file"):
			return errors.New("files aren't known here")
		}
	}
	if !slices.Contains(verbs, verb) {
		return fmt.Errorf("kubectl %s is no part of a repair; known are %s", verb, strings.Join(verbs, ", "))
	}
	return nil
}

// PatchCommand is the kubectl command of a patch that was given as JSON: a whole
// manifest is applied; else it is {"type": "deployments", "namespace": …, "name": …,
// "patch": …, "patchType": "strategic"|"merge"|"json"}.
func PatchCommand(raw json.RawMessage) (Command, error) {
	manifest := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}{}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return Command{}, fmt.Errorf("a patch is a JSON object: %w", err)
	}
	if manifest.APIVersion != "" && manifest.Kind != "" {
		return Command{Args: []string{"apply", "--server-side", "--force-conflicts", "--field-manager=repair", "-f", "-"}, Stdin: string(raw)}, nil
	}
	p := struct {
		Type, Namespace, Name, PatchType string
		Patch                            json.RawMessage
	}{}
	if err := json.Unmarshal(raw, &p); err != nil {
		return Command{}, fmt.Errorf("a patch has type, namespace, name, patchType and patch: %w", err)
	}
	if p.Type == "" || p.Name == "" || len(p.Patch) == 0 {
		return Command{}, errors.New("a patch has a type, a name and a patch, or is a whole manifest with apiVersion and kind")
	}
	if p.PatchType == "" {
		p.PatchType = "strategic"
		if strings.HasPrefix(strings.TrimSpace(string(p.Patch)), "[") {
			p.PatchType = "json"
		}
	}
	args := []string{"patch", p.Type, p.Name, "--type=" + p.PatchType, "--patch=" + string(p.Patch)}
	if p.Namespace != "" {
		args = append(args, "--namespace="+p.Namespace)
	}
	return Command{Args: args}, checkArgs(args)
}
