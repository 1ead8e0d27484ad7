//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups.
func ownGroup(*exec.Cmd) {}

// endGroup ends the command; what it started goes on.
func endGroup(c *exec.Cmd, _ bool) { _ = c.Process.Kill() }

// replaceProcess is not to be had.
func replaceProcess(string, []string, []string) error {
	return errors.New("not possible on this system")
}

// signalCode is 0: there are no signals.
func signalCode(*os.ProcessState) int { return 0 }
