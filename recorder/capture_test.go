package recorder_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kubecase/kubecase/recorder"
)

func encodeProtobuf(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestProtobufIsRead(t *testing.T) {
	one := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop"}}
	pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{one}}
	raw, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: encodeProtobuf(t, &one)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
	const kind = "application/vnd.kubernetes.protobuf"
	got := summary(play(t, recorder.DeriveOptions{},
		step{at: 0, request: "/api/v1/namespaces/shop/pods", headers: agent("kubelet/v1"), kind: kind, body: string(encodeProtobuf(t, pods))},
		step{at: 9, request: "/api/v1/namespaces/shop/pods?watch=true", headers: agent("kubelet/v1"), kind: kind + ";stream=watch", body: string(frame)},
		step{at: 20, request: "/api/v1/namespaces/shop/pods/x", headers: agent("kubelet/v1"), kind: kind, status: 404,
			body: string(encodeProtobuf(t, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: "NotFound", Code: 404, Details: &metav1.StatusDetails{Name: "x"}}))},
	))
	want := "delivered kubelet: list pods\n  T1{type=pods namespace=shop output=object} delivered: Pod/web-1\n" +
		"delivered kubelet: watch pods\n  T1{type=pods namespace=shop output=object} delivered: Pod/web-1\n" +
		"not-found kubelet: get pods/x\n  T1{type=pods namespace=shop name=x output=object} not-found: 404 NotFound\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestYAMLAndMetadataAreRead(t *testing.T) {
	got := summary(play(t, recorder.DeriveOptions{},
		step{at: 0, request: "/api/v1/namespaces/shop/pods/web-1", headers: agent("curl/8"), kind: "application/yaml", body: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-1\n"},
		step{at: 1, request: "/api/v1/namespaces/shop/pods", headers: agent("curl/8"), body: list("PartialObjectMetadata", "meta.k8s.io/v1", `{"metadata":{"name":"web-1"}}`)},
	))
	want := "delivered curl: get pods/web-1\n  T1{type=pods namespace=shop name=web-1 output=object} delivered: Pod/web-1\n" +
		"delivered curl: list pods\n  T1{type=pods namespace=shop output=metadata} delivered: PartialObjectMetadata/web-1\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRowsTellNamespaceAndLabels(t *testing.T) {
	trajectory := play(t, recorder.DeriveOptions{}, step{request: "/api/v1/pods", headers: table(kubectl("s", "get")), body: podTable})
	want := []map[string]any{
		{"NAME": "web-6f7d9c8b5d-x2x4z", "READY": "0/1", "STATUS": "CrashLoopBackOff", "RESTARTS": 7.0, "NAMESPACE": "shop", "LABELS": map[string]any{"app": "storefront"}},
		{"NAME": "db-0", "READY": "1/1", "STATUS": "Running", "RESTARTS": 0.0, "NAMESPACE": "shop"},
	}
	if diff := cmp.Diff(want, trajectory.Calls[0].Uses[0].Response.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func invocation(start, end float64, stdout string, argv ...string) recorder.Invocation {
	return recorder.Invocation{Argv: append([]string{"kubectl"}, argv...), Start: at(start), End: at(end), Stdout: stdout}
}

func TestWrapperLinesJoinCalls(t *testing.T) {
	lines := []recorder.Invocation{
		invocation(3, 3.5, "", "get", "--no-such-flag"),
		invocation(0, 5, "web-1 10\n", "-n", "shop", "get", "pods"), // by time and command
		{Argv: []string{"kubectl", "describe", "pod", "web-1"}, Start: at(50), End: at(51), Session: "s2", ExitCode: 0},
	}
	lines[0].ExitCode, lines[0].Stderr = 1, "error: unknown flag: --no-such-flag\n"
	trajectory := play(t, recorder.DeriveOptions{Invocations: lines},
		step{at: 1, request: "/api/v1/namespaces/shop/pods", headers: table(kubectl("s1", "get")), body: podTable},
		step{at: 2, request: "/api/v1/namespaces/shop/pods/web-1", headers: kubectl("s2", "describe"), body: pod},
		step{at: 4, request: "/api/v1/nodes", headers: table(kubectl("s3", "get")), body: podTable},
	)
	type call struct {
		Command, Message string
		Class            recorder.Class
		Exit             int
		Rows             int
	}
	var got []call
	for _, c := range trajectory.Calls {
		exit, rows := -1, 0
		if c.ExitCode != nil {
			exit = *c.ExitCode
		}
		for _, u := range c.Uses {
			rows += len(u.Response.Rows)
		}
		got = append(got, call{c.Command, c.Message, c.Class, exit, rows})
	}
	want := []call{
		{"kubectl -n shop get pods", "", recorder.Delivered, 0, 0}, // the two pods of the table weren't printed
		{"kubectl describe pod web-1", "", recorder.Delivered, 0, 0},
		{"kubectl get --no-such-flag", "error: unknown flag: --no-such-flag", recorder.Failed, 1, 0},
		{"kubectl get", "", recorder.Delivered, -1, 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestPrunedToWhatWasShown(t *testing.T) {
	shown := func(text string, argv ...string) recorder.Invocation {
		v := invocation(0, 1, "", argv...)
		v.Shown = &text
		return v
	}
	const full = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"web:1.2","ports":[{"containerPort":8080}]},{"name":"proxy","image":"envoy:3"}]},"status":{"phase":"Pending"}}`
	whole := map[string]any{}
	if err := json.Unmarshal([]byte(full), &whole); err != nil {
		t.Fatal(err)
	}
	identity := map[string]any{"name": "web-1", "namespace": "shop"}
	tests := []struct {
		name string
		line recorder.Invocation
		step step
		want recorder.Response
	}{
		{"jsonpath", invocation(0, 1, "web:1.2 8080", "get", "pod", "web-1", "-o", "jsonpath={..image}"), step{request: "/api/v1/namespaces/shop/pods/web-1", body: full},
			recorder.Response{Objects: []map[string]any{{"kind": "Pod", "apiVersion": "v1", "metadata": identity,
				"spec": map[string]any{"containers": []any{map[string]any{"image": "web:1.2", "ports": []any{map[string]any{"containerPort": 8080.0}}}}}}}}},
		{"nothing of the object", invocation(0, 1, "", "get", "pod", "web-1", "-o", "jsonpath={.x}"), step{request: "/api/v1/namespaces/shop/pods/web-1", body: full},
			recorder.Response{Objects: []map[string]any{{"kind": "Pod", "apiVersion": "v1", "metadata": identity}}}},
		{"yaml shows all", invocation(0, 1, "whatever", "get", "pod", "web-1", "-oyaml"), step{request: "/api/v1/namespaces/shop/pods/web-1", body: full},
			recorder.Response{Objects: []map[string]any{whole}}},
		{"yaml through grep", shown("    image: envoy:3\n", "get", "pod", "web-1", "-o", "yaml"), step{request: "/api/v1/namespaces/shop/pods/web-1", body: full},
			recorder.Response{Objects: []map[string]any{{"kind": "Pod", "apiVersion": "v1", "metadata": identity,
				"spec": map[string]any{"containers": []any{map[string]any{"image": "envoy:3"}}}}}}},
		{"a list of which one is shown", invocation(0, 1, "web-1", "get", "pods", "-o", "name"), step{request: "/api/v1/namespaces/shop/pods", body: list("Pod", "v1", full, object("Pod", "v1", "db-0", "other"))},
			recorder.Response{Objects: []map[string]any{{"kind": "Pod", "apiVersion": "v1", "metadata": identity}}}},
		{"table through grep", shown("db-0   1/1   Running   0   5d\n", "get", "pods"), step{request: "/api/v1/namespaces/shop/pods", body: podTable},
			recorder.Response{Rows: []map[string]any{{"NAME": "db-0", "READY": "1/1", "STATUS": "Running", "RESTARTS": 0.0, "NAMESPACE": "shop"}}}},
		{"events through grep", shown("2m  Warning  BackOff  pod/b  Back-off\n", "get", "events"), step{request: "/api/v1/namespaces/shop/events", body: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Object"},{"name":"Message"},{"name":"Name"}],"rows":[{"cells":["pod/a","Back-off","a.1"]},{"cells":["pod/b","Back-off","b.1"]}]}`},
			recorder.Response{Rows: []map[string]any{{"OBJECT": "pod/b", "MESSAGE": "Back-off", "NAME": "b.1"}}}},
		{"log through grep", shown("pod/web-1 two fails\n", "logs", "web-1"), step{request: "/api/v1/namespaces/shop/pods/web-1/log", kind: "text/plain", body: "one fails\ntwo fails\n"},
			recorder.Response{Lines: []string{"two fails"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.step.headers = kubectl("s", test.line.Argv[1])
			test.step.at = 0.5
			trajectory := play(t, recorder.DeriveOptions{Invocations: []recorder.Invocation{test.line}}, test.step)
			got := trajectory.Calls[0].Uses[0].Response
			test.want.Text = test.line.Stdout
			if test.line.Shown != nil {
				test.want.Text = *test.line.Shown
			}
			test.want.Status, test.want.ExitCode = 200, new(int)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInvocationsOfManyProcesses appends at once, beside a torn line.
func TestInvocationsOfManyProcesses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, recorder.WrapperFile), []byte(`{"argv":["kube`), 0o644); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			v := invocation(float64(i), float64(i), strings.Repeat("é", 200_000), "get", fmt.Sprint(i))
			if err := recorder.AppendInvocation(dir, v); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := recorder.ReadInvocations(dir, func(t time.Time) time.Time { return t.Add(time.Hour) })
	if err == nil || !strings.Contains(err.Error(), recorder.WrapperFile+":1:") {
		t.Errorf("the torn line isn't reported: %v", err)
	}
	seen := map[string]bool{}
	for _, v := range got {
		seen[v.Argv[2]] = true
		if !v.Truncated || len(v.Stdout) != 256<<10 || !v.Start.After(noon.Add(time.Hour-1)) {
			t.Errorf("line %v: truncated %v, %d bytes, start %v", v.Argv, v.Truncated, len(v.Stdout), v.Start)
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d lines, want 20", len(seen))
	}
	if none, err := recorder.ReadInvocations(t.TempDir(), nil); err != nil || none != nil {
		t.Errorf("a record without a wrapper: %v, %v", none, err)
	}
}

func TestProbes(t *testing.T) {
	tests := []struct {
		argv []string
		want string // namespace service port
	}{
		{[]string{"nc", "-zv", "cart", "8080"}, "shop cart 8080"},
		{[]string{"nc", "-z", "-w", "2", "cart.backend", "8080"}, "backend cart 8080"},
		{[]string{"timeout", "5", "nc", "-vz", "10.0.0.7", "53"}, "shop 10.0.0.7 53"},
		{[]string{"curl", "-s", "-m", "3", "-o", "/dev/null", "http://cart.backend.svc:8080/health"}, "backend cart 8080"},
		{[]string{"curl", "https://cart/"}, "shop cart 443"},
		{[]string{"wget", "-qO-", "-T", "2", "cart.backend.svc.cluster.local"}, "backend cart 80"},
		{[]string{"sh", "-c", "cd /tmp && curl -sS 'http://cart:8080/x' | head"}, "shop cart 8080"},
		{[]string{"bash", "-c", "timeout 2 bash -c '</dev/tcp/cart/8080' && echo open"}, "shop cart 8080"},
		{[]string{"redis-cli", "-h", "redis.data", "-p", "6379", "ping"}, "data redis 6379"},
		{[]string{"mysqladmin", "-h", "db-0.db.data.svc", "-P", "3306", "-pSECRET", "ping"}, "data db 3306"},
		{[]string{"nslookup", "cart.backend.svc.cluster.local."}, "backend cart "},
		{[]string{"getent", "hosts", "cart"}, "shop cart "},
		{[]string{"curl", "https://api.example.com/"}, " api.example.com 443"},
		{[]string{"cat", "/etc/hosts"}, ""},
		{[]string{"nc"}, ""},
	}
	for _, test := range tests {
		query := ""
		for _, word := range test.argv {
			query += "&command=" + strings.NewReplacer("&", "%26", " ", "%20", "'", "%27", "|", "%7C").Replace(word)
		}
		trajectory := play(t, recorder.DeriveOptions{}, step{request: "POST /api/v1/namespaces/shop/pods/web-1/exec?stdout=true" + query, headers: kubectl("s", "exec"), status: 101})
		got := ""
		if uses := trajectory.Calls[0].Uses; len(uses) == 1 {
			got = uses[0].Args["namespace"] + " " + uses[0].Args["service"] + " " + uses[0].Args["port"]
		}
		if got != test.want {
			t.Errorf("%q: got %q, want %q", test.argv, got, test.want)
		}
	}
}

func TestSavedCalls(t *testing.T) {
	trajectory := play(t, recorder.DeriveOptions{Episode: "4f3a", Captured: noon},
		step{request: "/api/v1/namespaces/shop/pods", headers: table(kubectl("s", "get")), body: podTable},
		step{at: 1, request: "/version", headers: kubectl("s2", "version"), body: "{}"})
	dir := t.TempDir()
	bodies, err := recorder.OpenBodies(filepath.Join(dir, "bodies"))
	if err != nil {
		t.Fatal(err)
	}
	if err := recorder.SaveCalls(dir, &trajectory, bodies); err != nil {
		t.Fatal(err)
	}
	loaded, err := recorder.LoadCalls(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := loaded.Calls[0].Uses[0].Response; r.Rows != nil {
		t.Errorf("the response is loaded before it is asked for: %v", r)
	}
	for i := range loaded.Calls {
		for j := range loaded.Calls[i].Uses {
			if err := loaded.Calls[i].Uses[j].LoadResponse(bodies); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(trajectory, loaded); diff != "" {
		t.Errorf("loaded calls (-want +got):\n%s", diff)
	}
	path := filepath.Join(dir, recorder.CallsFile)
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(saved, []byte("\n"))
	if err := os.WriteFile(path, slices.Concat(lines[:2]...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := recorder.LoadCalls(dir); err == nil || !strings.Contains(err.Error(), "derive the calls anew") {
		t.Errorf("a file that lacks a call: %v", err)
	}
}

func TestBodiesRefuseWhatIsNoDigest(t *testing.T) {
	dir := t.TempDir()
	bodies, err := recorder.OpenBodies(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"", "../../../etc/passwd", strings.Repeat("A", 64), strings.Repeat("/", 64)} {
		if _, err := bodies.Get(digest); err == nil || !strings.Contains(err.Error(), "no sha256 digest") {
			t.Errorf("%q: %v", digest, err)
		}
	}
	body := []byte(strings.Repeat("compressible ", 10_000))
	digest, added, err := bodies.Put(body)
	if err != nil || added == 0 || added > len(body)/10 {
		t.Errorf("stored %d bytes as %d: %v", len(body), added, err)
	}
	if _, again, err := bodies.Put(body); err != nil || again != 0 {
		t.Errorf("stored a second time: %d bytes, %v", again, err)
	}
	if got, err := bodies.Get(digest); err != nil || !bytes.Equal(got, body) {
		t.Errorf("read back %d bytes, %v", len(got), err)
	}
	if err := os.WriteFile(filepath.Join(dir, digest[:2], digest[2:4], digest+".raw"), []byte("forged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.Get(digest); err == nil || !strings.Contains(err.Error(), "changed or damaged") {
		t.Errorf("a forged body: %v", err)
	}
}

// FuzzDerive feeds a body of any kind to all mappings.
func FuzzDerive(f *testing.F) {
	uris := []string{"/api/v1/pods", "/api/v1/namespaces/a/pods/b/log?timestamps=true", "/api/v1/pods?watch=true", "/api/v1/namespaces/a/pods/b/exec?command=sh&command=-c&command=curl", "/api/v1/query?query=up", "/api/v2/alerts", "/api/v1/nodes/n/proxy/logs/?query=k"}
	f.Add(uris[0], "application/json", "kubectl get", []byte(podTable), "web")
	f.Add(uris[2], "application/vnd.kubernetes.protobuf;stream=watch", "", []byte("\x00\x00\x00\x02k8"), "")
	f.Add(uris[1], "text/plain", "kubectl logs", []byte("a\nb error\n"), "error")
	for _, uri := range uris[3:] {
		f.Add(uri, "application/json", "kubectl describe", []byte(`{"data":{"result":[{"value":[1,"2"]}]}}`), "x")
	}
	f.Fuzz(func(t *testing.T, uri, kind, command string, body []byte, shown string) {
		bodies, err := recorder.OpenBodies(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		digest, _, err := bodies.Put(body)
		if err != nil {
			t.Fatal(err)
		}
		var line bytes.Buffer
		for i, source := range []string{"kubernetes", "alerts"} {
			event := map[string]any{"auditID": fmt.Sprint(i), "stage": "ResponseComplete", "requestURI": uri, "verb": "get",
				"objectRef":      map[string]any{"resource": "pods", "namespace": "a", "name": "b", "subresource": []string{"", "log", "exec", "proxy"}[len(body)%4]},
				"responseStatus": map[string]any{"code": 200},
				"annotations":    map[string]string{recorder.KeySource: source, recorder.KeyContentType: kind, recorder.KeyCommand: command, recorder.KeyBody: digest}}
			if err := json.NewEncoder(&line).Encode(event); err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, recorder.AuditFile), line.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		trajectory, _ := recorder.ReadTrajectory(dir, recorder.DeriveOptions{Bodies: bodies,
			Invocations: []recorder.Invocation{{Argv: []string{"kubectl", "get"}, End: noon, Shown: &shown}}}, nil)
		requests := 0
		for _, c := range trajectory.Calls {
			requests += len(c.Requests)
		}
		if requests > 2 {
			t.Errorf("2 requests make calls of %d", requests)
		}
		if err := recorder.SaveCalls(dir, &trajectory, bodies); err != nil {
			t.Error(err)
		}
	})
}
