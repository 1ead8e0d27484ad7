package apiserver

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/authentication/selfsubjectreview"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"
	"k8s.io/kubernetes/pkg/registry/authorization/localsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectrulesreview"
	"k8s.io/kubernetes/pkg/registry/authorization/subjectaccessreview"
)

// reviewStorages are Kubernetes' own, over the authorizer that also decides
// about requests, so that what they say is what happens.
func reviewStorages() map[schema.GroupResource]rest.Creater {
	z := reviewAuthorizer{}
	return map[schema.GroupResource]rest.Creater{
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  selfsubjectaccessreview.NewREST(z, scheme),
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   selfsubjectrulesreview.NewREST(z),
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      subjectaccessreview.NewREST(z, scheme),
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: localsubjectaccessreview.NewREST(z, scheme),
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       selfsubjectreview.NewREST(),
		{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             tokenreview.NewREST(authenticator.RequestFunc(noCapturedToken), nil),
	}
}

// noCapturedToken knows no token: a case holds none that could be verified, and
// an episode's own is none of the cluster's.
func noCapturedToken(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, errors.New("invalid bearer token")
}

// create answers the creation of a review or of a debugging pod as upstream does.
func create(w http.ResponseWriter, req *http.Request, r *resource, storage rest.Creater) error {
	scope := *r.scope
	manager, err := managedfields.NewDefaultFieldManager(
		managedfields.NewDeducedTypeConverter(), scheme, scheme, scheme, r.gvk, r.gvk.GroupVersion(), "", nil)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	scope.FieldManager = manager
	scope.TableConvertor = nil // what is created isn't answered as a table
	handlers.CreateResource(storage, &scope, admission.NewChainHandler())(w, req)
	return nil
}
