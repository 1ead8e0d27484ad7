package apiserver

import (
	"context"
	"slices"
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
	table, err := r.printCaptured(ctx, objects, options)
	if err != nil {
		return nil, err
	}
	table.ListMeta = listMeta
	if len(table.Rows) == len(objects) {
		for i := range table.Rows {
			table.Rows[i].Object = runtime.RawExtension{Object: objects[i]}
		}
	}
	return table, nil
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

// printCaptured prints objects with ages of the episode's clock at this moment.
func (r *resource) printCaptured(ctx context.Context, objects []*object, options runtime.Object) (*metav1.Table, error) {
	p := newPrinting(ctx)
	table, err := r.printAt(ctx, objects, p, options)
	if err != nil || r.data == nil || r.data.Columns == nil {
		return table, err
	}
	// A second printing at another time tells the cells that depend on it.
	p.earlier = 400 * 24 * time.Hour
	other, err := r.printAt(ctx, objects, p, options)
	if err != nil {
		return nil, err
	}
	return r.withCapturedCells(ctx, table, other, objects, p.clock.Offset()), nil
}

func moveCells(cells []any, d time.Duration) {
	for i, cell := range cells {
		if text, ok := cell.(string); ok {
			cells[i] = clock.ShiftString(text, d)
		}
	}
}

// withCapturedCells replaces what was printed by what the real server printed,
// except in cells that differ between the two printings: those are ages.
func (r *resource) withCapturedCells(ctx context.Context, table, other *metav1.Table, objects []*object, offset time.Duration) *metav1.Table {
	byName := map[string]int{}
	for i, column := range table.ColumnDefinitions {
		byName[column.Name] = i
	}
	out := &metav1.Table{TypeMeta: table.TypeMeta, ListMeta: table.ListMeta}
	if len(table.ColumnDefinitions) > 0 { // else the request asked for none
		out.ColumnDefinitions = r.data.Columns
	}
	columns := r.printedColumns(ctx, byName)
	for i, o := range objects {
		cells := make([]any, len(r.data.Columns))
		for j := range r.data.Columns {
			at := columns[j]
			var live, later any
			if at >= 0 && i < len(table.Rows) && at < len(table.Rows[i].Cells) {
				live, later = table.Rows[i].Cells[at], other.Rows[i].Cells[at]
			}
			switch {
			case len(o.entry.Cells) != len(cells):
				cells[j] = live
			case live != nil && live != later:
				cells[j] = live
			default:
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

// printedColumns maps captured columns to printed ones by name; -1 where the
// printer has none. Without headers the printer's order is learned from a
// headed table of nothing.
func (r *resource) printedColumns(ctx context.Context, byName map[string]int) []int {
	if len(byName) == 0 {
		if headed, err := r.printAt(ctx, nil, newPrinting(ctx), nil); err == nil {
			for i, column := range headed.ColumnDefinitions {
				byName[column.Name] = i
			}
		}
	}
	out := make([]int, len(r.data.Columns))
	for j, column := range r.data.Columns {
		out[j] = -1
		if at, ok := byName[column.Name]; ok {
			out[j] = at
		}
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
