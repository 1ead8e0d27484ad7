package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

// validation is what -o json|yaml prints of one case.
type validation struct {
	Case     string              `json:"case"`
	Valid    bool                `json:"valid"`
	Problems []validationProblem `json:"problems,omitempty"`
}

type validationProblem struct {
	Severity string `json:"severity"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Problem  string `json:"problem"`
	Fix      string `json:"fix,omitempty"`
}

func (a *app) newValidate() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate CASE...",
		Short: "Check cases and say what is wrong with each, where, and how to mend it",
		Long: `Check cases: every problem is printed with its file, its place and its fix, not
only the first. Warnings don't make a case invalid. The exit code is 3 when a
case is invalid.

A truth.yaml is checked against the case: each clause is asked for with kubectl
and its predicate must hold over the answer, all together must close the evidence
graph, and nothing that is served may give the fault away.`,
		Example:           "  kubecase validate ./my-case\n  kubecase validate ./my-case.tar.gz -o json",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, names []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			var all []validation
			for _, name := range names {
				v, err := a.validateCase(cmd.Context(), name)
				if err != nil {
					return err
				}
				all = append(all, v)
				if format == "" {
					a.printValidation(v)
				}
			}
			if format != "" {
				if err := printDocument(a.out, format, map[string]any{"cases": all}); err != nil {
					return err
				}
			}
			if slices.ContainsFunc(all, func(v validation) bool { return !v.Valid }) {
				return exitError{exitCase}
			}
			return nil
		},
	}
	addOutputFlag(c, false)
	return c
}

// validateCase collects the problems of one case: those of its files, then
// whether the API server can serve it, then those of its truth.
func (a *app) validateCase(ctx context.Context, name string) (validation, error) {
	v := validation{Case: name, Valid: true}
	if !slices.Contains(cases.Names(), name) {
		problems, err := fixtures.Validate(name)
		if err != nil {
			return v, caseError{err}
		}
		for _, p := range problems {
			v.Problems = append(v.Problems, validationProblem{
				Severity: string(p.Severity), File: p.File, Line: p.Line, Column: p.Column, Problem: p.Problem, Fix: p.Fix,
			})
			v.Valid = v.Valid && p.Severity != fixtures.SeverityError
		}
		if !v.Valid {
			return v, nil
		}
	}
	c, err := openCase(name)
	if err != nil {
		return v, err
	}
	_, err = apiserver.New(apiserver.Config{}).AddEpisode(apiserver.EpisodeOptions{Case: c})
	if err != nil {
		v.Valid = false
		v.Problems = append(v.Problems, validationProblem{Severity: string(fixtures.SeverityError), Problem: err.Error()})
	}
	if v.Valid {
		problems, err := a.validateTruth(ctx, c)
		if err != nil {
			return v, errors.Join(err, c.Close())
		}
		v.Problems = append(v.Problems, problems...)
		v.Valid = len(problems) == 0
	}
	return v, c.Close()
}

func (a *app) printValidation(v validation) {
	for _, p := range v.Problems {
		place := p.File
		if p.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		if place != "" {
			place += ": "
		}
		fix := p.Fix
		if fix != "" {
			fix = "; " + fix
		}
		fmt.Fprintf(a.out, "%s: %s%s%s\n", p.Severity, place, p.Problem, fix)
	}
	if v.Valid {
		fmt.Fprintf(a.out, "%s: valid\n", v.Case)
		return
	}
	fmt.Fprintf(a.out, "%s: invalid\n", v.Case)
}
