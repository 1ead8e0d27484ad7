package evaluator

import (
	"slices"
	"strings"
	"unicode"
)

// kindPrefixes may stand before a component's name, with a slash.
var kindPrefixes = []string{
	"app", "application", "component", "service", "services", "svc", "microservice",
	"deployment", "deployments", "deploy", "deployment.apps",
	"statefulset", "statefulsets", "sts", "statefulset.apps",
	"daemonset", "daemonsets", "ds", "daemonset.apps",
	"replicaset", "replicasets", "rs", "replicaset.apps",
	"pod", "pods", "po", "job", "jobs", "job.batch", "cronjob", "cronjob.batch",
	"node", "nodes", "no", "namespace", "namespaces", "ns",
	"persistentvolumeclaim", "persistentvolumeclaims", "pvc", "persistentvolume", "persistentvolumes", "pv",
	"configmap", "configmaps", "cm", "secret", "secrets", "serviceaccount", "serviceaccounts", "sa",
	"resourcequota", "resourcequotas", "quota", "ingress", "ingresses", "ing", "gateway", "networkpolicy", "netpol",
}

// NormalComponent normalises a component's name for comparison: lower case,
// outer white space and quotes away, one kind prefix ("app/", "deployment/",
// "node/") away.
func NormalComponent(name string) string {
	name = trim(name)
	if kind, rest, ok := strings.Cut(name, "/"); ok && slices.Contains(kindPrefixes, strings.TrimSpace(kind)) {
		name = trim(rest)
	}
	return name
}

// NormalFault normalises a fault's name for comparison: the taxonomy's
// canonical name for all spellings of its own, else letters and digits alone,
// in lower case.
func NormalFault(name string) string {
	if f, ok := LookupFault(name); ok {
		return f.Name
	}
	return fold(name)
}

func trim(s string) string {
	return strings.ToLower(strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`", r)
	}))
}

// fold leaves what "OOM Killed", "oom_killed" and "OOMKilled" share.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// nothing tells whether a normalised name says that there is no fault.
func nothing(name string) bool {
	switch fold(name) {
	case "", "none", "null", "nil", "na", "nofault", "nofaults", "noissue", "noissues", "noproblem", "noanomaly", "healthy", "normal", "nothing":
		return true
	}
	return false
}

func matches(given, want string, aliases []string, normal func(string) string) bool {
	given = normal(given)
	if given == "" {
		return false
	}
	return given == normal(want) || slices.ContainsFunc(aliases, func(a string) bool { return normal(a) == given })
}
