package recorder

import "time"

// Tool is one of the twelve diagnostic tools, in the field's numbering.
type Tool string

// The diagnostic tools.
const (
	GetResources           Tool = "T1"
	DescribeResource       Tool = "T2"
	GetAppYAML             Tool = "T3"
	GetServiceDependencies Tool = "T4"
	GetRecentLogs          Tool = "T5"
	CheckConnectivity      Tool = "T6"
	GetClusterConfig       Tool = "T7"
	GetAlerts              Tool = "T8"
	GetErrorLogs           Tool = "T9"
	CheckNodeServiceStatus Tool = "T10"
	ListCodeFiles          Tool = "T11"
	GetSourceCode          Tool = "T12"
)

// Class says how a use, or a call as a whole, ended.
type Class string

// The classes. Only Delivered and NotFound are evidence.
const (
	// Delivered: the answer holds what was asked for (perhaps an empty list).
	Delivered Class = "delivered"
	// NotFound: the cluster said that the object doesn't exist.
	NotFound Class = "not-found"
	// Refused: the subject lacks the right to read this (401, 403 on a read).
	Refused Class = "refused"
	// Unsupported: outside what was captured; evidence neither for nor against.
	Unsupported Class = "unsupported"
	// Write: an attempted write. Every one is refused, or answered from an overlay of the episode alone.
	Write Class = "write"
	// Failed: anything else that went wrong (bad arguments, a broken connection, a server error).
	Failed Class = "failed"
)

// Trajectory is an episode's calls in the order in which they began.
type Trajectory struct {
	// Episode is the episode's opaque id.
	Episode string `json:"episode"`
	// Captured is the capture instant of the case, at which the episode began.
	Captured time.Time `json:"captured"`
	Calls    []Call    `json:"calls"`
}

// Call is one tool invocation: one kubectl command, one query of another client.
// Times are in captured time: the episode begins at the capture instant.
type Call struct {
	// Index counts from 1.
	Index int       `json:"index"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Client is the program as it named itself: "kubectl", "stern", "curl", "Python".
	Client string `json:"client"`
	// Command is what was run, as far as known: argv with the wrapper, else kubectl's
	// command path ("kubectl describe"), else verb and resource.
	Command string `json:"command"`
	// Argv and ExitCode are known through the kubectl wrapper only.
	Argv     []string `json:"argv,omitempty"`
	ExitCode *int     `json:"exitCode,omitempty"`
	Class    Class    `json:"class"`
	// Message is the first error's text, empty when there was none.
	Message string `json:"message,omitempty"`
	// Uses are what the call did in terms of the twelve tools; none for a call that
	// is no diagnostic tool's (a write, kubectl version, auth can-i).
	Uses []Use `json:"uses,omitempty"`
	// Requests are the audit ids of the call's requests, housekeeping included.
	Requests []string `json:"requests,omitempty"`
}

// Use is one tool with canonical arguments and what it delivered.
type Use struct {
	Tool Tool `json:"tool"`
	// Args are canonical: see docs/recorder.md for each tool's.
	Args  map[string]string `json:"args,omitempty"`
	Class Class             `json:"class"`
	// Response is what was delivered. Of a use that was read by LoadCalls it is empty
	// until LoadResponse has read what ResponseDigest names.
	Response Response `json:"response,omitzero"`
	// ResponseDigest names the response in Bodies, once SaveCalls has stored it
	// there. Equal responses have equal digests.
	ResponseDigest string `json:"responseDigest,omitempty"`
}

// Response is a normalised response: exactly what was delivered to the agent.
// A Table delivers cells, not the objects behind them.
type Response struct {
	// Rows are table rows: cells by upper-case column name as kubectl prints it
	// ("NAME", "STATUS", "LAST SEEN"), with "NAMESPACE" added where the row tells it
	// and "LABELS" (a map) from the row's metadata.
	Rows []map[string]any `json:"rows,omitempty"`
	// Objects are whole objects, as JSON: of get -o yaml|json, describe, a client's get or list.
	Objects []map[string]any `json:"objects,omitempty"`
	// Related are objects that a description fetched besides its own: ReplicaSets of
	// a Deployment, EndpointSlices of a Service, Pods of a Node, a Lease.
	Related []map[string]any `json:"related,omitempty"`
	// Events are whole events: those of a description, and lists of events.
	Events []map[string]any `json:"events,omitempty"`
	// Lines are log lines without their newline, without kubelet's timestamps.
	Lines []string `json:"lines,omitempty"`
	// Text is plain text: what a tool that answers in text said, or what was printed
	// when the kubectl wrapper knows it.
	Text string `json:"text,omitempty"`
	// Series are metric series: {"metric": {label: value}, "values": [[unix seconds, "value"], …]}.
	Series []map[string]any `json:"series,omitempty"`
	// Alerts are alerts as Alertmanager's API v2 shapes them.
	Alerts []map[string]any `json:"alerts,omitempty"`
	// Status is the HTTP status of the deciding request, Reason and Message those of
	// a metav1.Status that was answered instead of what was asked for.
	Status  int    `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// ExitCode of a probe or of a kubectl seen by the wrapper.
	ExitCode *int `json:"exitCode,omitempty"`
	// Truncated reports that the record's size bound cut the response.
	Truncated bool `json:"truncated,omitempty"`
}
