package main

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

// TestMain makes this test binary also kubecase, and the kubectl that is built
// into it, for the scripts.
// unrecordedProgram is kubecase without its recorder, for BenchmarkRecordedServer.
const unrecordedProgram = "kubecase-unrecorded"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kubecase": main, "kubectl": main, unrecordedProgram: func() { unrecorded = true; main() }})
}

// TestScripts runs testdata/script: what a person types, and what comes back.
// 'make update-golden' rewrites what is expected.
func TestScripts(t *testing.T) {
	// A case with what the shipped ones lack: traces, source, commands of nodes.
	incident, err := filepath.Abs("testdata/incident")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv("INCIDENT", incident)
			env.Values[valuesKey{}] = map[any]any{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serving":   servingCommand,
			"filemode":  fileMode,
			"unchanged": unchanged,
		},
	})
}
