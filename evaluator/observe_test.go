package evaluator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubecase/kubecase/recorder"
)

// clauseEvaluator is for a graph of one clause, "q", written as YAML.
func clauseEvaluator(t testing.TB, clause string, options Options) *Evaluator {
	t.Helper()
	text := head + "graph:\n  source: authored\n  clauses:\n    q: " + clause + "\n  groups: [{id: g, milestones: [{id: m, fact: f, bundles: [[q]]}]}]\n"
	truth, err := ParseTruth("t.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", clause, err)
	}
	return New(truth, options)
}

// use reads a use from JSON; its class is delivered unless it says otherwise.
func use(t testing.TB, text string) recorder.Use {
	t.Helper()
	u := recorder.Use{Class: recorder.Delivered}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&u); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

const (
	podTable   = `{"tool":"T1","args":{"type":"pods","namespace":"shop","name":"","output":"table"},"response":{"status":200,"rows":[{"NAME":"cart-1","STATUS":"Pending"},{"NAME":"web-1","STATUS":"Running"}]}}`
	allTable   = `{"tool":"T1","args":{"type":"pods","namespace":"*","name":"","output":"table"},"response":{"status":200,"rows":[{"NAMESPACE":"bank","NAME":"cart-1","STATUS":"Pending"},{"NAMESPACE":"shop","NAME":"cart-1","STATUS":"Running"}]}}`
	podObject  = `{"tool":"T1","args":{"type":"pods","namespace":"shop","name":"cart-1","output":"object"},"response":{"status":200,"objects":[{"kind":"Pod","metadata":{"name":"cart-1","namespace":"shop"},"status":{"phase":"Pending"}}]}}`
	podList    = `{"tool":"T1","args":{"type":"pods","namespace":"shop","name":"","output":"object"},"response":{"status":200,"objects":[{"kind":"Pod","metadata":{"name":"cart-1","namespace":"shop"},"status":{"phase":"Pending"}},{"kind":"Pod","metadata":{"name":"web-1","namespace":"shop"},"status":{"phase":"Running"}}]}}`
	podMeta    = `{"tool":"T1","args":{"type":"pods","namespace":"shop","name":"","output":"metadata"},"response":{"status":200,"objects":[{"metadata":{"name":"cart-1","namespace":"shop"}}]}}`
	podGone    = `{"tool":"T1","class":"not-found","args":{"type":"pods","namespace":"shop","name":"gone","output":"table"},"response":{"status":404,"reason":"NotFound","message":"pods \"gone\" not found"}}`
	podSelect  = `{"tool":"T1","args":{"type":"pods","namespace":"shop","name":"","labels":"app=typo","output":"table"},"response":{"status":200}}`
	podNone    = `{"tool":"T1","args":{"type":"pods","namespace":"shop","name":"","output":"table"},"response":{"status":200}}`
	podDescr   = `{"tool":"T2","args":{"type":"pods","namespace":"shop","name":"cart-1"},"response":{"status":200,"objects":[{"kind":"Pod","metadata":{"name":"cart-1","namespace":"shop"},"status":{"phase":"Pending"}}],"events":[{"reason":"FailedScheduling","involvedObject":{"kind":"Pod","name":"cart-1","namespace":"shop"}}]}}`
	eventTable = `{"tool":"T1","args":{"type":"events","namespace":"shop","name":"","output":"table"},"response":{"status":200,"rows":[{"TYPE":"Warning","REASON":"FailedScheduling","OBJECT":"pod/cart-1","MESSAGE":"0/3 nodes"},{"TYPE":"Normal","REASON":"Pulled","OBJECT":"pod/web-1","MESSAGE":"ok"}]}}`
	eventList  = `{"tool":"T1","args":{"type":"events","namespace":"*","name":"","output":"object"},"response":{"status":200,"events":[{"reason":"FailedScheduling","metadata":{"namespace":"shop"},"involvedObject":{"kind":"Pod","name":"cart-1","namespace":"shop"}},{"reason":"BackOff","metadata":{"namespace":"bank"},"involvedObject":{"kind":"Pod","name":"cart-1","namespace":"bank"}}]}}`
	deployment = `{"tool":"T1","args":{"type":"deployments","namespace":"shop","name":"cart","output":"object"},"response":{"status":200,"objects":[{"kind":"Deployment","metadata":{"name":"cart","namespace":"shop"},"spec":{"replicas":0}}]}}`
	appYAML    = `{"tool":"T3","args":{"service":"cart","namespace":"shop"},"response":{"status":200,"objects":[{"kind":"Deployment","metadata":{"name":"cart","namespace":"shop"},"spec":{"replicas":0}},{"kind":"Service","metadata":{"name":"cart","namespace":"shop"}}]}}`
	nodeList   = `{"tool":"T1","args":{"type":"nodes","namespace":"","name":"","output":"object"},"response":{"status":200,"objects":[{"kind":"Node","metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}},{"kind":"Node","metadata":{"name":"n2"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}}`
	cluster    = `{"tool":"T7","response":{"status":200,"objects":[{"kind":"Node","metadata":{"name":"n1"},"spec":{"unschedulable":true}}]}}`
	logs       = `{"tool":"T5","args":{"namespace":"shop","service":"cart","pod":"cart-1"},"response":{"status":200,"lines":["started","ERROR no route to db"]}}`
	podLogs    = `{"tool":"T5","args":{"namespace":"shop","service":"","pod":"cart-7d9-x2"},"response":{"status":200,"lines":["ERROR no route to db"]}}`
	errorLogs  = `{"tool":"T9","args":{"namespace":"shop","service":"cart"},"response":{"status":200,"lines":["ERROR no route to db"]}}`
	noErrors   = `{"tool":"T9","args":{"namespace":"shop","service":"cart"},"response":{"status":200}}`
	probe      = `{"tool":"T6","args":{"namespace":"shop","service":"db","port":"5432"},"response":{"text":"connection refused","exitCode":1}}`
)

// TestSupplies says which use is evidence for which clause.
func TestSupplies(t *testing.T) {
	for _, test := range []struct {
		name, clause, use string
		want              bool
	}{
		{"a row of a list", `{tool: T1, args: {type: pods, namespace: shop}, holds: "rows.exists(r, r.STATUS == 'Pending')"}`, podTable, true},
		{"another type", `{tool: T1, args: {type: services, namespace: shop}, holds: "rows.size() > 0"}`, podTable, false},
		{"another namespace", `{tool: T1, args: {type: pods, namespace: bank}, holds: "rows.size() > 0"}`, podTable, false},
		{"alternatives and globs", `{tool: T1, args: {type: [po*, services], namespace: [bank, sh*]}, holds: "rows.size() == 2"}`, podTable, true},
		{"named: the list is narrowed to it", `{tool: T1, args: {type: pods, namespace: shop, name: web-1}, holds: "rows.size() == 1 && rows[0].STATUS == 'Running'"}`, podTable, true},
		{"named: others' rows don't count", `{tool: T1, args: {type: pods, namespace: shop, name: web-1}, holds: "rows.exists(r, r.STATUS == 'Pending')"}`, podTable, false},
		{"all namespaces: narrowed to one", `{tool: T1, args: {type: pods, namespace: shop}, holds: "rows.exists(r, r.STATUS == 'Pending')"}`, allTable, false},
		{"all namespaces: the right one", `{tool: T1, args: {type: pods, namespace: bank}, holds: "rows.exists(r, r.STATUS == 'Pending')"}`, allTable, true},
		{"a list is asked for", `{tool: T1, args: {type: pods, name: ""}, holds: "objects.size() > 0"}`, podObject, false},
		{"a table doesn't deliver objects", `{tool: T1, args: {type: pods}, holds: "objects.size() == 0"}`, podTable, false},
		{"nor is their absence shown", `{tool: T1, args: {type: pods}, holds: "!objects.exists(p, p.status.phase == 'Pending')"}`, podTable, false},
		{"either of two sources: table", `{tool: T1, args: {type: pods}, holds: "objects.exists(p, p.status.phase == 'Pending') || rows.exists(r, r.STATUS == 'Pending')"}`, podTable, true},
		{"either of two sources: object", `{tool: T1, args: {type: pods}, holds: "objects.exists(p, p.status.phase == 'Pending') || rows.exists(r, r.STATUS == 'Pending')"}`, podObject, true},
		{"metadata lacks the rest", `{tool: T1, args: {type: pods}, holds: "objects.exists(p, !has(p.status))"}`, podMeta, false},
		{"metadata, asked for", `{tool: T1, args: {type: pods, output: metadata}, holds: "objects.size() == 1"}`, podMeta, true},
		{"list by name", `{tool: T1, args: {type: pods, namespace: shop, name: cart-*}, holds: "objects.all(p, p.status.phase == 'Pending')"}`, podList, true},
		{"an empty list is empty", `{tool: T1, args: {type: pods, namespace: shop}, holds: "rows.size() == 0"}`, podNone, true},
		{"an empty selection isn't", `{tool: T1, args: {type: pods, namespace: shop}, holds: "rows.size() == 0"}`, podSelect, false},
		{"an empty selection, asked for", `{tool: T1, args: {type: pods, namespace: shop, labels: app=*}, holds: "rows.size() == 0"}`, podSelect, true},
		{"not found", `{tool: T1, args: {type: pods, namespace: shop, name: gone}, holds: "reason == 'NotFound'"}`, podGone, true},
		{"not found delivers nothing else", `{tool: T1, args: {type: pods, namespace: shop, name: gone}, holds: "rows.all(r, r.STATUS == 'Running')"}`, podGone, false},
		{"not found, for a description", `{tool: T2, args: {type: pods, namespace: shop, name: gone}, holds: "status == 404"}`, podGone, true},
		{"absent from a whole list", `{tool: T1, args: {type: pods, namespace: shop, name: gone}, holds: "reason == 'NotFound'"}`, podTable, true},
		{"there in a list", `{tool: T1, args: {type: pods, namespace: shop, name: cart-1}, holds: "reason == 'NotFound'"}`, podTable, false},
		{"absent from a selection", `{tool: T1, args: {type: pods, namespace: shop, name: gone}, holds: "reason == 'NotFound'"}`, podSelect, false},

		{"describe delivers the object", `{tool: T1, args: {type: pods, namespace: shop, name: cart-1}, holds: "objects.exists(p, p.status.phase == 'Pending')"}`, podDescr, true},
		{"describe delivers no row", `{tool: T1, args: {type: pods, namespace: shop, name: cart-1}, holds: "rows.exists(p, p.STATUS == 'Pending')"}`, podDescr, false},
		{"get -o yaml for describe", `{tool: T2, args: {type: pods, namespace: shop, name: cart-1}, holds: "objects.exists(p, p.status.phase == 'Pending')"}`, podObject, true},
		{"get -o yaml shows no events", `{tool: T2, args: {type: pods, namespace: shop, name: cart-1}, holds: "events.size() == 0"}`, podObject, false},
		{"events of describe", `{tool: T2, args: {type: pods, namespace: shop, name: cart-1}, holds: "events.exists(e, e.reason == 'FailedScheduling')"}`, podDescr, true},
		{"events of describe by get events", `{tool: T2, args: {type: pods, namespace: shop, name: cart-*}, holds: "events.exists(e, e.reason == 'FailedScheduling' && e.message.contains('nodes'))"}`, eventTable, true},
		{"events of another object", `{tool: T2, args: {type: pods, namespace: shop, name: web-1}, holds: "events.exists(e, e.reason == 'FailedScheduling')"}`, eventTable, false},
		{"events of another type", `{tool: T2, args: {type: nodes, name: cart-1}, holds: "events.exists(e, e.reason == 'FailedScheduling')"}`, eventTable, false},
		{"events of all namespaces", `{tool: T2, args: {type: pods, namespace: shop, name: cart-1}, holds: "events.exists(e, e.reason == 'BackOff')"}`, eventList, false},
		{"events listed, as events", `{tool: T1, args: {type: events, namespace: bank}, holds: "events.exists(e, e.reason == 'BackOff') && events.size() == 1"}`, eventList, true},
		{"events listed, as objects", `{tool: T1, args: {type: events, namespace: bank}, holds: "objects.exists(e, e.reason == 'BackOff')"}`, eventList, true},
		{"get events by describe", `{tool: T1, args: {type: events, namespace: shop}, holds: "events.exists(e, e.reason == 'FailedScheduling')"}`, podDescr, true},

		{"configuration by get -o yaml", `{tool: T3, args: {service: cart, namespace: shop}, holds: "objects.exists(o, o.kind == 'Deployment' && o.spec.replicas == 0)"}`, deployment, true},
		{"configuration of another service", `{tool: T3, args: {service: web, namespace: shop}, holds: "objects.exists(o, o.kind == 'Deployment')"}`, deployment, false},
		{"configuration by a pod", `{tool: T3, args: {service: cart-1}, holds: "objects.size() > 0"}`, podObject, false},
		{"deployment by configuration", `{tool: T1, args: {type: deployments, namespace: shop, name: cart}, holds: "objects.size() == 1 && objects[0].spec.replicas + 1 == 1"}`, appYAML, true},
		{"statefulset by configuration without one", `{tool: T1, args: {type: statefulsets, namespace: shop, name: cart}, holds: "objects.size() == 0"}`, appYAML, false},
		{"cluster by nodes", `{tool: T7, holds: "objects.exists(n, n.status.conditions.exists(c, c.type == 'Ready' && c.status != 'True'))"}`, nodeList, true},
		{"node by cluster", `{tool: T1, args: {type: nodes, name: n1}, holds: "objects.exists(n, n.spec.unschedulable)"}`, cluster, true},
		{"described node by cluster, another", `{tool: T2, args: {type: nodes, name: n2}, holds: "objects.exists(n, n.spec.unschedulable)"}`, cluster, false},
		{"kubelet by node conditions", `{tool: T10, args: {node: n1, component: kubelet}, holds: "objects.all(n, n.status.conditions.exists(c, c.type == 'Ready' && c.status == 'Unknown'))"}`, nodeList, true},
		{"kube-proxy by node conditions", `{tool: T10, args: {node: n1, component: kube-proxy}, holds: "objects.size() > 0"}`, nodeList, false},

		{"one of the component statuses", `{tool: T10, args: {component: scheduler}, holds: "rows.all(r, r.STATUS == 'Unhealthy')"}`, `{"tool":"T10","args":{"component":"*"},"response":{"rows":[{"NAME":"scheduler","STATUS":"Unhealthy"},{"NAME":"etcd-0","STATUS":"Healthy"}]}}`, true},
		{"a query", `{tool: T8, args: {query: "*throttled*"}, holds: "series.size() == 1"}`, `{"tool":"T8","args":{"query":"rate(container_cpu_cfs_throttled_seconds_total[5m])"},"response":{"series":[{"metric":{}}]}}`, true},

		{"error logs by logs", `{tool: T9, args: {namespace: shop, service: cart}, holds: "lines.exists(l, l.matches('ERROR .* db'))"}`, logs, true},
		{"logs by error logs", `{tool: T5, args: {namespace: shop, service: cart}, holds: "lines.exists(l, l.contains('no route'))"}`, errorLogs, true},
		{"a clean log isn't shown by no error lines", `{tool: T5, args: {namespace: shop, service: cart}, holds: "!lines.exists(l, l.contains('started'))"}`, noErrors, false},
		{"logs of a pod of the service", `{tool: T5, args: {namespace: shop, service: cart}, holds: "lines.size() > 0"}`, podLogs, true},
		{"logs of a pod of another", `{tool: T5, args: {namespace: shop, service: art}, holds: "lines.size() > 0"}`, podLogs, false},
		{"logs of the present container", `{tool: T5, args: {service: cart, previous: "false"}, holds: "lines.size() > 0"}`, logs, true},
		{"logs of the previous container", `{tool: T5, args: {service: cart, previous: "true"}, holds: "lines.size() > 0"}`, logs, false},
		{"a probe's exit code", `{tool: T6, args: {service: db, port: "5432"}, holds: "exitCode != 0 && text.contains('refused')"}`, probe, true},
		{"an unknown exit code", `{tool: T8, holds: "exitCode == 0 || alerts.size() == 0"}`, `{"tool":"T8","response":{"alerts":[{"labels":{}}]}}`, false},
		{"a number in a series", `{tool: T8, holds: "series.exists(s, s.values.exists(v, double(v[1]) > 0.5))"}`, `{"tool":"T8","response":{"series":[{"metric":{},"values":[[1764547200,"0.75"]]}]}}`, true},

		{"its own arguments", `{tool: T1, args: {type: pods}, holds: "args.namespace == 'shop' && args['type'] == 'pods' && status == 200"}`, podTable, true},
		{"what a description fetched besides", `{tool: T2, args: {type: pods}, holds: "related.exists(o, o.kind == 'Secret')"}`, strings.Replace(podDescr, `"events"`, `"related":[{"kind":"Secret"}],"events"`, 1), true},
		{"optional fields and libraries", `{tool: T1, args: {type: pods}, holds: "objects.all(p, p.?spec.replicas.orValue(7) == math.greatest(7, 3) && p.metadata.name.split('-').size() == 2 && sets.contains([1, 2], [1]))"}`, podObject, true},

		{"refused", `{tool: T1, args: {type: pods}, holds: "true"}`, strings.Replace(podTable, `"tool"`, `"class":"refused","tool"`, 1), false},
		{"unsupported", `{tool: T1, args: {type: pods}, holds: "true"}`, strings.Replace(podTable, `"tool"`, `"class":"unsupported","tool"`, 1), false},
		{"failed", `{tool: T1, args: {type: pods}, holds: "true"}`, strings.Replace(podTable, `"tool"`, `"class":"failed","tool"`, 1), false},
		{"write", `{tool: T1, args: {type: pods}, holds: "true"}`, strings.Replace(podTable, `"tool"`, `"class":"write","tool"`, 1), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := clauseEvaluator(t, test.clause, Options{})
			u := use(t, test.use)
			observations, failures, err := e.Observe(t.Context(), &recorder.Trajectory{Calls: []recorder.Call{{Uses: []recorder.Use{u}}}})
			if err != nil || len(failures) > 0 {
				t.Fatal(err, failures)
			}
			x, err := e.Explain(t.Context(), "q", &u)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(observations[0].Supplies) == 1; got != test.want || x.Holds != test.want {
				explained, _ := json.MarshalIndent(x, "", "  ")
				t.Errorf("supplied: %v, want %v; %s", got, test.want, explained)
			}
		})
	}
}

// TestEquivalenceTable keeps the table's arguments and fields real.
func TestEquivalenceTable(t *testing.T) {
	rules := 0
	for tool, list := range equivalence() {
		if _, ok := ToolArgs(tool); !ok {
			t.Errorf("%s is no tool", tool)
		}
		for _, r := range list {
			rules++
			args, ok := ToolArgs(r.Use)
			if !ok || r.Why == "" {
				t.Errorf("%s by %s: no such tool, or no reason", tool, r.Use)
			}
			for name, source := range r.Args {
				if !slices.Contains(toolArgs[tool], name) || source != "" && !slices.Contains(args, source) {
					t.Errorf("%s by %s: %s: %s", tool, r.Use, name, source)
				}
			}
			for name := range r.When {
				if !slices.Contains(args, name) {
					t.Errorf("%s by %s: when %s", tool, r.Use, name)
				}
			}
			for _, field := range r.Delivers {
				if !slices.Contains([]string{"rows", "objects", "related", "events", "lines", "series", "alerts"}, field) {
					t.Errorf("%s by %s delivers %s", tool, r.Use, field)
				}
			}
			if !slices.Contains([]string{"", "objects", "involved", "kind"}, r.Narrow) {
				t.Errorf("%s by %s is narrowed by %s", tool, r.Use, r.Narrow)
			}
		}
	}
	for _, tool := range toolNames() {
		if !slices.Contains(EquivalentTools(recorder.Tool(tool)), recorder.Tool(tool)) {
			t.Errorf("a clause on %s isn't served by %s itself", tool, tool)
		}
	}
	if rules < 30 {
		t.Errorf("only %d rules were read", rules)
	}
}

// TestPredicateLimits wants hostile predicates to end, as failures.
func TestPredicateLimits(t *testing.T) {
	lines := make([]string, 2000)
	for i := range lines {
		lines[i] = strings.Repeat("a", 100)
	}
	trajectory := &recorder.Trajectory{Calls: []recorder.Call{{Uses: []recorder.Use{{Tool: recorder.GetRecentLogs, Class: recorder.Delivered, Response: recorder.Response{Lines: lines}}}}}}
	cubic := `{tool: T5, holds: "lines.all(a, lines.all(b, lines.all(c, a + b + c != 'x')))"}`
	observations, failures, err := clauseEvaluator(t, cubic, Options{}).Observe(t.Context(), trajectory)
	if err != nil || len(observations[0].Supplies) != 0 {
		t.Fatal(observations, err)
	}
	if len(failures) != 1 || !strings.Contains(failures[0], `call 1: the predicate of the clause "q" failed`) || !strings.Contains(failures[0], "cost limit") {
		t.Errorf("failures: %v", failures)
	}

	stop := errors.New("the operator ended it")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, _, err := clauseEvaluator(t, cubic, Options{}).Observe(ctx, trajectory); !errors.Is(err, stop) {
		t.Errorf("a cancelled evaluation returned %v", err)
	}
}

// TestPredicateFailure tells a mistake in a predicate from something absent.
func TestPredicateFailure(t *testing.T) {
	u := use(t, podTable)
	trajectory := &recorder.Trajectory{Calls: []recorder.Call{{Uses: []recorder.Use{u}}}}
	for clause, want := range map[string]string{
		`{tool: T1, holds: "rows[0].STATUS < 3"}`:                       "no such overload",
		`{tool: T1, holds: "int(rows[0].STATUS) == 3"}`:                 "type conversion error",
		`{tool: T1, holds: "rows[0].NOSUCH == 'x'"}`:                    "",
		`{tool: T1, holds: "rows[17].STATUS == 'x'"}`:                   "",
		`{tool: T1, holds: "rows[0]['NO SUCH'] == 'x'"}`:                "",
		`{tool: T1, holds: "rows.filter(r, r.NOSUCH == 1).size() > 0"}`: "",
	} {
		observations, failures, err := clauseEvaluator(t, clause, Options{}).Observe(t.Context(), trajectory)
		if err != nil || len(observations[0].Supplies) > 0 {
			t.Errorf("%s: %v, %v", clause, observations, err)
		}
		if got := strings.Join(failures, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: failures %q, want %q", clause, got, want)
		}
	}
}

func TestCallKey(t *testing.T) {
	a := recorder.Use{Tool: "T1", Args: map[string]string{"type": "pods", "name": "x"}}
	b := recorder.Use{Tool: "T8"}
	for name, test := range map[string]struct {
		one, two []recorder.Use
		same     bool
	}{
		"order of uses":         {[]recorder.Use{a, b}, []recorder.Use{b, a}, true},
		"a use twice":           {[]recorder.Use{a, a}, []recorder.Use{a}, true},
		"another answer":        {[]recorder.Use{b}, []recorder.Use{{Tool: "T8", Class: recorder.Failed}}, true},
		"another argument":      {[]recorder.Use{a}, []recorder.Use{{Tool: "T1", Args: map[string]string{"type": "pods", "name": "y"}}}, false},
		"another tool":          {[]recorder.Use{a}, []recorder.Use{{Tool: "T2", Args: a.Args}}, false},
		"ends of args and uses": {[]recorder.Use{{Tool: "T1", Args: map[string]string{"a": "1", "b": "2"}}}, []recorder.Use{{Tool: "T1", Args: map[string]string{"a": "1=b2"}}}, false},
	} {
		if got := CallKey(&recorder.Call{Uses: test.one}) == CallKey(&recorder.Call{Uses: test.two}); got != test.same {
			t.Errorf("%s: same key: %v", name, got)
		}
	}
	if key := CallKey(&recorder.Call{Command: "kubectl version"}); key != "" {
		t.Errorf("a call of no tool has the key %q", key)
	}
}

// TestRemember wants the same answers with and without memory, from many at once.
func TestRemember(t *testing.T) {
	truth, err := ParseTruth("truth.yaml", example(t))
	if err != nil {
		t.Fatal(err)
	}
	trajectory := exampleTrajectory(t)
	want, _, err := New(truth, Options{}).Observe(t.Context(), trajectory)
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{0, 1} {
		e := New(truth, Options{Remember: most, Digest: func(u *recorder.Use) string { return fmt.Sprintf("%p", &u.Response) }})
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				got, _, err := e.Observe(t.Context(), trajectory)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
		wait.Wait()
		if n := len(e.memo); n == 0 || most == 1 && n > 1 {
			t.Errorf("%d answers are remembered, of at most %d", n, most)
		}
	}
}

// exampleTrajectory closes the documentation's example, after a useless call and
// an unsupported one.
func exampleTrajectory(t testing.TB) *recorder.Trajectory {
	trajectory := &recorder.Trajectory{Episode: "e1"}
	for i, text := range []string{
		`{"tool":"T8","class":"unsupported","response":{"status":501,"reason":"UnsupportedQuery"}}`,
		podTable,
		podTable,
		podDescr2,
		strings.Replace(deployment, `"replicas":0`, `"template":{"spec":{"nodeSelector":{"disk":"nvme"}}}`, 1),
		nodeList,
	} {
		trajectory.Calls = append(trajectory.Calls, recorder.Call{Index: i + 1, Uses: []recorder.Use{use(t, text)}})
	}
	return trajectory
}

const podDescr2 = `{"tool":"T2","args":{"type":"pods","namespace":"shop","name":"cart-1"},"response":{"objects":[{"kind":"Pod","metadata":{"name":"cart-1"}}],"events":[{"reason":"FailedScheduling","message":"0/2 nodes: 2 didn't match Pod's node affinity/selector.","involvedObject":{"kind":"Pod","name":"cart-1"}}]}}`

func BenchmarkScore(b *testing.B) {
	truth, err := ParseTruth("truth.yaml", example(b))
	if err != nil {
		b.Fatal(err)
	}
	trajectory := exampleTrajectory(b)
	digests := map[*recorder.Response]string{}
	for i := range trajectory.Calls {
		digests[&trajectory.Calls[i].Uses[0].Response] = fmt.Sprint(i)
	}
	for name, options := range map[string]Options{"plain": {}, "remembered": {Digest: func(u *recorder.Use) string { return digests[&u.Response] }}} {
		b.Run(name, func(b *testing.B) {
			e := New(truth, options)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Score(b.Context(), Episode{Case: "c", Trajectory: trajectory}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
