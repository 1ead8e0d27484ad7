package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubecase/kubecase/recorder"
)

// tellRequests logs what was recorded, where a test fails.
func (e *recordedEpisode) tellRequests(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		requests, err := recorder.Requests(e.dir)
		if err != nil {
			t.Error(err)
		}
		for _, r := range requests {
			t.Log(r.Start().Format(time.StampMilli), r.UserAgent, r.Verb, r.RequestURI, r.Status(), r.Open, r.Annotations)
		}
	})
}

// demandCalls compares an episode's calls with those that its user made.
func demandCalls(t *testing.T, calls []recorder.Call, want [][]string) {
	t.Helper()
	var got [][]string
	for _, c := range calls {
		got = append(got, callText(c))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRecordedInformers: a factory of client-go's lists and watches each resource,
// which is one call per resource, whatever form it asks for.
func TestRecordedInformers(t *testing.T) {
	server := newRecordingServer(t, restored(t, kubeletCase))
	resources := []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	}
	for name, output := range map[string]string{"typed": "object", "protobuf": "object", "metadata": "metadata", "dynamic": "object"} {
		t.Run(name, func(t *testing.T) {
			e := server.episode(t, "")
			e.tellRequests(t)
			config, err := clientcmd.BuildConfigFromFlags("", e.kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var once sync.Once
			end := func() { once.Do(func() { close(stop) }) }
			defer end()
			var all []cache.SharedIndexInformer
			start, shutdown := func() {}, func() {}
			switch name {
			case "typed", "protobuf":
				if name == "protobuf" {
					config.ContentType = "application/vnd.kubernetes.protobuf"
				}
				client, err := kubernetes.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("shop"))
				for _, r := range resources {
					informer, err := factory.ForResource(r)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, informer.Informer())
				}
				start, shutdown = func() { factory.Start(stop) }, factory.Shutdown
			case "metadata":
				client, err := metadata.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, "shop", nil)
				for _, r := range resources {
					all = append(all, factory.ForResource(r).Informer())
				}
				start, shutdown = func() { factory.Start(stop) }, factory.Shutdown
			case "dynamic":
				client, err := dynamic.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "shop", nil)
				for _, r := range resources {
					all = append(all, factory.ForResource(r).Informer())
				}
				start, shutdown = func() { factory.Start(stop) }, factory.Shutdown
			}
			start()
			for _, informer := range all {
				if !cache.WaitForCacheSync(stop, informer.HasSynced) {
					t.Fatal("an informer doesn't sync")
				}
			}
			end()
			shutdown()
			var want [][]string
			for _, r := range []string{"deployments", "pods", "services"} {
				want = append(want, []string{"delivered", "T1 type=" + r + " namespace=shop output=" + output})
			}
			calls := e.calls(t)
			slices.SortFunc(calls, func(a, b recorder.Call) int { return slices.Compare(callText(a), callText(b)) })
			demandCalls(t, calls, want)
			for i, n := range map[int]int{0: 21, 1: shopPods, 2: 12} { // as captured
				if got := len(calls[i].Uses[0].Response.Objects); got != n {
					t.Errorf("%s: %d objects instead of %d", useText(calls[i].Uses[0]), got, n)
				}
			}
		})
	}
}

// kfcss is the pod whose log the clients read. Of its last two lines the first tells of an error.
const kfcss = "namespace=shop service=frontend pod=frontend-6ff7c79fd7-kfcss"

// libraryCalls are what clients/client.mjs and client.py do; followed says how they
// ask for the log that they follow.
func libraryCalls(followed string) [][]string {
	return [][]string{
		{"delivered", "T1 type=pods namespace=shop output=object"},
		{"delivered", "T1 type=pods namespace=shop labels=app in (cart,checkout) output=object"},
		{"delivered", "T1 type=pods namespace=shop output=object"}, // a first page
		{"delivered", "T5 " + kfcss, "T9 " + kfcss},
		{"delivered", "T1 type=events namespace=shop fields=type=Warning output=object"},
		{"delivered", "T1 type=pods namespace=shop output=object"}, // a watch
		{"delivered", "T5 " + kfcss + followed},
		{"write"},
	}
}

// TestRecordedLibraries: other languages' clients name no session; each question of their
// program is a call.
func TestRecordedLibraries(t *testing.T) {
	dir := clientsDir(t)
	here, err := filepath.Abs("clients")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		argv  []string
		calls [][]string
	}{
		"node":   {[]string{"node", filepath.Join(dir, "client.mjs")}, libraryCalls(" container=frontend")},
		"python": {[]string{"/usr/bin/python3", filepath.Join(here, "client.py")}, libraryCalls("")},
		"mcp": {[]string{"node", filepath.Join(dir, "mcp.mjs")}, [][]string{
			{"delivered", "T1 type=pods namespace=shop output=table"},
			{"delivered", "T1 type=pods namespace=shop name=frontend-6ff7c79fd7-kfcss output=object"},
			{"delivered", "T5 " + kfcss + " container=frontend", "T9 " + kfcss + " container=frontend"},
			{"delivered", "T1 type=events namespace=shop output=object"},
			{"delivered", "T1 type=deployments namespace=shop output=table"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newRecordingServer(t, restored(t, kubeletCase)).episode(t, "")
			e.tellRequests(t)
			command := exec.CommandContext(t.Context(), test.argv[0], test.argv[1:]...)
			command.Dir = dir
			command.Env = e.env(t.TempDir(), "POD=frontend-6ff7c79fd7-kfcss")
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			demandCalls(t, e.calls(t), test.calls)
		})
	}
}

// TestRecordedCurl: every request of curl's is a call.
func TestRecordedCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	server := newRecordingServer(t, restored(t, kubeletCase))
	e := server.episode(t, "")
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, server.ca, 0o600); err != nil {
		t.Fatal(err)
	}
	var want [][]string
	for _, test := range []struct {
		argv string
		want []string
	}{
		{"/api/v1/namespaces/shop/pods", []string{"delivered", "T1 type=pods namespace=shop output=object"}},
		{"/api/v1/namespaces/shop/pods", []string{"delivered", "T1 type=pods namespace=shop output=object"}},
		{"--compressed /api/v1/pods?limit=5", []string{"delivered", "T1 type=pods namespace=* output=object"}},
		{"-H Accept:application/json;as=Table;v=v1;g=meta.k8s.io /apis/apps/v1/namespaces/shop/deployments", []string{"delivered", "T1 type=deployments namespace=shop output=table"}},
		{"-H Accept:application/yaml /apis/apps/v1/namespaces/shop/deployments/cart", []string{"delivered", "T1 type=deployments namespace=shop name=cart output=object", "T3 namespace=shop service=cart"}},
		{"/api/v1/namespaces/shop/pods/redis-0", []string{"delivered", "T1 type=pods namespace=shop name=redis-0 output=object"}},
		{"/api/v1/namespaces/shop/pods/redis-0/log?tailLines=3", []string{"delivered", "T5 namespace=shop service=redis pod=redis-0"}},
		{"/api/v1/namespaces/shop/pods?watch=1&timeoutSeconds=1", []string{"delivered", "T1 type=pods namespace=shop output=object"}},
		{"/api/v1/namespaces/shop/pods/nope", []string{"not-found", "T1 type=pods namespace=shop name=nope output=object !not-found"}},
		{"/api/v1/nodes", []string{"delivered", "T1 type=nodes namespace= output=object", "T7"}},
		{"/apis", []string{"delivered"}},
		{"/version", []string{"delivered"}},
		{"/healthz", []string{"delivered", "T10 component=kube-apiserver"}},
		{"-X DELETE /api/v1/namespaces/shop/pods/redis-0", []string{"write"}},
	} {
		args := strings.Fields(test.argv)
		args[len(args)-1] = server.url + e.Path() + args[len(args)-1]
		args = append([]string{"-sS", "-o", "/dev/null", "--cacert", authority, "-H", "Authorization: Bearer " + e.Token}, args...)
		if out, err := exec.CommandContext(t.Context(), curl, args...).CombinedOutput(); err != nil {
			t.Fatalf("curl %s: %v\n%s", test.argv, err, out)
		}
		want = append(want, test.want)
	}
	demandCalls(t, e.calls(t), want)
}
