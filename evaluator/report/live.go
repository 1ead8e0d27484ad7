package report

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/kubecase/kubecase/evaluator"
)

// The live page's limits.
const (
	maxReaders = 32
	// pace is the least time between two messages to one reader.
	pace      = 250 * time.Millisecond
	heartbeat = 15 * time.Second
	// readerPatience is how long a write to a reader may take before it is dropped.
	readerPatience = 10 * time.Second
)

var (
	//go:embed live.html
	liveHTML []byte
	//go:embed live.js
	liveJS []byte
	//go:embed live.css
	liveCSS string
)

// NewToken makes a token that can't be guessed: 256 random bits.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// LivePage serves a board as a page that changes while it is looked at. Everything it
// serves asks for the admin token: as ?token=… of the page's address, once, and then by
// a cookie that the browser sends to this address alone.
type LivePage struct {
	board   *Board
	token   [sha256.Size]byte
	cookie  string
	session string
	engine  *gin.Engine
	readers chan struct{}
	// run tells a reader that comes back whether its position is one of this board.
	run string
}

// NewLivePage makes the page of a board; token must come from NewToken.
func NewLivePage(board *Board, token string) *LivePage {
	gin.SetMode(gin.ReleaseMode)
	sum := sha256.Sum256([]byte(token))
	p := &LivePage{
		board: board, token: sum, session: NewToken(), run: NewToken()[:8], engine: gin.New(), readers: make(chan struct{}, maxReaders),
		// Cookies don't tell ports apart: two pages on one host have two names.
		cookie: "kubecase-watch-" + hex.EncodeToString(sum[:4]),
	}
	p.engine.HandleMethodNotAllowed = true
	p.engine.RedirectTrailingSlash = false
	p.engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }), headers, p.admit)
	text := func(contentType string, body []byte) gin.HandlerFunc {
		return func(c *gin.Context) { c.Data(http.StatusOK, contentType, body) }
	}
	p.engine.GET("/", text("text/html; charset=utf-8", liveHTML))
	p.engine.GET("/live.js", text("text/javascript; charset=utf-8", liveJS))
	p.engine.GET("/live.css", text("text/css; charset=utf-8", []byte(sharedCSS+liveCSS+evaluator.SVGStyle)))
	p.engine.GET("/favicon.ico", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	p.engine.GET("/events", p.events)
	return p
}

// ServeHTTP implements http.Handler.
func (p *LivePage) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.engine.ServeHTTP(w, r) }

// headers keep the page out of caches, frames and other pages' reach.
func headers(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// admit lets in who has the token or the cookie; digests are compared, in constant time.
func (p *LivePage) admit(c *gin.Context) {
	if given, err := c.Cookie(p.cookie); err == nil && same(sha256.Sum256([]byte(given)), sha256.Sum256([]byte(p.session))) {
		return
	}
	if c.Request.URL.Path == "/" && same(sha256.Sum256([]byte(c.Query("token"))), p.token) {
		http.SetCookie(c.Writer, &http.Cookie{Name: p.cookie, Value: p.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		return
	}
	c.Data(http.StatusUnauthorized, "text/plain; charset=utf-8", []byte("open the address that 'kubecase watch' printed, with its token\n"))
	c.Abort()
}

func same(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// events streams what changes. A reader that comes back says where it was, and gets
// what changed since; one of another board gets everything.
func (p *LivePage) events(c *gin.Context) {
	select {
	case p.readers <- struct{}{}:
		defer func() { <-p.readers }()
	default:
		c.String(http.StatusServiceUnavailable, "%d readers are here already\n", maxReaders)
		return
	}
	h := c.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(c.Writer)
	send := func(text string) bool {
		// A server without deadlines, as in tests, is no reason to fail.
		if err := control.SetWriteDeadline(time.Now().Add(readerPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := io.WriteString(c.Writer, text); err != nil {
			return false
		}
		c.Writer.Flush()
		return true
	}
	if !send("retry: 1000\n\n") {
		return
	}
	version := p.position(c.GetHeader("Last-Event-ID"))
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	first := true
	for {
		totals, episodes, now, changed := p.board.Since(version)
		if now != version || first {
			first = false
			text, err := message(totals, episodes, p.run+"."+strconv.FormatUint(now, 10))
			if err != nil || !send(text) {
				return
			}
			version = now
		}
		select {
		case <-c.Request.Context().Done():
			return
		case <-beat.C:
			if !send(": still here\n\n") {
				return
			}
		case <-changed:
			timer := time.NewTimer(pace)
			select {
			case <-c.Request.Context().Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	}
}

// position reads an event's id; 0 for one of another board.
func (p *LivePage) position(id string) uint64 {
	run, number, _ := strings.Cut(id, ".")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || run != p.run {
		return 0
	}
	return version
}

// message is one event: the totals and what changed, as JSON on one line.
func message(t Totals, episodes []*Live, id string) (string, error) {
	if episodes == nil {
		episodes = []*Live{}
	}
	data, err := json.Marshal(struct {
		Totals   Totals  `json:"totals"`
		Episodes []*Live `json:"episodes"`
	}{t, episodes})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("id: %s\ndata: %s\n\n", id, data), nil
}
