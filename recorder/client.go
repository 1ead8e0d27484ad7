package recorder

import (
	"slices"
	"strings"
)

// Source is whose handler answered; a record without it is of the Kubernetes API.
func (r *Request) Source() string {
	if s := r.Annotations[KeySource]; s != "" {
		return s
	}
	return Kubernetes
}

// Method is the HTTP method; where the record doesn't say, that which the verb implies.
func (r *Request) Method() string {
	if m := r.Annotations[KeyMethod]; m != "" {
		return m
	}
	switch r.Verb {
	case "get", "list", "watch":
		return "GET"
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		return "PATCH"
	case "delete", "deletecollection":
		return "DELETE"
	}
	return strings.ToUpper(r.Verb)
}

// client is the program as it names itself: the user agent's first word, without
// path and version.
func (r *Request) client() string {
	if r.Annotations[KeySession] != "" || r.Annotations[KeyCommand] != "" {
		return "kubectl"
	}
	word, _, _ := strings.Cut(r.UserAgent, " ")
	word, _, _ = strings.Cut(word, "/")
	if word == "" {
		return "unknown"
	}
	return word
}

// How a client's requests make calls.
type habit int

const (
	// each data request is a call, its pages, watch and retries included.
	eachQuery habit = iota
	// each HTTP request is a call: curl.
	eachRequest
	// what one run of the program asks, up to a quiet gap, is one call.
	wholeRun
)

// clientHabits are the programs that aren't API clients which decide query by query.
var clientHabits = map[string]habit{
	"curl": eachRequest, "Wget": eachRequest, "HTTPie": eachRequest, "xh": eachRequest,
	"kubectl": wholeRun, "git": wholeRun, "stern": wholeRun, "helm": wholeRun, "Helm": wholeRun, "kubetail": wholeRun, "aiopslab": wholeRun,
}

func (r *Request) habit() habit {
	name := r.client()
	if strings.HasPrefix(name, "kubectl-") {
		return wholeRun // a plugin
	}
	return clientHabits[name]
}

// verbs that change something.
var writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

// connectSubresources are streams: created with POST, they change nothing by themselves.
var connectSubresources = []string{"exec", "attach", "portforward", "proxy"}

// isReview reports a question about rights or identity, which is asked with POST.
func (r *Request) isReview() bool {
	return r.ObjectRef != nil && strings.HasSuffix(r.ObjectRef.Resource, "reviews") &&
		(r.ObjectRef.APIGroup == "authorization.k8s.io" || r.ObjectRef.APIGroup == "authentication.k8s.io")
}

// isConnect reports a request for a stream into a container.
func (r *Request) isConnect() bool {
	return r.ObjectRef != nil && r.ObjectRef.Resource == "pods" && slices.Contains([]string{"exec", "attach", "portforward"}, r.ObjectRef.Subresource)
}

// isRefusedWebSocket reports an attempt after which Kubernetes' clients try SPDY: any
// answer to a request for a WebSocket that opens none.
func (r *Request) isRefusedWebSocket() bool {
	return r.Method() == "GET" && r.Status() != 101
}

func (r *Request) isWrite() bool {
	if r.Source() != Kubernetes || r.isReview() {
		return false
	}
	if r.ObjectRef == nil {
		return false
	}
	return slices.Contains(writeVerbs, r.Verb) && !slices.Contains(connectSubresources, r.ObjectRef.Subresource)
}

// isHousekeeping reports what clients ask on their own account: discovery,
// OpenAPI, versions, health, rights, leader election.
func (r *Request) isHousekeeping() bool {
	if r.Source() == Tools {
		// Handshakes and lists, or a use of which kubectl's requests tell.
		return r.Annotations[KeyTool] == "" && r.Status() < 400
	}
	if r.client() == "git" && r.Source() != Kubernetes {
		// A clone is its packs; what looks for them, or asks in vain for loose objects, is no
		// call. A repository that isn't there is known by its refs.
		missed := r.Status() >= 400 && r.Status() != 401 && strings.HasSuffix(r.path, gitRefs)
		return !strings.HasSuffix(r.path, ".pack") && !missed
	}
	if r.Source() != Kubernetes {
		return r.Annotations[KeyTool] == "" && shimHousekeeping(r.path)
	}
	if r.ObjectRef == nil || r.ObjectRef.Resource == "" {
		return true
	}
	if r.isReview() {
		return true
	}
	return r.ObjectRef.Resource == "leases" && r.ObjectRef.APIGroup == "coordination.k8s.io" &&
		(strings.Contains(r.UserAgent, "leader-election") || strings.Contains(r.UserAgent, "leaderelection"))
}

// gitRefs is what git asks for first, of each repository.
const gitRefs = "/info/refs"

// shimHousekeeping are the questions with which Prometheus' and Alertmanager's
// clients find out what they talk to.
func shimHousekeeping(path string) bool {
	for _, suffix := range []string{"/-/healthy", "/-/ready", "/api/v1/status/buildinfo", "/api/v1/status/runtimeinfo", "/api/v2/status", "/favicon.ico"} {
		if strings.HasSuffix(path, suffix) {
			return true
		}
	}
	return false
}

// isHealth reports a question about the API server's own health.
func (r *Request) isHealth() bool {
	for _, root := range []string{"/healthz", "/livez", "/readyz"} {
		if rest, ok := strings.CutPrefix(r.path, root); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// retryable reports an answer after which clients ask again.
func (r *Request) retryable() bool {
	code := r.Status()
	return code == 0 || code == 410 || code == 429 || code >= 500 && code != 501 || r.Annotations[KeyAborted] != ""
}
