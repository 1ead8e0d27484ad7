package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/fixtures/cases"
)

// defaultPort is next to Kubernetes' own 6443.
const defaultPort = 6543

// served cases as -o json|yaml prints them.
type servedDocument struct {
	Server string           `json:"server"`
	Cases  []servedCaseInfo `json:"cases"`
}

type servedCaseInfo struct {
	Name       string `json:"name"`
	Title      string `json:"title,omitempty"`
	Query      string `json:"query,omitempty"`
	Kubeconfig string `json:"kubeconfig"`
	// Services are the URLs of Prometheus and Alertmanager, NAME=URL, where the case has them.
	Services []string `json:"services,omitempty"`
	URL      string   `json:"url"`
	User     string   `json:"user"`
	Clock    string   `json:"clock"`
	// OffsetSeconds is what was added to every captured timestamp.
	OffsetSeconds int64 `json:"offsetSeconds"`
	// Captured is the capture instant in the case's own time.
	Captured time.Time `json:"captured"`
}

func (a *app) newServe() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve [CASE...]",
		Short: "Serve cases, each as a cluster of its own, until interrupted",
		Long: `Serve cases, each as a cluster of its own, until interrupted.

A CASE is the name of a shipped case, a case's folder, or its .tar.gz. Without
one, all shipped cases are served. For each case, the line to copy is printed.`,
		Example: `  kubecase serve
  kubecase serve shop-outage --port 0
  kubecase serve ./my-case.tar.gz --as jane --as-group developers`,
		ValidArgsFunction: completeCases,
		RunE: func(cmd *cobra.Command, names []string) error {
			o, err := a.servingOptions()
			if err != nil {
				return err
			}
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = cases.Names()
			}
			s, err := a.startServing(o, names)
			if err != nil {
				return err
			}
			if format == "" {
				a.printServed(s)
			} else if err := printDocument(a.out, format, s.document()); err != nil {
				return err
			}
			return s.wait(cmd.Context())
		},
	}
	addServingFlags(c, defaultPort)
	addOutputFlag(c, false)
	return c
}

func (s *serving) document() servedDocument {
	d := servedDocument{Server: s.url}
	for _, v := range s.served {
		m := v.fixture.Manifest()
		d.Cases = append(d.Cases, servedCaseInfo{
			Name: m.Name, Title: m.Title, Query: m.Query, Kubeconfig: v.kubeconfig, Services: s.services.variables(v.fixture, s.plain.url, v.episode), URL: v.url, User: v.episode.User(),
			Clock: string(v.episode.Clock.Mode()), OffsetSeconds: int64(v.episode.Clock.Offset() / time.Second), Captured: m.Capture.Time.UTC(),
		})
	}
	return d
}

func (a *app) printServed(s *serving) {
	for _, v := range s.served {
		m := v.fixture.Manifest()
		fmt.Fprintf(a.out, "# %s: %s\nexport KUBECONFIG=%s\n", m.Name, m.Title, v.kubeconfig)
		for _, variable := range s.services.variables(v.fixture, s.plain.url, v.episode) {
			fmt.Fprintf(a.out, "export %s\n", variable)
		}
		fmt.Fprintln(a.out)
	}
	fmt.Fprintf(a.err, "Serving on %s. In another terminal, copy an export line and run: kubectl get pods -A\nCtrl-C ends it.\n", s.url)
}
