// Command kubectl is Kubernetes' own client. The conformance tests build it at
// the version in go.mod, so that a machine with nothing but Go replays the
// recorded transcripts with the same client that made them.
//
// The recorded one is the Cloud SDK's build. Unlike upstream's main it leaves
// it to cli.Run to print errors of the command line, which reads "Error:"
// instead of "error:".
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as upstream's main does
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
