package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubecase/kubecase/fixtures/capture"
	"github.com/kubecase/kubecase/fixtures/fidelity"
)

// maxTranscriptOutput bounds what one command may print, so that a transcript stays a document.
const maxTranscriptOutput = 16 << 20

// transcriber runs kubectl against the cluster that is captured, before and after,
// and keeps what it printed: what changed in between shows itself.
type transcriber struct {
	kubectl, context string
	environ          []string
	progress         func(capture.Progress)
	started          time.Time
	before           []fidelity.Command
}

// newTranscriber finds kubectl; the kubeconfig is the one that is captured from.
func (a *app) newTranscriber(progress func(capture.Progress)) (*transcriber, error) {
	kubectl, err := exec.LookPath(a.config.GetString("kubectl"))
	if err != nil {
		return nil, usagef("--kubectl: %w", err)
	}
	if kubectl, err = filepath.Abs(kubectl); err != nil {
		return nil, err
	}
	t := &transcriber{kubectl: kubectl, context: a.config.GetString("context"), progress: progress}
	t.environ = append(slices.Clone(a.environ), "TZ=UTC", "KUBECTL_COMMAND_HEADERS=false")
	if file := a.config.GetString("kubeconfig"); file != "" {
		t.environ = append(t.environ, "KUBECONFIG="+file)
	}
	return t, nil
}

// run runs kubectl; that it fails is an answer too.
func (t *transcriber) run(ctx context.Context, args ...string) (fidelity.Command, error) {
	c := fidelity.Command{Args: args, Time: time.Now().UTC().Truncate(time.Second)}
	if t.context != "" {
		args = append(slices.Clone(args), "--context="+t.context)
	}
	command := exec.CommandContext(ctx, t.kubectl, args...)
	command.Env = t.environ
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return c, fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	if stdout.Len() > maxTranscriptOutput {
		return c, fmt.Errorf("kubectl %s: it printed more than %d bytes; leave the resource out with --exclude", strings.Join(args, " "), maxTranscriptOutput)
	}
	c.Stdout, c.Stderr = stdout.String(), stderr.String()
	return c, nil
}

// commands are what an investigator can ask of this cluster: every resource in every form,
// schemas, and every log.
func (t *transcriber) commands(ctx context.Context) ([][]string, error) {
	out := [][]string{
		{"version"}, {"api-versions"}, {"api-resources"}, {"api-resources", "-o", "wide"}, {"events", "-A"}, {"top", "nodes"}, {"top", "pods", "-A"},
		{"top", "pods", "-A", "--containers"},
	}
	names, err := t.run(ctx, "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(names.Stdout) {
		get := []string{"get", name, "-A"}
		out = append(out, get, append(slices.Clone(get), "-o", "wide"), append(slices.Clone(get), "--show-labels"),
			append(slices.Clone(get), "-o", "yaml"), []string{"describe", name, "-A"}, []string{"explain", name})
	}
	pods, err := t.run(ctx, "get", "pods", "-A", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Spec     struct {
				InitContainers, Containers, EphemeralContainers []struct{ Name string }
			}
		}
	}
	if err := json.Unmarshal([]byte(pods.Stdout), &list); err != nil {
		return nil, fmt.Errorf("the pods can't be read from kubectl: %w: %s", err, pods.Stderr)
	}
	for _, pod := range list.Items {
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers, pod.Spec.EphemeralContainers) {
			logs := []string{"logs", "-n", pod.Metadata.Namespace, pod.Metadata.Name, "-c", container.Name}
			out = append(out, logs, append(slices.Clone(logs), "--previous"))
		}
	}
	return out, nil
}

// begin runs everything once, before the capture.
func (t *transcriber) begin(ctx context.Context) error {
	commands, err := t.commands(ctx)
	if err != nil {
		return err
	}
	t.started = time.Now()
	for i, args := range commands {
		t.progress(capture.Progress{Phase: "commands", Done: i, Total: len(commands), What: strings.Join(args, " ")})
		c, err := t.run(ctx, args...)
		if err != nil {
			return err
		}
		t.before = append(t.before, c)
	}
	return nil
}

// end runs everything again and writes the transcript into the case. Commands that
// print something else than before, ages aside, are marked as drift.
func (t *transcriber) end(ctx context.Context, dir string) error {
	out := &fidelity.Transcript{Kubectl: minorOf(clientVersion(ctx, t.kubectl)), Timezone: "UTC"}
	for i := range t.before {
		c := t.before[i]
		t.progress(capture.Progress{Phase: "commands", Done: i, Total: len(t.before), What: strings.Join(c.Args, " ")})
		again, err := t.run(ctx, c.Args...)
		if err != nil {
			return err
		}
		between := int64(again.Time.Sub(c.Time)/time.Second) + 1
		c.Drift = !fidelity.Compare(&c, again.Stdout).Within(between) || c.Stderr != again.Stderr
		out.Commands = append(out.Commands, c)
	}
	text, err := out.Encode()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, filepath.FromSlash(fidelity.TranscriptDocument))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// minorOf is "1.34" of "v1.34.4".
func minorOf(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}
