package source

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
)

func openCase(t testing.TB, files map[string]string) *fixtures.Case {
	t.Helper()
	documents := map[string]string{}
	for name, text := range files {
		documents["source/"+name] = text
	}
	return fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(time.Unix(0, 0))}}, documents)
}

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestBounds(t *testing.T) {
	files := map[string]string{"files/a": "1", "files/b": "2", "files/c": "3", "files/d": "4", "bytes/a": strings.Repeat("x", 1000), "folders/" + strings.Repeat("d/", 20) + "f": "", "fits/a": "1"}
	h := func(b bounds) http.Handler {
		s := New()
		s.bounds = b
		return s.Handler(openCase(t, files), clock.Clock{})
	}(bounds{files: 3, folders: 10, bytes: 900, kept: 1 << 20})
	for app, want := range map[string]int{"files": 507, "bytes": 507, "folders": 507, "fits": 200} {
		for range 2 {
			if code, text := get(h, "/"+app+".git/info/refs"); code != want || code == 507 && !strings.Contains(text, "is larger than a repository is made of") {
				t.Errorf("%s: %d %s", app, code, text)
			}
		}
		if code, _ := get(h, "/"+app+"/?recursive=true"); code != http.StatusOK {
			t.Errorf("the files of %s: %d", app, code)
		}
	}
}

// TestKept: the repositories in memory are those that were used last, and one that had to
// go comes back as it was.
func TestKept(t *testing.T) {
	files := map[string]string{}
	for _, app := range []string{"a", "b", "c"} {
		files[app+"/random"] = random(4000)
	}
	s := New()
	s.bounds.kept = 12_000 // two of them
	c := openCase(t, files)
	h := s.Handler(c, clock.Clock{})
	apps := s.appsOf(c)
	before := map[string]string{}
	for i, app := range strings.Fields("a b a c b a c") {
		code, text := get(h, "/"+app+".git/objects/info/packs")
		if code != http.StatusOK || before[app] != "" && before[app] != text {
			t.Fatalf("%s: %d %q, it was %q", app, code, text, before[app])
		}
		before[app] = text
		if n := len(s.kept); n != min(i+1, 2) || s.kept[n-1] != apps[app] {
			t.Errorf("after %d, %d are kept", i, n)
		}
		if i == 3 && apps["b"].repository != nil {
			t.Error("b is kept, which wasn't used after a")
		}
	}
}

// TestForgotten: what was made of a case goes with it.
func TestForgotten(t *testing.T) {
	s := New()
	func() {
		dir := fixturestest.Write(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(time.Unix(0, 0))}}, map[string]string{"source/a/f": "1"})
		c, err := fixtures.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if code, text := get(s.Handler(c, clock.Clock{}), "/a.git/info/refs"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	for range 100 {
		runtime.GC()
		s.mu.Lock()
		left := len(s.trees) + len(s.kept)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the case is gone, and its repository is kept")
}

func TestRefusedByGit(t *testing.T) {
	for name, want := range map[string]bool{
		".git": true, ".GiT": true, "a/.git/b": true, "git~1": true, "GIT~1": true, ".git.": true, ".git . .": true, ".git:x": true, ".gi\u200ct": true, "x\\.git": true,
		".git\\x": true, ".gitignore": false, ".gitmodules": false, "git": false, "a.git": false, "git~2": false, ".github/x": false, "..": true, "...": false, "new\nline": false,
		"tab\t.git": false, "C:": false, "a b": false, "日本": false, "con": false, "aux.txt": false,
	} {
		if got := refusedByGit(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return string(b)
}

// BenchmarkBuild makes the repository of 5,000 files of source text, in folders of 50.
func BenchmarkBuild(b *testing.B) {
	files := map[string]string{}
	total := int64(0)
	for i := range 5000 {
		text := fmt.Sprintf("package p%d\n\n", i) + strings.Repeat(fmt.Sprintf("func F%d() error { return errors.New(\"%x\") }\n", i, i*i), 60)
		files[fmt.Sprintf("app/dir%d/sub%d/file%d.go", i/1000, i/50, i)] = text
		total += int64(len(text))
	}
	benchmark(b, files, total)
}

// BenchmarkLargest makes the repository of a tree of the largest size: set KUBECASE_LARGEST
// to run it.
func BenchmarkLargest(b *testing.B) {
	if os.Getenv("KUBECASE_LARGEST") == "" {
		b.Skip("set KUBECASE_LARGEST to run it")
	}
	files := map[string]string{}
	for i := range 250 {
		files["app/"+strconv.Itoa(i)] = random(1 << 20)
	}
	benchmark(b, files, 250<<20)
}

func benchmark(b *testing.B, files map[string]string, total int64) {
	s := New()
	c := openCase(b, files)
	a := &api{shim: s, fixture: c, apps: s.appsOf(c)}
	b.SetBytes(total)
	b.ReportAllocs()
	for b.Loop() {
		r, err := a.build(a.apps["app"])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.size()), "kept-B")
	}
}
