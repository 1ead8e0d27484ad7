// Package evaluator scores a recorded trajectory and a diagnosis against a
// case's evidence graph. It reads recordings, never a running server, and of
// this module imports only the recorder's types.
package evaluator
