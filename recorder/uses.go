package recorder

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// writeCommands change something; what they read first is not shown.
var writeCommands = map[string]bool{
	"apply": true, "create": true, "delete": true, "edit": true, "patch": true, "replace": true, "scale": true, "set": true,
	"label": true, "annotate": true, "cordon": true, "uncordon": true, "drain": true, "taint": true, "run": true,
	"expose": true, "autoscale": true, "debug": true, "diff": true,
	"rollout restart": true, "rollout undo": true, "rollout pause": true, "rollout resume": true,
}

// uses says what a call did in terms of the tools. command is kubectl's command path,
// empty for other clients.
func (d *deriver) uses(command string, answers []*answer) []Use {
	words := strings.TrimPrefix(command, "kubectl ")
	first, _, _ := strings.Cut(words, " ")
	if words == "debug" {
		return debugUses(d, answers)
	}
	if writeCommands[words] || writeCommands[first] || slices.ContainsFunc(answers, func(a *answer) bool { return a.class == Write }) {
		return nil
	}
	switch words {
	case "describe":
		return d.describe(answers)
	case "cluster-info", "auth can-i", "auth whoami", "version", "api-resources", "api-versions", "explain":
		return nil
	case "cluster-info dump":
		return d.each(answers)
	}
	switch first {
	case "top":
		// The nodes that top reads for their capacity are not shown.
		return d.each(keep(answers, func(a *answer) bool { return a.ObjectRef != nil && a.ObjectRef.APIGroup == "metrics.k8s.io" }))
	case "events":
		// The object that --for looks up is not shown either.
		if events := keep(answers, isEvents); len(events) > 0 {
			return d.each(events)
		}
	}
	for _, subresource := range []string{"log", "exec", "attach", "portforward"} {
		// What finds the pod is no use of its own.
		if found := keep(answers, func(a *answer) bool { return a.subresource() == subresource }); len(found) > 0 {
			return d.each(found)
		}
	}
	if first == "logs" && len(answers) > 0 {
		return []Use{d.missedLogs(answers)}
	}
	if slices.Contains([]string{"exec", "attach", "cp", "port-forward"}, first) {
		return nil
	}
	if first == "wait" || first == "rollout" {
		return d.plain(answers) // they print a line about an object, not the object
	}
	return d.each(answers)
}

func keep(answers []*answer, want func(*answer) bool) []*answer {
	var out []*answer
	for _, a := range answers {
		if want(a) {
			out = append(out, a)
		}
	}
	return out
}

func isEvents(a *answer) bool {
	return a.ObjectRef != nil && a.ObjectRef.Resource == "events" && (a.ObjectRef.APIGroup == "" || a.ObjectRef.APIGroup == "events.k8s.io")
}

// plain maps every answer on its own and puts those together that ask for the same.
func (d *deriver) plain(answers []*answer) []Use {
	var out []Use
	at := map[string]int{}
	add := func(u Use) {
		key := u.key()
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, u)
			return
		}
		out[i].merge(u)
	}
	for _, a := range answers {
		for _, u := range d.map1(a) {
			add(u)
		}
	}
	return out
}

// each is plain, with the tools that show the same as others do.
func (d *deriver) each(answers []*answer) []Use {
	out := d.plain(answers)
	derived := appYAML(out)
	for _, u := range out {
		if u.Tool == GetResources && u.Args["type"] == "componentstatuses" {
			component := u.Args["name"]
			if component == "" {
				component = "*"
			}
			derived = append(derived, Use{Tool: CheckNodeServiceStatus, Args: map[string]string{"component": component}, Class: u.Class, Response: u.Response})
		}
	}
	if config := clusterConfig(out); config != nil {
		derived = append(derived, *config)
	}
	return append(out, derived...)
}

// key is the canonical pair of tool and arguments.
func (u *Use) key() string {
	b, _ := json.Marshal(u.Args) // strings only
	return string(u.Tool) + string(b)
}

// merge adds another answer to the same question: a page, or what a watch delivered.
func (u *Use) merge(v Use) {
	order := []Class{Delivered, NotFound, Refused, Unsupported, Failed}
	if slices.Index(order, v.Class) < slices.Index(order, u.Class) {
		u.Class = v.Class
		u.Response.Status, u.Response.Reason, u.Response.Message = v.Response.Status, v.Response.Reason, v.Response.Message
	}
	u.Response.Rows = distinct(u.Response.Rows, v.Response.Rows)
	u.Response.Objects = distinct(u.Response.Objects, v.Response.Objects)
	u.Response.Events = distinct(u.Response.Events, v.Response.Events)
	u.Response.Related = distinct(u.Response.Related, v.Response.Related)
	u.Response.Lines = append(u.Response.Lines, v.Response.Lines...)
	u.Response.Series = append(u.Response.Series, v.Response.Series...)
	u.Response.Alerts = append(u.Response.Alerts, v.Response.Alerts...)
	if v.Response.Text != "" && u.Response.Text != v.Response.Text {
		u.Response.Text += v.Response.Text
	}
	u.Response.Truncated = u.Response.Truncated || v.Response.Truncated
}

// distinct appends those of b that a doesn't hold yet: a watch repeats what the list had.
func distinct(a, b []map[string]any) []map[string]any {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	seen := make(map[string]bool, len(a))
	for _, m := range a {
		seen[identity(m)] = true
	}
	for _, m := range b {
		if key := identity(m); !seen[key] {
			seen[key] = true
			a = append(a, m)
		}
	}
	return a
}

// identity of an object is its UID and version where it has them, else all it holds.
func identity(m map[string]any) string {
	uid, version := text(field(m, "metadata", "uid")), text(field(m, "metadata", "resourceVersion"))
	if uid != "" && version != "" {
		return uid + "@" + version
	}
	b, _ := json.Marshal(m) // decoded JSON
	return string(b)
}

// map1 maps one answer.
func (d *deriver) map1(a *answer) []Use {
	if tool := a.Annotations[KeyTool]; tool != "" {
		return d.told(a, Tool(tool))
	}
	if a.Source() != Kubernetes {
		return d.shim(a, a.path)
	}
	ref := a.ObjectRef
	if ref == nil || ref.Resource == "" {
		if a.isHealth() {
			return []Use{{Tool: CheckNodeServiceStatus, Args: map[string]string{"component": "kube-apiserver"}, Class: a.class, Response: a.response()}}
		}
		return nil
	}
	switch ref.Subresource {
	case "log", "exec", "attach":
		if uses, ok := d.onNode(a); ok {
			return uses
		}
	}
	switch ref.Subresource {
	case "log":
		return d.logs(a)
	case "exec", "attach":
		return d.exec(a)
	case "portforward":
		ports := a.Annotations[KeyPort]
		if ports == "" {
			ports = a.query.Get("ports")
		}
		var out []Use
		for _, port := range strings.Split(ports, ",") {
			out = append(out, connectivity(a, ref.Namespace, d.service(ref.Namespace, ref.Name), port))
		}
		return out
	case "proxy":
		return d.proxy(a)
	}
	return []Use{d.resources(a)}
}

// kubernetesGroups are Kubernetes' own API groups, whose resources go by their
// plain names. Others' are named with their group, as metrics are: their pods are none.
var kubernetesGroups = map[string]bool{
	"": true, "apps": true, "batch": true, "autoscaling": true, "policy": true, "extensions": true,
	"admissionregistration.k8s.io": true, "apiextensions.k8s.io": true, "apiregistration.k8s.io": true,
	"authentication.k8s.io": true, "authorization.k8s.io": true, "certificates.k8s.io": true, "coordination.k8s.io": true,
	"discovery.k8s.io": true, "events.k8s.io": true, "flowcontrol.apiserver.k8s.io": true, "internal.apiserver.k8s.io": true,
	"networking.k8s.io": true, "node.k8s.io": true, "rbac.authorization.k8s.io": true, "resource.k8s.io": true,
	"scheduling.k8s.io": true, "storage.k8s.io": true, "storagemigration.k8s.io": true,
}

// clusterScoped are Kubernetes' own resources without a namespace.
var clusterScoped = map[string]bool{
	"nodes": true, "namespaces": true, "persistentvolumes": true, "componentstatuses": true, "storageclasses": true,
	"csidrivers": true, "csinodes": true, "volumeattachments": true, "volumeattributesclasses": true,
	"clusterroles": true, "clusterrolebindings": true, "priorityclasses": true, "runtimeclasses": true,
	"ingressclasses": true, "ipaddresses": true, "servicecidrs": true, "certificatesigningrequests": true, "clustertrustbundles": true,
	"customresourcedefinitions": true, "apiservices": true, "flowschemas": true, "prioritylevelconfigurations": true,
	"mutatingwebhookconfigurations": true, "validatingwebhookconfigurations": true,
	"validatingadmissionpolicies": true, "validatingadmissionpolicybindings": true,
	"mutatingadmissionpolicies": true, "mutatingadmissionpolicybindings": true,
	"deviceclasses": true, "resourceslices": true, "nodes.metrics.k8s.io": true, "storageversions": true, "storageversionmigrations": true,
}

// typeName is the canonical type of a request's resource.
func typeName(a *answer) string {
	name := a.ObjectRef.Resource
	if !kubernetesGroups[a.ObjectRef.APIGroup] {
		name += "." + a.ObjectRef.APIGroup
	}
	if a.ObjectRef.Subresource != "" {
		name += "/" + a.ObjectRef.Subresource
	}
	return name
}

// namespaceOf is "" for what has no namespace and "*" for all of them.
func namespaceOf(a *answer) string {
	kind := typeName(a)
	if clusterScoped[kind] {
		return "" // the path of a namespace has it as its namespace too
	}
	if a.ObjectRef.Namespace != "" {
		return a.ObjectRef.Namespace
	}
	if a.ObjectRef.Name != "" && a.Verb == "get" {
		return ""
	}
	if kubernetesGroups[a.ObjectRef.APIGroup] {
		return "*"
	}
	// A custom resource: what was delivered tells.
	for _, o := range a.objects {
		if text(field(o, "metadata", "namespace")) == "" {
			return ""
		}
	}
	for _, row := range a.rows {
		if row["NAMESPACE"] == nil {
			return ""
		}
	}
	return "*"
}

// resources is T1.
func (d *deriver) resources(a *answer) Use {
	args := map[string]string{"type": typeName(a), "namespace": namespaceOf(a), "output": a.output()}
	name := a.ObjectRef.Name
	selector := a.query.Get("fieldSelector")
	if selector != "" {
		if s, err := fields.ParseSelector(selector); err == nil {
			var parts []string
			for _, r := range s.Requirements() {
				// kubectl get NAME -w asks in this way for one object.
				if r.Field == "metadata.name" && (r.Operator == "=" || r.Operator == "==") {
					name = r.Value
					continue
				}
				operator := string(r.Operator)
				if operator == "==" {
					operator = "="
				}
				parts = append(parts, r.Field+operator+r.Value)
			}
			slices.Sort(parts)
			selector = strings.Join(parts, ",")
		}
	}
	if name != "" {
		args["name"] = name
	}
	if selector != "" {
		args["fields"] = selector
	}
	if s := a.query.Get("labelSelector"); s != "" {
		if parsed, err := labels.Parse(s); err == nil {
			s = parsed.String() // sorted
		}
		if s != "" {
			args["labels"] = s
		}
	}
	u := Use{Tool: GetResources, Args: args, Class: a.class, Response: a.response()}
	if isEvents(a) && !a.table {
		u.Response.Events, u.Response.Objects = u.Response.Objects, nil
	}
	return u
}

// appWorkloads are the types whose full object is what T3 shows.
var appWorkloads = []string{"deployments", "statefulsets", "daemonsets"}

// appYAML adds T3 to full objects of a workload that were asked for by name, with the
// service and service account of that name in the same call.
func appYAML(uses []Use) []Use {
	var out []Use
	for _, u := range uses {
		if u.Tool != GetResources || u.Args["output"] != "object" || u.Args["name"] == "" || !slices.Contains(appWorkloads, u.Args["type"]) {
			continue
		}
		v := Use{Tool: GetAppYAML, Args: map[string]string{"service": u.Args["name"], "namespace": u.Args["namespace"]}, Class: u.Class, Response: u.Response}
		v.Response.Objects = slices.Clone(u.Response.Objects)
		for _, other := range uses {
			if other.Tool == GetResources && other.Class == Delivered && other.Args["output"] == "object" &&
				other.Args["name"] == u.Args["name"] && other.Args["namespace"] == u.Args["namespace"] &&
				(other.Args["type"] == "services" || other.Args["type"] == "serviceaccounts") {
				v.Response.Objects = append(v.Response.Objects, other.Response.Objects...)
			}
		}
		if i := slices.IndexFunc(out, func(o Use) bool { return o.key() == v.key() }); i >= 0 {
			out[i].merge(v) // a deployment and a statefulset of one name
			continue
		}
		out = append(out, v)
	}
	return out
}

// clusterConfig adds T7 to nodes that were delivered whole.
func clusterConfig(uses []Use) *Use {
	var out *Use
	for _, u := range uses {
		whole := u.Tool == GetResources && u.Args["output"] == "object" || u.Tool == DescribeResource
		if !whole || u.Args["type"] != "nodes" || u.Class != Delivered {
			continue
		}
		if out == nil {
			out = &Use{Tool: GetClusterConfig, Class: Delivered, Response: Response{Status: u.Response.Status}}
		}
		out.Response.Objects = distinct(out.Response.Objects, u.Response.Objects)
		out.Response.Truncated = out.Response.Truncated || u.Response.Truncated
	}
	return out
}

// errorLine is what T9 calls an error: the pattern by which GetErrorLogs of
// Cloud-OpsBench counts them.
var errorLine = regexp.MustCompile(`(?i)error|exception|fail|fatal|panic|critical|timeout|refused`)

// logs is T5, and T9 with it when there are error lines.
func (d *deriver) logs(a *answer) []Use {
	args := map[string]string{"namespace": a.ObjectRef.Namespace, "pod": a.ObjectRef.Name, "service": d.service(a.ObjectRef.Namespace, a.ObjectRef.Name)}
	if c := a.query.Get("container"); c != "" {
		args["container"] = c
	}
	if p := a.query.Get("previous"); p == "true" || p == "1" {
		args["previous"] = "true"
	}
	u := Use{Tool: GetRecentLogs, Args: args, Class: a.class, Response: a.response()}
	if a.class != Delivered {
		return []Use{u}
	}
	u.Response.Text = ""
	u.Response.Lines = logLines(a.text, a.query.Get("timestamps") == "true" || a.query.Get("timestamps") == "1")
	return append([]Use{u}, errorLogs(u)...)
}

func errorLogs(u Use) []Use {
	var lines []string
	for _, line := range u.Response.Lines {
		if errorLine.MatchString(line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	v := u
	v.Tool = GetErrorLogs
	v.Response.Lines = lines
	return []Use{v}
}

// logLines splits a log; stamped ones lose kubelet's timestamp (RFC 3339, a space).
func logLines(s string, stamped bool) []string {
	if s == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if stamped {
		for i, line := range lines {
			if stamp, rest, ok := strings.Cut(line, " "); ok {
				if _, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
					lines[i] = rest
				}
			}
		}
	}
	return lines
}

// missedLogs is T5 of a command that got no further than looking the pod up.
func (d *deriver) missedLogs(answers []*answer) Use {
	a := answers[len(answers)-1]
	if failed := keep(answers, func(a *answer) bool { return a.class != Delivered }); len(failed) > 0 {
		a = failed[len(failed)-1]
	}
	args := map[string]string{}
	if a.ObjectRef != nil {
		args["namespace"] = a.ObjectRef.Namespace
		switch {
		case a.ObjectRef.Name == "":
			if service := selectedService(a.query.Get("labelSelector")); service != "" {
				args["service"] = service
			}
		case a.ObjectRef.Resource == "pods":
			args["pod"] = a.ObjectRef.Name
			args["service"] = d.service(a.ObjectRef.Namespace, a.ObjectRef.Name)
		default:
			args["service"] = a.ObjectRef.Name
		}
	}
	u := Use{Tool: GetRecentLogs, Args: args, Class: a.class, Response: a.response()}
	// The look-up is not shown.
	u.Response.Objects, u.Response.Rows, u.Response.Text = nil, nil, ""
	if u.Class == Delivered && len(a.objects)+len(a.rows) > 0 {
		u.Class = Failed
	}
	return u
}

// selectedService is the service whose pods a selector asks for; "" when it asks for more.
func selectedService(selector string) string {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return ""
	}
	for _, key := range serviceLabels {
		if value, ok := parsed.RequiresExactMatch(key); ok {
			return value
		}
	}
	return ""
}

// serviceLabels name a pod's service, in the order in which they are believed.
var serviceLabels = []string{"app", "app.kubernetes.io/name", "k8s-app"}

func serviceOf(labels map[string]any, owners any) string {
	for _, key := range serviceLabels {
		if v := text(labels[key]); v != "" {
			return v
		}
	}
	list, _ := owners.([]any)
	for _, o := range list {
		name := text(field(o, "name"))
		switch text(field(o, "kind")) {
		case "ReplicaSet":
			return hashSuffix.ReplaceAllString(name, "")
		case "StatefulSet", "DaemonSet", "Job":
			return name
		}
	}
	return ""
}

var (
	// Kubernetes makes the letters of hashes and generated names from this alphabet:
	// apimachinery/pkg/util/rand.
	hashSuffix      = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}$`)
	podHashSuffix   = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	podRandomSuffix = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	ordinalSuffix   = regexp.MustCompile(`-[0-9]{1,5}$`)
)

// service of a pod: by what was seen of it, else by its name's pattern.
func (d *deriver) service(namespace, pod string) string {
	if s, ok := d.services[namespace+"/"+pod]; ok {
		return s
	}
	for _, pattern := range []*regexp.Regexp{podHashSuffix, ordinalSuffix, podRandomSuffix} {
		if s := pattern.ReplaceAllString(pod, ""); s != pod {
			return s
		}
	}
	return pod
}
