package apiserver

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fieldsOf gives the selectable fields of one object. Which labels a kind has is
// upstream's scheme's decision (ConvertFieldLabel); here is only where their
// values are, which upstream keeps in each kind's registry strategy.
type fieldsOf struct {
	of    *resource
	entry *entry
	// content is decoded when a field other than name and namespace is asked for.
	content map[string]any
}

// fieldAliases are labels whose value is not at the path that they spell.
var fieldAliases = map[schema.GroupKind]map[string][]string{
	{Kind: "Event"}: {"source": {"source.component", "reportingComponent"}},
	{Group: "events.k8s.io", Kind: "Event"}: {
		"source":             {"deprecatedSource.component", "reportingController"},
		"reportingComponent": {"reportingController"},
	},
	{Group: "batch", Kind: "Job"}: {"status.successful": {"status.succeeded"}},
}

// fieldZeros are what a label reads as when the object leaves the field out:
// upstream prints the zero value of the field's Go type.
var fieldZeros = map[string]string{
	"spec.hostNetwork":   "false",
	"spec.unschedulable": "false",
	"status.replicas":    "0",
	"status.successful":  "0",
}

// Has implements fields.Fields.
func (f *fieldsOf) Has(string) bool { return true }

// Get implements fields.Fields.
func (f *fieldsOf) Get(label string) string {
	switch label {
	case "metadata.name":
		return f.entry.Name
	case "metadata.namespace":
		return f.entry.Namespace
	}
	if f.content == nil {
		f.content = map[string]any{}
		if u, err := (&object{of: f.of, entry: f.entry}).toUnstructured(0); err == nil {
			f.content = u.Object
		}
	}
	// Events of the newer API are selected by the older one's names: upstream converts them.
	path := label
	if f.of.gvk.Group == "events.k8s.io" {
		path = strings.Replace(path, "involvedObject.", "regarding.", 1)
	}
	paths := fieldAliases[f.of.gvk.GroupKind()][label]
	if len(paths) == 0 {
		paths = []string{path}
	}
	for _, p := range paths {
		if value := lookup(f.content, p); value != "" {
			return value
		}
	}
	return fieldZeros[label]
}

func lookup(content map[string]any, path string) string {
	value, found, err := unstructured.NestedFieldNoCopy(content, strings.Split(path, ".")...)
	if !found || err != nil {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// fieldConvertor answers which field labels a resource has.
type fieldConvertor struct {
	runtime.ObjectConvertor
	of *resource
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (c fieldConvertor) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	if c.of.crdVersion != nil && !builtIn(gvk) {
		// As the custom resources' own converter (apiextensions, crConverter).
		if label == "metadata.name" || label == "metadata.namespace" && c.of.namespaced {
			return label, value, nil
		}
		for _, f := range c.of.crdVersion.SelectableFields {
			if strings.TrimPrefix(f.JSONPath, ".") == label {
				return label, value, nil
			}
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
	if !builtIn(gvk) {
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
	return c.ObjectConvertor.ConvertFieldLabel(gvk, label, value)
}

// ConvertToVersion implements runtime.ObjectConvertor: captured objects are in
// the version they are served in.
func (c fieldConvertor) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	switch in.(type) {
	case *object, *list:
		return in, nil
	}
	return c.ObjectConvertor.ConvertToVersion(in, gv)
}
