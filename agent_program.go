package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubecase/kubecase/fixtures/cases"
)

// agentProgram is a copy of this program for agents: their kubectl wrapper, and
// their 'kubecase submit'. The truths of the shipped cases are blanked in it, so
// that no file that an agent is given holds them.
type agentProgram struct {
	dir string
	// path is the copy's.
	path string
}

// newAgentProgram makes the copy in a folder of its own.
func (a *app) newAgentProgram() (p *agentProgram, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	for _, name := range cases.Names() {
		c, err := cases.Open(name)
		if err != nil {
			return nil, err
		}
		truth, err := readTruth(c)
		if err = errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
		blank(data, truth)
	}
	dir, err := os.MkdirTemp(a.tempDir, "program-")
	if err != nil {
		return nil, err
	}
	p = &agentProgram{dir: dir, path: filepath.Join(dir, "program")}
	if err := os.WriteFile(p.path, data, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("the agents' program can't be written: %w", err), p.remove())
	}
	return p, nil
}

// blank overwrites every occurrence of secret, as a text without lines.
func blank(data, secret []byte) {
	if len(secret) == 0 {
		return
	}
	for at := bytes.Index(data, secret); at >= 0; at = bytes.Index(data, secret) {
		for i := range secret {
			data[at+i] = ' '
		}
	}
}

func (p *agentProgram) remove() error { return os.RemoveAll(p.dir) }

// programFolder makes a folder in home with programs of these names.
func programFolder(home, program string, names ...string) (string, error) {
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return "", err
	}
	for _, name := range names {
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			return "", err
		}
	}
	return bin, nil
}
