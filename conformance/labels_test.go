package conformance

import (
	"encoding/json"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/cases"
)

// restored is the shipped case of the recorded cluster as it was recorded: with
// the labels by which the laboratory named its faults. The shipped case is
// without them, since an agent that lists labels would read the answer;
// labels.json says what was cut where.
func restored(t testing.TB, name string) *fixtures.Case {
	t.Helper()
	if name != recordedCase {
		c, err := cases.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	files := fstest.MapFS{}
	dir := os.DirFS("../fixtures/cases/" + name)
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		files[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("labels.json")
	if err != nil {
		t.Fatal(err)
	}
	var cuts []struct {
		File   string
		Insert []struct {
			Offset int
			Text   string
		}
	}
	if err := json.Unmarshal(data, &cuts); err != nil {
		t.Fatal(err)
	}
	for _, cut := range cuts {
		file := files[cut.File]
		if file == nil {
			t.Fatalf("labels.json: the case has no %s", cut.File)
		}
		var whole []byte
		from := 0
		for _, c := range cut.Insert {
			if c.Offset < from || c.Offset > len(file.Data) {
				t.Fatalf("labels.json: %s has no offset %d", cut.File, c.Offset)
			}
			whole = append(append(whole, file.Data[from:c.Offset]...), c.Text...)
			from = c.Offset
		}
		file.Data = append(whole, file.Data[from:]...)
	}
	c, err := fixtures.OpenFS(name, files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
