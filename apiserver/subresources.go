package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// Connection is a request that reaches into the captured cluster: exec, attach,
// portforward or proxy.
type Connection struct {
	Case  *fixtures.Case
	Clock clock.Clock
	// Resource is "pods", "services" or "nodes"; Subresource is how it is reached.
	Resource, Subresource string
	// Namespace and Name as in the path: a service's or pod's name can carry
	// scheme and port ("http:web:80").
	Namespace, Name string
	// Path after ".../proxy", with its leading slash.
	Path string
	// Container of exec and attach, chosen as the real server does.
	Container string
	// Debugging is the pod where it is one that the episode made to debug a node; nil for what
	// was captured. Its time is captured time.
	Debugging *corev1.Pod
	// Ended is told what came of attaching to such a pod: the exit code of its command and what it printed.
	Ended func(exitCode int, output []byte)
}

// Connector answers connections from captured data. It either takes over the
// response or returns an error, which the caller writes: an API status as it is, any
// other as what wasn't captured.
type Connector interface {
	Connect(w http.ResponseWriter, req *http.Request, c Connection) error
}

// NotCaptured is the Connector of a server without shims.
type NotCaptured struct{}

// Connect implements Connector.
func (NotCaptured) Connect(_ http.ResponseWriter, _ *http.Request, c Connection) error {
	return newUnsupportedQuery("%s of %s %q was not captured: a snapshot runs no containers and reaches no network",
		c.Subresource, strings.TrimSuffix(c.Resource, "s"), c.Name)
}

// serveSubresource dispatches a GET of a subresource, or what opens a stream.
func (s *Server) serveSubresource(w http.ResponseWriter, req *http.Request, r *resource, info *request.RequestInfo) error {
	sub, ok := r.subresources[info.Subresource]
	if !ok || len(info.Parts) > 3 && info.Subresource != "proxy" {
		return errNoRoute
	}
	connects := info.Subresource == "proxy" || info.Subresource == "exec" || info.Subresource == "attach" || info.Subresource == "portforward"
	post := req.Method == http.MethodPost && connects && info.Subresource != "proxy"
	if req.Method != http.MethodGet && !post {
		verb := writeVerbs[req.Method][1]
		if req.Method == http.MethodPost {
			verb = "create"
		}
		if verb != "" && slices.Contains(sub.Verbs, verb) {
			return refuseWrite(w, req)
		}
		return errMethodNotAllowed
	}
	if connects {
		return s.connect(w, req, r, info)
	}
	if !slices.Contains(sub.Verbs, "get") {
		return errMethodNotAllowed
	}
	switch info.Subresource {
	case "log":
		if err := acceptable(req, "text/plain", runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf); err != nil {
			return err
		}
		if key, ok := keyOf(req, info, r.snapshot, time.Now()); ok && endsByItself(req.URL.Query()) {
			s.config.Observer.Kept(req.Context(), key)
		}
		handlers.GetResourceWithOptions(&logREST{pods: r, source: s.config.Logs}, subresourceScope(r, "log"), true)(w, req)
	case "scale":
		handlers.GetResource(&scaleREST{of: r}, scaleScope(r))(w, req)
	default:
		if sub.Kind != r.gvk.Kind {
			return newUnsupportedQuery("%s/%s was not captured", r.gvr.GroupResource(), info.Subresource)
		}
		// status, approval, ephemeralcontainers, resize: the object itself.
		handlers.GetResource(r, subresourceScope(r, info.Subresource))(w, req)
	}
	return nil
}

// endsByItself reports whether a log's text depends on nothing but the request and the
// episode's clock: it isn't followed, nor counted back from the present.
func endsByItself(query url.Values) bool {
	return !query.Has("follow") && !query.Has("sinceSeconds") && !query.Has("sinceTime")
}

// connect checks what the API server itself checks, then asks the Connector.
func (s *Server) connect(w http.ResponseWriter, req *http.Request, r *resource, info *request.RequestInfo) error {
	ctx := request.WithNamespace(req.Context(), info.Namespace)
	e := episodeFrom(ctx)
	c := Connection{
		Case: e.snapshot.fixture, Clock: e.Clock, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name, Container: req.URL.Query().Get("container"),
	}
	name := info.Name
	if info.Subresource == "proxy" {
		// As it was asked for: a slash at the end is part of it.
		_, c.Path, _ = strings.Cut(req.URL.Path, "/"+strings.Join(info.Parts[:3], "/"))
		// "[https:]name[:port]"
		if parts := strings.Split(name, ":"); len(parts) == 3 {
			name = parts[1]
		} else {
			name = parts[0]
		}
	}
	found, err := r.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	if info.Subresource != "proxy" {
		pod, err := podOf(found)
		if err != nil {
			return err
		}
		if info.Subresource != "portforward" {
			if c.Container, err = chooseContainer(c.Container, pod); err != nil {
				return err
			}
		}
		if p := e.debugging.find(info.Namespace, name); p != nil {
			c.Debugging = p.Pod
			c.Ended = func(exitCode int, output []byte) { _ = e.ended(p, exitCode, output) } // the first end counts
		}
		if pod.Spec.NodeName == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
		}
		if !httpstream.IsUpgradeRequest(req) && !wsstream.IsWebSocketRequest(req) {
			return apierrors.NewBadRequest("Upgrade request required")
		}
	}
	err = s.config.Connect.Connect(w, req, c)
	if _, isStatus := err.(apierrors.APIStatus); err != nil && !isStatus {
		return newUnsupportedQuery("%v", err)
	}
	return err
}

func podOf(obj runtime.Object) (*corev1.Pod, error) {
	typed, err := (&object{of: obj.(*object).of, entry: obj.(*object).entry}).toTyped()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	pod, ok := typed.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("the captured pod does not fit its type"))
	}
	return pod, nil
}

// chooseContainer is the real server's choice and its refusals
// (pkg/registry/core/pod/strategy.go, validateContainer).
func chooseContainer(name string, pod *corev1.Pod) (string, error) {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	if name != "" {
		for _, n := range names {
			if n == name {
				return name, nil
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	switch len(pod.Spec.Containers) {
	case 1:
		return pod.Spec.Containers[0].Name, nil
	case 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
}

// scaleREST makes the Scale of an object, as each kind's own registry does.
type scaleREST struct{ of *resource }

var _ rest.Getter = (*scaleREST)(nil)

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

func scaleScope(r *resource) *handlers.RequestScope {
	scope := subresourceScope(r, "scale")
	scope.Kind = scaleKind
	scope.HubGroupVersion = scaleKind.GroupVersion()
	scope.StandardSerializers = nil
	return scope
}

// New implements rest.Storage.
func (s *scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }

// Get implements rest.Getter.
func (s *scaleREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	found, err := s.of.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	o := found.(*object)
	u, err := o.toUnstructured(o.offset)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	spec, status, selector := "spec.replicas", "status.replicas", ""
	if v := s.of.crdVersion; v != nil && v.Subresources != nil && v.Subresources.Scale != nil {
		spec = strings.TrimPrefix(v.Subresources.Scale.SpecReplicasPath, ".")
		status = strings.TrimPrefix(v.Subresources.Scale.StatusReplicasPath, ".")
		if p := v.Subresources.Scale.LabelSelectorPath; p != nil {
			selector = lookup(u.Object, strings.TrimPrefix(*p, "."))
		}
	} else if selector, err = podSelector(u, s.of.gvk); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
			ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: number(u, spec)},
		Status: autoscalingv1.ScaleStatus{Replicas: number(u, status), Selector: selector},
	}, nil
}

// podSelector is spec.selector as text: a label selector, or a plain map in a
// ReplicationController.
func podSelector(u *unstructured.Unstructured, gvk schema.GroupVersionKind) (string, error) {
	content, found, err := unstructured.NestedMap(u.Object, "spec", "selector")
	if !found || err != nil {
		return "", err
	}
	if gvk.Group == "" {
		plain, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector")
		return labels.SelectorFromSet(plain).String(), err
	}
	s := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, s); err != nil {
		return "", err
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

func number(u *unstructured.Unstructured, path string) int32 {
	n, _, _ := unstructured.NestedInt64(u.Object, strings.Split(path, ".")...)
	return int32(n)
}
