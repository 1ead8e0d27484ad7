package apiserver

import (
	"net/http"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// flowControl tells which captured FlowSchema a request falls under, as the real
// server does in two response headers. Nothing is queued here; the headers are
// what makes clients such as kubectl leave their own throttling off.
type flowControl struct {
	schemas []flowcontrolv1.FlowSchema
	// levels are the UIDs of priority levels by name.
	levels map[string]string
}

func newFlowControl(s *snapshot) *flowControl {
	f := &flowControl{levels: map[string]string{}, schemas: capturedObjects[flowcontrolv1.FlowSchema](s, flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"), nil)}
	for _, level := range capturedObjects[flowcontrolv1.PriorityLevelConfiguration](s, flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"), nil) {
		f.levels[level.Name] = string(level.UID)
	}
	slices.SortFunc(f.schemas, func(a, b flowcontrolv1.FlowSchema) int {
		if a.Spec.MatchingPrecedence != b.Spec.MatchingPrecedence {
			return int(a.Spec.MatchingPrecedence) - int(b.Spec.MatchingPrecedence)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return f
}

// withFlowControlHeaders names the flow schema and priority level of each request
// that flow control handles: all but streams.
func withFlowControlHeaders(h http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		u, authenticated := request.UserFrom(req.Context())
		if ok && authenticated && (info.Verb == "watch" || !longRunning(req, info)) {
			f := episodeFrom(req.Context()).snapshot.flowControl
			if schema := f.classify(info, u); schema != nil {
				w.Header().Set(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID, string(schema.UID))
				w.Header().Set(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID, f.levels[schema.Spec.PriorityLevelConfiguration.Name])
			}
		}
		h.ServeHTTP(w, req)
	})
}

// classify follows upstream's rules (pkg/util/flowcontrol/rule.go): the first
// schema in order of precedence of which a rule matches.
func (f *flowControl) classify(info *request.RequestInfo, u user.Info) *flowcontrolv1.FlowSchema {
	for i := range f.schemas {
		for _, rule := range f.schemas[i].Spec.Rules {
			if slices.ContainsFunc(rule.Subjects, func(s flowcontrolv1.Subject) bool { return matchesSubject(s, u) }) && matchesRequest(rule, info) {
				return &f.schemas[i]
			}
		}
	}
	return nil
}

func matchesSubject(s flowcontrolv1.Subject, u user.Info) bool {
	switch {
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
		return s.User.Name == flowcontrolv1.NameAll || s.User.Name == u.GetName()
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
		return s.Group.Name == flowcontrolv1.NameAll || slices.Contains(u.GetGroups(), s.Group.Name)
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		if s.ServiceAccount.Name == flowcontrolv1.NameAll {
			return serviceAccountMatchesNamespace(s.ServiceAccount.Namespace, u.GetName())
		}
		return serviceaccount.MatchesUsername(s.ServiceAccount.Namespace, s.ServiceAccount.Name, u.GetName())
	}
	return false
}

func serviceAccountMatchesNamespace(namespace, username string) bool {
	in, _, err := serviceaccount.SplitUsername(username)
	return err == nil && in == namespace
}

func matchesRequest(rule flowcontrolv1.PolicyRulesWithSubjects, info *request.RequestInfo) bool {
	if !info.IsResourceRequest {
		return slices.ContainsFunc(rule.NonResourceRules, func(r flowcontrolv1.NonResourcePolicyRule) bool {
			return has(r.Verbs, info.Verb, flowcontrolv1.VerbAll) && slices.ContainsFunc(r.NonResourceURLs, func(url string) bool {
				prefix, open := strings.CutSuffix(url, "*")
				return url == info.Path || open && strings.HasPrefix(info.Path, prefix)
			})
		})
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	return slices.ContainsFunc(rule.ResourceRules, func(r flowcontrolv1.ResourcePolicyRule) bool {
		if !has(r.Verbs, info.Verb, flowcontrolv1.VerbAll) || !has(r.APIGroups, info.APIGroup, flowcontrolv1.APIGroupAll) ||
			!has(r.Resources, resource, flowcontrolv1.ResourceAll) {
			return false
		}
		if info.Namespace == "" {
			return r.ClusterScope
		}
		return has(r.Namespaces, info.Namespace, flowcontrolv1.NamespaceEvery)
	})
}

func has(values []string, value, all string) bool {
	return slices.Contains(values, value) || slices.Contains(values, all)
}
