package recorder

import (
	"slices"
	"strings"
)

// guessCommand tells describe from get for a kubectl that doesn't say: only
// describe asks for the events of an object that it has read.
func guessCommand(answers []*answer) string {
	for _, a := range answers {
		if isEvents(a) && involved(a) != "" {
			return "kubectl describe"
		}
	}
	return ""
}

// involved is the name of the object whose events are asked for.
func involved(a *answer) string {
	for _, part := range strings.Split(a.query.Get("fieldSelector"), ",") {
		key, value, _ := strings.Cut(part, "=")
		if key == "involvedObject.name" || key == "regarding.name" {
			return strings.TrimPrefix(value, "=")
		}
	}
	return ""
}

func sameType(a, b *answer) bool {
	return a.ObjectRef.Resource == b.ObjectRef.Resource && a.ObjectRef.APIGroup == b.ObjectRef.APIGroup
}

// describe is T2 once per object that is described.
//
// kubectl first finds what to describe, all of it (a GET for each name, a LIST for a
// type or selector); then it reads each object again, and what belongs to it: its
// events, and by kind ReplicaSets, EndpointSlices, Pods, a Lease. So the finding
// ends where a GET comes that it had, or one of an object that a LIST found, or events.
func (d *deriver) describe(answers []*answer) []Use {
	answers = keep(answers, func(a *answer) bool {
		return a.Source() == Kubernetes && a.ObjectRef != nil && a.ObjectRef.Resource != ""
	})
	lead := len(answers)
	for i, a := range answers {
		if i > 0 && (isEvents(a) && involved(a) != "" || slices.ContainsFunc(answers[:i], func(b *answer) bool { return finds(b, a) })) {
			lead = i
			break
		}
	}
	found, rest := answers[:lead], answers[lead:]
	if len(rest) == 0 {
		return d.described(found)
	}
	var out []Use
	at := map[string]int{}
	current := -1
	for _, a := range rest {
		if !isEvents(a) && a.Verb == "get" && slices.ContainsFunc(found, func(b *answer) bool { return finds(b, a) }) {
			u := d.description(a)
			if i, ok := at[u.key()]; ok {
				current = i
				continue // read once more
			}
			current = len(out)
			at[u.key()] = current
			out = append(out, u)
			continue
		}
		if current < 0 {
			continue
		}
		r := &out[current].Response
		switch {
		case a.class != Delivered:
			// What a description can't read it leaves out.
		case isEvents(a):
			r.Events = distinct(r.Events, a.objects)
		default:
			r.Related = distinct(r.Related, a.objects)
		}
		r.Truncated = r.Truncated || a.truncated
	}
	// Named objects that were not found are part of the answer, unless a prefix found others.
	for _, a := range found {
		if a.ObjectRef.Name == "" || a.class == Delivered {
			continue
		}
		if prefixed := slices.ContainsFunc(found, func(b *answer) bool { return b.Verb == "list" && sameType(a, b) && b.class == Delivered }); prefixed &&
			slices.ContainsFunc(out, func(u Use) bool {
				return strings.HasPrefix(u.Args["name"], a.ObjectRef.Name) && u.Args["type"] == typeName(a)
			}) {
			continue
		}
		out = append(out, d.description(a))
	}
	if config := clusterConfig(out); config != nil {
		out = append(out, *config)
	}
	return out
}

// finds reports that the answer b could have found the object that a reads.
func finds(b, a *answer) bool {
	if a.Verb != "get" || a.ObjectRef.Name == "" || !sameType(a, b) || b.class != Delivered {
		return false
	}
	if b.ObjectRef.Namespace != "" && b.ObjectRef.Namespace != a.ObjectRef.Namespace {
		return false
	}
	if b.ObjectRef.Name != "" {
		return b.ObjectRef.Name == a.ObjectRef.Name
	}
	return b.Verb == "list"
}

// described is what is left of a description that found nothing to describe, or
// whose kind needs no second look.
func (d *deriver) described(found []*answer) []Use {
	var out []Use
	for _, a := range found {
		if a.ObjectRef.Name == "" && slices.ContainsFunc(found, func(b *answer) bool { return b.ObjectRef.Name != "" && sameType(a, b) }) {
			continue // the list of a prefix that matches nothing
		}
		u := d.description(a)
		if !slices.ContainsFunc(out, func(o Use) bool { return o.key() == u.key() }) {
			out = append(out, u)
		}
	}
	if config := clusterConfig(out); config != nil {
		out = append(out, *config)
	}
	return out
}

func (d *deriver) description(a *answer) Use {
	args := map[string]string{"type": typeName(a), "namespace": namespaceOf(a)}
	if a.ObjectRef.Name != "" {
		args["name"] = a.ObjectRef.Name
	}
	return Use{Tool: DescribeResource, Args: args, Class: a.class, Response: a.response()}
}
