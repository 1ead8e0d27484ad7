package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/evaluator/report"
	"github.com/kubecase/kubecase/recorder"
)

// hostile is what an agent may write in the hope that someone runs it.
const hostile = `</title></style><script>alert(1)</script><img src=x onerror=alert(2)>"'&{{.}}` + "\x1b[31m\u202egnp.exe"

const truthText = `apiVersion: kubecase.io/v1
kind: Truth
outcome:
  component: deployment/cart
  fault: NodeSelectorMismatch
  layer: Virtualization
graph:
  source: authored
  groups:
  - id: symptom
    title: The shop answers with errors
    milestones:
    - id: errors
      fact: The front end logs that requests to the cart fail.
      bundles:
      - - {id: frontend-errors, tool: T5, args: {service: frontend}, holds: "lines.exists(l, l.contains('cart'))"}
  - id: pending
    title: The cart doesn't run
    requires: [symptom]
    milestones:
    - id: pod-pending
      fact: The pod of cart is Pending.
      bundles:
      - - {id: cart-pending, tool: T1, args: {type: pods, namespace: shop}, holds: "rows.exists(r, r.STATUS == 'Pending')"}
    - id: no-endpoints
      fact: The service cart has no endpoints.
      bundles:
      - - {id: cart-endpoints, tool: T1, args: {type: endpoints, namespace: shop}, holds: "rows.exists(r, r.ENDPOINTS == '<none>')"}
  - id: others
    title: Other workloads run
    requires: [symptom]
    milestones:
    - id: others-run
      fact: The pods of the other workloads are running and ready, so that the whole namespace isn't affected.
      bundles:
      - - {id: others-running, tool: T1, args: {type: pods, namespace: shop}, holds: "rows.exists(r, r.STATUS == 'Running')"}
  - id: scheduling
    title: It can't be scheduled
    requires: [pending]
    milestones:
    - id: failed-scheduling
      fact: The scheduler finds no node that matches the pod's node selector.
      bundles:
      - - {id: cart-events, tool: T2, args: {type: pods}, holds: "events.exists(e, e.reason == 'FailedScheduling')"}
  - id: cause
    title: The selector fits no node
    requires: [scheduling, others]
    milestones:
    - id: fits-none
      fact: The deployment asks for disk=nvme, and no node has this label.
      bundles:
      - - {id: cart-selector, tool: T3, args: {service: cart}, holds: "objects.exists(o, o.spec.template.spec.nodeSelector.disk == 'nvme')"}
        - {id: node-labels, tool: T7, holds: "objects.size() > 0"}
`

var captured = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// investigation is calls of a scripted agent, in words: which evidence each shows.
func investigation(words ...string) *recorder.Trajectory {
	t := &recorder.Trajectory{Episode: "e", Captured: captured}
	for i, word := range words {
		at := captured.Add(time.Duration(i)*1500*time.Millisecond + 400*time.Millisecond)
		c := recorder.Call{Index: i + 1, Start: at, End: at.Add(100 * time.Millisecond), Client: "kubectl", Class: recorder.Delivered}
		use := recorder.Use{Class: recorder.Delivered}
		switch word {
		case "errors":
			c.Command = "kubectl logs -n shop deploy/frontend"
			use.Tool, use.Args = recorder.GetRecentLogs, map[string]string{"namespace": "shop", "service": "frontend"}
			use.Response.Lines = []string{"call to cart failed"}
		case "pods":
			c.Command = "kubectl get pods -n shop"
			use.Tool, use.Args = recorder.GetResources, map[string]string{"type": "pods", "namespace": "shop", "output": "table"}
			use.Response.Rows = []map[string]any{{"NAME": "cart-1", "STATUS": "Pending"}, {"NAME": "front-1", "STATUS": "Running"}}
		case "events":
			c.Command = "kubectl describe pod -n shop cart-1"
			use.Tool, use.Args = recorder.DescribeResource, map[string]string{"type": "pods", "namespace": "shop", "name": "cart-1"}
			use.Response.Events = []map[string]any{{"reason": "FailedScheduling", "message": "no"}}
			use.Response.Objects = []map[string]any{{"kind": "Pod", "metadata": map[string]any{"name": "cart-1", "namespace": "shop"}}}
		case "selector":
			c.Command = "kubectl get deploy cart -n shop -o yaml"
			use.Tool, use.Args = recorder.GetAppYAML, map[string]string{"service": "cart", "namespace": "shop"}
			use.Response.Objects = []map[string]any{{"kind": "Deployment", "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{"disk": "nvme"}}}}}}
		case "nodes":
			c.Command = "kubectl get nodes -o yaml"
			use.Tool = recorder.GetClusterConfig
			use.Response.Objects = []map[string]any{{"kind": "Node", "metadata": map[string]any{"name": "worker-1"}}}
		case "hostile":
			c.Command, c.Client, c.Class, c.Message = hostile, hostile, recorder.Failed, hostile
			use.Tool, use.Class, use.Args = recorder.GetResources, recorder.Failed, map[string]string{"type": "pods", "namespace": "shop", "name": hostile, "output": "table"}
		case "write":
			c.Command, c.Class, c.Message = "kubectl delete pod cart-1 -n shop", recorder.Write, "pods \"cart-1\" is forbidden"
			t.Calls = append(t.Calls, c)
			continue
		default:
			panic("there is no evidence " + word)
		}
		c.Uses = []recorder.Use{use}
		t.Calls = append(t.Calls, c)
	}
	return t
}

func loadSample(t testing.TB) *evaluator.Truth {
	t.Helper()
	truth, err := evaluator.ParseTruth("sample/truth.yaml", []byte(truthText))
	if err != nil {
		t.Fatal(err)
	}
	return truth
}

// episode scores an investigation.
func episode(t testing.TB, truth *evaluator.Truth, agent, kase, answer string, words ...string) report.Episode {
	t.Helper()
	calls := investigation(words...)
	of := evaluator.New(truth, evaluator.Options{})
	ep := evaluator.Episode{Case: kase, System: "shop", Agent: agent, ID: fmt.Sprintf("%x", len(agent+kase)), Trajectory: calls}
	if answer != "" {
		s, err := evaluator.FindSubmission([]byte(answer))
		if err != nil {
			t.Fatal(err)
		}
		ep.Submission = s
	}
	score, err := of.Score(t.Context(), ep)
	if err != nil {
		t.Fatal(err)
	}
	return report.Episode{Score: score, Truth: truth, Attempt: 1, Ended: "ended", Calls: func(ctx context.Context) (*recorder.Trajectory, []evaluator.Observation, error) {
		observations, _, err := of.Observe(ctx, calls)
		return calls, observations, err
	}}
}

const rightAnswer = `{"component": "deployment/cart", "fault": "NodeSelectorMismatch", "layer": "Virtualization"}`

// samplePage has two agents: one that closes the graph, and one that guesses and tries to
// break the page.
func samplePage(t testing.TB) *report.Page {
	t.Helper()
	truth := loadSample(t)
	wrong := fmt.Sprintf(`{"component": %q, "fault": "OOMKilled"}`, "x"+strings.ToValidUTF8(strings.ReplaceAll(hostile, "\x1b", ""), ""))
	return &report.Page{
		Title: "kubecase report", Notes: []string{"a case has no truth: " + hostile},
		Episodes: []report.Episode{
			episode(t, truth, "careful", "cart", rightAnswer, "errors", "pods", "events", "selector", "nodes"),
			episode(t, truth, "careful", "cart-again", rightAnswer, "pods", "errors", "pods", "pods", "events", "nodes", "selector"),
			episode(t, truth, "hasty "+hostile, "cart", wrong, "pods", "hostile", "pods", "write"),
			episode(t, truth, "hasty "+hostile, "cart-again", "", "selector"),
		},
	}
}
