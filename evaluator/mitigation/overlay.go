// Package mitigation applies a proposed repair to a private copy of a snapshot,
// so that what it leaves behind can be judged without a cluster.
//
// An Overlay stands in front of a read-only API server and takes the writes:
// kubectl's patch, apply, scale, set, cordon, delete and the rest work as on a
// cluster whose controllers stand still. Nothing below it changes. Objects are
// checked against their types, not validated or defaulted: what a real server would
// refuse for its meaning is accepted here. The package runs no program.
package mitigation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	kjson "sigs.k8s.io/json"
)

const (
	// maxBody bounds a request, maxChanges the objects that a repair may touch.
	maxBody, maxChanges = 3 << 20, 10_000
)

var requestInfo = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// key names an object. Versions of one resource are not told apart.
type key struct {
	resource        schema.GroupResource
	namespace, name string
}

// Overlay is a writable copy of what an API server serves. It is safe for
// concurrent use.
type Overlay struct {
	next http.Handler

	mu sync.Mutex
	// changed objects; nil stands for a deleted one.
	changed map[key]*unstructured.Unstructured
	order   []key
	made    int
}

// New puts an overlay in front of a handler, which must answer GETs of Kubernetes objects in JSON.
func New(next http.Handler) *Overlay {
	return &Overlay{next: next, changed: map[key]*unstructured.Unstructured{}}
}

// ServeHTTP implements http.Handler.
func (o *Overlay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, err := requestInfo.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest || info.APIGroup == "authorization.k8s.io" || info.APIGroup == "authentication.k8s.io" {
		o.next.ServeHTTP(w, req)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var answer runtime.Object
	switch info.Verb {
	case "get":
		answer, err = o.get(req, info)
	case "list":
		answer, err = o.list(req, info)
	case "watch":
		// What was changed stays as it is, and what was deleted is gone.
		err = apierrors.NewMethodNotSupported(resourceOf(info), "watch")
	default:
		answer, err = o.write(req, info)
	}
	if err == nil && answer == nil {
		o.next.ServeHTTP(w, req)
		return
	}
	status := http.StatusOK
	if err != nil {
		refusal := apierrors.NewInternalError(err)
		errors.As(err, &refusal)
		s := refusal.Status()
		s.Kind, s.APIVersion = "Status", "v1"
		answer, status = &s, int(s.Code)
	} else if info.Verb == "create" {
		status = http.StatusCreated
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // a client that left needs no answer
}

func resourceOf(info *request.RequestInfo) schema.GroupResource {
	return schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
}

func keyOf(info *request.RequestInfo, name string) key {
	return key{resourceOf(info), info.Namespace, name}
}

// get answers for changed objects, and nil for others.
func (o *Overlay) get(req *http.Request, info *request.RequestInfo) (runtime.Object, error) {
	changed, ok := o.changed[keyOf(info, info.Name)]
	switch {
	case !ok:
		return nil, nil
	case changed == nil:
		return nil, apierrors.NewNotFound(resourceOf(info), info.Name)
	case info.Subresource == "scale":
		return scaleOf(changed)
	case info.Subresource != "" && info.Subresource != "status":
		return nil, nil
	}
	return changed, nil
}

// list merges what was changed into the server's list; nil when nothing of the
// resource was.
func (o *Overlay) list(req *http.Request, info *request.RequestInfo) (runtime.Object, error) {
	if !slices.ContainsFunc(o.order, func(k key) bool { return k.resource == resourceOf(info) }) {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	if err := o.fetch(req, req.URL.Path, req.URL.RawQuery, list); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(req.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var items []unstructured.Unstructured
	seen := map[key]bool{}
	for _, item := range list.Items {
		k := key{resourceOf(info), item.GetNamespace(), item.GetName()}
		seen[k] = true
		changed, ok := o.changed[k]
		switch {
		case !ok:
			items = append(items, item)
		case changed != nil && selector.Matches(labels.Set(changed.GetLabels())):
			items = append(items, *changed)
		}
	}
	for _, k := range o.order {
		changed := o.changed[k]
		if changed == nil || seen[k] || k.resource != resourceOf(info) || info.Namespace != "" && k.namespace != info.Namespace ||
			!selector.Matches(labels.Set(changed.GetLabels())) {
			continue
		}
		items = append(items, *changed)
	}
	list.Items = items
	return list, nil
}

// Objects are all objects of a resource in a namespace, or one of them, as the
// repair left them. resource is plural, with its group where that isn't Kubernetes' own.
// req is a request that the server below accepts: its credentials are used.
func (o *Overlay) Objects(req *http.Request, gvr schema.GroupVersionResource, namespace, name string) ([]map[string]any, error) {
	path := "/api/" + gvr.Version
	if gvr.Group != "" {
		path = "/apis/" + gvr.Group + "/" + gvr.Version
	}
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + gvr.Resource
	inner := req.Clone(req.Context())
	inner.Method, inner.URL, inner.RequestURI = http.MethodGet, &url.URL{Path: path}, path
	inner.Header.Set("Accept", runtime.ContentTypeJSON)
	w := &buffer{header: http.Header{}, status: http.StatusOK}
	o.ServeHTTP(w, inner)
	list := &unstructured.UnstructuredList{}
	if err := decode(w, list); err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, item := range list.Items {
		if name == "" || item.GetName() == name {
			out = append(out, item.Object)
		}
	}
	return out, nil
}

// write carries a write out. The caller holds o.mu.
func (o *Overlay) write(req *http.Request, info *request.RequestInfo) (runtime.Object, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(body) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	dry := req.URL.Query().Get("dryRun") != ""
	switch {
	case info.Verb == "deletecollection":
		return o.deleteAll(req, info, dry)
	case info.Verb == "delete":
		return o.delete(req, info, info.Name, dry)
	case info.Verb == "create" && info.Subresource == "eviction":
		return o.delete(req, info, info.Name, dry)
	case info.Verb == "create" && info.Subresource == "":
		return o.create(req, info, body, dry)
	case info.Verb != "update" && info.Verb != "patch":
		return nil, apierrors.NewMethodNotSupported(resourceOf(info), info.Verb)
	case info.Subresource != "" && info.Subresource != "scale" && info.Subresource != "status":
		return nil, apierrors.NewMethodNotSupported(resourceOf(info), info.Verb)
	}
	current, err := o.current(req, info, info.Name)
	patchType := types.PatchType(strings.Split(req.Header.Get("Content-Type"), ";")[0])
	if apierrors.IsNotFound(err) && info.Verb == "patch" && patchType == types.ApplyPatchType {
		return o.apply(req, info, nil, body, dry)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case info.Subresource == "scale":
		return o.scale(info, current, body, dry)
	case info.Verb == "update":
		next := &unstructured.Unstructured{}
		if err := next.UnmarshalJSON(jsonOf(body)); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return o.store(info, next, dry)
	case patchType == types.ApplyPatchType:
		return o.apply(req, info, current, body, dry)
	}
	next, err := patched(current, patchType, body)
	if err != nil {
		return nil, err
	}
	return o.store(info, next, dry)
}

// current is an object as it is now.
func (o *Overlay) current(req *http.Request, info *request.RequestInfo, name string) (*unstructured.Unstructured, error) {
	if changed, ok := o.changed[keyOf(info, name)]; ok {
		if changed == nil {
			return nil, apierrors.NewNotFound(resourceOf(info), name)
		}
		return changed.DeepCopy(), nil
	}
	path := req.URL.Path
	if info.Subresource != "" {
		path = strings.TrimSuffix(path, "/"+info.Subresource)
	}
	if info.Name == "" {
		path += "/" + url.PathEscape(name)
	}
	out := &unstructured.Unstructured{}
	return out, o.fetch(req, path, "", out)
}

// patched applies a patch of any type but server-side apply's.
func patched(current *unstructured.Unstructured, t types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	before, err := current.MarshalJSON()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	switch t {
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(patch); err == nil {
			after, err = p.Apply(before)
		}
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, jsonOf(patch))
	case types.StrategicMergePatchType:
		typed, missing := scheme.Scheme.New(current.GroupVersionKind())
		if missing != nil {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
				Message: "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
			}}
		}
		after, err = strategicpatch.StrategicMergePatch(before, jsonOf(patch), typed)
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, "", "", 0, false)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(after); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

// apply is server-side apply: Kubernetes' own for built-in kinds; a merge for
// others, of whose lists no schema is known.
func (o *Overlay) apply(req *http.Request, info *request.RequestInfo, current *unstructured.Unstructured, body []byte, dry bool) (runtime.Object, error) {
	wanted := &unstructured.Unstructured{}
	if err := wanted.UnmarshalJSON(jsonOf(body)); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if wanted.GetName() == "" {
		wanted.SetName(info.Name)
	}
	gvk := wanted.GroupVersionKind()
	if !scheme.Scheme.Recognizes(gvk) {
		if current == nil {
			return o.store(info, wanted, dry)
		}
		next, err := patched(current, types.MergePatchType, jsonOf(body))
		if err != nil {
			return nil, err
		}
		return o.store(info, next, dry)
	}
	tracker := clienttesting.NewFieldManagedObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder(), applyconfigurations.NewTypeConverter(scheme.Scheme))
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if current != nil {
		typed, err := typedOf(current)
		if err != nil {
			return nil, err
		}
		if err := tracker.Create(gvr, typed, info.Namespace); err != nil {
			return nil, err
		}
	}
	force := req.URL.Query().Get("force") == "true"
	options := metav1.PatchOptions{FieldManager: req.URL.Query().Get("fieldManager"), Force: &force}
	if err := tracker.Apply(gvr, wanted, info.Namespace, options); err != nil {
		return nil, err
	}
	got, err := tracker.Get(gvr, info.Namespace, info.Name)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(got)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	next := &unstructured.Unstructured{Object: content}
	next.SetGroupVersionKind(gvk)
	return o.store(info, next, dry)
}

func (o *Overlay) create(req *http.Request, info *request.RequestInfo, body []byte, dry bool) (runtime.Object, error) {
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(jsonOf(body)); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if next.GetName() == "" && next.GetGenerateName() != "" {
		o.made++
		next.SetName(fmt.Sprintf("%s%05d", next.GetGenerateName(), o.made))
	}
	if next.GetName() == "" {
		return nil, apierrors.NewBadRequest("name or generateName is required")
	}
	if _, err := o.current(req, info, next.GetName()); err == nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(info), next.GetName())
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	return o.store(info, next, dry)
}

func (o *Overlay) delete(req *http.Request, info *request.RequestInfo, name string, dry bool) (runtime.Object, error) {
	gone, err := o.current(req, info, name)
	if err != nil {
		return nil, err
	}
	if !dry {
		if err := o.remember(keyOf(info, name), nil); err != nil {
			return nil, err
		}
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: name, Group: info.APIGroup, Kind: info.Resource, UID: gone.GetUID()},
	}, nil
}

func (o *Overlay) deleteAll(req *http.Request, info *request.RequestInfo, dry bool) (runtime.Object, error) {
	list := &unstructured.UnstructuredList{}
	if err := o.fetch(req, req.URL.Path, req.URL.RawQuery, list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		k := key{resourceOf(info), item.GetNamespace(), item.GetName()}
		if gone, ok := o.changed[k]; ok && gone == nil || dry {
			continue
		}
		if err := o.remember(k, nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// scale changes spec.replicas and answers with a Scale.
func (o *Overlay) scale(info *request.RequestInfo, current *unstructured.Unstructured, body []byte, dry bool) (runtime.Object, error) {
	wanted := struct {
		Spec struct {
			Replicas *int64 `json:"replicas"`
		} `json:"spec"`
	}{}
	if err := json.Unmarshal(jsonOf(body), &wanted); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if wanted.Spec.Replicas == nil || *wanted.Spec.Replicas < 0 {
		return nil, apierrors.NewBadRequest("spec.replicas must be 0 or more")
	}
	if err := unstructured.SetNestedField(current.Object, *wanted.Spec.Replicas, "spec", "replicas"); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if _, err := o.store(info, current, dry); err != nil {
		return nil, err
	}
	return scaleOf(current)
}

func scaleOf(u *unstructured.Unstructured) (runtime.Object, error) {
	replicas, _, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	running, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Scale", "apiVersion": "autoscaling/v1",
		"metadata": map[string]any{"name": u.GetName(), "namespace": u.GetNamespace(), "uid": string(u.GetUID()), "resourceVersion": u.GetResourceVersion()},
		"spec":     map[string]any{"replicas": replicas}, "status": map[string]any{"replicas": running},
	}}, nil
}

// store keeps an object that fits its type and its address.
func (o *Overlay) store(info *request.RequestInfo, next *unstructured.Unstructured, dry bool) (runtime.Object, error) {
	if info.Name != "" && next.GetName() != info.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", next.GetName(), info.Name))
	}
	if next.GetNamespace() == "" && info.Namespace != "" && info.Resource != "namespaces" {
		next.SetNamespace(info.Namespace)
	}
	if info.Namespace != "" && info.Resource != "namespaces" && next.GetNamespace() != info.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if scheme.Scheme.Recognizes(next.GroupVersionKind()) {
		if _, err := typedOf(next); err != nil {
			return nil, err
		}
	}
	if dry {
		return next, nil
	}
	return next, o.remember(keyOf(info, next.GetName()), next)
}

func (o *Overlay) remember(k key, u *unstructured.Unstructured) error {
	if _, known := o.changed[k]; !known {
		if len(o.order) >= maxChanges {
			return apierrors.NewTooManyRequestsError(fmt.Sprintf("a repair may touch %d objects", maxChanges))
		}
		o.order = append(o.order, k)
	}
	o.changed[k] = u
	return nil
}

// typedOf decodes an object as its built-in kind, strictly.
func typedOf(u *unstructured.Unstructured) (runtime.Object, error) {
	typed, err := scheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	// Fields that this version doesn't know are the cluster's own business.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, typed); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", u.GetKind(), u.GroupVersionKind().Version, u.GetKind(), err))
	}
	return typed, nil
}

// jsonOf is a body, perhaps YAML, as JSON; what is neither is left to fail.
func jsonOf(body []byte) []byte {
	if text, err := yaml.ToJSON(body); err == nil {
		return text
	}
	return body
}

// fetch asks the server below.
func (o *Overlay) fetch(req *http.Request, path, query string, into interface{ UnmarshalJSON([]byte) error }) error {
	inner := req.Clone(req.Context())
	inner.Method, inner.Body, inner.ContentLength = http.MethodGet, http.NoBody, 0
	inner.URL = &url.URL{Path: path, RawQuery: query}
	inner.RequestURI = inner.URL.RequestURI()
	inner.Header.Set("Accept", runtime.ContentTypeJSON)
	inner.Header.Del("Accept-Encoding")
	w := &buffer{header: http.Header{}, status: http.StatusOK}
	o.next.ServeHTTP(w, inner)
	return decode(w, into)
}

func decode(w *buffer, into interface{ UnmarshalJSON([]byte) error }) error {
	if w.status != http.StatusOK {
		status := metav1.Status{}
		if err := json.Unmarshal(w.Bytes(), &status); err != nil || status.Code == 0 {
			return apierrors.NewGenericServerResponse(w.status, "get", schema.GroupResource{}, "", strings.TrimSpace(w.String()), 0, false)
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	if err := into.UnmarshalJSON(w.Bytes()); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// buffer keeps a response.
type buffer struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffer) WriteHeader(status int) { b.status = status }
