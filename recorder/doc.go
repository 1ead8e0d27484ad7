// Package recorder turns the requests of an episode into its record, its tool
// calls and its trajectory. It imports nothing of the other packages, so that
// whatever serves a case can write to it.
package recorder
