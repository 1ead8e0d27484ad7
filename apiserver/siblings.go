package apiserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubecase/kubecase/fixtures"
)

// findSiblings tells resources that were not captured which captured resource is
// the same in another version, as autoscaling/v1 and autoscaling/v2, or in
// another group, as events: a cluster stores such objects once, so capturing one
// version captured all. They are the same when Kubernetes converts both to the
// same internal type.
func (s *snapshot) findSiblings() {
	captured := map[reflect.Type][]*resource{}
	for _, r := range s.resources {
		if t := r.internalType(); t != nil && r.data != nil {
			captured[t] = append(captured[t], r)
		}
	}
	for _, r := range s.resources {
		t := r.internalType()
		if t == nil || r.data != nil {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(captured[t]), func(c *resource) bool { return c.gvr.Resource != r.gvr.Resource })
		if len(same) == 0 {
			continue
		}
		// The newest version by name loses the least.
		r.sibling = slices.MaxFunc(same, func(a, b *resource) int { return strings.Compare(a.gvr.String(), b.gvr.String()) })
	}
}

// internalType is what Kubernetes' API server holds objects of this resource in;
// nil for resources that are not built in.
func (r *resource) internalType() reflect.Type {
	if !builtIn(r.gvk) {
		return nil
	}
	internal, err := scheme.New(r.gvk.GroupKind().WithVersion(runtime.APIVersionInternal))
	if err != nil {
		return nil
	}
	return reflect.TypeOf(internal)
}

// readSibling makes the resource of its sibling's objects, converted by Kubernetes'
// own conversions, when it is first asked for.
func (r *resource) readSibling() error {
	if r.sibling == nil {
		return nil
	}
	r.converted.Do(func() {
		of := r.sibling
		data := *of.data
		data.GVR, data.Kind, data.ListKind = r.gvr, r.gvk.Kind, r.listKind
		data.Objects, data.Columns = make([]*fixtures.Object, len(of.entries)), nil
		entries := make([]*entry, len(of.entries))
		for i, e := range of.entries {
			raw, err := r.convertFrom(of, e)
			if err != nil {
				r.convertErr = newUnsupportedQuery("%s of %s was captured as %s only, and %s can't be converted: %v",
					r.gvr.Resource, r.gvr.GroupVersion(), of.gvr.GroupVersion(), e.key(), err)
				return
			}
			o := *e.Object
			o.Raw, o.Cells = raw, nil
			data.Objects[i], entries[i] = &o, &entry{Object: &o}
		}
		r.data, r.entries, r.resourceVersion = &data, entries, of.resourceVersion
	})
	return r.convertErr
}

// convertFrom converts one captured object and returns it as entries hold it.
func (r *resource) convertFrom(of *resource, e *entry) ([]byte, error) {
	typed := e.decodeTyped(of.gvk)
	if typed == nil {
		return nil, fmt.Errorf("it doesn't fit the type %s", of.gvk.Kind)
	}
	internal, err := scheme.ConvertToVersion(typed, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, err
	}
	out, err := scheme.ConvertToVersion(internal, r.gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	accessor, err := meta.TypeAccessor(out)
	if err != nil {
		return nil, err
	}
	accessor.SetAPIVersion("")
	accessor.SetKind("")
	return json.Marshal(out)
}
