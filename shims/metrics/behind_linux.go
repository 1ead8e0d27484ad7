package metrics

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// behind runs do on a thread of its own that has a processor only while nothing else wants it: the
// system preempts it at once for whoever answers a request. The thread ends with do, since it couldn't
// be made a usual one again.
func behind(do func()) {
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		runtime.LockOSThread()
		// Where it isn't allowed, do runs like all else.
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		do()
	}()
	if p := <-done; p != nil {
		panic(p)
	}
}
