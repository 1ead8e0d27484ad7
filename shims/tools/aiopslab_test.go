package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kubecase/kubecase/shims/tools"
)

// prometheusAnswer has one metric of two containers, one with interfaces, one of no pod and one that isn't exported.
const prometheusAnswer = `{"status":"success","data":{"resultType":"matrix","result":[
 {"metric":{"__name__":"container_memory_usage_bytes","instance":"node-1","pod":"cart-1"},"values":[[1796130415,"585728"],[1796130430.5,"18059264"]]},
 {"metric":{"__name__":"container_memory_usage_bytes","instance":"node-1","pod":"cart-2"},"values":[[1796130400,"0"],[1796130415,"229376.0004"]]},
 {"metric":{"__name__":"container_network_receive_bytes_total","instance":"node-2","pod":"cart-1","interface":"eth0"},"values":[[1796130415,"12.3456"]]},
 {"metric":{"__name__":"container_cpu_usage_seconds_total","service":"cart"},"values":[[1796130415,"0.0324999"],[1796130430,"NaN"]]},
 {"metric":{"__name__":"container_other","pod":"x"},"values":[[1796130415,"1"]]}]}}`

const jaegerAnswer = `{"data":[{"traceID":"006aec66105e9c4b","spans":[
 {"spanID":"04e3f98d485e461c","operationName":"/compose, all","references":[{"refType":"FOLLOWS_FROM","spanID":"f"},{"refType":"CHILD_OF","spanID":"006aec66105e9c4b"}],"startTime":1789476600474075,"duration":5154,
  "tags":[{"key":"error","value":true},{"key":"http.status_code","value":500}],"processID":"p1"},
 {"spanID":"006aec66105e9c4b","operationName":"read","references":[],"startTime":1789476600474000,"duration":5229,"tags":[{"key":"error","value":false}],"processID":"p2"}],
 "processes":{"p1":{"serviceName":"web"},"p2":{"serviceName":"cart"}}}],"errors":null}`

// lab is the actions over made-up answers, which notes what was asked.
type lab struct {
	*tools.AIOpsLab
	dir       string
	asked     []string
	submitted string
}

func newLab(t testing.TB, change func(*tools.AIOpsLabOptions)) *lab {
	t.Helper()
	l := &lab{dir: t.TempDir()}
	o := tools.AIOpsLabOptions{
		Kubectl: func(_ context.Context, args ...string) (tools.Printed, error) {
			line := strings.Join(args, " ")
			l.asked = append(l.asked, line)
			switch {
			case strings.Contains(line, "lost"):
				return tools.Printed{Stderr: "Error from server (UnsupportedQuery): logs were not captured\n", ExitCode: 1}, nil
			case strings.Contains(line, "slow"):
				return tools.Printed{}, context.DeadlineExceeded
			case strings.Contains(line, "io.kompose.service=cart "):
				return tools.Printed{Stdout: "fine\n"}, nil
			}
			return tools.Printed{Stderr: "No resources found in shop namespace.\n"}, nil
		},
		Prometheus: func(_ context.Context, path string, query url.Values) (int, []byte, error) {
			l.asked = append(l.asked, path+" "+query.Get("query"))
			return 200, []byte(prometheusAnswer), nil
		},
		Jaeger: func(_ context.Context, path string, query url.Values) (int, []byte, error) {
			l.asked = append(l.asked, path+" "+query.Encode())
			if path == "/api/services" {
				return 200, []byte(`{"data":["cart","jaeger-all-in-one","web"]}`), nil
			}
			return 200, []byte(jaegerAnswer), nil
		},
		Shell: func(_ context.Context, command string, timeout time.Duration) (tools.Printed, error) {
			switch {
			case strings.HasPrefix(command, "sleep"):
				return tools.Printed{Stdout: "begun"}, context.DeadlineExceeded
			case command == "false":
				return tools.Printed{ExitCode: 1}, nil
			}
			return tools.Printed{Stdout: fmt.Sprintf("%s for %s\n", command, timeout), Stderr: "err\n"}, nil
		},
		Submit: func(_ context.Context, answer []byte) error { l.submitted = string(answer); return nil },
		Dir:    l.dir, Now: func() time.Time { return time.Date(2026, 12, 1, 13, 16, 28, 0, time.UTC) },
	}
	if change != nil {
		change(&o)
	}
	l.AIOpsLab = tools.NewAIOpsLab(o)
	return l
}

// TestReplies: what a reply says is done, however it is written.
func TestReplies(t *testing.T) {
	for _, test := range []struct{ reply, want string }{
		{"```\nexec_shell(\"ls -l\")\n```", "ls -l for 30s\nerr\n"},
		{"I look first.\n```python\nexec_shell('ls', timeout=5)\n```\nThen get_logs(\"a\", \"b\").", "ls for 5s\nerr\n"},
		{"```exec_shell(\"ls\")```", "ls for 30s\nerr\n"},
		{"```\nexec_shell(\"ls\")", "ls for 30s\nerr\n"},
		{"Action: exec_shell(command = \"ls\")", "ls for 30s\nerr\n"},
		// A command's quotes lose their backslashes, and nothing else does.
		{`exec_shell("grep \"a\.b\" x\n | sed 's/\\//'")`, `grep "a\.b" x\n | sed 's/\\//' for 30s` + "\nerr\n"},
		// Quotes that aren't escaped are taken, as AIOpsLab takes them.
		{`exec_shell("kubectl get pods | grep "my app"")`, `kubectl get pods | grep "my app" for 30s` + "\nerr\n"},
		{`exec_shell("grep "" x")`, `grep "" x for 30s` + "\nerr\n"},
		{"exec_shell(\"\"\"cat <<E\n\"x\"\nE\"\"\")", "cat <<E\n\"x\"\nE for 30s\nerr\n"},
		{`get_logs(namespace="shop", service='ca' "rt",)`, "fine\n"},
		{`get_logs("shop", # which
			"cart")`, "fine\n"},
		{"get_logs(\"shop\", \"c\\x61\\u0072\\164\")", "fine\n"},
		{`get_logs("shop", r"cart")`, "fine\n"},
		{`get_logs("shop", "cart2")`, "Error: Your service/namespace does not exist. Use kubectl to check."},
		{`get_logs("--kubeconfig=x", "cart")`, "Error: Your service/namespace does not exist. Use kubectl to check."},
		{`get_logs("shop", "lost")`, "Error: Error from server (UnsupportedQuery): logs were not captured"},
		{`get_logs("shop", "slow")`, "Error: kubectl took too long"},
		{`exec_shell("sleep 60")`, "begun\nError: the command was ended after 30 seconds."},
		{`exec_shell("false")`, "(no output, exit code 1)"},
		// What is wrong with a call.
		{`get_logs("shop")`, "Error: get_logs needs the argument service: get_logs(namespace: str, service: str)"},
		{`get_logs("shop", "cart", 3)`, "Error: get_logs takes 2 arguments, and 3 were given: get_logs(namespace: str, service: str)"},
		{`get_logs("shop", namespace="shop")`, "Error: the argument namespace of get_logs is given twice"},
		{`get_logs(ns="shop", namespace="shop")`, "Error: the argument namespace of get_logs is given twice"},
		{`get_logs(service="cart", "shop")`, "Error: get_logs: an argument without a name follows one with a name"},
		{`get_logs(service="cart", services="shop")`, `Error: get_logs has no argument "services": get_logs(namespace: str, service: str)`},
		{`get_logs(shop, cart)`, "Error: get_logs: shop is no value: texts stand in quotes"},
		{`get_logs("shop" "cart", 5)`, "Error: service of get_logs is no text"},
		{`get_logs("shop"; "cart")`, `Error: get_logs: a comma or a closing parenthesis is expected at "; \"cart\")"`},
		{`get_logs("shop`, "Error: get_logs: a string isn't closed"},
		{"get_logs(\"shop\n\", \"a\")", "Error: get_logs: a string isn't closed at the end of its line"},
		{`get_logs(f"shop", "a")`, "Error: get_logs: a string can't begin with f: plain strings are taken"},
		{`get_metrics("shop", "5")`, "Error: duration of get_metrics is no whole number"},
		{`get_metrics("shop", 1.5)`, "Error: duration of get_metrics is of the wrong type: get_metrics(namespace: str, duration: int = None)"},
		{`get_metrics("shop", 0)`, "Error: duration is 0: it can be 1 to 1440"},
		{`get_metrics("shop",`, "Error: get_metrics: the closing parenthesis is missing"},
		{"```\nexec_shell(\"ls\")\nexec_shell(\"pwd\")\n```", "Error: there is more than one call in the reply: give one call a reply"},
		{"```\nkubectl_get(\"pods\")\n```", `Error: there is no action "kubectl_get"; the actions are: get_logs, get_metrics, read_metrics, get_traces, read_traces, exec_shell, submit`},
		{"submit(" + strings.Repeat("[", 40) + ")", "Error: submit: lists and dictionaries nest deeper than 32"},
		{"submit(\"" + strings.Repeat("x", 64<<10) + "\")", "Error: the reply has 65546 bytes, more than 65536"},
	} {
		got, err := newLab(t, nil).Act(t.Context(), test.reply)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", test.reply, err, diff)
		}
	}
	for _, reply := range []string{"", "I think that all is well.", "```\nkubectl get pods\n```\nget_logs(\"a\", \"b\")"} {
		if got, err := newLab(t, nil).Act(t.Context(), reply); !errors.Is(err, tools.ErrNoCall) {
			t.Errorf("%q: %q, %v; want ErrNoCall", reply, got, err)
		}
	}
}

// TestNotThere: what can't be done says why.
func TestNotThere(t *testing.T) {
	l := newLab(t, func(o *tools.AIOpsLabOptions) {
		o.Prometheus, o.Jaeger, o.Shell, o.NoShell = nil, nil, nil, "there is no sandbox"
	})
	for reply, want := range map[string]string{
		`get_metrics("shop")`: "Error: metrics were not captured",
		`get_traces("shop")`:  "Error: traces were not captured",
		`exec_shell("ls")`:    "Error: no command can be run here: there is no sandbox",
	} {
		if got, err := l.Act(t.Context(), reply); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", reply, got, err, want)
		}
	}
	l = newLab(t, func(o *tools.AIOpsLabOptions) {
		o.Prometheus = func(context.Context, string, url.Values) (int, []byte, error) {
			return 422, []byte(`{"status":"error","errorType":"execution","error":"too many samples"}`), nil
		}
		o.Jaeger = func(context.Context, string, url.Values) (int, []byte, error) {
			return 501, []byte(`{"data":null,"errors":[{"code":501,"msg":"the traces of Jaeger were not captured"}]}`), nil
		}
	})
	for reply, want := range map[string]string{
		`get_metrics("shop")`: "Error: the request was refused with status 422: too many samples",
		`get_traces("shop")`:  "Error: the request was refused with status 501: the traces of Jaeger were not captured",
	} {
		if got, err := l.Act(t.Context(), reply); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", reply, got, err, want)
		}
	}
}

// TestSubmissions: AIOpsLab's solutions are a submission's fields.
func TestSubmissions(t *testing.T) {
	for solution, want := range map[string]string{
		`"Yes"`:               `{"detected":true}`,
		`"no."`:               `{"detected":false}`,
		`solution=False`:      `{"detected":false}`,
		`"None"`:              `{"detected":false}`,
		`[]`:                  `{"detected":false}`,
		``:                    `{"commands":[]}`,
		`None`:                `{"commands":[]}`,
		`["cart", 'redis',]`:  `{"component":"cart","components":["cart","redis"]}`,
		`("cart", "redis")`:   `{"component":"cart","components":["cart","redis"]}`,
		`("cart")`:            `{"component":"cart","components":["cart"]}`,
		`"deployment/search"`: `{"component":"deployment/search","components":["deployment/search"]}`,
		`{"system_level": "Application", 'fault_type': "Misconfiguration"}`: `{"fault":"Misconfiguration","layer":"Application"}`,
	} {
		l := newLab(t, nil)
		got, err := l.Act(t.Context(), "submit("+solution+")")
		if l.submitted != want || got != "Your solution was handed in." || err != nil {
			t.Errorf("submit(%s): %s %q %v, want %s", solution, l.submitted, got, err, want)
		}
	}
	for _, solution := range []string{`5`, `[1]`, `{}`, `{"system_level": 5}`, `{"layer": "x"}`, `{5: -1.5e3}`, `[[0x10, 1_000]]`} {
		l := newLab(t, nil)
		got, err := l.Act(t.Context(), "submit("+solution+")")
		if l.submitted != "" || !strings.HasPrefix(got, "Error: the ") || err != nil {
			t.Errorf("submit(%s): %s %q %v, want an error's text", solution, l.submitted, got, err)
		}
	}
}

// TestMetrics: the files and tables are worked out by hand from prometheusAnswer.
func TestMetrics(t *testing.T) {
	l := newLab(t, nil)
	got, err := l.Act(t.Context(), `get_metrics("shop", 10)`)
	folder := filepath.Join(l.dir, "metrics_output", "metric_20261201_131628")
	want := "Metrics data exported to directory: " + folder + `

Folder structure of exported metrics:
metric_20261201_131628/
    container/
        kpi_container_cpu_usage_seconds_total.csv
        kpi_container_memory_usage_bytes.csv
        kpi_container_network_receive_bytes_total.csv
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got)\n%s", err, diff)
	}
	if len(l.asked) != 1 || !strings.HasPrefix(l.asked[0], `/api/v1/query {__name__=~"container_cpu_usage_seconds_total|`) || !strings.HasSuffix(l.asked[0], `,namespace="shop"}[10m:15s]`) {
		t.Errorf("asked %q", l.asked)
	}
	for metric, want := range map[string][2]string{
		"container_memory_usage_bytes": {
			"timestamp,cmdb_id,kpi_name,value\n" +
				"1796130400,node-1.cart-2,container_memory_usage_bytes,0.0\n" +
				"1796130415,node-1.cart-1,container_memory_usage_bytes,585728.0\n" +
				"1796130415,node-1.cart-2,container_memory_usage_bytes,229376.0\n" +
				"1796130430,node-1.cart-1,container_memory_usage_bytes,18059264.0\n",
			" timestamp       cmdb_id                     kpi_name      value\n" +
				"1796130400 node-1.cart-2 container_memory_usage_bytes        0.0\n" +
				"1796130415 node-1.cart-1 container_memory_usage_bytes   585728.0\n" +
				"1796130415 node-1.cart-2 container_memory_usage_bytes   229376.0\n" +
				"1796130430 node-1.cart-1 container_memory_usage_bytes 18059264.0",
		},
		"container_network_receive_bytes_total": {
			"timestamp,cmdb_id,kpi_name,value\n1796130415,node-2.cart-1,container_network_receive_bytes_total.eth0,12.346\n",
			" timestamp       cmdb_id                                   kpi_name  value\n" +
				"1796130415 node-2.cart-1 container_network_receive_bytes_total.eth0 12.346",
		},
		"container_cpu_usage_seconds_total": {
			"timestamp,cmdb_id,kpi_name,value\n1796130415,cart,container_cpu_usage_seconds_total,0.032\n1796130430,cart,container_cpu_usage_seconds_total,\n",
			" timestamp cmdb_id                          kpi_name  value\n" +
				"1796130415    cart container_cpu_usage_seconds_total  0.032\n" +
				"1796130430    cart container_cpu_usage_seconds_total    NaN",
		},
	} {
		file := filepath.Join(folder, "container", "kpi_"+metric+".csv")
		text, err := os.ReadFile(file)
		if diff := cmp.Diff(want[0], string(text)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", metric, err, diff)
		}
		for _, path := range []string{file, strings.TrimPrefix(file, l.dir+"/")} {
			table, err := l.Act(t.Context(), fmt.Sprintf("read_metrics(%q)", path))
			if diff := cmp.Diff(want[1], table); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got)\n%s", path, err, diff)
			}
		}
	}
	// The next one within the same second has a folder of its own.
	if again, err := l.Act(t.Context(), `get_metrics("shop")`); !strings.Contains(again, "metric_20261201_131629/") || err != nil {
		t.Errorf("again: %s %v", again, err)
	}
}

func TestTraces(t *testing.T) {
	l := newLab(t, nil)
	got, err := l.Act(t.Context(), `get_traces("shop")`)
	file := filepath.Join(l.dir, "trace_output", "traces_1796130988.csv")
	if got != "Traces data exported to: "+file || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	const window = "end=1796130988000000&limit=100&lookback=5m&service=%s&start=1796130688000000"
	if diff := cmp.Diff([]string{"/api/services ", "/api/traces " + fmt.Sprintf(window, "cart"), "/api/traces " + fmt.Sprintf(window, "web")}, l.asked); diff != "" {
		t.Errorf("asked (-want +got)\n%s", diff)
	}
	text, err := os.ReadFile(file)
	if diff := cmp.Diff(`trace_id,span_id,parent_span,service_name,operation_name,start_time,duration,has_error,response
006aec66105e9c4b,04e3f98d485e461c,006aec66105e9c4b,web,"/compose, all",1789476600474075,5154,True,500
006aec66105e9c4b,006aec66105e9c4b,ROOT,cart,read,1789476600474000,5229,False,Unknown
`, string(text)); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	table, err := l.Act(t.Context(), `read_traces("trace_output/traces_1796130988.csv")`)
	if diff := cmp.Diff(`        trace_id          span_id      parent_span service_name operation_name       start_time  duration  has_error response
006aec66105e9c4b 04e3f98d485e461c 006aec66105e9c4b          web  /compose, all 1789476600474075      5154       True      500
006aec66105e9c4b 006aec66105e9c4b             ROOT         cart           read 1789476600474000      5229      False  Unknown`, table); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestTables: columns are printed as pandas prints them.
func TestTables(t *testing.T) {
	for csv, want := range map[string]string{
		"a,b\n":                         "Empty DataFrame\nColumns: [a, b]\nIndex: []",
		"value\n0.1\n0.25\n":            " value\n  0.10\n  0.25",
		"v\n1.0\n2\n":                   "  v\n1.0\n2.0",
		"v\n10737418240.0\n1.5\n":       "           v\n1.073742e+10\n1.500000e+00", // thirteen characters are too long
		"v\n1073741824.0\n0.0\n":        "           v\n1073741824.0\n         0.0",
		"v\n0.0000001\n1.0\n":           "           v\n1.000000e-07\n1.000000e+00",
		"v\n0.3333333333\n-inf\n":       "       v\n0.333333\n    -inf",
		"id,b\n007,True\n8,False\n":     " id     b\n007  True\n  8 False",
		"t\nä\n\"a\nb\"\n":              "   t\n   ä\na\\nb",
		"n,m\n1,\n2,x\n":                " n   m\n 1 NaN\n 2   x",
		"timestamp,v\n1796130415,5\n":   " timestamp  v\n1796130415  5",
		"only_a_name_that_is_long\n1\n": " only_a_name_that_is_long\n                        1",
	} {
		l := newLab(t, nil)
		if err := os.WriteFile(filepath.Join(l.dir, "x.csv"), []byte(csv), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := l.Act(t.Context(), `read_metrics("./x.csv")`)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got)\n%s", csv, err, diff)
		}
	}
}

// TestConfined: files are read in one folder, whatever a path or a link says, and a long table loses its middle.
func TestConfined(t *testing.T) {
	l := newLab(t, nil)
	outside := filepath.Join(t.TempDir(), "secret.csv")
	for name, text := range map[string]string{outside: "a\n1\n", filepath.Join(l.dir, "bad.csv"): "a,b\n1\n", filepath.Join(l.dir, "long.csv"): "a\n" + strings.Repeat("1234567\n", 20000), filepath.Join(l.dir, "empty.csv"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(l.dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(l.dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		outside: "not found", "link.csv": "not found", "../x/secret.csv": "not found", "none.csv": "not found", "": "not found", "a\x00b": "not found",
		"bad.csv": "Failed to read traces: record on line 2: wrong number of fields", "empty.csv": "Failed to read traces: No columns to parse from file",
		"folder": "Failed to read traces: it is a folder with: ", ".": "Failed to read traces: it is a folder with: bad.csv, empty.csv, folder, link.csv, long.csv",
	} {
		if want == "not found" {
			want = "error: Traces file '" + name + "' not found."
		}
		got, err := l.Do(t.Context(), tools.FindAction("read_traces"), map[string]any{"file_path": name})
		if got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
	}
	got, err := l.Act(t.Context(), `read_traces("long.csv")`)
	if len(got) > 65<<10 || !strings.Contains(got, "bytes are left out here") || !strings.HasPrefix(got, "      a\n1234567\n") || !strings.HasSuffix(got, "\n1234567") || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// Files aren't made through a link either.
	l = newLab(t, nil)
	if err := os.Symlink(t.TempDir(), filepath.Join(l.dir, "metrics_output")); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Act(t.Context(), `get_metrics("shop")`); err == nil {
		t.Errorf("through a link: %q", got)
	}
}

// TestRefusedCommands: commands that ask back or don't end aren't run, others are.
func TestRefusedCommands(t *testing.T) {
	const (
		edit    = "Error: Cannot use `kubectl edit`. Use `kubectl patch` instead."
		forward = "Error: Cannot use `kubectl port-forward` because it is an interactive command."
	)
	for command, want := range map[string]string{
		"kubectl edit deploy x": edit, "kubectl -n shop edit deploy x": edit, "kubectl --namespace shop edit svc x": edit, "/usr/bin/kubectl edit x": edit, "sudo -u root kubectl --context=a  edit x": edit,
		"kubectl port-forward svc/a 80": forward, "kubectl -n a port-forward svc/a 80": forward, "timeout -k 1 5 kubectl -n a port-forward a 1": forward,
		"docker logs -f x":             "Error: Cannot use `docker logs -f`. Use `docker logs` instead.",
		"docker logs --tail 5 -tf x":   "Error: Cannot use `docker logs -f`. Use `docker logs` instead.",
		"kubectl attach x":             "Error: Cannot use `kubectl attach`",
		"kubectl proxy":                "Error: Cannot use `kubectl proxy`",
		"kubectl get pods -w":          "Error: Cannot use `kubectl get --watch`",
		"kubectl get pods -Aw":         "Error: Cannot use `kubectl get --watch`",
		"kubectl get pods --watch":     "Error: Cannot use `kubectl get --watch`",
		"kubectl get po --watch-only":  "Error: Cannot use `kubectl get --watch`",
		"kubectl logs -f x":            "Error: Cannot use `kubectl logs -f`",
		"kubectl logs x --follow=true": "Error: Cannot use `kubectl logs -f`",
		"kubectl exec -it x -- sh":     "Error: Cannot use `kubectl exec -it`",
		"kubectl exec x -n a -ti sh":   "Error: Cannot use `kubectl exec -it`",
		"kubectl exec --tty x -- sh":   "Error: Cannot use `kubectl exec -it`",
		"ls; vim x":                    "Error: Cannot use `vim`",
		"kubectl get pods | less":      "Error: Cannot use `less`",
		"EDITOR=x env A=b nano y":      "Error: Cannot use `nano`",
		"watch -n 1 kubectl get pods":  "Error: Cannot use `watch`",
		"top":                          "Error: Cannot use `top`",
		"top -n 1":                     "Error: Cannot use `top`",
		"tail -f x":                    "Error: Cannot use `tail -f`",
		"tail -n 5 -F x":               "Error: Cannot use `tail -f`",
		"journalctl -u kubelet -f":     "Error: Cannot use `journalctl -f`",
		"sleep 60 &":                   "Error: Cannot use `&`",
		"(ls; ls &)":                   "Error: Cannot use `&`",
		"bash -c 'kubectl attach x'":   "Error: Cannot use `kubectl attach`",
		"sh -ec \"top\"":               "Error: Cannot use `top`",
		"x=$(kubectl get pods -w)":     "Error: Cannot use `kubectl get --watch`",
		"kubectl get po -o name | xargs -n 1 kubectl logs -f": "Error: Cannot use `kubectl logs -f`",
		"if true; then kubectl proxy; fi":                     "Error: Cannot use `kubectl proxy`",
		"kubectl get 'pods":                                   "Error: this is no shell command: 1:13: reached EOF without closing quote",
		"  ":                                                  "Error: the command is empty.",
		strings.Repeat("sh -c \"", 9):                         "Error: this is no shell command",
		// These can be run.
		"kubectl get pods -owide": "", "kubectl get pods -o wide -w=false --watch=false": "", "kubectl logs x --follow=false": "", "kubectl apply -f x": "", "kubectl exec -i x -- sh -c 'tail -f y'": "",
		"kubectl exec x -- top": "", "kubectl top pods": "", "top -b -n 1": "", "top -bn1": "", "tail -n5 f": "", "grep -c vim x": "", "kubectl get deploy less": "", "curl http://x": "", "kubectl patch x -p '{\"a\":1}'": "",
		"kubectl get pods 2>&1 | grep x && ls": "", "kubectl logs deploy/x --tail=5 -c f": "", "for p in $(kubectl get po -o name); do kubectl describe $p; done": "", "$KUBECTL edit": "", "python3 -c 'print(1)'": "", "bash x.sh": "",
		"kubectl debug node/x -it --image=busybox -- chroot /host systemctl status kubelet": "", "env": "", "sudo -u": "",
	} {
		got, err := newLab(t, nil).Do(t.Context(), tools.FindAction("exec_shell"), map[string]any{"command": command})
		if err != nil || want == "" && strings.HasPrefix(got, "Error: ") || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, %v; want %q", command, got, err, want)
		}
	}
}

// TestActionsMCP uses the actions through the official client.
func TestActionsMCP(t *testing.T) {
	ours, theirs := mcp.NewInMemoryTransports()
	served, err := newLab(t, nil).MCP().Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != len(tools.Actions) {
		t.Fatalf("%v, %v", list, err)
	}
	for _, test := range []struct {
		tool      string
		arguments map[string]any
		want      string
		failed    bool
	}{
		{"exec_shell", map[string]any{"command": "ls", "timeout": 5}, "ls for 5s\nerr\n", false},
		{"submit", map[string]any{"solution": []string{"cart"}}, "Your solution was handed in.", false},
		{"submit", map[string]any{}, "Your solution was handed in.", false},
		{"get_logs", map[string]any{"namespace": "shop", "service": "x"}, "Error: Your service/namespace does not exist. Use kubectl to check.", true},
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: test.tool, Arguments: test.arguments})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(result.Content)
		want, _ := json.Marshal(test.want)
		if err != nil || !strings.Contains(string(text), string(want)) || result.IsError != test.failed {
			t.Errorf("%s: %s, failed %v, %v", test.tool, text, result.IsError, err)
		}
	}
}

// TestPrompt: the prompt tells of each action and argument.
func TestPrompt(t *testing.T) {
	prompt := tools.Prompt()
	for _, a := range tools.Actions {
		if !strings.Contains(prompt, "\n"+a.Name+"(") && !strings.HasPrefix(prompt, a.Name+"(") {
			t.Errorf("%s is not in the prompt", a.Name)
		}
		for _, arg := range a.Arguments {
			if !strings.Contains(prompt, "        "+arg.Name+": "+arg.Description+"\n") {
				t.Errorf("%s of %s is not in the prompt", arg.Name, a.Name)
			}
		}
	}
	if got := len(tools.DescribeActions()); got != len(tools.Actions) {
		t.Errorf("%d actions are described", got)
	}
}

// FuzzAct: any reply gets a text or ErrNoCall.
func FuzzAct(f *testing.F) {
	for _, seed := range []string{
		"```\nexec_shell(\"ls\")\n```", `get_logs(namespace="shop", service='cart')`, `submit({"a": [1, -2.5e3, True, None], 'b': ("x",)})`, `submit(r"\x" '''a"b''')`,
		`exec_shell("a "b" c")`, "submit(\"\\u12", "submit(((((", `get_metrics("shop", 0x1F)`, `exec_shell("kubectl get po -w | sh -c 'vim'")`, `read_traces("../x")`,
	} {
		f.Add(seed)
	}
	now := time.Date(2026, 12, 1, 13, 16, 28, 0, time.UTC)
	l := newLab(f, func(o *tools.AIOpsLabOptions) {
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	f.Fuzz(func(t *testing.T, reply string) {
		l.asked = nil
		text, err := l.Act(t.Context(), reply)
		if err != nil && !errors.Is(err, tools.ErrNoCall) {
			t.Errorf("%v", err)
		}
		if len(text) > 65<<10 {
			t.Errorf("%d bytes", len(text))
		}
	})
}
