package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// sandboxVariable is set for what runs in a sandbox.
const sandboxVariable = "KUBECASE_SANDBOX"

// sandboxed are the folders of the system that a program needs to run; what isn't
// there is left out.
var sandboxed = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/hosts", "/etc/resolv.conf", "/etc/python3", "/etc/python3.11"}

func (a *app) newSandbox() *cobra.Command {
	c := &cobra.Command{
		Use:   "sandbox COMMAND...",
		Short: "Run an agent where it sees its episode and nothing else; for use in 'kubecase run'",
		Long: `Run an agent where it sees its episode and nothing else:

  kubecase run shop-nodes -- kubecase sandbox ./agent.sh

The agent gets file-system, process and user namespaces of its own (bubblewrap): the system's programs
read-only, its own folder ($HOME), a private /tmp and the network. It doesn't see the
run's folder, the cases, other agents, or the caller's files; --read shows it more, such as
the folder of its code.

The network stays the host's, so that the agent reaches the cluster's address and its
model. To bound that too, run the agent in a container: the cluster's address is
in $KUBECONFIG; serve it where the container can reach it, and mount the agent's folder:

  kubecase run shop-nodes --address 172.17.0.1 -- \
    docker run --rm -i -e KUBECONFIG -e KUBECASE_QUERY -v "$HOME:$HOME:ro" my-agent

In both cases the answer goes to standard output, or is handed in with 'kubecase submit'.`,
		Example:            "  kubecase run shop-nodes -- kubecase sandbox --read ./agent python3 ./agent/main.py",
		DisableFlagParsing: false,
		Args:               cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, argv []string) error {
			return a.sandbox(argv, a.config.GetStringSlice("read"), a.config.GetBool("print"))
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().StringSlice("read", nil, "show the agent this file or folder, read-only; repeat or separate by commas")
	c.Flags().Bool("print", false, "print the bubblewrap command instead of running it")
	return c
}

// sandbox replaces this process by bubblewrap that runs the agent.
func (a *app) sandbox(argv, read []string, show bool) error {
	args, err := a.sandboxArgs(argv, read)
	if err != nil {
		return err
	}
	if show {
		quoted := make([]string, len(args))
		for i, arg := range args {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		fmt.Fprintf(a.out, "bwrap %s\n", strings.Join(quoted, " "))
		return nil
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return errors.New("bubblewrap is not installed (bwrap): install the package bubblewrap, or run the agent in a container; see 'kubecase sandbox --help'")
	}
	return fmt.Errorf("bwrap: %w", replaceProcess(bwrap, append([]string{"bwrap"}, args...), a.environ))
}

// sandboxArgs are bubblewrap's arguments.
func (a *app) sandboxArgs(argv, read []string) ([]string, error) {
	home, _ := a.lookup("HOME")
	kubeconfig, _ := a.lookup("KUBECONFIG")
	if home == "" || kubeconfig == "" || !strings.HasPrefix(kubeconfig, home+string(filepath.Separator)) {
		return nil, usagef("HOME and KUBECONFIG are not an episode's: use it in 'kubecase run CASE -- kubecase sandbox COMMAND'")
	}
	args := []string{
		"--die-with-parent", "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--hostname", "agent",
		"--setenv", sandboxVariable, "1",
	}
	for _, dir := range sandboxed {
		if target, err := os.Readlink(dir); err == nil && !filepath.IsAbs(target) {
			args = append(args, "--symlink", target, dir)
		} else {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	// Programs of the search path that lie elsewhere, this one among them.
	path, _ := a.lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if dir != "" && !strings.HasPrefix(dir, "/usr/") && !slices.Contains(sandboxed, dir) && !strings.HasPrefix(dir, home) {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args = append(args, "--ro-bind", self, self)
	// An installed kubecase has the shipped cases' truths; the agent's own hasn't.
	for _, dir := range append(filepath.SplitList(path), "/usr/bin", "/usr/local/bin") {
		installed := filepath.Join(dir, "kubecase")
		if info, err := os.Stat(installed); err == nil && info.Mode().IsRegular() && installed != self && !strings.HasPrefix(installed, home) {
			args = append(args, "--ro-bind", self, installed)
		}
	}
	for _, name := range read {
		absolute, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(absolute); err != nil {
			return nil, usagef("--read %s: %w", name, err)
		}
		args = append(args, "--ro-bind", absolute, absolute)
	}
	args = append(args, "--bind", home, home, "--chdir", agentFolder(home), "--")
	return append(args, argv...), nil
}
