package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/fixtures/importers/export"
)

func (a *app) newExport() *cobra.Command {
	var formats []string
	var list strings.Builder
	for _, f := range export.Formats() {
		formats = append(formats, f.Name)
		fmt.Fprintf(&list, "\n  %-18s %s", f.Name, f.Title)
	}
	c := &cobra.Command{
		Use:   "export CASE --to FORMAT [OUT]",
		Short: "Write a case in the format of another tool",
		Long: `Write a case in the format of another tool:
` + list.String() + `

OUT is a folder that is empty or not there yet; without it, CASE-FORMAT here. What the
format has no place for is listed. The truth of a case is never exported.`,
		Example: `  kubecase export shop-outage --to cluster-info-dump
  kubecase export ./incident.tar.gz --to crust-gather ./snapshot`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeCases,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			output, err := a.outputFormat()
			if err != nil {
				return err
			}
			format := a.config.GetString("to")
			if !slices.Contains(formats, format) {
				return usagef("--to %q is unknown: use %s", format, strings.Join(formats, ", "))
			}
			c, err := openCase(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			out := c.Manifest().Name + "-" + format
			if len(args) == 2 {
				out = args[1]
			}
			s, err := export.Run(c, format, out)
			if err != nil {
				return err
			}
			if output != "" {
				return printDocument(a.out, output, s)
			}
			return a.printExport(s)
		},
	}
	c.Flags().String("to", "", "format: "+strings.Join(formats, ", "))
	addOutputFlag(c, false)
	_ = c.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) printExport(s *export.Summary) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "case\t%s\nto\t%s\nfiles\t%d\nobjects\t%d\nlogs\t%d\n", s.Case, s.Out, s.Files, s.Objects, s.Logs)
	for _, lost := range s.Lost {
		fmt.Fprintf(w, "lost\t%s\n", lost)
	}
	return w.Flush()
}
