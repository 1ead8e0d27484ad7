package apiserver_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

// manyPods is a case of n pods, made of a captured one.
func manyPods(b *testing.B, n int) *fixtures.Case {
	b.Helper()
	c, err := cases.Open("shop-outage")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	pod := string(c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Find("shop", "redis-0").Raw)
	list := &strings.Builder{}
	list.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1209"},"items":[`)
	for i := range n {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(strings.ReplaceAll(pod, `"redis-0"`, fmt.Sprintf(`"redis-%05d"`, i)))
	}
	list.WriteString("]}")
	many, err := fixtures.OpenFS("many", fstest.MapFS{
		"case.yaml":                 {Data: []byte("apiVersion: kubecase.io/v1\nkind: Case\nname: many\ncapture: {time: \"2026-12-01T00:18:24Z\"}\n")},
		"objects/core_v1_pods.json": {Data: []byte(list.String())},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { many.Close() })
	return many
}

// BenchmarkPods lists 100 and 5,000 pods for the first time in an episode.
func BenchmarkPods(b *testing.B) {
	for _, n := range []int{100, 5000} {
		api := apiserver.New(apiserver.Config{})
		e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: manyPods(b, n)})
		if err != nil {
			b.Fatal(err)
		}
		for form, accept := range map[string]string{
			"JSON": "application/json", "Table": strings.TrimPrefix(tableAccept, "Accept: "), "protobuf": "application/vnd.kubernetes.protobuf",
		} {
			b.Run(fmt.Sprintf("%d/%s", n, form), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					i++
					b.SetBytes(int64(ask(b, api, e, fmt.Sprintf("/api/v1/pods?new=%d", i), accept)))
				}
			})
		}
	}
}

// BenchmarkMemory reports the heap that a served case takes, with every list
// asked for once as a Table.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1, 20} {
		b.Run(fmt.Sprintf("%d_cases", n), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				api := apiserver.New(apiserver.Config{})
				var open []*fixtures.Case
				for range n {
					c, err := cases.Open("shop-outage")
					if err != nil {
						b.Fatal(err)
					}
					open = append(open, c)
					e, err := api.AddEpisode(apiserver.EpisodeOptions{Case: c})
					if err != nil {
						b.Fatal(err)
					}
					for _, r := range c.Resources() {
						path := "/apis/" + r.GVR.GroupVersion().String() + "/" + r.GVR.Resource
						if r.GVR.Group == "" {
							path = "/api/v1/" + r.GVR.Resource
						}
						ask(b, api, e, path, strings.TrimPrefix(tableAccept, "Accept: "))
					}
				}
				grown := heap() - before
				b.ReportMetric(float64(grown)/float64(n)/(1<<20), "MiB/case")
				b.ReportMetric(float64(grown)/float64(n)/903/1024, "KiB/object")
				runtime.KeepAlive(http.Handler(api))
				for _, c := range open {
					if err := c.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
