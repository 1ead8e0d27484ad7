// Package apiserver serves cases as Kubernetes API servers.
//
// The request path is Kubernetes' own: its filters, its handlers for get, list
// and watch, its negotiation, its discovery, its selectors, printers, reviews
// and authorizer. What is ours is a read-only storage over a captured snapshot,
// a registry of resources per case, and the path prefix, token and clock of an
// episode. A storage here has no write verb, so there is none to call.
package apiserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/warning"

	"github.com/kubecase/kubecase/fixtures"
)

const (
	// requestTimeout is the real server's for requests that end by themselves.
	requestTimeout = time.Minute
	// minWatchTimeout is the least that a watch without a timeout stays open.
	minWatchTimeout = 30 * time.Minute
	// maxInFlight bounds the requests that are worked on at once, watches excepted.
	maxInFlight = 400
)

// Config is what a Server needs. The zero value refuses whatever needs a shim.
type Config struct {
	// Logs streams container logs; nil refuses them as not captured.
	Logs LogSource
	// Connect answers exec, attach, portforward and proxy; nil refuses them as not captured.
	Connect Connector
	// Debug runs what debugging pods run; nil: they stay as they started.
	Debug Debugger
	// Done is closed when the server shuts down, which ends watches.
	Done <-chan struct{}
	// Observer is told what of an answer can't be seen from outside; nil: nobody is.
	Observer Observer
}

// Observer is told, while a request is answered, what a recorder that wraps the
// episode's handler can't see.
type Observer interface {
	// Authenticated says who asks.
	Authenticated(ctx context.Context, who user.Info)
	// Kept says that the bytes that are sent now are those of the kept answer of this
	// key, which are always the same, content encoding included.
	Kept(ctx context.Context, key any)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Authenticated(context.Context, user.Info) {}
func (nobody) Kept(context.Context, any)                {}

// Server serves any number of episodes over any number of cases.
type Server struct {
	config   Config
	episodes episodes
	chain    http.Handler
	reviews  map[schema.GroupResource]rest.Creater
	answers  *answerCache

	// mu guards snapshots, and that a snapshot has an episode.
	mu        sync.Mutex
	snapshots map[*fixtures.Case]*snapshot
}

// Sentinels of requests that no route answers.
var (
	// errNoRoute is a path below a group that is served.
	errNoRoute = apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	// errMethodNotAllowed is a method that a path doesn't have.
	errMethodNotAllowed = apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, "", schema.GroupResource{}, "", "", 0, false)
	// errNoPath is a path that nobody handles.
	errNoPath = errors.New("404 page not found")
)

// New returns a server without episodes.
func New(config Config) *Server {
	if config.Connect == nil {
		config.Connect = NotCaptured{}
	}
	if config.Observer == nil {
		config.Observer = nobody{}
	}
	s := &Server{
		config:    config,
		episodes:  episodes{byID: map[string]*Episode{}, byToken: map[[sha256.Size]byte]*Episode{}},
		reviews:   reviewStorages(),
		answers:   newAnswerCache(),
		snapshots: map[*fixtures.Case]*snapshot{},
	}
	s.chain = s.newChain()
	return s
}

// AddEpisode starts an episode. Its case must stay open until RemoveEpisode.
func (s *Server) AddEpisode(o EpisodeOptions) (*Episode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap, err := s.snapshotOf(o.Case)
	if err != nil {
		return nil, err
	}
	e, err := newEpisode(snap, o)
	if err != nil {
		return nil, err
	}
	e.handler, e.forget = s.chain, s.answers.forget
	if o.Wrap != nil {
		e.handler = o.Wrap(s.chain)
	}
	s.episodes.add(e)
	return e, nil
}

// RemoveEpisode ends an episode: its path and token are unknown from then on. With
// a case's last episode, everything that was made of the case goes too.
func (s *Server) RemoveEpisode(e *Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.episodes.remove(e)
	if !s.episodes.use(e.snapshot) {
		delete(s.snapshots, e.snapshot.fixture)
		s.answers.forget(e.snapshot)
	}
	if view := e.view(); view != e.snapshot {
		s.answers.forget(view)
	}
}

// snapshotOf makes the served form of a case once for all its episodes. The
// caller holds s.mu.
func (s *Server) snapshotOf(c *fixtures.Case) (*snapshot, error) {
	if snap := s.snapshots[c]; snap != nil {
		return snap, nil
	}
	snap, err := newSnapshot(c)
	if err != nil {
		return nil, err
	}
	s.snapshots[c] = snap
	go snap.decodeAll(s.config.Done)
	return snap, nil
}

// newChain is the real server's chain of filters less what a read-only replay
// has no use for (flow control by priority, tracing, storage versions, and the
// timeout that runs each request in a goroutine of its own: requests have their
// deadline, and the one thing that waits minds it).
func (s *Server) newChain() http.Handler {
	resolver := &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	longRunning := genericfilters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))
	// Rights decide first, about writes too; serve then refuses every write, so that
	// a path that doesn't exist is told from one that can't be written.
	z := episodeAuthorizer{}

	h := http.Handler(http.HandlerFunc(s.serve))
	h = filters.WithAuthorization(h, z, codecs)
	h = withDebugPods(h)
	h = withFlowControlHeaders(h, longRunning)
	h = genericfilters.WithMaxInFlightLimit(h, maxInFlight, maxInFlight, longRunning)
	h = impersonation.WithImpersonation(h, z, codecs)
	h = filters.WithAuthentication(h, authenticator.RequestFunc(s.authenticateEpisode), filters.Unauthorized(codecs), nil, nil)
	h = filters.WithWarningRecorder(h)
	h = filters.WithRequestDeadline(h, nil, nil, longRunning, codecs, requestTimeout)
	h = filters.WithCacheControl(h)
	h = filters.WithLatencyTrackers(h)
	h = filters.WithRequestInfo(h, resolver)
	h = filters.WithRequestReceivedTimestamp(h)
	h = genericfilters.WithPanicRecovery(h, resolver)
	return filters.WithAuditInit(h)
}

// ServeHTTP finds the episode by the path's prefix and hands the rest to
// Kubernetes' chain. Outside an episode there is nothing, and it says nothing.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var e *Episode
	id, path, ok := splitEpisodePath(req.URL.Path)
	if ok {
		e = s.episodes.get(id)
	} else if token := bearerToken(req.Header.Get("Authorization")); token != "" {
		// `kubectl get --raw` before 1.34 drops the path of the server's URL; the
		// token alone says which episode is meant.
		e, path = s.episodes.withToken(token), req.URL.Path
	}
	if e == nil {
		http.NotFound(w, req)
		return
	}
	ctx := withEpisode(req.Context(), e)
	if command := req.Header.Get("Kubectl-Command"); command != "" {
		ctx = context.WithValue(ctx, kubectlCommandKey{}, command)
	}
	if s.config.Done != nil {
		ctx = request.WithServerShutdownSignal(ctx, shutdown(s.config.Done))
	}
	req = req.Clone(ctx)
	req.URL.Path, req.URL.RawPath = path, ""
	// The prefix stays out of what Kubernetes' filters print.
	req.RequestURI = strings.TrimPrefix(req.RequestURI, e.Path())
	e.handler.ServeHTTP(w, req)
}

// WithEpisode makes a context whose requests are the episode's, for a handler of
// EpisodeOptions.Wrap that asks on its own behalf.
func (s *Server) WithEpisode(ctx context.Context, e *Episode) context.Context {
	return withEpisode(ctx, e)
}

// shutdown tells upstream's watches that the server goes away.
type shutdown <-chan struct{}

// ShuttingDown implements request.ServerShutdownSignal.
func (s shutdown) ShuttingDown() <-chan struct{} { return s }

// splitEpisodePath splits "/e/<id>/rest" into the id and "/rest".
func splitEpisodePath(path string) (id, rest string, ok bool) {
	after, ok := strings.CutPrefix(path, PathPrefix)
	if !ok {
		return "", "", false
	}
	id, rest, _ = strings.Cut(after, "/")
	return id, "/" + rest, id != ""
}

// serve answers an authorized request.
func (s *Server) serve(w http.ResponseWriter, req *http.Request) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		responsewriters.InternalError(w, req, errors.New("no RequestInfo found in the context"))
		return
	}
	var err error
	if info.IsResourceRequest {
		err = s.serveResource(w, req, info)
	} else {
		err = s.serveNonResource(w, req)
	}
	switch {
	case err == nil:
	case errors.Is(err, errNoPath):
		http.NotFound(w, req)
	default:
		responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
	}
}

// serveResource looks the resource up and calls Kubernetes' handler of the verb.
func (s *Server) serveResource(w http.ResponseWriter, req *http.Request, info *request.RequestInfo) error {
	snap := episodeFrom(req.Context()).view()
	r := snap.resources[schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}]
	if r == nil {
		return snap.errNoResource(info.APIGroup)
	}
	if !r.routes(info) {
		return errNoRoute
	}
	if err := r.readSibling(); err != nil {
		return err
	}
	if r.warning != "" {
		warning.AddWarning(req.Context(), "", r.warning)
	}
	if info.Subresource != "" {
		return s.serveSubresource(w, req, r, info)
	}
	if !r.routesMethod(req.Method, info) {
		if r.ofMetricsServer() && info.Verb == "watch" {
			return apierrors.NewMethodNotSupported(r.gvr.GroupResource(), "watch")
		}
		return errMethodNotAllowed
	}
	if storage := s.reviews[r.gvr.GroupResource()]; storage != nil && req.Method == http.MethodPost {
		return create(w, req, r, storage)
	}
	if req.Method == http.MethodPost && req.Context().Value(debugPodKey{}) != nil {
		return create(w, req, r, &debugREST{of: r, debugger: s.config.Debug})
	}
	if req.Method != http.MethodGet {
		return refuseWrite(w, req)
	}
	accepted, err := r.negotiates(req, info.Verb)
	if err != nil {
		return err
	}
	key, keep := keyOf(req, info, r.snapshot, time.Now())
	if form := accepted.Convert; form != nil && form.Kind == "Table" && form.GroupVersion() == metav1.SchemeGroupVersion {
		req = req.WithContext(context.WithValue(req.Context(), tableV1Key{}, true))
		if info.Verb == "list" {
			req = asTextTable(req, accepted)
		}
	}
	var answer http.HandlerFunc
	switch info.Verb {
	case "get":
		answer = handlers.GetResource(r, r.scope)
	case "list", "watch":
		deprecatedWatch := len(info.Parts) > 0 && strings.Contains(req.URL.Path, "/"+info.APIVersion+"/watch/")
		answer = handlers.ListResource(r, r, r.scope, deprecatedWatch, minWatchTimeout)
	default:
		return errMethodNotAllowed
	}
	if keep && !r.printedAsAges(req.Context()) && !r.printsDeletionAsAge(req.Context()) {
		s.config.Observer.Kept(req.Context(), key)
		s.answers.keeping(w, key, func(w http.ResponseWriter) { answer(w, req) })
	} else {
		answer(w, req)
	}
	return nil
}

// routes reports whether the real server has a route of this shape: cluster-scoped
// resources aren't below a namespace, and single namespaced objects are nowhere else.
func (r *resource) routes(info *request.RequestInfo) bool {
	if strings.Contains(info.Path, "//") && info.Subresource != "proxy" {
		return false
	}
	named := len(info.Parts) > 1
	switch {
	case len(info.Parts) > 2 && info.Subresource == "":
		return false
	case !r.namespaced:
		return info.Namespace == "" || r.gvr.Resource == "namespaces" && info.Name != "" && strings.Count(info.Path, "/namespaces/") == 1
	case info.Namespace == "":
		return !named
	}
	return true
}

// writeVerbs are the verbs of a method on a collection and on one object.
var writeVerbs = map[string][2]string{
	http.MethodPost:   {"create", ""},
	http.MethodPut:    {"", "update"},
	http.MethodPatch:  {"", "patch"},
	http.MethodDelete: {"deletecollection", "delete"},
}

// routesMethod reports whether the real server has a route of this method here.
func (r *resource) routesMethod(method string, info *request.RequestInfo) bool {
	if method == http.MethodGet {
		return r.hasVerb(info.Verb)
	}
	verb := writeVerbs[method][0]
	if len(info.Parts) > 1 {
		verb = writeVerbs[method][1]
	} else if r.namespaced && info.Namespace == "" && method == http.MethodPost {
		return false // objects are created in a namespace
	}
	return verb != "" && r.hasVerb(verb)
}

// refuseWrite answers a write that the subject's captured rights allow as RBAC
// answers one whom they don't: nothing here can be changed by anyone.
func refuseWrite(w http.ResponseWriter, req *http.Request) error {
	attributes, err := filters.GetAuthorizerAttributes(req.Context())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	responsewriters.Forbidden(attributes, w, req, "", codecs)
	return nil
}

// negotiates is the check of go-restful, which routes built-in kinds, before any
// handler runs: a media range must name a representation as it is, or be "*/*".
// Custom resources have no such routes. It returns what was negotiated, nothing where the
// handler is to say what is wrong.
func (r *resource) negotiates(req *http.Request, verb string) (accepted negotiation.MediaTypeOptions, err error) {
	if !builtIn(r.gvk) {
		return r.explainList(req, verb)
	}
	produces := []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}
	if verb != "get" {
		produces = append(produces, runtime.ContentTypeJSON+";stream=watch", runtime.ContentTypeProtobuf+";stream=watch")
	}
	if err := acceptable(req, produces...); err != nil {
		return accepted, err
	}
	return r.explainList(req, verb)
}

// acceptable returns go-restful's refusal unless the request accepts one of the
// representations that a route produces.
func acceptable(req *http.Request, produces ...string) error {
	accept := req.Header.Get("Accept")
	if accept == "" {
		return nil
	}
	for _, clause := range strings.Split(accept, ",") {
		mediaRange, _, _ := strings.Cut(clause, ";")
		mediaRange = strings.TrimSpace(mediaRange)
		if mediaRange == "*/*" || slices.Contains(produces, mediaRange) {
			return nil
		}
	}
	message := "406: Not Acceptable\n\nAvailable representations: " + strings.Join(produces, ", ")
	return apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "", schema.GroupResource{}, "", message, 0, false)
}

// explainList refuses one object as a list of metadata, and a list as one
// object's, naming the type that the real server holds, which is not ours.
func (r *resource) explainList(req *http.Request, verb string) (accepted negotiation.MediaTypeOptions, err error) {
	accepted, _, err = negotiation.NegotiateOutputMediaType(req, r.scope.Serializer, r.scope)
	if err != nil {
		return negotiation.MediaTypeOptions{}, nil // the handler says what is wrong
	}
	message := ""
	switch form := accepted.Convert; {
	case form == nil:
	case form.Kind == "PartialObjectMetadataList" && verb == "get":
		message = fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", r.typeName(verb))
	case form.Kind == "PartialObjectMetadata" && verb == "list":
		message = fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%s)", r.typeName(verb))
	}
	if message == "" {
		return accepted, nil
	}
	return accepted, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Message: message,
	}}
}

// typeName is the Go type that the real server holds for a verb.
func (r *resource) typeName(verb string) string {
	typeName := "*unstructured.Unstructured"
	if verb != "get" {
		typeName += "List"
	}
	if builtIn(r.gvk) {
		kind := r.gvk.Kind
		if verb != "get" {
			kind = r.listKind
		}
		if internal, err := scheme.New(schema.GroupVersionKind{Group: r.gvk.Group, Version: runtime.APIVersionInternal, Kind: kind}); err == nil {
			typeName = fmt.Sprintf("%T", internal)
		}
	}
	return typeName
}
