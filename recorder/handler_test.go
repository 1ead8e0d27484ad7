package recorder_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"

	"github.com/kubecase/kubecase/recorder"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newLog opens a record whose clock stands at noon and whose bodies are moved
// from the year 2031 back to 2026.
func newLog(t testing.TB, change func(*recorder.Options)) (*recorder.Log, *recorder.Bodies) {
	t.Helper()
	bodies, err := recorder.OpenBodies(filepath.Join(t.TempDir(), "bodies"))
	if err != nil {
		t.Fatal(err)
	}
	o := recorder.Options{
		Bodies: bodies,
		Now:    func() time.Time { return noon },
		Unshift: func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("2031-"), []byte("2026-"))
		},
	}
	if change != nil {
		change(&o)
	}
	l, err := recorder.Open(filepath.Join(t.TempDir(), "episode"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, bodies
}

func serve(t testing.TB, l *recorder.Log, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(l.Handler(h, recorder.Source{Name: recorder.Kubernetes, Prefix: "/e/4f3a"}))
	t.Cleanup(s.Close)
	return s
}

func get(t testing.TB, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func recorded(t testing.TB, l *recorder.Log) []recorder.Request {
	t.Helper()
	requests, err := recorder.Requests(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return requests
}

func bodyOf(t testing.TB, l *recorder.Log, b *recorder.Bodies, r recorder.Request) string {
	t.Helper()
	body, err := r.Body(l.Dir(), b)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestLine(t *testing.T) {
	l, bodies := newLog(t, nil)
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) {
		x := recorder.FromContext(r.Context())
		x.SetUser(authnv1.UserInfo{Username: "investigator"}, nil)
		x.Annotate("example/note", "kept")
		x.Annotate(recorder.KeySource, "forged")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"at":"2031-03-01T11:00:00Z"}`)
	})
	_, body := get(t, s.URL+"/e/4f3a/api/v1/namespaces/shop/pods/web-1/log?sinceTime=2031-03-01T11%3A00%3A00Z&access_token=secret&container=app",
		"Kubectl-Session", "5e55", "Kubectl-Command", "kubectl logs", "Authorization", "Bearer secret", "User-Agent", "kubectl/v1.34.1", "Accept", "*/*")
	if want := `{"at":"2031-03-01T11:00:00Z"}`; body != want {
		t.Errorf("the client got %s, want %s", body, want)
	}
	var raw []byte
	for _, name := range []string{recorder.AuditFile, recorder.TailFile} {
		text, err := os.ReadFile(filepath.Join(l.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, text...)
	}
	if !bytes.Contains(raw, []byte("kubectl/v1.34.1")) || bytes.Contains(raw, []byte("secret")) {
		t.Errorf("no line, or a credential, is on record: %s", bytes.Trim(raw, "\x00"))
	}
	requests := recorded(t, l)
	if len(requests) != 1 {
		t.Fatalf("%d requests are on record, want 1", len(requests))
	}
	r := requests[0]
	type line struct {
		Kind, Verb, URI, User, Agent, Object string
		IPs                                  []string
		Code                                 int
		Received                             time.Time
	}
	got := line{r.Kind, r.Verb, r.RequestURI, r.User.Username, r.UserAgent,
		r.ObjectRef.Resource + "/" + r.ObjectRef.Namespace + "/" + r.ObjectRef.Name + "/" + r.ObjectRef.Subresource,
		r.SourceIPs, r.Status(), r.Start().UTC()}
	want := line{"Event", "get", "/api/v1/namespaces/shop/pods/web-1/log?sinceTime=2026-03-01T11%3A00%3A00Z&access_token=REDACTED&container=app",
		"investigator", "kubectl/v1.34.1", "pods/shop/web-1/log", []string{"127.0.0.1"}, 200, noon}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	annotations := r.Annotations
	delete(annotations, recorder.KeyConnection)
	wantAnnotations := map[string]string{
		recorder.KeySource: "kubernetes", recorder.KeyMethod: "GET", recorder.KeySession: "5e55", recorder.KeyCommand: "kubectl logs",
		recorder.KeyAccept: "*/*", recorder.KeyContentType: "application/json", "example/note": "kept",
		recorder.KeyBody: recorder.Digest([]byte(`{"at":"2026-03-01T11:00:00Z"}`)), recorder.KeyBodySize: "29", recorder.KeyWireSize: "29",
	}
	if diff := cmp.Diff(wantAnnotations, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got, want := bodyOf(t, l, bodies, r), `{"at":"2026-03-01T11:00:00Z"}`; got != want {
		t.Errorf("stored body %s, want %s", got, want)
	}
}

// TestResponsesArriveWhole sends bodies of many shapes through and compares what
// the client and the record have.
func TestResponsesArriveWhole(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	tests := []struct {
		name           string
		send           func(w http.ResponseWriter)
		status         int
		wire, recorded string
	}{
		{"nothing", func(http.ResponseWriter) {}, 200, "", ""},
		{"no content", func(w http.ResponseWriter) { w.WriteHeader(204) }, 204, "", ""},
		{"one byte", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, 200, "x", "x"},
		{"length", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(big)))
			w.WriteHeader(404)
			_, _ = io.WriteString(w, big)
		}, 404, big, big},
		{"pieces", func(w http.ResponseWriter) {
			for i := range len(big) / 1000 {
				_, _ = io.WriteString(w, big[i*1000:(i+1)*1000])
			}
		}, 200, big, big},
		{"flushed", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "bc")
			_ = http.NewResponseController(w).Flush()
		}, 200, "abc", "abc"},
		{"flushed before the first byte", func(w http.ResponseWriter) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, big)
		}, 200, big, big},
		{"packed", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, zipped(big))
		}, 200, zipped(big), big},
		{"packed stream", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, zipped("2031-x"))
			w.(http.Flusher).Flush()
		}, 200, zipped("2031-x"), "2026-x"},
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, test := range tests {
			t.Run(protocol+"/"+test.name, func(t *testing.T) {
				l, bodies := newLog(t, nil)
				s := httptest.NewUnstartedServer(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					test.send(w)
				}), recorder.Source{Name: recorder.Kubernetes}))
				s.EnableHTTP2 = protocol == "HTTP/2.0"
				s.StartTLS()
				defer s.Close()
				s.Client().Transport.(*http.Transport).DisableCompression = true
				resp, err := s.Client().Get(s.URL + "/api/v1/pods")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				got, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Proto != protocol || resp.StatusCode != test.status {
					t.Errorf("got %s %d, want %s %d", resp.Proto, resp.StatusCode, protocol, test.status)
				}
				if string(got) != test.wire {
					t.Errorf("the client got %d bytes, want %d, the same", len(got), len(test.wire))
				}
				s.Close() // waits for the handler: a stream's last line follows its last byte
				requests := recorded(t, l)
				if len(requests) != 1 || requests[0].Open {
					t.Fatalf("want one ended request, got %+v", requests)
				}
				if got := bodyOf(t, l, bodies, requests[0]); got != test.recorded {
					t.Errorf("%d bytes are on record, want %d, the same", len(got), len(test.recorded))
				}
				if got, want := requests[0].Annotations[recorder.KeyWireSize], fmt.Sprint(len(test.wire)); got != want {
					t.Errorf("wire size %s, want %s", got, want)
				}
				left, err := os.ReadDir(filepath.Join(l.Dir(), "streams"))
				if err != nil || len(left) > 0 {
					t.Errorf("files of streams are left: %v %v", left, err)
				}
			})
		}
	}
}

// TestLineComesFirst reads the record inside the client, when it has got the
// headers and all but the end, and when it has got the end.
func TestLineComesFirst(t *testing.T) {
	l, _ := newLog(t, nil)
	sent := make(chan struct{})
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) {
		body := strings.Repeat("x", 100_000)
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, body)
		<-sent
	})
	resp, err := http.Get(s.URL + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.ReadFull(resp.Body, make([]byte, 90_000)); err != nil {
		t.Fatal(err)
	}
	if n := len(recorded(t, l)); n != 0 {
		t.Fatalf("%d lines before the handler ended, want 0", n)
	}
	close(sent)
	if _, err := io.ReadFull(resp.Body, make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	if n := len(recorded(t, l)); n != 1 {
		t.Fatalf("%d lines when the client has all bytes, want 1", n)
	}
}

// TestStreamIsOnRecordAsItGoes sees a watch's start, and each piece, before the
// client does.
func TestStreamIsOnRecordAsItGoes(t *testing.T) {
	l, bodies := newLog(t, nil)
	more := make(chan string)
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		for piece := range more {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
	})
	resp, err := http.Get(s.URL + "/e/4f3a/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	requests := recorded(t, l)
	if len(requests) != 1 || !requests[0].Open || requests[0].Verb != "watch" {
		t.Fatalf("want the start of one watch, got %+v", requests)
	}
	in := bufio.NewReader(resp.Body)
	var want string
	// The second piece completes a time that the first one cuts.
	for _, step := range []struct{ piece, want string }{{"{\"t\":\"20", "{\"t\":\"20"}, {"31-03\"}\n", "{\"t\":\"2026-03\"}\n"}, {"{}\n", "{\"t\":\"2026-03\"}\n{}\n"}} {
		more <- step.piece
		if _, err := io.ReadFull(in, make([]byte, len(step.piece))); err != nil {
			t.Fatal(err)
		}
		want = step.want
		if got := bodyOf(t, l, bodies, recorded(t, l)[0]); got != want {
			t.Errorf("the record has %q when the client has it, want %q", got, want)
		}
	}
	close(more)
	if _, err := io.ReadAll(in); err != nil {
		t.Fatal(err)
	}
	s.Close()
	r := recorded(t, l)[0]
	if r.Open || bodyOf(t, l, bodies, r) != want {
		t.Errorf("at the end: open %v, body %q, want %q", r.Open, bodyOf(t, l, bodies, r), want)
	}
}

// TestPackedStream: a compressed stream is readable while it goes on, and after its
// server was killed, although the end of the packing is missing.
func TestPackedStream(t *testing.T) {
	l, bodies := newLog(t, nil)
	sent, end := make(chan struct{}), make(chan struct{})
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		packed := gzip.NewWriter(w)
		for _, piece := range []string{`{"t":"2031-03-01"}` + "\n", `{"t":"2031-03-02"}` + "\n"} {
			_, _ = io.WriteString(packed, piece)
			_ = packed.Flush()
			w.(http.Flusher).Flush()
		}
		close(sent)
		<-end
		_ = packed.Close()
	})
	done := make(chan string)
	go func() {
		_, body := get(t, s.URL+"/e/4f3a/api/v1/pods?watch=true")
		done <- body
	}()
	<-sent
	if got, want := bodyOf(t, l, bodies, recorded(t, l)[0]), "{\"t\":\"2031-03-01\"}\n{\"t\":\"2031-03-02\"}\n"; got != want {
		t.Errorf("while it goes on the record has %q, want %q", got, want)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(l.Dir())); err != nil {
		t.Fatal(err)
	}
	close(end)
	<-done
	s.Close()
	const captured = "{\"t\":\"2026-03-01\"}\n{\"t\":\"2026-03-02\"}\n"
	if got := bodyOf(t, l, bodies, recorded(t, l)[0]); got != captured {
		t.Errorf("at the end the record has %q, want %q", got, captured)
	}
	mended, err := recorder.Open(killed, recorder.Options{Bodies: bodies, Unshift: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("2031-"), []byte("2026-"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mended.Close() }()
	r := recorded(t, mended)[0]
	if got := bodyOf(t, mended, bodies, r); got != captured {
		t.Errorf("after a kill the record has %q, want %q", got, captured)
	}
	if r.Annotations[recorder.KeyAborted] != "interrupted" || r.Annotations[recorder.KeyTruncated] != "" {
		t.Errorf("after a kill: %v", r.Annotations)
	}
}

func TestHijack(t *testing.T) {
	l, _ := newLog(t, nil)
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		recorder.FromContext(r.Context()).Annotate(recorder.KeyExitCode, "1")
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhi")
		_ = conn.Close()
	}), recorder.Source{Name: recorder.Kubernetes})
	done := make(chan struct{}) // a server doesn't wait for connections that were taken over
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST /api/v1/namespaces/a/pods/b/exec?command=ls HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	<-done
	var stages []string
	for event, err := range recorder.Events(l.Dir()) {
		if err != nil {
			t.Fatal(err)
		}
		stages = append(stages, fmt.Sprint(event.Stage, " ", event.ResponseStatus.Code, " ", event.Annotations[recorder.KeyExitCode]))
	}
	if diff := cmp.Diff([]string{"ResponseStarted 101 ", "ResponseComplete 101 1"}, stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestPanicIsRecordedAndGoesOn(t *testing.T) {
	l, bodies := newLog(t, nil)
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}), recorder.Source{Name: "shim"})
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("recovered %v, want http.ErrAbortHandler", v)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
	}()
	r := recorded(t, l)[0]
	if r.Stage != "Panic" || r.Annotations[recorder.KeyAborted] != "panic" || bodyOf(t, l, bodies, r) != "hal" {
		t.Errorf("got stage %s, %v, body %q; want Panic and what was written: %q", r.Stage, r.Annotations, bodyOf(t, l, bodies, r), "hal")
	}
}

// brokenWriter takes so many bytes and then fails.
type brokenWriter struct {
	http.ResponseWriter
	room int
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	w.room -= n
	_, _ = w.ResponseWriter.Write(p[:n])
	if n < len(p) {
		return n, errors.New("broken pipe")
	}
	return n, nil
}

func TestWhatTheClientDidNotTakeIsNotRecorded(t *testing.T) {
	for _, flush := range []bool{false, true} {
		l, bodies := newLog(t, nil)
		h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "0123")
			if flush {
				_ = http.NewResponseController(w).Flush()
			}
			if n, err := io.WriteString(w, "456789"); err == nil {
				t.Errorf("flush %v: the handler isn't told that the write failed (%d)", flush, n)
			}
		}), recorder.Source{Name: "shim"})
		h.ServeHTTP(&brokenWriter{httptest.NewRecorder(), 7}, httptest.NewRequest("GET", "/x", nil))
		r := recorded(t, l)[0]
		if got := bodyOf(t, l, bodies, r); got != "0123456" || r.Annotations[recorder.KeyAborted] != "write error" {
			t.Errorf("flush %v: body %q, %v; want 0123456, write error", flush, got, r.Annotations)
		}
	}
	l, _ := newLog(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	out := httptest.NewRecorder()
	l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "0123")
		cancel()
	}), recorder.Source{Name: "shim"}).ServeHTTP(out, httptest.NewRequestWithContext(ctx, "GET", "/x", nil))
	if r := recorded(t, l)[0]; r.Annotations[recorder.KeyAborted] != "client gone" || r.Annotations[recorder.KeyWireSize] != "3" || out.Body.String() != "012" {
		t.Errorf("a client that left: %v, sent %q", r.Annotations, out.Body)
	}
}

func TestRecordThatCannotBeWrittenFailsTheResponse(t *testing.T) {
	l, _ := newLog(t, nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "evidence") })
	resp, err := http.Get(s.URL)
	if err == nil {
		_ = resp.Body.Close()
		t.Error("the client got an answer that isn't on record")
	}
}

func TestBounds(t *testing.T) {
	l, bodies := newLog(t, func(o *recorder.Options) { o.MaxBody, o.MaxTotal = 10, 15 })
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("flush") {
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, r.URL.Query().Get("body"))
	})
	for _, query := range []string{"body=0123456789abc", "body=9876543210", "body=lastlastla", "body=9876543210", "flush&body=streamstream"} {
		get(t, s.URL+"/x?"+query)
	}
	get(t, s.URL+"/x?"+strings.Repeat("y", 50_000))
	s.Close()
	type row struct{ Body, Size, Truncated, Wire string }
	var got []row
	for _, r := range recorded(t, l) {
		if len(r.RequestURI) > 16<<10 || len(r.RequestURI) == 16<<10 != (r.Annotations[recorder.KeyURITruncated] == "true") {
			t.Errorf("a URI of %d bytes is on record: %v", len(r.RequestURI), r.Annotations)
		}
		got = append(got, row{bodyOf(t, l, bodies, r), r.Annotations[recorder.KeyBodySize], r.Annotations[recorder.KeyTruncated], r.Annotations[recorder.KeyWireSize]})
	}
	want := []row{
		{"0123456789", "10", "body", "13"},
		{"9876543210", "10", "", "10"},
		{"", "10", "episode", "10"},    // 20 bytes are stored, 15 may be
		{"9876543210", "10", "", "10"}, // stored already
		{"", "10", "episode", "12"},
		{"", "", "", "0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

func TestSameAsIsWorkedOutOnce(t *testing.T) {
	unshifts := 0
	l, bodies := newLog(t, func(o *recorder.Options) {
		o.Unshift = func(b []byte) []byte { unshifts++; return b }
	})
	body := "kept"
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder.FromContext(r.Context()).SameAs("key")
		recorder.FromContext(r.Context()).SameAs([]int{1}) // can't be a key: ignored
		_, _ = io.WriteString(w, body)
	}), recorder.Source{Name: "shim"})
	for range 3 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
	}
	if unshifts != 1 {
		t.Errorf("the body was worked on %d times, want once", unshifts)
	}
	for _, r := range recorded(t, l) {
		if got := bodyOf(t, l, bodies, r); got != "kept" {
			t.Errorf("body %q, want %q", got, "kept")
		}
	}
	recorder.FromContext(t.Context()).SameAs("unrecorded") // does nothing
	recorder.FromContext(t.Context()).Annotate("a", "b")
	recorder.FromContext(t.Context()).SetUser(authnv1.UserInfo{}, nil)
}

// TestKeptAnswerIsAnnounced: the line of a kept answer is complete before its first byte;
// where its bytes don't follow, another line tells what did.
func TestKeptAnswerIsAnnounced(t *testing.T) {
	l, bodies := newLog(t, nil)
	ends := func(http.ResponseWriter) {}
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder.FromContext(r.Context()).SameAs("key")
		_, _ = io.WriteString(w, "0123456789")
		ends(w)
	}), recorder.Source{Name: "shim"})
	serve := func(ctx context.Context, w http.ResponseWriter) (panicked any) {
		defer func() { panicked = recover() }()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/x", nil))
		return nil
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name                string
		ctx                 context.Context
		room                int
		ends                func(http.ResponseWriter)
		body, aborted, sent string
	}{
		{"first", t.Context(), 99, nil, "0123456789", "", "0123456789"},
		{"kept", t.Context(), 99, nil, "0123456789", "", "0123456789"},
		{"half taken", t.Context(), 4, nil, "0123", "write error", "0123"},
		{"nothing taken", t.Context(), 0, nil, "", "write error", ""},
		{"client gone before", gone, 99, nil, "012345678", "client gone", "012345678"},
		{"panic", t.Context(), 99, func(http.ResponseWriter) { panic("x") }, "0123456789", "panic", "0123456789"},
		{"more than was kept", t.Context(), 99, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "!") }, "", "", "0123456789!"},
	} {
		ends = test.ends
		if ends == nil {
			ends = func(http.ResponseWriter) {}
		}
		out := httptest.NewRecorder()
		before := len(recorded(t, l))
		if panicked := serve(test.ctx, &brokenWriter{out, test.room}); (panicked != nil) != (test.aborted == "panic") {
			t.Errorf("%s: panic %v", test.name, panicked)
		}
		requests := recorded(t, l)
		if len(requests) != before+1 {
			t.Fatalf("%s: %d requests are on record, want %d", test.name, len(requests), before+1)
		}
		r := requests[before]
		if got := bodyOf(t, l, bodies, r); got != test.body || r.Annotations[recorder.KeyAborted] != test.aborted || out.Body.String() != test.sent {
			t.Errorf("%s: body %q, aborted %q, sent %q; want %q, %q, %q", test.name, got, r.Annotations[recorder.KeyAborted], out.Body, test.body, test.aborted, test.sent)
		}
		if want := fmt.Sprint(len(test.sent)); r.Annotations[recorder.KeyWireSize] != want {
			t.Errorf("%s: wire size %s, want %s", test.name, r.Annotations[recorder.KeyWireSize], want)
		}
	}
	// Whoever sees the first byte finds the line.
	saw := false
	h.ServeHTTP(writerFunc(func(p []byte) (int, error) {
		requests := recorded(t, l)
		last := requests[len(requests)-1]
		saw = !last.Open && bodyOf(t, l, bodies, last) == "0123456789" && last.Annotations[recorder.KeyWireSize] == "10"
		return len(p), nil
	}), httptest.NewRequest("GET", "/x", nil))
	if !saw {
		t.Error("the first byte is sent before the line is complete")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	out := httptest.NewRecorder()
	if panicked := serve(t.Context(), out); panicked == nil || out.Body.Len() != 0 {
		t.Errorf("a record that can't be written: %v, sent %q", panicked, out.Body)
	}
}

// writerFunc is a response writer that hands over what is written.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Header() http.Header         { return http.Header{} }
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
func (f writerFunc) WriteHeader(int)             {}

func TestRequestBodyIsKept(t *testing.T) {
	l, bodies := newLog(t, nil)
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	resp, err := http.Post(s.URL+"/x", "text/plain", strings.NewReader("at 2031-03-01"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	got, err := bodies.Get(recorded(t, l)[0].Annotations[recorder.KeyRequestBody])
	if err != nil || string(got) != "at 2026-03-01" {
		t.Errorf("request body %q, %v", got, err)
	}
}

func TestConcurrentRequests(t *testing.T) {
	l, bodies := newLog(t, nil)
	s := serve(t, l, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) })
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 25 {
				get(t, fmt.Sprintf("%s/x?%d-%d", s.URL, i, j))
			}
		})
	}
	group.Wait()
	seen := map[string]bool{}
	for _, r := range recorded(t, l) {
		body := bodyOf(t, l, bodies, r)
		if r.RequestURI != "/x?"+body {
			t.Errorf("%s has body %q", r.RequestURI, body)
		}
		seen[body] = true
	}
	if len(seen) != 200 {
		t.Errorf("%d requests are on record, want 200", len(seen))
	}
}

// TestFullRecord: a record of bounded size refuses what it has no room for, and
// what it refused reaches nobody.
func TestFullRecord(t *testing.T) {
	l, _ := newLog(t, func(o *recorder.Options) { o.MaxRecord = 2000 })
	answered := 0
	h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answered++
		io.WriteString(w, "ok")
	}), recorder.Source{Name: recorder.Kubernetes})
	refused := 0
	for range 50 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/version", nil))
		switch w.Code {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusOK:
			if refused > 0 {
				t.Error("a request passed after one was refused")
			}
		default:
			t.Errorf("status %d", w.Code)
		}
	}
	requests, err := recorder.Requests(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if answered == 0 || refused == 0 || len(requests) != answered {
		t.Errorf("%d answered, %d refused, %d on record", answered, refused, len(requests))
	}
}
