package recorder

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// Source is what a handler answers for.
type Source struct {
	// Name is "kubernetes" for the Kubernetes API, else the shim's: "alerts". Only
	// the requests of "kubernetes" are read as Kubernetes' own.
	Name string
	// Prefix is cut off the paths of requests before they are recorded ("/e/4f3a").
	Prefix string
	// Unshift is Options.Unshift for what tells time in another form, or in none; nil: the options'.
	Unshift func([]byte) []byte
}

// Kubernetes names the source whose requests are Kubernetes API requests.
const Kubernetes = "kubernetes"

// Tools is the Source name of the diagnostic tools.
const Tools = "tools"

// Forwarded is the Source name of what is asked through a forwarded port and is no shim's.
const Forwarded = "forwarded"

// requestInfo reads paths as Kubernetes' own server does.
var requestInfo = request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

// Handler records what next answers: one line for a request, and two for a
// response that is flushed before its end or whose connection is taken over.
//
// The last byte of a response, or its first flush, is held back until the line and
// the body are written; if they can't be, the connection is aborted: what isn't on record
// isn't delivered. Of a response that the client didn't take, the bytes that were
// written are recorded, and KeyAborted says why there are no more. Panics are
// recorded and go on.
func (l *Log) Handler(next http.Handler, source Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.full() {
			refuse(w)
			return
		}
		x := &Exchange{log: l}
		rec := &recording{ResponseWriter: w, log: l, source: source, exchange: x, request: r}
		rec.at.arrived(l, r.Header)
		if r.Body != nil && r.Body != http.NoBody {
			rec.input = &input{ReadCloser: r.Body}
		}
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		if rec.input != nil {
			r.Body = rec.input
		}
		ended := false
		defer func() {
			if !ended { // a panic, or the handler's runtime.Goexit
				rec.abort()
			}
			rec.release()
		}()
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(rec), r)
		ended = true
		if err := rec.end(); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

// begin fills in what is known when a request arrives. asked is what a request to
// Kubernetes is for, to be read from its path; nil for others'.
func (l *Log) begin(r *http.Request, source Source, at *straight) (event auditv1.Event, asked *url.URL) {
	e := newEvent()
	e.AuditID = types.UID(at.id[:])
	e.RequestReceivedTimestamp = metav1.NewMicroTime(at.received)
	a := make(map[string]string, 16)
	e.Annotations = a
	a[KeySource], a[KeyMethod], a[KeyConnection] = source.Name, bounded(r.Method, 32), bounded(r.RemoteAddr, 128)
	for _, h := range [...]struct{ key, value string }{{KeySession, at.session}, {KeyCommand, at.command}, {KeyAccept, at.accept}} {
		if h.value != "" {
			a[h.key] = bounded(h.value, headerLimit)
		}
	}
	e.UserAgent = bounded(r.UserAgent(), headerLimit)
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		e.SourceIPs = []string{host}
	}
	path := r.URL.Path
	escaped := r.URL.EscapedPath()
	if source.Prefix != "" {
		if rest, ok := strings.CutPrefix(path, source.Prefix); ok && (rest == "" || rest[0] == '/') {
			path = "/" + strings.TrimPrefix(rest, "/")
			escaped = "/" + strings.TrimPrefix(strings.TrimPrefix(escaped, source.Prefix), "/")
		}
	}
	var cut bool
	if e.RequestURI, cut = capturedURI(escaped, r.URL.RawQuery, l.unshift(source, "")); cut {
		a[KeyURITruncated] = "true"
	}
	e.Verb = lowerMethod(r.Method)
	if source.Name == Kubernetes {
		u := *r.URL
		u.Path = path
		asked = &u
	}
	return e, asked
}

// resource fills in verb and object as Kubernetes' own request info has them: that
// of the chain that answered, or where none did, one of its own.
func resource(e *auditv1.Event, method string, asked *url.URL, info *request.RequestInfo) {
	if info == nil {
		var err error
		if info, err = requestInfo.NewRequestInfo(&http.Request{Method: method, URL: asked}); err != nil {
			return
		}
	}
	if !info.IsResourceRequest {
		return
	}
	e.Verb = info.Verb
	o := referenceOf(info)
	e.ObjectRef = &o
}

// referenceOf is what a request is for.
func referenceOf(info *request.RequestInfo) auditv1.ObjectReference {
	return auditv1.ObjectReference{
		Resource: bounded(info.Resource, 256), Namespace: bounded(info.Namespace, 256), Name: bounded(info.Name, 512),
		APIGroup: bounded(info.APIGroup, 256), APIVersion: bounded(info.APIVersion, 64), Subresource: bounded(info.Subresource, 64),
	}
}

// lowerMethod is a method's verb; the usual one isn't made anew.
func lowerMethod(method string) string {
	if method == http.MethodGet {
		return "get"
	}
	return strings.ToLower(bounded(method, 32))
}

// newID makes a random UUID, version 4. Nothing depends on nobody guessing it.
func newID() (text [36]byte) {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(b[8:], rand.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	hex.Encode(text[0:8], b[0:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:36], b[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return text
}

func itoa(n int) string { return strconv.Itoa(n) }

// input keeps the start of what a handler reads of a request's body. The server
// may close it while the handler reads.
type input struct {
	io.ReadCloser
	mu   sync.Mutex
	kept []byte
	size int64
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.ReadCloser.Read(p)
	if n > 0 {
		in.mu.Lock()
		in.size += int64(n)
		if room := RequestBodyLimit - len(in.kept); room > 0 {
			in.kept = append(in.kept, p[:min(n, room)]...)
		}
		in.mu.Unlock()
	}
	return n, err
}

func (in *input) read() ([]byte, int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept[:len(in.kept):len(in.kept)], in.size
}

// refuse answers a request that the record has no room for, as a Kubernetes API server
// answers one too many.
func refuse(w http.ResponseWriter) {
	const body = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"this episode has made more requests than are recorded","reason":"TooManyRequests","code":429}` + "\n"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, body) // a client that left needs no answer
}
