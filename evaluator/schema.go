package evaluator

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"strings"
)

// SchemaID is where editors look for the schema of a truth file.
const SchemaID = "https://kubecase.io/schemas/truth.v1.json"

//go:embed truth.schema.json
var schemaText []byte

// Schema is the JSON schema (draft 2020-12) of a truth file.
func Schema() []byte { return append([]byte(nil), schemaText...) }

// makeSchema derives the schema from the types; a test keeps truth.schema.json equal to it.
func makeSchema() ([]byte, error) {
	defs := map[string]any{}
	schemaOf(reflect.TypeFor[Truth](), defs)
	schema := defs["Truth"].(map[string]any)
	delete(defs, "Truth")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["$id"] = SchemaID
	schema["title"] = "kubecase truth file"
	schema["oneOf"] = []any{
		map[string]any{"required": []string{"outcome"}},
		map[string]any{"required": []string{"noFault"}, "properties": map[string]any{"noFault": map[string]any{"const": true}}},
	}
	schema["$defs"] = defs
	out, err := json.MarshalIndent(schema, "", "  ")
	return append(out, '\n'), err
}

func schemaOf(t reflect.Type, defs map[string]any) map[string]any {
	text := map[string]any{"type": "string"}
	switch t {
	case reflect.TypeFor[Matcher]():
		return map[string]any{"oneOf": []any{text, map[string]any{"type": "array", "items": text, "minItems": 1}}}
	case reflect.TypeFor[Ref]():
		return text
	case reflect.TypeFor[Entry]():
		return map[string]any{"oneOf": []any{text, schemaOf(reflect.TypeFor[Clause](), defs)}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), defs)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), defs)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), defs)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Struct:
		if _, done := defs[t.Name()]; !done {
			def := map[string]any{"type": "object", "additionalProperties": false}
			defs[t.Name()] = def // before the fields, which may lead back here
			properties := map[string]any{}
			var required []string
			for i := range t.NumField() {
				f := t.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" || name == "-" {
					continue
				}
				property := schemaOf(f.Type, defs)
				if enum := f.Tag.Get("enum"); enum != "" {
					values := strings.Split(enum, ",")
					if f.Type.Kind() == reflect.Slice {
						property["items"] = map[string]any{"enum": values}
					} else {
						property = map[string]any{"enum": values}
					}
				}
				property["description"] = f.Tag.Get("doc")
				properties[name] = property
				if f.Tag.Get("required") == "true" {
					required = append(required, name)
				}
			}
			def["properties"] = properties
			if required != nil {
				def["required"] = required
			}
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	}
	return text
}
