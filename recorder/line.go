package recorder

import (
	"encoding/json"
	"slices"
	"strconv"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// appendLine writes an event as one line of JSON. It does what encoding/json does for
// the fields that the recorder sets, several times faster: each response waits for its line.
func appendLine(b []byte, e *auditv1.Event) ([]byte, error) {
	if !ownFields(e) {
		line, err := json.Marshal(e)
		return append(append(b, line...), '\n'), err
	}
	b = append(b, `{"kind":`...)
	b = appendString(b, e.Kind)
	b = appendField(b, "apiVersion", e.APIVersion)
	b = appendField(b, "level", string(e.Level))
	b = appendField(b, "auditID", string(e.AuditID))
	b = appendField(b, "stage", string(e.Stage))
	b = appendField(b, "requestURI", e.RequestURI)
	b = appendField(b, "verb", e.Verb)
	b = appendUser(b, &e.User)
	if len(e.SourceIPs) > 0 {
		b = appendStrings(append(b, `,"sourceIPs":`...), e.SourceIPs)
	}
	if e.UserAgent != "" {
		b = appendField(b, "userAgent", e.UserAgent)
	}
	if o := e.ObjectRef; o != nil {
		b = appendReference(b, o)
	}
	if s := e.ResponseStatus; s != nil {
		b = append(b, `,"responseStatus":{"metadata":{}`...)
		if s.Status != "" {
			b = appendField(b, "status", s.Status)
		}
		if s.Code != 0 {
			b = strconv.AppendInt(append(b, `,"code":`...), int64(s.Code), 10)
		}
		b = append(b, '}')
	}
	b = appendTime(append(b, `,"requestReceivedTimestamp":`...), e.RequestReceivedTimestamp)
	b = appendTime(append(b, `,"stageTimestamp":`...), e.StageTimestamp)
	var space [2 * annotationsLimit]string
	for i, key := range sortedKeys(e.Annotations, space[:0]) {
		if i == 0 {
			b = append(b, `,"annotations":{`...)
		} else {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		b = appendString(b, e.Annotations[key])
	}
	if len(e.Annotations) > 0 {
		b = append(b, '}')
	}
	return append(b, "}\n"...), nil
}

// ownFields reports an event that holds nothing but what appendLine writes. Those of other
// servers, which a repair may end, can hold more.
func ownFields(e *auditv1.Event) bool {
	s := e.ResponseStatus
	return e.ImpersonatedUser == nil && e.AuthenticationMetadata == nil && e.RequestObject == nil && e.ResponseObject == nil && e.User.Extra == nil &&
		(e.ObjectRef == nil || e.ObjectRef.UID == "" && e.ObjectRef.ResourceVersion == "") &&
		(s == nil || s.Message == "" && s.Reason == "" && s.Details == nil && s.Kind == "" && s.APIVersion == "" &&
			s.ListMeta == metav1.ListMeta{})
}

// usualKeys are the annotations that the recorder sets, sorted.
var usualKeys = slices.Sorted(slices.Values([]string{
	KeySource, KeyMethod, KeySession, KeyCommand, KeyAccept, KeyConnection, KeyContentType, KeyContentEncoding, KeyBody, KeyBodySize, KeyWireSize,
	KeyWireDigest, KeyTruncated, KeyURITruncated, KeyRequestBody, KeyRequestSize, KeyAborted, KeyStream,
}))

// sortedKeys appends the keys of m. Where all are the usual ones nothing has to be sorted.
func sortedKeys(m map[string]string, keys []string) []string {
	for _, key := range usualKeys {
		if _, ok := m[key]; ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == len(m) {
		return keys
	}
	keys = keys[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// appendReference writes what a request is for.
func appendReference(b []byte, o *auditv1.ObjectReference) []byte {
	b = append(b, `,"objectRef":{`...)
	for _, f := range [...]struct{ name, value string }{
		{"resource", o.Resource}, {"namespace", o.Namespace}, {"name", o.Name},
		{"apiGroup", o.APIGroup}, {"apiVersion", o.APIVersion}, {"subresource", o.Subresource},
	} {
		if f.value == "" {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.name...), `":`...)
		b = appendString(b, f.value)
	}
	return append(b, '}')
}

func appendUser(b []byte, u *authnv1.UserInfo) []byte {
	b = append(b, `,"user":{`...)
	if u.Username != "" {
		b = append(b, `"username":`...)
		b = append(appendString(b, u.Username), ',')
	}
	if u.UID != "" {
		b = append(b, `"uid":`...)
		b = append(appendString(b, u.UID), ',')
	}
	if len(u.Groups) > 0 {
		b = append(b, `"groups":`...)
		b = append(appendStrings(b, u.Groups), ',')
	}
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, '}')
}

func appendField(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendString(b, value)
}

// appendString quotes s; what needs an escape is left to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // strings can always be written
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// appendTime writes a time as metav1.MicroTime does: UTC, six digits, null for none.
func appendTime(b []byte, t metav1.MicroTime) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, metav1.RFC3339Micro)
	return append(b, '"')
}
