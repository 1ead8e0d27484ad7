package apiserver

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// readVerbs are what a reader may do with resources.
var readVerbs = []string{"get", "list", "watch"}

// selfReviews are resources whose creation changes nothing and tells a subject
// what it is and may do; otherReviews tell it of others.
var selfReviews = []schema.GroupResource{
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
}

var otherReviews = []schema.GroupResource{
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
	{Group: "authentication.k8s.io", Resource: "tokenreviews"},
}

// interactive are the subresources that reach into a running cluster. What they
// answer is the shims' business; a reader may ask.
var interactive = []string{"exec", "attach", "portforward", "proxy"}

// episodeAuthorizer decides for an episode's subject: a reader of everything, or
// a captured subject for whom the captured Roles and Bindings decide.
type episodeAuthorizer struct{}

var _ authorizer.Authorizer = episodeAuthorizer{}
var _ authorizer.RuleResolver = episodeAuthorizer{}

// Authorize implements authorizer.Authorizer.
func (episodeAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	e := episodeFrom(ctx)
	if e.reads(a.GetUser()) {
		if readerMay(a) || debugs(ctx, a) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
	return e.snapshot.rbac.Authorize(ctx, a)
}

// reviewAuthorizer says what really happens: nobody may write.
type reviewAuthorizer struct{ episodeAuthorizer }

// Authorize implements authorizer.Authorizer.
func (z reviewAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := z.episodeAuthorizer.Authorize(ctx, a)
	if decision == authorizer.DecisionAllow && !changesNothing(a) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return decision, reason, err
}

// ConditionsAwareAuthorize implements authorizer.Authorizer; no decision here has conditions.
func (z reviewAuthorizer) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(z.Authorize(ctx, a))
}

// ConditionsAwareAuthorize implements authorizer.Authorizer; no decision here has conditions.
func (z episodeAuthorizer) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(z.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer.
func (episodeAuthorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// reads reports whether u is the episode's reader of everything.
func (e *Episode) reads(u user.Info) bool {
	return e.reader && u != nil && u.GetName() == e.subject.GetName()
}

// readerMay reports whether a reader of everything may make a request.
func readerMay(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return slices.Contains([]string{"get", "head", "options"}, a.GetVerb())
	}
	switch a.GetVerb() {
	case "get", "list", "watch":
		return true
	case "": // OPTIONS, which no resource answers
		return true
	case "create":
		return opensStream(a) || slices.Contains(selfReviews, groupResource(a))
	}
	return false
}

// changesNothing reports whether a request can't change a cluster, whatever its
// subject's rights.
func changesNothing(a authorizer.Attributes) bool {
	return readerMay(a) || a.GetVerb() == "impersonate" ||
		a.GetVerb() == "create" && slices.Contains(otherReviews, groupResource(a))
}

// opensStream reports whether a create is how older clients open a stream.
func opensStream(a authorizer.Attributes) bool {
	return a.GetAPIGroup() == "" && slices.Contains(interactive, a.GetSubresource()) && a.GetResource() == "pods" && a.GetSubresource() != "proxy"
}

func groupResource(a authorizer.Attributes) schema.GroupResource {
	return schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
}

// RulesFor implements authorizer.RuleResolver: what `kubectl auth can-i --list`
// prints, less the writes that are refused to everybody.
func (episodeAuthorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	e := episodeFrom(ctx)
	if e.reads(u) {
		resources := []authorizer.ResourceRuleInfo{
			&authorizer.DefaultResourceRuleInfo{Verbs: readVerbs, APIGroups: []string{"*"}, Resources: []string{"*"}},
		}
		for _, r := range selfReviews {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: []string{"create"}, APIGroups: []string{r.Group}, Resources: []string{r.Resource},
			})
		}
		return resources, []authorizer.NonResourceRuleInfo{
			&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"*"}},
		}, false, nil
	}
	resources, paths, incomplete, err := e.snapshot.rbac.RulesFor(ctx, u, namespace)
	return withoutWrites(resources), paths, incomplete, err
}

// withoutWrites narrows rules to what changesNothing lets through.
func withoutWrites(rules []authorizer.ResourceRuleInfo) []authorizer.ResourceRuleInfo {
	var out []authorizer.ResourceRuleInfo
	for _, rule := range rules {
		var verbs []string
		for _, verb := range rule.GetVerbs() {
			switch {
			case verb == "*":
				verbs = append(verbs, readVerbs...)
			case slices.Contains(readVerbs, verb), verb == "create" && onlyReviews(rule):
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			out = append(out, &authorizer.DefaultResourceRuleInfo{
				Verbs: verbs, APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
			})
		}
	}
	return out
}

func onlyReviews(rule authorizer.ResourceRuleInfo) bool {
	for _, group := range rule.GetAPIGroups() {
		for _, resource := range rule.GetResources() {
			of := schema.GroupResource{Group: group, Resource: resource}
			if !slices.Contains(selfReviews, of) && !slices.Contains(otherReviews, of) {
				return false
			}
		}
	}
	return len(rule.GetResources()) > 0
}

// newRBAC is Kubernetes' own authorizer over the captured RBAC objects. A case
// that holds none of a kind gets the policy that every cluster starts with.
func newRBAC(s *snapshot) policyAuthorizer {
	p := policy{}
	p.roles = capturedPolicy[rbacv1.Role](s, "roles", nil)
	p.roleBindings = capturedPolicy[rbacv1.RoleBinding](s, "rolebindings", nil)
	p.clusterRoles = capturedPolicy(s, "clusterroles", bootstrappolicy.ClusterRoles())
	p.clusterRoleBindings = capturedPolicy(s, "clusterrolebindings", bootstrappolicy.ClusterRoleBindings())
	return policyAuthorizer{RBACAuthorizer: rbac.New(p, p, p, p)}
}

// policyAuthorizer is the real server's chain less the node authorizer: the
// privileged group first, then RBAC.
type policyAuthorizer struct{ *rbac.RBACAuthorizer }

var privileged = authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)

// Authorize implements authorizer.Authorizer.
func (p policyAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if decision, reason, err := privileged.Authorize(ctx, a); decision != authorizer.DecisionNoOpinion {
		return decision, reason, err
	}
	return p.RBACAuthorizer.Authorize(ctx, a)
}

// capturedPolicy are the captured RBAC objects of a resource.
func capturedPolicy[T any](s *snapshot, resourceName string, otherwise []T) []T {
	return capturedObjects(s, rbacv1.SchemeGroupVersion.WithResource(resourceName), otherwise)
}

// capturedObjects are all objects of a resource as the binary's type T, or the
// given ones where the resource was not captured.
func capturedObjects[T any](s *snapshot, gvr schema.GroupVersionResource, otherwise []T) []T {
	r := s.resources[gvr]
	if r == nil || r.data == nil {
		return otherwise
	}
	out := make([]T, 0, len(r.entries))
	for _, e := range r.entries {
		if typed, ok := e.decodeTyped(r.gvk).(any).(*T); ok {
			out = append(out, *typed)
		}
	}
	return out
}

// policy gives the authorizer the captured objects.
type policy struct {
	roles               []rbacv1.Role
	roleBindings        []rbacv1.RoleBinding
	clusterRoles        []rbacv1.ClusterRole
	clusterRoleBindings []rbacv1.ClusterRoleBinding
}

func (p policy) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	for i := range p.roles {
		if p.roles[i].Namespace == namespace && p.roles[i].Name == name {
			return &p.roles[i], nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
}

func (p policy) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	for i := range p.clusterRoles {
		if p.clusterRoles[i].Name == name {
			return &p.clusterRoles[i], nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), name)
}

func (p policy) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	var out []*rbacv1.RoleBinding
	for i := range p.roleBindings {
		if p.roleBindings[i].Namespace == namespace {
			out = append(out, &p.roleBindings[i])
		}
	}
	return out, nil
}

func (p policy) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	out := make([]*rbacv1.ClusterRoleBinding, len(p.clusterRoleBindings))
	for i := range p.clusterRoleBindings {
		out[i] = &p.clusterRoleBindings[i]
	}
	return out, nil
}
