package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/recorder"
)

const truthFile = "truth.yaml"

// validateTruth checks a case's truth: its structure, that each clause's predicate
// holds over what the snapshot answers, that the whole graph closes on the
// trajectory made of its clauses, and that nothing served gives the fault away.
func (a *app) validateTruth(ctx context.Context, c *fixtures.Case) ([]validationProblem, error) {
	data, err := readTruth(c)
	if err != nil || data == nil {
		return nil, err
	}
	truth, err := evaluator.ParseTruth(truthFile, data)
	if err != nil {
		return truthProblems(err), nil
	}
	problems := leaks(c, truth, data)
	if truth.Graph == nil {
		return problems, nil
	}
	more, err := a.replayGraph(ctx, c, truth)
	return append(problems, more...), err
}

func truthProblems(err error) []validationProblem {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []validationProblem
		for _, e := range joined.Unwrap() {
			out = append(out, truthProblems(e)...)
		}
		return out
	}
	p := validationProblem{Severity: string(fixtures.SeverityError), File: truthFile, Problem: err.Error()}
	if t := (*evaluator.TruthError)(nil); errors.As(err, &t) {
		p.Line, p.Column, p.Problem, p.Fix = t.Line, t.Column, t.Problem, t.Fix
	}
	return []validationProblem{p}
}

// replayGraph asks the case for what each clause is about, group by group in the
// order that the graph asks for, and scores what came of it.
func (a *app) replayGraph(ctx context.Context, c *fixtures.Case, truth *evaluator.Truth) (problems []validationProblem, err error) {
	r, err := a.newReplay(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	of := evaluator.New(truth, evaluator.Options{})
	told := map[string]bool{}
	for _, group := range truth.Graph.Order() {
		for m, milestone := range group.Milestones {
			for b := range milestone.Bundles {
				for _, id := range bundleClauses(truth.Graph, group, m, b) {
					clause := truth.Graph.Clause(id)
					problem, err := r.satisfy(ctx, of, clause)
					if err != nil {
						return problems, err
					}
					if problem != "" && !told[id] {
						told[id] = true
						problems = append(problems, validationProblem{
							Severity: string(fixtures.SeverityError), File: truthFile, Line: clause.Place.Line, Column: clause.Place.Column,
							Problem: fmt.Sprintf("the clause %q isn't satisfied by the snapshot: %s", id, problem),
							Fix:     fmt.Sprintf("see 'kubecase explain-clause %s %s'", c.Manifest().Name, id),
						})
					}
				}
			}
		}
	}
	if len(problems) > 0 {
		return problems, nil
	}
	t, err := r.trajectory()
	if err != nil {
		return nil, err
	}
	observations, failures, err := of.Observe(ctx, &t)
	if err != nil {
		return nil, err
	}
	for _, f := range failures {
		problems = append(problems, validationProblem{Severity: string(fixtures.SeverityError), File: truthFile, Problem: f})
	}
	if p := evaluator.Scan(truth.Graph, observations); p.ECR != 1 || p.EOC != 1 {
		problems = append(problems, validationProblem{
			Severity: string(fixtures.SeverityError), File: truthFile, Line: truth.Graph.Place.Line, Column: truth.Graph.Place.Column,
			Problem: fmt.Sprintf("the graph doesn't close on its own clauses: ECR %v, EOC %v", p.ECR, p.EOC),
		})
	}
	return problems, nil
}

// bundleClauses are the ids of a bundle's clauses.
func bundleClauses(g *evaluator.Graph, group *evaluator.Group, milestone, bundle int) []string {
	for i := range g.Groups {
		if g.Groups[i] == group {
			return g.BundleIDs(i, milestone, bundle)
		}
	}
	return nil
}

// satisfy asks for what a clause is about until the clause holds, and says why it
// doesn't when nothing helps.
func (r *replay) satisfy(ctx context.Context, of *evaluator.Evaluator, clause *evaluator.Clause) (problem string, err error) {
	questions := clauseQuestions(clause)
	if len(questions) == 0 {
		return fmt.Sprintf("nothing in this version answers the tool %s", clause.Tool), nil
	}
	var reasons []string
	for _, q := range questions {
		uses, out, err := r.ask(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range uses {
			x, err := of.Explain(ctx, clause.ID, &uses[i])
			if err != nil {
				return "", err
			}
			if x.Holds {
				return "", nil
			}
		}
		reason := "the predicate doesn't hold over its answer"
		if line, _, _ := strings.Cut(out, "\n"); strings.HasPrefix(line, "Error") || strings.HasPrefix(line, "error") {
			reason = cut(line, 200)
		}
		reasons = append(reasons, fmt.Sprintf("'%s': %s", q, reason))
	}
	return strings.Join(reasons, "; "), nil
}

// ofKubernetes are fault types that Kubernetes itself reports by that name.
var ofKubernetes = map[string]bool{"missingserviceaccount": true, "oomkilled": true}

var wordBreak = regexp.MustCompile(`[^a-z0-9]+`)

// squeezed is a text without case, spaces and punctuation.
func squeezed(b []byte) []byte { return wordBreak.ReplaceAll(bytes.ToLower(b), nil) }

// leaks finds the fault type's name, and sentences of the truth, in what an agent
// is told and served.
func leaks(c *fixtures.Case, truth *evaluator.Truth, data []byte) []validationProblem {
	m := c.Manifest()
	type secret struct{ what, text string }
	var secrets []secret
	if truth.Outcome != nil {
		if fault := string(squeezed([]byte(truth.Outcome.Fault))); len(fault) >= 6 {
			secrets = append(secrets, secret{"the fault type's name", fault})
		}
	}
	if truth.Graph != nil {
		for _, g := range truth.Graph.Groups {
			for _, milestone := range g.Milestones {
				if fact := string(squeezed([]byte(milestone.Fact))); len(fact) >= 20 {
					secrets = append(secrets, secret{fmt.Sprintf("the fact of the milestone %q", milestone.ID), fact})
				}
			}
		}
	}
	var problems []validationProblem
	look := func(file string, text []byte) {
		flat := squeezed(text)
		for i, s := range secrets {
			if s.text == "" || !bytes.Contains(flat, []byte(s.text)) {
				continue
			}
			if file != "case.yaml" && ofKubernetes[s.text] {
				continue // a cluster says so of its own accord
			}
			problems = append(problems, validationProblem{
				Severity: string(fixtures.SeverityError), File: file, Problem: "gives " + s.what + " away", Fix: "an agent reads this: word it neutrally, or take it out",
			})
			secrets[i].text = "" // once is enough
		}
	}
	look("case.yaml", []byte(m.Name+" / "+m.Title+" / "+m.Query))
	for _, r := range c.Resources() {
		file := "objects of " + r.GVR.GroupResource().String()
		for _, o := range r.Objects {
			look(file+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), o.Raw)
		}
	}
	for _, l := range c.Logs() {
		reader, err := c.OpenLog(l)
		if err != nil {
			continue // the loader's checks say what is wrong with it
		}
		text, err := io.ReadAll(io.LimitReader(reader, 64<<20))
		reader.Close()
		if err == nil {
			look("log of "+l.Namespace+"/"+l.Pod, text)
		}
	}
	return problems
}

// useLine is a use in a few words.
func useLine(u *recorder.Use) string {
	var args []string
	for _, name := range []string{"type", "namespace", "name", "labels", "fields", "output", "service", "pod", "container", "previous", "port", "node", "component"} {
		if v, ok := u.Args[name]; ok {
			args = append(args, name+"="+v)
		}
	}
	return fmt.Sprintf("%s(%s): %s", u.Tool, strings.Join(args, ", "), u.Class)
}
