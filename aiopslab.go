package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubecase/kubecase/shims/tools"
)

const (
	// labAgent begins the user agent of requests to Prometheus and Jaeger; what is behind it
	// tells one action's process from the next.
	labAgent = "aiopslab/1"
	// labAnswer bounds an answer of theirs, in bytes.
	labAnswer = 128 << 20
	// maxLabReply bounds what is read of a reply; the parser refuses what is longer than its own bound.
	maxLabReply = 1 << 20
)

func (a *app) newAIOpsLab() *cobra.Command {
	c := &cobra.Command{
		Use:   "aiopslab [REPLY]",
		Short: "Do what the reply of an AIOpsLab agent asks for; for an agent inside 'kubecase run'",
		Long: `Do what the reply of an agent that was written for AIOpsLab asks for, in the episode in
which this runs, and print the answer. The reply is the argument or standard input. It
has one call, in a block of code or bare:

  get_logs("shop", "cart")
  get_metrics("shop", 10), then read_metrics("<a file of the folder>")
  get_traces("shop", 5), then read_traces("<the file>")
  exec_shell("kubectl get pods -n shop | grep cart")
  submit("Yes"), submit(["cart"]), submit({"system_level": …, "fault_type": …}), submit()

What is wrong with a call is told in the answer, which begins "Error: "; the exit code is
2 only for a reply without a call. Shell commands run where 'kubecase sandbox' would
run an agent. --actions prints the descriptions of the actions, for the agent's prompt.`,
		Example: `  kubecase aiopslab 'exec_shell("kubectl get pods -n shop")'
  my-model <history | kubecase aiopslab
  kubecase aiopslab --actions -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.config.GetBool("actions") {
				return a.printActions()
			}
			if a.config.GetString("output") != "" {
				return usagef("--output goes with --actions")
			}
			lab, err := a.aiopslab()
			if err != nil {
				return err
			}
			var reply []byte
			if len(args) == 1 {
				reply = []byte(args[0])
			} else if reply, err = io.ReadAll(io.LimitReader(a.in, maxLabReply)); err != nil {
				return err
			}
			text, err := lab.Act(cmd.Context(), string(reply))
			if errors.Is(err, tools.ErrNoCall) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			_, err = io.WriteString(a.out, text)
			return err
		},
	}
	addOutputFlag(c, false)
	c.Flags().Bool("actions", false, "print the actions' descriptions instead")
	return c
}

func (a *app) printActions() error {
	format, err := a.outputFormat()
	if err != nil {
		return err
	}
	if format != "" {
		return printDocument(a.out, format, tools.DescribeActions())
	}
	_, err = io.WriteString(a.out, tools.Prompt())
	return err
}

// aiopslab is the actions of the episode in which this runs.
func (a *app) aiopslab() (*tools.AIOpsLab, error) {
	home, _ := a.lookup("HOME")
	kubeconfig, _ := a.lookup("KUBECONFIG")
	if home == "" || !strings.HasPrefix(kubeconfig, home+string(filepath.Separator)) {
		return nil, usagef("HOME and KUBECONFIG are not an episode's: use it in 'kubecase run CASE -- COMMAND'")
	}
	dir := agentFolder(home)
	o := tools.AIOpsLabOptions{
		Kubectl: func(ctx context.Context, args ...string) (tools.Printed, error) {
			// The first one in the agent's path, which is on record as any other.
			return a.runForLab(ctx, toolTimeout, dir, append([]string{"kubectl"}, args...))
		},
		Prometheus: a.asker("PROMETHEUS_URL"), Jaeger: a.asker("JAEGER_URL"),
		Submit: a.submit, Dir: dir, Now: time.Now,
	}
	shell, why := a.labShell()
	if o.NoShell = why; why == "" {
		o.Shell = func(ctx context.Context, command string, timeout time.Duration) (tools.Printed, error) {
			return a.runForLab(ctx, timeout, dir, append(slices.Clone(shell), "sh", "-c", command))
		}
	}
	return tools.NewAIOpsLab(o), nil
}

// labShell is what stands before a command so that it runs in a sandbox: nothing inside of one; why says
// why there can be none.
func (a *app) labShell() (before []string, why string) {
	if inside, _ := a.lookup(sandboxVariable); inside != "" {
		return nil, ""
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, "commands run in a sandbox, and bubblewrap, which makes it, is not installed"
	}
	args, err := a.sandboxArgs(nil, nil)
	if err != nil {
		return nil, err.Error()
	}
	return append([]string{bwrap}, args...), ""
}

// runForLab runs a program in the agent's folder with its environment and no input. When its time is over,
// what it printed until then comes with context.DeadlineExceeded.
func (a *app) runForLab(ctx context.Context, timeout time.Duration, dir string, argv []string) (p tools.Printed, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if command.Path = lookPath(argv[0], a.environ, command.Path); filepath.IsAbs(command.Path) {
		command.Err = nil // it is in the agent's path
	}
	command.Dir, command.Env = dir, a.environ
	ownGroup(command)
	command.Cancel = func() error { endGroup(command, true); return nil }
	// What left the group may hold the pipes.
	command.WaitDelay = graceTime
	var stdout, stderr labOutput
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	if command.Process != nil {
		endGroup(command, true) // what the command left running
	}
	p.Stdout, p.Stderr = stdout.String(), stderr.String()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case errors.As(err, &exit):
		p.ExitCode = exit.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return p, fmt.Errorf("%s: %w", argv[0], err)
	}
	return p, nil
}

// labOutput keeps the beginning of what is written to it, and its end.
type labOutput struct {
	head, tail bytes.Buffer
	left       int
}

// Write implements io.Writer.
func (o *labOutput) Write(p []byte) (int, error) {
	n := len(p)
	keep := min(n, toolOutput/2-o.head.Len())
	o.head.Write(p[:keep])
	o.tail.Write(p[keep:])
	if over := o.tail.Len() - toolOutput/2; over > 0 {
		o.left += over
		o.tail.Next(over)
	}
	return n, nil
}

// String is what was kept.
func (o *labOutput) String() string {
	if o.left == 0 {
		return o.head.String() + o.tail.String()
	}
	return fmt.Sprintf("%s\n[… %d bytes are left out here …]\n%s", o.head.String(), o.left, o.tail.String())
}

// asker asks the service whose URL is in a variable; nil where there is none.
func (a *app) asker(variable string) func(context.Context, string, url.Values) (int, []byte, error) {
	base, _ := a.lookup(variable)
	if base == "" {
		return nil
	}
	agent := labAgent + " (" + rand.Text() + ")"
	return func(ctx context.Context, path string, query url.Values) (int, []byte, error) {
		u, err := url.Parse(strings.TrimSuffix(base, "/") + path)
		if err != nil {
			return 0, nil, fmt.Errorf("%s is no URL", variable) // its password is not for a message
		}
		u.RawQuery = query.Encode()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("User-Agent", agent)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, labAnswer+1))
		if err == nil && len(body) > labAnswer {
			err = fmt.Errorf("%s answered with more than %d bytes", variable, labAnswer)
		}
		return resp.StatusCode, body, err
	}
}

// agentFolder is where an agent's commands run.
func agentFolder(home string) string {
	work := filepath.Join(home, "work")
	if info, err := os.Stat(work); err != nil || !info.IsDir() {
		return home
	}
	return work
}
