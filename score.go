package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/report"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/recorder/runs"
)

func (a *app) newScore() *cobra.Command {
	c := &cobra.Command{
		Use:   "score RUN...",
		Short: "Score recorded runs: outcome, evidence and cost, per agent",
		Long: `Score recorded runs. Nothing is run again: the same recordings and the same
truth give the same figures. Intervals are 95 % bootstrap intervals over cases;
with exactly two agents they are compared over the cases that both have.

Figures of authored evidence graphs and of derived ones are never mixed; what was not
scored is counted beside them and never as zero.`,
		Example: `  kubecase score runs/2026-12-01T10-00-00-my-agent
  kubecase score runs/* --by agent,difficulty -o markdown
  kubecase score runs/* --html report.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			format, err := a.outputFormat("csv", "markdown")
			if err != nil {
				return err
			}
			by, err := dimensions(a.config.GetStringSlice("by"))
			if err != nil {
				return err
			}
			var folders []*runs.Folder
			var errs []error
			for _, dir := range dirs {
				folder, err := runs.Open(dir)
				errs = append(errs, err)
				folders = append(folders, folder)
			}
			if err := errors.Join(errs...); err != nil {
				return usageError{err}
			}
			s, err := scoreRuns(cmd.Context(), folders, a.config.GetBool("current-truth"))
			if err != nil {
				return err
			}
			s.by = by
			if file := a.config.GetString("html"); file != "" {
				if err := s.writeHTML(cmd.Context(), file, a.config.GetInt("html-details")); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "report: %s\n", file)
			}
			return a.printScores(s, format)
		},
	}
	f := c.Flags()
	f.StringSlice("by", []string{"agent"}, "break the figures down by agent, system, category, difficulty; several separated by commas")
	f.String("html", "", "write a page to this file too; it tells the truth of the cases")
	f.Int("html-details", report.DefaultDetails, "show at most so many episodes call by call in the page")
	f.Bool("current-truth", false, "score against the cases' truth as it is now, not as it was when the run began")
	addOutputFlag(c, false)
	c.Flags().Lookup("output").Usage = "output format: json, yaml, csv or markdown"
	return c
}

func dimensions(names []string) ([]evaluator.Dimension, error) {
	var out []evaluator.Dimension
	for _, name := range names {
		d := evaluator.Dimension(strings.TrimSpace(name))
		if !slices.Contains([]evaluator.Dimension{evaluator.ByAgent, evaluator.BySystem, evaluator.ByCategory, evaluator.ByDifficulty}, d) {
			return nil, usagef("--by %q is unknown: use agent, system, category, difficulty", name)
		}
		out = append(out, d)
	}
	return out, nil
}

// scored is what scoring gives.
type scored struct {
	by       []evaluator.Dimension
	scores   []*evaluator.Score
	episodes []scoredEpisode
	// notes are what the reader should know, such as cases without truth.
	notes []string
}

// scoredEpisode is an episode beside its score.
type scoredEpisode struct {
	folder  *runs.Folder
	episode runs.Episode
	system  string
	score   *evaluator.Score
	of      *evaluator.Evaluator
	bodies  *recorder.Bodies
}

// holdsAnswer reports whether a text holds a diagnosis.
func holdsAnswer(text []byte) bool {
	_, err := evaluator.FindSubmission(text)
	return err == nil
}

// scoreRuns scores every episode of the runs, in their order.
func scoreRuns(ctx context.Context, folders []*runs.Folder, current bool) (*scored, error) {
	s := &scored{by: []evaluator.Dimension{evaluator.ByAgent}}
	var errs []error
	withoutTruth := map[string]bool{}
	for _, folder := range folders {
		bodies, err := folder.Bodies()
		if err != nil {
			return nil, err
		}
		evaluators := map[string]*evaluator.Evaluator{}
		systems := map[string]string{}
		for _, c := range folder.Run().Cases {
			systems[c.Name] = c.System
			truth, err := loadTruth(folder, c, current)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				withoutTruth[c.Name] = true
				continue
			case err != nil:
				errs = append(errs, err)
				continue
			}
			evaluators[c.Name] = evaluator.New(truth, evaluator.Options{
				Digest: func(u *recorder.Use) string { return u.ResponseDigest },
				Load:   func(u *recorder.Use) error { return u.LoadResponse(bodies) },
			})
		}
		episodes, err := folder.Episodes()
		if err != nil {
			return nil, err
		}
		for _, e := range latest(episodes) {
			of := evaluators[e.Case]
			if of == nil || e.Outcome == "" {
				continue
			}
			s.episodes = append(s.episodes, scoredEpisode{folder: folder, episode: e, system: systems[e.Case], of: of, bodies: bodies})
		}
	}
	// Only when the list stands: each episode's score is then written to its own place.
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range s.episodes {
		e := &s.episodes[i]
		group.Go(func() (err error) {
			e.score, err = scoreEpisode(ctx, e.folder, e.bodies, e.of, e.episode, e.system)
			return err
		})
	}
	if err := errors.Join(append(errs, group.Wait())...); err != nil {
		return nil, err
	}
	for _, e := range s.episodes {
		s.scores = append(s.scores, e.score)
	}
	for _, name := range slices.Sorted(maps.Keys(withoutTruth)) {
		s.notes = append(s.notes, name+" has no truth.yaml: its episodes are recorded and not scored")
	}
	return s, nil
}

// latest leaves one episode per case and attempt: a broken one that was run again
// doesn't count twice.
func latest(episodes []runs.Episode) []runs.Episode {
	at := map[string]int{}
	var out []runs.Episode
	for _, e := range episodes {
		key := e.Case + "/" + strconv.Itoa(e.Attempt)
		i, seen := at[key]
		switch {
		case !seen:
			at[key] = len(out)
			out = append(out, e)
		case !out[i].Finished():
			out[i] = e
		}
	}
	return out
}

func loadTruth(folder *runs.Folder, c runs.Case, current bool) (*evaluator.Truth, error) {
	if !current {
		data, path, err := folder.Truth(c.Name)
		if err != nil {
			return nil, err
		}
		return evaluator.ParseTruth(path, data)
	}
	fixture, err := openCase(c.Source)
	if err != nil {
		return nil, err
	}
	data, err := readTruth(fixture)
	if err = errors.Join(err, fixture.Close()); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fs.ErrNotExist
	}
	return evaluator.ParseTruth(truthName(c.Name), data)
}

func scoreEpisode(ctx context.Context, folder *runs.Folder, bodies *recorder.Bodies, of *evaluator.Evaluator, e runs.Episode, system string) (*evaluator.Score, error) {
	ep := evaluator.Episode{Case: e.Case, System: system, Agent: folder.Run().Agent, ID: e.ID}
	if e.Outcome == runs.Broken {
		ep.Infrastructure = e.Message
		return of.Score(ctx, ep)
	}
	dir, err := folder.EpisodeDir(e.ID)
	if err != nil {
		return nil, err
	}
	if ep.Trajectory, err = loadTrajectory(dir, bodies, e); err != nil {
		ep.Infrastructure = "the record is damaged: " + err.Error()
		return of.Score(ctx, ep)
	}
	answer, err := os.ReadFile(filepath.Join(dir, runs.AnswerFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if submission, err := evaluator.FindSubmission(answer); err == nil {
		ep.Submission = submission
	}
	judged, err := readJudgement(dir)
	if err != nil {
		return nil, err
	}
	if judged != nil {
		ep.Mitigation = &judged.Mark
	}
	score, err := of.Score(ctx, ep)
	if err != nil && ctx.Err() == nil {
		ep.Trajectory, ep.Infrastructure = nil, err.Error()
		return of.Score(ctx, ep)
	}
	return score, err
}

// loadTrajectory reads an episode's calls with their responses.
func loadTrajectory(dir string, bodies *recorder.Bodies, e runs.Episode) (*recorder.Trajectory, error) {
	t, err := recorder.LoadCalls(dir)
	if errors.Is(err, fs.ErrNotExist) {
		t, err = recorder.ReadTrajectory(dir, recorder.DeriveOptions{Episode: e.ID, Captured: e.Captured, Bodies: bodies, Shims: shimMappers}, e.CapturedTime)
	}
	if err != nil {
		return nil, err
	}
	for i := range t.Calls {
		for j := range t.Calls[i].Uses {
			if err := t.Calls[i].Uses[j].LoadResponse(bodies); err != nil {
				return nil, err
			}
		}
	}
	return &t, nil
}

// tableMetrics are the columns of tables.
var tableMetrics = []evaluator.Metric{
	evaluator.CA, evaluator.FA, evaluator.JRA, evaluator.MC, evaluator.EOC, evaluator.ECR, evaluator.EE, evaluator.Steps, evaluator.RAR,
}

// figure is a row of the table of figures.
type figure struct {
	Row    evaluator.Row
	Source evaluator.Source
}

// summary of a metric in a row: of the row's graphs where it depends on them.
func (f figure) summary(m evaluator.Metric) (evaluator.Summary, bool) {
	if s, ok := f.Row.Process[f.Source][m]; ok {
		return s, true
	}
	s, ok := f.Row.Metrics[m]
	return s, ok
}

// figures has a line per row and source of graphs.
func (s *scored) figures() []figure {
	var out []figure
	for _, row := range evaluator.Aggregate(s.scores, s.by...) {
		sources := []evaluator.Source{}
		for _, source := range []evaluator.Source{evaluator.Authored, evaluator.Derived} {
			if _, ok := row.Process[source]; ok {
				sources = append(sources, source)
			}
		}
		if len(sources) == 0 {
			sources = append(sources, "")
		}
		for _, source := range sources {
			out = append(out, figure{row, source})
		}
	}
	return out
}

// comparisons pairs two agents; none unless there are exactly two.
func (s *scored) comparisons() (agents []string, pairs []evaluator.Paired) {
	of := map[string][]*evaluator.Score{}
	for _, score := range s.scores {
		if of[score.Agent] == nil {
			agents = append(agents, score.Agent)
		}
		of[score.Agent] = append(of[score.Agent], score)
	}
	if len(agents) != 2 {
		return nil, nil
	}
	slices.Sort(agents)
	for _, m := range tableMetrics {
		if p := evaluator.Compare(of[agents[0]], of[agents[1]], m, evaluator.Authored); p.Cases > 0 {
			pairs = append(pairs, p)
		}
	}
	return agents, pairs
}

// printScores prints in the format that was asked for: text when it is empty.
func (a *app) printScores(s *scored, format string) error {
	switch format {
	case "json", "yaml":
		agents, pairs := s.comparisons()
		document := map[string]any{"figures": evaluator.Aggregate(s.scores, s.by...), "episodes": s.scores}
		if pairs != nil {
			document["comparison"] = map[string]any{"a": agents[0], "b": agents[1], "metrics": pairs}
		}
		if s.notes != nil {
			document["notes"] = s.notes
		}
		return printDocument(a.out, format, document)
	case "csv":
		return s.writeCSV(a.out)
	case "markdown":
		return s.writeMarkdown(a.out)
	}
	return s.writeText(a.out)
}

// dimensionCells are a row's cells of the dimensions that were asked for.
func (s *scored) dimensionCells(r evaluator.Row) []string {
	var out []string
	for _, d := range s.by {
		value := map[evaluator.Dimension]string{
			evaluator.ByAgent: r.Agent, evaluator.BySystem: r.System, evaluator.ByCategory: r.Category, evaluator.ByDifficulty: r.Difficulty,
		}[d]
		if value == "" {
			value = "-"
		}
		out = append(out, value)
	}
	return out
}

func (s *scored) writeText(out io.Writer) error {
	if len(s.episodes) == 0 {
		fmt.Fprintln(out, "nothing is scored")
	} else if err := s.writeTables(out); err != nil {
		return err
	}
	for _, note := range s.notes {
		fmt.Fprintf(out, "\nnote: %s\n", note)
	}
	return nil
}

// writeTables writes what became of each episode, and the figures over all.
func (s *scored) writeTables(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	header := []string{"CASE", "ANSWER", "RIGHT", "EVIDENCE", "CALLS", "MISSED"}
	several := slices.ContainsFunc(s.episodes, func(e scoredEpisode) bool { return e.score.Agent != s.episodes[0].score.Agent })
	if several {
		header = slices.Insert(header, 0, "AGENT")
	}
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, e := range s.episodes {
		cells := s.episodeCells(e)
		if several {
			cells = slices.Insert(cells, 0, e.score.Agent)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	columns, rows := s.table()
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if agents, pairs := s.comparisons(); pairs != nil {
		fmt.Fprintf(out, "\n%s less %s, over the cases that both have:\n", agents[0], agents[1])
		fmt.Fprintln(w, "METRIC\tDIFFERENCE\t95 % INTERVAL\tP\tCASES")
		for _, p := range pairs {
			fmt.Fprintf(w, "%s\t%+.2f\t[%+.2f, %+.2f]\t%.3f\t%d\n", p.Metric, p.Difference, p.Low, p.High, p.PermutationP, p.Cases)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// episodeCells are one episode's line: what it found, what evidence it gathered,
// what it missed.
func (s *scored) episodeCells(e scoredEpisode) []string {
	answer := "none"
	if sub := e.score.Submission; sub != nil {
		answer = strings.TrimSpace(sub.Component + " " + sub.Fault)
		if answer == "" && sub.Detected != nil {
			answer = map[bool]string{true: "something is wrong", false: "nothing is wrong"}[*sub.Detected]
		}
	}
	right := "-"
	if m := e.score.Marks[evaluator.JRA]; m.Scored() {
		right = map[bool]string{true: "yes", false: "no"}[m.Value == 1]
	} else if m := e.score.Marks[evaluator.DetectionAccuracy]; m.Scored() {
		right = map[bool]string{true: "yes", false: "no"}[m.Value == 1]
	}
	evidence, missed, calls := "-", "-", "-"
	if m := e.score.Marks[evaluator.Steps]; m.Scored() {
		calls = strconv.Itoa(int(m.Value))
	}
	if p := e.score.Process; p != nil && len(p.Groups) > 0 {
		established := 0
		var missing []string
		for _, g := range p.Groups {
			if g.Established > 0 {
				established++
			} else {
				missing = append(missing, g.ID)
			}
		}
		evidence = fmt.Sprintf("%d of %d", established, len(p.Groups))
		if len(missing) > 0 {
			missed = strings.Join(missing, ", ")
		}
	}
	return []string{e.episode.Case, cut(answer, 60), right, evidence, calls, missed}
}

func cut(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// table is the figures as text.
func (s *scored) table() (header []string, rows [][]string) {
	for _, d := range s.by {
		header = append(header, strings.ToUpper(string(d)))
	}
	header = append(header, "GRAPHS", "CASES", "EPISODES")
	for _, m := range tableMetrics {
		header = append(header, strings.ToUpper(string(m)))
	}
	for _, f := range s.figures() {
		source := string(f.Source)
		if source == "" {
			source = "none"
		}
		row := append(s.dimensionCells(f.Row), source, strconv.Itoa(f.Row.Cases), strconv.Itoa(f.Row.Episodes))
		for _, m := range tableMetrics {
			cell := "-"
			if sum, ok := f.summary(m); ok && sum.Scored > 0 {
				cell = fmt.Sprintf("%.2f [%.2f, %.2f]", sum.Mean, sum.Low, sum.High)
				if sum.Scored < sum.Cases {
					cell += fmt.Sprintf(" %d/%d", sum.Scored, sum.Cases)
				}
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return header, rows
}

func (s *scored) writeMarkdown(out io.Writer) error {
	header, rows := s.table()
	_, err := fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat(" --- |", len(header)))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], "|", `\|`)
		}
		_, more := fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		err = errors.Join(err, more)
	}
	return err
}

// writeCSV has a line per episode and all metrics, for further work.
func (s *scored) writeCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	header := []string{"agent", "system", "case", "attempt", "episode", "category", "difficulty", "source", "outcome"}
	for _, m := range evaluator.Metrics {
		header = append(header, string(m))
	}
	err := w.Write(header)
	for _, e := range s.episodes {
		row := []string{
			e.score.Agent, e.score.System, e.score.Case, strconv.Itoa(e.episode.Attempt), e.episode.ID,
			e.score.Category, e.score.Difficulty, string(e.score.Source), string(e.episode.Outcome),
		}
		for _, m := range evaluator.Metrics {
			cell := "" // unscored is not zero
			if mark, ok := e.score.Marks[m]; ok && mark.Scored() {
				cell = strconv.FormatFloat(mark.Value, 'g', -1, 64)
			}
			row = append(row, cell)
		}
		err = errors.Join(err, w.Write(row))
	}
	w.Flush()
	return errors.Join(err, w.Error())
}
