package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/report"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/recorder/runs"
)

// heldFile is locked in a run's folder for as long as the run goes on. The kernel lets
// go of the lock however the process ends.
const heldFile = "running"

// holdRun marks a run as going on, until it is released. Two processes can't go on with the
// same run.
func holdRun(dir string) (release func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, heldFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if busy, err := lockFile(f, false); err != nil {
		_ = f.Close()
		if busy {
			return nil, fmt.Errorf("%s: another kubecase goes on with this run; wait until it ends", dir)
		}
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, heldFile), err)
	}
	return f.Close, nil
}

// isHeld reports whether a run goes on.
func isHeld(dir string) bool {
	f, err := os.Open(filepath.Join(dir, heldFile))
	if err != nil {
		return false
	}
	defer f.Close()
	// A shared lock is let go at once: other watchers may look at the same time.
	busy, _ := lockFile(f, true)
	return busy
}

func (a *app) newWatch() *cobra.Command {
	c := &cobra.Command{
		Use:   "watch RUN",
		Short: "Follow a run that is going on: calls as they come, milestones as they light up",
		Long: `Follow a run that is going on, from its folder: episodes, calls as they come, and
milestones as they light up. It ends when the run has ended.

With --listen it serves a page too, at an address of its own that is printed with
its token, and goes on until it is interrupted. The page is for the operator: it tells
the truth of the cases. It isn't encrypted, so it listens on loopback addresses only.

What kubectl printed is known when an episode ends. Until then an answer counts for
what it held, and a milestone may be lit that is taken back in the end.`,
		Example: `  kubecase watch runs/2026-12-01T10-00-00-my-agent
  kubecase watch runs/2026-12-01T10-00-00-my-agent --listen 127.0.0.1:8080`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := runs.Open(args[0])
			if err != nil {
				return usageError{err}
			}
			w, err := a.newWatcher(folder)
			if err != nil {
				return err
			}
			listen := a.config.GetString("listen")
			if listen == "" {
				return w.follow(cmd.Context())
			}
			return w.serve(cmd.Context(), listen)
		},
	}
	c.Flags().String("listen", "", "serve a page at this loopback address too, as 127.0.0.1:PORT; port 0: any that is free")
	return c
}

// watcher follows one run and tells of it.
type watcher struct {
	app      *app
	folder   *runs.Folder
	follower *report.Follower
	lines    *report.Lines
}

func (a *app) newWatcher(folder *runs.Folder) (*watcher, error) {
	bodies, err := folder.Bodies()
	if err != nil {
		return nil, err
	}
	systems := map[string]string{}
	for _, c := range folder.Run().Cases {
		systems[c.Name] = c.System
	}
	w := &watcher{app: a, folder: folder, lines: report.NewLines(a.out, a.coloured(a.out))}
	w.follower, err = report.Follow(report.FollowOptions{
		Shims:  shimMappers,
		Folder: folder, Ended: outcomeText,
		Score: func(ctx context.Context, of *evaluator.Evaluator, e runs.Episode) (*evaluator.Score, *recorder.Trajectory, error) {
			score, err := scoreEpisode(ctx, folder, bodies, of, e, systems[e.Case])
			if err != nil || e.Outcome == runs.Broken {
				return score, nil, err
			}
			dir, err := folder.EpisodeDir(e.ID)
			if err != nil {
				return nil, nil, err
			}
			// A record that is damaged is said so by the score.
			t, _ := loadTrajectory(dir, bodies, e)
			return score, t, nil
		},
	})
	return w, err
}

// coloured reports whether a stream is a terminal whose user wants colours (no-color.org).
func (a *app) coloured(w io.Writer) bool {
	f, ok := w.(*os.File)
	no, _ := a.lookup("NO_COLOR")
	kind, _ := a.lookup("TERM")
	return ok && no == "" && kind != "dumb" && term.IsTerminal(int(f.Fd()))
}

// follow tells of the run until it has ended.
func (w *watcher) follow(ctx context.Context) error {
	idle := 0
	for {
		began := time.Now()
		held := isHeld(w.folder.Dir()) // before: what is written until it is let go is read below
		changed, err := w.follower.Poll(ctx)
		if ctx.Err() != nil {
			return nil // whoever watches has seen enough
		}
		if err != nil {
			return err
		}
		for _, e := range changed {
			if err := w.lines.Tell(e); err != nil {
				return err
			}
		}
		if idle++; held {
			idle = 0
		}
		if idle > 1 { // twice, for a run whose folder is just being made
			why := "finished"
			if !w.follower.Finished() {
				why = "stopped before its end"
			}
			w.follower.Over(why)
			totals, _, _, _ := w.follower.Board().Since(0)
			return w.lines.Totals(totals)
		}
		timer := time.NewTimer(report.Interval(time.Since(began)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// serve tells of the run on a page too, until it is interrupted.
func (w *watcher) serve(ctx context.Context, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return usagef("--listen %q is no loopback address with a port: use 127.0.0.1:8080, and 'ssh -L' to see it from elsewhere", address)
	}
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	token := report.NewToken()
	// Streams end with the command.
	streams, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: report.NewLivePage(w.follower.Board(), token), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return streams },
	}
	fmt.Fprintf(w.app.err, "page: http://%s/?token=%s\n", listener.Addr(), token)
	var group errgroup.Group
	following, cancel := context.WithCancel(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel()
			return err
		}
		return nil
	})
	err = w.follow(following)
	if err == nil {
		<-following.Done()
	}
	cancel()
	end()
	patience, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	return errors.Join(err, server.Shutdown(patience), group.Wait())
}
