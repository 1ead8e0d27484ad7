package main

import (
	"net/http"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/shims/nodes"
)

// connections answers what reaches through the API server into the captured cluster.
type connections struct{}

// Connect implements apiserver.Connector.
func (connections) Connect(w http.ResponseWriter, req *http.Request, c apiserver.Connection) error {
	if c.Resource == "nodes" {
		return nodes.Serve(w, req, c.Case, c.Clock, c.Name, c.Path)
	}
	return apiserver.NotCaptured{}.Connect(w, req, c)
}
