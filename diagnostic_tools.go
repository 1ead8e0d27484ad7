package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/kubeconfigs"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/alerts"
	"github.com/kubecase/kubecase/shims/tools"
)

const (
	// toolsPrefix is where the diagnostic tools are below an episode's URL.
	toolsPrefix = "/tools"
	// toolTimeout and toolOutput bound one run of kubectl for a tool.
	toolTimeout = 30 * time.Second
	toolOutput  = 8 << 20
	// kubectlThrough begins the name of the kubectl by which a tool is answered that is on
	// record itself.
	kubectlThrough = "kubectl-through-"
	// throughVariable tells the built-in kubectl its name.
	throughVariable = "KUBECASE_KUBECTL_NAME"
)

// diagnosticTools are the twelve tools of an episode: what kubectl prints is printed by the built-in
// one, as a process of its own that asks as the episode's agent does.
func (a *app) diagnosticTools(s *serving, c *fixtures.Case, e *apiserver.Episode) *tools.Server {
	return tools.New(tools.Options{
		Case: c, Clock: e.Clock,
		Kubectl: func(ctx context.Context, args ...string) (tools.Printed, error) {
			name := "kubectl"
			// What it asks for a tool that is on record itself is part of that use.
			if x := recorder.FromContext(ctx); x.Annotation(recorder.KeyTool) != "" {
				if name = x.Annotation(recorder.KeyThrough); name == "" {
					name = kubectlThrough + rand.Text()
					x.Annotate(recorder.KeyThrough, name)
				}
			}
			return a.kubectlForTool(ctx, name, kubeconfigs.Access{Server: s.url + e.Path(), Token: e.Token, CA: s.ca}, args)
		},
		Dependencies: func() ([]tools.Call, error) { return s.services.dependencies(c, e.Clock) },
		Record: func(ctx context.Context, tool string, arguments map[string]string) {
			x := recorder.FromContext(ctx)
			if x == nil {
				return // nothing is recorded
			}
			text, err := json.Marshal(arguments)
			if err != nil {
				return // strings can always be written
			}
			x.Annotate(recorder.KeyTool, tool)
			x.Annotate(recorder.KeyArgs, string(text))
			if tool == string(recorder.GetAlerts) {
				// Where none were captured, the answer says so.
				if listed, err := alerts.Listed(c, e.Clock); err == nil {
					x.Annotate(recorder.KeyAlerts, string(listed))
				}
			}
		},
	})
}

// kubectlForTool runs kubectl under a name, with which it says who asks.
func (a *app) kubectlForTool(ctx context.Context, name string, access kubeconfigs.Access, args []string) (p tools.Printed, err error) {
	program, err := os.Executable()
	if err != nil {
		return p, err
	}
	home, err := os.MkdirTemp(a.tempDir, "tools-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	bin, err := programFolder(home, program, "kubectl")
	if err != nil {
		return p, err
	}
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := kubeconfigs.Write(kubeconfig, access); err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(bin, "kubectl"), args...)
	command.Env = []string{throughVariable + "=" + name, "KUBECONFIG=" + kubeconfig, "HOME=" + home, "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	command.Dir = home
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return p, fmt.Errorf("kubectl took longer than %s", toolTimeout)
	case errors.As(err, &exit):
		p.ExitCode = exit.ExitCode()
	case err != nil:
		return p, err
	}
	if stdout.Len() > toolOutput {
		return p, fmt.Errorf("kubectl printed more than %d bytes: ask for less", toolOutput)
	}
	p.Stdout, p.Stderr = stdout.String(), stderr.String()
	return p, nil
}
