package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

func addOutputFlag(c *cobra.Command, wide bool) {
	formats := []string{"json", "yaml"}
	if wide {
		formats = append(formats, "wide", "name")
	}
	c.Flags().StringP("output", "o", "", "output format: "+strings.Join(formats, ", "))
	c.Annotations = map[string]string{"formats": strings.Join(formats, " ")}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// outputFormat is the value of --output where json, yaml and a table are known.
func (a *app) outputFormat(more ...string) (string, error) {
	format := a.config.GetString("output")
	known := append([]string{"json", "yaml"}, more...)
	for _, f := range append(known, "") {
		if f == format {
			return format, nil
		}
	}
	return "", usagef("--output %q is unknown: use %s", format, strings.Join(known, ", "))
}

func printDocument(w io.Writer, format string, v any) error {
	if format == "yaml" {
		data, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
