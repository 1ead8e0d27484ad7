package connectivity

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// Site finds what else answers over HTTP at a port of a pod or a service, such as a
// captured Prometheus; nil for none.
type Site func(c *fixtures.Case, k clock.Clock, kind, namespace, name, port string) http.Handler

// Proxied is what a request to a proxy of the API server asks for.
type Proxied struct {
	Case  *fixtures.Case
	Clock clock.Clock
	// Kind is "Service" or "Pod", Name perhaps with scheme and port, as in the path.
	Kind, Namespace, Name string
	// Path behind "proxy", with its leading slash; empty for none.
	Path string
	Site Site
}

// Proxy answers a request to the proxy of a service or a pod with captured HTTP. The errors are
// the API server's where the objects decide, else say what wasn't captured.
func Proxy(w http.ResponseWriter, req *http.Request, p Proxied) error {
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(p.Name)
	if !valid {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", strings.ToLower(p.Kind), p.Name))
	}
	if p.Path == "" {
		w.Header().Set("Location", "proxy/")
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	}
	if p.Kind == "Service" {
		s, err := decode[corev1.Service](p.Case, services, p.Namespace, name)
		if err != nil {
			return err
		}
		if s == nil {
			return apierrors.NewNotFound(services.GroupResource(), name)
		}
		if port, err = servicePortName(newNetwork(p.Case, p.Namespace, &corev1.Pod{}), s, p.Name, port); err != nil {
			return err
		}
	}
	if p.Site != nil {
		if h := p.Site(p.Case, p.Clock, p.Kind, p.Namespace, name, port); h != nil {
			req = req.Clone(req.Context())
			req.URL.Path, req.URL.RawPath = p.Path, ""
			h.ServeHTTP(w, req)
			return nil
		}
	}
	answer, body, err := findAnswer(p.Case, p.Clock, func(a *fixtures.HTTPAnswer) bool {
		u := *req.URL
		u.Path = p.Path
		return a.Kind == p.Kind && a.Namespace == p.Namespace && a.Name == name && cmp.Or(a.Scheme, "http") == cmp.Or(scheme, "http") &&
			samePort(p.Case, a, port) && (a.Method == "" || a.Method == req.Method) && samePath(a, &u)
	})
	if err != nil {
		return err
	}
	if answer == nil {
		return fmt.Errorf("what the %s %q answers at %q was not captured%s", strings.ToLower(p.Kind), p.Name, p.Path, p.Case.WhyNot("probes"))
	}
	answer.Send(w, body)
	return nil
}

// samePort compares a captured port, by number or name, with the one that is asked for.
func samePort(c *fixtures.Case, a *fixtures.HTTPAnswer, port string) bool {
	if a.Port == port {
		return true
	}
	if a.Kind == "Pod" {
		return podPort(c, a, a.Port) == podPort(c, a, port)
	}
	s, err := decode[corev1.Service](c, services, a.Namespace, a.Name)
	if err != nil || s == nil {
		return false
	}
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Name == port && (strconv.Itoa(int(p.Port)) == a.Port || p.Name == a.Port || a.Port == "")
	})
}

// unreached reports what the API server's proxy said when it reached nothing behind it: an
// answer of the proxy, and none of a pod's.
func unreached(a *fixtures.HTTPAnswer) bool {
	var status struct{ Kind, Message string }
	return a.Status >= http.StatusInternalServerError && strings.HasPrefix(a.Body, "{") && json.Unmarshal([]byte(a.Body), &status) == nil &&
		status.Kind == "Status" && strings.HasPrefix(status.Message, "error trying to reach service")
}

// podPort is the port that none means: the first that a container of the pod declares, else
// that of HTTP (pkg/registry/core/pod/strategy.go, ResourceLocation).
func podPort(c *fixtures.Case, a *fixtures.HTTPAnswer, port string) string {
	if port != "" {
		return port
	}
	if pod, err := decode[corev1.Pod](c, pods, a.Namespace, a.Name); err == nil && pod != nil {
		for i := range pod.Spec.Containers {
			if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
				return strconv.Itoa(int(ports[0].ContainerPort))
			}
		}
	}
	return "80"
}

// servicePortName finds the name of the port that an id means, and refuses as the API server
// does (pkg/registry/core/service/storage/storage.go, ResourceLocation).
func servicePortName(n *network, s *corev1.Service, id, port string) (string, error) {
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
		if i < 0 {
			return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, s.Name))
		}
		port = s.Spec.Ports[i].Name
	}
	ready, decided := n.endpoints(s)
	if !decided {
		return "", fmt.Errorf("the endpoints of the service %q were not captured", s.Name)
	}
	if len(ready) == 0 && !n.hasEndpoints(s) {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", s.Name))
	}
	if len(ready) == 0 || !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port }) {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", id))
	}
	return port, nil
}

// hasEndpoints reports whether a service has endpoints, ready or not.
func (n *network) hasEndpoints(s *corev1.Service) bool {
	r := n.fixture.Resource(endpointSlices)
	return r != nil && slices.ContainsFunc(r.Objects, func(o *fixtures.Object) bool {
		return o.Namespace == s.Namespace && o.Labels[discoveryv1.LabelServiceName] == s.Name && strings.Contains(string(o.Raw), `"addresses":`)
	})
}

// Forwarding says what a port-forward is part of. Its functions may be nil.
type Forwarding struct {
	// Site is what answers besides captured HTTP.
	Site Site
	// Page is put around what answers captured HTTP at a port.
	Page func(h http.Handler, port string) http.Handler
	// Ended is called with what came through, once nothing can come any more.
	Ended func(Forwarded)
}

// Forwarded is what came through a port-forward.
type Forwarded struct {
	// Ports are those that were connected to, in this order.
	Ports []string
	// Answers is the number of HTTP answers, Refused that of connections and questions of which
	// nothing was captured.
	Answers, Refused int
}

// PortForward serves a pod's ports to kubectl port-forward: those whose HTTP was captured.
func PortForward(w http.ResponseWriter, req *http.Request, t Target, of Forwarding) error {
	pod, err := decode[corev1.Pod](t.Case, pods, t.Namespace, t.Pod)
	if err != nil {
		return err
	}
	if pod == nil {
		return apierrors.NewNotFound(pods.GroupResource(), t.Pod)
	}
	f := &forwarder{Target: t, pod: pod, of: of, remote: req.RemoteAddr}
	if of.Ended != nil {
		defer func() { of.Ended(f.came()) }()
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		options := &portforward.V4Options{}
		for _, port := range req.URL.Query()["ports"] {
			if n, err := strconv.ParseInt(port, 10, 32); err == nil && n > 0 && n < 65536 {
				options.Ports = append(options.Ports, int32(n))
			}
		}
		portforward.ServePortForward(w, req, f, t.Pod, "", options, idleTimeout, creationTimeout, portforward.SupportedProtocols)
	})
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(req) {
		proxy.NewTunnelingHandler(serve).ServeHTTP(w, req)
		return nil
	}
	serve.ServeHTTP(w, req)
	return nil
}

type forwarder struct {
	Target
	pod    *corev1.Pod
	of     Forwarding
	remote string

	mu      sync.Mutex
	through Forwarded
}

// note changes what came through.
func (f *forwarder) note(change func(*Forwarded)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.through)
}

// came is what came through so far.
func (f *forwarder) came() Forwarded {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.through
	out.Ports = slices.Clone(out.Ports)
	return out
}

// maxPorts are the ports of one port-forward that are told of.
const maxPorts = 64

// PortForward implements portforward.PortForwarder: one connection to a port. It speaks
// HTTP, of which the case has answers, or ends with what wasn't captured.
func (f *forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) (err error) {
	defer stream.Close()
	defer func() {
		// Nobody else catches what a handler aborts an answer with.
		if p := recover(); p != nil {
			err = fmt.Errorf("port %d of pod %q: the answer was aborted", port, f.Pod)
			if p != http.ErrAbortHandler {
				utilruntime.HandleErrorWithContext(ctx, fmt.Errorf("%v", p), "What answers at a forwarded port panicked", "stack", string(debug.Stack()))
			}
		}
	}()
	number := strconv.Itoa(int(port))
	f.note(func(f *Forwarded) {
		if !slices.Contains(f.Ports, number) && len(f.Ports) < maxPorts {
			f.Ports = append(f.Ports, number)
		}
	})
	var handler http.Handler
	if f.of.Site != nil {
		handler = f.of.Site(f.Case, f.Clock, "Pod", f.Namespace, f.Pod, number)
	}
	if handler == nil {
		if handler = f.answers(number); handler != nil && f.of.Page != nil {
			handler = f.of.Page(handler, number)
		}
	}
	if handler == nil {
		f.note(func(f *Forwarded) { f.Refused++ })
		return fmt.Errorf("port %d of pod %q was not captured", port, f.Pod)
	}
	in := bufio.NewReader(stream)
	for {
		req, err := http.ReadRequest(in)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("port %d of pod %q answers HTTP only, as far as it was captured", port, f.Pod)
		}
		answer := &buffered{header: http.Header{}, status: http.StatusOK}
		req.RemoteAddr = f.remote
		handler.ServeHTTP(answer, req.WithContext(ctx))
		f.note(func(f *Forwarded) {
			if answer.status == http.StatusNotImplemented {
				f.Refused++
			} else {
				f.Answers++
			}
		})
		_, _ = io.Copy(io.Discard, io.LimitReader(req.Body, maxOutput)) // what is left of it
		response := &http.Response{
			StatusCode: answer.status, ProtoMajor: 1, ProtoMinor: 1, Header: answer.header, Request: req,
			ContentLength: int64(len(answer.body)), Body: io.NopCloser(strings.NewReader(string(answer.body))), Close: req.Close,
		}
		if err := response.Write(stream); err != nil || req.Close {
			return nil // the client's connection is gone, or has what it wanted
		}
	}
}

// answers serves what was captured of a pod's port, or of a service that leads to it; nil when
// nothing was.
func (f *forwarder) answers(port string) http.Handler {
	match := func(a *fixtures.HTTPAnswer) bool {
		if a.Namespace != f.Namespace || unreached(a) {
			return false
		}
		if a.Kind == "Pod" {
			return a.Name == f.Pod && podPort(f.Case, a, a.Port) == port
		}
		return a.Kind == "Service" && f.leadsHere(a, port)
	}
	if found, _, err := findAnswer(f.Case, f.Clock, match); err != nil || found == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer, body, err := findAnswer(f.Case, f.Clock, func(a *fixtures.HTTPAnswer) bool {
			return match(a) && (a.Method == "" || a.Method == req.Method) && samePath(a, req.URL)
		})
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case answer == nil:
			http.Error(w, fmt.Sprintf("kubecase: not captured: what port %s of pod %q answers at %q", port, f.Pod, req.URL.Path), http.StatusNotImplemented)
		default:
			answer.Send(w, body)
		}
	})
}

// leadsHere reports whether a service's captured port leads to a port of the pod.
func (f *forwarder) leadsHere(a *fixtures.HTTPAnswer, port string) bool {
	s, err := decode[corev1.Service](f.Case, services, a.Namespace, a.Name)
	if err != nil || s == nil || len(s.Spec.Selector) == 0 {
		return false
	}
	for key, value := range s.Spec.Selector {
		if f.pod.Labels[key] != value {
			return false
		}
	}
	return slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		if strconv.Itoa(int(p.Port)) != a.Port && p.Name != a.Port {
			return false
		}
		if p.TargetPort.StrVal == "" {
			target := p.TargetPort.IntValue()
			return strconv.Itoa(cmp.Or(target, int(p.Port))) == port
		}
		for _, c := range f.pod.Spec.Containers {
			for _, cp := range c.Ports {
				if cp.Name == p.TargetPort.StrVal && strconv.Itoa(int(cp.ContainerPort)) == port {
					return true
				}
			}
		}
		return false
	})
}

// buffered is an answer that is written as a whole.
type buffered struct {
	header http.Header
	status int
	body   []byte
	wrote  bool
}

// Header implements http.ResponseWriter.
func (b *buffered) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(status int) {
	if !b.wrote {
		b.status, b.wrote = status, true
	}
}

// Write implements http.ResponseWriter.
func (b *buffered) Write(p []byte) (int, error) {
	b.wrote = true
	if len(b.body)+len(p) > maxOutput {
		return 0, errOutput
	}
	b.body = append(b.body, p...)
	return len(p), nil
}
