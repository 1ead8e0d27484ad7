//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package recorder

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapShared is the start of a file as memory: what is written there is in the file at once, for
// all processes, and stays when this one ends.
func mapShared(file *os.File, size int) (memory []byte, unmap func() error, err error) {
	memory, err = unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return memory, func() error { return unix.Munmap(memory) }, err
}
