package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// PathPrefix is where episodes live: "/e/<opaque id>".
const PathPrefix = "/e/"

// ReaderName is the user of an episode that investigates as a reader of
// everything that was captured.
const ReaderName = "investigator"

// EpisodeOptions say what an episode sees.
type EpisodeOptions struct {
	// Case is held open by the caller for as long as the episode exists.
	Case *fixtures.Case
	// Clock is clock.Shifted when empty.
	Clock clock.Mode
	// Start is when the episode began; zero means now.
	Start time.Time
	// Present, with clock.Captured, is the instant of the sweep at which ages are counted;
	// zero: the capture instant. What was captured is the same at each.
	Present time.Time
	// User makes the episode a captured subject, for whom the captured Roles
	// and Bindings decide. Empty: a reader of everything.
	User string
	// UID of User, as the cluster's authenticator would give it.
	UID string
	// Groups of User, besides system:authenticated.
	Groups []string
	// NoDebug refuses the debugging pods that `kubectl debug node/…` makes.
	NoDebug bool
	// Wrap, if set, is put around the episode's whole handler; the requests that pass
	// have lost the episode's path. It may answer itself.
	Wrap func(http.Handler) http.Handler
}

// Episode is one investigation of one case: an opaque path, a token, a subject.
type Episode struct {
	// ID is random and says nothing of the case.
	ID string
	// Token is the bearer token that ID accepts, and no other episode does.
	Token string
	// Clock is the episode's view of the case's time.
	Clock clock.Clock
	// Start is when the episode began.
	Start time.Time

	snapshot  *snapshot
	subject   user.Info
	reader    bool
	noDebug   bool
	debugging debugging
	// forget drops what was kept of the answers of a view.
	forget      func(*snapshot)
	handler     http.Handler
	tokenDigest [sha256.Size]byte
}

// Path is the prefix of the episode's URLs.
func (e *Episode) Path() string { return PathPrefix + e.ID }

// User is the name that the episode's token authenticates as.
func (e *Episode) User() string { return e.subject.GetName() }

func (e *Episode) accepts(token string) bool {
	digest := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(digest[:], e.tokenDigest[:]) == 1
}

func newEpisode(s *snapshot, o EpisodeOptions) (*Episode, error) {
	switch o.Clock {
	case "":
		o.Clock = clock.Shifted
	case clock.Shifted, clock.Captured:
	default:
		return nil, fmt.Errorf("unknown clock %q: use %q or %q", o.Clock, clock.Shifted, clock.Captured)
	}
	if o.User == "" && len(o.Groups) > 0 {
		return nil, fmt.Errorf("groups %s without a user: name the user that is in them", strings.Join(o.Groups, ", "))
	}
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	present := s.captured
	if !o.Present.IsZero() {
		if o.Clock != clock.Captured {
			return nil, fmt.Errorf("a present with the %s clock, which moves: use %s", o.Clock, clock.Captured)
		}
		present = o.Present
	}
	var secret [48]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, err
	}
	e := &Episode{
		ID:       hex.EncodeToString(secret[:16]),
		Token:    base64.RawURLEncoding.EncodeToString(secret[16:]),
		Clock:    clock.New(o.Clock, present, o.Start),
		Start:    o.Start,
		snapshot: s,
		reader:   o.User == "",
		noDebug:  o.NoDebug,
	}
	e.tokenDigest = sha256.Sum256([]byte(e.Token))
	name := o.User
	if e.reader {
		name = ReaderName
	}
	groups := append([]string(nil), o.Groups...)
	switch {
	case name == user.Anonymous:
		groups = append(groups, user.AllUnauthenticated)
	default:
		groups = append(groups, user.AllAuthenticated)
	}
	e.subject = &user.DefaultInfo{Name: name, UID: o.UID, Groups: groups}
	return e, nil
}

// episodes is the set of live episodes by id and by token.
type episodes struct {
	mu      sync.RWMutex
	byID    map[string]*Episode
	byToken map[[sha256.Size]byte]*Episode
}

func (s *episodes) add(e *Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[e.ID] = e
	s.byToken[e.tokenDigest] = e
}

func (s *episodes) remove(e *Episode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, e.ID)
	delete(s.byToken, e.tokenDigest)
}

// use reports whether any episode is of a snapshot.
func (s *episodes) use(snap *snapshot) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.byID {
		if e.snapshot == snap {
			return true
		}
	}
	return false
}

func (s *episodes) get(id string) *Episode {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// withToken is the episode of a token; nil for one that is nobody's.
func (s *episodes) withToken(token string) *Episode {
	digest := sha256.Sum256([]byte(token))
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byToken[digest]
}

type episodeKey struct{}

func withEpisode(ctx context.Context, e *Episode) context.Context {
	return context.WithValue(ctx, episodeKey{}, e)
}

// episodeFrom returns the episode of a request inside the handler chain, which
// always has one.
func episodeFrom(ctx context.Context) *Episode {
	return ctx.Value(episodeKey{}).(*Episode)
}
