package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/connectivity"
	"github.com/kubecase/kubecase/shims/nodes"
)

// connections answers what reaches through the API server into the captured cluster.
type connections struct {
	// site is what answers over HTTP at a port besides what was captured of it.
	site connectivity.Site
}

// Connect implements apiserver.Connector.
func (n connections) Connect(w http.ResponseWriter, req *http.Request, c apiserver.Connection) error {
	target := targetOf(c)
	proxied := connectivity.Proxied{Case: c.Case, Clock: c.Clock, Namespace: c.Namespace, Name: c.Name, Path: c.Path, Site: n.site}
	switch c.Resource + "/" + c.Subresource {
	case "nodes/proxy":
		return nodes.Serve(w, req, c.Case, c.Clock, c.Name, c.Path)
	case "services/proxy":
		proxied.Kind = "Service"
		return connectivity.Proxy(w, req, proxied)
	case "pods/proxy":
		proxied.Kind = "Pod"
		return connectivity.Proxy(w, req, proxied)
	case "pods/exec":
		return connectivity.Exec(w, req, target, func(run connectivity.Run) { recordRun(req.Context(), run) })
	case "pods/attach":
		if c.Debugging != nil {
			return connectivity.AttachDebug(w, req, target, func(run connectivity.Run) { recordRun(req.Context(), run) }, c.Ended)
		}
		return connectivity.Attach(w, req, target)
	case "pods/portforward":
		return connectivity.PortForward(w, req, target, n.site)
	}
	return apiserver.NotCaptured{}.Connect(w, req, c)
}

func targetOf(c apiserver.Connection) connectivity.Target {
	return connectivity.Target{Case: c.Case, Clock: c.Clock, Namespace: c.Namespace, Pod: c.Name, Container: c.Container, Of: c.Debugging}
}

// Debug implements apiserver.Debugger.
func (connections) Debug(ctx context.Context, c apiserver.Connection, output io.Writer) (exitCode int, ended bool) {
	code, ended, err := connectivity.Debug(ctx, targetOf(c), output)
	if err != nil {
		fmt.Fprintln(output, err)
		return connectivity.NotCapturedCode, true
	}
	return code, ended
}

// recordRun puts on record what a command in a container came to.
func recordRun(ctx context.Context, run connectivity.Run) {
	x := recorder.FromContext(ctx)
	x.Annotate(recorder.KeyOutput, run.Output)
	x.Annotate(recorder.KeyExitCode, strconv.Itoa(run.ExitCode))
	if run.NotCaptured {
		x.Annotate(recorder.KeyNotCaptured, "true")
	}
}
