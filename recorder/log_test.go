package recorder_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/recorder"
)

func TestTornEndIsCutOffAndKept(t *testing.T) {
	for _, torn := range []string{`{"kind":"Ev`, "garbage\n", "\x00\x00\n{}\nhalf"} {
		l, _ := newLog(t, nil)
		s := serve(t, l, func(w http.ResponseWriter, r *http.Request) {})
		get(t, s.URL+"/one")
		_ = l.Close()
		path := filepath.Join(l.Dir(), recorder.AuditFile)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, torn)
		_ = f.Close()
		bodies, err := recorder.OpenBodies(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		again, err := recorder.Open(l.Dir(), recorder.Options{Bodies: bodies})
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Repaired(); got.Torn != len(torn) || len(got.Interrupted) != 0 {
			t.Errorf("%q: repaired %+v, want %d bytes", torn, got, len(torn))
		}
		if kept, err := os.ReadFile(filepath.Join(l.Dir(), recorder.TornFile)); err != nil || string(kept) != torn {
			t.Errorf("kept aside: %q, %v, want %q", kept, err, torn)
		}
		s = serve(t, again, func(w http.ResponseWriter, r *http.Request) {})
		get(t, s.URL+"/two")
		var uris []string
		for _, r := range recorded(t, again) {
			uris = append(uris, r.RequestURI)
		}
		if diff := cmp.Diff([]string{"/one", "/two"}, uris); diff != "" {
			t.Errorf("%q: after the repair (-want +got):\n%s", torn, diff)
		}
		_ = again.Close()
	}
}

// childVariable makes the test's binary serve a record instead of testing.
const childVariable = "RECORDER_TEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		serveChild(dir)
		return
	}
	os.Exit(m.Run())
}

// serveChild answers /n/<bytes>/<name> with that many bytes of its own, in pieces or as a stream.
func serveChild(dir string) {
	bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
	if err != nil {
		panic(err)
	}
	l, err := recorder.Open(filepath.Join(dir, "episode"), recorder.Options{Bodies: bodies})
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := childBody(r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "length") {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		for len(body) > 0 {
			n := min(len(body), 3000)
			_, _ = io.WriteString(w, body[:n])
			if strings.HasSuffix(r.URL.Path, "stream") {
				w.(http.Flusher).Flush()
			}
			body = body[n:]
		}
	}), recorder.Source{Name: "child"})}
	listener, err := newListener()
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(server.Serve(listener))
}

func childBody(path string) string {
	var n int
	_, _ = fmt.Sscanf(path, "/n/%d/", &n)
	return strings.Repeat(path+"\n", n/len(path)+1)
}

// TestKill kills a recording server at random moments under load, and looks for
// every response that a client got whole: it must be on record with its body, before
// the repair and after.
func TestKill(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range rounds {
		for path := range loadAndKill(t, dir, round) {
			acknowledged[path] = true
		}
		checkAcknowledged(t, dir, acknowledged)
	}
	if len(acknowledged) < 20*rounds {
		t.Errorf("only %d responses were acknowledged: the test tests little", len(acknowledged))
	}
	bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := recorder.Open(filepath.Join(dir, "episode"), recorder.Options{Bodies: bodies})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, r := range recorded(t, l) {
		if r.Open {
			t.Errorf("%s: open after the repair", r.RequestURI)
		}
	}
	checkAcknowledged(t, dir, acknowledged)
}

func loadAndKill(t *testing.T, dir string, round int) map[string]bool {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	var mu sync.Mutex
	got := map[string]bool{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	enough := make(chan struct{})
	wanted := 30 + rand.IntN(200)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				kind := []string{"length", "chunks", "stream"}[i%3]
				path := fmt.Sprintf("/n/%d/%d-%d-%d-%s", []int{10, 500, 20_000, 200_000}[i%4], round, worker, i, kind)
				resp, err := client.Get("http://" + address + path)
				if err != nil {
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil {
					return
				}
				if string(body) != childBody(path) {
					t.Errorf("%s: got %d other bytes", path, len(body))
				}
				mu.Lock()
				got[path] = true
				if len(got) == wanted {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(30 * time.Second):
		t.Error("the load doesn't get on")
	}
	_ = child.Process.Kill() // SIGKILL, while the workers go on
	group.Wait()
	_ = child.Wait()
	return got
}

func checkAcknowledged(t *testing.T, dir string, acknowledged map[string]bool) {
	t.Helper()
	bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
	if err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(dir, "episode")
	requests, err := recorder.Requests(record)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, r := range requests {
		if !acknowledged[r.RequestURI] {
			continue
		}
		body, err := r.Body(record, bodies)
		if err != nil {
			t.Fatal(err)
		}
		if string(body) != childBody(r.RequestURI) {
			t.Errorf("%s: %d bytes are on record, want %d", r.RequestURI, len(body), len(childBody(r.RequestURI)))
		}
		found[r.RequestURI] = true
	}
	for path := range acknowledged {
		if !found[path] {
			t.Errorf("%s: the client has it, the record doesn't", path)
		}
	}
}

func TestReaderNamesDamage(t *testing.T) {
	dir := t.TempDir()
	good := `{"auditID":"a","stage":"ResponseComplete","requestURI":"/x","requestReceivedTimestamp":"2026-03-01T12:00:00.000000Z","stageTimestamp":"2026-03-01T12:00:00.000000Z"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, recorder.AuditFile), []byte("nonsense\n"+good+`{"half`), 0o644); err != nil {
		t.Fatal(err)
	}
	requests, err := recorder.Requests(dir)
	if len(requests) != 1 || requests[0].RequestURI != "/x" {
		t.Errorf("got %+v, want the one good line", requests)
	}
	if err == nil || !strings.Contains(err.Error(), recorder.AuditFile+":1: ") || strings.Contains(err.Error(), ":3: ") {
		t.Errorf("got error %v, want one that names line 1 alone", err)
	}
}

func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/pods?%zz"}` + "\n{}\nhalf"))
	f.Add([]byte(`{"auditID":"../../x","stage":"ResponseStarted","annotations":{"kubecase/body":"../../etc/passwd","kubecase/stream":"true"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, recorder.AuditFile), data, 0o644); err != nil {
			t.Fatal(err)
		}
		bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := recorder.Requests(dir)
		for _, r := range before {
			if body, _ := r.Body(dir, bodies); len(body) > 0 {
				t.Errorf("a body was found where none is: %q", body)
			}
		}
		l, err := recorder.Open(dir, recorder.Options{Bodies: bodies})
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		after, _ := recorder.Requests(dir)
		if len(after) != len(before) {
			t.Errorf("%d requests before the repair, %d after", len(before), len(after))
		}
		for _, r := range after {
			if r.Open {
				t.Errorf("%q is open after the repair", r.AuditID)
			}
		}
	})
}
