package main

import (
	"runtime"
	"testing"
)

// TestHeadroom: a small heap is collected seldom, a large one as usual.
func TestHeadroom(t *testing.T) {
	runtime.GC()
	if p := gcPercent(); p != maxGCPercent {
		t.Skipf("other tests hold too much to see a small heap: %d %%", p)
	}
	large := make([]byte, 2*headroom)
	runtime.GC()
	if p := gcPercent(); p != usualPercent {
		t.Errorf("with %d MiB alive it is %d %%, want %d", len(large)>>20, p, usualPercent)
	}
	runtime.KeepAlive(large)
}
