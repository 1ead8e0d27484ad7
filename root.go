package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/viper"
	"k8s.io/klog/v2"
)

// Exit codes; docs/errors.md explains each.
const (
	exitOK = iota
	// exitFailure: the command could not do its work.
	exitFailure
	// exitUsage: the command line is wrong; nothing was done.
	exitUsage
	// exitCase: a case can't be found or is broken.
	exitCase
	// exitInfrastructure: some episodes couldn't run, and not for the agent's doing.
	exitInfrastructure
)

// app is the outside world of one run, so that commands run in-process in tests.
type app struct {
	args     []string
	in       io.Reader
	out, err io.Writer
	environ  []string
	lookup   func(string) (string, bool)
	tempDir  string
	config   *viper.Viper
	// calledKubectl: the program was called by the name kubectl.
	calledKubectl bool
}

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// caseError is a case that can't be found or served.
type caseError struct{ error }

func (e caseError) Unwrap() error { return e.error }

// exitError ends the run with a child's code; it has been reported already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// run executes the command line and returns the exit code.
func (a *app) run(ctx context.Context) int {
	if len(a.args) > 0 && a.args[0] == "kubectl" {
		if dir, ok := a.lookup(invocationsVariable); ok && dir != "" && a.calledKubectl {
			return a.wrapKubectl(dir, a.args[1:])
		}
		return a.kubectl(a.args[1:])
	}
	root := a.newRoot()
	root.SetArgs(a.args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	var exit exitError
	if err == nil {
		return exitOK
	}
	if errors.As(err, &exit) {
		return exit.code
	}
	for i, line := range strings.Split(err.Error(), "\n") {
		prefix := "kubecase: "
		if i > 0 {
			prefix = "          "
		}
		fmt.Fprintf(a.err, "%s%s\n", prefix, line)
	}
	switch {
	case errors.As(err, &usageError{}):
		return exitUsage
	case errors.As(err, &caseError{}):
		return exitCase
	}
	return exitFailure
}

func (a *app) newRoot() *cobra.Command {
	a.config = viper.New()
	a.config.SetEnvPrefix("KUBECASE")
	a.config.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	a.config.AutomaticEnv()
	root := &cobra.Command{
		Use:   "kubecase",
		Short: "Investigate captured Kubernetes incidents with real kubectl",
		Long: `kubecase replays a captured cluster incident, a case, as a read-only Kubernetes
API server. Point real kubectl, or any other Kubernetes client or agent, at the
kubeconfig of a case and investigate as if it were the cluster; or let kubecase run
an agent on cases, record it, and score what it found and on what evidence.

Options can be given as flags, as environment variables (--port is
KUBECASE_PORT) or in a file (--config), in this order.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.readConfig(cmd)
		},
	}
	root.PersistentFlags().String("config", "", "read options from this YAML, JSON or TOML file")
	root.PersistentFlags().CountP("verbose", "v", "log what Kubernetes' own code logs; repeat for more")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see '%s --help'", err, cmd.CommandPath())
	})
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"investigate", "Investigate a case:", []*cobra.Command{a.newServe(), a.newShell(), a.newKubectl(), a.newMCP(), a.newCases()}},
		{"evaluate", "Evaluate agents:", []*cobra.Command{a.newRun(), a.newScore(), a.newWatch(), a.newSandbox(), a.newSubmit(), a.newAIOpsLab()}},
		{"author", "Make cases:", []*cobra.Command{a.newCapture(), a.newImport(), a.newExport(), a.newFidelity(), a.newValidate(), a.newGraph(), a.newExplainClause(), a.newSchema()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.newVersion())
	for _, c := range root.Commands() {
		wrapArgs(c)
		for _, below := range c.Commands() {
			wrapArgs(below)
		}
	}
	wrapArgs(root)
	return root
}

// wrapArgs makes a wrong number of arguments a usage error.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usagef("%w; see '%s --help'", err, cmd.CommandPath())
			}
			return nil
		}
	}
}

// readConfig binds a command's flags, so that flag, environment and file are one
// set of options, and sets logging up.
func (a *app) readConfig(cmd *cobra.Command) error {
	if err := a.config.BindPFlags(cmd.Flags()); err != nil {
		return err
	}
	if file := a.config.GetString("config"); file != "" {
		a.config.SetConfigFile(file)
		if err := a.config.ReadInConfig(); err != nil {
			return usagef("--config %s: %w", file, err)
		}
		for _, key := range a.config.AllKeys() {
			if a.config.InConfig(key) && cmd.Flags().Lookup(key) == nil {
				return usagef("--config %s: %q is no option of '%s'", file, key, cmd.CommandPath())
			}
		}
	}
	setLogging(a.config.GetInt("verbose"))
	return nil
}

// setLogging silences what Kubernetes' libraries log unless it was asked for.
func setLogging(verbose int) {
	if verbose == 0 {
		klog.SetLogger(logr.Discard())
		return
	}
	var level klog.Level
	_ = level.Set(fmt.Sprint(verbose))
	klog.SetOutput(os.Stderr)
}
