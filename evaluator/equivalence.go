package evaluator

import (
	_ "embed"
	"slices"
	"sync"

	"github.com/kubecase/kubecase/recorder"
	"sigs.k8s.io/yaml"
)

// rule is a line of the equivalence table; equivalence.yaml explains the fields.
type rule struct {
	Clause   recorder.Tool      `json:"clause"`
	Use      recorder.Tool      `json:"use"`
	When     map[string]Matcher `json:"when"`
	For      map[string]Matcher `json:"for"`
	Args     map[string]string  `json:"args"`
	Delivers []string           `json:"delivers"`
	Narrow   string             `json:"narrow"`
	Partial  bool               `json:"partial"`
	Why      string             `json:"why"`
}

//go:embed equivalence.yaml
var equivalenceText []byte

// equivalence is the table by the tool of the clause, then in its own order.
var equivalence = sync.OnceValue(func() map[recorder.Tool][]rule {
	var file struct {
		Rules []rule `json:"rules"`
	}
	if err := yaml.UnmarshalStrict(equivalenceText, &file); err != nil {
		panic("evaluator: equivalence.yaml: " + err.Error()) // embedded, and read by a test
	}
	table := map[recorder.Tool][]rule{}
	for _, r := range file.Rules {
		table[r.Clause] = append(table[r.Clause], r)
	}
	return table
})

// EquivalentTools lists the tools whose uses can satisfy a clause on a tool.
func EquivalentTools(tool recorder.Tool) []recorder.Tool {
	var out []recorder.Tool
	for _, r := range equivalence()[tool] {
		if !slices.Contains(out, r.Use) {
			out = append(out, r.Use)
		}
	}
	return out
}
