// Command kubecase replays captured Kubernetes incidents: real kubectl, and any
// other client, investigates a case as if it were the cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{
		args: os.Args[1:], in: os.Stdin, out: os.Stdout, err: os.Stderr,
		environ: os.Environ(), lookup: os.LookupEnv, tempDir: os.TempDir(),
	}
	// A shell that kubecase started finds kubectl in its PATH by this name.
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "kubectl" {
		a.args, a.calledKubectl = append([]string{"kubectl"}, a.args...), true
	}
	code := a.run(ctx)
	stop()
	os.Exit(code)
}
