package tools

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxScripts bounds how deep scripts in scripts are looked at.
const maxScripts = 8

// refuse says why a command isn't run, in AIOpsLab's words where it refuses it, too: what can't end by
// itself, or asks back. Empty: it can be run. This is advice to an agent, and no protection: that is what
// the sandbox is for.
func refuse(command string) string {
	switch {
	case strings.Contains(command, "kubectl edit"), strings.Contains(command, "edit svc"):
		return refusedEdit
	case strings.Contains(command, "kubectl port-forward"):
		return refusedForward
	case strings.Contains(command, "docker logs -f"):
		return refusedDocker
	}
	return refuseScript(command, 0)
}

const (
	refusedEdit    = "Error: Cannot use `kubectl edit`. Use `kubectl patch` instead."
	refusedForward = "Error: Cannot use `kubectl port-forward` because it is an interactive command."
	refusedDocker  = "Error: Cannot use `docker logs -f`. Use `docker logs` instead."
)

func refuseScript(script string, depth int) string {
	if strings.TrimSpace(script) == "" {
		return "Error: the command is empty."
	}
	if len(script) > maxReply || depth > maxScripts {
		return "Error: the command is too long, or has too many scripts in scripts."
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return fmt.Sprintf("Error: this is no shell command: %v", err)
	}
	refusal := ""
	syntax.Walk(file, func(node syntax.Node) bool {
		if refusal != "" {
			return false
		}
		switch n := node.(type) {
		case *syntax.Stmt:
			if n.Background || n.Coprocess {
				refusal = "Error: Cannot use `&`: a command ends before its answer is given, and nothing runs on."
			}
		case *syntax.CallExpr:
			words := make([]string, len(n.Args))
			for i, w := range n.Args {
				words[i] = literal(w)
			}
			refusal = refuseProgram(words, depth)
		}
		return refusal == ""
	})
	return refusal
}

// literal is a word's text; what is expanded in it is left out.
func literal(word *syntax.Word) string {
	var out strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				out.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
			case *syntax.SglQuoted:
				out.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			}
		}
	}
	add(word.Parts)
	return out.String()
}

var (
	// runners run the program that their arguments name; with the options that take the next argument,
	// and how many arguments come before the program.
	runners = map[string]struct {
		valued string
		before int
	}{
		"sudo": {"ugCDhpRTt", 0}, "env": {"uCS", 0}, "nohup": {}, "time": {"of", 0}, "nice": {"n", 0}, "ionice": {"cnp", 0}, "stdbuf": {"ioe", 0},
		"timeout": {"ks", 1}, "xargs": {"adEIiLlnPs", 0}, "command": {}, "exec": {"a", 0}, "builtin": {}, "setsid": {}, "unbuffer": {},
	}
	// interactive are the programs that wait for somebody at a terminal, with what to use instead.
	interactive = map[string]string{
		"vi": "sed", "vim": "sed", "nvim": "sed", "nano": "sed", "emacs": "sed", "pico": "sed", "ed": "sed", "joe": "sed", "mcedit": "sed", "micro": "sed",
		"less": "cat, head or tail", "more": "cat, head or tail", "most": "cat, head or tail", "man": "--help",
		"watch": "the command itself", "htop": "top -b -n 1", "atop": "top -b -n 1", "btop": "top -b -n 1", "k9s": "kubectl",
		"screen": "the command itself", "tmux": "the command itself",
	}
	shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh"}
)

// refuseProgram looks at one command's words.
func refuseProgram(words []string, depth int) string {
	for len(words) > 0 {
		program, rest := path.Base(words[0]), words[1:]
		runner, runs := runners[program]
		if !runs {
			return refuseOne(program, rest, depth)
		}
		before := runner.before
		for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") || program == "env" && strings.Contains(rest[0], "=") || before > 0) {
			if option := rest[0]; len(option) == 2 && option[0] == '-' && strings.Contains(runner.valued, option[1:]) && len(rest) > 1 {
				rest = rest[1:]
			} else if !strings.HasPrefix(option, "-") && !strings.Contains(option, "=") {
				before--
			}
			rest = rest[1:]
		}
		words = rest
	}
	return ""
}

func refuseOne(program string, args []string, depth int) string {
	if instead := interactive[program]; instead != "" {
		return fmt.Sprintf("Error: Cannot use `%s` because it is an interactive command. Use %s instead.", program, instead)
	}
	switch {
	case slices.Contains(shells, program) || program == "eval":
		return refuseShell(program, args, depth)
	case program == "kubectl":
		return refuseKubectl(args)
	case program == "top" && !short(args, 'b', "dnpuUoEe") && !slices.Contains(args, "--batch-mode"):
		return "Error: Cannot use `top` because it is an interactive command. Use `top -b -n 1` instead."
	case program == "docker" || program == "podman" || program == "crictl":
		if i := slices.Index(args, "logs"); i >= 0 && (short(args[i:], 'f', "n") || slices.Contains(args[i:], "--follow")) {
			return strings.ReplaceAll(refusedDocker, "docker", program)
		}
	case program == "tail" && (short(args, 'f', "nc") || short(args, 'F', "nc") || flagged(args, "--follow")),
		program == "journalctl" && (short(args, 'f', "nuptogSUD") || slices.Contains(args, "--follow")):
		return fmt.Sprintf("Error: Cannot use `%s -f` because it doesn't end. Use `%s -n` instead.", program, program)
	}
	return ""
}

// refuseShell looks into the script of a shell that gets one.
func refuseShell(program string, args []string, depth int) string {
	if program == "eval" {
		return refuseScript(strings.Join(args, " "), depth+1)
	}
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return ""
		}
		if !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "c") && i+1 < len(args) && args[i+1] != "" {
			return refuseScript(args[i+1], depth+1)
		}
	}
	return ""
}

// kubectlValued are kubectl's short options with a value.
const kubectlValued = "nolcsLvk"

// refuseKubectl looks at kubectl's arguments.
func refuseKubectl(args []string) string {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end] // what follows is run elsewhere
	}
	verb := ""
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if strings.HasPrefix(arg, "-") {
			if len(arg) == 2 && strings.Contains(kubectlValued+"f", arg[1:]) || strings.HasPrefix(arg, "--") && slices.Contains(kubectlGlobals, arg) {
				i++
			}
			continue
		}
		verb = arg
		args = slices.Delete(slices.Clone(args), i, i+1)
		break
	}
	cannot := func(what, instead string) string {
		return fmt.Sprintf("Error: Cannot use `kubectl %s` because it is an interactive command. Use %s instead.", what, instead)
	}
	switch verb {
	case "edit":
		return refusedEdit
	case "port-forward":
		return refusedForward
	case "attach":
		return cannot("attach", "`kubectl logs`")
	case "proxy":
		return cannot("proxy", "`kubectl get --raw`")
	case "logs", "log":
		if short(args, 'f', kubectlValued) || flagged(args, "--follow") {
			return "Error: Cannot use `kubectl logs -f` because it doesn't end. Use `kubectl logs` instead."
		}
	case "exec":
		if short(args, 't', kubectlValued+"f") || flagged(args, "--tty") {
			return cannot("exec -it", "`kubectl exec POD -- COMMAND`")
		}
	case "get", "events", "top":
		if short(args, 'w', kubectlValued+"f") || flagged(args, "--watch") || flagged(args, "--watch-only") {
			return fmt.Sprintf("Error: Cannot use `kubectl %s --watch` because it doesn't end. Leave --watch out.", verb)
		}
	}
	return ""
}

// kubectlGlobals are kubectl's long options with a value in the next argument that may stand before the
// command.
var kubectlGlobals = []string{
	"--namespace", "--kubeconfig", "--context", "--cluster", "--user", "--server", "--token", "--as", "--as-group", "--request-timeout",
	"--cache-dir", "--certificate-authority", "--client-certificate", "--client-key", "--tls-server-name",
}

// short reports a short option among arguments, alone or with others behind one dash. Options in valued
// take what follows.
func short(args []string, option byte, valued string) bool {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' || arg[1] == '-' {
			continue
		}
		for j := 1; j < len(arg); j++ {
			if arg[j] == option {
				return !strings.HasPrefix(arg[j+1:], "=false")
			}
			if strings.IndexByte(valued, arg[j]) >= 0 {
				if j+1 == len(arg) {
					i++ // the value is the next argument
				}
				break
			}
		}
	}
	return false
}

// flagged reports a long option that isn't switched off.
func flagged(args []string, option string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return name == option && value != "false"
	})
}
