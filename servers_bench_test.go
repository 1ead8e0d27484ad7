package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

// firstProcesses and firstEpisodes are how many first answers are measured.
const firstProcesses, firstEpisodes = 15, 100

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// serverRequests are what the servers are compared by.
var serverRequests = []struct{ name, path, accept string }{
	{"GET node", "/api/v1/nodes/node-1", "application/json"},
	{"LIST events JSON", "/api/v1/namespaces/shop/events", "application/json"},
	{"LIST events Table", "/api/v1/namespaces/shop/events", asTable},
	{"LIST replicasets JSON", "/apis/apps/v1/replicasets", "application/json"},
	{"LIST replicasets Table", "/apis/apps/v1/replicasets", asTable},
	{"LIST clusterroles JSON", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "application/json"},
	{"version", "/version", "application/json"},
}

// BenchmarkServers compares, in one run, one client and a kept connection to each:
// kubecase as a process of its own, a Go TLS server that sends the same bytes, and,
// where KUBE_APISERVER names its binary, a real kube-apiserver that holds the same
// objects (its etcd is ETCD, one beside it, or one in PATH). Each metric is of
// single requests: the median and the 99th percentile of requests made again, the
// median of the first such request of a new episode, and of a new process.
func BenchmarkServers(b *testing.B) {
	// Before a real server starts, which is busy for a while.
	episodes, processes := firstInEpisode(b, firstEpisodes), firstInProcess(b, firstProcesses)
	servers := []*comparedServer{startKubecase(b, "shop-outage"), startRecorded(b, "shop-outage")}
	if name := os.Getenv("KUBE_APISERVER"); name != "" {
		servers = append(servers, startKubeAPIServer(b, name))
	} else {
		b.Log("no real server: KUBE_APISERVER names no binary")
	}
	servers = append(servers, startBare(b, servers[0]))
	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "request, p50/p99 ms\tbytes\tnew process\tnew episode\t")
	for _, s := range servers {
		fmt.Fprintf(w, "%s\t", s.name)
	}
	fmt.Fprintln(w)
	for _, r := range serverRequests {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t", r.name, len(servers[0].get(b, r.path, r.accept)), milliseconds(processes[r.name]), milliseconds(episodes[r.name]))
		for _, s := range servers {
			took := inTurns(b, r.name, r.path, r.accept, s)[0]
			fmt.Fprintf(w, "%.2f/%.1f\t", milliseconds(percentile(took, 50)), milliseconds(percentile(took, 99)))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	fmt.Printf("\none client, a kept connection to each; new: kubecase's first answers, the median of %d processes and of %d episodes\n%s\n",
		firstProcesses, firstEpisodes, table)
}

// BenchmarkRecordedServer compares a kubecase that runs an agent, and records what it asks, with one that
// does the same and doesn't record: processes of their own, which take turns, so that both see the
// same machine. Two of each, so that what two like processes differ by is seen, too.
func BenchmarkRecordedServer(b *testing.B) {
	const name = "shop-nodes"
	var servers []*comparedServer
	for _, s := range []struct{ name, program string }{{"bare", unrecordedProgram}, {"recorded", "kubecase"}, {"bare-2", unrecordedProgram}, {"recorded-2", "kubecase"}} {
		servers = append(servers, startRun(b, s.name, s.program, name))
	}
	requests := slices.Clone(serverRequests)
	requests = append(requests, struct{ name, path, accept string }{"log", "/api/v1/namespaces/shop/pods/" + podWithLog(b, name) + "/log", "*/*"})
	for _, r := range requests {
		took := inTurns(b, r.name, r.path, r.accept, servers...)
		share := func(of, without []time.Duration) float64 {
			bare := percentile(without, 50)
			return 100 * float64(percentile(of, 50)-bare) / float64(bare)
		}
		without, with := slices.Concat(took[0], took[2]), slices.Concat(took[1], took[3])
		fmt.Printf("%-24s %.3f ms, recorded %.3f ms: %+.1f %%; two that don't record differ by %.1f %%, two that do by %.1f %%\n",
			r.name, milliseconds(percentile(without, 50)), milliseconds(percentile(with, 50)), share(with, without), math.Abs(share(took[2], took[0])), math.Abs(share(took[3], took[1])))
	}
}

// inTurns asks the servers for the same, one after the other and in changing order, and
// reports their medians. The times are by server.
func inTurns(b *testing.B, name, path, accept string, servers ...*comparedServer) [][]time.Duration {
	took := make([][]time.Duration, len(servers))
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = strings.ReplaceAll(s.name, " ", "_")
	}
	b.Run(strings.ReplaceAll(name, " ", "_")+"/"+strings.Join(names, ","), func(b *testing.B) {
		clear(took)
		for n := 0; b.Loop(); n++ {
			for i := range servers {
				i = (i + n) % len(servers)
				began := time.Now()
				servers[i].get(b, path, accept)
				took[i] = append(took[i], time.Since(began))
			}
		}
		for i := range servers {
			b.ReportMetric(milliseconds(percentile(took[i], 50)), names[i]+"-p50-ms")
			b.ReportMetric(milliseconds(percentile(took[i], 99)), names[i]+"-p99-ms")
		}
	})
	return took
}

// podWithLog is a pod of the case with one container whose log was captured.
func podWithLog(b *testing.B, name string) string {
	c, err := cases.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	containers := map[string]int{}
	for _, l := range c.Logs() {
		if l.Namespace == "shop" && !l.Previous && l.Refusal == nil {
			containers[l.Pod]++
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(containers)) {
		if containers[pod] == 1 {
			return pod
		}
	}
	b.Fatal("the case has no pod with one log")
	return ""
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func percentile(took []time.Duration, percent int) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// comparedServer is a server that answers, and what it needed.
type comparedServer struct {
	name, url, token string
	client           *http.Client
}

func (s *comparedServer) get(b *testing.B, path, accept string) []byte {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: GET %s: %s %v", s.name, path, resp.Status, err)
	}
	return body
}

// startRecorded serves the case as 'kubecase run' does to an agent, every request on
// record, until the benchmark ends.
func startRecorded(b *testing.B, name string) *comparedServer {
	b.Helper()
	return startRun(b, "recorded", "kubecase", name)
}

func startRun(b *testing.B, as, program, name string) *comparedServer {
	b.Helper()
	program, err := exec.LookPath(program)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	agent := `cp "$KUBECONFIG" "$0.new" && mv "$0.new" "$0" && exec sleep 3600`
	run(b, dir, program, "run", name, "--out", filepath.Join(dir, "run"), "--time-limit", "0", "--", "sh", "-c", agent, kubeconfig)
	var config []byte
	for deadline := time.Now().Add(time.Minute); ; {
		if config, err = os.ReadFile(kubeconfig); err == nil {
			break
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // until the agent has started
	}
	field := func(name string) string {
		_, value, _ := strings.Cut(string(config), name+": ")
		value, _, _ = strings.Cut(value, "\n")
		return strings.Trim(value, `"`)
	}
	return &comparedServer{name: as, url: field("server"), token: field("token"), client: newClient()}
}

// newClient keeps one connection and takes answers as they are, not compressed.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true, ForceAttemptHTTP2: true,
	}}
}

// startKubecase serves the case in a process of its own until the benchmark ends.
func startKubecase(b *testing.B, name string) *comparedServer {
	b.Helper()
	served := serveProcess(b, name)
	config, err := os.ReadFile(served.Kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	_, token, _ := strings.Cut(string(config), "token: ")
	token, _, _ = strings.Cut(token, "\n")
	return &comparedServer{name: "kubecase", url: served.URL, token: strings.Trim(token, `"`), client: newClient()}
}

// serveProcess serves a case in a process of its own until the benchmark ends.
func serveProcess(b *testing.B, name string, options ...string) servedCaseInfo {
	b.Helper()
	program, err := exec.LookPath("kubecase")
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), program, append([]string{"serve", name, "--port", "0", "-o", "json"}, options...)...)
	command.Env = append(os.Environ(), "TMPDIR="+b.TempDir())
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stopProcess(b, command) })
	document := servedDocument{}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&document); err != nil {
		b.Fatal(err)
	}
	return document.Cases[0]
}

// firstInEpisode is the median, by request, of how long the first such request of
// an episode takes of which the case is open.
func firstInEpisode(b *testing.B, episodes int) map[string]time.Duration {
	c, err := cases.Open("shop-outage")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	api := apiserver.New(apiserver.Config{Done: b.Context().Done()})
	server := httptest.NewUnstartedServer(api)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	s := &comparedServer{name: "kubecase", client: newClient()}
	took := map[string][]time.Duration{}
	start := time.Now()
	for i := range episodes + 1 {
		// Every episode has an offset of its own: nothing of another one's can be sent.
		e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c, Start: start.Add(time.Duration(i) * time.Second)})
		if err != nil {
			b.Fatal(err)
		}
		s.url, s.token = server.URL+e.Path(), e.Token
		for j := range serverRequests {
			r := serverRequests[(i+j)%len(serverRequests)]
			began := time.Now()
			s.get(b, r.path, r.accept)
			if i > 0 { // the first one opens the case and the connection
				took[r.name] = append(took[r.name], time.Since(began))
			}
		}
	}
	s.client.CloseIdleConnections()
	return medians(took)
}

func medians(took map[string][]time.Duration) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, all := range took {
		out[name] = percentile(all, 50)
	}
	return out
}

// firstInProcess is the median, by request, of how long the first such request to a
// new process takes. /version is asked for before, so that the connection stands.
func firstInProcess(b *testing.B, processes int) map[string]time.Duration {
	took := map[string][]time.Duration{}
	for i := range processes {
		s := startKubecase(b, "shop-outage")
		s.get(b, "/version", "application/json")
		for j := range serverRequests {
			r := serverRequests[(i+j)%len(serverRequests)] // no request is always the first of all
			began := time.Now()
			s.get(b, r.path, r.accept)
			took[r.name] = append(took[r.name], time.Since(began))
		}
		s.client.CloseIdleConnections()
	}
	return medians(took)
}

// startBare is a TLS server that sends what another one answered, and does nothing else.
func startBare(b *testing.B, of *comparedServer) *comparedServer {
	b.Helper()
	bodies := map[string][]byte{}
	for _, r := range serverRequests {
		bodies[r.path+" "+r.accept] = of.get(b, r.path, r.accept)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := bodies[req.URL.Path+" "+req.Header.Get("Accept")]
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	b.Cleanup(server.Close)
	return &comparedServer{name: "bare server", url: server.URL, client: newClient()}
}

// startKubeAPIServer starts a real kube-apiserver whose etcd holds the case's objects.
func startKubeAPIServer(b *testing.B, program string) *comparedServer {
	b.Helper()
	etcd := os.Getenv("ETCD")
	if etcd == "" {
		etcd = filepath.Join(filepath.Dir(program), "etcd")
	}
	if _, err := os.Stat(etcd); err != nil {
		if etcd, err = exec.LookPath("etcd"); err != nil {
			b.Fatalf("KUBE_APISERVER needs an etcd: name its binary in ETCD (%v)", err)
		}
	}
	dir := b.TempDir()
	client, peer, secure := freePort(b), freePort(b), freePort(b)
	etcdURL := "http://127.0.0.1:" + client
	peerURL := "http://127.0.0.1:" + peer
	run(b, dir, etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL)
	await(b, &http.Client{}, etcdURL+"/health", "")
	storeObjects(b, etcdURL)
	key := filepath.Join(dir, "sa.key")
	writeKey(b, key)
	const token = "benchmark"
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+`,admin,1,"system:masters"`+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	run(b, dir, program, "--etcd-servers", etcdURL, "--bind-address", "127.0.0.1", "--secure-port", secure, "--cert-dir", filepath.Join(dir, "certs"),
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--service-cluster-ip-range", "10.0.0.0/24")
	s := &comparedServer{name: "kube-apiserver", url: "https://127.0.0.1:" + secure, token: token, client: newClient()}
	await(b, s.client, s.url+"/readyz", token)
	return s
}

// storeObjects puts the case's objects where a kube-apiserver keeps them.
func storeObjects(b *testing.B, etcdURL string) {
	b.Helper()
	c, err := cases.Open("shop-outage")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for gvr, folder := range map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "namespaces"}:                                       "namespaces",
		{Version: "v1", Resource: "nodes"}:                                            "minions",
		{Version: "v1", Resource: "events"}:                                           "events",
		{Group: "apps", Version: "v1", Resource: "replicasets"}:                       "replicasets",
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}: "clusterroles",
	} {
		resource := c.Resource(gvr)
		if resource == nil {
			b.Fatalf("the case has no %s", gvr)
		}
		for _, o := range resource.Objects {
			storeObject(b, etcdURL, "/registry/"+folder, resource, o)
		}
	}
}

func storeObject(b *testing.B, etcdURL, folder string, r *fixtures.Resource, o *fixtures.Object) {
	b.Helper()
	if o.Namespace != "" {
		folder += "/" + o.Namespace
	}
	text := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,%s`, r.Kind, r.GVR.GroupVersion().String(), o.Raw[1:])
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), text)
	if err != nil {
		b.Fatal(err)
	}
	value := &bytes.Buffer{} // as a kube-apiserver stores it: as protobuf
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, value); err != nil {
		b.Fatal(err)
	}
	put, err := json.Marshal(map[string][]byte{"key": []byte(folder + "/" + o.Name), "value": value.Bytes()})
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.Post(etcdURL+"/v3/kv/put", "application/json", bytes.NewReader(put))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("etcd: %s", resp.Status)
	}
}

func writeKey(b *testing.B, name string) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		b.Fatal(err)
	}
}

func freePort(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	return port
}

// run starts a program until the benchmark ends; its output goes to a file in dir.
func run(b *testing.B, dir, program string, args ...string) {
	b.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		b.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stopProcess(b, command)
		log.Close()
		if b.Failed() {
			text, _ := os.ReadFile(log.Name())
			b.Logf("%s:\n%s", log.Name(), text[max(0, len(text)-4000):])
		}
	})
}

func stopProcess(b *testing.B, command *exec.Cmd) {
	b.Helper()
	if err := command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.Error(err)
	}
	_ = command.Wait() // a signal ended it
}

// await asks until the server is there.
func await(b *testing.B, client *http.Client, url, token string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	b.Fatalf("%s does not answer", url)
}
