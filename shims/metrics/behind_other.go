//go:build !linux

package metrics

// behind runs do; threads can't be put behind others here.
func behind(do func()) { do() }
