package conformance

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The two clocks that a server under test is asked for.
const (
	clockCaptured = "captured" // nothing is moved; ages are those at the capture instant
	clockShifted  = "shifted"  // every timestamp is moved so that the capture instant is the start
)

// Server is a running kubecase that serves the recorded cluster's snapshot.
type Server struct {
	Captured time.Time     // the capture instant of the snapshot
	Offset   time.Duration // what was added to every timestamp; 0 with clockCaptured

	// Subjects are the recording's users: admin, viewer, nobody, anon (no
	// credentials) and bad (a token that nobody has).
	Subjects map[string]Subject
}

// Subject is how one user reaches the server.
type Subject struct {
	URL        string // https://127.0.0.1:PORT/e/<opaque>
	Token      string // bearer token; empty for anon
	Kubeconfig string // path of a kubeconfig file
	CA         []byte // PEM
}

// client returns a client for one subject that speaks HTTP/1.1, as the
// recorder did (upgrades need it), follows no redirect and adds no header of
// its own.
func (s Subject) client() (*http.Client, error) {
	pool := x509.NewCertPool()
	if len(s.CA) > 0 && !pool.AppendCertsFromPEM(s.CA) {
		return nil, errors.New("no certificate in the subject's CA")
	}
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{RootCAs: pool},
			TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// present asks the server for its present resource version, the one that its
// lists carry.
func (s *Server) present() (string, error) {
	admin := s.Subjects["admin"]
	client, err := admin.client()
	if err != nil {
		return "", err
	}
	req, err := http.NewRequest(http.MethodGet, admin.URL+"/api/v1/namespaces?limit=1", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+admin.Token)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return "", fmt.Errorf("list of namespaces (%s): %w", resp.Status, err)
	}
	return list.Metadata.ResourceVersion, nil
}

// prefix is the path below which the subject's API is served.
func (s Subject) prefix() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Path
}
