//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package main

import "os"

// lockFile does nothing where files have no advisory locks.
func lockFile(*os.File, bool) (busy bool, err error) { return false, nil }
