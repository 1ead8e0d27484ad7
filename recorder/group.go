package recorder

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
)

// group is the requests of one call.
type group struct {
	session  string
	habit    habit
	requests []*Request
	wrapped  *Invocation

	first time.Time // the first data request's start
	end   time.Time // the last end
	data  bool      // some request isn't housekeeping
}

func (g *group) add(r *Request) {
	data := !r.isHousekeeping()
	if len(g.requests) == 0 || data && !g.data {
		g.first = r.Start()
	}
	g.data = g.data || data
	g.requests = append(g.requests, r)
	end := r.End()
	if r.Open && r.Annotations[KeyStream] != "" {
		end = endless
	}
	if end.After(g.end) {
		g.end = end
	}
}

// endless is the end of a stream that has none on record.
var endless = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// lastLike returns the group's last request with that signature.
func (g *group) lastLike(signature string) *Request {
	for _, r := range slices.Backward(g.requests) {
		if r.signature() == signature {
			return r
		}
	}
	return nil
}

// volatile are the parameters in which the requests of one query differ.
var volatile = []string{"limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "timeoutSeconds", "timeout", "allowWatchBookmarks", "sendInitialEvents", "pretty"}

// signature is what a request asks for, however it goes about it: the same for the
// pages of a list and the watch that follows it.
func (r *Request) signature() string {
	q := make(url.Values, len(r.query))
	for k, v := range r.query {
		if !slices.Contains(volatile, k) {
			q[k] = v
		}
	}
	method := r.Method()
	if r.isConnect() {
		method = "CONNECT" // a WebSocket is asked for with GET, SPDY with POST
	}
	return method + " " + r.path + "?" + q.Encode() + " " + r.Annotations[KeyRequestBody]
}

// groupRequests makes calls of requests that are in the order of their arrival.
// The groups are in the order of their first data request.
func groupRequests(requests []Request, gap time.Duration) []*group {
	var groups []*group
	sessions := map[string]*group{}
	open := map[string][]*group{} // by client, the groups that may go on
	pending := map[string][]*Request{}
	start := func(client string, r *Request) *group {
		g := &group{session: r.Annotations[KeySession], habit: r.habit()}
		groups = append(groups, g)
		for _, p := range pending[client] {
			g.add(p)
		}
		delete(pending, client)
		return g
	}
	for i := range requests {
		r := &requests[i]
		if session := r.Annotations[KeySession]; session != "" {
			key := r.User.Username + "\x00" + session
			if sessions[key] == nil {
				sessions[key] = start(key, r)
			}
			sessions[key].add(r)
			continue
		}
		client := r.clientKey()
		live := slices.DeleteFunc(open[client], func(g *group) bool { return r.Start().Sub(g.end) > gap })
		var found *group
		for _, g := range slices.Backward(live) {
			if g.continues(r) {
				found = g
				break
			}
		}
		switch {
		case found != nil:
			found.add(r)
		case r.isHousekeeping() && r.habit() == eachQuery:
			// It belongs to the query that it prepares; if none comes it is no call.
			if len(pending[client]) < 256 {
				pending[client] = append(pending[client], r)
			}
		default:
			found = start(client, r)
			found.add(r)
			live = append(live, found)
		}
		if len(live) > 64 {
			live = live[1:]
		}
		open[client] = live
	}
	groups = absorbProbes(groups, gap)
	slices.SortStableFunc(groups, func(a, b *group) int { return a.first.Compare(b.first) })
	return groups
}

// absorbProbes gives a lone question for the version, which a kubectl dispatcher
// asks without a session before it runs the real kubectl, to the session that follows.
func absorbProbes(groups []*group, gap time.Duration) []*group {
	return slices.DeleteFunc(groups, func(p *group) bool {
		if p.session == "" && !p.data && p.requests[0].client() == "kubectl-dispatcher" {
			return true // a dispatcher that says its own name; the kubectl that it runs is the call
		}
		if p.session != "" || len(p.requests) != 1 || p.requests[0].path != "/version" || p.requests[0].client() != "kubectl" {
			return false
		}
		for _, g := range groups {
			if since := g.requests[0].Start().Sub(p.first); g.session != "" && since >= 0 && since <= gap {
				g.requests = append([]*Request{p.requests[0]}, g.requests...)
				return true
			}
		}
		return false
	})
}

// clientKey tells clients apart. A kubectl that names no session has a connection
// of its own; other programs open several.
func (r *Request) clientKey() string {
	key := r.Source() + "\x00" + r.User.Username + "\x00" + r.UserAgent
	if r.client() == "kubectl" {
		key += "\x00" + r.Annotations[KeyConnection]
	}
	return key
}

// continues reports that r belongs to the group's call.
func (g *group) continues(r *Request) bool {
	if g.habit == wholeRun && r.client() == "git" && strings.HasSuffix(r.path, gitRefs) {
		// Another clone, unless it comes again with the credentials that it was asked for.
		last := g.lastLike(r.signature())
		return last != nil && last.Status() == 401
	}
	if g.habit == wholeRun {
		return true
	}
	last := g.lastLike(r.signature())
	if last == nil {
		return g.habit == eachQuery && g.prepares(r)
	}
	if (last.retryable() || last.isConnect() && last.isRefusedWebSocket()) && !last.End().After(r.Start()) {
		return true
	}
	if g.habit == eachRequest || r.isHousekeeping() {
		return false
	}
	if r.isWatch() && !r.follows() {
		return false
	}
	return r.isWatch() && !last.isWatch() || r.query.Get("continue") != "" ||
		last.isWatch() && !last.Open && !last.End().After(r.Start())
}

func (r *Request) isWatch() bool { return r.Verb == "watch" }

// follows reports a watch that goes on from what its client knows, or that a client which
// keeps a list begins anew. One from nowhere is a question of its own.
func (r *Request) follows() bool {
	version := r.query.Get("resourceVersion")
	return version != "" && version != "0" || r.query.Get("sendInitialEvents") == "true"
}

// prepares reports that the group so far only looked up the pod whose log r reads.
func (g *group) prepares(r *Request) bool {
	if r.ObjectRef == nil || r.ObjectRef.Resource != "pods" || r.ObjectRef.Subresource != "log" {
		return false
	}
	for _, q := range g.requests {
		if q.isHousekeeping() {
			continue
		}
		if q.ObjectRef == nil || q.ObjectRef.Resource != "pods" || q.ObjectRef.Name != r.ObjectRef.Name || q.ObjectRef.Namespace != r.ObjectRef.Namespace || q.ObjectRef.Subresource != "" {
			return false
		}
	}
	return g.data
}

// join gives each kubectl call the wrapper's line about it: by session, else by
// time and command. The lines that no request belongs to come back: kubectl
// refused its arguments, or needed no server.
func join(groups []*group, lines []Invocation) (rest []Invocation) {
	bySession := map[string]*group{}
	for _, g := range groups {
		if g.session != "" {
			bySession[g.session] = g
		}
	}
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b Invocation) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	// Shortest first: of two that overlap, the inner one has less room.
	order := make([]*Invocation, len(lines))
	for i := range lines {
		order[i] = &lines[i]
	}
	slices.SortStableFunc(order, func(a, b *Invocation) int { return cmp.Compare(a.End.Sub(a.Start), b.End.Sub(b.Start)) })
	joined := map[*Invocation]bool{}
	for _, line := range order {
		if g := bySession[line.Session]; line.Session != "" && g != nil && g.wrapped == nil {
			g.wrapped, joined[line] = line, true
		}
	}
	for _, line := range order {
		if joined[line] || line.Session != "" {
			continue
		}
		for _, g := range groups {
			began := g.requests[0]
			if g.wrapped == nil && began.client() == "kubectl" && !began.Start().Before(line.Start) && !began.Start().After(line.End) && line.runs(began.Annotations[KeyCommand]) {
				g.wrapped, joined[line] = line, true
				break
			}
		}
	}
	for i := range lines {
		if !joined[&lines[i]] {
			rest = append(rest, lines[i])
		}
	}
	return rest
}

// runs reports that argv may be that command: its words are there in that order.
func (v *Invocation) runs(command string) bool {
	words := strings.Fields(command)
	if len(words) > 0 {
		words = words[1:]
	}
	for _, arg := range v.Argv {
		if len(words) > 0 && arg == words[0] {
			words = words[1:]
		}
	}
	return len(words) == 0
}
