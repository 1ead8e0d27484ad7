package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kubecase/kubecase/fixtures"
)

// helmRelease is a release as Helm stores it in a Secret: JSON, compressed,
// encoded, and encoded again as all data of a Secret.
func helmRelease(t *testing.T) string {
	t.Helper()
	const release = `{"name":"web","info":{"first_deployed":"2026-12-01T00:00:00Z","last_deployed":"2026-12-01T00:00:00Z","deleted":"","description":"Install complete","status":"deployed"},
"chart":{"metadata":{"name":"web","version":"1.2.3","apiVersion":"v2","appVersion":"9"},"templates":[],"values":{}},"config":{"replicas":2},
"manifest":"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n","version":1,"namespace":"shop"}`
	packed := &bytes.Buffer{}
	w := gzip.NewWriter(packed)
	if _, err := w.Write([]byte(release)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	once := base64.StdEncoding.EncodeToString(packed.Bytes())
	return base64.StdEncoding.EncodeToString([]byte(once))
}

// TestHelm lists and reads a captured release.
func TestHelm(t *testing.T) {
	dir := clientsDir(t)
	c, err := fixtures.OpenFS("helm", fstest.MapFS{
		"case.yaml": {Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: helm\ncapture: {time: \"2026-12-01T00:10:00Z\"}\n")},
		"version.json": {Data: []byte(`{"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "x", "gitTreeState": "clean",
 "buildDate": "2026-11-30T00:00:00Z", "goVersion": "go1", "compiler": "gc", "platform": "linux/amd64"}`)},
		"objects/core_v1_secrets.json": {Data: fmt.Appendf(nil, `{"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
  {"metadata": {"name": "sh.helm.release.v1.web.v1", "namespace": "shop", "resourceVersion": "8", "creationTimestamp": "2026-12-01T00:00:00Z",
    "labels": {"name": "web", "owner": "helm", "status": "deployed", "version": "1"}},
   "type": "helm.sh/release.v1", "data": {"release": %q}}]}`, helmRelease(t))},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := serveCase(t, clockCaptured, c, nil)
	for args, holds := range map[string]string{
		"list -n shop":               "web-1.2.3",
		"list -A -o json":            `"status":"deployed"`,
		"get values web -n shop":     "replicas: 2",
		"get manifest web -n shop":   "kind: ConfigMap",
		"history web -n shop":        "Install complete",
		"status web -n shop -o json": `"name":"web"`,
		"get metadata web -n shop":   "CHART: web",
	} {
		command := exec.CommandContext(t.Context(), filepath.Join(dir, "helm"), strings.Fields(args)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+server.Subjects["admin"].Kubeconfig, "HOME="+t.TempDir())
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), holds) {
			t.Errorf("helm %s: %v, lacks %q:\n%s", args, err, holds, out)
		}
	}
}
