package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocuments runs every command that the README and the documents show, those of
// one document in one folder, and compares what it prints: "…" stands for
// anything within a line, and alone in a line for any lines.
func TestDocuments(t *testing.T) {
	names, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := programs(t)
	agents, err := filepath.Abs("agents")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range append(names, "README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		examples := readmeExamples(string(text))
		total += len(examples)
		dir := t.TempDir()
		if err := os.Symlink(agents, filepath.Join(dir, "agents")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(samples, filepath.Join(dir, "testdata")); err != nil {
			t.Fatal(err)
		}
		for _, example := range examples {
			t.Run(name+"/"+example.command, func(t *testing.T) {
				command := exec.CommandContext(t.Context(), "sh", "-c", example.command)
				command.Dir = dir
				command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "TZ=UTC")
				out, _ := command.CombinedOutput() // refusals exit with 1 and are shown too
				if !example.matches(string(out)) {
					t.Errorf("printed:\n%s\n%s shows:\n%s", out, name, example.output)
				}
			})
		}
	}
	if total < 12 {
		t.Fatalf("only %d examples were found", total)
	}
}

// programs is a folder in which this test binary is kubecase and its kubectl:
// TestMain tells them by name.
func programs(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"kubecase", "kubectl"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

type readmeExample struct{ command, output string }

func readmeExamples(text string) (examples []readmeExample) {
	for _, block := range strings.Split(text, "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
			command, output, _ := strings.Cut(part, "\n")
			examples = append(examples, readmeExample{command, strings.TrimSuffix(output, "\n")})
		}
	}
	return examples
}

var spaces = regexp.MustCompile(` +`)

// matches compares line by line; the width of columns depends on ages.
func (e readmeExample) matches(printed string) bool {
	pattern := regexp.QuoteMeta(spaces.ReplaceAllString(e.output, " "))
	pattern = strings.ReplaceAll(pattern, "\n…", "(?s:.*)")
	pattern = strings.ReplaceAll(pattern, "…", ".*?")
	ok, err := regexp.MatchString("^"+pattern+"$", strings.TrimSpace(spaces.ReplaceAllString(printed, " ")))
	return err == nil && ok
}
