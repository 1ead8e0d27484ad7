// Package report shows what scores say: a self-contained page of finished runs, and
// a live view of one that is going on. Both are the operator's, for they tell the truth
// of the cases. What agents wrote is shown as text and never trusted.
package report
