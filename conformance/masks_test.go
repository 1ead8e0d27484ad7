package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The values that depend on the moment of the recording, and nothing else.
// Each rule replaces, on both sides, a value by a word, under a condition that
// no value of the snapshot fulfils; everything else is compared as it stands.

// The recorded cluster was frozen at resource version 1209. What still moved
// it afterwards (the API server renewing its own lease, later a restart) changed
// nothing that a list shows, so the resource versions from there to the end of
// the recording all mean "the present", and so does the one at which the server
// under test serves the snapshot. No object of the snapshot has a higher one;
// the only one that has 1209 is that lease.
const (
	presentFrom = 1209
	presentTo   = 1346 // exchange 1132, the last list recorded
)

// recordingTime is how long after the capture instant the recording went on.
const recordingTime = 35 * time.Minute

// leaseInterval is how often the API server renews its lease, the only object
// that kept changing: its renew time is from at most this long before the
// capture instant, and later in the recordings.
const leaseInterval = 12 * time.Second

// side is one side of a comparison: the recording, or the server under test.
type side struct {
	captured time.Time
	// isPresent tells whether a resource version is that side's present.
	isPresent func(string) bool
	// isMoment tells whether a time is one at which the request was answered.
	isMoment func(time.Time) bool
}

// sides returns both sides of a comparison with server, whose present resource
// version is given. Our times must be in captured time already.
func sides(captured time.Time, present string) (recorded, ours side) {
	recorded = side{
		captured: captured,
		isPresent: func(version string) bool {
			n, err := strconv.Atoi(version)
			return err == nil && n >= presentFrom && n <= presentTo
		},
		isMoment: func(t time.Time) bool {
			return t.After(captured) && t.Before(captured.Add(recordingTime))
		},
	}
	ours = side{
		captured:  captured,
		isPresent: func(version string) bool { return version == present },
		// The server's present is the capture instant and what follows, or,
		// with nothing shifted, the time of the wall clock.
		isMoment: func(t time.Time) bool {
			wall := time.Since(t).Abs() < 2*time.Minute
			return wall || !t.Before(captured) && t.Before(captured.Add(4*time.Hour))
		},
	}
	return recorded, ours
}

var (
	// versionExpr finds resource versions as JSON, as YAML and as kubectl
	// describe writes them. Escaped JSON inside annotations doesn't match.
	versionExpr = regexp.MustCompile(`("resourceVersion": ?"|\bresourceVersion: "|\bResource Version:  +)(\d+)`)
	// tokenExpr finds continue tokens.
	tokenExpr = regexp.MustCompile(`("continue": ?"|\bcontinue: |[?&]continue=)([A-Za-z0-9_-]+)`)
	// currentExpr finds the present resource version in the errors about a
	// future one and about one from before all that is known, which in a
	// snapshot, as after the restart in the recording, is the present.
	currentExpr = regexp.MustCompile(`(Too large resource version: \d+, current: |too old resource version: \d+ \()(\d+)`)
	// timeExpr finds times in RFC 3339.
	timeExpr  = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)
	renewExpr = regexp.MustCompile(`("renewTime": ?"|\brenewTime: "|\bRenew Time: +)(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)`)
	uidExpr   = regexp.MustCompile(`(\buid"?: ?"?)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// canon replaces in a text what depends on the moment.
func (s side) canon(text string) string {
	text = replaceGroup(versionExpr, text, func(version string) string {
		if s.isPresent(version) {
			return "PRESENT"
		}
		return version
	})
	text = replaceGroup(tokenExpr, text, func(token string) string {
		decoded, err := decodeToken(token)
		if err != nil {
			return token
		}
		version := strconv.FormatInt(decoded.RV, 10)
		if s.isPresent(version) {
			version = "PRESENT"
		}
		return fmt.Sprintf("TOKEN(%s,%s,%s)", decoded.V, version, url.PathEscape(decoded.Start))
	})
	text = replaceGroup(currentExpr, text, func(version string) string {
		if s.isPresent(version) {
			return "PRESENT"
		}
		return version
	})
	text = replaceGroup(renewExpr, text, func(value string) string {
		t, err := time.Parse(time.RFC3339Nano, value)
		if err == nil && t.After(s.captured.Add(-leaseInterval)) {
			return "RENEWED"
		}
		return value
	})
	// Times at which the request was answered: of a review, of a dry run.
	// Nothing in the snapshot is younger than the capture instant.
	return timeExpr.ReplaceAllStringFunc(text, func(value string) string {
		t, err := time.Parse(time.RFC3339Nano, value)
		if err == nil && s.isMoment(t) {
			return "MOMENT"
		}
		return value
	})
}

// maskUIDs replaces the uid of an object that exists only as the answer to a
// dry run. For objects that have one in the snapshot this must not be used.
func maskUIDs(text string) string { return uidExpr.ReplaceAllString(text, "${1}UID") }

// replaceGroup replaces the last group of each match.
func replaceGroup(expr *regexp.Regexp, text string, replace func(string) string) string {
	var out strings.Builder
	end := 0
	for _, match := range expr.FindAllStringSubmatchIndex(text, -1) {
		from, to := match[len(match)-2], match[len(match)-1]
		out.WriteString(text[end:from])
		out.WriteString(replace(text[from:to]))
		end = to
	}
	out.WriteString(text[end:])
	return out.String()
}

// token is a continue token of Kubernetes, which clients hold for opaque.
type token struct {
	V     string `json:"v"`
	RV    int64  `json:"rv"`
	Start string `json:"start"`
}

func decodeToken(text string) (token, error) {
	var decoded token
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &decoded)
	}
	return decoded, err
}

// presentQuery rewrites the query of a recorded request for the server under
// test: resource versions that the recorder had from the server's answers
// before are replaced by the server's own, as a client would have had them
// from it. Invented ones (0, 1, 5, 101209) stay.
func presentQuery(query string, recorded side, present string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "resourceVersion":
			if recorded.isPresent(value) {
				parts[i] = key + "=" + present
			}
		case "continue":
			decoded, err := decodeToken(value)
			if err != nil || !recorded.isPresent(strconv.FormatInt(decoded.RV, 10)) {
				continue
			}
			rv, err := strconv.ParseInt(present, 10, 64)
			if err != nil {
				continue
			}
			data, err := base64.RawURLEncoding.DecodeString(value)
			if err != nil {
				continue
			}
			// Only the number changes: the tokens with a missing or a wrong
			// version must stay as malformed as they are.
			old := fmt.Sprintf(`"rv":%d`, decoded.RV)
			data = []byte(strings.Replace(string(data), old, fmt.Sprintf(`"rv":%d`, rv), 1))
			parts[i] = key + "=" + base64.RawURLEncoding.EncodeToString(data)
		}
	}
	return strings.Join(parts, "&")
}
