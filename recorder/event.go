package recorder

import (
	"net/url"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The annotations of an audit event: what the type of audit.k8s.io has no field for.
const (
	// KeySource says whose handler answered: "kubernetes", or a shim's name.
	KeySource = "kubecase/source"
	// KeyMethod is the HTTP method.
	KeyMethod = "kubecase/method"
	// KeySession and KeyCommand are kubectl's headers Kubectl-Session and Kubectl-Command.
	KeySession = "kubecase/session"
	KeyCommand = "kubecase/command"
	// KeyAccept is the request's Accept header.
	KeyAccept = "kubecase/accept"
	// KeyConnection tells connections apart: the client's address and port.
	KeyConnection = "kubecase/connection"
	// KeyContentType and KeyContentEncoding are the response's headers. The stored
	// body is decoded whatever its encoding was.
	KeyContentType     = "kubecase/content-type"
	KeyContentEncoding = "kubecase/content-encoding"
	// KeyBody is the digest of the stored response body, KeyBodySize its size in bytes.
	// Without a stored body KeyBody is absent.
	KeyBody     = "kubecase/body"
	KeyBodySize = "kubecase/body-size"
	// KeyWireSize is the number of response body bytes that were written to the client.
	KeyWireSize = "kubecase/wire-size"
	// KeyWireDigest is the sha256 of those bytes; only where the stored body was cut.
	KeyWireDigest = "kubecase/wire-sha256"
	// KeyTruncated is "body" when the stored body is the start of what was sent,
	// "episode" when the episode's bound left no room for it, "uri" is in KeyURITruncated.
	KeyTruncated = "kubecase/truncated"
	// KeyURITruncated is "true" when the request URI was longer than is kept.
	KeyURITruncated = "kubecase/uri-truncated"
	// KeyRequestBody is the digest of the request's body as far as the handler read
	// it, up to RequestBodyLimit; KeyRequestSize the number of bytes that it read.
	KeyRequestBody = "kubecase/request-body"
	KeyRequestSize = "kubecase/request-size"
	// KeyAborted says why the client didn't get the whole response: "client gone",
	// "write error", "panic", "interrupted" (the server was killed).
	KeyAborted = "kubecase/aborted"
	// KeyStream is "true" for responses that were flushed before their end,
	// "upgrade" for connections that were taken over (exec, port-forward).
	KeyStream = "kubecase/stream"

	// KeyTool and KeyArgs let a shim say which diagnostic tool a request was, for
	// example "T4" and {"service":"cart"} (a JSON object of strings).
	KeyTool = "kubecase/tool"
	KeyArgs = "kubecase/args"
	// KeyAlerts are the alerts of which a tool told in words of its own, as
	// Alertmanager's API lists them.
	KeyAlerts = "kubecase/alerts"
	// KeyOutput and KeyExitCode are what a command in a container printed and how it ended.
	KeyOutput   = "kubecase/output"
	KeyExitCode = "kubecase/exit-code"
	// KeyThrough is the name, as it begins their user agent, of the clients by which a shim
	// answered: their requests are part of the use that KeyTool tells of.
	KeyThrough = "kubecase/through"
	// KeyNotCaptured is "true" for a command in a container of which the case doesn't say what
	// it comes to.
	KeyNotCaptured = "kubecase/not-captured"
	// KeyPort are the ports, with commas, that were connected to through a port-forward, KeyAnswers how many HTTP answers
	// came through it, each of which is a request of its own on record.
	KeyPort    = "kubecase/port"
	KeyAnswers = "kubecase/answers"
)

const (
	// RequestBodyLimit bounds the stored part of a request's body, in bytes.
	RequestBodyLimit = 64 << 10
	uriLimit         = 16 << 10
	headerLimit      = 1 << 10
	annotationLimit  = 64 << 10
	annotationsLimit = 32
)

// secretParameters carry credentials in a query: RFC 6750 section 2.3, and what
// kubectl's plugins and web sockets use. They are never written down.
var secretParameters = map[string]bool{"access_token": true, "token": true, "id_token": true, "authorization": true}

// capturedURI is the URI as it is recorded: without the episode's prefix and
// credentials, its times moved to captured time, and of bounded length.
func capturedURI(path, rawQuery string, unshift func([]byte) []byte) (uri string, cut bool) {
	uri = path
	if rawQuery != "" {
		uri += "?" + capturedQuery(rawQuery, unshift, takesSeconds(path))
	}
	if len(uri) > uriLimit {
		return strings.ToValidUTF8(uri[:uriLimit], ""), true
	}
	return uri, false
}

// capturedQuery works on each parameter in place, so that what needs no change
// keeps its order and its escapes. seconds: some values are times in Unix seconds.
func capturedQuery(raw string, unshift func([]byte) []byte, seconds bool) string {
	if unshift == nil && !strings.Contains(raw, "=") {
		return raw
	}
	parts := strings.Split(raw, "&")
	for i, part := range parts {
		key, value, ok := strings.Cut(part, "=")
		if !ok || value == "" {
			continue
		}
		name, err := url.QueryUnescape(key)
		if err != nil {
			name = key
		}
		if secretParameters[strings.ToLower(name)] {
			parts[i] = key + "=REDACTED"
			continue
		}
		if unshift == nil {
			continue
		}
		plain, err := url.QueryUnescape(value)
		if err != nil {
			continue
		}
		moved := string(unshift([]byte(plain)))
		if seconds && secondsParameters[name] {
			moved = capturedSeconds(moved, unshift)
		}
		if moved != plain {
			parts[i] = key + "=" + url.QueryEscape(moved)
		}
	}
	return strings.Join(parts, "&")
}

// bounded cuts client-controlled text.
func bounded(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// typeMeta is on each line, so that other readers of audit logs know it.
func newEvent() auditv1.Event {
	var e auditv1.Event
	e.Kind, e.APIVersion = "Event", auditv1.SchemeGroupVersion.String()
	e.Level = auditv1.LevelMetadata
	return e
}
