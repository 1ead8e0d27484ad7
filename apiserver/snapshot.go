package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/endpoints/handlers"

	"github.com/kubecase/kubecase/fixtures"
)

// ReasonUnsupportedQuery is the Status reason of a query outside what was
// captured: neither evidence that something exists nor that it does not.
const ReasonUnsupportedQuery metav1.StatusReason = "UnsupportedQuery"

// newUnsupportedQuery refuses a query that the case can't answer. The code is
// 501: 404 would read as "does not exist", 503 as "try again".
func newUnsupportedQuery(format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 501, Reason: ReasonUnsupportedQuery, Message: fmt.Sprintf(format, args...),
	}}
}

// snapshot is a case as the API server serves it. It is immutable and shared by
// all episodes of the case.
type snapshot struct {
	fixture  *fixtures.Case
	captured time.Time
	// versionDocument is the body of /version.
	versionDocument []byte
	// major and minor version of the captured cluster.
	major, minor int

	api       *apiGroups
	discovery *discoveryHandlers
	openapi   *openAPIHandlers
	resources map[schema.GroupVersionResource]*resource
	// maxResourceVersion is the newest that the case knows: the cluster's "now".
	maxResourceVersion uint64
	rbac               policyAuthorizer
	flowControl        *flowControl
}

// resource is one API resource of a snapshot, captured or only discovered.
type resource struct {
	snapshot   *snapshot
	gvr        schema.GroupVersionResource
	gvk        schema.GroupVersionKind
	listKind   string
	namespaced bool
	singular   string
	verbs      []string
	// subresources by name, as discovery lists them.
	subresources map[string]metav1.APIResource
	// custom resources are served as maps: other key order, items with a kind.
	custom bool
	// crd and crdVersion are nil unless a captured definition describes the resource.
	crd        *apiextensionsv1.CustomResourceDefinition
	crdVersion *apiextensionsv1.CustomResourceDefinitionVersion
	// data is nil when the resource is in discovery but was not captured.
	data    *fixtures.Resource
	entries []*entry
	// added are the keys of objects that an episode made; nil for what was captured.
	added map[string]bool
	// sibling is the captured resource that an uncaptured one is read from;
	// converted is done when it was.
	sibling         *resource
	converted       sync.Once
	convertErr      error
	learned         learning
	resourceVersion uint64
	warning         string
	scope           *handlers.RequestScope
}

func (r *resource) listGVK() schema.GroupVersionKind {
	return r.gvk.GroupVersion().WithKind(r.listKind)
}

func (r *resource) hasVerb(verb string) bool { return slices.Contains(r.verbs, verb) }

func newSnapshot(c *fixtures.Case) (*snapshot, error) {
	s := &snapshot{
		fixture:   c,
		captured:  c.Manifest().Capture.Time.Time,
		resources: map[schema.GroupVersionResource]*resource{},
	}
	if err := s.loadVersion(); err != nil {
		return nil, err
	}
	crds, err := capturedCRDs(c)
	if err != nil {
		return nil, err
	}
	if s.api, err = loadAPIGroups(c, crds); err != nil {
		return nil, err
	}
	for gv, list := range s.api.resources {
		s.addDiscovered(gv, list)
	}
	for _, data := range c.Resources() {
		if err := s.addCaptured(data); err != nil {
			return nil, err
		}
	}
	for _, r := range s.resources {
		r.crd, r.crdVersion = crdVersion(crds, r.gvr)
		r.custom = !builtIn(r.gvk) && (r.crdVersion != nil || r.data != nil && r.data.ItemsTyped)
		r.warning = r.deprecation()
		r.scope = newScope(r)
	}
	s.findSiblings()
	s.discovery = newDiscoveryHandlers(s.api)
	s.openapi = newOpenAPIHandlers(s)
	s.rbac = newRBAC(s)
	s.flowControl = newFlowControl(s)
	return s, nil
}

// decodeAll decodes every object, and learns how it is printed, ahead of the first
// request that needs it, until done.
func (s *snapshot) decodeAll(done <-chan struct{}) {
	for _, r := range s.resources {
		if r.sibling != nil {
			continue // it is converted when it is asked for
		}
		for _, e := range r.entries {
			select {
			case <-done:
				return
			default:
				e.partialJSON(r.gvk)
			}
		}
	}
	for _, r := range s.resources {
		select {
		case <-done:
			return
		default:
			if r.sibling != nil {
				continue
			}
			for entries := range slices.Chunk(r.entries, learnedAtOnce) {
				// Whoever asks for a Table gets the error.
				_ = r.learnRows(context.Background(), []*object{{of: r, entry: entries[0]}})
			}
		}
	}
}

// loadVersion reads the captured /version. Without one the cluster's version is
// taken to be that of the binary's own types, and /version is not captured.
func (s *snapshot) loadVersion() error {
	data, err := s.fixture.Document("version.json")
	if err != nil {
		s.major, s.minor = 1, binaryMinor
		return nil
	}
	info := version.Info{}
	if err := json.Unmarshal(data, &info); err != nil {
		return fmt.Errorf("version.json: %w", err)
	}
	if s.major, s.minor, err = deprecation.MajorMinor(info); err != nil {
		return fmt.Errorf("version.json: %w", err)
	}
	s.versionDocument = data
	return nil
}

func capturedCRDs(c *fixtures.Case) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	data := c.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	if data == nil {
		return nil, nil
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, o := range data.Objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(o.Raw, crd); err != nil {
			return nil, fmt.Errorf("customresourcedefinition %s: %w", o.Name, err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

func (s *snapshot) addDiscovered(gv schema.GroupVersion, list *metav1.APIResourceList) {
	for _, info := range list.APIResources {
		name, sub, isSub := strings.Cut(info.Name, "/")
		gvr := gv.WithResource(name)
		r := s.resources[gvr]
		if r == nil {
			r = &resource{snapshot: s, gvr: gvr, subresources: map[string]metav1.APIResource{}}
			s.resources[gvr] = r
		}
		if isSub {
			r.subresources[sub] = info
			// A subresource can stand without its parent in discovery.
			if r.gvk.Empty() {
				r.namespaced = info.Namespaced
			}
			continue
		}
		r.gvk, r.namespaced, r.singular, r.verbs = gv.WithKind(info.Kind), info.Namespaced, info.SingularName, info.Verbs
		r.listKind = info.Kind + "List"
	}
}

func (s *snapshot) addCaptured(data *fixtures.Resource) error {
	r := s.resources[data.GVR]
	if r == nil || r.gvk.Empty() {
		return fmt.Errorf("%s was captured but the captured discovery documents don't have it: add it to discovery/, or leave discovery/ out and it is made from the objects", data.GVR)
	}
	r.data, r.listKind = data, data.ListKind
	if r.listKind == "" {
		r.listKind = r.gvk.Kind + "List"
	}
	r.entries = make([]*entry, len(data.Objects))
	for i, o := range data.Objects {
		r.entries[i] = &entry{Object: o}
		r.resourceVersion = max(r.resourceVersion, parseResourceVersion(o.ResourceVersion))
	}
	// The list's own version says when it was read; objects' versions stand in for a list that lost it.
	if v := parseResourceVersion(data.ResourceVersion); v > 0 {
		r.resourceVersion = v
	}
	s.maxResourceVersion = max(s.maxResourceVersion, r.resourceVersion)
	return nil
}

// parseResourceVersion returns 0 for what is no number: resource versions of
// some aggregated APIs aren't.
func parseResourceVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0
	}
	return v
}

// deprecation is the Warning that the captured version of Kubernetes sends with
// every answer about a deprecated resource.
func (r *resource) deprecation() string {
	if r.crdVersion != nil && r.crdVersion.Deprecated {
		if r.crdVersion.DeprecationWarning != nil {
			return *r.crdVersion.DeprecationWarning
		}
		return fmt.Sprintf("%s/%s %s is deprecated", r.gvk.Group, r.gvk.Version, r.gvk.Kind)
	}
	obj, err := scheme.New(r.gvk)
	if err != nil || !deprecation.IsDeprecated(obj, r.snapshot.major, r.snapshot.minor) {
		return ""
	}
	obj.GetObjectKind().SetGroupVersionKind(r.gvk)
	return deprecation.WarningMessage(obj)
}

// covered returns the error for a query of a namespace ("" for all, or for
// cluster scope) that was not captured.
func (r *resource) covered(namespace string) error {
	swept := r.gvr
	if r.sibling != nil {
		swept = r.sibling.gvr
	}
	covered, reason := r.snapshot.fixture.Covers(swept, namespace)
	if r.data != nil && covered {
		return nil
	}
	if reason == "" {
		reason = "it is not in the snapshot"
	}
	if namespace != "" && r.data != nil {
		return newUnsupportedQuery("%s in the namespace %q were not captured: %s", r.gvr.GroupResource(), namespace, reason)
	}
	if r.data != nil {
		return newUnsupportedQuery("%s were not captured in all namespaces: %s; ask for one namespace", r.gvr.GroupResource(), reason)
	}
	return newUnsupportedQuery("%s was not captured: %s", r.gvr.GroupResource(), reason)
}
