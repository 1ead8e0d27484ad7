package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	crdtable "k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiservicestore "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	"github.com/kubecase/kubecase/fixtures/clock"
)

var kubernetesPrinters = printerstorage.TableConvertor{
	TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers),
}

// withoutPrinter are built-in resources whose registry prints name and creation
// time, whatever printers there are.
var withoutPrinter = []schema.GroupResource{
	{Resource: "limitranges"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Resource: "roles"},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"},
}

// ConvertToTable implements rest.TableConvertor. The cells come from Kubernetes'
// printers or a definition's columns, over objects moved so that a printer that
// counts from now prints the episode's ages; cells that were captured win over
// all but those that hold an age.
func (r *resource) ConvertToTable(ctx context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	var objects []*object
	var listMeta metav1.ListMeta
	switch o := obj.(type) {
	case *object:
		objects = []*object{o}
		listMeta.ResourceVersion = o.entry.ResourceVersion
	case *list:
		for _, item := range o.Items {
			objects = append(objects, item.(*object))
		}
		listMeta = o.ListMeta
	default:
		// A Scale, or a bookmark of a watch: typed, in the episode's time.
		return r.printTyped(ctx, obj, options)
	}
	var table *metav1.Table
	var err error
	if r.ofMetricsServer() {
		table, err = printMetrics(objects)
	} else {
		table, objects, err = r.printCaptured(ctx, objects, options)
	}
	if err != nil {
		return nil, err
	}
	table.ListMeta = listMeta
	if len(table.Rows) == len(objects) {
		withText := carriesMetadata(ctx, options)
		for i := range table.Rows {
			table.Rows[i].Object = runtime.RawExtension{Object: objects[i]}
			if withText {
				if text := objects[i].partialJSON(); text != nil {
					table.Rows[i].Object = runtime.RawExtension{Object: textOnly, Raw: text}
				}
			}
		}
	}
	return table, nil
}

// textOnly stands for an object of which only a row's Raw is sent: upstream makes
// a PartialObjectMetadata of it that nobody reads.
var textOnly = &metav1.PartialObjectMetadata{}

// tableV1Key is the context key of requests for a Table of meta.k8s.io/v1.
type tableV1Key struct{}

// carriesMetadata reports whether upstream makes the rows' objects
// PartialObjectMetadata of meta.k8s.io/v1, whose text is then at hand.
func carriesMetadata(ctx context.Context, options runtime.Object) bool {
	o, ok := options.(*metav1.TableOptions)
	return ok && (o.IncludeObject == "" || o.IncludeObject == metav1.IncludeMetadata) && ctx.Value(tableV1Key{}) != nil
}

// textTableKey is the context key of lists that are answered as the text of a Table
// of meta.k8s.io/v1, rather than as a Table that upstream encodes.
type textTableKey struct{}

// asTextTable returns the request for a list as it is to be handled when it can be
// answered as the text of a Table: as one for the list itself. Upstream would copy
// each object's text twice to compact what is compact.
func asTextTable(req *http.Request, accepted negotiation.MediaTypeOptions) *http.Request {
	include := req.URL.Query()["includeObject"]
	if accepted.Accepted.MediaType != runtime.ContentTypeJSON || accepted.Pretty || len(include) > 1 ||
		len(include) == 1 && include[0] != "" && include[0] != string(metav1.IncludeMetadata) {
		return req
	}
	out := req.Clone(context.WithValue(req.Context(), textTableKey{}, true))
	out.Header.Set("Accept", runtime.ContentTypeJSON)
	return out
}

// tableJSON is what encoding/json makes of a Table whose rows carry text.
func tableJSON(table *metav1.Table) ([]byte, error) {
	table.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
	rows := table.Rows
	size := 4096
	asIs := len(rows) == 0
	for i := range rows {
		asIs = asIs || rows[i].Object.Raw == nil || rows[i].Cells == nil
		size += len(rows[i].Object.Raw) + 256
	}
	if asIs {
		return json.Marshal(table)
	}
	const empty = `[]}`
	table.Rows = []metav1.TableRow{}
	head, err := json.Marshal(table)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, size), head[:len(head)-len(empty)+1]...)
	for i, r := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"cells":[`...)
		for j, cell := range r.Cells {
			if j > 0 {
				out = append(out, ',')
			}
			if out, err = appendCell(out, cell); err != nil {
				return nil, err
			}
		}
		out = append(out, ']')
		if len(r.Conditions) > 0 {
			conditions, err := json.Marshal(r.Conditions)
			if err != nil {
				return nil, err
			}
			out = append(append(out, `,"conditions":`...), conditions...)
		}
		out = append(append(append(out, `,"object":`...), r.Object.Raw...), '}')
	}
	return append(out, empty[1:]...), nil
}

// appendCell appends a cell as encoding/json writes it.
func appendCell(b []byte, cell any) ([]byte, error) {
	switch c := cell.(type) {
	case string:
		if !strings.ContainsFunc(c, func(r rune) bool {
			return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
		}) {
			return append(append(append(b, '"'), c...), '"'), nil
		}
	case int64:
		return strconv.AppendInt(b, c, 10), nil
	}
	text, err := json.Marshal(cell)
	return append(b, text...), err
}

// printTyped prints an object that is in the episode's time.
func (r *resource) printTyped(ctx context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	p := newPrinting(ctx)
	moved := obj.DeepCopyObject()
	clock.ShiftObject(moved, -p.clock.Offset())
	p.clock.ShiftForPrint(moved, p.now, true)
	table, err := r.print(ctx, moved, options)
	if err != nil {
		return nil, err
	}
	for i := range table.Rows {
		moveCells(table.Rows[i].Cells, p.back())
		table.Rows[i].Object = runtime.RawExtension{Object: obj}
	}
	return table, nil
}

// printing is one run of a printer: ages are counted from now.
type printing struct {
	clock clock.Clock
	now   time.Time
	// earlier makes everything that much older, to tell what depends on time.
	earlier time.Duration
}

func newPrinting(ctx context.Context) printing {
	return printing{clock: episodeFrom(ctx).Clock, now: time.Now()}
}

// back is what moves a printed timestamp into the episode's time: cells that print
// a moment as such don't belong to the time that ages are counted in.
func (p printing) back() time.Duration {
	return p.clock.Offset() - p.clock.PrintOffset(p.now) + p.earlier
}

// printCaptured prints objects with ages of the episode's clock at this moment, and
// returns the objects in the order of the rows.
func (r *resource) printCaptured(ctx context.Context, objects []*object, options runtime.Object) (*metav1.Table, []*object, error) {
	if len(objects) > 0 {
		if err := r.learnRows(ctx, objects); err != nil {
			return nil, nil, err
		}
		if table := r.fromRows(ctx, objects, options); table != nil {
			return table, objects, nil
		}
	}
	p := newPrinting(ctx)
	table, err := r.printAt(ctx, objects, p, options)
	if err != nil {
		return nil, nil, err
	}
	objects = inRowOrder(table, objects)
	if r.data == nil || r.data.Columns == nil {
		return table, objects, nil
	}
	return r.withCapturedCells(table, objects, p.clock.Offset()), objects, nil
}

// inRowOrder is objects in the order of a table's rows: some printers sort, such as
// that of FlowSchemas.
func inRowOrder(table *metav1.Table, objects []*object) []*object {
	if len(table.Rows) != len(objects) {
		return objects
	}
	byKey := make(map[[2]string]*object, len(objects))
	for _, o := range objects {
		byKey[[2]string{o.entry.Namespace, o.entry.Name}] = o
	}
	out := make([]*object, len(objects))
	for i := range table.Rows {
		m, err := meta.Accessor(table.Rows[i].Object.Object)
		if err != nil {
			return objects
		}
		if out[i] = byKey[[2]string{m.GetNamespace(), m.GetName()}]; out[i] == nil {
			return objects
		}
	}
	return out
}

func moveCells(cells []any, d time.Duration) {
	for i, cell := range cells {
		if text, ok := cell.(string); ok {
			cells[i] = clock.ShiftString(text, d)
		}
	}
}

// withCapturedCells replaces what was printed by what the real server printed,
// except in cells that depend on the time: those are ages.
func (r *resource) withCapturedCells(table *metav1.Table, objects []*object, offset time.Duration) *metav1.Table {
	out := &metav1.Table{TypeMeta: table.TypeMeta, ListMeta: table.ListMeta, Rows: make([]metav1.TableRow, 0, len(objects))}
	if len(table.ColumnDefinitions) > 0 { // else the request asked for none
		out.ColumnDefinitions = r.data.Columns
	}
	columns := r.answeredColumns(0)
	for i, o := range objects {
		cells := make([]any, len(r.data.Columns))
		for j := range cells {
			at := columns[j]
			printed := at >= 0 && i < len(table.Rows) && at < len(table.Rows[i].Cells)
			switch {
			case printed && (len(o.entry.Cells) != len(cells) || j < len(o.entry.live) && o.entry.live[j]):
				cells[j] = table.Rows[i].Cells[at]
			case len(o.entry.Cells) == len(cells):
				cells[j] = o.entry.Cells[j]
				if text, ok := cells[j].(string); ok {
					cells[j] = clock.ShiftString(text, offset)
				}
			}
		}
		row := metav1.TableRow{Cells: cells, Conditions: o.entry.Conditions}
		if row.Conditions == nil && i < len(table.Rows) {
			row.Conditions = table.Rows[i].Conditions
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// printAt prints objects in their order; printed moments are in the episode's time.
func (r *resource) printAt(ctx context.Context, objects []*object, p printing, options runtime.Object) (*metav1.Table, error) {
	table, err := r.printTypedList(ctx, objects, p, options)
	for table == nil && err == nil {
		table, err = r.printUnstructured(ctx, objects, p, options)
		if ended := time.Now(); p.clock.PrintOffset(ended) != p.clock.PrintOffset(p.now) {
			// A second ticked meanwhile, so that some ages may be one too many.
			table, p.now = nil, ended
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range table.Rows {
		moveCells(table.Rows[i].Cells, p.back())
	}
	return table, nil
}

// printTypedList prints with the printers of built-in kinds; nil when an object
// doesn't fit the kind's type, which is then printed as far as every object can be.
func (r *resource) printTypedList(ctx context.Context, objects []*object, p printing, options runtime.Object) (*metav1.Table, error) {
	if !builtIn(r.gvk) {
		return nil, nil
	}
	items := make([]runtime.Object, 0, len(objects))
	for _, o := range objects {
		typed := o.typedMoved(func(c runtime.Object) {
			p.clock.ShiftForPrint(c, p.now, o.entry.textTimes)
			clock.ShiftObject(c, -p.earlier)
		})
		if typed == nil {
			return nil, nil
		}
		items = append(items, typed)
	}
	typed, err := (&list{of: r}).withItems(items)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	table, err := r.print(ctx, typed, options)
	if err != nil {
		return nil, err
	}
	r.adjustToVersion(table, typed)
	return table, nil
}

// print prints a typed object or list with the printer that the real server uses
// for it.
func (r *resource) print(ctx context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	if _, ok := obj.(runtime.Unstructured); ok {
		return r.definedColumns().ConvertToTable(ctx, obj, options)
	}
	internal, err := scheme.UnsafeConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	switch r.gvk.Group {
	case apiregistration.GroupName:
		return (&apiservicestore.REST{}).ConvertToTable(ctx, internal, options)
	case apiextensions.GroupName:
		if r.snapshot.minor >= crdTableSince {
			return crdtable.New().ConvertToTable(ctx, internal, options)
		}
	default:
		if slices.Contains(withoutPrinter, r.gvr.GroupResource()) {
			break
		}
		if columns, differs := columnsOf(r.snapshot.minor)[r.gvk.GroupKind().String()]; differs && columns == nil {
			break // that version had no printer for it
		}
		if table, err := kubernetesPrinters.ConvertToTable(ctx, internal, options); err == nil {
			return table, nil
		}
	}
	return rest.NewDefaultTableConvertor(r.gvr.GroupResource()).ConvertToTable(ctx, obj, options)
}

func (r *resource) printUnstructured(ctx context.Context, objects []*object, p printing, options runtime.Object) (*metav1.Table, error) {
	offset := p.clock.PrintOffset(p.now)
	items := make([]runtime.Object, 0, len(objects))
	for _, o := range objects {
		u, err := o.toUnstructured(offset - p.earlier)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		items = append(items, u)
	}
	l := &unstructured.UnstructuredList{Object: map[string]any{}}
	l.SetGroupVersionKind(r.listGVK())
	if err := meta.SetList(l, items); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return r.definedColumns().ConvertToTable(ctx, l, options)
}

// definedColumns prints what the resource's definition names, or name and age.
func (r *resource) definedColumns() rest.TableConvertor {
	if r.crdVersion != nil && len(r.crdVersion.AdditionalPrinterColumns) > 0 {
		if c, err := tableconvertor.New(r.crdVersion.AdditionalPrinterColumns); err == nil {
			return c
		}
	}
	// The one column of definitions that name none; its path is known to parse.
	c, _ := tableconvertor.New([]apiextensionsv1.CustomResourceColumnDefinition{{
		Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
	}})
	return c
}
