package conformance

import (
	"crypto/tls"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/kubeconfigs"
	"github.com/kubecase/kubecase/shims/logs"
)

// recordedCase is the shipped case that holds the recorded cluster's snapshot.
const recordedCase = "shop-outage"

// subjects are the recorded users as the cluster authenticated them. The
// group without a name is what its token file gave to nobody.
var subjects = map[string]apiserver.EpisodeOptions{
	"admin":  {User: "oracle-admin", UID: "1001", Groups: []string{"system:masters"}},
	"viewer": {User: "viewer", UID: "1002", Groups: []string{"shop-viewers"}},
	"nobody": {User: "nobody", UID: "1003", Groups: []string{""}},
}

// startServer starts kubecase on the recorded cluster's case with the given
// clock, and stops it when the test ends. KUBECASE_CONFORMANCE_SERVER names
// servers that already run instead: a JSON file, an object of Servers by clock.
func startServer(t *testing.T, mode string) *Server {
	t.Helper()
	if name := os.Getenv("KUBECASE_CONFORMANCE_SERVER"); name != "" {
		return runningServer(t, name, mode)
	}
	return startCase(t, mode, recordedCase)
}

// startCase starts kubecase on a shipped case.
func startCase(t *testing.T, mode, fixture string) *Server {
	t.Helper()
	c := restored(t, fixture)
	groups := map[string][]string{}
	if fixture == kubeletCase {
		groups["viewer"] = []string{"viewers"} // as that cluster's certificate has it
	}
	return serveCase(t, mode, c, groups)
}

// serveCase serves a case to the recorded users; groups replace theirs.
func serveCase(t *testing.T, mode string, c *fixtures.Case, groups map[string][]string) *Server {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	authority, err := kubeconfigs.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.ServerCertificate(time.Now(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	api := apiserver.New(apiserver.Config{Logs: logs.Source{}, Connect: connector{}, Debug: connector{}, Done: done})
	web := httptest.NewUnstartedServer(api)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(func() {
		close(done) // ends the watches, for which Close would wait
		web.CloseClientConnections()
		web.Close()
	})
	server := &Server{Captured: c.Manifest().Capture.Time.Time, Subjects: map[string]Subject{}}
	dir, start := t.TempDir(), time.Now()
	for name, options := range subjects {
		if others, ok := groups[name]; ok {
			options.Groups = others
		}
		options.Case, options.Clock, options.Start = c, clock.Mode(mode), start
		episode, err := api.AddEpisode(options)
		if err != nil {
			t.Fatal(err)
		}
		server.Offset = episode.Clock.Offset()
		subject := Subject{
			URL: web.URL + episode.Path(), Token: episode.Token, CA: authority.PEM(),
			Kubeconfig: filepath.Join(dir, name),
		}
		access := kubeconfigs.Access{Server: subject.URL, Token: subject.Token, CA: subject.CA}
		if err := kubeconfigs.Write(subject.Kubeconfig, access); err != nil {
			t.Fatal(err)
		}
		server.Subjects[name] = subject
	}
	anon, bad := server.Subjects["nobody"], server.Subjects["nobody"]
	anon.Token, bad.Token = "", "wrong"
	server.Subjects["anon"], server.Subjects["bad"] = anon, bad
	return server
}

func runningServer(t *testing.T, name, mode string) *Server {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var servers map[string]*Server
	if err := json.Unmarshal(data, &servers); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if servers[mode] == nil {
		t.Fatalf("%s has no server for clock %q", name, mode)
	}
	return servers[mode]
}
