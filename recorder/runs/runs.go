// Package runs keeps what running agents on cases leaves behind: a folder that
// scoring, reports and a live view read, and that a run can be resumed from.
//
//	run.json             what was run: Run
//	truths/<case>.yaml   the truth of each case as it was when the run began
//	bodies/              response bodies of all episodes, by digest
//	episodes/<id>/       one episode: episode.json, its record, its answer, what the agent printed
//	running              locked for as long as the run goes on
//
// The folder is the operator's: it holds the truth, and no agent may see it.
package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubecase/kubecase/recorder"
)

// Version is the version of the folder's format that this package writes and reads.
const Version = "kubecase.io/run/v1"

// The files of a run and of an episode.
const (
	runFile, episodeFile         = "run.json", "episode.json"
	truthsFolder, episodesFolder = "truths", "episodes"
	bodiesFolder                 = "bodies"
	// AnswerFile holds what the agent answered, as it answered it.
	AnswerFile = "answer.txt"
	// StdoutFile and StderrFile hold what the agent printed, up to a bound.
	StdoutFile, StderrFile = "stdout.txt", "stderr.txt"
)

// maxDocument bounds a document of the folder that is read, in bytes.
const maxDocument = 16 << 20

// Run is what was run.
type Run struct {
	Version string    `json:"version"`
	Created time.Time `json:"created"`
	// Agent names the agent in figures.
	Agent string `json:"agent"`
	// Command is the agent's command line.
	Command []string `json:"command"`
	Cases   []Case   `json:"cases"`
	// Repeat is the number of episodes per case.
	Repeat int    `json:"repeat"`
	Clock  string `json:"clock"`
	// TimeLimit is in seconds, StepLimit in calls; 0: none.
	TimeLimit float64 `json:"timeLimit,omitempty"`
	StepLimit int     `json:"stepLimit,omitempty"`
}

// Case is a case of a run.
type Case struct {
	Name string `json:"name"`
	// Source is what names the case on a command line: a shipped name or a path.
	Source string `json:"source"`
	// System groups cases in figures.
	System string `json:"system,omitempty"`
}

// Outcome says how an episode ended.
type Outcome string

// The outcomes. Only Broken is not the agent's doing.
const (
	// Exited: the agent ended by itself, with whatever exit code.
	Exited Outcome = "exited"
	// TimeLimit and StepLimit: the agent was ended at its limit.
	TimeLimit Outcome = "time-limit"
	StepLimit Outcome = "step-limit"
	// Broken: the infrastructure failed (the agent couldn't be started, the record
	// couldn't be written). Such an episode is unscored.
	Broken Outcome = "broken"
)

// Episode is one agent's investigation of one case.
type Episode struct {
	ID   string `json:"id"`
	Case string `json:"case"`
	// Attempt counts the episodes of a case from 1.
	Attempt int `json:"attempt"`
	// Started and Ended are the machine's time; Ended is zero while it runs.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Captured is the capture instant, at which the episode began in the case's time.
	Captured time.Time `json:"captured"`
	Outcome  Outcome   `json:"outcome,omitempty"`
	// ExitCode of the agent; nil when it was ended or never began.
	ExitCode *int `json:"exitCode,omitempty"`
	// Message says what broke.
	Message string `json:"message,omitempty"`
	// AnswerFrom is where the answer came from: "submit", "file", "stdout", or empty.
	AnswerFrom string `json:"answerFrom,omitempty"`
}

// Finished reports whether the episode needn't be run again.
func (e Episode) Finished() bool { return e.Outcome != "" && e.Outcome != Broken }

// CapturedTime is a moment of the machine as a moment of the case: the episode
// began at the capture instant.
func (e Episode) CapturedTime(t time.Time) time.Time {
	return e.Captured.Add(t.Sub(e.Started)).UTC()
}

// Folder is a run's folder.
type Folder struct {
	dir string
	run Run
}

// Create makes the folder of a new run; dir must not hold a run already.
func Create(dir string, run Run) (*Folder, error) {
	run.Version = Version
	if _, err := os.Stat(filepath.Join(dir, runFile)); err == nil {
		return nil, fmt.Errorf("%s holds a run already: go on with it with --resume, or name another folder", dir)
	}
	for _, folder := range []string{"", truthsFolder, episodesFolder} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	f := &Folder{dir: dir, run: run}
	return f, writeDocument(filepath.Join(dir, runFile), run)
}

// Open opens a run's folder.
func Open(dir string) (*Folder, error) {
	f := &Folder{dir: dir}
	if err := readDocument(filepath.Join(dir, runFile), &f.run); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is no run: it has no %s; name a folder that 'kubecase run' made: %w", dir, runFile, fs.ErrNotExist)
		}
		return nil, err
	}
	if f.run.Version != Version {
		return nil, fmt.Errorf("%s: version %q is unknown; this kubecase reads %s", filepath.Join(dir, runFile), f.run.Version, Version)
	}
	return f, nil
}

// Dir is the folder's path.
func (f *Folder) Dir() string { return f.dir }

// Run is what was run.
func (f *Folder) Run() Run { return f.run }

// Bodies opens the bodies of the run.
func (f *Folder) Bodies() (*recorder.Bodies, error) {
	return recorder.OpenBodies(filepath.Join(f.dir, bodiesFolder))
}

// safeName is what a case's name or an episode's id may be: it becomes a file's name.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// WriteTruth keeps a case's truth.
func (f *Folder) WriteTruth(name string, truth []byte) error {
	if !safeName.MatchString(name) {
		return fmt.Errorf("%q can't be a case's name", name)
	}
	return os.WriteFile(filepath.Join(f.dir, truthsFolder, name+".yaml"), truth, 0o600)
}

// Truth is the truth of a case as it was when the run began, and the path of its
// file; fs.ErrNotExist for a case without one.
func (f *Folder) Truth(name string) (truth []byte, path string, err error) {
	if !safeName.MatchString(name) {
		return nil, "", fmt.Errorf("%q can't be a case's name", name)
	}
	path = filepath.Join(f.dir, truthsFolder, name+".yaml")
	truth, err = readFile(path)
	return truth, path, err
}

// EpisodeDir is the folder of an episode; it is made where there is none.
func (f *Folder) EpisodeDir(id string) (string, error) {
	if !safeName.MatchString(id) {
		return "", fmt.Errorf("%q can't be an episode's id", id)
	}
	dir := filepath.Join(f.dir, episodesFolder, id)
	return dir, os.MkdirAll(dir, 0o700)
}

// WriteEpisode keeps an episode's state.
func (f *Folder) WriteEpisode(e Episode) error {
	dir, err := f.EpisodeDir(e.ID)
	if err != nil {
		return err
	}
	return writeDocument(filepath.Join(dir, episodeFile), e)
}

// Episodes are all episodes, by case in the run's order, then attempt, then start.
func (f *Folder) Episodes() ([]Episode, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, episodesFolder))
	if err != nil {
		return nil, err
	}
	var out []Episode
	for _, entry := range entries {
		if !entry.IsDir() || !safeName.MatchString(entry.Name()) {
			continue
		}
		e := Episode{}
		name := filepath.Join(f.dir, episodesFolder, entry.Name(), episodeFile)
		if err := readDocument(name, &e); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was just being made
			}
			return nil, err
		}
		if e.ID != entry.Name() {
			return nil, fmt.Errorf("%s: is of the episode %q; a folder has its episode's id as its name", name, e.ID)
		}
		out = append(out, e)
	}
	order := map[string]int{}
	for i, c := range f.run.Cases {
		order[c.Name] = i
	}
	slices.SortStableFunc(out, func(a, b Episode) int {
		if d := order[a.Case] - order[b.Case]; d != 0 {
			return d
		}
		if d := a.Attempt - b.Attempt; d != 0 {
			return d
		}
		if d := a.Started.Compare(b.Started); d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// readFile reads a file of bounded size.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxDocument {
		return nil, fmt.Errorf("%s: has %d bytes, more than %d", name, info.Size(), maxDocument)
	}
	return os.ReadFile(name)
}

func readDocument(name string, into any) error {
	data, err := readFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeDocument replaces a document whole: a reader sees the old or the new one.
func writeDocument(name string, document any) error {
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	temporary := name + ".new"
	if err := os.WriteFile(temporary, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}
