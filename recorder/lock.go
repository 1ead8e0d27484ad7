//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package recorder

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps a record to one Log, of this process or another. The system takes
// the lock back when the file is closed or its process ends, however it ends.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("recorder: %s: %w", file.Name(), ErrInUse)
	}
	if err != nil {
		return fmt.Errorf("recorder: locking %s: %w", file.Name(), err)
	}
	return nil
}
