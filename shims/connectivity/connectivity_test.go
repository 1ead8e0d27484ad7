package connectivity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/fixtures/fixturestest"
)

var captured = time.Date(2026, 12, 1, 0, 18, 24, 0, time.UTC)

// The small cluster: a toolbox, a service with an endpoint, one without, a headless one, and the
// cluster's DNS.
var objects = map[string]string{
	"core/v1/pods/PodList": `
		{"metadata":{"name":"toolbox","namespace":"shop","labels":{"app":"toolbox"}},"spec":{"nodeName":"node-1","dnsPolicy":"ClusterFirst","containers":[
			{"name":"tools","image":"tools:1","env":[{"name":"A","value":"1"},{"name":"B","value":"$(A)2"},{"name":"KEY","valueFrom":{"configMapKeyRef":{"name":"app","key":"k"}}},
				{"name":"IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},{"name":"LOST","valueFrom":{"secretKeyRef":{"name":"lost","key":"k"}}}],
			 "volumeMounts":[{"name":"app","mountPath":"/etc/app"},{"name":"token","mountPath":"/var/run/token"}]}],
			"volumes":[{"name":"app","configMap":{"name":"app"}},{"name":"token","projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}}]},
		 "status":{"podIP":"10.0.0.5","podIPs":[{"ip":"10.0.0.5"}],"containerStatuses":[{"name":"tools","state":{"running":{"startedAt":"2026-12-01T00:10:00Z"}}}]}},
		{"metadata":{"name":"down","namespace":"shop"},"spec":{"nodeName":"node-1","containers":[{"name":"a"}]},"status":{"containerStatuses":[{"name":"a","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}},
		{"metadata":{"name":"twin","namespace":"shop"},"spec":{"nodeName":"node-2","dnsPolicy":"ClusterFirst","containers":[{"name":"tools","image":"tools:1"}]},"status":{"containerStatuses":[{"name":"tools","state":{"running":{}}}]}}`,
	"core/v1/services/ServiceList": `
		{"metadata":{"name":"cart","namespace":"shop","creationTimestamp":"2026-12-01T00:00:00Z"},"spec":{"clusterIP":"10.1.0.7","clusterIPs":["10.1.0.7"],"ports":[{"name":"http","port":80,"targetPort":8080}],"selector":{"app":"toolbox"}}},
		{"metadata":{"name":"email","namespace":"shop","creationTimestamp":"2026-12-01T00:15:00Z"},"spec":{"clusterIP":"10.1.0.8","clusterIPs":["10.1.0.8"],"ports":[{"port":25}]}},
		{"metadata":{"name":"redis","namespace":"shop","creationTimestamp":"2026-12-01T00:00:00Z"},"spec":{"clusterIP":"None","ports":[{"port":6379}]}},
		{"metadata":{"name":"kube-dns","namespace":"kube-system"},"spec":{"clusterIP":"10.1.0.10","ports":[{"port":53}]}}`,
	"discovery.k8s.io/v1/endpointslices/EndpointSliceList": `
		{"metadata":{"name":"cart-1","namespace":"shop","labels":{"kubernetes.io/service-name":"cart"}},"endpoints":[{"addresses":["10.0.0.6"],"conditions":{"ready":true}}]},
		{"metadata":{"name":"redis-1","namespace":"shop","labels":{"kubernetes.io/service-name":"redis"}},"endpoints":[{"addresses":["10.0.0.9"],"conditions":{"ready":true},"hostname":"redis-0"}]}`,
	"core/v1/configmaps/ConfigMapList": `{"metadata":{"name":"app","namespace":"shop"},"data":{"k":"v","file.txt":"one\ntwo\n"}}`,
}

var (
	probes = []fixtures.Probe{
		{From: fixtures.Vantage{Node: "node-1"}, Host: "cart", Port: 80, Result: fixtures.ProbeOpen, Address: "10.1.0.7", Output: "cart (10.1.0.7:80) open\n", Command: []string{"nc", "-zv", "cart", "80"}},
		{From: fixtures.Vantage{Node: "node-2"}, Host: "cart", Port: 80, Result: fixtures.ProbeTimeout, Address: "10.1.0.7"},
		{Host: "redis-0.redis.shop", Port: 6379, Result: fixtures.ProbeOpen},
		{Host: "vague.shop", Port: 1, Result: fixtures.ProbeFailed, Output: "Connection Failed\n", ExitCode: 1},
	}
	runs = []fixtures.CommandRun{
		{Namespace: "shop", Pod: "toolbox", Command: []string{"df", "-h"}, Stdout: "at 2026-12-01T00:18:00Z\n", Stderr: "warned\n", ExitCode: 3},
		{Namespace: "shop", Pod: "toolbox", Command: []string{"nosuch"}, Stderr: "error: Internal error occurred: Internal error occurred: OCI: unable to start container process: exec: \"nosuch\": not found\n", ExitCode: 1},
		{Namespace: "shop", Pod: "toolbox", Command: []string{"cat", "/etc/motd"}, Stdout: "welcome\n"},
	}
	answers = []fixtures.HTTPAnswer{
		{Kind: "Service", Namespace: "shop", Name: "cart", Port: "80", Path: "items", Query: "n=1", Status: 200, ContentType: "application/json", Body: `{"at":"2026-12-01T00:18:00Z"}`},
		{Kind: "Service", Namespace: "shop", Name: "cart", Port: "80", Path: "bad", Status: 502, Body: "down"},
	}
)

func newCase(t testing.TB) *fixtures.Case {
	t.Helper()
	var resources []*fixtures.Resource
	for key, items := range objects {
		p := strings.Split(key, "/")
		if p[0] == "core" {
			p[0] = ""
		}
		gvr := schema.GroupVersionResource{Group: p[0], Version: p[1], Resource: p[2]}
		r, err := fixtures.DecodeList(gvr, []byte(`{"kind":"`+p[3]+`","apiVersion":"`+gvr.GroupVersion().String()+`","metadata":{"resourceVersion":"1"},"items":[`+items+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, r)
	}
	return fixturestest.Case(t, &fixtures.Manifest{Name: "a-case", Capture: fixtures.Capture{Time: metav1.NewTime(captured)}}, map[string]string{
		fixtures.ConnectivityDocument: encoded(t, probes), fixtures.CommandsDocument: encoded(t, runs), fixtures.AnswersDocument: encoded(t, answers),
	}, resources...)
}

func encoded[T any](t testing.TB, entries []T) string {
	t.Helper()
	text, err := fixtures.EncodeEntries(entries)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a command in a pod of the small cluster.
func run(t testing.TB, c *fixtures.Case, pod, stdin string, argv ...string) (stdout, stderr string, code int, err error) {
	t.Helper()
	k := clock.New(clock.Shifted, captured, captured.Add(time.Hour))
	in, err := open(Target{Case: c, Clock: k, Namespace: "shop", Pod: pod, Container: "tools"})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code, err = in.exec(context.Background(), argv, streams{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs})
	return out.String(), errs.String(), code, err
}

// uncaptured is what is said of a port that nobody probed.
func uncaptured(host string, port int) string {
	return fmt.Sprintf("kubecase: not captured: whether %s answers at port %d: no probe of it was captured\n", host, port)
}

func TestCommands(t *testing.T) {
	c := newCase(t)
	for _, test := range []struct {
		argv           string // words, or a script behind sh -c
		stdin          string
		stdout, stderr string
		code           int
	}{
		// Played back, in the episode's time.
		{argv: "df -h", stdout: "at 2026-12-01T01:18:00Z\n", stderr: "warned\n", code: 3},
		{argv: "cat /etc/motd", stdout: "welcome\n"},
		{argv: "sh -c:head -c 3 /etc/motd", stdout: "wel"},
		// Connections: from this node, by any name of the service, and where the objects decide.
		{argv: "nc -zv cart 80", stderr: "cart (10.1.0.7:80) open\n"},
		{argv: "nc -zv -w 3 cart.shop.svc.cluster.local 80", stderr: "cart.shop.svc.cluster.local (10.1.0.7:80) open\n"},
		{argv: "nc -z cart.shop 80"},
		{argv: "nc -zv email 25", stderr: "nc: connect to email (10.1.0.8) port 25 (tcp) failed: Connection refused\n", code: 1},
		{argv: "nc -zv nosuch 80", stderr: "nc: getaddrinfo for host \"nosuch\" port 80: Name or service not known\n", code: 1},
		{argv: "nc -zv redis-0.redis 6379", stderr: "Connection to redis-0.redis (10.0.0.9) 6379 port [tcp/*] succeeded!\n"},
		{argv: "nc -zv vague 1", stderr: "Connection Failed\n", code: 1},
		{argv: "nc -zv cart 81", stderr: "kubecase: not captured: whether cart answers at port 81: no probe of it was captured\n", code: 126},
		{argv: "nc -zv example.com 443", stderr: "kubecase: not captured: how the name \"example.com\", which is outside the cluster, resolves\n", code: 126},
		{argv: "telnet email 25", stdout: "Trying 10.1.0.8...\n", stderr: "telnet: Unable to connect to remote host: Connection refused\n", code: 1},
		{argv: "ping -c 1 nosuch", stderr: "ping: nosuch: Name or service not known\n", code: 2},
		{argv: "ping -c 1 cart", stderr: "kubecase: not captured: whether cart answers to ping\n", code: 126},
		// HTTP.
		{argv: "curl -sS http://cart/items?n=1", stdout: `{"at":"2026-12-01T01:18:00Z"}`},
		{argv: "curl -s -o /dev/null -w %{http_code} http://cart.shop/bad", stdout: "502"},
		{argv: "curl -sI -X HEAD http://cart/none", stderr: "kubecase: not captured: what http://cart/none answers: only that a connection can be opened\n", code: 126},
		{argv: "curl -fsS http://cart/bad", stderr: "curl: (22) The requested URL returned error: 502\n", code: 22},
		{argv: "curl -sS -m 5 http://email:25/", stderr: "curl: (7) Failed to connect to email port 25 after 0 ms: Couldn't connect to server\n", code: 7},
		{argv: "curl -s http://nosuch/", code: 6},
		{argv: "curl -sS -m 5 telnet://cart:80"},
		{argv: "curl -sS -m 5 telnet://email:25", stderr: "curl: (7) Failed to connect to email port 25 after 0 ms: Couldn't connect to server\n", code: 7},
		{argv: "curl -sv telnet://cart:80", stderr: "kubecase: not captured: what telnet://cart:80 answers: only that a connection can be opened\n", code: 126},
		{argv: "curl --proxy x http://cart/", stderr: "kubecase: not captured: how curl takes this: unknown option --proxy\n", code: 126},
		{argv: "wget -qO- -T 5 http://cart/items?n=1", stdout: `{"at":"2026-12-01T01:18:00Z"}`},
		{argv: "wget -qO- http://nosuch/", code: 4},
		// Names.
		{argv: "nslookup cart", stdout: "Server:\t\t10.1.0.10\nAddress:\t10.1.0.10#53\n\nName:\tcart.shop.svc.cluster.local\nAddress: 10.1.0.7\n\n"},
		{argv: "nslookup nosuch", stdout: "Server:\t\t10.1.0.10\nAddress:\t10.1.0.10#53\n\n** server can't find nosuch: NXDOMAIN\n\n", code: 1},
		{argv: "getent hosts redis", stdout: "10.0.0.9        redis.shop.svc.cluster.local\n"},
		{argv: "dig +short cart.shop.svc.cluster.local", stdout: "10.1.0.7\n"},
		// The environment and files, as the objects say.
		{argv: "printenv A B KEY IP HOSTNAME CART_SERVICE_HOST", stdout: "1\n12\nv\n10.0.0.5\ntoolbox\n10.1.0.7\n"},
		{argv: "printenv EMAIL_SERVICE_HOST", code: 1}, // the service is younger than the container
		{argv: "printenv LOST", stderr: "kubecase: not captured: the value of LOST: the secret \"lost\"\n", code: 126},
		{argv: "cat /etc/resolv.conf", stdout: "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.1.0.10\noptions ndots:5\n"},
		{argv: "ls /etc/app", stdout: "file.txt\nk\n"},
		{argv: "cat /etc/app/none", stderr: "cat: /etc/app/none: No such file or directory\n", code: 1},
		{argv: "cat /var/run/token/token", stderr: "kubecase: not captured: the service account's token of container \"tools\" of pod \"toolbox\"\n", code: 126},
		{argv: "cat /etc/passwd", stderr: "kubecase: not captured: the file /etc/passwd of container \"tools\" of pod \"toolbox\"\n", code: 126},
		{argv: "ls /etc", stderr: "kubecase: not captured: what the folder /etc of container \"tools\" of pod \"toolbox\" holds\n", code: 126},
		{argv: "cat -", stdin: "hello", stdout: "hello"},
		// Scripts.
		{argv: "sh -c:echo out; echo err >&2; exit 3", stdout: "out\n", stderr: "err\n", code: 3},
		{argv: "sh -c:cat /etc/app/file.txt | grep -c t && echo yes || echo no", stdout: "1\nyes\n"},
		{argv: "sh -c:nc -z nosuch 80 2>/dev/null || echo down", stdout: "down\n"},
		// What isn't decided is said whatever a script does with its errors, and nothing goes by it.
		{argv: "sh -c:for p in 80 25; do nc -zv -w1 cart $p >/dev/null 2>&1; echo $p $?; done", stdout: "80 0\n25 126\n", stderr: uncaptured("cart", 25)},
		{argv: "sh -c:nc -zv cart 25; true; echo over", stdout: "over\n", stderr: uncaptured("cart", 25)},
		{argv: "sh -c:nc -z cart 25 || echo closed", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:nc -z cart 25 2>/dev/null && echo open || echo closed; echo over", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:if nc -z cart 25; then echo open; else echo closed; fi", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:if ! nc -z cart 25 >/dev/null 2>&1; then echo closed; fi", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:nc -zv cart 25 2>&1 | grep -q succeeded && echo open || echo closed", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:nc -zv cart 25 2>/dev/null | cat", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:x=$(nc -zv cart 25 2>&1); echo $x", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:nc -z cart 25; [ $? -eq 0 ] && echo open || echo closed", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:nc -z cart 25; rc=$?; if [ $rc -ne 0 ]; then echo closed; fi", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:until nc -z cart 25; do echo again; done", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:f() { nc -z cart 25; }; f || echo closed", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:sh -c \"nc -z cart 25\" || echo closed", stderr: uncaptured("cart", 25), code: 126},
		{argv: "sh -c:(true && nc -z cart 25); { nc -z redis-0.redis 6379; }; case a in a) nc -z cart 25;; esac; echo over", stdout: "over\n", stderr: uncaptured("cart", 25) + uncaptured("cart", 25)},
		{argv: "sh -c:command -v psql || echo none", stderr: "kubecase: not captured: whether the container has psql\n", code: 126},
		{argv: "sh -c:[ -f /app/config ] && echo there || echo none", stderr: "kubecase: not captured: the file /app/config of container \"tools\" of pod \"toolbox\"\n", code: 126},
		{argv: "sh -c:[ -f /etc/app/none ] && echo there || echo none", stdout: "none\n"},
		{argv: "sh -c:grep x </app/config || echo none", stderr: "kubecase: not captured: the file /app/config of container \"tools\" of pod \"toolbox\"\n", code: 126},
		{argv: "sh -c:echo lost: $LOST", stderr: "kubecase: not captured: the value of LOST: the secret \"lost\"\n", code: 126},
		{argv: "sh -c:env | grep ^KEY", stdout: "KEY=v\n", stderr: "kubecase: not captured: the value of LOST: the secret \"lost\"\n"},
		{argv: "sh -c:env 2>/dev/null | grep -c LOST", stdout: "0\n", stderr: "kubecase: not captured: the value of LOST: the secret \"lost\"\n", code: 1},
		// Connections of bash's own.
		{argv: "bash -c:(echo > /dev/tcp/cart/80) && echo open || echo closed", stdout: "open\n"},
		{argv: "bash -c:(echo > /dev/tcp/email/25) 2>/dev/null && echo open || echo closed", stdout: "closed\n"},
		{argv: "bash -c:timeout 3 bash -c \"</dev/tcp/cart/80\" && echo open", stdout: "open\n"},
		{argv: "bash -c:timeout 3 bash -c \"</dev/tcp/cart/25\" && echo open || echo closed", stderr: uncaptured("cart", 25), code: 126},
		{argv: "bash -c:cat < /dev/tcp/cart/80", stderr: "kubecase: not captured: what comes over /dev/tcp/cart/80: only that a connection can be opened\n", code: 126},
		{argv: "sh -c:echo > /dev/tcp/cart/80 && echo open", stderr: "kubecase: not captured: whether the shell sh takes /dev/tcp/cart/80 for a connection\n", code: 126},
		{argv: "sh -c:echo $A-$1 x", stdout: "1- x\n"},
		{argv: "sh -c:if [ -f /etc/app/k ]; then cat /etc/app/k; fi", stdout: "v"},
		{argv: "sh -c:echo x > /tmp/y", stderr: "open /tmp/y: read-only file system\n", code: 1},
		{argv: "sh -c:cat <(echo x)", stderr: "kubecase: not captured: what a script with process substitution does\n", code: 126},
		{argv: "sh -c:echo {1..999999999}", stderr: "kubecase: not captured: what a script with a range in braces does\n", code: 126},
		{argv: "sh -c:if", stderr: "sh: 1: Syntax error: `if` must be followed by a statement list\n", code: 2},
		{argv: "sh", stdin: "echo from stdin\n", stdout: "from stdin\n"},
		{argv: "sh -c:sort -r /etc/app/file.txt | head -1 | tr a-z A-Z | cut -d W -f 1; echo two two | wc -w; uniq -c /etc/app/file.txt | tail -n 1", stdout: "T\n2\n      1 two\n"},
		{argv: "foo", stderr: "kubecase: not captured: what \"foo\" prints in container \"tools\" of pod \"toolbox\"; ask for commands that were captured, or nc, curl, wget, nslookup, dig, getent, env, cat, ls, grep, head, tail\n", code: 126},
	} {
		t.Run(test.argv, func(t *testing.T) {
			words, script, _ := strings.Cut(test.argv, ":")
			argv := strings.Fields(test.argv)
			if shell, ok := strings.CutSuffix(words, " -c"); ok {
				argv = []string{shell, "-c", script}
			}
			stdout, stderr, code, err := run(t, c, "toolbox", test.stdin, argv...)
			if err != nil {
				t.Fatal(err)
			}
			if stdout != test.stdout || stderr != test.stderr || code != test.code {
				t.Errorf("stdout %q\nwant   %q\nstderr %q\nwant   %q\ncode %d, want %d", stdout, test.stdout, stderr, test.stderr, code, test.code)
			}
		})
	}
}

// TestVantage: a probe counts for who stands where it was made.
func TestVantage(t *testing.T) {
	c := newCase(t)
	if _, stderr, code, _ := run(t, c, "twin", "", "nc", "-zv", "cart", "80"); code != 1 || !strings.Contains(stderr, "timed out") {
		t.Errorf("from the other node: %d %q, want a timeout", code, stderr)
	}
	// The same image lacks the same program.
	_, _, _, err := run(t, c, "twin", "", "nosuch")
	if err == nil || err.Error() != `Internal error occurred: OCI: unable to start container process: exec: "nosuch": not found` {
		t.Errorf("a missing program: %v", err)
	}
}

// TestBombs: scripts that grow without end are ended, and cost little.
func TestBombs(t *testing.T) {
	c := newCase(t)
	for _, script := range []string{
		"x=a; while :; do x=$x$x; done",
		"f() { x=a$x$x$x; f; }; x=aaaa; f",
		"while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done",
		"printf %99999999d 1",
		strings.Repeat("x=$x$x;", 4000),
		"eval 'x=1'",
		"source /etc/app/k",
		"exec /bin/sh",
	} {
		_, stderr, code, err := run(t, c, "toolbox", "", "sh", "-c", script)
		if err != nil || code != NotCapturedCode {
			t.Errorf("%.60s: code %d, %v, %.100s; want %d", script, code, err, stderr, NotCapturedCode)
		}
	}
}

func TestRefusal(t *testing.T) {
	c := newCase(t)
	in, err := open(Target{Case: c, Namespace: "shop", Pod: "down", Container: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := in.refusal(), `unable to upgrade connection: container not found ("a")`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := open(Target{Case: c, Namespace: "shop", Pod: "nope"}); err == nil || !strings.Contains(err.Error(), `pods "nope" not found`) {
		t.Errorf("an unknown pod: %v", err)
	}
}

// FuzzExec: whatever is run, it ends, answers with a code, and touches nothing of this machine.
func FuzzExec(f *testing.F) {
	for _, seed := range []string{"nc -zv cart 80", "curl -sS http://cart/", "cat /etc/hosts", "nslookup redis", "ls -la /", "grep -E ( x", "cut -f", "head -c -1 /etc/motd", "tr"} {
		f.Add(seed, false)
	}
	for _, seed := range []string{"echo $((1+1)) | cat", "for i in a b; do nc -z $i 1; done", "cat ../../../../etc/passwd", "echo $(cat /etc/hosts)", "trap x EXIT", "[[ -e /etc ]]", "ulimit -a", "cd /; pwd; ls"} {
		f.Add(seed, true)
	}
	c := newCase(f)
	f.Fuzz(func(t *testing.T, text string, script bool) {
		if strings.Contains(text, "sleep") {
			return // it does
		}
		argv := strings.Fields(text)
		if script {
			argv = []string{"sh", "-c", text}
		}
		if len(argv) == 0 {
			return
		}
		stdout, _, code, err := run(t, c, "toolbox", "", argv...)
		if code < 0 || code > 255 {
			t.Errorf("code %d", code)
		}
		if strings.Contains(stdout, "root:x:0") {
			t.Error("a file of this machine was read")
		}
		if err != nil {
			if _, marshal := json.Marshal(ended(code, err)); marshal != nil {
				t.Error(marshal)
			}
		}
	})
}
