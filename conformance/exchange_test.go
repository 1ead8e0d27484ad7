package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Answer is what a server answered.
type Answer struct {
	Status  int
	Header  http.Header
	Body    []byte
	Elapsed time.Duration
}

// exchangeTimeout is how much longer than the real server ours may take.
const exchangeTimeout = 20 * time.Second

// replay sends a recorded request to the server as the same subject.
func replay(ctx context.Context, server *Server, client *http.Client, present string, e *Exchange) (*Answer, error) {
	subject := server.Subjects[e.As]
	recorded, _ := sides(server.Captured, present)
	url := subject.URL + e.Path
	if e.Query != "" {
		url += "?" + presentQuery(e.Query, recorded, present)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.ElapsedMS)*time.Millisecond+exchangeTimeout)
	defer cancel()
	body := server.theirToken(e.RequestBody)
	req, err := http.NewRequestWithContext(ctx, e.Method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, value := range e.Headers {
		req.Header.Set(key, value)
	}
	// The recorded header is a placeholder for a token that was the real
	// cluster's.
	req.Header.Del("Authorization")
	if subject.Token != "" {
		req.Header.Set("Authorization", "Bearer "+subject.Token)
	}
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer := &Answer{Status: resp.StatusCode, Header: resp.Header}
	// After an upgrade the body is the connection, which the recorder didn't read.
	if resp.StatusCode != http.StatusSwitchingProtocols {
		if answer.Body, err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
	}
	answer.Elapsed = time.Since(start)
	return answer, nil
}

// recordedToken is the viewer's token on the real cluster, which one
// TokenReview sends; every server has its own.
const recordedToken = "oracle-viewer-token"

func (s *Server) theirToken(text string) string {
	return strings.ReplaceAll(text, recordedToken, s.Subjects["viewer"].Token)
}

func (s *Server) recordedToken(text string) string {
	if token := s.Subjects["viewer"].Token; token != "" {
		return strings.ReplaceAll(text, token, recordedToken)
	}
	return text
}

// miss is a difference. Its cause is one of the words in docs/conformance.md.
type miss struct {
	cause  string
	detail string // one line
	diff   string // unified, may be empty
}

// setting is what a comparison must know beside the exchange and the answer.
type setting struct {
	server  *Server
	present string
	// asOf is the instant, in captured time, at which our answer's ages are
	// computed; with clockCaptured it is the capture instant.
	asOf time.Time
}

// compareExchange compares our answer with the recorded one, nil if equal.
func compareExchange(s setting, e *Exchange, ours *Answer) *miss {
	if ours.Status != e.Status {
		return &miss{cause: "status", detail: fmt.Sprintf("%d instead of %d: %s", ours.Status, e.Status, oneLine(string(ours.Body)))}
	}
	if detail := compareHeaders(s, e, ours.Header); detail != "" {
		return &miss{cause: "header", detail: detail}
	}
	if m := compareBody(s, e, ours); m != nil {
		return m
	}
	// A watch lasts as long as timeoutSeconds says, and a list at a future
	// resource version waits before it gives up.
	recorded := time.Duration(e.ElapsedMS * float64(time.Millisecond))
	if recorded > 950*time.Millisecond && ours.Elapsed < recorded-200*time.Millisecond {
		return &miss{cause: "wait", detail: fmt.Sprintf("answered after %v instead of %v", ours.Elapsed, recorded)}
	}
	return nil
}

// headerRules are the headers that aren't compared by value, with the reason.
// "presence" means that ours must be there exactly if it was recorded.
var headerRules = map[string]string{
	"Date":              "presence", // the moment of the answer
	"Audit-Id":          "presence", // random
	"Content-Length":    "ignore",   // framing: bodies are compared by themselves, masked
	"Transfer-Encoding": "ignore",   // framing: depends on buffer sizes and flushes
	"Last-Modified":     "presence", // when the server computed its documents
	"Expires":           "presence", // a year after the moment of the answer
	// When the real process started; ours has a start of its own.
	"Process-Start-Time-Unix": "presence",
}

func compareHeaders(s setting, e *Exchange, ours http.Header) string {
	recorded := http.Header{}
	for key, value := range e.ResponseHeaders {
		recorded.Set(key, value)
	}
	keys := slices.Sorted(maps.Keys(recorded))
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if _, ok := recorded[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		rule := headerRules[key]
		if rule == "ignore" {
			continue
		}
		_, has := recorded[key]
		_, have := ours[key]
		switch {
		case has && !have:
			return fmt.Sprintf("%s missing, recorded %q", key, recorded.Get(key))
		case !has && have:
			return fmt.Sprintf("%s %q not in the recording", key, ours.Get(key))
		case rule == "presence":
			continue
		}
		// The recorder joined repeated headers, as the standard allows.
		value := strings.Join(ours[key], ", ")
		if key == "Location" {
			value = strings.TrimPrefix(value, s.server.Subjects[e.As].prefix())
		}
		if value != recorded.Get(key) {
			return fmt.Sprintf("%s %q instead of %q", key, value, recorded.Get(key))
		}
	}
	return ""
}

func compareBody(s setting, e *Exchange, ours *Answer) *miss {
	switch {
	case e.Status == http.StatusSwitchingProtocols:
		return nil
	case e.BodyBinary || e.BodyOmitted:
		return compareDigest(e, ours.Body)
	}
	recordedSide, ourSide := sides(s.server.Captured, s.present)
	recordedText := recordedSide.canon(e.Body)
	ourText := ourSide.canon(s.server.recordedToken(string(ours.Body)))
	if e.Status == http.StatusCreated && strings.Contains(e.Query, "dryRun=All") {
		// The object was never stored; its uid lived as long as the answer.
		recordedText, ourText = maskUIDs(recordedText), maskUIDs(ourText)
	}
	if recordedText == ourText {
		// Only ages could still be wrong, when they should have moved.
		if !strings.Contains(recordedText, "Table") {
			return nil
		}
	}
	contentType := e.ResponseHeaders["Content-Type"]
	switch {
	case strings.HasPrefix(contentType, "application/json"):
		return compareJSON(s, e, recordedText, ourText)
	case strings.HasPrefix(contentType, "application/yaml"):
		return compareYAML(s, e, recordedText, ourText)
	case recordedText != ourText:
		return &miss{cause: "body", detail: firstDifference(recordedText, ourText), diff: unified(recordedText, ourText)}
	}
	return nil
}

// ageWindow returns how much older things were in the recorded answer than
// they are in ours. The recorded moment is known to the second.
func ageWindow(s setting, e *Exchange) window {
	date, ok := e.date()
	if !ok {
		return window{0, recordingTime}
	}
	difference := date.Sub(s.asOf)
	return window{difference - 2*time.Second, difference + 2*time.Second}
}

func compareJSON(s setting, e *Exchange, recordedText, ourText string) *miss {
	if recorded, ours := jsonStyle(recordedText), jsonStyle(ourText); recorded != ours && !e.isWatch() {
		return &miss{cause: "style", detail: fmt.Sprintf("%s instead of %s", ours, recorded)}
	}
	recorded, err := parseJSON(recordedText)
	if err != nil {
		return &miss{cause: "harness", detail: fmt.Sprintf("the recording doesn't parse: %v", err)}
	}
	ours, err := parseJSON(ourText)
	if err != nil {
		return &miss{cause: "body", detail: fmt.Sprintf("not JSON (%v): %s", err, oneLine(ourText))}
	}
	if e.isWatch() {
		// One event per line, whatever was flushed when.
		if lines := strings.Count(ourText, "\n"); lines != len(ours) {
			return &miss{cause: "style", detail: fmt.Sprintf("%d events in %d lines", len(ours), lines)}
		}
	}
	if strings.HasSuffix(e.Path, "/componentstatuses") {
		// Listed in the order in which the components answer the real server.
		sortLists(recorded)
		sortLists(ours)
	}
	return compareValues(ageWindow(s, e), recorded, ours)
}

// isWatch tells whether the answer is a stream of events.
func (e *Exchange) isWatch() bool {
	return e.Status == http.StatusOK && strings.HasPrefix(e.Body, `{"type":`)
}

func compareValues(w window, recorded, ours []any) *miss {
	recordedAges, ourAges := tables(recorded), tables(ours)
	diff := func() string { return unified(renderIndented(recorded), renderIndented(ours)) }
	for i := range min(len(recorded), len(ours)) {
		path := "$"
		if len(recorded) > 1 {
			path = fmt.Sprintf("event %d", i)
		}
		if detail := diffJSON(path, recorded[i], ours[i]); detail != "" {
			return &miss{cause: "body", detail: detail, diff: diff()}
		}
	}
	if len(recorded) != len(ours) {
		return &miss{cause: "events", detail: fmt.Sprintf("%d values instead of %d", len(ours), len(recorded)), diff: diff()}
	}
	if detail := compareAges(recordedAges, ourAges, w); detail != "" {
		return &miss{cause: "age", detail: detail}
	}
	return nil
}

// compareYAML compares the values, as JSON is, and that the text has the same
// lines except for the ages.
func compareYAML(s setting, e *Exchange, recordedText, ourText string) *miss {
	parse := func(text string) ([]any, error) {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return nil, err
		}
		return parseJSON(string(data))
	}
	recorded, err := parse(recordedText)
	if err != nil {
		return &miss{cause: "harness", detail: fmt.Sprintf("the recording doesn't parse: %v", err)}
	}
	ours, err := parse(ourText)
	if err != nil {
		return &miss{cause: "body", detail: fmt.Sprintf("not YAML (%v): %s", err, oneLine(ourText))}
	}
	if m := compareValues(ageWindow(s, e), recorded, ours); m != nil {
		return m
	}
	mask := func(text string) string { return yamlAge.ReplaceAllString(text, "${1}<age>") }
	if recordedText, ourText = mask(recordedText), mask(ourText); recordedText != ourText {
		return &miss{cause: "style", detail: firstDifference(recordedText, ourText), diff: unified(recordedText, ourText)}
	}
	return nil
}

// compareDigest compares a body of which only size and digest are known.
func compareDigest(e *Exchange, ours []byte) *miss {
	if len(ours) != e.Size {
		return &miss{cause: "body", detail: fmt.Sprintf("%d bytes instead of %d", len(ours), e.Size)}
	}
	sum := sha256.Sum256(ours)
	if digest := hex.EncodeToString(sum[:]); digest != e.SHA256 {
		at := 0
		for at < min(len(ours), len(e.BodyFirstBytes)) && ours[at] == e.BodyFirstBytes[at] {
			at++
		}
		return &miss{cause: "body", detail: fmt.Sprintf("sha256 %s instead of %s; the first %d bytes are equal", digest[:12], e.SHA256[:12], at)}
	}
	return nil
}
