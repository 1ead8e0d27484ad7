package recorder_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/recorder"
)

func lineOf(name string) string {
	return fmt.Sprintf(`{"auditID":%q,"stage":"ResponseComplete","requestURI":"/%s","requestReceivedTimestamp":"2026-03-01T12:00:00.000000Z"}`+"\n", name, name)
}

// tailOf is a TailFile whose lines belong at base.
func tailOf(base int, lines string) string {
	text := string(binary.LittleEndian.AppendUint64(nil, uint64(base))) + lines
	return text + strings.Repeat("\x00", max(0, 4096-len(text)))
}

// TestTail holds what a killed process may leave in the two files: lines that are in both, in one, or
// half in one of them.
func TestTail(t *testing.T) {
	a, b, c := lineOf("a"), lineOf("b"), lineOf("c")
	for _, test := range []struct {
		name, audit, tail string
		want              []string
	}{
		{"no tail", a + b, "", []string{"/a", "/b"}},
		{"none was moved", "", tailOf(0, a+b), []string{"/a", "/b"}},
		{"one was moved", a, tailOf(0, a+b), []string{"/a", "/b"}},
		{"half a line was moved", a + b[:20], tailOf(0, a+b+c), []string{"/a", "/b", "/c"}},
		{"all were moved", a + b, tailOf(0, a+b), []string{"/a", "/b"}},
		{"more was written than the tail had", a + b + c, tailOf(len(a), b), []string{"/a", "/b", "/c"}},
		{"emptied", a + b, tailOf(len(a+b), ""), []string{"/a", "/b"}},
		{"emptied, and used again", a + b, tailOf(len(a+b), c), []string{"/a", "/b", "/c"}},
		{"emptied but for the offset", a + b, tailOf(0, ""), []string{"/a", "/b"}},
		{"killed in a line", a, tailOf(len(a), b+c[:30]), []string{"/a", "/b"}},
		{"killed in a line of which the end was there first", a, tailOf(len(a), b+"\x00\x00\x00"+c[3:]), []string{"/a", "/b"}},
		{"killed when it was made", a, "\x00\x00", []string{"/a"}},
		{"the other file was cut", a, tailOf(len(a+b), c), []string{"/a", "/c"}},
		{"an offset that can't be", a, tailOf(-7, c), []string{"/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{recorder.AuditFile: test.audit, recorder.TailFile: test.tail} {
				if text == "" && name == recorder.TailFile {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, uris(t, dir)); diff != "" {
				t.Errorf("read as they lie there (-want +got):\n%s", diff)
			}
			bodies, err := recorder.OpenBodies(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			l, err := recorder.Open(dir, recorder.Options{Bodies: bodies})
			if err != nil {
				t.Fatal(err)
			}
			get(t, serve(t, l, func(http.ResponseWriter, *http.Request) {}).URL+"/next")
			want := append(append([]string{}, test.want...), "/next")
			if diff := cmp.Diff(want, uris(t, dir)); diff != "" {
				t.Errorf("opened (-want +got):\n%s", diff)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, uris(t, dir)); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(filepath.Join(dir, recorder.TailFile)); !os.IsNotExist(err) {
				t.Errorf("a closed record has a tail: %v", err)
			}
		})
	}
}

func uris(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for event, err := range recorder.Events(dir) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, event.RequestURI)
	}
	return out
}

// TestReadWhileWritten reads a record all the time while several clients fill its tail many times
// over, with lines that are too long for it among them. Each look must show all that was
// acknowledged before it, once, and copies of the files too, as a kill would leave them.
func TestReadWhileWritten(t *testing.T) {
	l, _ := newLog(t, nil)
	s := serve(t, l, func(http.ResponseWriter, *http.Request) {})
	const clients, requests = 4, 500
	var acknowledged [clients]atomic.Int64
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for i := range requests {
				long := ""
				if i%50 == 49 {
					long = "?q=" + strings.Repeat("x", 7000)
				}
				get(t, fmt.Sprintf("%s/%d-%d%s", s.URL, client, i, long), "User-Agent", strings.Repeat("agent", 100))
				acknowledged[client].Store(int64(i + 1))
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	looks := 0
	look := func(of func() string) {
		looks++
		var before [clients]int64
		for i := range before {
			before[i] = acknowledged[i].Load()
		}
		var got [clients]int64
		for _, uri := range uris(t, of()) {
			var client, i int
			if _, err := fmt.Sscanf(uri, "/%d-%d", &client, &i); err != nil {
				t.Fatalf("%q: %v", uri, err)
			}
			if int64(i) != got[client] {
				t.Fatalf("client %d: request %d follows %d", client, i, got[client]-1)
			}
			got[client]++
		}
		for i := range before {
			if got[i] < before[i] {
				t.Fatalf("client %d: %d requests were answered, %d can be read", i, before[i], got[i])
			}
		}
	}
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		look(l.Dir)
		look(func() string { return left(t, l.Dir()) })
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	look(l.Dir)
	if got := len(uris(t, l.Dir())); got != clients*requests || looks < 10 {
		t.Errorf("%d requests are on record, want %d; there were %d looks", got, clients*requests, looks)
	}
}

// left is what a kill could leave of a record: its files as they are now. The tail is copied
// first: what was moved out of it since is in the other file.
func left(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	tail := read(recorder.TailFile)
	for !bytes.Equal(tail[:8], read(recorder.TailFile)[:8]) { // it was emptied meanwhile
		tail = read(recorder.TailFile)
	}
	for name, text := range map[string][]byte{recorder.TailFile: tail, recorder.AuditFile: read(recorder.AuditFile)} {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestTailIsCut takes the tail's file away under an open record: requests fail, the process doesn't.
func TestTailIsCut(t *testing.T) {
	l, _ := newLog(t, nil)
	s := serve(t, l, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	get(t, s.URL+"/one")
	if err := os.Truncate(filepath.Join(l.Dir(), recorder.TailFile), 0); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/two", "/three"} {
		resp, err := http.Get(s.URL + path)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil {
				t.Errorf("%s: %q was delivered, and isn't on record", path, body)
			}
		}
	}
}

// FuzzTail: whatever the two files of a killed process hold, opening the record loses no request that
// could be read before, and adds none.
func FuzzTail(f *testing.F) {
	f.Add([]byte(lineOf("a")), []byte(tailOf(0, lineOf("a")+lineOf("b"))))
	f.Add([]byte(lineOf("a")+"half"), []byte(tailOf(len(lineOf("a")), "half"+lineOf("b"))))
	f.Add([]byte("x"), []byte(tailOf(-1<<62, lineOf("b"))))
	f.Fuzz(func(t *testing.T, audit, tail []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, recorder.AuditFile), audit, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, recorder.TailFile), tail, 0o644); err != nil {
			t.Fatal(err)
		}
		bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := recorder.Requests(dir)
		if _, err := recorder.Written(dir); err != nil {
			t.Error(err)
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
	})
}
