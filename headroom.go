package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// headroom is what the heap may grow between two collections, at most maxGCPercent of what is
	// alive: a small heap would be collected many times a second while queries of metrics
	// allocate, and every request would wait for it.
	headroom     = 512 << 20
	maxGCPercent = 400
	usualPercent = 100
)

var keepHeadroom = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return // somebody has decided
	}
	last := usualPercent
	var collected func()
	collected = func() {
		if p := gcPercent(); p != last {
			debug.SetGCPercent(p)
			last = p
		}
		// An object that nobody holds goes with the next collection.
		runtime.AddCleanup(&[16]byte{}, func(int) { collected() }, 0)
	}
	collected()
})

// gcPercent is GOGC for what is alive now.
func gcPercent() int {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return min(maxGCPercent, max(usualPercent, int(headroom*100/max(1, live[0].Value.Uint64()))))
}
