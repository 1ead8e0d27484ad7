package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/connectivity"
	"github.com/kubecase/kubecase/shims/nodes"
)

// connections answers what reaches through the API server into the captured cluster.
type connections struct {
	// services are what answers over HTTP at a port besides what was captured of it.
	services services
}

// Connect implements apiserver.Connector.
func (n connections) Connect(w http.ResponseWriter, req *http.Request, c apiserver.Connection) error {
	target := targetOf(c)
	proxied := connectivity.Proxied{Case: c.Case, Clock: c.Clock, Namespace: c.Namespace, Name: c.Name, Path: c.Path, Site: n.services.site}
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
		return connectivity.PortForward(w, req, target, n.forwarding(recorder.FromContext(req.Context()), c))
	}
	return apiserver.NotCaptured{}.Connect(w, req, c)
}

// forwarding puts on record what goes through a port-forward, which the exchange is.
func (n connections) forwarding(x *recorder.Exchange, c apiserver.Connection) connectivity.Forwarding {
	return connectivity.Forwarding{
		Site: n.services.recordedSite(x),
		Page: func(h http.Handler, port string) http.Handler {
			args, _ := json.Marshal(map[string]string{"namespace": c.Namespace, "pod": c.Name, "port": port}) // strings always encode
			return x.Through(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				page := recorder.FromContext(req.Context())
				page.Annotate(recorder.KeyTool, string(recorder.CheckConnectivity))
				page.Annotate(recorder.KeyArgs, string(args))
				h.ServeHTTP(w, req)
			}), recorder.Source{Name: recorder.Forwarded})
		},
		Ended: func(f connectivity.Forwarded) {
			x.Annotate(recorder.KeyPort, strings.Join(f.Ports, ","))
			x.Annotate(recorder.KeyAnswers, strconv.Itoa(f.Answers))
			if f.Answers == 0 && f.Refused > 0 {
				x.Annotate(recorder.KeyNotCaptured, "true")
			}
		},
	}
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
