package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"mvdan.cc/sh/v3/shell"
)

const instructions = `You investigate an incident in a Kubernetes cluster with kubectl. The cluster is read-only.
Call the tool kubectl with the arguments of one kubectl command at a time, look at what it prints, and go on until you know the
root cause. Then call the tool answer once: the faulty component (such as deployment/name or node/name) and the type of the
fault in CamelCase. If nothing is wrong, call answer with detected false.`

const (
	// commandTime bounds one kubectl command, maxAnswer a response of the model, in bytes.
	commandTime, maxAnswer = time.Minute, 8 << 20
)

// agent is a loop of thought, action and observation (ReAct, arXiv 2210.03629).
type agent struct {
	endpoint, key, model, kubectl string
	steps, outputLimit            int
	client                        *http.Client
	log                           io.Writer
	// input and output are the tokens used so far.
	input, output int64
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// tools are described to the model as JSON schemas.
var tools = json.RawMessage(`[
 {"type": "function", "function": {"name": "kubectl", "description": "Run one kubectl command and return what it prints.",
  "parameters": {"type": "object", "properties": {"args": {"type": "string", "description": "the arguments after kubectl, as in a shell"}}, "required": ["args"]}}},
 {"type": "function", "function": {"name": "answer", "description": "Hand the diagnosis in. Ends the investigation.",
  "parameters": {"type": "object", "properties": {
   "component": {"type": "string"}, "fault": {"type": "string"}, "layer": {"type": "string"}, "detected": {"type": "boolean"},
   "components": {"type": "array", "items": {"type": "string"}}, "commands": {"type": "array", "items": {"type": "string"}}}}}}]`)

// investigate returns the diagnosis as JSON.
func (a *agent) investigate(ctx context.Context, query string) (string, error) {
	conversation := []message{{Role: "system", Content: instructions}, {Role: "user", Content: query}}
	for range a.steps + 1 {
		reply, err := a.ask(ctx, conversation)
		if err != nil {
			return "", err
		}
		conversation = append(conversation, reply)
		if reply.Content != "" {
			fmt.Fprintf(a.log, "thought: %s\n", strings.TrimSpace(reply.Content))
		}
		if len(reply.ToolCalls) == 0 {
			conversation = append(conversation, message{Role: "user", Content: "Call the tool kubectl to look further, or the tool answer to hand the diagnosis in."})
			continue
		}
		for _, call := range reply.ToolCalls {
			switch call.Function.Name {
			case "answer":
				return a.withTokens(call.Function.Arguments)
			case "kubectl":
				conversation = append(conversation, message{Role: "tool", ToolCallID: call.ID, Content: a.run(ctx, call.Function.Arguments)})
			default:
				conversation = append(conversation, message{Role: "tool", ToolCallID: call.ID, Content: "there is no such tool"})
			}
		}
	}
	return "", fmt.Errorf("no answer after %d steps", a.steps)
}

// ask sends the conversation and returns the model's next message.
func (a *agent) ask(ctx context.Context, conversation []message) (message, error) {
	body, err := json.Marshal(map[string]any{"model": a.model, "messages": conversation, "tools": tools})
	if err != nil {
		return message{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(a.endpoint, "/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return message{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return message{}, fmt.Errorf("the model's API answered %s: %.500s", resp.Status, text)
	}
	completion := struct {
		Choices []struct{ Message message }
		Usage   struct {
			PromptTokens     int64 `json:"prompt_tokens"`
			CompletionTokens int64 `json:"completion_tokens"`
		}
	}{}
	if err := json.Unmarshal(text, &completion); err != nil {
		return message{}, fmt.Errorf("the model's API answered no JSON: %w", err)
	}
	if len(completion.Choices) == 0 {
		return message{}, errors.New("the model's API answered without a choice")
	}
	a.input += completion.Usage.PromptTokens
	a.output += completion.Usage.CompletionTokens
	return completion.Choices[0].Message, nil
}

// run runs kubectl and returns what the model gets to see. No shell is involved:
// the arguments are split as a shell would, and nothing in them is expanded.
func (a *agent) run(ctx context.Context, arguments string) string {
	wanted := struct{ Args string }{}
	if err := json.Unmarshal([]byte(arguments), &wanted); err != nil {
		return "the arguments are no JSON object with args: " + err.Error()
	}
	args, err := shell.Fields(strings.TrimPrefix(strings.TrimSpace(wanted.Args), "kubectl "), unexpanded)
	if err != nil {
		return "the arguments can't be split: " + err.Error()
	}
	fmt.Fprintf(a.log, "kubectl %s\n", wanted.Args)
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, a.kubectl, args...).CombinedOutput()
	text := string(out)
	if len(text) > a.outputLimit {
		text = text[:a.outputLimit] + fmt.Sprintf("\n… cut after %d of %d bytes: narrow the command", a.outputLimit, len(text))
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		text += "\n" + err.Error()
	}
	return text
}

// unexpanded leaves a variable as it is written. IFS is what words are split at.
func unexpanded(name string) string {
	if name == "IFS" {
		return ""
	}
	return "$" + name
}

// withTokens adds what the investigation cost to the diagnosis.
func (a *agent) withTokens(arguments string) (string, error) {
	diagnosis := map[string]any{}
	if err := json.Unmarshal([]byte(arguments), &diagnosis); err != nil {
		return "", fmt.Errorf("the model's answer is no JSON object: %w", err)
	}
	if a.input+a.output > 0 {
		diagnosis["inputTokens"], diagnosis["outputTokens"] = a.input, a.output
	}
	text, err := json.Marshal(diagnosis)
	return string(text), err
}
