// Package conformance proves that kubecase answers what the real cluster
// answered. It holds no code to import: its tests replay recordings of a real
// Kubernetes v1.34.4 control plane against kubecase serving the snapshot of
// that same cluster, over HTTPS and as a black box, and compare:
//
//   - exchanges: single HTTP requests with the answer the API server gave;
//   - transcripts: kubectl commands with what kubectl 1.34 and 1.32 printed.
//
// Everything is compared as strictly as it can be. What can't be equal, because
// it depends on the moment of the recording, is declared in masks_test.go and
// ages_test.go, each with its reason; nothing is skipped. Exchanges and
// transcripts that are known to differ are listed with a cause in
// known-misses.tsv, and the tests fail on any other miss and on any entry of
// that list that passes again. docs/conformance.md tells how to run and read it.
package conformance
