package conformance

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubecase/kubecase/fixtures"
)

// proxyPath is a path behind a proxy: of a node, or of a service or pod in a namespace.
var proxyPath = regexp.MustCompile(`^/api/v1/(?:nodes/([^/]+)|namespaces/([^/]+)/(services|pods)/([^/]+))/proxy/(.*)$`)

// notDecided are recorded answers that no object and no capture of what a proxy answered
// decides: how the API server's own connection to a pod or a node fails, and how a
// kubelet answers other methods.
var notDecided = regexp.MustCompile(`^error trying to reach service|^address not allowed`)

// proxiesServer serves the recorded cluster with what its proxies were captured to answer.
func proxiesServer(t *testing.T, exchanges []*Exchange) *Server {
	t.Helper()
	lists := map[string][]fixtures.HTTPAnswer{}
	for _, e := range exchanges {
		m := proxyPath.FindStringSubmatch(e.Path)
		if m == nil || e.As != "admin" || e.Method != http.MethodGet || answeredByServer(e) {
			continue
		}
		a := fixtures.HTTPAnswer{Path: m[5], Query: e.Query, Status: e.Status, ContentType: e.ResponseHeaders["Content-Type"], Body: e.Body}
		if m[1] != "" {
			file := fixtures.NodeAnswersDocument(m[1])
			lists[file] = append(lists[file], a)
			continue
		}
		a.Kind, a.Namespace = map[string]string{"services": "Service", "pods": "Pod"}[m[3]], m[2]
		switch parts := strings.Split(m[4], ":"); len(parts) {
		case 1:
			a.Name = parts[0]
		case 2:
			a.Name, a.Port = parts[0], parts[1]
		case 3:
			a.Scheme, a.Name, a.Port = parts[0], parts[1], parts[2]
		}
		lists[fixtures.AnswersDocument] = append(lists[fixtures.AnswersDocument], a)
	}
	maps.DeleteFunc(lists, func(name string, _ []fixtures.HTTPAnswer) bool {
		return strings.Contains(name, ":") // the same kubelet by another name
	})
	c := kubeletCaseWith(t, lists)
	return serveCase(t, clockCaptured, c, map[string][]string{"viewer": {"viewers"}})
}

// answeredByServer reports whether the API server gave an answer by itself, which the objects
// decide. How its connection to what is behind the proxy failed, they don't: that was captured.
func answeredByServer(e *Exchange) bool {
	if notDecided.MatchString(message(e.Body)) || notDecided.MatchString(e.Body) {
		return false
	}
	var status struct{ Kind string }
	return json.Unmarshal([]byte(e.Body), &status) == nil && status.Kind == "Status" || e.Status == http.StatusMovedPermanently
}

// TestProxies asks the proxies of nodes, services and pods, and for connections that can't
// be made, and holds the answers to the recorded ones.
func TestProxies(t *testing.T) {
	dir := filepath.Join(recordings(t), "kubelet", "http")
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Skipf("%s: no recordings of proxies", dir)
	}
	var exchanges []*Exchange
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		e := &kubeletExchange{}
		if err := json.Unmarshal(data, e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if slices.Contains([]string{"nodeproxy", "serviceproxy", "podproxy", "upgrade"}, e.Category) && e.Status != 0 {
			if e.BodyHead != "" {
				e.Body = e.BodyHead // long bodies were cut; what was kept is what is captured here
			}
			exchanges = append(exchanges, &e.Exchange)
		}
	}
	server := proxiesServer(t, exchanges)
	equal, undecided := 0, map[string]int{}
	for _, e := range exchanges {
		client, err := server.Subjects[e.As].client()
		if err != nil {
			t.Fatal(err)
		}
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		ours, err := replay(t.Context(), server, client, "", e)
		client.CloseIdleConnections()
		if err != nil {
			t.Fatalf("%s: %v", e.ID, err)
		}
		body := string(ours.Body)
		same := body == e.Body || e.Status == http.StatusSwitchingProtocols || ours.Status == e.Status && message(body) == message(e.Body) && message(body) != ""
		if ours.Status == e.Status && same {
			equal++
			continue
		}
		why := ""
		switch {
		case notDecided.MatchString(message(e.Body)), notDecided.MatchString(e.Body):
			why = "how a connection of the API server fails"
		case e.Method != http.MethodGet && strings.Contains(e.Path, "/proxy"):
			why = "other methods behind a proxy: writes, which are refused"
		case e.Category == "upgrade" && e.Status == http.StatusNotAcceptable, e.Category == "upgrade" && strings.Contains(e.Body, "X-Stream-Protocol-Version"), e.Category == "upgrade" && e.Status == http.StatusForbidden && e.Body == "":
			why = "the kubelet's own check of headers of a hand-made upgrade"
		case e.Category == "upgrade" && strings.HasSuffix(e.Path, "/portforward") && e.Status == http.StatusSwitchingProtocols:
			why = "a tunnel that no frame of SPDY follows through"
		case ours.Status == e.Status && message(body) == "" && (e.Category == "podproxy" || e.Category == "serviceproxy"):
			why = "asked twice: the first answer is given again"
		}
		if why == "" {
			t.Errorf("%s: %s %s?%s as %s: %d %.300q, want %d %.300q", e.ID, e.Method, e.Path, e.Query, e.As, ours.Status, body, e.Status, e.Body)
			continue
		}
		undecided[why]++
	}
	t.Logf("%d of %d answers as recorded; else %v", equal, len(exchanges), undecided)
	if equal == 0 {
		t.Error("no answer was compared")
	}
}

// message is that of a Status; empty for other texts.
func message(body string) string {
	var status struct{ Kind, Message string }
	if json.Unmarshal([]byte(body), &status) != nil || status.Kind != "Status" {
		return ""
	}
	return status.Message
}
