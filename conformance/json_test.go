package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// parseJSON parses one or more JSON values, keeping numbers as written.
func parseJSON(text string) ([]any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var values []any
	for {
		var value any
		if err := decoder.Decode(&value); err == io.EOF {
			return values, nil
		} else if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
}

// jsonStyle tells how JSON was written, which clients that don't parse it see:
// compact or indented, and with or without a newline at the end.
func jsonStyle(text string) string {
	style := "compact"
	if inner := strings.TrimRight(text, "\n"); strings.Contains(inner, "\n") {
		style = "indented"
		if _, rest, _ := strings.Cut(inner, "\n"); rest != "" {
			style = fmt.Sprintf("indented by %d", len(rest)-len(strings.TrimLeft(rest, " ")))
		}
	}
	return fmt.Sprintf("%s, %d newlines at the end", style, len(text)-len(strings.TrimRight(text, "\n")))
}

// tables takes the ages out of the cells of the Tables in values, which it
// changes. Events of a watch share the columns of the first one: the server
// sends them only once.
func tables(values []any) []age {
	var ages []age
	var columns []any
	for _, value := range values {
		object, _ := value.(map[string]any)
		if inner, ok := object["object"].(map[string]any); ok && object["type"] != nil {
			object = inner
		}
		if object["kind"] != "Table" {
			continue
		}
		if own, ok := object["columnDefinitions"].([]any); ok {
			columns = own
		}
		rows, _ := object["rows"].([]any)
		for r, row := range rows {
			row, _ := row.(map[string]any)
			cells, _ := row["cells"].([]any)
			for c, cell := range cells {
				text, ok := cell.(string)
				if !ok {
					continue
				}
				// Kubernetes prints an IPAddress with an age for which it defines no column.
				name := "Age"
				var column map[string]any
				if c < len(columns) {
					column, _ = columns[c].(map[string]any)
					name, _ = column["name"].(string)
				}
				if column["type"] == "date" {
					name = "Age" // the date columns of custom resources are printed as ages
				}
				masked, taken := takeAges(name, text)
				for i := range taken {
					taken[i].where = fmt.Sprintf("row %d, %s", r, name)
				}
				cells[c], ages = masked, append(ages, taken...)
			}
		}
	}
	return ages
}

// sortLists sorts the items of lists and the rows of Tables by their text, where the real server has no order.
func sortLists(values []any) {
	for _, value := range values {
		object, _ := value.(map[string]any)
		for _, key := range []string{"items", "rows"} {
			if list, ok := object[key].([]any); ok {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(render(a), render(b)) })
			}
		}
	}
}

// diffJSON returns the first difference between two parsed values as
// "path: ours instead of recorded", or "". The order of keys doesn't count.
func diffJSON(path string, recorded, ours any) string {
	switch r := recorded.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(r)) {
			value, ok := o[key]
			if !ok {
				return fmt.Sprintf("%s.%s: missing", path, key)
			}
			if diff := diffJSON(path+"."+key, r[key], value); diff != "" {
				return diff
			}
		}
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if _, ok := r[key]; !ok {
				return fmt.Sprintf("%s.%s: not in the recording", path, key)
			}
		}
		return ""
	case []any:
		o, ok := ours.([]any)
		if !ok || (r == nil) != (o == nil) {
			break
		}
		for i := range min(len(r), len(o)) {
			if diff := diffJSON(fmt.Sprintf("%s[%d]", path, i), r[i], o[i]); diff != "" {
				return diff
			}
		}
		if len(r) != len(o) {
			return fmt.Sprintf("%s: %d items instead of %d", path, len(o), len(r))
		}
		return ""
	default:
		if recorded == ours {
			return ""
		}
	}
	return fmt.Sprintf("%s: %s instead of %s", path, short(ours), short(recorded))
}

func short(value any) string {
	text := render(value)
	if len(text) > 160 {
		text = text[:160] + "…"
	}
	return text
}

func render(value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(buffer.String())
}

// renderIndented writes parsed values with sorted keys, for a diff to read.
func renderIndented(values []any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			return err.Error()
		}
	}
	return buffer.String()
}
