package mitigation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/evaluator/mitigation"
)

func TestParseCommands(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []mitigation.Command
	}{
		{"kubectl cordon node-1", []mitigation.Command{{Args: []string{"cordon", "node-1"}}}},
		{"kubectl scale deploy/a --replicas=3 -n shop && kubectl uncordon n; # done\n/usr/bin/kubectl get pods", []mitigation.Command{
			{Args: []string{"scale", "deploy/a", "--replicas=3", "-n", "shop"}}, {Args: []string{"uncordon", "n"}}, {Args: []string{"get", "pods"}},
		}},
		{`kubectl patch svc a -p '{"spec": {"x": "y z"}}'`, []mitigation.Command{{Args: []string{"patch", "svc", "a", "-p", `{"spec": {"x": "y z"}}`}}}},
		{`kubectl annotate pod a "note=say \"hi\" \$5" b\ c=d`, []mitigation.Command{{Args: []string{"annotate", "pod", "a", `note=say "hi" $5`, "b c=d"}}}},
		{"kubectl apply -f - <<'EOF'\nkind: A\nEOF\n", []mitigation.Command{{Args: []string{"apply", "-f", "-"}, Stdin: "kind: A\n"}}},
		{"cat <<EOF | kubectl apply -f -\nkind: B\nEOF\n", []mitigation.Command{{Args: []string{"apply", "-f", "-"}, Stdin: "kind: B\n"}}},
		{"echo 'kind: C' | kubectl create -f - >/dev/null 2>&1", []mitigation.Command{{Args: []string{"create", "-f", "-"}, Stdin: "kind: C\n"}}},
		{`printf 'a: b\nc: d\n' | kubectl replace -f -`, []mitigation.Command{{Args: []string{"replace", "-f", "-"}, Stdin: "a: b\nc: d\n"}}},
		{"kubectl run x --image=i -- sh -c --kubeconfig", []mitigation.Command{{Args: []string{"run", "x", "--image=i", "--", "sh", "-c", "--kubeconfig"}}}},
		{"", nil},
	} {
		got, err := mitigation.ParseCommands(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestRefusedCommands: nothing that reaches beyond the overlay is run.
func TestRefusedCommands(t *testing.T) {
	for text, want := range map[string]string{
		"rm -rf /":                                           `"rm" is not kubectl`,
		"kubectl get pods; helm rollback a":                  `"helm" is not kubectl`,
		"kubectl scale deploy/$NAME --replicas=1":            "variables and substitutions",
		"kubectl scale deploy/`whoami` --replicas=1":         "variables and substitutions",
		"kubectl delete pod $(kubectl get pods -o name)":     "variables and substitutions",
		"kubectl apply -f /etc/passwd":                       "files aren't known here",
		"kubectl apply -f/etc/passwd":                        "files aren't known here",
		"kubectl apply --filename=https://a.example/x":       "files aren't known here",
		"kubectl apply -k .":                                 "kubectl -k can't be used",
		"kubectl apply -f - < /etc/passwd":                   "input from files isn't known here",
		"cat /etc/passwd | kubectl apply -f -":               "only echo, printf or cat of literal text",
		"curl http://a.example | kubectl apply -f -":         "only echo, printf or cat of literal text",
		"kubectl get pods --kubeconfig=/root/.kube/config":   "kubectl --kubeconfig can't be used",
		"kubectl get pods --server https://a.example":        "kubectl --server can't be used",
		"kubectl -s https://a.example get pods":              "can't be used",
		"kubectl get pods -shttps://a.example":               "can't be used",
		"kubectl --as admin get pods":                        "kubectl --as can't be used",
		"kubectl create configmap a --from-file=/etc/passwd": "kubectl --from-file can't be used",
		"kubectl get pods -o go-template-file=/etc/passwd":   "files aren't known here",
		"kubectl get pods -ojsonpath-file=/etc/passwd":       "files aren't known here",
		"kubectl patch pod a --patch-file /etc/passwd":       "kubectl --patch-file can't be used",
		"kubectl exec a -- rm -rf /":                         "kubectl exec is no part of a repair",
		"kubectl edit deploy a":                              "kubectl edit is no part of a repair",
		"kubectl plugin list":                                "kubectl plugin is no part of a repair",
		"kubectl":                                            "is no part of a repair",
		"for i in 1 2; do kubectl delete pod a-$i; done":     "only plain kubectl commands",
		"(kubectl get pods)":                                 "only plain kubectl commands",
		"kubectl 'unclosed":                                  "not a shell command",
		strings.Repeat("kubectl get pods\n", 201):            "more than 200 commands",
		"kubectl get " + strings.Repeat("x", 1<<20):          "more than 1048576",
	} {
		got, err := mitigation.ParseCommands(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v and error %v, want an error with %q", text, got, err, want)
		}
	}
}

func FuzzParseCommands(f *testing.F) {
	for _, text := range []string{"kubectl cordon a", "cat <<EOF | kubectl apply -f -\nx\nEOF\n", `kubectl patch a -p "{\"b\":1}" && kubectl get x`, "kubectl apply -f -<<'E'\n\nE\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		commands, err := mitigation.ParseCommands(text)
		if err != nil {
			return
		}
		for _, c := range commands {
			for i, arg := range c.Args {
				if arg == "--" {
					break
				}
				if arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=") {
					// It may be another flag's value, never a flag of its own.
					if i == 0 || !strings.HasPrefix(c.Args[i-1], "-") {
						t.Errorf("%q gives %q", text, c.Args)
					}
				}
			}
		}
	})
}

// below is a read-only server with one Deployment, one Node and one custom object.
func below(t *testing.T) http.Handler {
	objects := map[string]string{
		"/apis/apps/v1/namespaces/shop/deployments/cart": `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"cart","namespace":"shop","labels":{"app":"cart"}},
			"spec":{"replicas":2,"selector":{"matchLabels":{"app":"cart"}},"template":{"metadata":{"labels":{"app":"cart"}},"spec":{"containers":[
			{"name":"cart","image":"cart:1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},{"name":"proxy","image":"proxy:1"}]}}},"status":{"replicas":2}}`,
		"/api/v1/nodes/node-1":                                `{"kind":"Node","apiVersion":"v1","metadata":{"name":"node-1"},"spec":{"unschedulable":true}}`,
		"/apis/example.com/v1/namespaces/shop/widgets/handle": `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"handle","namespace":"shop"},"spec":{"size":1,"tags":["a","b"]}}`,
	}
	lists := map[string][2]string{
		"/apis/apps/v1/namespaces/shop/deployments": {"DeploymentList", "/apis/apps/v1/namespaces/shop/deployments/cart"},
		"/api/v1/nodes": {"NodeList", "/api/v1/nodes/node-1"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet {
			t.Errorf("a %s reached the server below", req.Method)
		}
		w.Header().Set("Content-Type", "application/json")
		if object, ok := objects[req.URL.Path]; ok {
			fmt.Fprint(w, object)
			return
		}
		if list, ok := lists[req.URL.Path]; ok {
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{},"items":[%s]}`, list[0], objects[list[1]])
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
	})
}

// TestOverlay carries writes out one after the other; each line says what is asked,
// and what the answer holds.
func TestOverlay(t *testing.T) {
	const (
		cart  = "/apis/apps/v1/namespaces/shop/deployments/cart"
		carts = "/apis/apps/v1/namespaces/shop/deployments"
		node  = "/api/v1/nodes/node-1"
		made  = "/apis/example.com/v1/namespaces/shop/widgets/handle"
	)
	o := mitigation.New(below(t))
	for _, step := range []struct {
		name, method, url, contentType, body string
		status                               int
		// holds are JSON pointers and the values there; null: nothing.
		holds map[string]string
	}{
		{"unchanged", "GET", cart, "", "", 200, map[string]string{"/spec/replicas": "2"}},
		{"a dry run changes nothing", "PATCH", cart + "?dryRun=All", "application/merge-patch+json", `{"spec":{"replicas":9}}`, 200, map[string]string{"/spec/replicas": "9"}},
		{"after the dry run", "GET", cart, "", "", 200, map[string]string{"/spec/replicas": "2"}},
		{"strategic merge by name", "PATCH", cart, "application/strategic-merge-patch+json",
			`{"spec":{"template":{"spec":{"containers":[{"name":"cart","env":[{"name":"B","value":"3"}]}]}}}}`, 200,
			map[string]string{"/spec/template/spec/containers/0/env/0/value": `"1"`, "/spec/template/spec/containers/0/env/1/value": `"3"`, "/spec/template/spec/containers/1/name": `"proxy"`}},
		{"JSON patch", "PATCH", cart, "application/json-patch+json", `[{"op":"replace","path":"/spec/replicas","value":5}]`, 200, map[string]string{"/spec/replicas": "5"}},
		{"a JSON patch that fits nothing", "PATCH", cart, "application/json-patch+json", `[{"op":"remove","path":"/nope"}]`, 400, nil},
		{"a patch of a wrong type", "PATCH", cart, "application/merge-patch+json", `{"spec":{"replicas":"many"}}`, 400, nil},
		{"merge patch takes a key away", "PATCH", cart, "application/merge-patch+json", `{"metadata":{"labels":{"app":null}}}`, 200, map[string]string{"/metadata/labels/app": "null"}},
		{"an unknown patch type", "PATCH", cart, "text/plain", `x`, 415, nil},
		{"server-side apply", "PATCH", cart + "?fieldManager=me&force=true", "application/apply-patch+yaml",
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: cart, namespace: shop}\nspec: {template: {spec: {containers: [{name: cart, image: 'cart:2'}]}}}\n", 200,
			map[string]string{"/spec/template/spec/containers/0/image": `"cart:2"`, "/spec/template/spec/containers/0/env/1/value": `"3"`, "/spec/replicas": "5"}},
		{"scale", "PATCH", cart + "/scale", "application/merge-patch+json", `{"spec":{"replicas":1}}`, 200, map[string]string{"/kind": `"Scale"`, "/spec/replicas": "1"}},
		{"the scale afterwards", "GET", cart + "/scale", "", "", 200, map[string]string{"/spec/replicas": "1", "/status/replicas": "2"}},
		{"a negative scale", "PATCH", cart + "/scale", "application/merge-patch+json", `{"spec":{"replicas":-1}}`, 400, nil},
		{"uncordon", "PATCH", node, "application/strategic-merge-patch+json", `{"spec":{"unschedulable":null}}`, 200, map[string]string{"/spec/unschedulable": "null"}},
		{"a custom object has no strategic merge", "PATCH", made, "application/strategic-merge-patch+json", `{"spec":{"size":2}}`, 415, nil},
		{"a custom object is merged", "PATCH", made, "application/merge-patch+json", `{"spec":{"size":2}}`, 200, map[string]string{"/spec/size": "2", "/spec/tags/1": `"b"`}},
		{"create", "POST", carts, "application/json", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"new","labels":{"app":"new"}},"spec":{"replicas":1}}`, 201, map[string]string{"/metadata/namespace": `"shop"`}},
		{"create again", "POST", carts, "application/json", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"new"}}`, 409, nil},
		{"create without a name", "POST", carts, "application/json", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}`, 400, nil},
		{"create in another namespace", "POST", carts, "application/json", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"y","namespace":"z"}}`, 400, nil},
		{"both are listed", "GET", carts, "", "", 200, map[string]string{"/items/0/spec/replicas": "1", "/items/1/metadata/name": `"new"`, "/items/2": "null"}},
		{"with a selector", "GET", carts + "?labelSelector=app%3Dnew", "", "", 200, map[string]string{"/items/0/metadata/name": `"new"`, "/items/1": "null"}},
		{"replace under another name", "PUT", cart, "application/json", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"other","namespace":"shop"}}`, 400, nil},
		{"delete", "DELETE", cart, "", "", 200, map[string]string{"/status": `"Success"`}},
		{"deleted", "GET", cart, "", "", 404, nil},
		{"delete again", "DELETE", cart, "", "", 404, nil},
		{"one is left", "GET", carts, "", "", 200, map[string]string{"/items/0/metadata/name": `"new"`, "/items/1": "null"}},
		{"a subresource that isn't known", "PATCH", node + "/proxy", "application/merge-patch+json", `{}`, 405, nil},
		{"something that isn't there", "PATCH", "/api/v1/nodes/none", "application/merge-patch+json", `{}`, 404, nil},
		{"a body that is too large", "PATCH", node, "application/merge-patch+json", strings.Repeat(" ", 3<<20+1), 413, nil},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(step.method, step.url, strings.NewReader(step.body))
		req.Header.Set("Content-Type", step.contentType)
		o.ServeHTTP(w, req)
		if w.Code != step.status {
			t.Errorf("%s: status %d, want %d: %s", step.name, w.Code, step.status, w.Body)
		}
		var document any
		if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
			t.Errorf("%s: %v: %s", step.name, err, w.Body)
		}
		for pointer, want := range step.holds {
			if got := at(document, pointer); got != want {
				t.Errorf("%s: %s is %s, want %s", step.name, pointer, got, want)
			}
		}
	}
	left, err := o.Objects(httptest.NewRequest("GET", "/", nil), schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "shop", "")
	if err != nil || len(left) != 1 {
		t.Errorf("what is left: %d objects, %v; want the one that was created", len(left), err)
	}
}

// at is the JSON of what a pointer leads to.
func at(document any, pointer string) string {
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		switch d := document.(type) {
		case map[string]any:
			document = d[step]
		case []any:
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(d) {
				return "null"
			}
			document = d[i]
		default:
			return "null"
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestPatchCommand(t *testing.T) {
	for raw, want := range map[string]string{
		`{"apiVersion":"v1","kind":"Node"}`:                              "apply --server-side --force-conflicts --field-manager=repair -f -",
		`{"type":"nodes","name":"a","patch":{"spec":{}}}`:                `patch nodes a --type=strategic --patch={"spec":{}}`,
		`{"type":"pods","namespace":"n","name":"a","patch":[]}`:          `patch pods a --type=json --patch=[] --namespace=n`,
		`{"type":"pods","name":"a","patchType":"merge","patch":{"a":1}}`: `patch pods a --type=merge --patch={"a":1}`,
	} {
		got, err := mitigation.PatchCommand(json.RawMessage(raw))
		if err != nil || strings.Join(got.Args, " ") != want {
			t.Errorf("%s: %q, %v; want %q", raw, got.Args, err, want)
		}
	}
	for _, raw := range []string{`[]`, `{}`, `{"type":"pods"}`, `x`, `{"type":"pods","name":"--kubeconfig=/x","patch":{}}`} {
		if got, err := mitigation.PatchCommand(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: %q, want an error", raw, got.Args)
		}
	}
}
