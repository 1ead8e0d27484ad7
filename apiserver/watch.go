package apiserver

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/kubecase/kubecase/fixtures"
)

// bookmarkPeriod and bookmarkLead are the real server's: a bookmark about every
// minute, and one shortly before a watch times out.
const (
	bookmarkPeriod = time.Minute
	bookmarkLead   = 2 * time.Second
)

// watcher sends what there is, then stays open and quiet but for bookmarks:
// nothing happens in a snapshot.
type watcher struct {
	ctx     context.Context
	cancel  context.CancelFunc
	of      *resource
	initial []watch.Event
	// final ends the watch after the initial events.
	final     bool
	bookmarks bool
	result    chan watch.Event
}

func newWatcher(ctx context.Context, r *resource, bookmarks bool) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	return &watcher{ctx: ctx, cancel: cancel, of: r, bookmarks: bookmarks, result: make(chan watch.Event)}
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

func (w *watcher) run() {
	defer close(w.result)
	for _, event := range w.initial {
		if !w.send(event) {
			return
		}
	}
	w.initial = nil
	if w.final {
		return
	}
	if !w.bookmarks {
		<-w.ctx.Done()
		return
	}
	for {
		timer := time.NewTimer(w.untilBookmark(time.Now()))
		select {
		case <-w.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		object, err := w.of.bookmark(false)
		if err != nil || !w.send(watch.Event{Type: watch.Bookmark, Object: object}) {
			return
		}
	}
}

func (w *watcher) untilBookmark(now time.Time) time.Duration {
	if deadline, ok := w.ctx.Deadline(); ok {
		if before := deadline.Add(-bookmarkLead).Sub(now); before > 0 && before < bookmarkPeriod {
			return before
		}
	}
	return bookmarkPeriod
}

func (w *watcher) send(event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// bookmark is an object that has only a resource version and, at the end of
// initial events, the annotation that says so.
func (r *resource) bookmark(initialEventsEnd bool) (runtime.Object, error) {
	version := strconv.FormatUint(r.resourceVersion, 10)
	if obj, err := scheme.New(r.gvk); err == nil {
		obj.GetObjectKind().SetGroupVersionKind(r.gvk)
		if accessor, ok := obj.(metav1.ObjectMetaAccessor); ok {
			accessor.GetObjectMeta().SetResourceVersion(version)
		}
		if initialEventsEnd {
			err = storage.AnnotateInitialEventsEndBookmark(obj)
		}
		return obj, err
	}
	meta := map[string]any{"resourceVersion": version}
	if initialEventsEnd {
		meta["annotations"] = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	raw, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, err
	}
	return &object{of: r, entry: &entry{Object: &fixtures.Object{Raw: raw, ResourceVersion: version}}}, nil
}
