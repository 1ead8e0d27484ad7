// Command react is a small agent: a model behind any OpenAI-compatible endpoint that
// thinks, runs kubectl, reads what it printed, and answers. It shows how little an
// agent needs to know of kubecase, which is nothing: it has a query and a kubeconfig.
//
//	kubecase run shop-nodes --env OPENAI_API_KEY --env OPENAI_BASE_URL=https://… -- react --model NAME
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "react:", err)
		os.Exit(1)
	}
}

// run reads the query and prints the diagnosis as one line of JSON, last.
func run(ctx context.Context, args []string, in io.Reader, out, log io.Writer) error {
	flags := flag.NewFlagSet("react", flag.ContinueOnError)
	flags.SetOutput(log)
	a := &agent{client: &http.Client{Timeout: 5 * time.Minute}, log: log, kubectl: "kubectl"}
	flags.StringVar(&a.endpoint, "endpoint", environment("OPENAI_BASE_URL", "https://api.openai.com/v1"), "base URL of an OpenAI-compatible API; default: OPENAI_BASE_URL")
	flags.StringVar(&a.model, "model", os.Getenv("OPENAI_MODEL"), "the model's name; default: OPENAI_MODEL")
	flags.IntVar(&a.steps, "steps", 30, "commands that it may run")
	flags.IntVar(&a.outputLimit, "output-limit", 16_000, "bytes of a command's output that the model gets")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if a.model == "" {
		return errors.New("no model: give --model, or set OPENAI_MODEL")
	}
	a.key = os.Getenv("OPENAI_API_KEY")
	query, err := io.ReadAll(io.LimitReader(in, 1<<20))
	if err != nil {
		return err
	}
	answer, err := a.investigate(ctx, string(query))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, answer)
	return err
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
