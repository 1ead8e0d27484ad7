package recorder

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// buffers are for bodies that are being sent.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// serverBuffer is what net/http's servers hold back before they send anything, in bytes.
const serverBuffer = 4 << 10

// pooledLimit is the largest buffer that is kept for the next response, in bytes.
const pooledLimit = 1 << 20

// recording is the response writer of a recorded request. Like any response
// writer it serves one goroutine at a time.
type recording struct {
	http.ResponseWriter
	log      *Log
	source   Source
	exchange *Exchange
	request  *http.Request
	input    *input
	at       straight
	// event is made when a line is needed that isn't straight.
	event auditv1.Event
	built bool
	// asked is the URL from which verb and object are still to be read; nil for none.
	asked *url.URL

	status int
	body   *bytes.Buffer // what was written, up to MaxBody; the held byte isn't in it
	wire   int64         // bytes that were written
	whole  hash.Hash     // of the wire's bytes, once they are more than MaxBody

	held    [1]byte // the last byte, which completes the response
	holding bool

	// announced: the line was written before the bytes, which are those of kept.
	announced bool
	kept      kept

	// begun: the line of the stage ResponseStarted is written.
	begun    bool
	stream   *stream
	hijacked bool
	failed   error  // of a write to the client, or of the record
	why      string // KeyAborted
}

// Unwrap lets http.ResponseController reach what isn't recorded: deadlines, full duplex.
func (w *recording) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recording) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if w.status == 0 {
			w.status = status
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recording) Write(p []byte) (int, error) {
	if w.failed != nil {
		return 0, w.failed
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if len(p) == 0 || w.request.Method == http.MethodHead {
		return w.ResponseWriter.Write(p) // no body is sent
	}
	if w.stream != nil {
		return w.writeStream(p)
	}
	if w.announced {
		return w.writeAnnounced(p)
	}
	if sent, ok := w.announce(p); w.failed != nil {
		return sent, w.failed
	} else if ok {
		n, err := w.writeAnnounced(p[sent:])
		return sent + n, err
	}
	if !w.releaseHeld() {
		return 0, w.failed
	}
	n, err := 0, error(nil)
	if len(p) > 1 {
		n, err = w.ResponseWriter.Write(p[:len(p)-1])
		w.wrote(p[:max(0, min(n, len(p)-1))])
	}
	if err != nil {
		return n, w.fail(err, "write error")
	}
	w.held[0], w.holding = p[len(p)-1], true
	return len(p), nil
}

// announce puts a kept answer on record before it is sent whole: what p holds is known by
// its key and length. Of one that doesn't fit into the server's buffers all but the last byte is
// sent first, so that the client reads it while the line is written. It is false where the
// answer must be looked at as it goes.
func (w *recording) announce(p []byte) (sent int, ok bool) {
	if w.begun || w.body != nil || w.holding || w.input != nil || w.hijacked || int64(len(p)) > w.log.o.MaxBody || w.request.Context().Err() != nil {
		return 0, false
	}
	k, ok := w.log.o.Bodies.recall(w.exchange.keptAs())
	if !ok || k.wire != len(p) {
		return 0, false
	}
	if len(p) > serverBuffer {
		n, err := w.ResponseWriter.Write(p[:len(p)-1])
		sent = max(0, min(n, len(p)-1))
		if err != nil {
			w.wrote(p[:sent])
			return sent, w.fail(err, "write error") == nil
		}
	}
	w.kept, w.wire = k, int64(len(p))
	err := w.log.appendWith(func(b []byte) ([]byte, error) {
		if line, ok := w.straightLine(b, k); ok {
			return line, nil
		}
		w.build()
		e := w.event
		w.complete(&e, true)
		e.Stage = auditv1.StageResponseComplete
		e.Annotations[KeyBody], e.Annotations[KeyBodySize] = k.digest, itoa(k.size)
		return appendLine(b, &e)
	})
	if err != nil {
		w.wire = 0
		w.wrote(p[:sent])
		return sent, w.fail(err, "write error") == nil
	}
	w.announced, w.wire = true, int64(sent)
	return sent, true
}

func (w *recording) writeAnnounced(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.wire += int64(max(0, min(n, len(p))))
	if err != nil {
		return n, w.fail(err, "write error")
	}
	return n, nil
}

// correct writes another line about an announced response that wasn't sent as announced;
// a record's reader takes the last.
func (w *recording) correct(stage auditv1.Stage) error {
	w.build()
	delete(w.event.Annotations, KeyBody)
	e := w.event
	w.complete(&e, true)
	e.Stage = stage
	if w.Header().Get("Content-Encoding") == "" && w.kept.size == w.kept.wire && w.wire <= int64(w.kept.wire) {
		if body, err := w.log.o.Bodies.Get(w.kept.digest); err == nil {
			if _, err := w.log.store(&e, body[:w.wire]); err != nil {
				return err
			}
			return w.log.append(&e)
		}
	}
	e.Annotations[KeyTruncated] = "body"
	return w.log.append(&e)
}

// releaseHeld sends the held byte, because it turned out not to be the last.
func (w *recording) releaseHeld() bool {
	if !w.holding {
		return true
	}
	w.holding = false
	if _, err := w.ResponseWriter.Write(w.held[:]); err != nil {
		_ = w.fail(err, "write error")
		return false
	}
	w.wrote(w.held[:])
	return true
}

func (w *recording) fail(err error, why string) error {
	if w.failed == nil {
		w.failed, w.why = err, why
	}
	return err
}

// wrote notes bytes of a response that isn't streamed.
func (w *recording) wrote(p []byte) {
	w.wire += int64(len(p))
	if w.body == nil {
		w.body = buffers.Get().(*bytes.Buffer)
		w.body.Reset()
	}
	room := w.log.o.MaxBody - int64(w.body.Len())
	if w.whole == nil && int64(len(p)) > room {
		w.whole = sha256.New()
		w.whole.Write(w.body.Bytes())
	}
	if w.whole != nil {
		w.whole.Write(p)
	}
	w.body.Write(p[:min(int64(len(p)), max(0, room))])
}

func (w *recording) writeStream(p []byte) (int, error) {
	if err := w.stream.append(p); err != nil {
		return 0, w.fail(err, "write error")
	}
	n, err := w.ResponseWriter.Write(p)
	n = max(0, min(n, len(p)))
	w.wire += int64(n)
	if n < len(p) {
		w.stream.takeBack(len(p) - n)
	}
	if err != nil {
		return n, w.fail(err, "write error")
	}
	return n, nil
}

// Flush turns the response into a stream: its start is put on record, then what
// was held back goes out.
func (w *recording) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController calls.
func (w *recording) FlushError() error {
	if w.failed != nil {
		return w.failed
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.stream == nil && !w.announced {
		begin := w.startStream
		if w.body == nil && !w.holding {
			if w.endsByItself() {
				return nil // the headers go with the first bytes, and one line tells of all
			}
			// The headers go out, as upstream does before it copies a log. What follows may
			// well be short, and needs no file of its own.
			begin = w.begin
		}
		if err := begin(); err != nil {
			return w.fail(err, "write error")
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// endsByItself reports the log of a container that isn't followed. Upstream sends the headers
// of each before it copies the log.
func (w *recording) endsByItself() bool {
	info := w.exchange.requestInfo()
	if info == nil || w.source.Name != Kubernetes || info.Resource != "pods" || info.Subresource != "log" {
		return false
	}
	follow, _ := strconv.ParseBool(w.request.URL.Query().Get("follow"))
	return !follow
}

func (w *recording) startStream() error {
	s, err := w.log.newStream(w.source, string(w.at.id[:]), w.Header())
	if err != nil {
		return err
	}
	w.stream = s
	if w.body != nil {
		if err := s.append(w.body.Bytes()); err != nil {
			return err
		}
	}
	if w.holding {
		if err := s.append(w.held[:]); err != nil {
			return err
		}
	}
	if err := w.begin(); err != nil {
		return err
	}
	if w.holding {
		w.holding = false
		n, err := w.ResponseWriter.Write(w.held[:])
		w.wire += int64(n)
		if err != nil {
			s.takeBack(1)
			return err
		}
	}
	return nil
}

// begin puts the start of a response that is flushed before its end on record, once.
func (w *recording) begin() error {
	if w.begun {
		return nil
	}
	w.build()
	w.event.Annotations[KeyStream] = "true"
	w.begun = true
	return w.started()
}

// started writes the line of the stage ResponseStarted.
func (w *recording) started() error {
	e := w.event
	w.complete(&e, false)
	e.Stage = auditv1.StageResponseStarted
	return w.log.append(&e)
}

// Hijack records the start before the connection is handed over. What goes over it then
// is not seen; the handler may say what it was with Annotate.
func (w *recording) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.failed != nil {
		return nil, nil, w.failed
	}
	was := w.status
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	w.build()
	w.event.Annotations[KeyStream] = "upgrade"
	if err := w.started(); err != nil {
		return nil, nil, w.fail(err, "write error")
	}
	w.hijacked = true
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		w.hijacked, w.status = false, was
		delete(w.event.Annotations, KeyStream)
	}
	return conn, rw, err
}

// complete fills in what is known when the response has its headers, or its end.
func (w *recording) complete(e *auditv1.Event, end bool) (key any) {
	key, user, impersonated, said, info := w.exchange.said()
	e.User, e.ImpersonatedUser = user, impersonated
	if w.asked != nil {
		resource(&w.event, w.request.Method, w.asked, info)
		w.asked = nil
		e.Verb, e.ObjectRef = w.event.Verb, w.event.ObjectRef
	}
	annotations := e.Annotations // the event's own, which later lines go on with
	if len(said) > 0 {
		annotations = make(map[string]string, len(e.Annotations)+len(said)+6)
		for k, v := range said {
			annotations[k] = v
		}
		for k, v := range e.Annotations {
			annotations[k] = v // the recorder's own win
		}
		e.Annotations = annotations
	}
	if !w.hijacked {
		if v := w.Header().Get("Content-Type"); v != "" {
			annotations[KeyContentType] = bounded(v, headerLimit)
		}
		if v := w.Header().Get("Content-Encoding"); v != "" {
			annotations[KeyContentEncoding] = bounded(v, headerLimit)
		}
	}
	code := w.status
	if end && code == 0 {
		code = http.StatusOK // what net/http sends for a handler that returned
	}
	status := &metav1.Status{Code: int32(code)}
	if code >= 400 {
		status.Status = metav1.StatusFailure
	} else if code != 0 {
		status.Status = metav1.StatusSuccess
	}
	e.ResponseStatus = status
	e.StageTimestamp = metav1.NewMicroTime(w.log.o.Now())
	if !end {
		return key
	}
	annotations[KeyWireSize] = strconv.FormatInt(w.wire, 10)
	if w.why != "" {
		annotations[KeyAborted] = w.why
	}
	return key
}

// end records the response and lets its last byte go.
func (w *recording) end() error {
	if w.announced {
		if w.failed == nil && w.wire == int64(w.kept.wire) {
			return nil
		}
		return w.correct(auditv1.StageResponseComplete)
	}
	if w.failed == nil && w.stream == nil && !w.hijacked && w.request.Context().Err() != nil {
		// The connection is gone, and with it what was in its buffers.
		w.why = "client gone"
		w.holding = false
	}
	return w.finish(auditv1.StageResponseComplete)
}

// abort records a response that ended in a panic.
func (w *recording) abort() {
	if w.why == "" {
		w.why = "panic"
	}
	w.holding = false
	if w.announced {
		_ = w.correct(auditv1.StagePanic) // as below
		return
	}
	_ = w.finish(auditv1.StagePanic) // the panic goes on; the line was the best that could be done
}

// build makes the event of a request that has none yet.
func (w *recording) build() {
	if w.built {
		return
	}
	w.event, w.asked = w.log.begin(w.request, w.source, &w.at)
	w.built = true
}

func (w *recording) finish(stage auditv1.Stage) error {
	w.build()
	e := w.event
	if w.holding {
		w.wire++ // on record before it is sent
	}
	key := w.complete(&e, true)
	e.Stage = stage
	w.storeInput(&e)
	var err error
	switch {
	case w.hijacked:
	case w.stream != nil:
		err = w.stream.finish(&e)
	default:
		err = w.storeBody(&e, key)
	}
	if err == nil {
		err = w.log.append(&e)
	}
	if err != nil {
		return err
	}
	if w.stream != nil {
		w.stream.remove()
	}
	if w.holding {
		w.holding = false
		_, _ = w.ResponseWriter.Write(w.held[:]) // a client that is gone by now is told by the connection
	}
	return nil
}

func (w *recording) storeInput(e *auditv1.Event) {
	if w.input == nil {
		return
	}
	body, size := w.input.read()
	if size == 0 {
		return
	}
	e.Annotations[KeyRequestSize] = strconv.FormatInt(size, 10)
	if w.log.stored.Load() >= w.log.o.MaxTotal {
		return
	}
	// A request is evidence of nothing; that its body can't be stored fails no response.
	if isForm(w.request.Header.Get("Content-Type")) {
		body = []byte(capturedForm(pathOf(e.RequestURI), string(body), w.log.unshift(w.source, "")))
	} else {
		body = w.log.captured(w.source, "", body)
	}
	if digest, added, err := w.log.o.Bodies.Put(body); err == nil {
		w.log.stored.Add(int64(added))
		e.Annotations[KeyRequestBody] = digest
	}
}

// storeBody stores the body of a response that wasn't streamed, the held byte included.
func (w *recording) storeBody(e *auditv1.Event, key any) error {
	if w.holding {
		w.wire-- // wrote counts it again
		w.wrote(w.held[:])
	}
	if w.body == nil {
		return nil
	}
	whole := w.whole == nil && w.why == ""
	if k, ok := w.log.o.Bodies.recall(key); ok && whole && k.wire == w.body.Len() {
		e.Annotations[KeyBody], e.Annotations[KeyBodySize] = k.digest, itoa(k.size)
		return nil
	}
	body := w.body.Bytes()
	if w.Header().Get("Content-Encoding") == "gzip" {
		plain, err := unpack(body, w.log.o.MaxBody)
		if err != nil {
			// Of a cut answer the start is kept, as of any other.
			e.Annotations[KeyTruncated] = "body"
		}
		body = plain
	}
	body = w.log.captured(w.source, w.Header().Get("Content-Type"), body)
	if w.whole != nil {
		e.Annotations[KeyTruncated] = "body"
		e.Annotations[KeyWireDigest] = hex.EncodeToString(w.whole.Sum(nil))
	}
	digest, err := w.log.store(e, body)
	if err == nil && whole && digest != "" && e.Annotations[KeyTruncated] == "" {
		w.log.o.Bodies.keep(key, kept{wire: w.body.Len(), size: len(body), digest: digest})
	}
	return err
}

// release gives the buffer back.
func (w *recording) release() {
	if w.body != nil && w.body.Cap() <= pooledLimit {
		buffers.Put(w.body)
	}
	w.body = nil
	if w.stream != nil {
		w.stream.close()
	}
}
