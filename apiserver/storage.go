package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

var (
	_ rest.Getter         = (*resource)(nil)
	_ rest.Lister         = (*resource)(nil)
	_ rest.Watcher        = (*resource)(nil)
	_ rest.TableConvertor = (*resource)(nil)
)

// freshnessWait is how long a real server waits for a resource version that it
// has not reached; a snapshot never does.
const freshnessWait = 3 * time.Second

const (
	expiredList = "The resourceVersion for the provided list is too old."
	// inconsistentContinue is upstream's text for a continue token that has expired
	// and is answered with one that goes on from the same key (pkg/storage/etcd3/errors.go).
	inconsistentContinue = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// New implements rest.Lister's and rest.Storage's idea of an empty object.
func (r *resource) New() runtime.Object { return &object{of: r} }

// NewList implements rest.Lister.
func (r *resource) NewList() runtime.Object { return &list{of: r} }

// Destroy implements rest.Storage.
func (r *resource) Destroy() {}

// Get implements rest.Getter.
func (r *resource) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	namespace := r.namespace(ctx)
	if options != nil {
		min, err := versioner.ParseResourceVersion(options.ResourceVersion)
		if err != nil {
			return nil, err
		}
		if err := r.awaitVersion(ctx, min); err != nil {
			return nil, err
		}
	}
	if err := r.covered(namespace); err != nil && !r.added[fixtures.StoreKey(namespace, name)] {
		return nil, err
	}
	e := r.entry(namespace, name)
	if e == nil && r.ofMetricsServer() {
		return nil, episodeFrom(ctx).snapshot.noMetrics(r, namespace, name)
	}
	if e == nil {
		of := r.gvr.GroupResource()
		if of.Group == "" && of.Resource == "componentstatuses" {
			of.Resource = "componentstatus" // upstream's storage names it so
		}
		return nil, apierrors.NewNotFound(of, name)
	}
	return r.object(ctx, e), nil
}

// namespace is that of the request, empty for what is in none: the request info
// of a namespace names the namespace itself.
func (r *resource) namespace(ctx context.Context) string {
	if !r.namespaced {
		return ""
	}
	return request.NamespaceValue(ctx)
}

var versioner = storage.APIObjectVersioner{}

func (r *resource) object(ctx context.Context, e *entry) *object {
	c := episodeFrom(ctx).Clock
	o := &object{of: r, entry: e, offset: c.Offset()}
	switch {
	case r.printedAsAges(ctx):
		o.offset = c.PrintOffset(time.Now())
	case r.printsDeletionAsAge(ctx):
		o.entry = e.deletedLater(c.PrintOffset(time.Now()))
	}
	return o
}

// deletion is how an object's text begins to tell when it was deleted.
var deletion = []byte(`"deletionTimestamp":"`)

// printsDeletionAsAge reports whether the client prints for how long these objects have
// been terminating, and their other times as such: `kubectl describe` does. At the
// captured clock only the time of deletion is moved then.
func (r *resource) printsDeletionAsAge(ctx context.Context) bool {
	switch r.gvr.Resource {
	case "pods", "persistentvolumes", "persistentvolumeclaims":
	default:
		return false
	}
	command, _ := ctx.Value(kubectlCommandKey{}).(string)
	return command == "kubectl describe" && episodeFrom(ctx).Clock.Mode() == clock.Captured && !r.printedAsAges(ctx)
}

// deletedLater is the entry with its time of deletion moved; itself when there is none.
func (e *entry) deletedLater(by time.Duration) *entry {
	at := bytes.Index(e.Raw, deletion)
	if at < 0 {
		return e
	}
	at += len(deletion)
	end := at + max(0, bytes.IndexByte(e.Raw[at:], '"'))
	moved := *e.Object
	moved.Raw = slices.Concat(e.Raw[:at], clock.ShiftJSON(e.Raw[at:end], by), e.Raw[end:])
	return &entry{Object: &moved, index: e.index}
}

// printedAsAges reports whether the client prints nothing of these objects' times
// but ages, counted from its own present: `kubectl describe` and `kubectl events`
// do with events, and describe with the pods that it lists by their node. At the
// captured clock such times are moved, so that the ages are those at the capture
// instant there too.
func (r *resource) printedAsAges(ctx context.Context) bool {
	if r.gvr.Resource != "events" && r.gvr.Resource != "pods" || episodeFrom(ctx).Clock.Mode() != clock.Captured {
		return false
	}
	command, _ := ctx.Value(kubectlCommandKey{}).(string)
	if r.gvr.Resource == "pods" {
		info, ok := request.RequestInfoFrom(ctx)
		return ok && command == "kubectl describe" && strings.Contains(info.FieldSelector, "spec.nodeName=")
	}
	return command == "kubectl describe" || command == "kubectl events"
}

const (
	// lateInSecond is when too little of a second is left for a client to print ages in it.
	lateInSecond = 600 * time.Millisecond
	// earlyInSecond is waited for, past the turn of the second.
	earlyInSecond = 5 * time.Millisecond
)

// awaitPrintableSecond waits for the next second when this one is nearly over and the
// client counts ages from its own present: it would print some of them a second too old.
func (r *resource) awaitPrintableSecond(ctx context.Context) {
	now := time.Now()
	past := now.Sub(now.Truncate(time.Second))
	if past < lateInSecond || !r.printedAsAges(ctx) {
		return
	}
	select {
	case <-time.After(time.Second - past + earlyInSecond):
	case <-ctx.Done():
	}
}

// coversSelection reports whether what a selection asks for was captured of all objects,
// wherever they are.
func (r *resource) coversSelection(options *metainternalversion.ListOptions) bool {
	if options.FieldSelector == nil || r.data == nil {
		return false
	}
	swept := r.gvr
	if r.sibling != nil {
		swept = r.sibling.gvr
	}
	return slices.ContainsFunc(options.FieldSelector.Requirements(), func(q fields.Requirement) bool {
		return (q.Operator == selection.Equals || q.Operator == selection.DoubleEquals) && q.Value != "" && r.snapshot.fixture.CoversField(swept, q.Field)
	})
}

// kubectlCommandKey is the context key of the command that kubectl says it runs.
type kubectlCommandKey struct{}

func (e *entry) key() string { return fixtures.StoreKey(e.Namespace, e.Name) }

// searchKey is the index of the first entry whose key is at least key.
func (r *resource) searchKey(key string) int {
	return sort.Search(len(r.entries), func(i int) bool { return r.entries[i].key() >= key })
}

// entry is the entry of an object; nil when there is none.
func (r *resource) entry(namespace, name string) *entry {
	if r.data.Unordered {
		for _, e := range r.within(namespace) {
			if e.Name == name {
				return e
			}
		}
		return nil
	}
	key := fixtures.StoreKey(namespace, name)
	if i := r.searchKey(key); i < len(r.entries) && r.entries[i].key() == key {
		return r.entries[i]
	}
	return nil
}

// within returns the entries of a namespace, or all of them.
func (r *resource) within(namespace string) []*entry {
	if namespace == "" || !r.namespaced {
		return r.entries
	}
	if r.data.Unordered {
		var out []*entry
		for _, e := range r.entries {
			if e.Namespace == namespace {
				out = append(out, e)
			}
		}
		return out
	}
	// '0' follows '/' in ASCII.
	return r.entries[r.searchKey(namespace+"/"):r.searchKey(namespace+"0")]
}

// List implements rest.Lister.
func (r *resource) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	namespace := r.namespace(ctx)
	// A missing namespace is an empty list, as the real server answers; one that was not swept is an error.
	if err := r.covered(namespace); err != nil && !r.coversSelection(options) && !r.namesAdded(namespace, options.FieldSelector) {
		return nil, err
	}
	if r.ofMetricsServer() && options != nil { // it doesn't page
		whole := *options
		whole.Limit, whole.Continue = 0, ""
		options = &whole
	}
	r.awaitPrintableSecond(ctx)
	selected := newSelector(r, options)
	// The prefix under which the store would keep these objects; continue tokens hold keys relative to it.
	keyPrefix := ""
	if namespace != "" && r.namespaced {
		keyPrefix = namespace + "/"
	}
	prefix := "/" + r.gvr.GroupResource().String() + "/" + keyPrefix
	page, err := r.page(ctx, prefix, options, selected)
	if err != nil {
		return nil, err
	}

	entries := r.within(namespace)
	if page.from != "" {
		start := keyPrefix + strings.TrimPrefix(page.from, prefix)
		entries = entries[sort.Search(len(entries), func(i int) bool { return entries[i].key() >= start }):]
	}
	out := &list{of: r}
	out.ResourceVersion = page.version(r)
	for i, e := range entries {
		if !selected.matches(e) {
			continue
		}
		if page.limit > 0 && int64(len(out.Items)) == page.limit {
			last := out.Items[len(out.Items)-1].(*object).entry.key()
			opts := storage.ListOptions{Predicate: selected.predicate()}
			opts.Predicate.Limit = 0
			tokenPrefix := prefix
			if r.watchCached() {
				tokenPrefix = strings.TrimSuffix(prefix, "/") // the cache's keys are relative to it
			}
			out.Continue, out.RemainingItemCount, err = storage.PrepareContinueToken(
				prefix+strings.TrimPrefix(last, keyPrefix), tokenPrefix, int64(page.revision), int64(len(entries)-i), true, opts)
			if err != nil {
				return nil, apierrors.NewInternalError(err)
			}
			break
		}
		out.Items = append(out.Items, r.object(ctx, e))
	}
	if ctx.Value(textTableKey{}) != nil {
		listed := *out // upstream changes the one that it gets
		out.table = func() (*metav1.Table, error) { return r.ConvertToTable(ctx, &listed, &metav1.TableOptions{}) }
	}
	return out, nil
}

// watchCached reports whether a real server answers lists from its watch cache:
// of everything but events.
func (r *resource) watchCached() bool { return r.gvr.Resource != "events" }

// page is the part of a list that a request asks for.
type page struct {
	from     string
	limit    int64
	revision uint64
}

func (p page) version(r *resource) string {
	if p.revision == 0 && r.data.ResourceVersion == "" {
		return ""
	}
	return strconv.FormatUint(p.revision, 10)
}

// page applies the rules of resourceVersion, resourceVersionMatch, limit and
// continue. A snapshot holds one version of the list: any other exact version has expired.
func (r *resource) page(ctx context.Context, prefix string, options *metainternalversion.ListOptions, s *selector) (page, error) {
	p := page{limit: options.Limit, revision: r.resourceVersion}
	opts := storage.ListOptions{
		ResourceVersion: options.ResourceVersion, ResourceVersionMatch: options.ResourceVersionMatch, Recursive: true,
	}
	opts.Predicate = s.predicate()
	opts.Predicate.Limit, opts.Predicate.Continue = options.Limit, options.Continue
	exact, from, err := storage.ValidateListOptions(prefix, versioner, opts)
	if err != nil {
		return p, err
	}
	p.from = from
	if v, err := versioner.ParseResourceVersion(options.ResourceVersion); err == nil && v == 0 && options.ResourceVersion != "" && r.watchCached() {
		// A list from any version is served from the watch cache, which knows no pages.
		p.limit = 0
	}
	if r.resourceVersion == 0 {
		p.limit = 0 // an API without versions, such as metrics, has no pages
	}
	if options.Continue == "" {
		minimum, err := versioner.ParseResourceVersion(options.ResourceVersion)
		if err != nil {
			return p, err
		}
		if err := r.awaitVersion(ctx, minimum); err != nil {
			return p, err
		}
	}
	switch {
	case exact <= 0 || uint64(exact) == r.resourceVersion:
	case uint64(exact) > r.snapshot.maxResourceVersion:
		return p, r.awaitVersion(ctx, uint64(exact))
	case options.Continue != "":
		token, err := storage.EncodeContinue(from, prefix, -1)
		if err != nil {
			return p, apierrors.NewInternalError(err)
		}
		expired := apierrors.NewResourceExpired(inconsistentContinue)
		expired.ErrStatus.ListMeta.Continue = token
		return p, expired
	case uint64(exact) > r.resourceVersion:
		// Between this list and the end of the sweep: nothing of it was seen to change.
		p.revision = uint64(exact)
	default:
		return p, apierrors.NewResourceExpired(expiredList)
	}
	return p, nil
}

// awaitVersion waits, as a real server does, for a version that will not come.
func (r *resource) awaitVersion(ctx context.Context, version uint64) error {
	current := r.snapshot.maxResourceVersion
	if version <= current {
		return nil
	}
	select {
	case <-time.After(freshnessWait):
	case <-ctx.Done():
		// As upstream's filter words it (pkg/server/filters/timeout.go), which is not in the
		// chain: nothing else here waits.
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	return storage.NewTooLargeResourceVersionError(version, current, 1)
}

// selector is a request's label and field selector over one resource.
type selector struct {
	of    *resource
	label labels.Selector
	field fields.Selector
}

func newSelector(r *resource, options *metainternalversion.ListOptions) *selector {
	s := &selector{of: r, label: labels.Everything(), field: fields.Everything()}
	if options.LabelSelector != nil {
		s.label = options.LabelSelector
	}
	if options.FieldSelector != nil {
		s.field = options.FieldSelector
	}
	return s
}

func (s *selector) predicate() storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: s.label, Field: s.field}
}

func (s *selector) matches(e *entry) bool {
	if !s.label.Empty() && !s.label.Matches(labels.Set(e.Labels)) {
		return false
	}
	return s.field.Empty() || s.field.Matches(&fieldsOf{of: s.of, entry: e})
}

// Watch implements rest.Watcher.
func (r *resource) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	namespace := r.namespace(ctx)
	version, err := versioner.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := r.covered(namespace); err != nil && !r.namesAdded(namespace, options.FieldSelector) {
		return nil, err
	}
	selected := newSelector(r, options)
	w := newWatcher(ctx, r, options.AllowWatchBookmarks)
	sendInitial := options.SendInitialEvents != nil && *options.SendInitialEvents
	switch {
	case options.SendInitialEvents != nil && !*options.SendInitialEvents && version <= 0:
		// Explicitly nothing of what there is.
	case version == 0 || sendInitial:
		for _, e := range r.within(namespace) {
			if selected.matches(e) {
				w.initial = append(w.initial, watch.Event{Type: watch.Added, Object: r.object(ctx, e)})
			}
		}
		if sendInitial && options.AllowWatchBookmarks {
			end, err := r.bookmark(true)
			if err != nil {
				return nil, err
			}
			w.initial = append(w.initial, watch.Event{Type: watch.Bookmark, Object: end})
		}
	case version < r.resourceVersion:
		// What happened since was not captured.
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, r.resourceVersion))
		w.initial = []watch.Event{{Type: watch.Error, Object: &expired.ErrStatus}}
		w.final = true
	}
	go w.run()
	return w, nil
}
