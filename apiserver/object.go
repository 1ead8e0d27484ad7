package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

// entry is a captured object with what has been decoded of it so far, in
// captured time. What it hands out must not be changed.
type entry struct {
	*fixtures.Object
	once struct{ typed, meta sync.Once }
	// typed is nil where the binary has no type for the kind, or where the
	// captured object does not fit it.
	typed runtime.Object
	// textTimes reports whether strings of typed hold timestamps.
	textTimes bool
	// index is the entry's place among its resource's. live is which captured cells
	// depend on the time, row how the object is printed at any; see resource.learnRows.
	index int
	live  []bool
	row   *row
	meta  atomic.Pointer[metav1.ObjectMeta]
	// partial is meta as the JSON of a PartialObjectMetadata.
	partial atomic.Pointer[[]byte]
	// moved is meta at the offset that was asked for last.
	moved atomic.Pointer[movedMeta]
}

// movedMeta is an object's metadata in the time of an episode. Immutable.
type movedMeta struct {
	offset time.Duration
	meta   *metav1.ObjectMeta
}

func (e *entry) decodeTyped(gvk schema.GroupVersionKind) runtime.Object {
	e.once.typed.Do(func() {
		obj, err := scheme.New(gvk)
		if err != nil {
			return
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(e.Raw, obj); err == nil {
			e.typed = obj
			e.textTimes = clock.HoldsTextTimes(obj.DeepCopyObject())
		}
	})
	return e.typed
}

func (e *entry) decodeMeta(gvk schema.GroupVersionKind) *metav1.ObjectMeta {
	e.once.meta.Do(func() {
		// The real server takes metadata from its internal version, which lacks
		// annotations that only carry fields between versions.
		if typed := e.decodeTyped(gvk); typed != nil {
			if internal, err := scheme.ConvertToVersion(typed, runtime.InternalGroupVersioner); err == nil {
				if m, ok := internal.(metav1.ObjectMetaAccessor); ok {
					if om, ok := m.GetObjectMeta().(*metav1.ObjectMeta); ok {
						e.meta.Store(om)
						return
					}
				}
			}
		}
		partial := struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(e.Raw, &partial); err != nil {
			// Metadata that doesn't fit is served as far as the loader understood it.
			partial.Metadata = metav1.ObjectMeta{Name: e.Name, Namespace: e.Namespace, ResourceVersion: e.ResourceVersion, Labels: e.Labels}
		}
		e.meta.Store(&partial.Metadata)
	})
	return e.meta.Load()
}

// partialJSON is the object's metadata as the JSON of a PartialObjectMetadata of
// meta.k8s.io/v1.
func (e *entry) partialJSON(gvk schema.GroupVersionKind) []byte {
	if kept := e.partial.Load(); kept != nil {
		return *kept
	}
	partial := meta.AsPartialObjectMetadata(e.decodeMeta(gvk))
	partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	text, err := json.Marshal(partial)
	if err != nil {
		text = nil // upstream's encoder meets the same error, and says so
	}
	e.partial.Store(&text)
	return text
}

// object is one captured object as an episode sees it. In JSON and YAML it is
// the captured text, so that no field is lost; everything else is made from it
// on demand. It implements runtime.Object so that upstream's handlers carry it.
type object struct {
	of     *resource
	entry  *entry
	offset time.Duration
}

var (
	_ runtime.Object            = (*object)(nil)
	_ metav1.ObjectMetaAccessor = (*object)(nil)
	_ json.Marshaler            = (*object)(nil)
)

// GetObjectKind implements runtime.Object. Setting it has no effect: an object's
// kind is its resource's.
func (o *object) GetObjectKind() schema.ObjectKind { return typeMeta(o.of.gvk) }

// DeepCopyObject implements runtime.Object; an object never changes.
func (o *object) DeepCopyObject() runtime.Object { return o }

// GetObjectMeta implements metav1.ObjectMetaAccessor. What it returns is shared:
// upstream's handlers only read it.
func (o *object) GetObjectMeta() metav1.Object {
	if moved := o.entry.moved.Load(); moved != nil && moved.offset == o.offset {
		return moved.meta
	}
	m := o.entry.decodeMeta(o.of.gvk).DeepCopy()
	clock.ShiftObject(m, o.offset)
	o.entry.moved.Store(&movedMeta{o.offset, m})
	return m
}

// partialJSON is the object's metadata as text in the episode's time; nil if it
// has none.
func (o *object) partialJSON() []byte {
	return clock.ShiftJSON(o.entry.partialJSON(o.of.gvk), o.offset)
}

// MarshalJSON returns the object with its apiVersion and kind.
func (o *object) MarshalJSON() ([]byte, error) {
	b := &bytes.Buffer{}
	o.writeJSON(b, true)
	return b.Bytes(), nil
}

func (o *object) writeJSON(b *bytes.Buffer, withType bool) {
	raw := clock.ShiftJSON(o.entry.Raw, o.offset)
	if !withType {
		b.Write(raw)
		return
	}
	apiVersion, kind := o.of.gvk.ToAPIVersionAndKind()
	// Go marshals a struct's kind first, a map's apiVersion.
	if o.of.custom {
		fmt.Fprintf(b, `{"apiVersion":%q,"kind":%q`, apiVersion, kind)
	} else {
		fmt.Fprintf(b, `{"kind":%q,"apiVersion":%q`, kind, apiVersion)
	}
	if len(raw) > len(`{}`) {
		b.WriteByte(',')
	}
	b.Write(raw[1:])
}

// toTyped returns a private copy as the binary's own type in the episode's time,
// or unstructured where there is none.
func (o *object) toTyped() (runtime.Object, error) {
	if typed := o.typedMoved(func(c runtime.Object) { clock.ShiftObject(c, o.offset) }); typed != nil {
		return typed, nil
	}
	return o.toUnstructured(o.offset)
}

// typedMoved returns a private, moved copy as the binary's own type; nil where
// there is none.
func (o *object) typedMoved(move func(runtime.Object)) runtime.Object {
	typed := o.entry.decodeTyped(o.of.gvk)
	if typed == nil {
		return nil
	}
	c := typed.DeepCopyObject()
	move(c)
	c.GetObjectKind().SetGroupVersionKind(o.of.gvk)
	return c
}

func (o *object) toUnstructured(offset time.Duration) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := utiljson.Unmarshal(clock.ShiftJSON(o.entry.Raw, offset), &u.Object); err != nil {
		return nil, fmt.Errorf("captured %s %s/%s: %w", o.of.gvr.GroupResource(), o.entry.Namespace, o.entry.Name, err)
	}
	u.SetGroupVersionKind(o.of.gvk)
	return u, nil
}

// list is a list of captured objects. Its Items field is what upstream's
// reflection looks for.
type list struct {
	metav1.ListMeta
	of    *resource
	Items []runtime.Object
	// table, if set, is what is answered as text instead of the list: the list as a
	// Table whose rows are to carry their objects' metadata.
	table func() (*metav1.Table, error)
}

var (
	_ runtime.Object       = (*list)(nil)
	_ metav1.ListInterface = (*list)(nil)
)

// GetObjectKind implements runtime.Object.
func (l *list) GetObjectKind() schema.ObjectKind { return typeMeta(l.of.listGVK()) }

// DeepCopyObject implements runtime.Object with a copy of the list over the same, immutable, items.
func (l *list) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = append([]runtime.Object(nil), l.Items...)
	return &c
}

// MarshalJSON returns the list, or the Table that is answered instead, as the real server prints it.
func (l *list) MarshalJSON() ([]byte, error) {
	if l.table != nil {
		table, err := l.table()
		if err != nil {
			return nil, err
		}
		return tableJSON(table)
	}
	size := 512
	for _, item := range l.Items {
		size += len(item.(*object).entry.Raw) + 128
	}
	b := bytes.NewBuffer(make([]byte, 0, size))
	apiVersion, kind := l.of.listGVK().ToAPIVersionAndKind()
	metadata, err := l.metadataJSON()
	if err != nil {
		return nil, err
	}
	if l.of.custom {
		fmt.Fprintf(b, `{"apiVersion":%q,"items":`, apiVersion)
		l.writeItems(b)
		fmt.Fprintf(b, `,"kind":%q,"metadata":%s}`, kind, metadata)
		return b.Bytes(), nil
	}
	fmt.Fprintf(b, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":`, kind, apiVersion, metadata)
	l.writeItems(b)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// metadataJSON marshals the list's metadata: a map's for custom resources, which
// always names continue, a struct's otherwise.
func (l *list) metadataJSON() ([]byte, error) {
	if !l.of.custom {
		return json.Marshal(l.ListMeta)
	}
	m := map[string]any{"continue": l.Continue, "resourceVersion": l.ResourceVersion}
	if l.RemainingItemCount != nil {
		m["remainingItemCount"] = *l.RemainingItemCount
	}
	return json.Marshal(m)
}

func (l *list) writeItems(b *bytes.Buffer) {
	b.WriteByte('[')
	for i, item := range l.Items {
		if i > 0 {
			b.WriteByte(',')
		}
		item.(*object).writeJSON(b, l.of.custom)
	}
	b.WriteByte(']')
}

// toTyped returns the list as the binary's own type, or unstructured.
func (l *list) toTyped() (runtime.Object, error) {
	items := make([]runtime.Object, 0, len(l.Items))
	for _, item := range l.Items {
		typed, err := item.(*object).toTyped()
		if err != nil {
			return nil, err
		}
		items = append(items, typed)
	}
	return l.withItems(items)
}

// withItems is the list, as the binary's own type, of other items.
func (l *list) withItems(items []runtime.Object) (runtime.Object, error) {
	out, err := scheme.New(l.of.listGVK())
	if err != nil {
		u := &unstructured.UnstructuredList{Object: map[string]any{}}
		u.SetGroupVersionKind(l.of.listGVK())
		out = u
	}
	if err := meta.SetList(out, items); err != nil {
		return nil, err
	}
	out.(metav1.ListInterface).SetResourceVersion(l.ResourceVersion)
	out.(metav1.ListInterface).SetContinue(l.Continue)
	out.(metav1.ListInterface).SetRemainingItemCount(l.RemainingItemCount)
	return out, nil
}

func typeMeta(gvk schema.GroupVersionKind) schema.ObjectKind {
	t := &metav1.TypeMeta{}
	t.SetGroupVersionKind(gvk)
	return t
}

// noObject makes a stream a runtime.Object, which is how upstream's handlers
// receive it.
type noObject struct{}

// GetObjectKind implements runtime.Object.
func (noObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object; a stream can't be copied.
func (noObject) DeepCopyObject() runtime.Object { panic("a stream can't be copied") }
