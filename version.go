package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/fixtures"
)

// release is stamped by the Makefile; a plain build takes the module's version.
var release string

type versionInfo struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	CaseFormat string `json:"caseFormat"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func (a *app) newVersion() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of kubecase, of the Kubernetes code in it, and of the case format",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			v := currentVersion()
			if format != "" {
				return printDocument(a.out, format, v)
			}
			fmt.Fprintf(a.out, "kubecase %s\nKubernetes %s (built-in kubectl, types and printers)\ncase format %s\n%s %s\n",
				v.Version, v.Kubernetes, v.CaseFormat, v.GoVersion, v.Platform)
			return nil
		},
	}
	addOutputFlag(c, false)
	return c
}

func currentVersion() versionInfo {
	v := versionInfo{
		Version: release, CaseFormat: fixtures.FormatVersion, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = build.Main.Version
	}
	for _, m := range build.Deps {
		if m.Path == "k8s.io/kubernetes" {
			v.Kubernetes = m.Version
		}
	}
	return v
}
