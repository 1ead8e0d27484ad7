package report

import (
	"slices"
	"sync"
)

// shownEpisodes is how many episodes a board keeps: those that run, and the latest that ended.
const shownEpisodes = 60

// Live is an episode as far as it is known. It isn't changed once it is on a board.
type Live struct {
	ID      string `json:"id"`
	Case    string `json:"case"`
	Attempt int    `json:"attempt"`
	// Ended says how it ended; empty while it goes on.
	Ended   string `json:"ended,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	// Calls are the latest ones, of Count.
	Calls []LiveCall `json:"calls"`
	Count int        `json:"count"`
	// Milestones are all of the case's, in the order of its graph.
	Milestones []LiveMilestone `json:"milestones"`
	// Established and Groups count groups.
	Established int `json:"established"`
	Groups      int `json:"groups"`
	// Drawing is the evidence graph as it is now: SVG without a style sheet.
	Drawing string `json:"drawing,omitempty"`

	version uint64
}

// LiveCall is a call as far as it is known.
type LiveCall struct {
	Index   int      `json:"index"`
	Since   string   `json:"since"`
	Command string   `json:"command"`
	Uses    []string `json:"uses,omitempty"`
	Class   string   `json:"class"`
	Message string   `json:"message,omitempty"`
	// Settled: the call is over, and no later request can become part of it.
	Settled bool `json:"settled"`
}

// LiveMilestone is a fact and the call that established it, 0 for none yet.
type LiveMilestone struct {
	Group string `json:"group"`
	Fact  string `json:"fact"`
	State string `json:"state"`
	Call  int    `json:"call"`
}

// Totals are of the whole run.
type Totals struct {
	Agent   string `json:"agent"`
	Planned int    `json:"planned"`
	Running int    `json:"running"`
	Ended   int    `json:"ended"`
	Right   int    `json:"right"`
	Closed  int    `json:"closed"`
	// Over says why nothing more will come; empty while something may.
	Over string `json:"over,omitempty"`
	// Shown are the ids of the episodes that are on the board, in their order.
	Shown []string `json:"shown"`
}

// Board is what is known of a run that goes on. One goroutine writes it and any number
// read it, each at its own speed: a reader asks for what changed since it last asked, so
// that a slow one misses steps and never delays the others. It is safe for concurrent use.
type Board struct {
	mu       sync.Mutex
	version  uint64
	totals   Totals
	episodes []*Live
	changed  chan struct{} // closed at the next change
}

// NewBoard is an empty board.
func NewBoard() *Board { return &Board{changed: make(chan struct{})} }

// put replaces an episode, or adds it.
func (b *Board) put(e *Live) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	e.version = b.version
	if i := slices.IndexFunc(b.episodes, func(o *Live) bool { return o.ID == e.ID }); i >= 0 {
		b.episodes[i] = e
	} else {
		b.episodes = append(b.episodes, e)
	}
	for len(b.episodes) > shownEpisodes {
		i := slices.IndexFunc(b.episodes, func(o *Live) bool { return o.Ended != "" })
		b.episodes = slices.Delete(b.episodes, max(0, i), max(0, i)+1)
	}
	b.notify()
}

// set replaces the totals.
func (b *Board) set(t Totals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.Shown = []string{}
	for _, e := range b.episodes {
		t.Shown = append(t.Shown, e.ID)
	}
	old := b.totals
	if slices.Equal(old.Shown, t.Shown) {
		old.Shown, t.Shown = nil, nil
		if sameTotals(old, t) {
			return
		}
		t.Shown = b.totals.Shown
	}
	b.totals = t
	b.version++
	b.notify()
}

func sameTotals(a, b Totals) bool {
	return a.Agent == b.Agent && a.Planned == b.Planned && a.Running == b.Running && a.Ended == b.Ended && a.Right == b.Right && a.Closed == b.Closed && a.Over == b.Over
}

func (b *Board) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Since returns the totals and the episodes that changed after a version, 0 for all; the
// version that this is; and a channel that is closed when there is something newer.
func (b *Board) Since(version uint64) (t Totals, episodes []*Live, now uint64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.episodes {
		if e.version > version {
			episodes = append(episodes, e)
		}
	}
	return b.totals, episodes, b.version, b.changed
}
