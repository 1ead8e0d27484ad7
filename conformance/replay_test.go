package conformance

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReplay sends the recorded requests to a server that demands exactly what
// was recorded, below its prefix and with its own tokens, and that answers with
// the recording.
func TestReplay(t *testing.T) {
	const prefix = "/e/0123456789abcdef"
	var e *Exchange
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded, _ := sides(time.Time{}, harnessPresent)
		uri := prefix + e.Path
		if e.Query != "" {
			uri += "?" + presentQuery(e.Query, recorded, harnessPresent)
		}
		if r.Method != e.Method || r.RequestURI != uri {
			t.Errorf("%s: got %s %s, want %s %s", e.ID, r.Method, r.RequestURI, e.Method, uri)
		}
		for key, value := range e.Headers {
			switch {
			case key == "Authorization" && e.As == "anon":
				value = ""
			case key == "Authorization":
				value = "Bearer token-of-" + e.As
			}
			if got := r.Header.Get(key); got != value {
				t.Errorf("%s: %s %q, want %q", e.ID, key, got, value)
			}
		}
		for key := range r.Header {
			if _, ok := e.Headers[key]; !ok && key != "Content-Length" {
				t.Errorf("%s: sent %s, which was not recorded", e.ID, key)
			}
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != strings.ReplaceAll(e.RequestBody, recordedToken, "token-of-viewer") {
			t.Errorf("%s: body %q, %v", e.ID, body, err)
		}
		answer := asAnswer(t, e)
		for key, values := range answer.Header {
			if key != "Content-Length" && key != "Transfer-Encoding" {
				w.Header()[key] = values
			}
		}
		if answer.Header.Get("Content-Type") == "" {
			w.Header()["Content-Type"] = nil // or net/http guesses one
		}
		if answer.Header.Get("Date") == "" {
			w.Header()["Date"] = nil
		}
		w.WriteHeader(answer.Status)
		if len(answer.Body) > 0 && e.Method != http.MethodHead {
			if _, err := io.WriteString(w, strings.ReplaceAll(string(answer.Body), "viewer's", "token-of-viewer")); err != nil {
				t.Error(err)
			}
		}
	}))
	defer web.Close()
	server := harnessServer()
	for name := range server.Subjects {
		subject := Subject{
			URL: web.URL + prefix, Token: "token-of-" + name,
			CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}),
		}
		if name == "anon" {
			subject.Token = ""
		}
		server.Subjects[name] = subject
	}
	client, err := server.Subjects["admin"].client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for _, recorded := range loadExchanges(t, recordings(t)) {
		if recorded.BodyBinary || recorded.BodyOmitted || recorded.Status == http.StatusSwitchingProtocols {
			continue // the body isn't there to be answered; httptest upgrades nothing
		}
		e = recorded
		e.ElapsedMS = 0 // nobody waits here
		answer, err := replay(t.Context(), server, client, harnessPresent, e)
		if err != nil {
			t.Errorf("%s: %v", e.ID, err)
			continue
		}
		s := setting{server: server, present: harnessPresent}
		s.asOf, _ = e.date()
		if m := compareExchange(s, e, answer); m != nil {
			t.Errorf("%s %s: %s: %s", e.ID, e.Title, m.cause, m.detail)
		}
	}
}

// TestLocalTranscripts runs the transcripts that need no server, so that the
// bench and both clients are tested without one.
func TestLocalTranscripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubectl")
	}
	server := harnessServer()
	subject := server.Subjects["admin"]
	subject.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config := `apiVersion: v1
kind: Config
clusters: [{name: some, cluster: {server: "` + subject.URL + `", certificate-authority-data: eA==}}]
contexts: [{name: any, context: {cluster: some, user: who}}]
current-context: any
users: [{name: who, user: {token: secret}}]
`
	if err := os.WriteFile(subject.Kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Subjects["admin"] = subject
	dir := recordings(t)
	b := newBench(t, server, harnessPresent, dir)
	ran := 0
	for _, tr := range loadTranscripts(t, dir) {
		local := tr.Args[0] == "options" || tr.Args[0] == "config" || slices.Contains(tr.Args, "--client") ||
			strings.Contains(tr.Stderr, "unknown flag")
		if tr.As != "admin" || !local {
			continue
		}
		ran++
		// No home, for there is no discovery to warm it with.
		ours, err := b.exec(t.Context(), tr, t.TempDir(), transcriptTimeout, tr.Args...)
		if err != nil {
			t.Errorf("%s: %v", tr.ID, err)
			continue
		}
		if m := compareTranscript(b, tr, ours); m != nil {
			t.Errorf("%s: %s: %s\n%s", tr.ID, m.cause, m.detail, m.diff)
		}
	}
	if ran == 0 {
		t.Error("no transcript ran")
	}
}
