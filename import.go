package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	names "k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/importers"
	"github.com/kubecase/kubecase/fixtures/importers/bundle"
)

func (a *app) newImport() *cobra.Command {
	var formats []string
	var list strings.Builder
	for _, f := range importers.Formats() {
		formats = append(formats, f.Name)
		fmt.Fprintf(&list, "\n  %-18s %s", f.Name, f.Title)
	}
	c := &cobra.Command{
		Use:   "import SOURCE [OUT]",
		Short: "Make a case out of a support bundle, dump, snapshot or files of objects",
		Long: `Make a case out of what you have: SOURCE is a folder, a file or an archive (.tar.gz,
.tar, .tar.zst, .zip). What it is, its content says:
` + list.String() + `

OUT is a folder that is empty or not there yet, or a new .tar.gz; without it, a folder
here, named as the source.

What can't be read costs a warning with its path and line, and never the rest. What the
source lacks is in the case as not captured, so that nobody takes it for empty: a
namespace that wasn't swept can't be listed, nor can all namespaces at once.
--assume-complete says that what the source has is all there was.

Nothing is redacted that the source's maker didn't: look through a case before you give
it away. kubecase serve, shell and the others take such a SOURCE for a CASE, too.`,
		Example: `  kubecase import support-bundle-2026-12-01T00_18_24.tar.gz
  kubecase import must-gather.local.5464029130631179436 incident.tar.gz --query "Customers can't check out."
  kubectl get all,events -A -o yaml | tee dump.yaml >/dev/null && kubecase import dump.yaml ./incident`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			o := importers.Options{
				Source: args[0], Format: a.config.GetString("format"), TempDir: a.tempDir,
				Name: a.config.GetString("name"), Title: a.config.GetString("title"), Query: a.config.GetString("query"),
				Complete: a.config.GetBool("assume-complete"),
			}
			if o.Format != "" && !slices.Contains(formats, o.Format) {
				return usagef("--format %q is unknown: use %s", o.Format, strings.Join(formats, ", "))
			}
			if o.Name != "" && len(names.IsDNS1123Label(o.Name)) > 0 {
				return usagef("--name %q is no name of a case: use lower-case letters, digits and '-'", o.Name)
			}
			if len(args) == 2 {
				o.Out = args[1]
			}
			line := newImportLine(a.err)
			o.Progress = line.show
			summary, err := importers.Import(cmd.Context(), o)
			line.end()
			if errors.Is(err, importers.ErrUnrecognized) || errors.Is(err, importers.ErrCase) || errors.Is(err, fs.ErrNotExist) {
				return caseError{err}
			}
			if err != nil {
				return err
			}
			if format != "" {
				return printDocument(a.out, format, summary)
			}
			return summary.Print(a.out)
		},
	}
	f := c.Flags()
	f.String("format", "", "what the source is: "+strings.Join(formats, ", ")+"; without, its content says")
	f.String("name", "", "name of the case, a DNS label; without, the source's")
	f.String("title", "", "one line for listings")
	f.String("query", "", "what an investigator is told: the failure that was observed, never its cause")
	f.Bool("assume-complete", false, "what the source lacks didn't exist, instead of not being captured")
	addOutputFlag(c, false)
	c.AddCommand(a.newImportCloudOpsBench())
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// openBundle opens something that is no case, for the reason notCase, but can be imported.
// Nothing of it stays behind.
func openBundle(name string, complete bool, notCase error) (*fixtures.Case, error) {
	if _, err := os.Stat(name); err != nil {
		return nil, notCase
	}
	c, err := importers.Open(context.Background(), importers.Options{Source: name, Complete: complete})
	switch {
	case errors.Is(err, importers.ErrCase), errors.Is(err, bundle.ErrDamaged):
		return nil, notCase
	case errors.Is(err, importers.ErrUnrecognized):
		return nil, fmt.Errorf("%w\n%w", notCase, err)
	}
	return c, err
}

// importLine shows on a terminal how far an import is. Elsewhere it says so only of long
// ones, a line per tenth.
type importLine struct {
	out      io.Writer
	terminal bool
	tenth    int
}

// longImport is how many files take long enough for a report.
const longImport = 2000

func newImportLine(out io.Writer) *importLine {
	f, ok := out.(interface{ Fd() uintptr })
	return &importLine{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

func (l *importLine) show(done, total int, _ string) {
	if tenth := done * 10 / max(total, 1); tenth != l.tenth && total >= longImport && !l.terminal {
		fmt.Fprintf(l.out, "importing: %d of %d files\n", done, total)
		l.tenth = tenth
	}
	if l.terminal && done%50 == 0 {
		fmt.Fprintf(l.out, "\rimporting: %d of %d files\x1b[K", done, total)
	}
}

// end leaves the terminal's line to what comes next.
func (l *importLine) end() {
	if l.terminal {
		fmt.Fprint(l.out, "\r\x1b[K")
	}
}
