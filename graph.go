package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/fixtures"
)

// openTruth opens a case and its truth, for commands of a case's author.
func openTruth(name string) (*fixtures.Case, *evaluator.Truth, error) {
	c, err := openCase(name)
	if err != nil {
		return nil, nil, err
	}
	data, err := readTruth(c)
	if err == nil && data == nil {
		err = fmt.Errorf("%s has no %s: write one; docs/evidence-graphs.md has a complete example", name, truthFile)
	}
	var truth *evaluator.Truth
	if err == nil {
		truth, err = evaluator.ParseTruth(truthFile, data)
	}
	if err != nil {
		return nil, nil, errors.Join(caseError{err}, c.Close())
	}
	return c, truth, nil
}

// graphFormats are what a graph can be drawn as.
var graphFormats = []string{"mermaid", "dot", "svg"}

func (a *app) newGraph() *cobra.Command {
	c := &cobra.Command{
		Use:               "graph CASE",
		Short:             "Draw a case's evidence graph as Mermaid, DOT or SVG",
		Long:              "Draw a case's evidence graph: the facts that a diagnosis rests on, and their order.\nIt shows what really happened: it is for authors, not for investigators.",
		Example:           "  kubecase graph shop-nodes\n  kubecase graph shop-nodes -o svg > graph.svg",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeCases,
		RunE: func(_ *cobra.Command, args []string) error {
			format := a.config.GetString("output")
			if !slices.Contains(graphFormats, format) {
				return usagef("--output %q is unknown: use %s", format, strings.Join(graphFormats, ", "))
			}
			c, truth, err := openTruth(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			if truth.Graph == nil {
				return caseError{fmt.Errorf("%s has no evidence graph: add one to its %s", args[0], truthFile)}
			}
			draw := map[string]func(io.Writer, map[string]evaluator.State) error{
				"mermaid": truth.Graph.Mermaid, "dot": truth.Graph.DOT, "svg": truth.Graph.SVG,
			}[format]
			return draw(a.out, nil)
		},
	}
	c.Flags().StringP("output", "o", "mermaid", "output format: mermaid, dot, svg")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(graphFormats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// explained is what -o json|yaml prints of one command and one clause.
type explained struct {
	Command      string                   `json:"command"`
	Use          string                   `json:"use"`
	Holds        bool                     `json:"holds"`
	Explanations []*evaluator.Explanation `json:"explanations"`
}

func (a *app) newExplainClause() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain-clause CASE CLAUSE [-- KUBECTL-ARGS...]",
		Short: "Run a clause against its case and say why it holds or not",
		Long: `Run a clause of a case's evidence graph against the case: ask for what the clause
is about, or run the kubectl command after --, and say for each answer whether the
clause holds over it, and why. The exit code is 1 when it holds over none.`,
		Example:           "  kubecase explain-clause shop-nodes cart-environment\n  kubecase explain-clause shop-nodes cart-environment -- describe deployment cart -n shop",
		ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			dash := cmd.ArgsLenAtDash()
			if dash < 0 {
				dash = len(args)
			}
			if dash != 2 {
				return usagef("one CASE and one CLAUSE are expected; see 'kubecase explain-clause --help'")
			}
			c, truth, err := openTruth(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			if truth.Graph == nil || truth.Graph.Clause(args[1]) == nil {
				known := "none"
				if truth.Graph != nil {
					known = strings.Join(truth.Graph.ClauseIDs(), ", ")
				}
				return usagef("%s has no clause %q; it has %s", args[0], args[1], known)
			}
			clause := truth.Graph.Clause(args[1])
			questions := clauseQuestions(clause)
			if dash < len(args) {
				questions = []question{{kubectl: args[dash:]}}
			}
			if len(questions) == 0 {
				return fmt.Errorf("nothing in this version answers the tool %s: give a kubectl command after --", clause.Tool)
			}
			r, err := a.newReplay(c)
			if err != nil {
				return err
			}
			defer r.close()
			of := evaluator.New(truth, evaluator.Options{})
			var all []explained
			holds := false
			for _, q := range questions {
				uses, _, err := r.ask(cmd.Context(), q)
				if err != nil {
					return err
				}
				for i := range uses {
					x, err := of.Explain(cmd.Context(), clause.ID, &uses[i])
					if err != nil {
						return err
					}
					all = append(all, explained{q.String(), useLine(&uses[i]), x.Holds, []*evaluator.Explanation{x}})
					holds = holds || x.Holds
				}
				if holds {
					break
				}
			}
			if format != "" {
				if err := printDocument(a.out, format, map[string]any{"clause": clause.ID, "holds": holds, "uses": all}); err != nil {
					return err
				}
			} else {
				printExplained(a.out, clause, all)
			}
			if !holds {
				return exitError{exitFailure}
			}
			return nil
		},
	}
	addOutputFlag(c, false)
	return c
}

func printExplained(out io.Writer, clause *evaluator.Clause, all []explained) {
	fmt.Fprintf(out, "%s: %s holds when\n    %s\n", clause.ID, clause.Tool, strings.TrimSpace(clause.Holds))
	if len(all) == 0 {
		fmt.Fprintln(out, "no use of a tool came of the command")
	}
	for _, e := range all {
		fmt.Fprintf(out, "\n%s\n  %s\n", e.Command, e.Use)
		for _, x := range e.Explanations {
			for _, attempt := range x.Attempts {
				fmt.Fprintf(out, "  %s\n", attempt.Rule)
				switch {
				case attempt.Refused != "":
					fmt.Fprintf(out, "    doesn't apply: %s\n", attempt.Refused)
				case attempt.Error != "":
					fmt.Fprintf(out, "    %s\n", attempt.Error)
				}
				for _, name := range []string{"rows", "objects", "related", "events", "lines", "series", "alerts", "text"} {
					if n, ok := attempt.Sees[name]; ok {
						unit := ""
						if name == "text" {
							unit = " bytes"
						}
						fmt.Fprintf(out, "    sees %s: %d%s\n", name, n, unit)
					}
				}
			}
			fmt.Fprintf(out, "  %s: %s\n", map[bool]string{true: "holds", false: "doesn't hold"}[x.Holds], x.Reason)
		}
	}
}
