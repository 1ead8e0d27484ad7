package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubecase/kubecase/fixtures/capture"
	"github.com/kubecase/kubecase/fixtures/importers/cloudopsbench"
)

func (a *app) newImportCloudOpsBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "cloud-opsbench DIR OUT",
		Short: "Make cases of the public Cloud-OpsBench data set",
		Long: `Make cases of the public Cloud-OpsBench data set, which holds what kubectl printed of
a cluster. DIR is one case's folder, with metadata.json and raw_data/k8s_states.json, or
any folder above many; each case gets a folder of its own in OUT, named by its content:
neither its category nor its number in the data set can be seen in the name.

Objects are rebuilt from tables, descriptions, YAML and applied manifests, so that
kubectl prints the same again; 'kubecase fidelity' measures how exactly. What was
printed goes along in transcripts/. Logs, metrics, alerts and the tools' answers become
the case's own; the expected diagnosis and a graph derived from the two paths, its truth.

A case that can't be imported is reported with its reason, and the rest goes on; the exit
code is then 1.`,
		Example: `  kubecase import cloud-opsbench ./benchmark ./cases
  kubecase import cloud-opsbench ./benchmark/boutique/startup/20 ./cases -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			line := newProgressLine(a.err)
			line.doing = "importing"
			results, err := cloudopsbench.Run(cmd.Context(), cloudopsbench.Options{
				Dir: args[0], Out: args[1], Jobs: a.config.GetInt("jobs"),
				Progress: func(done, total int, what string) {
					line.show(capture.Progress{Phase: "cases", Done: done, Total: total, What: what})
				},
			})
			line.end()
			if results == nil && err != nil {
				return err
			}
			if format != "" {
				err = printDocument(a.out, format, map[string]any{"cases": results})
			} else {
				err = printImported(a.out, results)
			}
			if err != nil {
				return err
			}
			failed := 0
			for _, r := range results {
				if r.Error != "" {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d cases were not imported", failed, len(results))
			}
			return cmd.Context().Err()
		},
	}
	c.Flags().Int("jobs", 0, "how many cases are read at once; 0: as many as there are processors")
	addOutputFlag(c, false)
	return c
}

func printImported(w io.Writer, results []cloudopsbench.Result) error {
	table := printers.GetNewTabWriter(w)
	fmt.Fprintln(table, "SOURCE\tCASE\tCOMMANDS\tOBJECTS\tEVENTS\tLOGS\tDRIFT\tNOTES")
	for _, r := range results {
		if r.Error != "" {
			fmt.Fprintf(table, "%s\tnot imported: %s\n", r.Source, r.Error)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Source, r.Name, r.Commands, r.Objects, r.Events, r.Logs, r.Drifted, len(r.Notes))
	}
	return table.Flush()
}
