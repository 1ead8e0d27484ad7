package apiserver_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/kubecase/kubecase/apiserver"
)

// TestSiblings takes one version of a resource away from a case that has several
// as the cluster answered them: what is then converted from the version that is
// left must be what the cluster answered.
func TestSiblings(t *testing.T) {
	const (
		hpaV1, hpaV2       = "objects/autoscaling_v1_horizontalpodautoscalers.json", "objects/autoscaling_v2_horizontalpodautoscalers.json"
		events, eventsCore = "objects/events.k8s.io_v1_events.json", "objects/core_v1_events.json"
	)
	s := newSite(t)
	whole := s.episode(apiserver.EpisodeOptions{Case: shipped(t, "shop-outage"), Clock: "captured"})
	for _, tt := range []struct{ without, path string }{
		{hpaV1, "/apis/autoscaling/v1/horizontalpodautoscalers"},
		{hpaV2, "/apis/autoscaling/v2/horizontalpodautoscalers"},
		{hpaV2, "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"},
		{events, "/apis/events.k8s.io/v1/events"},
		{eventsCore, "/api/v1/events"},
	} {
		part := s.episode(apiserver.EpisodeOptions{Case: openCase(t, shippedWithout(t, tt.without)), Clock: "captured"})
		want, got := items(t, s, whole, tt.path), items(t, s, part, tt.path)
		if len(want) == 0 {
			t.Fatalf("%s: the case holds none", tt.path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s without %s (-captured +converted):\n%s", tt.path, tt.without, diff)
		}
	}
	without := s.episode(apiserver.EpisodeOptions{Case: openCase(t, shippedWithout(t, hpaV1, hpaV2)), Clock: "captured"})
	if got := s.call(t.Context(), "GET", without.Path()+"/apis/autoscaling/v2/horizontalpodautoscalers", without.Token, nil); got.status != 501 {
		t.Errorf("with no version captured: status %d, want 501", got.status)
	}
}

// shippedWithout is shop-outage less some files.
func shippedWithout(t *testing.T, names ...string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	dir := os.DirFS("../fixtures/cases/shop-outage")
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		out[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if out[name] == nil {
			t.Fatalf("the shipped case has no %s", name)
		}
		delete(out, name)
	}
	return out
}

func items(t *testing.T, s *site, e *apiserver.Episode, path string) []any {
	t.Helper()
	got := s.call(t.Context(), "GET", e.Path()+path, e.Token, nil)
	list := struct{ Items []any }{}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 {
		t.Fatalf("%s: status %d, %v", path, got.status, err)
	}
	return list.Items
}
