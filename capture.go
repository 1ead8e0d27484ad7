package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	names "k8s.io/apimachinery/pkg/util/validation"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // as kubectl, so that every kubeconfig that works there works here
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"mvdan.cc/sh/v3/shell"

	"github.com/kubecase/kubecase/fixtures/capture"
)

func (a *app) newCapture() *cobra.Command {
	c := &cobra.Command{
		Use:   "capture OUT",
		Short: "Make a case out of a live cluster",
		Long: `Capture the cluster that the kubeconfig names, as kubectl would find it, into a
new case: every resource that can be listed, in every version, with the server's own
Tables, discovery, OpenAPI, health and container logs. OUT is a folder that is empty
or not there yet, or a new .tar.gz.

Where they may be asked, the nodes' kubelets are, and with the flags Prometheus,
Alertmanager, Jaeger, connections and commands in containers, and source trees.

But for these commands only GET requests are made, at a rate that a shared cluster tolerates. Nothing of
the kubeconfig lands in the case. The values of Secrets, and tokens, private keys and
certificates anywhere else, are replaced by placeholders of the same length; look
through a case before you give it away all the same.

What the account may not read, or what failed, is in the case's coverage and in the
summary. Ctrl-C ends early and leaves a valid case that says what it lacks; the
exit code is then 1.`,
		Example: `  kubecase capture ./incident --query "Customers can't check out since 00:15 UTC."
  kubecase capture incident.tar.gz --context prod -n shop -n payments --log-since 2h
  kubecase capture ./small --include pods,events,deployments.apps --no-logs`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.outputFormat()
			if err != nil {
				return err
			}
			options, err := a.captureOptions(args[0])
			if err != nil {
				return err
			}
			line := newProgressLine(a.err)
			options.Progress = line.show
			summary, err := a.captureWith(cmd.Context(), options)
			line.end()
			if wrong := (*capture.OptionsError)(nil); errors.As(err, &wrong) {
				return usagef("%w", err)
			}
			if err != nil {
				return err
			}
			if err := a.printCapture(format, summary); err != nil {
				return err
			}
			if summary.Interrupted != "" {
				return fmt.Errorf("the capture was cut short (%s); what was captured until then is in %s", summary.Interrupted, args[0])
			}
			return nil
		},
	}
	f := c.Flags()
	f.String("kubeconfig", "", "kubeconfig of the cluster; as kubectl's: without, KUBECONFIG or ~/.kube/config")
	f.String("context", "", "context of the kubeconfig")
	f.String("name", "", "name of the case, a DNS label; without, OUT's")
	f.String("title", "", "one line for listings")
	f.String("query", "", "what an investigator is told: the failure that was observed, never its cause")
	f.StringSlice("include", nil, "only these resources: RESOURCE, RESOURCE.GROUP or *.GROUP")
	f.StringSlice("exclude", nil, "not these resources")
	f.StringSliceP("namespace", "n", nil, "only these namespaces; resources without one are captured all the same")
	f.String("secrets", string(capture.SecretsRedact), "what becomes of confidential values: keep, redact, omit")
	f.Bool("no-logs", false, "take no container logs")
	f.Duration("log-since", 0, "how far back logs go; 0: to their beginning")
	f.Int64("log-limit-bytes", 10<<20, "most bytes of one log")
	f.Bool("no-node-proxy", false, "don't ask the nodes' kubelets (healthz, configz, metrics, pods, logs)")
	f.String("prometheus", "", "also export from Prometheus: its URL, or NAMESPACE/SERVICE:PORT to ask through the API server")
	f.StringArray("metrics-select", nil, "selectors of the series to export; without: all")
	f.Duration("metrics-range", time.Hour, "how far back samples go")
	f.Duration("metrics-step", 0, "one sample a step; 0: the samples as they were scraped")
	f.String("alertmanager", "", "also take alerts from Alertmanager: its URL, or NAMESPACE/SERVICE:PORT")
	f.String("jaeger", "", "also take traces from Jaeger: its URL, or NAMESPACE/SERVICE:PORT")
	f.Duration("traces-range", time.Hour, "how far back traces go")
	f.Int("traces-limit", 200, "most traces of one service")
	f.StringArray("probe", nil, "HOST:PORT to try to connect to, with nc, from each --probe-from")
	f.StringArray("probe-from", nil, "NAMESPACE/POD[/CONTAINER] to probe from")
	f.StringArray("exec", nil, "NAMESPACE/POD[/CONTAINER]=COMMAND to run, whose output is kept")
	f.StringArray("source", nil, "APP=DIR: keep the source tree of an app")
	f.Bool("transcript", false, "also keep what kubectl prints of everything, before and after: kubecase fidelity then measures the case by it")
	f.String("kubectl", "kubectl", "the kubectl of --transcript: a path, or a name in PATH")
	f.Float32("qps", 20, "most requests per second")
	f.Int("burst", 40, "most requests at once, after a pause")
	f.Duration("request-timeout", time.Minute, "most time for one request")
	addOutputFlag(c, false)
	_ = c.RegisterFlagCompletionFunc("secrets", cobra.FixedCompletions([]string{"keep", "redact", "omit"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// captureWith captures, between two rounds of kubectl where a transcript is wanted.
func (a *app) captureWith(ctx context.Context, o capture.Options) (*capture.Summary, error) {
	if !a.config.GetBool("transcript") {
		return capture.Run(ctx, o)
	}
	if strings.HasSuffix(o.Out, ".gz") || strings.HasSuffix(o.Out, ".tgz") {
		return nil, usagef("a transcript is written into a folder: give a folder as OUT")
	}
	t, err := a.newTranscriber(o.Progress)
	if err != nil {
		return nil, err
	}
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	summary, err := capture.Run(ctx, o)
	if err != nil || summary.Interrupted != "" {
		return summary, err
	}
	return summary, t.end(ctx, o.Out)
}

// captureOptions reads the flags and the kubeconfig.
func (a *app) captureOptions(out string) (capture.Options, error) {
	o := capture.Options{
		Out: out, Name: a.config.GetString("name"), Title: a.config.GetString("title"), Query: a.config.GetString("query"),
		Include: a.config.GetStringSlice("include"), Exclude: a.config.GetStringSlice("exclude"), Namespaces: a.config.GetStringSlice("namespace"),
		Secrets: capture.SecretsMode(a.config.GetString("secrets")), NoLogs: a.config.GetBool("no-logs"),
		LogSince: a.config.GetDuration("log-since"), LogLimitBytes: a.config.GetInt64("log-limit-bytes"),
		QPS: float32(a.config.GetFloat64("qps")), Burst: a.config.GetInt("burst"), RequestTimeout: a.config.GetDuration("request-timeout"),
	}
	if o.Name == "" {
		o.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(filepath.Clean(out)), ".tgz"), ".tar.gz")
		if len(names.IsDNS1123Label(o.Name)) > 0 {
			return o, usagef("%q is no name of a case: give one with --name", o.Name)
		}
	}
	if err := a.captureBesides(&o); err != nil {
		return o, usageError{err}
	}
	var err error
	o.Config, err = loadKubeconfig(a.config.GetString("kubeconfig"), a.config.GetString("context"))
	if err != nil {
		return o, usagef("%w; name a kubeconfig with --kubeconfig or KUBECONFIG", err)
	}
	o.Config.UserAgent = "kubecase-capture"
	return o, nil
}

// captureBesides reads the flags about what a cluster has besides its API server.
func (a *app) captureBesides(o *capture.Options) error {
	o.NoNodeProxy = a.config.GetBool("no-node-proxy")
	o.Prometheus, o.Alertmanager = a.config.GetString("prometheus"), a.config.GetString("alertmanager")
	o.MetricsSelect = a.config.GetStringSlice("metrics-select")
	o.MetricsRange, o.MetricsStep = a.config.GetDuration("metrics-range"), a.config.GetDuration("metrics-step")
	o.Jaeger, o.TracesRange, o.TracesLimit = a.config.GetString("jaeger"), a.config.GetDuration("traces-range"), a.config.GetInt("traces-limit")
	o.Probes = a.config.GetStringSlice("probe")
	var errs []error
	for _, from := range a.config.GetStringSlice("probe-from") {
		v, err := capture.ParseVantage(from)
		errs = append(errs, err)
		o.ProbeFrom = append(o.ProbeFrom, v)
	}
	for _, run := range a.config.GetStringSlice("exec") {
		in, command, _ := strings.Cut(run, "=")
		v, err := capture.ParseVantage(in)
		errs = append(errs, err)
		argv, err := shell.Fields(command, func(string) string { return "" })
		if err != nil {
			errs = append(errs, fmt.Errorf("the command %q can't be read: %w", command, err))
		}
		o.Commands = append(o.Commands, capture.Command{In: v, Argv: argv})
	}
	for _, source := range a.config.GetStringSlice("source") {
		app, dir, ok := strings.Cut(source, "=")
		if !ok || dir == "" {
			errs = append(errs, fmt.Errorf("%q names no source tree: give APP=DIR", source))
			continue
		}
		if o.Sources == nil {
			o.Sources = map[string]string{}
		}
		if o.Sources[app] != "" {
			errs = append(errs, fmt.Errorf("the source of %s is given twice", app))
		}
		o.Sources[app] = dir
	}
	return errors.Join(errs...)
}

// loadKubeconfig finds the cluster as kubectl does.
func loadKubeconfig(file, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}

func (a *app) printCapture(format string, s *capture.Summary) error {
	if format != "" {
		return printDocument(a.out, format, s)
	}
	return s.Print(a.out)
}

// progressLine shows how far a capture is: one line that changes on a terminal, a
// line per phase and per tenth elsewhere.
type progressLine struct {
	out io.Writer
	// doing is what is being done; capturing when empty.
	doing    string
	terminal bool
	width    int
	phase    string
	tenth    int
}

func newProgressLine(out io.Writer) *progressLine {
	p := &progressLine{out: out}
	if f, ok := out.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal = true
		p.width, _, _ = term.GetSize(int(f.Fd()))
	}
	return p
}

func (p *progressLine) show(at capture.Progress) {
	if !p.terminal {
		tenth := 0
		if at.Total > 0 {
			tenth = at.Done * 10 / at.Total
		}
		if at.Phase == p.phase && tenth == p.tenth {
			return
		}
		p.phase, p.tenth = at.Phase, tenth
		if at.Total == 0 {
			fmt.Fprintf(p.out, "%s %s\n", cmp.Or(p.doing, "capturing"), at.Phase)
			return
		}
		fmt.Fprintf(p.out, "%s %s: %d of %d\n", cmp.Or(p.doing, "capturing"), at.Phase, at.Done, at.Total)
		return
	}
	const bar = 30
	text := cmp.Or(p.doing, "capturing") + " " + at.Phase
	if at.Total > 0 {
		full := at.Done * bar / at.Total
		text = fmt.Sprintf("%-9s [%s%s] %d/%d %s", at.Phase, strings.Repeat("#", full), strings.Repeat(".", bar-full), at.Done, at.Total, at.What)
	}
	if p.width > 1 && len(text) >= p.width {
		text = text[:p.width-1]
	}
	fmt.Fprintf(p.out, "\r%s\x1b[K", text)
}

// end leaves the terminal's line to what comes next.
func (p *progressLine) end() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
