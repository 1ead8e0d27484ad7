package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// servingCommand starts `kubecase serve ARGS --port 0 -o json` for the rest of a script
// and sets KUBECONFIG to its first case; `serving stop` interrupts it and checks
// that it ends well.
func servingCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("serving can't be negated")
	}
	if len(args) == 1 && args[0] == "stop" {
		stop, ok := scriptValues(ts)["serving"].(func() error)
		if !ok {
			ts.Fatalf("nothing is being served")
		}
		ts.Check(stop())
		return
	}
	self, err := exec.LookPath("kubecase")
	ts.Check(err)
	command := exec.Command(self, append([]string{"serve", "--port", "0", "-o", "json"}, args...)...)
	command.Dir = ts.MkAbs(".")
	command.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"), "HOME="+ts.Getenv("HOME"))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	ended := false
	stop := func() error {
		if ended {
			return nil
		}
		ended = true
		if err := command.Process.Signal(syscall.SIGINT); err != nil {
			return err
		}
		return command.Wait()
	}
	ts.Defer(func() {
		if err := stop(); err != nil {
			ts.Logf("serve ended: %v", err)
		}
	})
	document := servedDocument{}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&document); err != nil {
		ts.Fatalf("serve printed no JSON: %v", err)
	}
	scriptValues(ts)["serving"] = stop
	ts.Setenv("SERVER", document.Server)
	ts.Setenv("KUBECONFIG", document.Cases[0].Kubeconfig)
	ts.Setenv("URL", document.Cases[0].URL)
	for i, c := range document.Cases {
		ts.Setenv("KUBECONFIG"+strconv.Itoa(i), c.Kubeconfig)
	}
}

// scriptValues are what commands of one script share.
func scriptValues(ts *testscript.TestScript) map[any]any {
	return ts.Value(valuesKey{}).(map[any]any)
}

type valuesKey struct{}

// fileMode checks a file's permissions: filemode 600 PATH.
func fileMode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: filemode MODE PATH")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm(); got != fs.FileMode(want) {
		ts.Fatalf("%s has mode %o, want %o", args[1], got, want)
	}
}

// unchanged remembers a folder's content the first time and compares it later.
func unchanged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: unchanged FOLDER")
	}
	sum := sha256.New()
	root := ts.MkAbs(args[0])
	ts.Check(filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, name, d.Type())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			_, err = sum.Write(data)
			return err
		}
		return nil
	}))
	values := scriptValues(ts)
	now := fmt.Sprintf("%x", sum.Sum(nil))
	if before, ok := values["unchanged "+root]; ok && before != now {
		ts.Fatalf("%s has changed", args[0])
	}
	values["unchanged "+root] = now
}
