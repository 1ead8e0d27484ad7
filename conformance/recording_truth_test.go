package conformance

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// walkVariable makes TestEpisodeWalker the agent of an episode: it names the folder
// to which the walker writes all that it was given.
const walkVariable = "WALK_EPISODE"

// walkedMediaTypes are all forms that a client may ask for.
var walkedMediaTypes = []string{
	"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io",
	"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/cbor", "text/html",
}

// walkedPaths are routes that discovery doesn't tell, real ones and such as a leak might have.
var walkedPaths = []string{
	"", "/", "/api", "/apis", "/version", "/healthz", "/healthz?verbose", "/livez?verbose", "/readyz?verbose", "/readyz/ping", "/metrics", "/metrics/slis",
	"/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration", "/openid/v1/jwks", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/vars", "/debug/flags/v", "/logs", "/logs/",
	"/statusz", "/flagz", "/configz", "/swagger.json", "/ui", "/proxy", "/api/v1/componentstatuses", "/apis/kubecase.io", "/kubecase.io", "/kubecase.io/v1", "/kubecase.io/v1/answer",
	"/kubecase.io/v1/truth", "/truth.yaml", "/case.yaml", "/../truth.yaml", "/..%2ftruth.yaml", "/%2e%2e/truth.yaml", "/api/v1/..%2f..%2ftruth.yaml", "/audit.jsonl", "/bodies", "/episodes", "/admin",
	"/no/such/path", "/api/v1/nope", "/apis/nope.example.com/v1", "/api/v1/namespaces/shop/pods/nope", "/api/v1/namespaces/nope/pods", "/api/v1/pods?limit=x", "/api/v1/pods?fieldSelector=nope=1",
	"/api/v1/pods?labelSelector=((", "/api/v1/pods?resourceVersion=999999999999", "/api/v1/pods?continue=x", "/api/v1/pods?watch=1&timeoutSeconds=1", "/api/v1/namespaces/shop/pods?limit=1",
	"/api/v1/nodes/node-1/proxy/healthz", "/api/v1/nodes/node-1/proxy/logs/", "/api/v1/namespaces/shop/services/cart/proxy/", "/api/v1/namespaces/shop/pods/redis-0/proxy/", "/api/v1/namespaces/shop/pods/redis-0/exec?command=ls",
	"/api/v1/namespaces/shop/pods/redis-0/attach", "/api/v1/namespaces/shop/pods/redis-0/portforward", "/api/v1/namespaces/shop/pods/redis-0/log?container=../../../truth", "/api/v1/namespaces/shop/pods/..%2f..%2ftruth.yaml/log",
}

// TestEpisodeWalker is an agent, not a test: it writes down whatever an episode lets it
// see. TestTruthIsOutOfReach runs it.
func TestEpisodeWalker(t *testing.T) {
	folder := os.Getenv(walkVariable)
	if folder == "" {
		t.Skip("is run as an agent by TestTruthIsOutOfReach")
	}
	seen, err := os.CreateTemp(folder, "seen-")
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	write := func(format string, args ...any) {
		if _, err := fmt.Fprintf(seen, format+"\n", args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, walkVariable+"=") {
			write("environment %s", v)
		}
	}
	query, err := io.ReadAll(os.Stdin)
	write("stdin %s %v", query, err)
	here, err := os.Getwd()
	write("folder %s %v", here, err)
	write("arguments %q", os.Args[:1])
	for _, root := range []string{os.Getenv("HOME"), here} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			write("file %s %v", name, err)
			if err == nil && d.Type().IsRegular() {
				data, err := os.ReadFile(name)
				write("%s %v", data, err)
			}
			return nil
		})
		write("%v", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if data, err := os.ReadFile(config.CAFile); err == nil {
		pool.AppendCertsFromPEM(data)
	}
	pool.AppendCertsFromPEM(config.CAData)
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	asked := 0
	ask := func(method, url, accept, token, body string) []byte {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			write("%s: %v", url, err)
			return nil
		}
		req.Header.Set("Accept", accept)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			write("error %v", err)
			return nil
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		asked++
		write("%s %v %v\n%s %v", resp.Status, resp.Header, resp.Trailer, data, err)
		return data
	}
	get := func(path, accept string) []byte {
		return ask(http.MethodGet, config.Host+path, accept, config.BearerToken, "")
	}
	for _, path := range walkedPaths {
		get(path, "*/*")
	}
	get("/api/v1/pods?labelSelector=walker%3D"+filepath.Base(seen.Name()), "application/json")
	server, id, _ := strings.Cut(config.Host, "/e/")
	for _, url := range []string{server, server + "/", server + "/e", server + "/e/", server + "/e/" + strings.Repeat("0", len(id)), server + "/e/" + id + "x/api", server + "/e/../api", server + "/metrics", server + "/api/v1/namespaces"} {
		for _, token := range []string{"", "wrong", config.BearerToken} {
			ask(http.MethodGet, url, "*/*", token, "")
		}
	}
	get("/api/v1/namespaces", "application/json")
	ask(http.MethodGet, config.Host+"/api/v1/namespaces", "*/*", "", "")
	ask(http.MethodGet, config.Host+"/api/v1/namespaces", "*/*", "wrong", "")
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodTrace, http.MethodPost} {
		for _, path := range []string{"/kubecase.io/v1/answer", "/api/v1/namespaces/shop/pods/redis-0", "/api/v1/namespaces/shop/pods", "/truth.yaml"} {
			ask(method, config.Host+path, "*/*", config.BearerToken, "no answer")
		}
	}
	ask(http.MethodPost, config.Host+"/kubecase.io/v1/answer", "*/*", config.BearerToken, `{"component":"x","fault":"y"}`)
	// Other episodes, which earlier walkers tell of.
	others, err := filepath.Glob(filepath.Join(folder, "access-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		path, token, _ := strings.Cut(string(data), " ")
		// What comes back is kept; what was asked is not an answer.
		for _, with := range []string{token, config.BearerToken} {
			ask(http.MethodGet, server+"/e/"+path+"/api/v1/namespaces", "application/json", with, "")
		}
		ask(http.MethodGet, config.Host+"/api/v1/namespaces", "application/json", token, "")
		ask(http.MethodGet, server+"/api/v1/namespaces", "application/json", token, "")
	}
	if err := os.WriteFile(filepath.Join(folder, "access-"+id), []byte(id+" "+config.BearerToken), 0o600); err != nil {
		t.Fatal(err)
	}
	// All that discovery tells.
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(get("/openapi/v3", "application/json"), &index); err != nil {
		t.Fatal(err)
	}
	for path, p := range index.Paths {
		get("/openapi/v3/"+path, "application/json")
		get(p.ServerRelativeURL, "application/json")
	}
	groups := []string{"/api/v1"}
	var apis struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	if err := json.Unmarshal(get("/apis", "application/json"), &apis); err != nil {
		t.Fatal(err)
	}
	for _, g := range apis.Groups {
		for _, v := range g.Versions {
			groups = append(groups, "/apis/"+v.GroupVersion)
		}
	}
	resources := 0
	for _, group := range groups {
		var list struct {
			Resources []struct {
				Name       string
				Namespaced bool
			}
		}
		if err := json.Unmarshal(get(group, "application/json"), &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Resources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			resources++
			var items struct {
				Items []struct {
					Metadata struct{ Name, Namespace string }
				}
			}
			if err := json.Unmarshal(get(group+"/"+r.Name, "application/json"), &items); err != nil {
				continue // no list: a review
			}
			for i, o := range items.Items {
				path := group + "/" + r.Name + "/" + o.Metadata.Name
				if r.Namespaced {
					path = group + "/namespaces/" + o.Metadata.Namespace + "/" + r.Name + "/" + o.Metadata.Name
				}
				if r.Name == "pods" && group == "/api/v1" {
					get(path+"/log", "*/*")
					get(path+"/log?previous=true&timestamps=true", "*/*")
				}
				if i == 0 {
					get(path+"/status", "application/json")
					for _, accept := range walkedMediaTypes {
						get(path, accept)
					}
				}
			}
			for _, accept := range walkedMediaTypes[1:] {
				get(group+"/"+r.Name, accept)
			}
		}
	}
	if asked < 500 || resources < 50 {
		t.Errorf("the walk was short: %d requests, %d resources", asked, resources)
	}
}

// walk runs the walker on a case, attempts times in one run, and returns what each saw.
func walk(t *testing.T, dir string, attempts int) (seen [][]byte, access []string, run string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	run = filepath.Join(t.TempDir(), "operators-run")
	command := exec.CommandContext(t.Context(), kubecaseBinary(t), "run", dir, "--out", run, "--repeat", fmt.Sprint(attempts), "--env", walkVariable+"="+folder,
		"--", self, "-test.run", "^TestEpisodeWalker$", "-test.v")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubecase run: %v\n%s", err, out)
	}
	for prefix, into := range map[string]func([]byte){
		"seen-":   func(data []byte) { seen = append(seen, data) },
		"access-": func(data []byte) { access = append(access, strings.Fields(string(data))...) },
	} {
		names, err := filepath.Glob(filepath.Join(folder, prefix+"*"))
		if err != nil || len(names) != attempts {
			t.Fatalf("%d walkers wrote %d files %s*: %v", attempts, len(names), prefix, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			into(data)
		}
	}
	stdout, err := filepath.Glob(filepath.Join(run, "episodes", "*", "stdout.txt"))
	if err != nil || len(stdout) != attempts {
		t.Fatal(stdout, err)
	}
	for _, name := range stdout {
		if data, err := os.ReadFile(name); err != nil || !bytes.Contains(data, []byte("--- PASS: TestEpisodeWalker")) {
			t.Fatalf("the walker failed: %v\n%s", err, data)
		}
	}
	return seen, access, run
}

// truthToken is a run of what names and words are made of.
var truthToken = regexp.MustCompile(`[A-Za-z0-9._/-]{12,}`)

// leaks are the tokens that were seen, less those that an agent sees of the same case without a truth.
func leaks(seen, control []byte, tokens []string) (out []string) {
	for _, token := range tokens {
		if bytes.Contains(seen, []byte(token)) && !bytes.Contains(control, []byte(token)) {
			out = append(out, token)
		}
	}
	return out
}

// TestTruthIsOutOfReach: an agent of `kubecase run` that asks every route in every form, and
// reads its environment and files, sees no token of the truth that it wouldn't see without
// one, nothing of the case's name, title and place, and nothing of another agent.
func TestTruthIsOutOfReach(t *testing.T) {
	if testing.Short() {
		t.Skip("builds kubecase")
	}
	marker := strings.ToLower(rand.Text())
	planted := "planted-" + marker
	// place writes a copy of a shipped case to a folder of that name.
	place := func(name, title string, truth bool, change func(file string, data []byte) []byte) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "fixtures", "cases", kubeletCase))); err != nil {
			t.Fatal(err)
		}
		edit := func(file string, change func([]byte) []byte) {
			path := filepath.Join(dir, filepath.FromSlash(file))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		edit("case.yaml", func(data []byte) []byte {
			data = regexp.MustCompile(`(?m)^name: .*$`).ReplaceAll(data, []byte("name: "+name))
			return regexp.MustCompile(`(?m)^title: .*$`).ReplaceAll(data, []byte("title: "+title))
		})
		if truth {
			edit("truth.yaml", func(data []byte) []byte { return append(data, "# "+planted+"\n"...) })
		} else if err := os.Remove(filepath.Join(dir, "truth.yaml")); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			edit("objects/core_v1_configmaps.json", func(data []byte) []byte { return change("", data) })
		}
		return dir
	}
	name, title := "name-"+marker, "title-of-"+marker
	dir := place(name, title, true, nil)
	truth, err := os.ReadFile(filepath.Join(dir, "truth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tokens := truthToken.FindAllString(string(truth), -1)
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	control, _, _ := walk(t, place("control", "control", false, nil), 1)
	seen, access, run := walk(t, dir, 2)
	whole := bytes.Join(seen, nil)
	if found := leaks(whole, control[0], append(tokens, name, title, dir, run)); len(found) > 0 {
		t.Errorf("an agent sees %q", found)
	}
	for i, data := range seen {
		own := 0
		for _, secret := range access {
			if bytes.Contains(data, []byte(secret)) {
				own++
			}
		}
		if own != 2 {
			t.Errorf("agent %d sees %d of the episodes' ids and tokens; two are its own", i+1, own)
		}
	}
	if known := leaks(truth, control[0], tokens); len(known) < 10 || !slices.Contains(known, planted) {
		t.Errorf("only the tokens %q tell the truth from the case: the search shows little", known)
	}
	// The search finds what is served: the same marker, in a ConfigMap.
	leaky, _, _ := walk(t, place("leaky", "leaky", false, func(_ string, data []byte) []byte {
		changed := bytes.Replace(data, []byte(`"data"`), []byte(`"x`+planted+`":"","data"`), 1)
		if bytes.Equal(changed, data) {
			t.Fatal("no ConfigMap has data")
		}
		return changed
	}), 1)
	if found := leaks(leaky[0], control[0], tokens); len(found) != 1 || found[0] != planted {
		t.Errorf("of a case that serves the marker the search finds %q", found)
	}
	t.Logf("%d tokens, %d bytes seen by two agents, %d in the control", len(tokens), len(whole), len(control[0]))
}
