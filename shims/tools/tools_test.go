package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
	"github.com/kubecase/kubecase/shims/tools"
)

var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

// newServer serves a small case; kubectl prints what it was asked.
func newServer(t testing.TB, record func(string, map[string]string)) *tools.Server {
	t.Helper()
	deployments, err := fixtures.DecodeList(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		[]byte(`{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"cart","namespace":"shop"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := fixtures.DecodeList(schema.GroupVersionResource{Version: "v1", Resource: "nodes"},
		[]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"n1","labels":{"node-role.kubernetes.io/control-plane":""}},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},
			"status":{"allocatable":{"cpu":"2"},"conditions":[{"type":"Ready","status":"True"},{"type":"MemoryPressure","status":"False"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, map[string]string{
		"probes/connectivity.json": `[{"from":{"namespace":"shop"},"host":"cart","port":80,"result":"open","output":"cart (10.1.0.7:80) open\nConnection Succeeded"},
			{"from":{"node":"n1","namespace":"shop"},"host":"redis","port":6379,"result":"open","output":"redis open\n"},
			{"from":{"node":"n2","namespace":"shop"},"host":"redis","port":6379,"result":"failed","output":"Connection Failed"}]`,
		"nodes/n1/commands.json":            `[{"command":["systemctl","status","kubelet"],"stdout":"active since 2026-12-01 00:00:00\n"}]`,
		"tools/GetServiceDependencies.json": `[{"arguments":{"service_name":"cart"},"answer":"[Service]: cart"},{"arguments":{"service_name":"json"},"answer":{"a":1}}]`,
		"alerts/alerts.json":                `[{"startsAt":"2026-12-01T00:00:00Z"}]`,
		"source/cart/main.go":               "package main\n",
		"source/cart/conf/a.json":           "{",
	}, deployments, nodes)
	return tools.New(tools.Options{
		Case: c, Clock: clock.New(clock.Shifted, captured, captured.Add(time.Hour)),
		Kubectl: func(_ context.Context, args ...string) (tools.Printed, error) {
			line := strings.Join(args, " ")
			switch {
			case strings.Contains(line, "lost"):
				return tools.Printed{Stderr: "Error from server (UnsupportedQuery): leases were not captured\n", ExitCode: 1}, nil
			case strings.Contains(line, "nope"):
				return tools.Printed{Stderr: "Error from server (NotFound): pods \"nope\" not found\n", ExitCode: 1}, nil
			case strings.HasPrefix(line, "logs"):
				return tools.Printed{Stdout: "fine\nconnection refused\n" + line + "\n"}, nil
			}
			return tools.Printed{Stdout: line + "\n"}, nil
		},
		Record: func(_ context.Context, tool string, arguments map[string]string) {
			if record != nil {
				record(tool, arguments)
			}
		},
	})
}

func TestCalls(t *testing.T) {
	for _, test := range []struct {
		tool, arguments string
		code            int
		want            string // of the result, or of the error
		recorded        string
	}{
		{"GetResources", `{"resource_type":"pods","name":"","namespace":"shop","output_wide":true,"show_labels":null}`, 200, "get pods -n shop -o wide\n", ""},
		{"GetResources", `{"type":"nodes","label_selector":"a=b","show_labels":true}`, 200, "get nodes -A --show-labels -l a=b\n", ""},
		{"T1", `{"kind":"pod","name":"nope","ns":"shop"}`, 200, `Error from server (NotFound): pods "nope" not found`, ""},
		{"GetResources", `{"resource_type":"lost"}`, 501, "leases were not captured", ""},
		{"DescribeResource", `{"resource_type":"pod","name":"a","namespace":"shop"}`, 200, "describe pod a -n shop\n", ""},
		{"GetAppYAML", `{"app_name":"cart"}`, 200, "get deployment cart -n shop -o yaml --ignore-not-found\n---\n", "T3 map[service:cart]"},
		{"GetAppYAML", `{"app_name":"none"}`, 501, `the case has no workload and no service "none"`, "T3 map[service:none]"},
		{"GetServiceDependencies", `{"service":"cart"}`, 200, "[Service]: cart", "T4 map[service:cart]"},
		{"GetServiceDependencies", `{"service_name":"json"}`, 200, "{\n", "T4 map[service:json]"},
		{"GetServiceDependencies", `{"service_name":"other"}`, 501, "who calls whom was not captured", "T4 map[service:other]"},
		{"GetRecentLogs", `{"service_name":"cart","lines":5}`, 200, "logs -n shop --tail 5 deployment/cart\n", ""},
		{"CheckConnectivity", `{"svc_name":"cart","namespace":"shop","port":80}`, 200, "cart (10.1.0.7:80) open\nConnection Succeeded", "T6 map[namespace:shop port:80 service:cart]"},
		{"CheckServiceConnectivity", `{"service_name":"redis","port":"6379"}`, 200,
			"=== Service redis:6379 Connectivity test report ===\nDebug Pod test results deployed on n1: redis open\nDebug Pod test results deployed on n2: Connection Failed\n", "T6 map[port:6379 service:redis]"},
		{"CheckServiceConnectivity", `{"service_name":"cart","port":81}`, 501, "no connection to cart:81 was tried", "T6 map[port:81 service:cart]"},
		{"GetClusterConfiguration", ``, 200, `{"node_count":1,"nodes":[{"name":"n1","role":"master","status":"Ready","conditions":{"MemoryPressure":"False"},"taints":["a:NoSchedule"],`, "T7 map[]"},
		{"GetAlerts", `{}`, 200, `"startsAt": "2026-12-01T01:00:00Z"`, "T8 map[]"},
		{"GetErrorLogs", `{"service_name":"cart"}`, 200, "1 of 3 lines tell of errors; the last 1:\nconnection refused\n", "T9 map[service:cart]"},
		{"CheckNodeServiceStatus", `{"node":"n1","component":"kubelet"}`, 200, "Service: kubelet\nNode: n1\nStatus: active since 2026-12-01 01:00:00\n", "T10 map[component:kubelet node:n1]"},
		{"CheckNodeServiceStatus", `{"node_name":"n2","service_name":"kubelet"}`, 501, `the status of kubelet on node "n2" was not captured`, "T10 map[component:kubelet node:n2]"},
		{"ListCodeFiles", `{"app_name":"cart"}`, 200, "conf/a.json\nmain.go\n", "T11 map[app:cart]"},
		{"GetSourceCode", `{"app_name":"cart","path":"main.go"}`, 200, "package main\n", "T12 map[app:cart path:main.go]"},
		{"GetSourceCode", `{"app_name":"cart","file_path":"../../truth.yaml"}`, 501, "was not captured", "T12 map[app:cart path:../../truth.yaml]"},
		{"GetSourceCode", `{"app_name":"../..","file_path":"case.yaml"}`, 400, "is no path in the source", "T12 map[app:../.. path:case.yaml]"},
		// Bad input.
		{"GetResources", `{}`, 400, "GetResources needs resource_type", ""},
		{"GetResources", `{"resource_type":"pods","namespaces":"x"}`, 400, `GetResources has no argument "namespaces"; it has: resource_type, name`, ""},
		{"GetResources", `{"resource_type":"--kubeconfig=/etc/passwd"}`, 400, "can't be", ""},
		{"GetResources", `{"resource_type":["a"]}`, 400, "is neither text nor a number", ""},
		{"GetRecentLogs", `{"service_name":"a","lines":1.5}`, 400, "is no whole number", ""},
		{"GetResources", `[`, 400, "the arguments are no JSON object", ""},
		{"DeleteEverything", `{}`, 404, "there is no such tool", ""},
	} {
		t.Run(test.tool+test.arguments, func(t *testing.T) {
			recorded := ""
			s := newServer(t, func(tool string, arguments map[string]string) { recorded = fmt.Sprint(tool, " ", arguments) })
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/"+test.tool, strings.NewReader(test.arguments)))
			var got struct{ Tool, Result, Error, Reason string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if text := got.Result + got.Error; w.Code != test.code || !strings.Contains(text, test.want) {
				t.Errorf("%d %q, want %d with %q", w.Code, text, test.code, test.want)
			}
			if recorded != test.recorded {
				t.Errorf("recorded %q, want %q", recorded, test.recorded)
			}
		})
	}
}

// TestMCP uses the tools through the official client.
func TestMCP(t *testing.T) {
	recorded := ""
	server := httptest.NewServer(newServer(t, func(tool string, arguments map[string]string) { recorded = fmt.Sprint(tool, " ", arguments) }).Handler())
	defer server.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if len(names) != 12 {
		t.Errorf("%d tools, want twelve: %v", len(names), names)
	}
	for _, test := range []struct {
		tool      string
		arguments map[string]any
		want      string
		failed    bool
	}{
		{"CheckServiceConnectivity", map[string]any{"service_name": "cart", "namespace": "shop", "port": 80}, "cart (10.1.0.7:80) open\nConnection Succeeded", false},
		{"CheckServiceConnectivity", map[string]any{"service_name": "cart", "port": 81}, "UnsupportedQuery: no connection to cart:81 was tried", true},
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: test.tool, Arguments: test.arguments})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, content := range result.Content {
			if text, ok := content.(*mcp.TextContent); ok {
				got += text.Text
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" || result.IsError != test.failed {
			t.Errorf("%s: failed %v, want %v (-want +got)\n%s", test.tool, result.IsError, test.failed, diff)
		}
	}
	if want := "T6 map[port:81 service:cart]"; recorded != want {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
}

// TestDescriptions: the list and the OpenAPI document tell of all twelve.
func TestDescriptions(t *testing.T) {
	h := newServer(t, nil).Handler()
	for path, key := range map[string]string{"/": "tools", "/openapi.json": "paths"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		var got map[string]json.RawMessage
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %v", path, w.Code, err)
		}
		for i := range tools.Tools {
			if !strings.Contains(string(got[key]), tools.Tools[i].Name) {
				t.Errorf("%s doesn't tell of %s", path, tools.Tools[i].Name)
			}
		}
	}
}

// FuzzCall: any arguments get an answer in JSON.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{`{"resource_type":"pods"}`, `{"app_name":"cart","file_path":"a/../../b"}`, `{"port":1e99}`, `{"name":{}}`, `x`} {
		for _, tool := range []string{"T1", "T6", "T12", "x"} {
			f.Add(tool, seed)
		}
	}
	h := newServer(f, nil).Handler()
	f.Fuzz(func(t *testing.T, tool, arguments string) {
		req, err := http.NewRequest(http.MethodPost, "http://x/", strings.NewReader(arguments))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Path = "/" + tool
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestDependencies draws who calls whom where only the calls are known.
func TestDependencies(t *testing.T) {
	calls := []tools.Call{{From: "web", To: "cart"}, {From: "web", To: "ads"}, {From: "cart", To: "redis"}, {From: "cart", To: "web"}, {From: "api", To: "cart"}}
	s := tools.New(tools.Options{
		Case:         fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, nil),
		Dependencies: func() ([]tools.Call, error) { return calls, nil },
	})
	for service, want := range map[string]string{
		"web":   "[Service]: web\n[Upstream (Called By)]: cart\n[Downstream (Calls)]:\nweb\n├── cart\n│   ├── redis\n│   └── web\n└── ads",
		"redis": "[Service]: redis\n[Upstream (Called By)]: cart\n[Downstream (Calls)]:\n(None - Leaf Service)",
		"cart":  "[Service]: cart\n[Upstream (Called By)]: web, api\n[Downstream (Calls)]:\ncart\n├── redis\n└── web\n    ├── cart\n    └── ads",
	} {
		got, err := s.Call(t.Context(), tools.Find("T4"), map[string]any{"service_name": service})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", service, err, diff)
		}
	}
	if _, err := s.Call(t.Context(), tools.Find("T4"), map[string]any{"service_name": "mail"}); !errors.Is(err, tools.ErrUnsupported) || !strings.Contains(err.Error(), `no call of "mail" was captured; there are calls of: api, cart, web`) {
		t.Errorf("a service that nobody calls: %v", err)
	}
}
