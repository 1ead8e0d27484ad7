package apiserver

import (
	"bytes"
	lru "container/list"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// cacheBytes bounds the answers that a server keeps.
	cacheBytes = 64 << 20
	// cachedAnswerBytes bounds one kept answer, cachedKeyBytes what it is kept by.
	cachedAnswerBytes, cachedKeyBytes = 8 << 20, 2 << 10
)

// answerKey is all that an answer about captured objects depends on. Rights are
// decided before; what a subject may see at all doesn't depend on who asks.
type answerKey struct {
	snapshot *snapshot
	offset   time.Duration
	uri      string
	accept   string
	encoding string
	indented bool
	// present is the episode's second of a Table, whose ages move; zero for what
	// doesn't change within an episode.
	present int64
}

// keptAnswer is a complete answer with status 200.
type keptAnswer struct {
	key    answerKey
	header http.Header
	body   []byte
}

func (a *keptAnswer) size() int { return len(a.body) + len(a.key.uri) + len(a.key.accept) + 512 }

// answerCache keeps the answers that were used last.
type answerCache struct {
	mu    sync.Mutex
	byKey map[answerKey]*lru.Element
	order *lru.List
	bytes int
}

func newAnswerCache() *answerCache {
	return &answerCache{byKey: map[answerKey]*lru.Element{}, order: lru.New()}
}

func (c *answerCache) get(key answerKey) *keptAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.byKey[key]
	if element == nil {
		return nil
	}
	c.order.MoveToFront(element)
	return element.Value.(*keptAnswer)
}

func (c *answerCache) add(a *keptAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[a.key] != nil {
		return
	}
	c.byKey[a.key] = c.order.PushFront(a)
	for c.bytes += a.size(); c.bytes > cacheBytes; {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		kept := oldest.Value.(*keptAnswer)
		delete(c.byKey, kept.key)
		c.bytes -= kept.size()
	}
}

// forget drops a snapshot's answers.
func (c *answerCache) forget(s *snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, element := range c.byKey {
		if key.snapshot == s {
			c.order.Remove(element)
			delete(c.byKey, key)
			c.bytes -= element.Value.(*keptAnswer).size()
		}
	}
}

// keyOf is what the answer to a get or list can be kept by.
func keyOf(req *http.Request, info *request.RequestInfo, of *snapshot, now time.Time) (key answerKey, ok bool) {
	if req.Method != http.MethodGet || info.Verb != "get" && info.Verb != "list" {
		return key, false
	}
	e := episodeFrom(req.Context())
	agent := req.UserAgent()
	key = answerKey{
		snapshot: of, offset: e.Clock.Offset(), uri: req.URL.Path + "?" + req.URL.RawQuery,
		accept: strings.Join(req.Header.Values("Accept"), ","), encoding: req.Header.Get("Accept-Encoding"),
		// Upstream indents for what people read (negotiation, isPrettyPrint).
		indented: strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0"),
	}
	if strings.Contains(key.accept, "as=Table") {
		key.present = e.Clock.Present(now).Unix()
	}
	return key, len(key.uri)+len(key.accept)+len(key.encoding) <= cachedKeyBytes
}

// keeping answers from the cache, or lets answer write and keeps what it wrote.
func (c *answerCache) keeping(w http.ResponseWriter, key answerKey, answer func(http.ResponseWriter)) {
	if kept := c.get(key); kept != nil {
		for name, values := range kept.header {
			w.Header()[name] = values
		}
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(kept.body) // a client that left needs no answer
		return
	}
	before := w.Header().Clone()
	k := &keepingWriter{ResponseWriter: w, status: http.StatusOK}
	answer(k)
	if k.status != http.StatusOK || k.tooLarge || k.body.Len() == 0 {
		return
	}
	header := http.Header{}
	for name, values := range w.Header() {
		if before[name] == nil {
			header[name] = values
		}
	}
	c.add(&keptAnswer{key: key, header: header, body: bytes.Clone(k.body.Bytes())})
}

// keepingWriter copies what passes through it.
type keepingWriter struct {
	http.ResponseWriter
	status   int
	body     bytes.Buffer
	tooLarge bool
}

// WriteHeader implements http.ResponseWriter.
func (k *keepingWriter) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (k *keepingWriter) Write(p []byte) (int, error) {
	n, err := k.ResponseWriter.Write(p)
	switch {
	case err != nil || n < len(p) || k.body.Len()+n > cachedAnswerBytes:
		k.tooLarge = true
		k.body = bytes.Buffer{}
	case !k.tooLarge:
		k.body.Write(p)
	}
	return n, err
}

// Unwrap lets http.ResponseController see the connection.
func (k *keepingWriter) Unwrap() http.ResponseWriter { return k.ResponseWriter }
