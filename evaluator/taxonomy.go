package evaluator

import (
	_ "embed"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Fault is a type of the taxonomy.
type Fault struct {
	// Name is the canonical, CamelCase name.
	Name       string
	Snake      string
	Category   string
	Difficulty string
}

// Category is one of the taxonomy's, with its faults.
type Category struct {
	Name       string
	Difficulty string
	Faults     []Fault
}

//go:embed taxonomy.yaml
var taxonomyText []byte

type taxonomyIndex struct {
	categories []Category
	faults     map[string]Fault    // by folded spelling
	byName     map[string]Category // by folded category
}

var loadTaxonomy = sync.OnceValue(func() taxonomyIndex {
	var file struct {
		Categories []struct {
			Name, Difficulty string
			Also             []string
			Faults           []struct {
				Name, Snake string
				Also        []string
			}
		}
	}
	if err := yaml.UnmarshalStrict(taxonomyText, &file); err != nil {
		panic("evaluator: taxonomy.yaml: " + err.Error()) // embedded, and read by a test
	}
	index := taxonomyIndex{faults: map[string]Fault{}, byName: map[string]Category{}}
	for _, c := range file.Categories {
		category := Category{Name: c.Name, Difficulty: c.Difficulty}
		for _, f := range c.Faults {
			fault := Fault{Name: f.Name, Snake: f.Snake, Category: c.Name, Difficulty: c.Difficulty}
			category.Faults = append(category.Faults, fault)
			for _, spelling := range append([]string{f.Name, f.Snake}, f.Also...) {
				index.faults[fold(spelling)] = fault
			}
		}
		index.categories = append(index.categories, category)
		for _, spelling := range append([]string{c.Name}, c.Also...) {
			index.byName[fold(spelling)] = category
		}
	}
	return index
})

// Taxonomy gives the categories and their faults, in the order of taxonomy.yaml.
func Taxonomy() []Category {
	return append([]Category(nil), loadTaxonomy().categories...)
}

// LookupFault finds a fault by any of its spellings: CamelCase, snake_case,
// with spaces or dashes, in any case.
func LookupFault(name string) (Fault, bool) {
	f, ok := loadTaxonomy().faults[fold(name)]
	return f, ok
}

// LookupCategory finds a category by its name, in any spelling.
func LookupCategory(name string) (Category, bool) {
	c, ok := loadTaxonomy().byName[fold(name)]
	return c, ok
}

// category and difficulty follow from the taxonomy where it knows the fault or
// the category.
func (o *Outcome) category() string {
	if f, ok := LookupFault(o.Fault); ok {
		return f.Category
	}
	if c, ok := LookupCategory(o.Category); ok {
		return c.Name
	}
	return strings.TrimSpace(o.Category)
}

func (o *Outcome) difficulty() string {
	if c, ok := LookupCategory(o.category()); ok {
		return c.Difficulty
	}
	return o.Difficulty
}
