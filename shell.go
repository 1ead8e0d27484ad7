package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) newShell() *cobra.Command {
	c := &cobra.Command{
		Use:   "shell CASE [-- COMMAND...]",
		Short: "Open a shell in which kubectl talks to a case",
		Long: `Serve a case and open a shell in which KUBECONFIG is set and the prompt says so.
Where no kubectl is installed, the built-in one is found by that name. The
case is served until the shell ends. With a COMMAND, that is run instead.`,
		Example:           "  kubecase shell shop-outage\n  kubecase shell shop-outage -- kubectl get pods -n shop",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash != 1 && (dash >= 0 || len(args) > 1) {
				return usagef("one CASE is expected, then -- before a command; see 'kubecase shell --help'")
			}
			o, err := a.servingOptions()
			if err != nil {
				return err
			}
			s, err := a.startServing(o, args[:1])
			if err != nil {
				return err
			}
			err = a.runShell(s, args[1:])
			return errors.Join(err, s.stop())
		},
	}
	addServingFlags(c, 0)
	return c
}

// runShell runs a command, or the user's shell, with the case's environment.
func (a *app) runShell(s *serving, argv []string) error {
	v := s.served[0]
	name := v.fixture.Manifest().Name
	dir, err := os.MkdirTemp(a.tempDir, "shell-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	env := append(a.environ, "KUBECONFIG="+v.kubeconfig)
	env = append(env, s.services.variables(v.fixture, s.plain.url, v.episode)...)
	if _, err := exec.LookPath("kubectl"); err != nil {
		if env, err = withBuiltInKubectl(env, dir, a.lookup); err != nil {
			return err
		}
	}
	interactive := len(argv) == 0
	if interactive {
		if argv, env, err = a.shellWithPrompt(dir, "(kubecase "+name+") ", env); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "%s: %s\n\n%s\nkubectl talks to this case. Leave with 'exit'.\n",
			name, v.fixture.Manifest().Title, v.fixture.Manifest().Query)
	}
	child := exec.Command(argv[0], argv[1:]...)
	child.Env, child.Stdin, child.Stdout, child.Stderr = env, a.in, a.out, a.err
	err = child.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if interactive {
			return nil // the code of the shell's last command says nothing of the shell
		}
		return exitError{exit.ExitCode()}
	}
	return err
}

// withBuiltInKubectl puts a kubectl that is this program first in PATH.
func withBuiltInKubectl(env []string, dir string, lookup func(string) (string, bool)) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(self, filepath.Join(bin, "kubectl")); err != nil {
		return nil, err
	}
	path, _ := lookup("PATH")
	return append(env, "PATH="+bin+string(os.PathListSeparator)+path), nil
}

// shellWithPrompt returns the command that starts the user's shell with a prompt
// that names the case. Shells other than bash and zsh get it through PS1.
func (a *app) shellWithPrompt(dir, prompt string, env []string) ([]string, []string, error) {
	shell, ok := a.lookup("SHELL")
	if !ok || shell == "" {
		shell = "/bin/sh"
	}
	quoted := "'" + strings.ReplaceAll(prompt, "'", `'\''`) + "'"
	switch filepath.Base(shell) {
	case "bash":
		rc := filepath.Join(dir, "bashrc")
		script := "[ -f ~/.bashrc ] && . ~/.bashrc\nPS1=" + quoted + "\"$PS1\"\n"
		return []string{shell, "--rcfile", rc, "-i"}, env, os.WriteFile(rc, []byte(script), 0o600)
	case "zsh":
		script := "[ -f ~/.zshrc ] && . ~/.zshrc\nPROMPT=" + quoted + "\"$PROMPT\"\n"
		return []string{shell, "-i"}, append(env, "ZDOTDIR="+dir), os.WriteFile(filepath.Join(dir, ".zshrc"), []byte(script), 0o600)
	}
	return []string{shell}, append(env, "PS1="+prompt+"$ "), nil
}
