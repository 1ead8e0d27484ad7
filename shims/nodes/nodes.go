// Package nodes answers for the kubelets of a case: what each said below
// /api/v1/nodes/<node>/proxy/ when it was captured, and nothing else.
package nodes

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// kubeletPort is where the kubelet listens unless it was configured otherwise; what
// was captured came from there.
const kubeletPort = "10250"

// Serve answers a request below a node's proxy from the case, moved into the time of
// the clock. name is the node as the path has it, perhaps with scheme and port
// ("https:node-1:10250"); rest is what follows "proxy", with its leading slash, empty
// for none. The error is for what wasn't captured; nothing was written then.
func Serve(w http.ResponseWriter, req *http.Request, c *fixtures.Case, k clock.Clock, name, rest string) error {
	node, port := split(name)
	if rest == "" {
		// The API server's own answer: relative links only work below a slash.
		w.Header().Set("Location", (&url.URL{Path: "proxy/", RawQuery: req.URL.RawQuery}).String())
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	}
	if port != "" && port != kubeletPort {
		return fmt.Errorf("port %s of node %q was not captured, only its kubelet", port, node)
	}
	answers, err := fixtures.ReadEntries[fixtures.HTTPAnswer](c, fixtures.NodeAnswersDocument(node))
	if err != nil {
		return err
	}
	if len(answers) == 0 {
		return fmt.Errorf("the kubelet of node %q was not captured%s", node, c.WhyNot("nodes/"+node, "nodes"))
	}
	wanted := strings.TrimPrefix(rest, "/")
	query := req.URL.Query()
	for i := range answers {
		if a := &answers[i]; a.Path == wanted && sameQuery(a.Query, query) && (a.Method == "" || a.Method == req.Method) {
			return send(w, c, k, node, a, nil)
		}
	}
	if a, lines := tailOf(answers, wanted, query); a != nil {
		return send(w, c, k, node, a, func(body []byte) []byte { return tail(body, lines) })
	}
	return fmt.Errorf("%q of the kubelet of node %q was not captured; captured are %s", withQuery(wanted, req.URL.RawQuery), node, list(answers))
}

// split takes scheme and port off a node's name.
func split(name string) (node, port string) {
	parts := strings.Split(name, ":")
	switch len(parts) {
	case 3:
		return parts[1], parts[2]
	case 2:
		return parts[0], parts[1]
	}
	return name, ""
}

func sameQuery(captured string, asked url.Values) bool {
	values, err := url.ParseQuery(captured)
	return err == nil && values.Encode() == asked.Encode()
}

func withQuery(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

func list(answers []fixtures.HTTPAnswer) string {
	names := make([]string, len(answers))
	for i, a := range answers {
		names[i] = strconv.Quote(withQuery(a.Path, a.Query))
	}
	return strings.Join(names, ", ")
}

// tailOf finds the whole log of which a log query wants the last lines.
func tailOf(answers []fixtures.HTTPAnswer, path string, query url.Values) (*fixtures.HTTPAnswer, int) {
	lines, err := strconv.Atoi(query.Get("tailLines"))
	if err != nil || lines < 0 || path != "logs/" || query.Get("query") == "" {
		return nil, 0
	}
	rest := url.Values{}
	for key, values := range query {
		if key != "tailLines" {
			rest[key] = values
		}
	}
	for i := range answers {
		if a := &answers[i]; a.Path == path && a.Status == http.StatusOK && sameQuery(a.Query, rest) {
			return a, lines
		}
	}
	return nil, 0
}

// tail is the last lines of a text.
func tail(text []byte, lines int) []byte {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at--
	}
	for ; lines > 0; lines-- {
		if at = bytes.LastIndexByte(text[:at], '\n'); at < 0 {
			return text
		}
	}
	return text[at+1:]
}

func send(w http.ResponseWriter, c *fixtures.Case, k clock.Clock, node string, a *fixtures.HTTPAnswer, cut func([]byte) []byte) error {
	body := []byte(a.Body)
	if a.File != "" {
		var err error
		if body, err = c.Document(path.Join("nodes", node, a.File)); err != nil {
			return err
		}
	}
	if cut != nil {
		body = cut(body)
	}
	a.Send(w, moved(a, body, k))
	return nil
}

// moved is a body in the time of the clock, by what it is.
func moved(a *fixtures.HTTPAnswer, body []byte, k clock.Clock) []byte {
	switch {
	case strings.HasPrefix(a.Path, "metrics"):
		return k.ShiftMetrics(body)
	case strings.HasPrefix(a.ContentType, "application/json"):
		return clock.ShiftJSON(body, k.Offset())
	}
	return clock.ShiftText(body, k.Offset())
}
