package report

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/recorder/runs"
)

// liveCalls is how many calls of an episode are kept for the live view, the latest.
const liveCalls = 200

// FollowOptions are what following a run needs.
type FollowOptions struct {
	Folder *runs.Folder
	// Score scores an episode that ended, with its trajectory where there is one.
	Score func(context.Context, *evaluator.Evaluator, runs.Episode) (*evaluator.Score, *recorder.Trajectory, error)
	// Ended says in words how an episode ended.
	Ended func(runs.Episode) string
	// Now is the time; nil: the machine's.
	Now func() time.Time
	// Shims read the requests of other sources than Kubernetes; see recorder.DeriveOptions.
	Shims map[string]recorder.ShimMapper
}

// Follower reads the folder of a run while it is written. It only reads: the run
// doesn't know of it. It is not safe for concurrent use; its board is.
type Follower struct {
	o          FollowOptions
	board      *Board
	bodies     *recorder.Bodies
	evaluators map[string]*evaluator.Evaluator
	episodes   map[string]*following
	totals     Totals
}

// following is what is known of an episode.
type following struct {
	ended bool
	// size of the record when it was last read.
	size    int64
	settled bool
	live    *Live
}

// Follow begins to follow a run.
func Follow(o FollowOptions) (*Follower, error) {
	bodies, err := o.Folder.Bodies()
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ended == nil {
		o.Ended = func(e runs.Episode) string { return string(e.Outcome) }
	}
	run := o.Folder.Run()
	return &Follower{
		o: o, board: NewBoard(), bodies: bodies, evaluators: map[string]*evaluator.Evaluator{}, episodes: map[string]*following{},
		totals: Totals{Agent: Plain(run.Agent, nameBound), Planned: len(run.Cases) * max(1, run.Repeat)},
	}, nil
}

// Board is where the follower shows what it found.
func (f *Follower) Board() *Board { return f.board }

// Finished reports whether every planned episode has ended.
func (f *Follower) Finished() bool { return f.totals.Ended >= f.totals.Planned }

// Over marks the run as over, with the reason.
func (f *Follower) Over(why string) {
	f.totals.Over = why
	f.board.set(f.totals)
}

// Poll reads what is new and returns the episodes that changed, in the run's order. Where an
// episode's record can't be read to its end, because its last line is being written,
// the rest comes with a later poll.
func (f *Follower) Poll(ctx context.Context) ([]*Live, error) {
	all, err := f.o.Folder.Episodes()
	if err != nil {
		return nil, err
	}
	var out []*Live
	var errs []error
	running := 0
	ended := map[string]bool{}
	for _, e := range all {
		if e.Outcome == "" {
			running++
		} else {
			ended[e.Case+"/"+strconv.Itoa(e.Attempt)] = true
		}
		state := f.episodes[e.ID]
		if state == nil {
			state = &following{size: -1}
			f.episodes[e.ID] = state
		}
		if state.ended {
			continue
		}
		live, err := f.read(ctx, e, state)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("episode %s: %w", e.ID, err))
			continue
		}
		if live != nil {
			f.board.put(live)
			out = append(out, live)
		}
	}
	f.totals.Running, f.totals.Ended = running, len(ended)
	f.board.set(f.totals)
	return out, errors.Join(errs...)
}

// evaluator of a case; nil for a case without truth.
func (f *Follower) evaluator(name string) (*evaluator.Evaluator, error) {
	if of, known := f.evaluators[name]; known {
		return of, nil
	}
	data, path, err := f.o.Folder.Truth(name)
	if errors.Is(err, fs.ErrNotExist) {
		f.evaluators[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	truth, err := evaluator.ParseTruth(path, data)
	if err != nil {
		return nil, err
	}
	f.evaluators[name] = evaluator.New(truth, evaluator.Options{Digest: func(u *recorder.Use) string { return u.ResponseDigest }})
	return f.evaluators[name], nil
}

// read reads an episode anew if there is something new; nil when there isn't.
func (f *Follower) read(ctx context.Context, e runs.Episode, state *following) (*Live, error) {
	of, err := f.evaluator(e.Case)
	if err != nil {
		return nil, err
	}
	dir, err := f.o.Folder.EpisodeDir(e.ID)
	if err != nil {
		return nil, err
	}
	if e.Outcome != "" {
		live, err := f.final(ctx, of, e)
		state.ended = err == nil
		return live, err
	}
	size, err := recorder.Written(dir)
	if err != nil {
		size = 0 // nothing was asked yet
	}
	if size == state.size && state.settled {
		return nil, nil
	}
	grown := size != state.size
	state.size = size
	t := recorder.Trajectory{Episode: e.ID, Captured: e.Captured}
	if size > 0 {
		// An error is a line that is being written; what came before it is here.
		t, _ = recorder.ReadTrajectory(dir, recorder.DeriveOptions{Episode: e.ID, Captured: e.Captured, Bodies: f.bodies, Shims: f.o.Shims}, e.CapturedTime)
	}
	live := &Live{ID: e.ID, Case: Plain(e.Case, nameBound), Attempt: e.Attempt}
	quiet := e.CapturedTime(f.o.Now()).Add(-recorder.DefaultQuietGap)
	f.calls(live, &t, func(i int) bool { return i < len(t.Calls)-1 || t.Calls[i].End.Before(quiet) })
	state.settled = len(t.Calls) == 0 || live.Calls[len(live.Calls)-1].Settled
	if !grown && !state.settled && state.live != nil {
		return nil, nil // nothing but time has passed
	}
	var process *evaluator.Process
	if of != nil && of.Truth().Graph != nil {
		observations, _, err := of.Observe(ctx, &t)
		if err != nil {
			return nil, err
		}
		process = evaluator.Scan(of.Truth().Graph, observations)
	}
	if err := live.evidence(of, process); err != nil {
		return nil, err
	}
	state.live = live
	return live, nil
}

// final is an episode that ended, as it is scored.
func (f *Follower) final(ctx context.Context, of *evaluator.Evaluator, e runs.Episode) (*Live, error) {
	live := &Live{ID: e.ID, Case: Plain(e.Case, nameBound), Attempt: e.Attempt, Ended: Plain(f.o.Ended(e), textBound)}
	if of == nil {
		live.Verdict = "not scored"
		return live, nil
	}
	score, t, err := f.o.Score(ctx, of, e)
	if err != nil {
		return nil, err
	}
	if t != nil {
		f.calls(live, t, func(int) bool { return true })
	}
	live.Verdict = verdict(score.Marks[evaluator.JRA])
	if live.Verdict == "right" {
		f.totals.Right++
	}
	if err := live.evidence(of, score.Process); err != nil {
		return nil, err
	}
	if live.Groups > 0 && live.Established == live.Groups {
		f.totals.Closed++
	}
	return live, nil
}

func (f *Follower) calls(live *Live, t *recorder.Trajectory, settled func(int) bool) {
	live.Count = len(t.Calls)
	live.Calls = []LiveCall{}
	for i := max(0, len(t.Calls)-liveCalls); i < len(t.Calls); i++ {
		c := &t.Calls[i]
		live.Calls = append(live.Calls, LiveCall{
			Index: c.Index, Since: since(c.Start, t.Captured), Command: Plain(c.Command, textBound), Uses: useTexts(c, maxUses),
			Class: Plain(string(c.Class), nameBound), Message: Plain(c.Message, textBound), Settled: settled(i),
		})
	}
}

// evidence sets what the process established.
func (l *Live) evidence(of *evaluator.Evaluator, process *evaluator.Process) error {
	l.Milestones = []LiveMilestone{}
	if of == nil || of.Truth().Graph == nil || process == nil {
		return nil
	}
	graph, states := of.Truth().Graph, process.States()
	l.Groups = len(process.Groups)
	for _, g := range process.Groups {
		if g.Established > 0 {
			l.Established++
		}
	}
	at := map[string]int{}
	for _, m := range process.Milestones {
		at[m.ID] = m.Established
	}
	for _, g := range graph.Groups {
		for _, m := range g.Milestones {
			l.Milestones = append(l.Milestones, LiveMilestone{Group: groupTitle(g), Fact: Plain(m.Fact, textBound), State: string(states[m.ID]), Call: at[m.ID]})
		}
	}
	drawing, err := Drawing(graph, states)
	l.Drawing = strings.TrimSpace(drawing)
	return err
}

// established are the milestones that a call established.
func (l *Live) established(call int) []LiveMilestone {
	var out []LiveMilestone
	for _, m := range l.Milestones {
		if m.Call == call {
			out = append(out, m)
		}
	}
	return out
}

// Interval is how long to wait before the next poll, given how long the last one took:
// following takes at most a fifth of a processor, however large the run.
func Interval(took time.Duration) time.Duration {
	return min(max(400*time.Millisecond, 4*took), time.Minute)
}

// missing are the groups that have no established milestone.
func (l *Live) missing() []string {
	var out, done []string
	for _, m := range l.Milestones {
		if m.Call > 0 {
			done = append(done, m.Group)
		}
	}
	for _, m := range l.Milestones {
		if !slices.Contains(done, m.Group) && !slices.Contains(out, m.Group) {
			out = append(out, m.Group)
		}
	}
	return out
}
