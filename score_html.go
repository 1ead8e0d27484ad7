package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/report"
	"github.com/kubecase/kubecase/recorder"
)

// writeHTML writes the page of what was scored, with at most so many episodes call
// by call. The file appears whole or not at all, and for its owner alone.
func (s *scored) writeHTML(ctx context.Context, file string, details int) error {
	if details < 1 || details > 100_000 {
		return usagef("--html-details %d is no number of episodes: use 1 to 100000", details)
	}
	var b bytes.Buffer
	if err := s.page(details).WriteHTML(ctx, &b); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".report-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(b.Bytes())
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}

// page is what was scored as a report.
func (s *scored) page(details int) *report.Page {
	p := &report.Page{Title: "kubecase report", Notes: s.notes, Details: details}
	for _, e := range s.episodes {
		of := report.Episode{Score: e.score, Truth: e.of.Truth(), Attempt: e.episode.Attempt, Ended: outcomeText(e.episode)}
		of.Calls = func(ctx context.Context) (*recorder.Trajectory, []evaluator.Observation, error) {
			dir, err := e.folder.EpisodeDir(e.episode.ID)
			if err != nil {
				return nil, nil, err
			}
			t, err := loadTrajectory(dir, e.bodies, e.episode)
			if err != nil {
				return nil, nil, err
			}
			observations, _, err := e.of.Observe(ctx, t)
			return t, observations, err
		}
		p.Episodes = append(p.Episodes, of)
	}
	return p
}
