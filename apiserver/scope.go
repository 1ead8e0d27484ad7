package apiserver

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
)

// equivalents is shared by all scopes: a snapshot converts nothing between resources.
var equivalents = runtime.NewEquivalentResourceRegistry()

// newScope is what upstream's handlers need to know of a resource.
func newScope(r *resource) *handlers.RequestScope {
	serializer := replaySerializer{NegotiatedSerializer: codecs, custom: !builtIn(r.gvk)}
	scope := &handlers.RequestScope{
		Namer:                    handlers.ContextBasedNaming{Namer: runtime.Namer(meta.NewAccessor()), ClusterScoped: !r.namespaced},
		Serializer:               serializer,
		ParameterCodec:           parameterCodec,
		Creater:                  scheme,
		Convertor:                fieldConvertor{ObjectConvertor: scheme, of: r},
		Defaulter:                scheme,
		Typer:                    scheme,
		UnsafeConvertor:          runtime.UnsafeObjectConvertor(scheme),
		EquivalentResourceMapper: equivalents,
		TableConvertor:           r,
		Resource:                 r.gvr,
		Kind:                     r.gvk,
		HubGroupVersion:          r.gvk.GroupVersion(),
		MetaGroupVersion:         metav1.SchemeGroupVersion,
		// Bodies are only read of reviews, which are small.
		MaxRequestBodyBytes: 3 << 20,
	}
	if !builtIn(r.gvk) {
		// As CustomResourceDefinitions' handler: no protobuf for kinds without one.
		for _, info := range serializer.SupportedMediaTypes() {
			if info.MediaType != runtime.ContentTypeProtobuf {
				scope.StandardSerializers = append(scope.StandardSerializers, info)
			}
		}
	}
	return scope
}

// subresourceScope is the scope of one of r's subresources.
func subresourceScope(r *resource, name string) *handlers.RequestScope {
	scope := *r.scope
	scope.Subresource = name
	return &scope
}
