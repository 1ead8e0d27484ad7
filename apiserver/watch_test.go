package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

func shipped(t testing.TB, name string) *fixtures.Case {
	t.Helper()
	c, err := cases.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// restConfig is a client-go configuration for an episode.
func restConfig(s *site, e *apiserver.Episode) *rest.Config {
	return &rest.Config{
		Host: s.web.URL + e.Path(), BearerToken: e.Token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1,
	}
}

// watchable are the resources of a case that can be watched, by version.
func watchable(t *testing.T, client kubernetes.Interface) []schema.GroupVersionResource {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var out []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") && strings.Contains(r.Verbs.String(), "watch") {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out
}

// TestInformers: informers over everything that can be watched sync in two
// seconds, hold what the case holds, and stay quiet: no second list, no error.
func TestInformers(t *testing.T) {
	s := newSite(t)
	c := shipped(t, "shop-outage")
	config := restConfig(s, s.episode(apiserver.EpisodeOptions{Case: c}))
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resources := watchable(t, typed)
	if len(resources) < 50 {
		t.Fatalf("only %d resources can be watched", len(resources))
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ofDynamic := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	ofMetadata := metadatainformer.NewSharedInformerFactory(metadataClient, 0)
	ofTyped := informers.NewSharedInformerFactory(typed, 0)
	for _, flavour := range []struct {
		name     string
		informer func(schema.GroupVersionResource) (cache.SharedIndexInformer, error)
		start    func(<-chan struct{})
		stop     func()
	}{
		{"typed", func(gvr schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
			generic, err := ofTyped.ForResource(gvr)
			if err != nil {
				return nil, err
			}
			return generic.Informer(), nil
		}, ofTyped.Start, ofTyped.Shutdown},
		{"metadata", func(gvr schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
			return ofMetadata.ForResource(gvr).Informer(), nil
		}, ofMetadata.Start, ofMetadata.Shutdown},
		{"dynamic", func(gvr schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
			return ofDynamic.ForResource(gvr).Informer(), nil
		}, ofDynamic.Start, ofDynamic.Shutdown},
	} {
		t.Run(flavour.name, func(t *testing.T) {
			stores := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
			var mu sync.Mutex
			var failures []string
			for _, gvr := range resources {
				informer, err := flavour.informer(gvr)
				if err != nil {
					continue // client-go has typed informers of built-in kinds alone
				}
				err = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
					mu.Lock()
					defer mu.Unlock()
					failures = append(failures, fmt.Sprintf("%s: %v", gvr, err))
				})
				if err != nil {
					t.Fatal(err)
				}
				stores[gvr] = informer
			}
			if len(stores) < 45 {
				t.Fatalf("only %d informers", len(stores))
			}
			stop := make(chan struct{})
			began := time.Now()
			flavour.start(stop)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for gvr, informer := range stores {
				if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
					t.Errorf("%s does not sync", gvr)
				}
				if held, want := len(informer.GetStore().List()), len(c.Resource(gvr).Objects); held != want {
					t.Errorf("%s holds %d objects, captured %d", gvr, held, want)
				}
			}
			// The bound is for a machine that does little else; the race detector's is another.
			if took := time.Since(began); took > 2*time.Second && !raceDetector {
				t.Errorf("%d informers took %v, want less than 2s", len(stores), took)
			}
			close(stop)
			flavour.stop()
			mu.Lock()
			defer mu.Unlock()
			for _, failure := range failures {
				t.Error(failure)
			}
		})
	}
}

// TestThousandWatchers: a thousand quiet watches stay open beside busy clients,
// and leave nothing behind. KUBECASE_SOAK keeps the clients busy for that long
// and then demands that memory stayed level.
func TestThousandWatchers(t *testing.T) {
	var soak time.Duration
	if text := os.Getenv("KUBECASE_SOAK"); text != "" {
		var err error
		if soak, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t)
	e := s.episode(apiserver.EpisodeOptions{Case: shipped(t, "shop-outage")})
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	const watchers = 1000
	opened := make(chan error, watchers)
	var wg sync.WaitGroup
	for range watchers {
		wg.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.web.URL+e.Path()+"/api/v1/namespaces/shop/pods?watch=true&resourceVersion=1209", nil)
			if err != nil {
				opened <- err
				return
			}
			req.Header.Set("Authorization", "Bearer "+e.Token)
			resp, err := s.client.Do(req)
			if err != nil {
				opened <- err
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %s", resp.Status)
			}
			opened <- err
			<-ctx.Done()
		})
	}
	for range watchers {
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	work := func(least time.Duration) (requests int64) {
		var busy sync.WaitGroup
		var asked atomic.Int64
		paths := []string{"/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop/events", "/apis/apps/v1/replicasets", "/api/v1/nodes/node-1"}
		began := time.Now()
		for i := range 64 {
			busy.Go(func() {
				for j := 0; j < 5 || time.Since(began) < least; j++ {
					if got := s.call(t.Context(), "GET", e.Path()+paths[(i+j)%len(paths)], e.Token, nil, tableAccept); got.status != 200 {
						t.Errorf("status %d beside watches", got.status)
					}
					asked.Add(1)
				}
			})
		}
		busy.Wait()
		return asked.Load()
	}
	work(soak / 4)
	level := heapInUse()
	asked := work(soak - soak/4)
	if after := heapInUse(); after > level+level/4+16<<20 {
		t.Errorf("the heap grew from %d to %d bytes", level, after)
	} else if soak > 0 {
		t.Logf("%d requests; heap in use %d MiB after a quarter of the time, %d MiB after all of it", asked, level>>20, after>>20)
	}
	cancel()
	wg.Wait()
	s.client.CloseIdleConnections()
	s.web.CloseClientConnections()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+50; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines after the watches, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// heapInUse is what is held after a collection.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestWatchListClient: a client that lists by watching gets the end of the
// initial events.
func TestWatchListClient(t *testing.T) {
	s := newSite(t)
	client, err := kubernetes.NewForConfig(restConfig(s, s.episode(apiserver.EpisodeOptions{Case: shipped(t, "shop-outage")})))
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	w, err := client.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	added := 0
	for event := range w.ResultChan() {
		if event.Type == "ADDED" {
			added++
			continue
		}
		object, ok := event.Object.(metav1.Object)
		if !ok || event.Type != "BOOKMARK" || object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
			t.Fatalf("event %s after %d objects: %v", event.Type, added, event.Object)
		}
		break
	}
	if added != 29 {
		t.Errorf("%d initial events, want the 29 pods", added)
	}
}
