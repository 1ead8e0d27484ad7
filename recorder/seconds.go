package recorder

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// secondsParameters are the times in queries to Prometheus, each RFC 3339 or Unix
// seconds with a fraction: https://prometheus.io/docs/prometheus/latest/querying/api/
var secondsParameters = map[string]bool{"time": true, "start": true, "end": true}

// prometheusPaths are the ends of the paths that take them, at Prometheus itself or
// behind a proxy.
var prometheusPaths = []string{
	"/api/v1/query", "/api/v1/query_range", "/api/v1/query_exemplars", "/api/v1/series", "/api/v1/labels", "/values",
}

// takesSeconds reports a path of Prometheus' API that takes times.
func takesSeconds(path string) bool {
	if !strings.Contains(path, "/api/v1/") {
		return false
	}
	for _, end := range prometheusPaths {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// capturedSeconds moves Unix seconds as unshift moves the same instant as text. What is
// no plain number, or nothing that unshift moves, stays as it is.
func capturedSeconds(value string, unshift func([]byte) []byte) string {
	whole, fraction, dotted := strings.Cut(value, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < 0 || len(whole) > 12 || dotted && strings.Trim(fraction, "0123456789") != "" {
		return value
	}
	text := time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	moved, err := time.Parse(time.RFC3339, string(unshift([]byte(text))))
	if err != nil || moved.Unix() == seconds {
		return value
	}
	out := strconv.FormatInt(moved.Unix(), 10)
	if dotted {
		out += "." + fraction
	}
	return out
}

// capturedForm is a form of a request's body in captured time: Prometheus takes its
// parameters in either place.
func capturedForm(path, form string, unshift func([]byte) []byte) string {
	return capturedQuery(form, unshift, takesSeconds(path))
}

// isForm reports a content type whose body reads like a query.
func isForm(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}

// pathOf is the path of a recorded URI.
func pathOf(uri string) string {
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return uri
	}
	return u.Path
}
