package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubecase/kubecase/evaluator"
)

func (a *app) newSubmit() *cobra.Command {
	c := &cobra.Command{
		Use:   "submit [FILE|-]",
		Short: "Hand in a diagnosis; for an agent inside 'kubecase run'",
		Long: `Hand in a diagnosis: a JSON object, from a file, from standard input ("-"), or
made of --component, --fault and --commands. It goes to the episode that KUBECONFIG names. The
last one that was handed in counts.`,
		Example: `  kubecase submit --component deployment/checkout --fault OOMKilled
  echo '{"component": "node/worker-1", "fault": "KubeletUnavailable"}' | kubecase submit -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := a.answer(args)
			if err != nil {
				return err
			}
			return a.submit(cmd.Context(), answer)
		},
	}
	f := c.Flags()
	f.String("component", "", "the faulty component, such as deployment/checkout or node/worker-1")
	f.String("fault", "", "what is wrong with it, such as OOMKilled")
	f.StringArray("command", nil, "a command that would repair it; repeat for more")
	return c
}

// answer is the answer of the command line, as JSON.
func (a *app) answer(args []string) ([]byte, error) {
	component, fault, commands := a.config.GetString("component"), a.config.GetString("fault"), a.config.GetStringSlice("command")
	if len(args) == 0 {
		if component == "" && fault == "" {
			return nil, usagef("nothing to hand in: name a file, - for standard input, or give --component and --fault")
		}
		return json.Marshal(evaluator.Submission{Component: component, Fault: fault, Commands: commands})
	}
	if component != "" || fault != "" || len(commands) > 0 {
		return nil, usagef("give either a file or --component, --fault and --command")
	}
	in := a.in
	if args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	answer, err := io.ReadAll(io.LimitReader(in, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return answer, err
}

// submit sends an answer to the episode of KUBECONFIG.
func (a *app) submit(ctx context.Context, answer []byte) error {
	path, _ := a.lookup("KUBECONFIG")
	if path == "" {
		return usagef("KUBECONFIG is not set: an agent that 'kubecase run' started has it")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return fmt.Errorf("KUBECONFIG: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("KUBECONFIG: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(config.Host, "/")+submitPath, bytes.NewReader(answer))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return errors.New("this server takes no answers: it is no episode of 'kubecase run'")
	}
	return errors.Join(fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text))), err)
}
