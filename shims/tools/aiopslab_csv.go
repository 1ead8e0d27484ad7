package tools

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// containerMetrics are those that AIOpsLab exports; the last eight have interfaces.
var containerMetrics = []string{
	"container_cpu_usage_seconds_total", "container_cpu_user_seconds_total", "container_cpu_system_seconds_total",
	"container_cpu_cfs_throttled_seconds_total", "container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total", "container_cpu_load_average_10s",
	"container_memory_cache", "container_memory_usage_bytes", "container_memory_working_set_bytes", "container_memory_rss", "container_memory_mapped_file",
	"container_spec_cpu_period", "container_spec_cpu_quota", "container_spec_memory_limit_bytes", "container_spec_cpu_shares",
	"container_threads", "container_threads_max",
	"container_network_receive_bytes_total", "container_network_receive_errors_total", "container_network_receive_packets_total", "container_network_receive_packets_dropped_total",
	"container_network_transmit_bytes_total", "container_network_transmit_errors_total", "container_network_transmit_packets_total", "container_network_transmit_packets_dropped_total",
}

var (
	metricColumns = []string{"timestamp", "cmdb_id", "kpi_name", "value"}
	traceColumns  = []string{"trace_id", "span_id", "parent_span", "service_name", "operation_name", "start_time", "duration", "has_error", "response"}
)

// series is one of an answer of Prometheus: points are [seconds, "value"].
type series struct {
	Metric map[string]string    `json:"metric"`
	Values [][2]json.RawMessage `json:"values"`
}

// metricRows are the rows of one metric, sorted by time and else in the order of the answer.
func metricRows(all []series, metric string) ([][]string, error) {
	type row struct {
		at    int64
		cells []string
	}
	var rows []row
	for _, s := range all {
		if s.Metric["__name__"] != metric {
			continue
		}
		id := cmp.Or(s.Metric["instance"], s.Metric["service"], "unknown")
		if pod := s.Metric["pod"]; pod != "" {
			id = s.Metric["instance"] + "." + pod
		}
		kpi := metric
		if s.Metric["interface"] != "" && strings.HasPrefix(metric, "container_network_") {
			kpi += "." + s.Metric["interface"]
		}
		for _, point := range s.Values {
			var at float64
			var text string
			if err := errors.Join(json.Unmarshal(point[0], &at), json.Unmarshal(point[1], &text)); err != nil {
				return nil, fmt.Errorf("a sample of %s: %w", metric, err)
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("a sample of %s: %w", metric, err)
			}
			rows = append(rows, row{int64(at), []string{strconv.FormatInt(int64(at), 10), id, kpi, rounded(v)}})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	out := make([][]string, len(rows))
	for i, r := range rows {
		out[i] = r.cells
	}
	return out, nil
}

// rounded is a number with three decimals as Python writes it: 585728.0, 0.09, 1e+16; nothing for NaN.
func rounded(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strings.ToLower(fmt.Sprint(v)), "+")
	}
	// Rounding by way of the decimal notation is correct in the last digit.
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 3, 64), 64) // what was formatted parses
	format := byte('f')
	if math.Abs(v) >= 1e16 {
		format = 'e'
	}
	text := strconv.FormatFloat(v, format, -1, 64)
	if format == 'f' && !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// trace is one of Jaeger's.
type trace struct {
	ID    string `json:"traceID"`
	Spans []struct {
		ID         string `json:"spanID"`
		Operation  string `json:"operationName"`
		References []struct {
			Type string `json:"refType"`
			Span string `json:"spanID"`
		} `json:"references"`
		Start    int64 `json:"startTime"` // microseconds since 1970
		Duration int64 `json:"duration"`  // microseconds
		Tags     []struct {
			Key   string `json:"key"`
			Value any    `json:"value"`
		} `json:"tags"`
		Process string `json:"processID"`
	} `json:"spans"`
	Processes map[string]struct {
		Service string `json:"serviceName"`
	} `json:"processes"`
}

// rows are a trace's spans, in their order.
func (t trace) rows() [][]string {
	var out [][]string
	for _, s := range t.Spans {
		parent, failed, response := "ROOT", "False", "Unknown"
		for _, r := range s.References {
			if r.Type == "CHILD_OF" {
				parent = r.Span
				break
			}
		}
		for _, tag := range s.Tags {
			switch {
			case tag.Key == "error" && (tag.Value == true || tag.Value == "true"):
				failed = "True"
			case tag.Key == "http.status_code", tag.Key == "response_class":
				response = fmt.Sprint(tag.Value)
			}
		}
		out = append(out, []string{t.ID, s.ID, parent, cmp.Or(t.Processes[s.Process].Service, "unknown"), s.Operation,
			strconv.FormatInt(s.Start, 10), strconv.FormatInt(s.Duration, 10), failed, response})
	}
	return out
}

func writeCSV(root *os.Root, file string, columns []string, rows [][]string) error {
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	return errors.Join(w.Write(columns), w.WriteAll(rows), f.Close())
}

// reader reads files of one kind: "Metrics" or "Traces".
func reader(kind string) func(context.Context, *AIOpsLab, map[string]any) (string, error) {
	return func(_ context.Context, l *AIOpsLab, a map[string]any) (string, error) {
		name, _ := a["file_path"].(string)
		missing := fmt.Sprintf("error: %s file '%s' not found.", kind, name)
		inside := name
		if filepath.IsAbs(name) {
			var err error
			if inside, err = filepath.Rel(l.o.Dir, name); err != nil {
				return missing, nil
			}
		}
		root, err := os.OpenRoot(l.o.Dir)
		if err != nil {
			return "", err
		}
		defer root.Close()
		info, err := root.Stat(inside)
		if err != nil {
			return missing, nil // there is none, or it is outside the folder
		}
		failed := "Failed to read " + strings.ToLower(kind) + ": "
		switch {
		case info.IsDir():
			entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(filepath.Clean(inside)))
			names := make([]string, len(entries))
			for i, e := range entries {
				names[i] = e.Name()
			}
			return failed + "it is a folder with: " + strings.Join(names, ", "), err
		case !info.Mode().IsRegular():
			return failed + "it is no regular file", nil
		case info.Size() > maxTable:
			return failed + fmt.Sprintf("it has more than %d bytes", maxTable), nil
		}
		f, err := root.Open(inside)
		if err != nil {
			return failed + "it can't be opened", nil
		}
		defer f.Close()
		records, err := csv.NewReader(io.LimitReader(f, maxTable)).ReadAll()
		if err != nil {
			return failed + err.Error(), nil
		}
		if len(records) == 0 {
			return failed + "No columns to parse from file", nil
		}
		return alignedTable(records), nil
	}
}

// alignedTable is a table, its names first, as pandas' to_string(index=False) prints what read_csv made of
// it: cells to the right, one blank between columns, and one before the name of a column of numbers.
func alignedTable(records [][]string) string {
	names, rows := records[0], records[1:]
	if len(rows) == 0 {
		return "Empty DataFrame\nColumns: [" + strings.Join(names, ", ") + "]\nIndex: []"
	}
	columns := make([][]string, len(names))
	widths := make([]int, len(names))
	for i, name := range names {
		cells := make([]string, len(rows))
		for j, row := range rows {
			cells[j] = row[i]
		}
		cells, numeric := printedColumn(cells)
		if numeric {
			name = " " + name
		}
		columns[i] = append([]string{name}, cells...)
		for _, cell := range columns[i] {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for j := range len(records) {
		if j > 0 {
			out.WriteByte('\n')
		}
		for i, column := range columns {
			if i > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(column[j])))
			out.WriteString(column[j])
		}
	}
	return out.String()
}

var (
	// An id of digits that begins with a zero stays one.
	wholeCell   = regexp.MustCompile(`^-?(0|[1-9]\d{0,17})$`)
	decimalCell = regexp.MustCompile(`^-?(\d+\.\d*([eE][-+]?\d+)?|\d+[eE][-+]\d+|inf)$`)
)

// printedColumn is a column's cells as they are printed, and whether it is one of numbers or of true and
// false. Empty cells are not a number.
func printedColumn(cells []string) (printed []string, numeric bool) {
	all := func(is func(string) bool) bool {
		return !slices.ContainsFunc(cells, func(s string) bool { return !is(s) })
	}
	switch {
	case all(wholeCell.MatchString), all(func(s string) bool { return s == "True" || s == "False" }):
		return cells, true
	case all(func(s string) bool { return s == "" || wholeCell.MatchString(s) || decimalCell.MatchString(s) }):
		return printedNumbers(cells), true
	}
	printed = make([]string, len(cells))
	for i, s := range cells {
		if printed[i] = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s); s == "" {
			printed[i] = "NaN"
		}
	}
	return printed, false
}

// printedNumbers are numbers with six decimals, of which those that are zero in all of them are left out but
// for one; with exponents where that would be long or show nothing of small ones.
func printedNumbers(cells []string) []string {
	const digits = 6
	values := make([]float64, len(cells))
	small, large := false, false
	for i, s := range cells {
		v, err := strconv.ParseFloat(s, 64)
		if s == "" || err != nil {
			v = math.NaN()
		}
		values[i] = v
		small = small || v != 0 && math.Abs(v) < 1e-6
		large = large || math.Abs(v) > 1e6
	}
	format := func(notation byte) []string {
		out := make([]string, len(values))
		for i, v := range values {
			switch {
			case math.IsNaN(v):
				out[i] = "NaN"
			case math.IsInf(v, 0):
				out[i] = strings.TrimPrefix(strings.ToLower(fmt.Sprint(v)), "+")
			default:
				out[i] = strconv.FormatFloat(v, notation, digits, 64)
			}
		}
		return out
	}
	fixed := format('f')
	zeros := digits
	for _, s := range fixed {
		if _, decimals, found := strings.Cut(s, "."); found {
			zeros = min(zeros, len(decimals)-len(strings.TrimRight(decimals, "0")))
		}
	}
	longest := 0
	for i, s := range fixed {
		if strings.Contains(s, ".") {
			s = s[:len(s)-min(zeros, digits-1)]
			fixed[i] = s
		}
		longest = max(longest, len(s))
	}
	if small || large && longest > digits+6 {
		return format('e')
	}
	return fixed
}

// shorten takes the middle out of a text that is too long, at the ends of lines where it can.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	head, tail := text[:maxText/2], text[len(text)-maxText/2:]
	if end := strings.LastIndexByte(head, '\n'); end > maxText/4 {
		head = head[:end+1]
	}
	if begin := strings.IndexByte(tail, '\n'); begin >= 0 && begin < maxText/4 {
		tail = tail[begin+1:]
	}
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[… %d bytes are left out here: ask for less, or filter with exec_shell …]\n\n", len(text)-len(head)-len(tail)) + strings.ToValidUTF8(tail, "")
}
