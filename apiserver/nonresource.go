package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/server/healthz"
)

// discoveryHandlers serve a cluster's discovery documents in every form.
type discoveryHandlers struct {
	core, groups http.Handler
	group        map[string]http.Handler
	version      map[schema.GroupVersion]http.Handler
}

func newDiscoveryHandlers(g *apiGroups) *discoveryHandlers {
	h := &discoveryHandlers{group: map[string]http.Handler{}, version: map[schema.GroupVersion]http.Handler{}}
	coreManager, groupsManager := aggregated.NewResourceManager("api"), aggregated.NewResourceManager("apis")
	coreManager.SetGroups(g.aggregatedCore.Items)
	groupsManager.SetGroups(g.aggregatedGroups.Items)
	for i, item := range g.aggregatedGroups.Items {
		for j, v := range item.Versions {
			// The manager sorts by priority; the captured order is the priority.
			groupsManager.SetGroupVersionPriority(metav1.GroupVersion{Group: item.Name, Version: v.Version}, 100000-i, 1000-j)
		}
	}
	h.core = aggregated.WrapAggregatedDiscoveryToHandler(documentHandler{g.legacy}, coreManager, nil)
	h.groups = aggregated.WrapAggregatedDiscoveryToHandler(documentHandler{g.groups}, groupsManager, nil)
	for _, group := range g.groups.Groups {
		h.group[group.Name] = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			discovery.NewAPIGroupHandler(codecs, *group.DeepCopy()).ServeHTTP(w, req)
		})
	}
	for gv, list := range g.resources {
		resources := list.APIResources
		h.version[gv] = discovery.NewAPIVersionHandler(codecs, gv, discovery.APIResourceListerFunc(func() []metav1.APIResource { return resources }))
	}
	return h
}

// documentHandler serves one discovery document. Encoding writes the kind into
// what it encodes, which is why each request gets a copy.
type documentHandler struct{ document runtime.Object }

// ServeHTTP implements http.Handler.
func (d documentHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	serializer := runtime.NegotiatedSerializer(codecs)
	if _, ok := d.document.(*metav1.APIVersions); ok {
		serializer = unversioned{codecs}
	}
	responsewriters.WriteObjectNegotiated(serializer, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, req, http.StatusOK, d.document.DeepCopyObject(), false)
}

// unversioned leaves the apiVersion out, as /api always has.
type unversioned struct{ runtime.NegotiatedSerializer }

// EncoderForVersion implements runtime.NegotiatedSerializer: the document's own
// kind and version are written as they are.
func (u unversioned) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

// uncapturedPaths are what every API server has and no case holds.
var uncapturedPaths = []string{"/.well-known/openid-configuration", "/metrics", "/metrics/slis", "/openid/v1/jwks"}

// serveNonResource answers everything that is no resource.
func (s *Server) serveNonResource(w http.ResponseWriter, req *http.Request) error {
	if isHealthPath(req.URL.Path) {
		// The real handler looks at no method; clients send HEAD.
		episodeFrom(req.Context()).snapshot.health(req.URL.Path).ServeHTTP(w, req)
		return nil
	}
	if req.Method != http.MethodGet {
		if isNonResourcePath(req) {
			return errMethodNotAllowed
		}
		return errNoPath
	}
	snap := episodeFrom(req.Context()).snapshot
	path := req.URL.Path
	trimmed := strings.TrimSuffix(path, "/")
	if strings.HasPrefix(path, "/api") {
		if err := acceptable(req, runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf); err != nil {
			return err
		}
	}
	switch {
	case path == "/" || path == "":
		responsewriters.WriteRawJSON(http.StatusOK, metav1.RootPaths{Paths: snap.paths()}, w)
	case trimmed == "/version":
		return snap.serveVersion(w, req)
	case trimmed == "/api":
		snap.discovery.core.ServeHTTP(w, req)
	case trimmed == "/apis":
		snap.discovery.groups.ServeHTTP(w, req)
	case path == "/openapi/v2":
		return snap.openapi.serveV2(w, req)
	case strings.HasPrefix(path, "/openapi/v3"):
		return snap.openapi.serveV3(w, req)
	case strings.HasPrefix(path, "/api/"), strings.HasPrefix(path, "/apis/"):
		return snap.serveDiscovery(w, req)
	case slices.Contains(uncapturedPaths, path), strings.HasPrefix(path, "/debug/"):
		return newUnsupportedQuery("%s of the API server was not captured", path)
	default:
		return errNoPath
	}
	return nil
}

func isNonResourcePath(req *http.Request) bool {
	path := strings.TrimSuffix(req.URL.Path, "/")
	return path == "" || path == "/version" || path == "/api" || strings.HasPrefix(path, "/api/") || path == "/apis" ||
		strings.HasPrefix(path, "/apis/") || strings.HasPrefix(path, "/openapi/")
}

func (s *snapshot) serveVersion(w http.ResponseWriter, req *http.Request) error {
	if s.versionDocument == nil {
		return newUnsupportedQuery("the cluster's version was not captured")
	}
	if err := acceptable(req, runtime.ContentTypeJSON); err != nil {
		return err
	}
	b := &bytes.Buffer{}
	if err := json.Indent(b, bytes.TrimSpace(s.versionDocument), "", "  "); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(b.Bytes())
	return err
}

// serveDiscovery answers /api/v1, /apis/GROUP and /apis/GROUP/VERSION.
func (s *snapshot) serveDiscovery(w http.ResponseWriter, req *http.Request) error {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var handler http.Handler
	group := ""
	switch {
	case parts[0] == "api" && len(parts) == 2:
		handler = s.discovery.version[schema.GroupVersion{Version: parts[1]}]
	case parts[0] == "apis" && len(parts) == 2:
		group = parts[1]
		handler = s.discovery.group[group]
	case parts[0] == "apis" && len(parts) == 3:
		group = parts[1]
		handler = s.discovery.version[schema.GroupVersion{Group: parts[1], Version: parts[2]}]
	}
	if handler == nil {
		return s.errNoResource(group)
	}
	handler.ServeHTTP(w, req)
	return nil
}

// errNoResource is the answer about something unknown: routes of built-in groups
// say it in a Status, a path that nobody handles in text.
func (s *snapshot) errNoResource(group string) error {
	if group == "" || s.api.group(group) != nil && scheme.IsGroupRegistered(group) {
		return errNoRoute
	}
	return errNoPath
}

// paths are what the root lists.
func (s *snapshot) paths() []string {
	paths := []string{"/api", "/apis", "/apis/", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/readyz", "/version"}
	paths = append(paths, uncapturedPaths...)
	for gv := range s.api.resources {
		if gv.Group == "" {
			paths = append(paths, "/api/"+gv.Version)
			continue
		}
		paths = append(paths, "/apis/"+gv.Group, "/apis/"+gv.String())
	}
	for _, kind := range healthKinds {
		for _, check := range s.healthChecks(kind) {
			paths = append(paths, "/"+kind+"/"+check.Name())
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

var healthKinds = []string{"healthz", "livez", "readyz"}

func isHealthPath(path string) bool {
	kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(healthKinds, kind)
}

// health answers with the checks that were captured, each as it was.
func (s *snapshot) health(path string) http.Handler {
	kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	m := exactPaths{}
	healthz.InstallPathHandler(m, "/"+kind, s.healthChecks(kind)...)
	return m
}

// exactPaths is a mux without patterns.
type exactPaths map[string]http.Handler

// Handle implements the mux that healthz wants.
func (m exactPaths) Handle(path string, h http.Handler) { m[path] = h }

// ServeHTTP implements http.Handler.
func (m exactPaths) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if h := m[req.URL.Path]; h != nil {
		h.ServeHTTP(w, req)
		return
	}
	http.NotFound(w, req)
}

// healthChecks are the checks of /healthz, /livez or /readyz; this server's ping
// alone when they were not captured.
func (s *snapshot) healthChecks(kind string) []healthz.HealthChecker {
	text, err := s.fixture.Document("health/" + kind + ".txt")
	if err != nil {
		return []healthz.HealthChecker{healthz.PingHealthz}
	}
	var checks []healthz.HealthChecker
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if len(line) < 4 || line[0] != '[' {
			continue
		}
		name, _, _ := strings.Cut(line[3:], " ")
		failed := line[1] == '-'
		checks = append(checks, healthz.NamedCheck(name, func(*http.Request) error {
			if failed {
				return errors.New("failed when it was captured")
			}
			return nil
		}))
	}
	return checks
}
