package recorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// answer is a request with what it delivered.
type answer struct {
	*Request
	class Class

	rows     []map[string]any
	columns  []string // of the last Table: a watch sends them once
	objects  []map[string]any
	table    bool
	metadata bool // objects are PartialObjectMetadata
	whole    bool // objects, or a list of them, perhaps empty, were delivered

	text            string
	reason, message string
	named           bool // the Status names an object
	status          bool // the body was a Status
	truncated       bool
}

// protobufMagic starts each protobuf body of the Kubernetes API.
var protobufMagic = []byte("k8s\x00")

// decode reads a body for what it is; what can't be read stays text.
func (a *answer) decode(body []byte) {
	a.truncated = a.Annotations[KeyTruncated] != ""
	if len(body) == 0 {
		return
	}
	kind, parameters, _ := mime.ParseMediaType(a.Annotations[KeyContentType])
	watch := a.Verb == "watch" || a.query.Get("watch") == "true" || a.query.Get("watch") == "1"
	switch {
	case a.subresource() == "log" && a.Status() < 400:
		a.text = string(body)
	case strings.Contains(kind, "protobuf") && (watch || parameters["stream"] == "watch"):
		a.protobufStream(body)
	case bytes.HasPrefix(body, protobufMagic):
		a.protobuf(body)
	case strings.HasSuffix(kind, "yaml"):
		if plain, err := yaml.YAMLToJSON(body); err == nil {
			a.json(plain, false)
		} else {
			a.text = string(body)
		}
	case strings.HasSuffix(kind, "json") || body[0] == '{':
		a.json(body, watch)
	default:
		a.text = string(body)
	}
}

func (a *answer) subresource() string {
	if a.ObjectRef == nil {
		return ""
	}
	return a.ObjectRef.Subresource
}

func (a *answer) json(body []byte, watch bool) {
	in := json.NewDecoder(bytes.NewReader(body))
	for first := true; ; first = false {
		var v any
		if err := in.Decode(&v); err != nil {
			if first {
				a.text = string(body)
			}
			return
		}
		m, ok := v.(map[string]any)
		if !ok {
			a.text = string(body)
			return
		}
		if watch {
			if object, ok := m["object"].(map[string]any); ok {
				a.event(text(m["type"]), object)
				continue
			}
		}
		if !a.object(m) {
			a.text = string(body)
			return
		}
	}
}

// event takes what a watch delivers. A bookmark delivers no state; a deletion
// delivers the object's last one, which isn't the cluster's any more.
func (a *answer) event(kind string, object map[string]any) {
	if kind == "ADDED" || kind == "MODIFIED" || kind == "ERROR" {
		a.object(object)
	}
}

// object takes one decoded document; false when it is none of Kubernetes'.
func (a *answer) object(m map[string]any) bool {
	kind, version := text(m["kind"]), text(m["apiVersion"])
	if kind == "" || version == "" {
		return false
	}
	items, isList := m["items"].([]any)
	switch {
	case kind == "Status" && version == "v1":
		a.status = true
		if text(m["status"]) == metav1.StatusFailure {
			a.reason, a.message = text(m["reason"]), text(m["message"])
			details, _ := m["details"].(map[string]any)
			a.named = text(details["name"]) != ""
		}
	case kind == "Table" && strings.HasPrefix(version, "meta.k8s.io/"):
		a.tableRows(m)
	case strings.HasSuffix(kind, "List") && (isList || m["items"] == nil):
		a.metadata, a.whole = a.metadata || kind == "PartialObjectMetadataList", true
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				// The items of a list don't say what they are; kubectl adds it as well.
				if o["kind"] == nil {
					o["kind"] = strings.TrimSuffix(kind, "List")
				}
				if o["apiVersion"] == nil {
					o["apiVersion"] = version
				}
				a.objects = append(a.objects, o)
			}
		}
	default:
		a.metadata, a.whole = a.metadata || kind == "PartialObjectMetadata", true
		a.objects = append(a.objects, m)
	}
	return true
}

func (a *answer) tableRows(m map[string]any) {
	a.table = true
	if definitions, _ := m["columnDefinitions"].([]any); len(definitions) > 0 {
		a.columns = nil
		for _, d := range definitions {
			definition, _ := d.(map[string]any)
			// kubectl prints names in upper case: cli-runtime/pkg/printers/tableprinter.go.
			a.columns = append(a.columns, strings.ToUpper(text(definition["name"])))
		}
	}
	rows, _ := m["rows"].([]any)
	for _, r := range rows {
		row, _ := r.(map[string]any)
		cells, _ := row["cells"].([]any)
		out := make(map[string]any, len(cells)+2)
		for i, cell := range cells {
			if i < len(a.columns) {
				out[a.columns[i]] = cell
			}
		}
		if object, _ := row["object"].(map[string]any); object != nil {
			meta, _ := object["metadata"].(map[string]any)
			if ns := text(meta["namespace"]); ns != "" {
				out["NAMESPACE"] = ns
			}
			if labels, ok := meta["labels"].(map[string]any); ok {
				out["LABELS"] = labels
			}
		}
		a.rows = append(a.rows, out)
	}
}

// protobuf takes a body of the form magic, runtime.Unknown.
func (a *answer) protobuf(body []byte) {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(body[len(protobufMagic):]); err != nil {
		a.text = fmt.Sprintf("(%d bytes of protobuf that can't be read: %v)", len(body), err)
		return
	}
	var v any
	switch unknown.Kind {
	case "PartialObjectMetadata":
		o := &metav1.PartialObjectMetadata{}
		if o.Unmarshal(unknown.Raw) == nil {
			v = o
		}
	case "PartialObjectMetadataList":
		o := &metav1.PartialObjectMetadataList{}
		if o.Unmarshal(unknown.Raw) == nil {
			v = o
		}
	case "Status":
		o := &metav1.Status{}
		if o.Unmarshal(unknown.Raw) == nil {
			v = o
		}
	default:
		if o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
			v = o
		}
	}
	var m map[string]any
	if plain, err := json.Marshal(v); v != nil && err == nil && json.Unmarshal(plain, &m) == nil && m != nil {
		m["kind"], m["apiVersion"] = unknown.Kind, unknown.APIVersion
		a.object(m)
		return
	}
	a.text = fmt.Sprintf("(%d bytes of protobuf of kind %s %s that can't be read)", len(body), unknown.APIVersion, unknown.Kind)
}

// protobufStream takes length-delimited metav1.WatchEvents.
func (a *answer) protobufStream(body []byte) {
	frames := protobuf.LengthDelimitedFramer.NewFrameReader(io.NopCloser(bytes.NewReader(body)))
	defer func() { _ = frames.Close() }()
	buffer := make([]byte, len(body))
	for {
		n, err := frames.Read(buffer)
		if err != nil {
			return
		}
		var unknown runtime.Unknown
		frame := buffer[:n]
		var event metav1.WatchEvent
		// The frame is the event alone, or in its envelope.
		if rest, ok := bytes.CutPrefix(frame, protobufMagic); ok {
			if unknown.Unmarshal(rest) != nil || event.Unmarshal(unknown.Raw) != nil {
				continue
			}
		} else if event.Unmarshal(frame) != nil {
			continue
		}
		if event.Type == "ADDED" || event.Type == "MODIFIED" || event.Type == "ERROR" {
			if bytes.HasPrefix(event.Object.Raw, protobufMagic) {
				a.protobuf(event.Object.Raw)
			}
		}
	}
}

// classify decides what the answer is as evidence.
func (a *answer) classify() {
	code := a.Status()
	aborted := a.Annotations[KeyAborted] != "" && a.Annotations[KeyStream] == "" && a.subresource() != "log"
	switch {
	case a.isWrite():
		a.class = Write
	case code == 501 || a.reason == "UnsupportedQuery" || a.Annotations[KeyNotCaptured] != "":
		a.class = Unsupported
	case code == 401 || code == 403:
		a.class = Refused
	case code == 404 && a.named && a.reason == string(metav1.StatusReasonNotFound):
		a.class = NotFound
	case code >= 400 && (a.subresource() == "proxy" && (code != 404 || !a.status) || a.Source() == Forwarded):
		// What a proxy can't reach, or what the application answers, is the finding.
		a.class = Delivered
	case a.subresource() == "portforward" && a.Annotations[KeyAnswers] == "0":
		// kubectl forwards a port whether anybody listens or not.
		a.class, a.message = Failed, "nothing came through the forwarded port"
	case code == 0 || code >= 400 || aborted:
		a.class = Failed
	default:
		a.class = Delivered
	}
	if a.class != Delivered {
		a.rows, a.objects = nil, nil
		if a.message == "" && code >= 400 {
			a.message = bounded(strings.TrimSpace(a.text), headerLimit)
		}
		if a.message == "" {
			a.message = bounded(strings.TrimSpace(a.Annotations[KeyOutput]), headerLimit)
		}
		if a.message == "" {
			a.message = failure(a.Request)
		}
	}
}

// failure says in words how a request without a Status ended.
func failure(r *Request) string {
	if why := r.Annotations[KeyAborted]; why != "" {
		return "the response was not delivered: " + why
	}
	return fmt.Sprintf("HTTP status %d", r.Status())
}

// response is the normalised response of an answer on its own.
func (a *answer) response() Response {
	return Response{
		Rows: a.rows, Objects: a.objects, Text: a.text,
		Status: a.Status(), Reason: a.reason, Message: a.message, Truncated: a.truncated,
	}
}

// output says in what form objects are, or, of an answer without any, were asked to be.
func (a *answer) output() string {
	switch {
	case a.table:
		return "table"
	case a.metadata:
		return "metadata"
	case a.whole:
		return "object"
	case strings.Contains(a.Annotations[KeyAccept], "as=Table"):
		return "table"
	case strings.Contains(a.Annotations[KeyAccept], "as=PartialObjectMetadata"):
		return "metadata"
	}
	return "object"
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// field walks down maps: field(pod, "metadata", "name").
func field(v any, path ...string) any {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}
