package evaluator

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files that tests compare with")

// TestSchema keeps truth.schema.json and the types together.
func TestSchema(t *testing.T) {
	want, err := makeSchema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("truth.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(Schema())); diff != "" {
		t.Errorf("truth.schema.json is not that of the types; run go test ./evaluator -run TestSchema -update (-want +got):\n%s", diff)
	}
	var schema struct {
		Properties map[string]struct{ Description string }
		Defs       map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Properties) != 7 || len(schema.Defs["Clause"].Properties) != 4 {
		t.Errorf("the schema has %d fields, and a clause %d; want 7 and 4", len(schema.Properties), len(schema.Defs["Clause"].Properties))
	}
	for name, def := range schema.Defs {
		for field, property := range def.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}
