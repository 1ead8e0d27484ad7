package source_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/source"
)

var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

// cart is a tree with what trees have.
var cart = map[string]string{
	"main.go":                "package main // <script>alert(1)</script>\n",
	"run.sh":                 "#!/bin/sh\necho 2026-12-01T00:18:24Z\n",
	"logo.png":               "\x89PNG\r\n\x1a\n\x00\x01",
	"empty":                  "",
	"again":                  "",
	"latin1.txt":             "caf\xe9\n",
	"src/a/b/c/deep.go":      "package c\n",
	"src/a.go":               "package src\n",
	"src/a-b.go":             "package src // sorts between a.go and a/\n",
	"src/wörter/日本 語.txt":    "ü\n",
	"with space/a+b %2F.txt": "%\n",
	"a.git":                  "not a repository\n",
	"b.git/HEAD":             "no repository either\n",
	"info/other":             "x\n",
	"index.html":             "<script>alert(1)</script>\n",
	"new\nline/\"x\".txt":    "odd\n",
	`"quoted"`:               "odd\n",
	"a:b;c,d?e=f&g#h":        "odd\n",
	".gitignore":             "*.o\n",
	"data.gz":                "not gzip",
	"x.json":                 "{ // no JSON\n}",
	"back\\slash":            "\n",
}

// hidden are files that git refuses.
var hidden = map[string]string{
	".git/HEAD": "ref: refs/heads/secret\n", ".git/config": "[core]\n", "sub/.GIT/x": "x", "git~1": "x",
	".git /x": "x", ".g\u200cit/x": "x", "a\\.git": "x",
}

var manifest = &fixtures.Manifest{Name: "a-case-of-something", Capture: fixtures.Capture{Time: metav1.NewTime(captured)},
	Coverage: fixtures.Coverage{Besides: []fixtures.BesidesCoverage{
		{What: "source/lost", Reason: "the folder can't be read"}, {What: "source/part", Reason: "a source tree is larger\nthan a case holds"},
		{What: "source/vendored/vendor", Reason: "nobody wanted it"},
	}}}

func newCase(t testing.TB) *fixtures.Case {
	t.Helper()
	documents := map[string]string{"source/README": "of no app", "version.json": "{}\n",
		"source/x.git/HEAD": "a file\n", "source/x.git/objects/info/packs": "a file\n",
		"source/both/f": "1\n", "source/both.git/f": "2\n",
		"source/part/f": "1\n", "source/vendored/f": "1\n", "source/a b?%/f": "1\n", "source/only/.git/HEAD": "x\n"}
	for name, text := range cart {
		documents["source/cart/"+name] = text
	}
	for name, text := range hidden {
		documents["source/odd/"+name] = text
	}
	documents["source/odd/kept"] = "x\n"
	return fixturestest.Case(t, manifest, documents)
}

func handler(t testing.TB, c *fixtures.Case) http.Handler {
	return source.New().Handler(c, clock.New(clock.Shifted, captured, captured.Add(1000*time.Hour)))
}

// mounted is a server of a case's source at a path, for those with a token, as an episode has it.
func mounted(t testing.TB, h http.Handler) string {
	t.Helper()
	const at = "/e/4f3a/source"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password != "TOKEN" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		http.StripPrefix(at, h).ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://agent:TOKEN@", 1) + at
}

type reply struct {
	*http.Response
	body string
}

func ask(t testing.TB, method, url string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp, string(body)}
}

// git runs git without the configuration of who runs the test.
func git(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "protocol.version=2"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=source", "GIT_AUTHOR_EMAIL=source@localhost", "GIT_AUTHOR_DATE=@0 +0000",
		"GIT_COMMITTER_NAME=source", "GIT_COMMITTER_EMAIL=source@localhost", "GIT_COMMITTER_DATE=@0 +0000")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func needGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git isn't installed: install git to run this")
	}
}

func mustGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// withoutWarning is git's output without what it says when it is led elsewhere.
func withoutWarning(out string) string {
	if first, rest, ok := strings.Cut(out, "\n"); ok && strings.HasPrefix(first, "warning: redirecting to ") {
		return rest
	}
	return out
}

func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		data, err := os.ReadFile(name)
		rest, _ := filepath.Rel(dir, name)
		out[filepath.ToSlash(rest)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestClone clones with the real git, which also computes the commit anew.
func TestClone(t *testing.T) {
	needGit(t)
	base := mounted(t, handler(t, newCase(t)))
	for _, test := range []struct {
		repository, message string
		tree                map[string]string
	}{
		{"cart.git", "source as captured\n", cart},
		{"cart", "source as captured\n", cart}, // led to cart.git
		{"odd.git", "source as captured\n\nWithout 7 captured files whose names git refuses.\n", map[string]string{"kept": "x\n"}},
		{"only.git", "source as captured\n\nWithout 1 captured files whose names git refuses.\n", map[string]string{}},
		{"part.git", "source as captured\n\nNot captured whole: a source tree is larger than a case holds\n", map[string]string{"f": "1\n"}},
		{"vendored.git", "source as captured\n\nNot captured whole: nobody wanted it\n", map[string]string{"f": "1\n"}},
		{"x.git.git", "source as captured\n", map[string]string{"HEAD": "a file\n", "objects/info/packs": "a file\n"}},
		{"x.git", "source as captured\n", map[string]string{"HEAD": "a file\n", "objects/info/packs": "a file\n"}},
		{"both.git", "source as captured\n", map[string]string{"f": "2\n"}},
		{"a%20b%3F%25.git", "source as captured\n", map[string]string{"f": "1\n"}},
	} {
		t.Run(test.repository, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "clone")
			mustGit(t, ".", "clone", "--quiet", base+"/"+test.repository, dir)
			if out := mustGit(t, dir, "fsck", "--strict", "--full"); out != "" && !strings.HasPrefix(out, "notice: HEAD") {
				t.Errorf("fsck: %s", out)
			}
			if diff := cmp.Diff(test.tree, readTree(t, dir)); diff != "" {
				t.Errorf("the clone (-want +got):\n%s", diff)
			}
			if out := mustGit(t, dir, "status", "--short", "--branch"); out != "## main...origin/main\n" {
				t.Errorf("status: %s", out)
			}
			if got := mustGit(t, dir, "log", "--format=%an <%ae> %ad|%cn <%ce> %cd%n%B"); got != "source <source@localhost> Thu Jan 1 00:00:00 1970 +0000|source <source@localhost> Thu Jan 1 00:00:00 1970 +0000\n"+test.message+"\n" {
				t.Errorf("log: %s", got)
			}
			for line := range strings.Lines(mustGit(t, dir, "ls-tree", "-r", "HEAD")) {
				if !strings.HasPrefix(line, "100644 blob ") {
					t.Errorf("ls-tree: %s", line)
				}
			}

			// The same files, committed by git.
			again := t.TempDir()
			mustGit(t, again, "init", "--quiet")
			for name, text := range test.tree {
				file := filepath.Join(again, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			mustGit(t, again, "add", "--all", "--force")
			tree := strings.TrimSpace(mustGit(t, again, "write-tree"))
			want := mustGit(t, again, "commit-tree", "-m", strings.TrimSuffix(test.message, "\n"), tree)
			if got := mustGit(t, dir, "rev-parse", "HEAD"); got != want {
				t.Errorf("the commit is %s, git's is %s", got, want)
			}

			if out := withoutWarning(mustGit(t, dir, "fetch")); out != "" {
				t.Errorf("fetch: %s", out)
			}
			remote := withoutWarning(mustGit(t, ".", "ls-remote", base+"/"+test.repository))
			if commit := strings.TrimSpace(want); remote != commit+"\tHEAD\n"+commit+"\trefs/heads/main\n" {
				t.Errorf("ls-remote: %s", remote)
			}
		})
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"clone", "--depth", "1", base + "/cart.git", "x"}, "dumb http transport does not support shallow capabilities"},
		{[]string{"clone", base + "/lost.git", "x"}, `remote: not captured: the source of "lost" was not captured: the folder can't be read`},
		{[]string{"clone", base + "/nowhere", "x"}, "The requested URL returned error: 501"},
		{[]string{"clone", base + "/both", "x"}, "not found"},
	} {
		if out, err := git(t, t.TempDir(), test.args...); err == nil || !strings.Contains(out, test.want) {
			t.Errorf("git %v: %v\n%s", test.args, err, out)
		}
	}
	dir := filepath.Join(t.TempDir(), "pushed")
	mustGit(t, ".", "clone", "--quiet", base+"/cart.git", dir)
	mustGit(t, dir, "commit", "--allow-empty", "--quiet", "-m", "x")
	if out, err := git(t, dir, "push"); err == nil || !strings.Contains(out, "remote: the captured source is read-only") {
		t.Errorf("push: %v\n%s", err, out)
	}
}

// TestSame: every episode has the same repository, byte for byte.
func TestSame(t *testing.T) {
	c := newCase(t)
	packs := func(k clock.Clock) (out string) {
		h := source.New().Handler(c, k)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/cart.git/objects/info/packs", nil))
		out = w.Body.String()
		pack := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(out), "P "), ".pack")
		for _, file := range []string{"info/refs", "objects/pack/" + pack + ".pack", "objects/pack/" + pack + ".idx"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/cart.git/"+file, nil))
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", file, w.Code, w.Body)
			}
			out += w.Body.String()
		}
		return out
	}
	if packs(clock.New(clock.Captured, captured, captured)) != packs(clock.New(clock.Shifted, captured, captured.Add(time.Hour))) {
		t.Error("two handlers give different repositories")
	}
}

func TestConcurrentClones(t *testing.T) {
	needGit(t)
	c := newCase(t)
	shim := source.New()
	var wg sync.WaitGroup
	for i := range 6 {
		base := mounted(t, shim.Handler(c, clock.New(clock.Captured, captured, captured)))
		wg.Go(func() {
			dir := filepath.Join(t.TempDir(), "clone")
			if out, err := git(t, ".", "clone", "--quiet", base+"/"+[]string{"cart.git", "odd.git"}[i%2], dir); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			ask(t, http.MethodGet, base+"/cart/src/?format=json")
		})
	}
	wg.Wait()
}

func TestListings(t *testing.T) {
	base := mounted(t, handler(t, newCase(t)))
	text := func(url string, headers ...string) string {
		r := ask(t, http.MethodGet, url, headers...)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", url, r.StatusCode, r.body)
		}
		return r.body
	}
	for path, want := range map[string]string{
		"":                            "a b?%/\nboth/\nboth.git/\ncart/\nodd/\nonly/\npart/\nvendored/\nx.git/\n",
		"/":                           "a b?%/\nboth/\nboth.git/\ncart/\nodd/\nonly/\npart/\nvendored/\nx.git/\n",
		"/cart/src/":                  "a-b.go\na.go\na/\nwörter/\n",
		"/cart/src":                   "a-b.go\na.go\na/\nwörter/\n", // by a redirect
		"/cart/src?recursive=true":    "a-b.go\na.go\na/b/c/deep.go\nwörter/日本 語.txt\n",
		"/cart/new%0aline/":           "\"\\\"x\\\".txt\"\n",
		"/a%20b%3F%25":                "f\n",
		"/part/":                      "f\n# not captured whole: a source tree is larger than a case holds\n",
		"/vendored/":                  "f\n# not captured whole: nobody wanted it\n",
		"/odd/.git/":                  "HEAD\nconfig\n",
		"/x.git/?recursive=1":         "HEAD\nobjects/info/packs\n",
		"/cart/with%20space/?format=": "a+b %2F.txt\n",
	} {
		if got := text(base + path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	var names []string
	for line := range strings.Lines(text(base + "/cart/?recursive=true")) {
		names = append(names, strings.TrimSuffix(line, "\n"))
	}
	want := slices.Sorted(maps.Keys(cart))
	for i, name := range want {
		if strings.ContainsAny(name, "\n\"") && name != "src" {
			want[i] = fmt.Sprintf("%q", name)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("all files (-want +got):\n%s", diff)
	}
	for _, r := range []string{text(base+"/cart/src/", "Accept: application/json, */*;q=0.5"), text(base + "/cart/src/?format=json")} {
		if want := `{"app":"cart","path":"src/","entries":[{"name":"a-b.go","path":"src/a-b.go","type":"file","size":41},{"name":"a.go","path":"src/a.go","type":"file","size":12},` +
			`{"name":"a","path":"src/a","type":"dir"},{"name":"wörter","path":"src/wörter","type":"dir"}]}` + "\n"; r != want {
			t.Errorf("%s, want %s", r, want)
		}
	}
	var apps struct {
		Entries []struct{ Name, Repository string }
	}
	if err := json.Unmarshal([]byte(text(base+"/?format=json")), &apps); err != nil {
		t.Fatal(err)
	}
	for _, e := range apps.Entries {
		if want := e.Name + ".git"; e.Repository != want && e.Name != "both" || e.Name == "both" && e.Repository != "" {
			t.Errorf("%s has the repository %q", e.Name, e.Repository)
		}
	}
	for path, code := range map[string]int{"/?recursive=true": 400, "/cart/?recursive=perhaps": 400, "/cart/?format=xml": 400} {
		if r := ask(t, http.MethodGet, base+path); r.StatusCode != code {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// TestBrowser follows every link of every page, and finds every file.
func TestBrowser(t *testing.T) {
	base := mounted(t, handler(t, newCase(t)))
	for _, start := range []string{base + "/cart/", base, base + "/"} {
		seen := map[string]string{}
		var visit func(url, path string)
		visit = func(url, path string) {
			r := ask(t, http.MethodGet, url, "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
			if r.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d %s", url, r.StatusCode, r.body)
			}
			if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", url, r.Header)
			}
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
				seen[path] = r.body
				return
			}
			if strings.Contains(r.body, "<script") {
				t.Errorf("%s: %s", url, r.body)
			}
			delivery, err := source.Delivered(http.MethodGet, "/cart/", r.Header.Get("Content-Type"), r.StatusCode, []byte(r.body))
			if err != nil {
				t.Fatal(err)
			}
			entries := map[string]bool{}
			for _, name := range delivery.Listed {
				entries[name] = true
			}
			links := 0
			for line := range strings.Lines(r.body) {
				_, rest, isLink := strings.Cut(line, `<li><a href="`)
				if !isLink {
					continue
				}
				links++
				href, _, _ := strings.Cut(rest, `"`)
				to, err := r.Request.URL.Parse(html.UnescapeString(href))
				if err != nil {
					t.Fatal(err)
				}
				name := strings.TrimPrefix(to.Path, r.Request.URL.Path)
				if r.Request.URL.Path == "/e/4f3a/source" {
					name = strings.TrimPrefix(name, "/")
				}
				if !entries[name] {
					t.Errorf("%s links to %q, and lists %q", url, name, delivery.Listed)
				}
				visit(to.String(), path+name)
			}
			if links == 0 {
				t.Errorf("%s has no links: %s", url, r.body)
			}
		}
		visit(start, "")
		want := map[string]string{}
		prefix := ""
		if start != base+"/cart/" {
			prefix = "cart/"
			for name := range seen {
				if !strings.HasPrefix(name, "cart/") {
					delete(seen, name)
				}
			}
		}
		for name, text := range cart {
			want[prefix+name] = text
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("from %s (-want +got):\n%s", start, diff)
		}
	}
}

func TestFiles(t *testing.T) {
	base := mounted(t, handler(t, newCase(t)))
	for file, contentType := range map[string]string{
		"main.go": "text/plain; charset=utf-8", "index.html": "text/plain; charset=utf-8", "x.json": "text/plain; charset=utf-8", "empty": "text/plain; charset=utf-8",
		"logo.png": "application/octet-stream", "latin1.txt": "application/octet-stream", "a.git": "text/plain; charset=utf-8",
	} {
		r := ask(t, http.MethodGet, base+"/cart/"+file, "Accept: text/html")
		tag := r.Header.Get("ETag")
		if r.StatusCode != 200 || r.body != cart[file] || r.Header.Get("Content-Type") != contentType || r.Header.Get("X-Content-Type-Options") != "nosniff" ||
			r.Header.Get("Content-Security-Policy") == "" || r.Header.Get("Last-Modified") != "" || tag == "" {
			t.Errorf("%s: %d %q %v", file, r.StatusCode, r.body, r.Header)
		}
		if h := ask(t, http.MethodHead, base+"/cart/"+file); h.StatusCode != 200 || h.ContentLength != int64(len(cart[file])) || h.body != "" || h.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d %v", file, h.StatusCode, h.Header)
		}
		if n := ask(t, http.MethodGet, base+"/cart/"+file, "If-None-Match: "+tag); n.StatusCode != 304 || n.body != "" {
			t.Errorf("%s again: %d %q", file, n.StatusCode, n.body)
		}
	}
	for _, test := range []struct {
		value, body string
		code        int
	}{
		{"bytes=0-6", "package", 206}, {"bytes=-2", "\n", 206}, {"bytes=99999-", "", 416}, {"bytes=0-1,3-4", cart["main.go"], 200}, {"lines=1", "", 416},
	} {
		r := ask(t, http.MethodGet, base+"/cart/main.go", "Range: "+test.value)
		if r.StatusCode != test.code || !strings.HasSuffix(r.body, test.body) && test.code < 400 {
			t.Errorf("%s: %d %q", test.value, r.StatusCode, r.body)
		}
	}
	if h := ask(t, http.MethodHead, base+"/cart/"); h.StatusCode != 200 || h.body != "" || h.ContentLength <= 0 {
		t.Errorf("HEAD of a folder: %d %v", h.StatusCode, h.Header)
	}
}

func TestRefused(t *testing.T) {
	c := newCase(t)
	base := mounted(t, handler(t, c))
	for _, test := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/nowhere", 501, "not captured: the source of \"nowhere\" was not captured\n"},
		{"GET", "/lost/main.go", 501, "not captured: the source of \"lost\" was not captured: the folder can't be read\n"},
		{"GET", "/lost.git/info/refs", 501, "not captured: the source of \"lost\" was not captured: the folder can't be read\n"},
		{"GET", "/README", 501, "not captured: the source of \"README\" was not captured\n"},
		{"GET", "/cart/nothing.go", 404, "the source of \"cart\" has no \"nothing.go\"\n"},
		{"GET", "/cart/nothing/", 404, "the source of \"cart\" has no \"nothing\"\n"},
		{"GET", "/cart/main.go/", 404, "the source of \"cart\" has no \"main.go\"\n"},
		{"GET", "/cart//main.go", 404, "the source of \"cart\" has no \"/main.go\"\n"},
		{"GET", "/part/g", 501, "not captured: \"g\" of the source of \"part\" was not captured: a source tree is larger\nthan a case holds\n"},
		{"GET", "/vendored/vendor/x/y.go", 501, "not captured: \"vendor/x/y.go\" of the source of \"vendored\" was not captured: nobody wanted it\n"},
		{"GET", "/vendored/vendors", 404, "the source of \"vendored\" has no \"vendors\"\n"},
		{"GET", "/cart.git", 404, "the repository of the source of \"cart\" has no \"\"\n"},
		{"GET", "/cart.git/config", 404, "the repository of the source of \"cart\" has no \"config\"\n"},
		{"GET", "/cart.git/objects/info/alternates", 404, "the repository of the source of \"cart\" has no \"objects/info/alternates\"\n"},
		{"GET", "/cart.git/objects/pack/pack-0000.pack", 404, "the repository of the source of \"cart\" has no \"objects/pack/pack-0000.pack\"\n"},
		{"GET", "/cart.git/info/refs?service=git-receive-pack", 403, "the captured source is read-only: nothing can be pushed to it or changed in it\n"},
		{"POST", "/cart.git/git-upload-pack", 403, "the captured source is read-only: nothing can be pushed to it or changed in it\n"},
		{"POST", "/cart.git/git-receive-pack", 403, "the captured source is read-only: nothing can be pushed to it or changed in it\n"},
		{"PUT", "/cart/main.go", 403, "the captured source is read-only: nothing can be pushed to it or changed in it\n"},
		{"DELETE", "/", 403, "the captured source is read-only: nothing can be pushed to it or changed in it\n"},
		{"PROPFIND", "/cart/", 405, "the captured source can only be read, with GET or HEAD\n"},
		{"GET", "/cart/" + strings.Repeat("a/", 4096), 404, "no path in a source tree is that long\n"},
	} {
		r := ask(t, test.method, base+test.path)
		if r.StatusCode != test.code || r.body != test.want || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s %s: %d %q %v", test.method, test.path, r.StatusCode, r.body, r.Header)
		}
		if r.StatusCode == 405 && r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("405 allows %q", r.Header.Get("Allow"))
		}
	}
	for _, path := range []string{"/", "/cart/", "/cart.git/info/refs"} {
		r := ask(t, http.MethodGet, mounted(t, handler(t, fixturestest.Case(t, manifest, nil)))+path)
		if r.StatusCode != 501 || !strings.HasPrefix(r.body, "not captured: the source of ") {
			t.Errorf("without any source, %s: %d %q", path, r.StatusCode, r.body)
		}
	}
}

// TestHostilePaths sends paths that no client of ours would, byte for byte.
func TestHostilePaths(t *testing.T) {
	server := httptest.NewServer(http.StripPrefix("/source", handler(t, newCase(t))))
	t.Cleanup(server.Close)
	for _, path := range []string{
		"/cart/../../version.json", "/cart/..%2f..%2fversion.json", "/..%2fversion.json", "/%2e%2e/version.json", "/../version.json", "/cart/%2e%2e/README",
		"/cart/../README", "/./cart/main.go", "/cart/./main.go", "//cart/main.go", "/cart/..\\..\\version.json", "/cart%5c..%5cversion.json", "/cart/main.go%00.txt",
		"/%00", "/cart%00/", "//etc/passwd", "/cart//etc/passwd", "/cart/%2fetc%2fpasswd", "/%2e%2e%2f%2e%2e%2fcase.yaml", "/cart.git/../../case.yaml",
		"/cart.git/objects/pack/../../../README", "/cart/%ff%fe", "/" + strings.Repeat("%2e%2e%2f", 400) + "etc/passwd", "/cart/" + strings.Repeat("x", 100_000),
		"/cart/src%2f..%2fmain.go", "/.git/HEAD", "/..git/HEAD", "/.git", "/%2e%2e.git/info/refs", "/README/", "/README.git/HEAD", "/a%20b%3F%25/../f",
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET /source%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = conn.Close()
		if resp.StatusCode != 404 && resp.StatusCode != 501 && resp.StatusCode != 400 {
			t.Errorf("%.100s: %d %q", path, resp.StatusCode, body)
		}
	}
	// An encoded slash is a slash.
	if r := ask(t, http.MethodGet, server.URL+"/source/cart%2fsrc%2Fa.go"); r.body != cart["src/a.go"] {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

// FuzzPath: whatever is asked, the answer is a part of a source tree or says why not.
func FuzzPath(f *testing.F) {
	c := newCase(f)
	h := handler(f, c)
	var all [][]byte
	for _, name := range c.DocumentNames() {
		if strings.HasPrefix(name, "source/") && name != "source/README" {
			data, err := c.Document(name)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, data)
		}
	}
	for _, path := range []string{"/", "", "/cart/src/", "/cart/main.go", "/cart.git/info/refs", "/cart/../README", "/x.git/HEAD", "/cart/info/refs?service=git-upload-pack"} {
		f.Add("GET", path, "recursive=true&format=json", "text/html", "bytes=1-2")
	}
	f.Fuzz(func(t *testing.T, method, path, query, accept, ranges string) {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Method, req.URL.Path, req.URL.RawQuery = method, path, query
		req.Header.Set("Accept", accept)
		req.Header.Set("Range", ranges)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		contentType := w.Header().Get("Content-Type")
		if w.Code < 400 && bytes.Contains(w.Body.Bytes(), []byte("of no app")) {
			t.Errorf("%q gave what is beside the apps", path)
		}
		if w.Code == http.StatusOK && method == http.MethodGet && !strings.HasSuffix(path, "/") && strings.Contains(strings.TrimPrefix(path, "/"), "/") &&
			contentType != "text/plain" && !strings.HasPrefix(contentType, "application/x-git-") &&
			!slices.ContainsFunc(all, func(data []byte) bool { return bytes.Equal(data, w.Body.Bytes()) }) {
			t.Errorf("%q gave %q, which is no file", path, w.Body)
		}
		target := req.URL.RequestURI()
		if _, err := url.ParseRequestURI(target); err != nil {
			return // no client sends it, no server takes it
		}
		if _, err := source.Delivered(method, target, contentType, w.Code, w.Body.Bytes()); err != nil && w.Code != http.StatusPartialContent {
			t.Errorf("%s: %v", target, err)
		}
	})
}

func TestDelivered(t *testing.T) {
	base := mounted(t, handler(t, newCase(t)))
	ask := func(path string, headers ...string) (source.Delivery, error) {
		r := ask(t, http.MethodGet, base+path, headers...)
		if r.Request.Response != nil {
			t.Fatalf("%s: redirected", path)
		}
		return source.Delivered(http.MethodGet, path, r.Header.Get("Content-Type"), r.StatusCode, []byte(r.body))
	}
	file := func(path, text string) []source.File { return []source.File{{Path: path, Data: []byte(text)}} }
	src := []string{"src/a-b.go", "src/a.go", "src/a/", "src/wörter/"}
	all := slices.Sorted(maps.Keys(cart))
	var whole []source.File
	for _, name := range all {
		whole = append(whole, source.File{Path: name, Data: []byte(cart[name])})
	}
	packs := func(app string) string {
		r := mustAsk(t, base+"/"+app+".git/objects/info/packs")
		return "/" + app + ".git/objects/pack/" + strings.TrimPrefix(strings.TrimSpace(r), "P ")
	}
	pack := packs("cart")
	for _, test := range []struct {
		path, header string
		want         source.Delivery
	}{
		{"/", "", source.Delivery{}},
		{"/?format=json", "", source.Delivery{}},
		{"/nowhere/", "", source.Delivery{}},
		{"/cart/nothing", "", source.Delivery{}},
		{"/cart/src/", "", source.Delivery{App: "cart", Listed: src}},
		{"/cart/src/?format=json", "", source.Delivery{App: "cart", Listed: src}},
		{"/cart/src/", "Accept: text/html", source.Delivery{App: "cart", Listed: src}},
		{"/cart/?recursive=true", "", source.Delivery{App: "cart", Listed: all}},
		{"/cart/?recursive=true&format=json", "", source.Delivery{App: "cart", Listed: all}},
		{"/cart/?recursive=true", "Accept: text/html", source.Delivery{App: "cart", Listed: all}},
		{"/part/", "", source.Delivery{App: "part", Listed: []string{"f"}}},
		{"/part/", "Accept: text/html", source.Delivery{App: "part", Listed: []string{"f"}}},
		{"/cart/with%20space/a+b%20%252F.txt", "", source.Delivery{App: "cart", Files: file("with space/a+b %2F.txt", "%\n")}},
		{"/cart/empty", "", source.Delivery{App: "cart", Files: file("empty", "")}},
		{"/cart/index.html", "Accept: text/html", source.Delivery{App: "cart", Files: file("index.html", cart["index.html"])}},
		{"/cart/main.go", "Range: bytes=0-6", source.Delivery{App: "cart", Files: []source.File{{Path: "main.go", Data: []byte("package"), Part: true}}}},
		{"/x.git/HEAD", "", source.Delivery{App: "x.git", Files: file("HEAD", "a file\n")}},
		{"/cart.git/HEAD", "", source.Delivery{}},
		{"/cart.git/info/refs?service=git-upload-pack", "", source.Delivery{}},
		{"/cart.git/objects/info/packs", "", source.Delivery{}},
		{strings.TrimSuffix(pack, ".pack") + ".idx", "", source.Delivery{}},
		{pack, "", source.Delivery{App: "cart", Listed: all, Files: whole}},
		{pack, "Range: bytes=20-", source.Delivery{}},
		{packs("only"), "", source.Delivery{App: "only", Listed: []string{}}},
		{packs("x.git"), "", source.Delivery{App: "x.git", Listed: []string{"HEAD", "objects/info/packs"},
			Files: []source.File{{Path: "HEAD", Data: []byte("a file\n")}, {Path: "objects/info/packs", Data: []byte("a file\n")}}}},
	} {
		var headers []string
		if test.header != "" {
			headers = []string{test.header}
		}
		got, err := ask(test.path, headers...)
		for i := range got.Files {
			if got.Files[i].Data == nil {
				got.Files[i].Data = []byte{}
			}
		}
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s (%s): %v (-want +got):\n%s", test.path, test.header, err, diff)
		}
	}
	body := []byte(mustAsk(t, base+pack))
	if d, err := source.Delivered(http.MethodHead, pack, "application/x-git-packed-objects", 200, nil); err != nil || d.App != "" {
		t.Errorf("HEAD: %v %v", d, err)
	}
	// Of a pack that was cut off, what there is of it.
	d, err := source.Delivered(http.MethodGet, pack, "application/x-git-packed-objects", 200, body[:len(body)*3/4])
	if err == nil || !slices.Equal(d.Listed, all) || len(d.Files) == 0 || len(d.Files) >= len(cart) {
		t.Errorf("three quarters of a pack: %v, %d files, %q", err, len(d.Files), d.Listed)
	}
	for _, f := range d.Files {
		if cart[f.Path] != string(f.Data) {
			t.Errorf("%s: %q", f.Path, f.Data)
		}
	}
}

func mustAsk(t testing.TB, url string) string {
	t.Helper()
	r := ask(t, http.MethodGet, url)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", url, r.StatusCode, r.body)
	}
	return r.body
}

// FuzzDelivered: whatever a record holds, it is read or refused.
func FuzzDelivered(f *testing.F) {
	h := handler(f, newCase(f))
	get := func(path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	for _, app := range []string{"cart", "only"} {
		pack := "/" + app + ".git/objects/pack/" + strings.TrimPrefix(strings.TrimSpace(get("/"+app+".git/objects/info/packs")), "P ")
		f.Add(pack, "application/x-git-packed-objects", []byte(get(pack)))
	}
	f.Add("/cart/?format=json", "application/json", []byte(get("/cart/?format=json")))
	f.Add("/cart/?format=html", "text/html", []byte(get("/cart/?format=html")))
	f.Fuzz(func(t *testing.T, target, contentType string, body []byte) {
		d, err := source.Delivered(http.MethodGet, target, contentType, 200, body)
		if err == nil && d.App == "" && (d.Listed != nil || d.Files != nil) && !strings.HasPrefix(target, "//") && !strings.HasPrefix(target, "/.git/") && target != "" && target[0] == '/' {
			t.Errorf("%q: something of no app: %v", target, d)
		}
	})
}
