package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	// The auth plugins that kubectl itself is built with.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

// newKubectl is only what help and completion see; run calls kubectl before
// cobra does, because every flag behind the name is kubectl's own.
func (a *app) newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [ARGUMENTS...]",
		Short: "Run the kubectl that is built in",
		Long: `Run the kubectl that is built in: Kubernetes' own code, with kubectl's own
arguments, environment and exit codes. It needs to be told which cluster is
meant, by KUBECONFIG or a flag: the user's own kubeconfig is never read.`,
		Example:            "  kubecase kubectl get pods -A\n  kubecase kubectl describe pod -n shop",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := a.kubectl(args); code != exitOK {
				return exitError{code}
			}
			return nil
		},
	}
}

// withoutCluster are kubectl's commands that reach no cluster.
var withoutCluster = []string{"completion", "help", "kustomize", "options", "plugin", "version", "__complete", "__completeNoDesc"}

// namesCluster reports whether kubectl was told which cluster is meant. Without
// it, it would take the one of the user's own kubeconfig, which is no case.
func (a *app) namesCluster(args []string) bool {
	if path, ok := a.lookup("KUBECONFIG"); ok && path != "" {
		return true
	}
	return len(args) == 0 || slices.Contains(withoutCluster, args[0]) || slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains([]string{"--kubeconfig", "--server", "-s", "--help", "-h"}, name)
	})
}

// kubectl runs Kubernetes' kubectl. Like kubectl itself, it exits the process
// on an error of the command it runs.
func (a *app) kubectl(args []string) int {
	if !a.namesCluster(args) {
		fmt.Fprintln(a.err, "kubecase: KUBECONFIG is not set, and the user's own is never read: copy the export line that 'kubecase serve' prints, or use 'kubecase shell CASE'")
		return exitUsage
	}
	// kubectl handles signals where it means to, and else they end it.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	stampKubectl()
	if name, ok := a.lookup(throughVariable); ok && strings.HasPrefix(name, "kubectl") {
		os.Args[0] = name // client-go takes the user agent's name from it
	}
	streams := genericiooptions.IOStreams{In: a.in, Out: a.out, ErrOut: a.err}
	command := kubectlcmd.NewDefaultKubectlCommandWithArgs(kubectlcmd.KubectlOptions{
		PluginHandler: kubectlcmd.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     append([]string{"kubectl"}, args...),
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().
			WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams),
		IOStreams: streams,
	})
	command.SetArgs(args)
	if err := cli.RunNoErrOutput(command); err != nil {
		// Prints the error in kubectl's words and exits with its code.
		kubectlutil.CheckErr(err)
		fmt.Fprintln(a.err, err)
		return exitFailure
	}
	return exitOK
}
