//go:build race

package apiserver_test

// raceDetector tells tests that hold a bound in time.
const raceDetector = true
