package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/alerts"
	"github.com/kubecase/kubecase/shims/connectivity"
	"github.com/kubecase/kubecase/shims/logs"
	"github.com/kubecase/kubecase/shims/metrics"
	"github.com/kubecase/kubecase/shims/source"
	"github.com/kubecase/kubecase/shims/tools"
	"github.com/kubecase/kubecase/shims/traces"
)

// service is something that a cluster has besides its API server, with an HTTP API of
// its own: at the episode's URL, behind the captured Service and Pod, and for port-forward.
type service struct {
	// prefix is its path below an episode's URL, source its name on record.
	prefix, source string
	// variable of an agent's environment that holds its URL.
	variable string
	// folder of a case that holds what it answers from.
	folder string
	// programs are the names of its images, and of its Service where no pod was captured;
	// none for what no pod serves.
	programs []string
	// port is its usual one.
	port    int32
	handler func(*fixtures.Case, clock.Clock) http.Handler
	// dependencies are who calls whom, where the service knows it; nil for others.
	dependencies func(*fixtures.Case, clock.Clock) ([]traces.Dependency, error)
	// shift moves the times in its answers, for the record; nil: as those of all answers are.
	shift func([]byte, time.Duration) []byte
}

// services are those of one process, which share what they read of a case.
type services []service

func newServices(syntheticMetrics bool) services {
	prometheus := metrics.New(metrics.Options{NoSynthetic: !syntheticMetrics})
	jaeger := traces.New(traces.Options{Mesh: func(c *fixtures.Case, _ clock.Clock) ([]traces.Dependency, error) {
		edges, err := prometheus.Mesh(c)
		out := make([]traces.Dependency, len(edges))
		for i, e := range edges {
			out[i] = traces.Dependency{Parent: e.Source, Child: e.Destination, CallCount: e.Calls}
		}
		return out, err
	}})
	return services{
		{prefix: "/prometheus", source: "prometheus", variable: "PROMETHEUS_URL", folder: "metrics/", programs: []string{"prometheus"}, port: 9090, handler: prometheus.Handler},
		{prefix: "/alertmanager", source: "alerts", variable: "ALERTMANAGER_URL", folder: "alerts/", programs: []string{"alertmanager"}, port: 9093, handler: alerts.Handler},
		{prefix: "/jaeger", source: sourceOfTraces, variable: "JAEGER_URL", folder: "traces/", programs: []string{"jaeger", "jaeger-query", "all-in-one"}, port: 16686, handler: jaeger.Handler, dependencies: jaeger.Dependencies, shift: clock.ShiftTraces},
		// Nothing in a source tree is moved.
		{prefix: "/source", source: sourceOfSource, variable: "KUBECASE_SOURCE_URL", folder: "source/", handler: source.New().Handler, shift: func(text []byte, _ time.Duration) []byte { return text }},
	}
}

// newAPI is an API server through which the services are reached, too.
func (s services) newAPI(done <-chan struct{}) *apiserver.Server {
	connect := connections{services: s}
	return apiserver.New(apiserver.Config{Logs: logs.Source{}, Connect: connect, Debug: connect, Done: done, Observer: observer{}})
}

// dependencies are who calls whom in a case, as the tools take it.
func (s services) dependencies(c *fixtures.Case, k clock.Clock) ([]tools.Call, error) {
	var out []tools.Call
	for _, one := range s {
		if one.dependencies == nil {
			continue
		}
		found, err := one.dependencies(c, k)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			out = append(out, tools.Call{From: d.Parent, To: d.Child})
		}
	}
	return out, nil
}

// captured reports whether a case has anything that the service answers from.
func (s service) captured(c *fixtures.Case) bool {
	return slices.ContainsFunc(c.DocumentNames(), func(name string) bool { return strings.HasPrefix(name, s.folder) })
}

// site implements connectivity.Site: the services are behind the pods that run their
// images, and behind the Services that lead there.
func (s services) site(c *fixtures.Case, k clock.Clock, kind, namespace, name, port string) http.Handler {
	return s.recordedSite(nil)(c, k, kind, namespace, name, port)
}

// recordedSite is site for what goes over the connection of an exchange: its requests are on
// record as those to the services' own URLs are.
func (s services) recordedSite(x *recorder.Exchange) connectivity.Site {
	return func(c *fixtures.Case, k clock.Clock, kind, namespace, name, port string) http.Handler {
		for _, one := range s {
			if one.captured(c) && one.isAt(c, kind, namespace, name, port) {
				return x.Through(one.handler(c, k), one.recorded(k))
			}
		}
		return nil
	}
}

// recorded is how requests to the service are recorded.
func (s service) recorded(k clock.Clock) recorder.Source {
	return recorder.Source{Name: s.source, Unshift: s.unshift(k)}
}

// isAt reports whether the service answers at a port: a number or a name, empty for the
// only one.
func (s service) isAt(c *fixtures.Case, kind, namespace, name, port string) bool {
	if kind == "Pod" {
		pod, ok := captured[corev1.Pod](c, "pods", namespace, name)
		return ok && s.listens(&pod, port)
	}
	of, ok := captured[corev1.Service](c, "services", namespace, name)
	if !ok {
		return false
	}
	i := slices.IndexFunc(of.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == port || strconv.Itoa(int(p.Port)) == port })
	if i < 0 {
		return false
	}
	target := of.Spec.Ports[i].TargetPort
	if target == (intstr.IntOrString{}) {
		target = intstr.FromInt32(of.Spec.Ports[i].Port)
	}
	selected := false
	if r := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}); r != nil && len(of.Spec.Selector) > 0 {
		for _, o := range r.Objects {
			if o.Namespace != namespace || !selects(of.Spec.Selector, o.Labels) {
				continue
			}
			selected = true
			if pod, ok := captured[corev1.Pod](c, "pods", namespace, o.Name); ok && s.listens(&pod, target.String()) {
				return true
			}
		}
	}
	named := regexp.MustCompile(`^(.+-)?(` + strings.Join(s.programs, "|") + `)(-server|-operated|-k8s|-main|-query)?$`)
	return !selected && len(s.programs) > 0 && named.MatchString(name) && (target.IntVal == s.port || of.Spec.Ports[i].Port == s.port)
}

// listens reports whether a container of the service's image has the port.
func (s service) listens(pod *corev1.Pod, port string) bool {
	for _, c := range pod.Spec.Containers {
		repository, _, _ := strings.Cut(path.Base(c.Image), "@")
		repository, _, _ = strings.Cut(repository, ":")
		if !slices.Contains(s.programs, repository) {
			continue
		}
		if port == "" || port == strconv.Itoa(int(s.port)) && len(c.Ports) == 0 {
			return true
		}
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port || strconv.Itoa(int(p.ContainerPort)) == port }) {
			return true
		}
	}
	return false
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// captured is a captured object; false where there is none that fits its type.
func captured[T any](c *fixtures.Case, resource, namespace, name string) (out T, ok bool) {
	r := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource})
	if r == nil {
		return out, false
	}
	o := r.Find(namespace, name)
	return out, o != nil && json.Unmarshal(o.Raw, &out) == nil
}

// mount is one episode's services at its own URL, around its other handlers.
type mount struct {
	next http.Handler
	// tools are the diagnostic tools; nil for none.
	tools http.Handler

	mu       sync.Mutex
	handlers map[string]http.Handler // by prefix
}

// wrap implements apiserver.EpisodeOptions.Wrap. The services are there from open on.
func (m *mount) wrap(next http.Handler) http.Handler {
	m.next = next
	return m
}

// open puts the services there for those who have the episode's token. Requests to them go on
// record where there is one.
func (m *mount) open(s services, c *fixtures.Case, e *apiserver.Episode, log *recorder.Log) {
	handlers := map[string]http.Handler{}
	for _, one := range s {
		h := withToken(e.Token, one.handler(c, e.Clock))
		if log != nil {
			h = log.Handler(h, one.recorded(e.Clock))
		}
		handlers[one.prefix] = http.StripPrefix(one.prefix, h)
	}
	if m.tools != nil && s != nil {
		h := withToken(e.Token, m.tools)
		if log != nil {
			h = log.Handler(h, recorder.Source{Name: recorder.Tools})
		}
		handlers[toolsPrefix] = http.StripPrefix(toolsPrefix, h)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers = handlers
}

// unshift moves the times in the service's answers back to captured time; nil: as all answers' are.
func (s service) unshift(k clock.Clock) func([]byte) []byte {
	if s.shift == nil {
		return nil
	}
	return func(text []byte) []byte { return s.shift(text, -k.Offset()) }
}

// ServeHTTP implements http.Handler.
func (m *mount) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	m.mu.Lock()
	h := m.handlers["/"+first]
	m.mu.Unlock()
	if h == nil {
		h = m.next
	}
	h.ServeHTTP(w, req)
}

// withToken lets pass who has a token: as a bearer, or as the password of HTTP basic
// authentication, which is all that a URL can hold.
func withToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		given, bearer := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		if _, password, basic := req.BasicAuth(); !bearer && basic {
			given = password
		}
		if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(given)), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="the episode's token is the password"`)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// variables are the URLs of what was captured, for an agent's environment.
func (s services) variables(c *fixtures.Case, plain string, e *apiserver.Episode) []string {
	base, err := url.Parse(plain)
	if err != nil || plain == "" {
		return nil
	}
	base.User = url.UserPassword("agent", e.Token)
	var out []string
	for _, one := range s {
		if one.captured(c) {
			base.Path = e.Path() + one.prefix
			out = append(out, one.variable+"="+base.String())
		}
	}
	base.Path = e.Path() + toolsPrefix
	return append(out, "KUBECASE_TOOLS_URL="+base.String(), "KUBECASE_MCP_URL="+base.String()+"/mcp")
}

// loopback serves the services without TLS, on this machine only: what asks Prometheus is
// seldom told of a certificate authority. Nothing else of an episode is there.
type loopback struct {
	url  string
	http *http.Server
}

func (s services) listenLoopback(next http.Handler) (*loopback, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, apiserver.PathPrefix), "/")
		first, _, _ := strings.Cut(rest, "/")
		if !strings.HasPrefix(req.URL.Path, apiserver.PathPrefix) || "/"+first != toolsPrefix && !slices.ContainsFunc(s, func(one service) bool { return one.prefix == "/"+first }) {
			http.NotFound(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
	l := &loopback{url: "http://" + listener.Addr().String(), http: &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 1 << 20}}
	go func() {
		if err := l.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			_ = listener.Close() // clients see that nobody listens; the API server goes on
		}
	}()
	return l, nil
}

// stop lets answers under way finish until ctx is done.
func (l *loopback) stop(ctx context.Context) {
	if err := l.http.Shutdown(ctx); err != nil {
		_ = l.http.Close()
	}
}
