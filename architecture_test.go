package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/kubecase/kubecase"

// mayImport is which of the module's folders each folder may import. A folder
// may always import what is below it; package main imports everything.
var mayImport = map[string][]string{
	"agents":      nil, // programs of their own that know nothing of kubecase
	"apiserver":   {"fixtures"},
	"conformance": {"apiserver", "evaluator", "fixtures", "kubeconfigs", "recorder", "shims"}, // tests only
	"evaluator":   {"recorder"},
	"fixtures":    nil,
	"kubeconfigs": nil,
	"recorder":    nil,
	"shims":       {"fixtures"},
}

// TestImportDirections holds the layout together: each folder imports only what
// it may, and no shim another.
func TestImportDirections(t *testing.T) {
	checked := 0
	for dir, files := range parseAll(t, parser.ImportsOnly) {
		if dir == "." {
			continue
		}
		top, _, _ := strings.Cut(dir, "/")
		allowed, known := mayImport[top]
		if !known {
			t.Errorf("%s: the folder is not in the layout; add it to mayImport with its reason", dir)
		}
		for name, file := range files {
			if strings.HasSuffix(name, "_test.go") && top != "conformance" {
				continue // a test may put a whole server together
			}
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				rest, ours := strings.CutPrefix(imported, modulePath+"/")
				if !ours {
					if imported == modulePath {
						t.Errorf("%s imports package main", name)
					}
					continue
				}
				checked++
				target, _, _ := strings.Cut(rest, "/")
				switch {
				case top == "shims" && target == "shims" && shim(rest) != shim(dir):
					t.Errorf("%s imports another shim: %s", name, rest)
				case target != top && !slices.Contains(allowed, target):
					t.Errorf("%s imports %s; %s may import only %v", name, rest, top, allowed)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no import of this module was seen: the check checks nothing")
	}
}

func shim(dir string) string {
	parts := strings.Split(dir, "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// TestPackageComments demands one comment on every package.
func TestPackageComments(t *testing.T) {
	for dir, files := range parseAll(t, parser.ParseComments|parser.PackageClauseOnly) {
		var commented []string
		tested := true
		for name, file := range files {
			tested = tested && strings.HasSuffix(name, "_test.go")
			if file.Doc != nil {
				commented = append(commented, name)
			}
		}
		if len(commented) != 1 && !(tested && len(commented) == 0) {
			t.Errorf("%s: one file must have a package comment, %d have: %v", dir, len(commented), commented)
		}
	}
}

// TestNoMiscellany keeps out the folder names that mean nothing.
func TestNoMiscellany(t *testing.T) {
	for dir := range parseAll(t, parser.PackageClauseOnly) {
		for _, name := range strings.Split(dir, "/") {
			if slices.Contains([]string{"pkg", "util", "utils", "common", "helpers", "misc"}, name) {
				t.Errorf("%s: name the folder for what it is", dir)
			}
		}
	}
}

// parseAll parses the module's Go files by folder. Folders with a go.mod of
// their own are other modules.
func parseAll(t *testing.T, mode parser.Mode) map[string]map[string]*ast.File {
	t.Helper()
	out := map[string]map[string]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "cases" && path.Dir(name) != "fixtures") {
				return fs.SkipDir
			}
			if nested, _ := filepath.Glob(filepath.Join(name, "go.mod")); len(nested) > 0 && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, mode)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if out[dir] == nil {
			out[dir] = map[string]*ast.File{}
		}
		out[dir][name] = file
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("only %d packages were found", len(out))
	}
	return out
}
