package connectivity

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// variable is one of a container's environment; undecided is why its value isn't known.
type variable struct {
	name, value string
	undecided   string
}

// environment is what the kubelet gives the container (pkg/kubelet/kubelet_pods.go,
// makeEnvironmentVariables): links to the services that there were when it started, then
// envFrom, then env. What the image itself sets isn't in a case.
func (c *container) environment() []variable {
	values := map[string]variable{}
	set := func(v variable) { values[v.name] = v }
	set(variable{name: "HOSTNAME", value: c.hostname()})
	for _, v := range c.serviceLinks() {
		set(variable{name: v.Name, value: v.Value})
	}
	for _, from := range c.spec.EnvFrom {
		for _, v := range c.from(from) {
			set(v)
		}
	}
	mapping := func(key string) string {
		if v, ok := values[key]; ok && v.undecided == "" {
			return v.value
		}
		return "$(" + key + ")"
	}
	for _, e := range c.spec.Env {
		if e.ValueFrom != nil {
			value, undecided := c.valueFrom(e.ValueFrom)
			set(variable{e.Name, value, undecided})
			continue
		}
		set(variable{name: e.Name, value: expansion.Expand(e.Value, mapping)})
	}
	out := make([]variable, 0, len(values))
	for _, v := range values {
		out = append(out, v)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out
}

func (c *container) hostname() string {
	switch {
	case c.pod.Spec.HostNetwork:
		return c.pod.Spec.NodeName
	case c.pod.Spec.Hostname != "":
		return c.pod.Spec.Hostname
	}
	return c.pod.Name
}

// serviceLinks are the variables of the services that the kubelet knew when the container
// started: those of the API server, and where links are enabled those of the namespace.
func (c *container) serviceLinks() []corev1.EnvVar {
	r := c.Case.Resource(services)
	if r == nil {
		return nil
	}
	links := c.pod.Spec.EnableServiceLinks == nil || *c.pod.Spec.EnableServiceLinks
	started := c.pod.CreationTimestamp
	if s := c.status(); s != nil && s.State.Running != nil {
		started = s.State.Running.StartedAt
	}
	var known []*corev1.Service
	for _, o := range r.Objects {
		master := o.Namespace == metav1.NamespaceDefault && o.Name == "kubernetes"
		if !master && (!links || o.Namespace != c.Namespace) {
			continue
		}
		s := c.net.service(o.Name, o.Namespace)
		if s == nil || s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || started.Before(&s.CreationTimestamp) {
			continue
		}
		known = append(known, s)
	}
	return envvars.FromServices(known)
}

func (c *container) from(from corev1.EnvFromSource) []variable {
	var out []variable
	switch {
	case from.ConfigMapRef != nil:
		m, err := decode[corev1.ConfigMap](c.Case, configMaps, c.Namespace, from.ConfigMapRef.Name)
		if err != nil || m == nil {
			return nil
		}
		for key, value := range m.Data {
			out = append(out, variable{name: from.Prefix + key, value: value})
		}
	case from.SecretRef != nil:
		s, err := decode[corev1.Secret](c.Case, secrets, c.Namespace, from.SecretRef.Name)
		if err != nil || s == nil {
			return nil
		}
		for key, value := range s.Data {
			out = append(out, variable{name: from.Prefix + key, value: string(value)})
		}
	}
	return out
}

func (c *container) valueFrom(from *corev1.EnvVarSource) (value, undecided string) {
	switch {
	case from.FieldRef != nil:
		return c.field(from.FieldRef.FieldPath)
	case from.ConfigMapKeyRef != nil:
		m, err := decode[corev1.ConfigMap](c.Case, configMaps, c.Namespace, from.ConfigMapKeyRef.Name)
		if err != nil || m == nil {
			return "", fmt.Sprintf("the config map %q", from.ConfigMapKeyRef.Name)
		}
		return m.Data[from.ConfigMapKeyRef.Key], ""
	case from.SecretKeyRef != nil:
		s, err := decode[corev1.Secret](c.Case, secrets, c.Namespace, from.SecretKeyRef.Name)
		if err != nil || s == nil {
			return "", fmt.Sprintf("the secret %q", from.SecretKeyRef.Name)
		}
		return string(s.Data[from.SecretKeyRef.Key]), ""
	}
	return "", "a value that depends on the node"
}

// field is a field of the pod as the downward API gives it.
func (c *container) field(path string) (value, undecided string) {
	switch path {
	case "spec.nodeName":
		return c.pod.Spec.NodeName, ""
	case "spec.serviceAccountName":
		return c.pod.Spec.ServiceAccountName, ""
	case "status.hostIP":
		return c.pod.Status.HostIP, ""
	case "status.podIP":
		return c.pod.Status.PodIP, ""
	case "status.podIPs":
		var all []string
		for _, ip := range c.pod.Status.PodIPs {
			all = append(all, ip.IP)
		}
		return strings.Join(all, ","), ""
	}
	value, err := fieldpath.ExtractFieldPathAsString(c.pod, path)
	if err != nil {
		return "", fmt.Sprintf("the field %s", path)
	}
	return value, ""
}

// variables are the environment as a shell takes it, and for each that isn't known why.
func (c *container) variables() (known []string, undecided []variable) {
	for _, v := range c.environment() {
		if v.undecided != "" {
			undecided = append(undecided, v)
			continue
		}
		known = append(known, v.name+"="+v.value)
	}
	return known, undecided
}
