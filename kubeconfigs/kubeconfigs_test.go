package kubeconfigs_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubecase/kubecase/kubeconfigs"
)

// TestClientReachesServer goes the whole way: authority, certificate, file, client.
func TestClientReachesServer(t *testing.T) {
	now := time.Now()
	authority, err := kubeconfigs.NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.ServerCertificate(now, "127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	var seen *http.Request
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen = req }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()

	path := filepath.Join(t.TempDir(), "new", "config")
	access := kubeconfigs.Access{Server: server.URL + "/e/123", Token: "secret", CA: authority.PEM()}
	if err := kubeconfigs.Write(path, access); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %o, want 600", got)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(config.Host + "/version")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got, want := seen.URL.Path, "/e/123/version"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
	if got, want := seen.Header.Get("Authorization"), "Bearer secret"; got != want {
		t.Errorf("authorization %q, want %q", got, want)
	}
}

// TestWriteReplacesNothing: an existing file could be the user's own.
func TestWriteReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := kubeconfigs.Write(path, kubeconfigs.Access{Server: "https://127.0.0.1:1/e/1"})
	if err == nil || !strings.Contains(err.Error(), "exists and is not replaced") {
		t.Errorf("error %v, want a refusal", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the file holds %q (%v), want what it held", data, err)
	}
}

// TestAuthoritiesAreStrangers: a certificate of one process is nothing to another.
func TestAuthoritiesAreStrangers(t *testing.T) {
	now := time.Now()
	one, err := kubeconfigs.NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := kubeconfigs.NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := one.ServerCertificate(now, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		authority *kubeconfigs.Authority
		host      string
		valid     bool
	}{
		{"its own", one, "127.0.0.1", true},
		{"another authority", other, "127.0.0.1", false},
		{"another host", one, "192.0.2.1", false},
	} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(test.authority.PEM())
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.host})
		if (err == nil) != test.valid {
			t.Errorf("%s: %v, want valid %v", test.name, err, test.valid)
		}
	}
}
