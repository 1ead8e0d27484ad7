package recorder

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// DefaultQuietGap is how long a client may be quiet within one call.
const DefaultQuietGap = 2 * time.Second

// DeriveOptions say how a record becomes a trajectory.
type DeriveOptions struct {
	// Episode and Captured are copied to the trajectory.
	Episode  string
	Captured time.Time
	// Bodies is where the record's bodies are; without it only requests are known.
	Bodies *Bodies
	// QuietGap separates the calls of a client that doesn't name them; default DefaultQuietGap.
	QuietGap time.Duration
	// Invocations are the wrapper's lines, in captured time.
	Invocations []Invocation
	// Shims read the requests of other sources than Kubernetes, by source name; they come
	// before what the recorder knows of itself. A nil result leaves the request to it.
	Shims map[string]ShimMapper
}

// ShimMapper says what a request to a shim did. requestBody is the start of the
// request's body, body the response's.
type ShimMapper func(r *Request, requestBody, body []byte) []Use

// ReadTrajectory derives the trajectory of the record in dir, with the wrapper's lines if
// it has any; captured moves their times and may be nil. The error joins what couldn't be
// read; the trajectory holds what could.
func ReadTrajectory(dir string, o DeriveOptions, captured func(time.Time) time.Time) (Trajectory, error) {
	requests, err := Requests(dir)
	if o.Invocations == nil {
		var wrapErr error
		o.Invocations, wrapErr = ReadInvocations(dir, captured)
		err = errors.Join(err, wrapErr)
	}
	d := newDeriver(o)
	d.dir = dir
	t := d.derive(requests)
	return t, errors.Join(err, errors.Join(d.errs...))
}

// Derive makes the trajectory of requests in the order of their arrival, as
// Requests returns them. What can't be read of their bodies is missing from the responses.
func Derive(requests []Request, o DeriveOptions) Trajectory {
	return newDeriver(o).derive(requests)
}

// deriver knows what was seen so far.
type deriver struct {
	o    DeriveOptions
	dir  string
	errs []error
	// services are the services of pods, by namespace/name, as far as they were seen.
	services map[string]string
	// debugging are the pods that were made to debug nodes, by namespace/name.
	debugging map[string]debugged
}

func newDeriver(o DeriveOptions) *deriver {
	if o.QuietGap <= 0 {
		o.QuietGap = DefaultQuietGap
	}
	return &deriver{o: o, services: map[string]string{}, debugging: map[string]debugged{}}
}

func (d *deriver) derive(requests []Request) Trajectory {
	t := Trajectory{Episode: d.o.Episode, Captured: d.o.Captured}
	for i := range requests {
		if requests[i].query == nil {
			requests[i].parse()
		}
	}
	through := map[string]bool{}
	for i := range requests {
		if name := requests[i].Annotations[KeyThrough]; name != "" && requests[i].Source() == Tools {
			through[name] = true
		}
	}
	// What goes with a tool's use is no call: neither its protocol's handshake, nor the
	// request whose use kubectl's requests tell of, nor the requests by which it was answered.
	aroundTool := func(r Request) bool {
		name, _, _ := strings.Cut(r.UserAgent, "/")
		return r.Source() == Tools && r.isHousekeeping() || through[name]
	}
	if slices.ContainsFunc(requests, aroundTool) {
		requests = slices.DeleteFunc(slices.Clone(requests), aroundTool)
	}
	groups := groupRequests(requests, d.o.QuietGap)
	alone := join(groups, d.o.Invocations)
	for _, g := range groups {
		t.Calls = append(t.Calls, d.call(g))
	}
	for i := range alone {
		t.Calls = append(t.Calls, serverless(&alone[i]))
	}
	slices.SortStableFunc(t.Calls, func(a, b Call) int { return a.Start.Compare(b.Start) })
	for i := range t.Calls {
		t.Calls[i].Index = i + 1
	}
	return t
}

// serverless is the call of a kubectl that sent no request.
func serverless(v *Invocation) Call {
	code := v.ExitCode
	c := Call{Start: v.Start, End: v.End, Client: "kubectl", Command: strings.Join(v.Argv, " "), Argv: v.Argv, ExitCode: &code, Class: Delivered}
	if code != 0 {
		c.Class, c.Message = Failed, bounded(strings.TrimSpace(v.Stderr), headerLimit)
	}
	return c
}

// call makes the call of a group.
func (d *deriver) call(g *group) Call {
	began := g.requests[0]
	c := Call{Start: g.first, End: g.first, Client: began.client()}
	for _, r := range g.requests {
		if r.End().After(c.End) {
			c.End = r.End()
		}
		c.Requests = append(c.Requests, string(r.AuditID))
	}
	command := ""
	for _, r := range g.requests {
		if command = r.Annotations[KeyCommand]; command != "" {
			break
		}
	}
	if g.wrapped != nil {
		code := g.wrapped.ExitCode
		c.Argv, c.ExitCode = g.wrapped.Argv, &code
		if command == "" {
			command = g.wrapped.command()
		}
	}
	answers := d.answers(g)
	if command == "" && c.Client == "kubectl" {
		command = guessCommand(answers)
	}
	c.Command = command
	if g.wrapped != nil {
		c.Command = strings.Join(g.wrapped.Argv, " ")
	} else if command == "" {
		c.Command = requestLine(g)
	}
	c.Uses = d.uses(command, answers)
	if printed, ok := g.wrapped.printed(d.o.Bodies); ok {
		for i := range c.Uses {
			prune(&c.Uses[i], g.wrapped, printed)
			if c.Uses[i].Response.ExitCode == nil {
				c.Uses[i].Response.ExitCode = c.ExitCode
			}
		}
		// A log of which no error line was shown is no summary of errors.
		c.Uses = slices.DeleteFunc(c.Uses, func(u Use) bool {
			return u.Tool == GetErrorLogs && u.Class == Delivered && len(u.Response.Lines) == 0
		})
	}
	c.Class, c.Message = callClass(g, answers, c.Uses)
	switch {
	case len(c.Uses) > 0 || c.Class != Delivered:
	case g.wrapped != nil && g.wrapped.ExitCode != 0:
		c.Class, c.Message = Failed, bounded(strings.TrimSpace(g.wrapped.Stderr), headerLimit)
	case g.wrapped == nil && len(answers) == 0 && asksNothing(command, len(g.requests)):
		c.Class, c.Message = Failed, "kubectl looked for a resource type and asked for nothing"
	}
	return c
}

// asksNothing reports a command that reads resources and got no further than
// discovery: it names a type that the cluster doesn't have. get --raw of a path outside
// the resources is a single request.
func asksNothing(command string, requests int) bool {
	switch command {
	case "kubectl get":
		return requests > 1
	case "kubectl describe", "kubectl logs", "kubectl wait", "kubectl rollout status", "kubectl rollout history":
		return true
	}
	return false
}

// requestLine names a call of a client that doesn't.
func requestLine(g *group) string {
	for _, r := range g.requests {
		if r.isHousekeeping() {
			continue
		}
		if r.Source() == Kubernetes && r.ObjectRef != nil && r.ObjectRef.Resource != "" {
			line := r.Verb + " " + r.ObjectRef.Resource
			if r.ObjectRef.Name != "" {
				line += "/" + r.ObjectRef.Name
			}
			if r.ObjectRef.Subresource != "" {
				line += " " + r.ObjectRef.Subresource
			}
			return line
		}
		return r.Method() + " " + r.path
	}
	return g.requests[0].Method() + " " + g.requests[0].path
}

// answers reads the bodies of the group's data requests. Attempts that the
// client repeated are left out.
func (d *deriver) answers(g *group) []*answer {
	var out []*answer
	for _, r := range g.requests {
		if r.isHousekeeping() && !(g.habit != eachQuery && r.isHealth()) {
			continue
		}
		a := &answer{Request: r}
		body, err := r.Body(d.dir, d.o.Bodies)
		if err != nil {
			// What can't be read again wasn't kept, which the response says.
			a.truncated = true
			if len(d.errs) < 16 {
				d.errs = append(d.errs, err)
			}
		}
		a.decode(body)
		a.truncated = a.truncated || err != nil
		d.noticeDebug(a)
		a.classify()
		d.notice(a)
		if checksNamespace(a, out) {
			continue
		}
		for i, before := range out {
			again := before.retryable() && before.class == Failed || before.isConnect() && before.isRefusedWebSocket()
			if again && before.signature() == r.signature() {
				out = slices.Delete(out, i, i+1)
				break
			}
		}
		out = append(out, a)
	}
	return out
}

// checksNamespace reports kubectl's question, after an object wasn't found, whether
// its namespace is there. That it is is not shown.
func checksNamespace(a *answer, before []*answer) bool {
	if a.client() != "kubectl" || a.class != Delivered || a.Verb != "get" || a.ObjectRef == nil || a.ObjectRef.Resource != "namespaces" {
		return false
	}
	return slices.ContainsFunc(before, func(b *answer) bool {
		return b.class == NotFound && b.ObjectRef != nil && b.ObjectRef.Resource != "namespaces" && b.ObjectRef.Namespace == a.ObjectRef.Name
	})
}

// notice remembers which pods belong to which service.
func (d *deriver) notice(a *answer) {
	if a.ObjectRef == nil || a.ObjectRef.Resource != "pods" || a.ObjectRef.Subresource != "" || len(d.services) > 1<<16 {
		return
	}
	for _, o := range a.objects {
		name, ns := text(field(o, "metadata", "name")), text(field(o, "metadata", "namespace"))
		labels, _ := field(o, "metadata", "labels").(map[string]any)
		if service := serviceOf(labels, field(o, "metadata", "ownerReferences")); service != "" {
			d.services[ns+"/"+name] = service
		}
	}
	for _, row := range a.rows {
		labels, _ := row["LABELS"].(map[string]any)
		ns := text(row["NAMESPACE"])
		if ns == "" {
			ns = a.ObjectRef.Namespace
		}
		if service := serviceOf(labels, nil); service != "" {
			d.services[ns+"/"+text(row["NAME"])] = service
		}
	}
}

// callClass sums a call up: a write is one whatever else was read; a call
// delivers when any of its uses does; else its best answer decides.
func callClass(g *group, answers []*answer, uses []Use) (Class, string) {
	seen := map[Class]bool{}
	message := ""
	for _, a := range answers {
		if a.class == Write {
			seen[Write] = true
		}
		if len(uses) == 0 {
			seen[a.class] = true
		}
		if message == "" && a.class != Delivered && a.class != Write {
			message = a.message
		}
		if message == "" && a.class == Write && a.Status() >= 400 {
			message = a.message
		}
	}
	for _, u := range uses {
		seen[u.Class] = true
	}
	if len(answers) == 0 {
		// Housekeeping alone: kubectl version, api-resources, auth can-i.
		for _, r := range g.requests {
			if r.Status() < 400 && r.Status() != 0 {
				return Delivered, ""
			}
		}
		return Failed, failure(g.requests[len(g.requests)-1])
	}
	order := []Class{Write, Delivered, NotFound, Refused, Unsupported, Failed}
	if len(uses) == 0 {
		// Look-ups that succeeded don't make up for what failed after them.
		order = []Class{Write, NotFound, Refused, Unsupported, Failed, Delivered}
	}
	for _, class := range order {
		if seen[class] {
			if class == Delivered && len(uses) > 0 && allDelivered(uses) {
				message = ""
			}
			return class, message
		}
	}
	return Failed, message
}

func allDelivered(uses []Use) bool {
	return !slices.ContainsFunc(uses, func(u Use) bool { return u.Class != Delivered })
}
