package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

// caseInfo is one line of the listing of cases.
type caseInfo struct {
	Name              string    `json:"name"`
	Title             string    `json:"title"`
	Query             string    `json:"query"`
	Captured          time.Time `json:"captured"`
	KubernetesVersion string    `json:"kubernetesVersion,omitempty"`
	Resources         int       `json:"resources"`
	Objects           int       `json:"objects"`
	Logs              int       `json:"logs"`
	Source            string    `json:"source,omitempty"`
}

func (a *app) newCases() *cobra.Command {
	c := &cobra.Command{
		Use:               "cases [CASE...]",
		Short:             "List cases: the shipped ones, or those named",
		Example:           "  kubecase cases\n  kubecase cases -o wide\n  kubecase cases ./my-case -o json",
		ValidArgsFunction: completeCases,
		RunE: func(_ *cobra.Command, names []string) error {
			format, err := a.outputFormat("wide", "name")
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = cases.Names()
			}
			infos := make([]caseInfo, 0, len(names))
			for _, name := range names {
				info, err := describeCase(name)
				if err != nil {
					return err
				}
				infos = append(infos, info)
			}
			switch format {
			case "json", "yaml":
				return printDocument(a.out, format, map[string]any{"cases": infos})
			case "name":
				for _, info := range infos {
					fmt.Fprintln(a.out, info.Name)
				}
				return nil
			}
			return printCases(a.out, infos, format == "wide")
		},
	}
	addOutputFlag(c, true)
	return c
}

func describeCase(name string) (caseInfo, error) {
	c, err := openCase(name)
	if err != nil {
		return caseInfo{}, err
	}
	defer c.Close()
	m := c.Manifest()
	info := caseInfo{
		Name: m.Name, Title: m.Title, Query: m.Query, Captured: m.Capture.Time.UTC(), Source: m.Capture.Source,
		KubernetesVersion: clusterVersion(c), Resources: len(c.Resources()), Logs: len(c.Logs()),
	}
	for _, r := range c.Resources() {
		info.Objects += len(r.Objects)
	}
	return info, nil
}

func clusterVersion(c *fixtures.Case) string {
	data, err := c.Document("version.json")
	if err != nil {
		return ""
	}
	v := version.Info{}
	if err := json.Unmarshal(data, &v); err != nil {
		return ""
	}
	return v.GitVersion
}

func printCases(w io.Writer, infos []caseInfo, wide bool) error {
	table := printers.GetNewTabWriter(w)
	columns := []string{"NAME", "OBJECTS", "LOGS", "TITLE"}
	if wide {
		columns = []string{"NAME", "VERSION", "CAPTURED", "RESOURCES", "OBJECTS", "LOGS", "TITLE", "SOURCE"}
	}
	fmt.Fprintln(table, strings.Join(columns, "\t"))
	for _, i := range infos {
		if wide {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", i.Name, i.KubernetesVersion, i.Captured.Format(time.RFC3339), i.Resources, i.Objects, i.Logs, i.Title, i.Source)
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", i.Name, i.Objects, i.Logs, i.Title)
	}
	return table.Flush()
}

// completeCases offers the shipped cases; the shell adds files.
func completeCases(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return cases.Names(), cobra.ShellCompDirectiveDefault
}
