package main

import (
	"fmt"

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
arguments, environment and exit codes. It reads KUBECONFIG as kubectl does.`,
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

// kubectl runs Kubernetes' kubectl. Like kubectl itself, it exits the process
// on an error of the command it runs.
func (a *app) kubectl(args []string) int {
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
