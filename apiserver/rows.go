package apiserver

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubecase/kubecase/fixtures/clock"
)

// row is how an object is printed at any time: as the printer printed it, with
// the ages that Kubernetes' own function gives. It is learned from the printer,
// and only kept when it repeats what the printer prints at several times.
type row struct {
	// cells of the answered columns; those of ages are nil.
	cells []any
	ages  []age
	// moments are the cells that print a moment as such.
	moments    []int
	conditions []metav1.TableRowCondition
}

// age is a cell that is the time since a moment, between two texts.
type age struct {
	cell          int
	since         time.Time
	before, after string
}

// seconds is the age in whole seconds.
func (a age) seconds(present time.Time) time.Duration {
	return present.Sub(a.since).Truncate(time.Second)
}

// at is the cell's text.
func (a age) at(present time.Time) string {
	return a.before + duration.HumanDuration(a.seconds(present)) + a.after
}

// learningAges are how much older objects are made to learn which cells are ages,
// and whose: far enough for every age to be printed differently at the last, and
// with every unit that ages are printed in.
var learningAges = []time.Duration{0, 37 * time.Second, 3*time.Hour + 25*time.Minute, 400 * 24 * time.Hour}

// learnedAtOnce is how many entries are printed at once to learn their rows.
const learnedAtOnce = 64

// learning is the learned state of a resource's entries, by chunks of learnedAtOnce.
type learning struct {
	once    sync.Once
	chunks  []chunk
	headers []metav1.TableColumnDefinition
}

type chunk struct {
	once sync.Once
	err  error
}

// learnRows learns, once for each, the rows of objects and which of their captured cells
// depend on the time.
func (r *resource) learnRows(ctx context.Context, objects []*object) error {
	r.learned.once.Do(func() {
		r.learned.chunks = make([]chunk, (len(r.entries)+learnedAtOnce-1)/learnedAtOnce)
		for i, e := range r.entries {
			e.index = i
		}
		if headed, err := r.printAt(ctx, nil, printing{now: time.Now()}, nil); err == nil {
			r.learned.headers = headed.ColumnDefinitions
		}
	})
	known := -1
	for _, o := range objects {
		n := o.entry.index / learnedAtOnce
		if n == known {
			continue
		}
		c := &r.learned.chunks[n]
		c.once.Do(func() {
			c.err = r.learnRowsOf(ctx, r.entries[n*learnedAtOnce:min((n+1)*learnedAtOnce, len(r.entries))])
		})
		if c.err != nil {
			return c.err
		}
		known = n
	}
	return nil
}

func (r *resource) learnRowsOf(ctx context.Context, entries []*entry) error {
	captured := clock.New(clock.Captured, r.snapshot.captured, r.snapshot.captured)
	objects := make([]*object, len(entries))
	for i, e := range entries {
		objects[i] = &object{of: r, entry: e}
	}
	tables := make([]*metav1.Table, len(learningAges))
	for k, earlier := range learningAges {
		var err error
		if tables[k], err = r.printAt(ctx, objects, printing{clock: captured, now: time.Now(), earlier: earlier}, nil); err != nil {
			return err
		}
		if len(tables[k].Rows) != len(objects) {
			return nil // an object without a row is printed, not looked up
		}
	}
	printed := inRowOrder(tables[0], objects)
	inOrder := slices.Equal(printed, objects)
	for i, o := range printed {
		columns := r.answeredColumns(len(tables[0].Rows[i].Cells))
		cells := make([][]any, len(tables))
		for k := range tables {
			cells[k] = tables[k].Rows[i].Cells
		}
		e := o.entry
		if r.data.Columns != nil && len(e.Cells) == len(columns) {
			e.live = make([]bool, len(columns))
			for j, at := range columns {
				e.live[j] = at >= 0 && at < len(cells[0]) && cells[0][at] != nil && !reflect.DeepEqual(cells[0][at], cells[len(cells)-1][at])
			}
		}
		if inOrder && !r.snapshot.captured.IsZero() {
			e.row = r.rowOf(ctx, e, columns, cells, tables[0].Rows[i].Conditions)
		}
	}
	return nil
}

// answeredColumns maps the columns that are answered to the printer's: by name
// where a Table was captured, -1 for those that the printer hasn't.
func (r *resource) answeredColumns(printed int) []int {
	if r.data.Columns == nil {
		out := make([]int, printed)
		for j := range out {
			out[j] = j
		}
		return out
	}
	out := make([]int, len(r.data.Columns))
	for j, column := range r.data.Columns {
		out[j] = slices.IndexFunc(r.learned.headers, func(h metav1.TableColumnDefinition) bool { return h.Name == column.Name })
	}
	return out
}

// rowOf is the row of an object whose cells were printed at learningAges; nil when a
// cell depends on the time in another way than an age.
func (r *resource) rowOf(ctx context.Context, e *entry, columns []int, printed [][]any, conditions []metav1.TableRowCondition) *row {
	out := &row{cells: make([]any, len(columns)), conditions: e.Conditions}
	if out.conditions == nil {
		out.conditions = conditions
	}
	var moments []time.Time
	for j, at := range columns {
		switch {
		case e.live != nil && !e.live[j]:
			out.cells[j] = e.Cells[j]
		case at < 0 || at >= len(printed[0]):
		case !slices.ContainsFunc(printed, func(cells []any) bool { return !reflect.DeepEqual(cells[at], printed[0][at]) }):
			out.cells[j] = printed[0][at]
		default:
			if moments == nil {
				moments = clock.Moments(e.Raw)
			}
			texts := make([]string, len(printed))
			for k, cells := range printed {
				texts[k], _ = cells[at].(string)
			}
			a, ok := r.oneAge(ctx, e, findAges(texts, moments, r.snapshot.captured.Truncate(time.Second)), at)
			if !ok {
				return nil
			}
			a.cell = j
			out.ages = append(out.ages, a)
			continue
		}
		if text, ok := out.cells[j].(string); ok && clock.ShiftString(text, time.Second) != text {
			out.moments = append(out.moments, j)
		}
	}
	return out
}

// findAges finds the moments whose ages make all of the texts, which were printed at
// learningAges after the present: one for each different number of seconds.
func findAges(texts []string, moments []time.Time, present time.Time) []age {
	if clock.ShiftString(texts[0], time.Second) != texts[0] {
		return nil
	}
	var out []age
	for _, since := range moments {
		if slices.ContainsFunc(out, func(a age) bool { return a.seconds(present) == (age{since: since}).seconds(present) }) {
			continue // the same at every second
		}
		printed := age{since: since}.at(present)
		for i := range texts[0] {
			rest, ok := strings.CutPrefix(texts[0][i:], printed)
			if !ok {
				continue
			}
			a := age{since: since, before: texts[0][:i], after: rest}
			fits := true
			for k, text := range texts {
				fits = fits && a.at(present.Add(learningAges[k])) == text
			}
			if fits {
				out = append(out, a)
				break
			}
		}
	}
	return out
}

// tellingAge is an age that is printed to the second.
const tellingAge = 30 * time.Second

// oneAge finds which of several ages a cell is: it prints the object when the first is
// at tellingAge, at which no other is printed alike, and goes on with those that fit.
func (r *resource) oneAge(ctx context.Context, e *entry, ages []age, cell int) (age, bool) {
	present := r.snapshot.captured.Truncate(time.Second)
	captured := clock.New(clock.Captured, r.snapshot.captured, r.snapshot.captured)
	for len(ages) > 1 {
		earlier := tellingAge - ages[0].seconds(present)
		table, err := r.printAt(ctx, []*object{{of: r, entry: e}}, printing{clock: captured, now: time.Now(), earlier: earlier}, nil)
		if err != nil || len(table.Rows) != 1 || cell >= len(table.Rows[0].Cells) {
			return age{}, false
		}
		fitting := slices.DeleteFunc(ages, func(a age) bool { return a.at(present.Add(earlier)) != table.Rows[0].Cells[cell] })
		if len(fitting) == len(ages) {
			return age{}, false
		}
		ages = fitting
	}
	if len(ages) == 0 {
		return age{}, false
	}
	return ages[0], true
}

// fromRows makes the Table of objects from their rows; nil unless each has one.
func (r *resource) fromRows(ctx context.Context, objects []*object, options runtime.Object) *metav1.Table {
	c := episodeFrom(ctx).Clock
	present, offset := c.Present(time.Now()), c.Offset()
	out := &metav1.Table{Rows: make([]metav1.TableRow, len(objects))}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = r.data.Columns
		if out.ColumnDefinitions == nil {
			out.ColumnDefinitions = r.learned.headers
		}
	}
	for i, o := range objects {
		known := o.entry.row
		if known == nil {
			return nil
		}
		cells := slices.Clone(known.cells)
		for _, a := range known.ages {
			cells[a.cell] = a.at(present)
		}
		if offset != 0 {
			for _, j := range known.moments {
				cells[j] = clock.ShiftString(cells[j].(string), offset)
			}
		}
		out.Rows[i] = metav1.TableRow{Cells: cells, Conditions: known.conditions}
	}
	return out
}
