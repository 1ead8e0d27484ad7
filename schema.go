package main

import (
	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/evaluator"
)

func (a *app) newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of truth.yaml, for editors",
		Long: `Print the JSON schema of truth.yaml. Editors that know YAML complete and check with
it: save it, and begin truth.yaml with

  # yaml-language-server: $schema=truth.schema.json`,
		Example: "  kubecase schema > truth.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(evaluator.Schema())
			return err
		},
	}
}
