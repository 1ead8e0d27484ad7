package recorder

import (
	"net"
	"strconv"
	"sync/atomic"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
)

// A response that was given before costs so little that its line counts: it is written
// straight from the request, as appendLine writes its event. TestStraightLine holds the two
// together.

// straight are what a line takes from a request when it arrives.
type straight struct {
	id                       [36]byte
	received                 time.Time
	accept, session, command string
}

// arrived notes what may change while the request is answered.
func (s *straight) arrived(l *Log, header map[string][]string) {
	s.id, s.received = newID(), l.o.Now()
	s.accept, s.session, s.command = first(header["Accept"]), first(header["Kubectl-Session"]), first(header["Kubectl-Command"])
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// who is the part of a line that says who asks: the same for all requests of a connection.
type who struct {
	username, uid, remote, agent string
	groups                       []string
	text                         []byte
}

// of reports whether w is about this user and client. Groups are the authenticator's own
// list, which is the same for each of an episode's requests.
func (w *who) of(u *authnv1.UserInfo, remote, agent string) bool {
	return w != nil && w.remote == remote && w.agent == agent && w.username == u.Username && w.uid == u.UID && len(w.groups) == len(u.Groups) &&
		(len(u.Groups) == 0 || &w.groups[0] == &u.Groups[0])
}

// lastWho is who asked last.
type lastWho struct{ atomic.Pointer[who] }

func (l *lastWho) text(u *authnv1.UserInfo, remote, agent string) []byte {
	w := l.Load()
	if w.of(u, remote, agent) {
		return w.text
	}
	w = &who{username: u.Username, uid: u.UID, remote: remote, agent: agent, groups: u.Groups}
	w.text = appendUser(w.text, u)
	if host, _, err := net.SplitHostPort(remote); err == nil {
		w.text = appendStrings(append(w.text, `,"sourceIPs":`...), []string{host})
	}
	if agent = bounded(agent, headerLimit); agent != "" {
		w.text = appendField(w.text, "userAgent", agent)
	}
	l.Store(w)
	return w.text
}

// straightLine appends the line of a complete answer of which the body is stored already. It is
// false for what has more to tell than usual.
func (w *recording) straightLine(b []byte, k kept) ([]byte, bool) {
	user, impersonated, said, info := w.exchange.saidOf()
	if said > 0 || impersonated != nil || user.Extra != nil || info == nil && w.source.Name == Kubernetes || w.source.Prefix != "" || w.why != "" {
		return b, false
	}
	r := w.request
	uri, cut := capturedURI(r.URL.EscapedPath(), r.URL.RawQuery, w.log.unshift(w.source, ""))
	if cut || len(r.Method) > 32 || len(r.RemoteAddr) > 128 {
		return b, false
	}
	b = append(b, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"`...)
	b = append(append(b, w.at.id[:]...), `","stage":"ResponseComplete"`...)
	b = appendField(b, "requestURI", uri)
	ofResource := w.source.Name == Kubernetes && info.IsResourceRequest
	verb := lowerMethod(r.Method)
	if ofResource {
		verb = info.Verb
	}
	b = appendField(b, "verb", verb)
	b = append(b, w.log.who.text(&user, r.RemoteAddr, r.UserAgent())...)
	if ofResource {
		o := referenceOf(info)
		b = appendReference(b, &o)
	}
	code := w.status
	b = append(b, `,"responseStatus":{"metadata":{},"status":`...)
	if code >= 400 {
		b = append(b, `"Failure"`...)
	} else {
		b = append(b, `"Success"`...)
	}
	b = append(strconv.AppendInt(append(b, `,"code":`...), int64(code), 10), '}')
	b = w.log.stamps.append(append(b, `,"requestReceivedTimestamp":`...), w.at.received)
	b = w.log.stamps.append(append(b, `,"stageTimestamp":`...), w.log.o.Now())
	header := w.Header()
	b = append(b, `,"annotations":{`...)
	b = appendNote(b, KeyAccept, bounded(w.at.accept, headerLimit))
	b = appendNote(b, KeyBody, k.digest)
	b = append(strconv.AppendInt(append(b, `"`+KeyBodySize+`":"`...), int64(k.size), 10), `",`...)
	b = appendNote(b, KeyCommand, bounded(w.at.command, headerLimit))
	b = appendNote(b, KeyConnection, bounded(r.RemoteAddr, 128))
	b = appendNote(b, KeyContentEncoding, bounded(first(header["Content-Encoding"]), headerLimit))
	b = appendNote(b, KeyContentType, bounded(first(header["Content-Type"]), headerLimit))
	b = appendNote(b, KeyMethod, bounded(r.Method, 32))
	b = appendNote(b, KeySession, bounded(w.at.session, headerLimit))
	b = appendNote(b, KeySource, w.source.Name)
	b = strconv.AppendInt(append(b, `"`+KeyWireSize+`":"`...), w.wire, 10)
	return append(b, "\"}}\n"...), true
}

// appendNote adds an annotation and a comma; nothing for none.
func appendNote(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, '"'), key...), `":`...)
	return append(appendString(b, value), ',')
}

// stamps writes times; what a second's times have in common is kept.
type stamps struct{ last atomic.Pointer[stampedSecond] }

type stampedSecond struct {
	unix int64
	text []byte // 2006-01-02T15:04:05.
}

func (s *stamps) append(b []byte, t time.Time) []byte {
	last := s.last.Load()
	if last == nil || last.unix != t.Unix() {
		last = &stampedSecond{unix: t.Unix(), text: t.UTC().AppendFormat(nil, "2006-01-02T15:04:05.")}
		s.last.Store(last)
	}
	b = append(append(b, '"'), last.text...)
	micro := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+micro/unit%10))
	}
	return append(b, `Z"`...)
}
