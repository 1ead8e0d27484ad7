package apiserver

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/kubecase/kubecase/fixtures"
)

// builtInDiscovery is what the Kubernetes version that this binary is built from
// says of its own resources. It serves cases that came without discovery documents.
//
//go:generate sh -c "cp $(go list -m -f {{.Dir}} k8s.io/kubernetes)/api/discovery/aggregated_v2.json $(go list -m -f {{.Dir}} k8s.io/kubernetes)/api/discovery/api__v1.json builtin/ && chmod u+w builtin/*.json"
//go:embed builtin/*.json
var builtInDiscovery embed.FS

// apiGroups is what a cluster said of its API: the documents that discovery
// serves and the index that requests are routed by.
type apiGroups struct {
	// legacy is the body of /api.
	legacy *metav1.APIVersions
	// groups is the body of /apis, in its order.
	groups *metav1.APIGroupList
	// resources is the body of /api/v1 and /apis/GROUP/VERSION.
	resources map[schema.GroupVersion]*metav1.APIResourceList
	// aggregated are the same in aggregated form.
	aggregatedCore, aggregatedGroups *apidiscoveryv2.APIGroupDiscoveryList
}

func (g *apiGroups) group(name string) *metav1.APIGroup {
	for i := range g.groups.Groups {
		if g.groups.Groups[i].Name == name {
			return &g.groups.Groups[i]
		}
	}
	return nil
}

// loadAPIGroups reads the captured discovery documents, completing whichever
// form is missing from the other, or makes them from what the case holds.
func loadAPIGroups(c *fixtures.Case, crds []*apiextensionsv1.CustomResourceDefinition) (*apiGroups, error) {
	g := &apiGroups{resources: map[schema.GroupVersion]*metav1.APIResourceList{}}
	var err error
	if g.aggregatedCore, err = optionalDocument[apidiscoveryv2.APIGroupDiscoveryList](c, "discovery/aggregated-api.json"); err != nil {
		return nil, err
	}
	if g.aggregatedGroups, err = optionalDocument[apidiscoveryv2.APIGroupDiscoveryList](c, "discovery/aggregated-apis.json"); err != nil {
		return nil, err
	}
	if g.legacy, err = optionalDocument[metav1.APIVersions](c, "discovery/api.json"); err != nil {
		return nil, err
	}
	if g.groups, err = optionalDocument[metav1.APIGroupList](c, "discovery/apis.json"); err != nil {
		return nil, err
	}
	for _, name := range c.DocumentNames() {
		if !strings.HasPrefix(name, "discovery/resources/") {
			continue
		}
		list, err := optionalDocument[metav1.APIResourceList](c, name)
		if err != nil {
			return nil, err
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("%s: groupVersion %q: %w", name, list.GroupVersion, err)
		}
		g.resources[gv] = list
	}
	if len(g.resources) == 0 && g.aggregatedCore == nil && g.aggregatedGroups == nil {
		if err := g.generate(c, crds); err != nil {
			return nil, err
		}
	}
	return g, g.complete()
}

func optionalDocument[T any](c *fixtures.Case, name string) (*T, error) {
	data, err := c.Document(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// complete fills in, from the form that was captured, the one that was not.
func (g *apiGroups) complete() error {
	for _, aggregated := range []*apidiscoveryv2.APIGroupDiscoveryList{g.aggregatedCore, g.aggregatedGroups} {
		if aggregated == nil {
			continue
		}
		groups, resources, _ := clientdiscovery.SplitGroupsAndResources(*aggregated)
		if g.groups == nil && aggregated == g.aggregatedGroups {
			g.groups = groups
		}
		for gv, list := range resources {
			if g.resources[gv] == nil {
				g.resources[gv] = list
			}
		}
	}
	if g.groups == nil {
		g.groups = &metav1.APIGroupList{}
		for _, gv := range sortedGroupVersions(g.resources) {
			g.addGroupVersion(gv)
		}
	}
	g.groups.TypeMeta = metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}
	g.groups.Groups = slices.DeleteFunc(g.groups.Groups, func(group metav1.APIGroup) bool { return group.Name == "" })
	if g.legacy == nil {
		g.legacy = &metav1.APIVersions{Versions: []string{"v1"}}
	}
	g.legacy.TypeMeta = metav1.TypeMeta{Kind: "APIVersions"}
	if g.aggregatedCore == nil {
		core := apidiscoveryv2.APIGroupDiscovery{}
		if err := g.appendAggregated(&core, schema.GroupVersion{Version: "v1"}); err != nil {
			return err
		}
		g.aggregatedCore = &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{core}}
	}
	if g.aggregatedGroups == nil {
		g.aggregatedGroups = &apidiscoveryv2.APIGroupDiscoveryList{}
		for _, group := range g.groups.Groups {
			item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group.Name}}
			for _, v := range group.Versions {
				if err := g.appendAggregated(&item, schema.GroupVersion{Group: group.Name, Version: v.Version}); err != nil {
					return err
				}
			}
			g.aggregatedGroups.Items = append(g.aggregatedGroups.Items, item)
		}
	}
	return nil
}

func (g *apiGroups) appendAggregated(to *apidiscoveryv2.APIGroupDiscovery, gv schema.GroupVersion) error {
	list := g.resources[gv]
	if list == nil {
		return nil
	}
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(list.APIResources)
	if err != nil {
		return fmt.Errorf("discovery of %s: %w", gv, err)
	}
	to.Versions = append(to.Versions, apidiscoveryv2.APIVersionDiscovery{
		Version: gv.Version, Resources: resources, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
	})
	return nil
}

func (g *apiGroups) addGroupVersion(gv schema.GroupVersion) {
	if gv.Group == "" {
		return
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	if group := g.group(gv.Group); group != nil {
		group.Versions = append(group.Versions, version)
		return
	}
	g.groups.Groups = append(g.groups.Groups, metav1.APIGroup{
		Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	})
}

// generate makes discovery from what the case holds: of each captured resource
// what Kubernetes, or its CustomResourceDefinition, says of it, and the review
// APIs that every reader may use.
func (g *apiGroups) generate(c *fixtures.Case, crds []*apiextensionsv1.CustomResourceDefinition) error {
	known, err := builtInResources()
	if err != nil {
		return err
	}
	add := func(gv schema.GroupVersion, resources ...metav1.APIResource) {
		if g.resources[gv] == nil {
			g.resources[gv] = &metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
			}
		}
		g.resources[gv].APIResources = append(g.resources[gv].APIResources, resources...)
	}
	for _, r := range c.Resources() {
		gv := r.GVR.GroupVersion()
		if found := known.withSubresources(r.GVR); len(found) > 0 {
			add(gv, found...)
		} else if found := crdResources(crds, r.GVR); len(found) > 0 {
			add(gv, found...)
		} else {
			add(gv, metav1.APIResource{
				Name: r.GVR.Resource, SingularName: strings.ToLower(r.Kind), Kind: r.Kind,
				Namespaced: slices.ContainsFunc(r.Objects, func(o *fixtures.Object) bool { return o.Namespace != "" }),
				Verbs:      metav1.Verbs{"get", "list", "watch"},
			})
		}
	}
	for _, gv := range []schema.GroupVersion{{Group: "authorization.k8s.io", Version: "v1"}, {Group: "authentication.k8s.io", Version: "v1"}} {
		if list := known[gv]; list != nil && g.resources[gv] == nil {
			add(gv, list.APIResources...)
		}
	}
	if g.resources[schema.GroupVersion{Version: "v1"}] == nil {
		add(schema.GroupVersion{Version: "v1"})
	}
	for _, list := range g.resources {
		slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	}
	return nil
}

type resourceLists map[schema.GroupVersion]*metav1.APIResourceList

func (l resourceLists) withSubresources(gvr schema.GroupVersionResource) (found []metav1.APIResource) {
	if l[gvr.GroupVersion()] == nil {
		return nil
	}
	for _, r := range l[gvr.GroupVersion()].APIResources {
		if r.Name == gvr.Resource || strings.HasPrefix(r.Name, gvr.Resource+"/") {
			found = append(found, r)
		}
	}
	return found
}

func builtInResources() (resourceLists, error) {
	data, err := builtInDiscovery.ReadFile("builtin/aggregated_v2.json")
	if err != nil {
		return nil, err
	}
	groups := apidiscoveryv2.APIGroupDiscoveryList{}
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, err
	}
	_, resources, _ := clientdiscovery.SplitGroupsAndResources(groups)
	if data, err = builtInDiscovery.ReadFile("builtin/api__v1.json"); err != nil {
		return nil, err
	}
	core := &metav1.APIResourceList{}
	if err := json.Unmarshal(data, core); err != nil {
		return nil, err
	}
	resources[schema.GroupVersion{Version: "v1"}] = core
	return resources, nil
}

// crdResources is what a CustomResourceDefinition says of one of its versions.
func crdResources(crds []*apiextensionsv1.CustomResourceDefinition, gvr schema.GroupVersionResource) []metav1.APIResource {
	crd, version := crdVersion(crds, gvr)
	if version == nil {
		return nil
	}
	names, namespaced := crd.Spec.Names, crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	found := []metav1.APIResource{{
		Name: names.Plural, SingularName: names.Singular, Kind: names.Kind, Namespaced: namespaced,
		ShortNames: names.ShortNames, Categories: names.Categories,
		Verbs: metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"},
	}}
	if version.Subresources != nil && version.Subresources.Status != nil {
		found = append(found, metav1.APIResource{
			Name: names.Plural + "/status", Kind: names.Kind, Namespaced: namespaced, Verbs: metav1.Verbs{"get", "patch", "update"},
		})
	}
	if version.Subresources != nil && version.Subresources.Scale != nil {
		found = append(found, metav1.APIResource{
			Name: names.Plural + "/scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Namespaced: namespaced,
			Verbs: metav1.Verbs{"get", "patch", "update"},
		})
	}
	return found
}

func crdVersion(crds []*apiextensionsv1.CustomResourceDefinition, gvr schema.GroupVersionResource) (*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinitionVersion) {
	for _, crd := range crds {
		if crd.Spec.Group != gvr.Group || crd.Spec.Names.Plural != gvr.Resource {
			continue
		}
		for i := range crd.Spec.Versions {
			if crd.Spec.Versions[i].Name == gvr.Version {
				return crd, &crd.Spec.Versions[i]
			}
		}
	}
	return nil, nil
}

func sortedGroupVersions(m map[schema.GroupVersion]*metav1.APIResourceList) []schema.GroupVersion {
	out := make([]schema.GroupVersion, 0, len(m))
	for gv := range m {
		out = append(out, gv)
	}
	slices.SortFunc(out, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return out
}
