// Command kubectl is Kubernetes' own client, as k8s.io/kubernetes/cmd/kubectl
// builds it. The conformance tests build it at the version in go.mod, so that
// a machine with nothing but Go replays the recorded transcripts with the same
// client that made them.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as upstream's main does
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// The verbosity is needed before cli parses the flags: building the
	// command already logs.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	command := cmd.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err)
	}
}
