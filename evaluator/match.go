package evaluator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubecase/kubecase/recorder"
)

// evidence tells whether a use can show anything at all: what was delivered,
// and a captured NotFound. Everything else is evidence neither for nor against.
func evidence(class recorder.Class) bool {
	return class == recorder.Delivered || class == recorder.NotFound
}

// view gives the variables that a clause's predicate sees when a use is read
// by a rule, or says why the rule doesn't apply.
func view(c *Clause, u *recorder.Use, r *rule) (vars map[string]any, why string) {
	if r.Clause != c.Tool || r.Use != u.Tool {
		return nil, fmt.Sprintf("a clause on %s isn't served by %s", c.Tool, u.Tool)
	}
	for name, m := range r.When {
		if !m.Match(u.Args[name]) {
			return nil, fmt.Sprintf("%s must have the %s %s, it has %q", u.Tool, name, strings.Join(m, " or "), u.Args[name])
		}
	}
	for name, m := range r.For {
		if !slices.ContainsFunc(m, c.Args[name].Match) {
			return nil, fmt.Sprintf("it serves only clauses with the %s %s", name, strings.Join(m, " or "))
		}
	}
	n := narrowing{clause: c, mode: r.Narrow}
	for name, m := range c.Args {
		source, told := r.Args[name]
		if !told {
			return nil, fmt.Sprintf("%s doesn't tell the clause's argument %s", u.Tool, name)
		}
		if source == "" { // said by the rule, or told by what was delivered
			n.name = n.name || name == "name" || name == "node"
			n.namespace = n.namespace || name == "namespace" && r.Narrow != "objects" // nodes have none
			continue
		}
		value := u.Args[source]
		if source == "previous" && value == "" {
			value = "false"
		}
		switch {
		case source == "namespace" && value == "*" && !slices.Contains(m, "*"):
			n.namespace = true
		case source == "component" && value == "*" && !slices.Contains(m, "*"):
			n.name = true // the list of component statuses
		case m.Match(value):
		case source == "name" && value == "":
			n.name = true
		case source == "service" && value == "" && ofService(u.Args["pod"], m):
		default:
			return nil, fmt.Sprintf("the argument %s is %q, not %s", name, value, strings.Join(m, " or "))
		}
	}
	return n.apply(u, r)
}

// ofService tells whether a pod's name begins with a service's and a dash: how
// pods of a workload are named. It serves reads of a pod whose service the
// recorder could not tell.
func ofService(pod string, m Matcher) bool {
	for i := range len(pod) {
		if pod[i] == '-' && m.Match(pod[:i]) {
			return true
		}
	}
	return false
}

// narrowing is what a response must be narrowed to before a clause sees it.
type narrowing struct {
	clause          *Clause
	mode            string
	name, namespace bool
}

func (n narrowing) apply(u *recorder.Use, r *rule) (map[string]any, string) {
	resp := &u.Response
	vars := map[string]any{"status": int64(resp.Status), "reason": resp.Reason, "message": resp.Message, "args": argsOf(u)}
	if resp.ExitCode != nil {
		vars["exitCode"] = int64(*resp.ExitCode)
	}
	narrowed := n.name || n.namespace || n.mode == "kind" || n.mode == "involved"
	if resp.Text != "" && !narrowed {
		vars["text"] = resp.Text // text can't be narrowed
	}
	sameObject := r.Args["type"] == "type"
	if u.Class == recorder.NotFound {
		// Absence is all that was delivered: a predicate must ask for it, by
		// reason, status or message.
		if r.Partial && !sameObject {
			return nil, "that one object isn't there says nothing of the others"
		}
		return vars, ""
	}
	rows, objects, events := resp.Rows, resp.Objects, resp.Events
	if isEvents(u.Args["type"]) && u.Tool == recorder.GetResources {
		switch {
		case u.Args["output"] == "table":
			events = eventsOf(rows)
		case len(events) == 0:
			events = objects
		case len(objects) == 0:
			objects = events
		}
	}
	rows = filter(rows, n.row)
	objects = filter(objects, n.object)
	if n.mode == "involved" {
		events = filter(events, n.event)
	} else if narrowed && u.Tool == recorder.GetResources {
		events = filter(events, n.object)
	} else if narrowed && u.Tool == recorder.DescribeResource {
		events = filter(events, n.event)
	}
	for _, field := range r.Delivers {
		switch field {
		case "rows":
			vars[field] = rows
		case "objects":
			vars[field] = objects
		case "related":
			vars[field] = resp.Related
		case "events":
			vars[field] = events
		case "lines":
			vars[field] = resp.Lines
		case "series":
			vars[field] = resp.Series
		case "alerts":
			vars[field] = resp.Alerts
		}
	}
	empty := len(rows)+len(objects)+len(resp.Lines) == 0 && len(events) == 0
	selected := u.Args["labels"] != "" && n.clause.Args["labels"] == nil || u.Args["fields"] != "" && n.clause.Args["fields"] == nil
	if empty && (r.Partial || selected) {
		return nil, "nothing of what the clause names was delivered, and this source may lack it"
	}
	if n.mode == "involved" && len(events) == 0 && (selected || resp.Truncated) {
		return nil, "no event of the object was delivered, and this source may lack them"
	}
	if empty && n.name && sameObject && u.Tool == recorder.GetResources && !resp.Truncated {
		// [choice] A whole list without the named object shows its absence as a
		// NotFound does.
		vars["status"], vars["reason"] = int64(404), "NotFound"
	}
	return vars, ""
}

func argsOf(u *recorder.Use) map[string]string {
	if u.Args == nil {
		return map[string]string{}
	}
	return u.Args
}

func isEvents(resource string) bool {
	return resource == "events" || resource == "events.events.k8s.io"
}

func filter(in []map[string]any, keep func(map[string]any) bool) []map[string]any {
	for i, v := range in {
		if keep(v) {
			continue
		}
		out := slices.Clone(in[:i])
		for _, v := range in[i+1:] {
			if keep(v) {
				out = append(out, v)
			}
		}
		return out
	}
	return in // nothing to leave out: no copy
}

// nameMatcher is the clause's name, however its tool calls it.
func (n narrowing) nameMatcher() (Matcher, bool) {
	for _, arg := range []string{"name", "service", "node", "component"} {
		if m, ok := n.clause.Args[arg]; ok {
			return m, true
		}
	}
	return nil, false
}

func (n narrowing) row(row map[string]any) bool {
	if m := n.clause.Args["namespace"]; n.namespace && m != nil && !m.Match(text(row["NAMESPACE"])) {
		return false
	}
	m, ok := n.nameMatcher()
	return !n.name || !ok || m.Match(text(row["NAME"]))
}

func (n narrowing) object(object map[string]any) bool {
	meta, _ := object["metadata"].(map[string]any)
	if n.mode == "kind" {
		if m := n.clause.Args["type"]; m != nil && !m.Match(plural(text(object["kind"]))) {
			return false
		}
	}
	if m := n.clause.Args["namespace"]; n.namespace && m != nil && !m.Match(text(meta["namespace"])) {
		return false
	}
	m, ok := n.nameMatcher()
	return !(n.name || n.mode == "kind") || !ok || m.Match(text(meta["name"]))
}

// event looks at the object that an event is about.
func (n narrowing) event(event map[string]any) bool {
	about, ok := event["involvedObject"].(map[string]any)
	if !ok {
		about, _ = event["regarding"].(map[string]any)
	}
	if m := n.clause.Args["namespace"]; n.namespace && m != nil {
		meta, _ := event["metadata"].(map[string]any)
		namespace := text(about["namespace"])
		if namespace == "" {
			namespace = text(meta["namespace"])
		}
		if !m.Match(namespace) {
			return false
		}
	}
	if m := n.clause.Args["type"]; n.mode == "involved" && m != nil {
		kinds := plural(text(about["kind"]))
		fits := func(pattern string) bool {
			resource, _, _ := strings.Cut(pattern, ".")
			return glob(resource, kinds)
		}
		if !slices.ContainsFunc(m, fits) {
			return false
		}
	}
	m, ok := n.nameMatcher()
	return !(n.name || n.mode == "involved") || !ok || m.Match(text(about["name"]))
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// plural is the resource of a kind, by the rule that Kubernetes' own kinds follow.
func plural(kind string) string {
	kind = strings.ToLower(kind)
	switch {
	case kind == "" || strings.HasSuffix(kind, "endpoints"):
		return kind
	case strings.HasSuffix(kind, "s") || strings.HasSuffix(kind, "x") || strings.HasSuffix(kind, "ch"):
		return kind + "es"
	case strings.HasSuffix(kind, "y") && !strings.HasSuffix(kind, "ay"):
		return kind[:len(kind)-1] + "ies"
	}
	return kind + "s"
}

// eventKinds are the kinds that events are about, by how a table writes them.
var eventKinds = func() map[string]string {
	out := map[string]string{}
	for _, kind := range []string{
		"Pod", "Node", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Endpoints",
		"EndpointSlice", "Namespace", "PersistentVolumeClaim", "PersistentVolume", "HorizontalPodAutoscaler", "Ingress",
		"ServiceAccount", "ConfigMap", "Secret", "ResourceQuota", "PodDisruptionBudget", "NetworkPolicy",
	} {
		out[strings.ToLower(kind)] = kind
	}
	return out
}()

// eventsOf makes events of the rows of an event table: what their cells tell,
// and nothing more.
func eventsOf(rows []map[string]any) []map[string]any {
	out := make([]map[string]any, 0, len(rows))
	for _, row := range rows {
		kind, name, ok := strings.Cut(text(row["OBJECT"]), "/")
		if !ok {
			continue
		}
		if k := eventKinds[kind]; k != "" {
			kind = k
		}
		about := map[string]any{"kind": kind, "name": name}
		meta := map[string]any{}
		if namespace, ok := row["NAMESPACE"].(string); ok {
			about["namespace"], meta["namespace"] = namespace, namespace
		}
		event := map[string]any{"involvedObject": about, "metadata": meta}
		for column, field := range map[string]string{"TYPE": "type", "REASON": "reason", "MESSAGE": "message"} {
			if cell, ok := row[column]; ok {
				event[field] = cell
			}
		}
		out = append(out, event)
	}
	return out
}
