package apiserver

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// binaryMinor is the minor version of Kubernetes 1.x that the binary is built from.
const binaryMinor = 37

// Minor versions in which upstream's printers changed
// (pkg/printers/internalversion/printers.go, compared from 1.34 to 1.37).
const (
	podErrorReasonSince      = 35 // a container's failure wins over another's Completed
	serviceAccountSecretsEnd = 35 // the SECRETS column is gone
	kernelArchitectureSince  = 36 // KERNEL-VERSION names the architecture
	oneDefaultClassSince     = 37 // of several default StorageClasses one is marked
	crdTableSince            = 37 // definitions print scope and versions
)

// olderColumns are the columns of older versions where they differ; their
// descriptions change with nearly every version.
//
//go:generate make -C .. update-columns
//go:embed builtin/columns-*.json
var olderColumns embed.FS

// oldestColumns is the oldest minor version whose columns are known; older
// clusters get its.
const oldestColumns = 34

var columnsByVersion = sync.OnceValue(func() map[int]map[string][]metav1.TableColumnDefinition {
	out := map[int]map[string][]metav1.TableColumnDefinition{}
	for minor := oldestColumns; minor < binaryMinor; minor++ {
		data, err := olderColumns.ReadFile(fmt.Sprintf("builtin/columns-%d.json", minor))
		if err != nil {
			continue
		}
		columns := map[string][]metav1.TableColumnDefinition{}
		if err := json.Unmarshal(data, &columns); err != nil {
			panic(err) // a test decodes the embedded files
		}
		out[minor] = columns
	}
	return out
})

// columnsOf is what a minor version prints in other columns than the binary, by
// group and kind; nil columns are a kind that it had no printer for.
func columnsOf(minor int) map[string][]metav1.TableColumnDefinition {
	return columnsByVersion()[max(minor, oldestColumns)]
}

// adjustToVersion gives a table the few cells in which the captured version of
// Kubernetes differs from the one that printed it. Cells are as printed for obj.
func (r *resource) adjustToVersion(table *metav1.Table, obj runtime.Object) {
	minor := r.snapshot.minor
	switch items := obj.(type) {
	case *corev1.ServiceAccountList:
		if minor < serviceAccountSecretsEnd {
			insertSecretsColumn(table, items.Items)
		}
	case *corev1.NodeList:
		if minor < kernelArchitectureSince {
			for i := range items.Items {
				arch := fmt.Sprintf(" (%s)", items.Items[i].Status.NodeInfo.Architecture)
				replaceCell(table, i, func(cell string) string { return strings.TrimSuffix(cell, arch) })
			}
		}
	case *corev1.PodList:
		if minor < podErrorReasonSince {
			for i := range items.Items {
				undoErrorReason(table, i, &items.Items[i])
			}
		}
	case *storagev1.StorageClassList:
		if minor < oneDefaultClassSince {
			for i := range items.Items {
				markDefaultClass(table, i, &items.Items[i])
			}
		}
	}
	older := columnsOf(minor)[r.gvk.GroupKind().String()]
	if len(older) > 0 && len(older) == len(table.ColumnDefinitions) {
		table.ColumnDefinitions = older
	}
}

func replaceCell(table *metav1.Table, row int, change func(string) string) {
	for j, cell := range table.Rows[row].Cells {
		if text, ok := cell.(string); ok {
			table.Rows[row].Cells[j] = change(text)
		}
	}
}

func insertSecretsColumn(table *metav1.Table, items []corev1.ServiceAccount) {
	if len(table.ColumnDefinitions) > 0 {
		table.ColumnDefinitions = slices.Insert(slices.Clone(table.ColumnDefinitions), 1, metav1.TableColumnDefinition{
			Name: "Secrets", Type: "string", Description: corev1.ServiceAccount{}.SwaggerDoc()["secrets"],
		})
	}
	for i := range table.Rows {
		table.Rows[i].Cells = slices.Insert(table.Rows[i].Cells, 1, any(int64(len(items[i].Secrets))))
	}
}

// podStatusCell is the place of STATUS in a pod's row.
const podStatusCell = 2

// undoErrorReason restores the STATUS of a pod whose containers have all ended,
// one of them with an error: older printers took the first container's reason.
func undoErrorReason(table *metav1.Table, row int, pod *corev1.Pod) {
	cells := table.Rows[row].Cells
	if len(cells) <= podStatusCell || len(pod.Status.ContainerStatuses) == 0 {
		return
	}
	first := pod.Status.ContainerStatuses[0].State.Terminated
	if first == nil || first.Reason != "Completed" || pod.DeletionTimestamp != nil {
		return
	}
	failed, running := "", false
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			failed = t.Reason
		}
		running = running || status.Ready && status.State.Running != nil
	}
	if failed != "" && cells[podStatusCell] == failed {
		cells[podStatusCell] = "Completed"
		if running {
			cells[podStatusCell] = "NotReady"
		}
	}
}

// markDefaultClass marks every StorageClass that is annotated as the default.
func markDefaultClass(table *metav1.Table, row int, class *storagev1.StorageClass) {
	cells := table.Rows[row].Cells
	isDefault := class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
	if isDefault && len(cells) > 0 && cells[0] == class.Name {
		cells[0] = class.Name + " (default)"
	}
}
