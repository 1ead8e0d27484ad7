//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup starts a command in a process group of its own.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks a command's group to end, or makes it.
func endGroup(c *exec.Cmd, force bool) {
	signal := syscall.SIGTERM
	if force {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-c.Process.Pid, signal) // it may be gone
}

// replaceProcess becomes another program.
func replaceProcess(program string, argv, env []string) error {
	return syscall.Exec(program, argv, env)
}

// signalCode is 128 and the signal that ended a process; 0 if none did.
func signalCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return 0
}
