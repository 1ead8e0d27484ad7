package recorder

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// FuzzLine: a line reads as what encoding/json would have written.
func FuzzLine(f *testing.F) {
	f.Add("get", "/api/v1/pods?limit=500&watch=true", "pods", "web-1", "kubectl/v1 (linux)", "system:masters", int64(1772366400000001), 200, true)
	f.Add("", "", "", "", "", "", int64(0), 0, false)
	f.Add("g\"et", "/\x00\xff<>&\u2028", "ü", "\\", "a\nb", "\t", int64(-1), 504, true)
	f.Fuzz(func(t *testing.T, verb, uri, resource, name, agent, group string, micros int64, code int, more bool) {
		e := newEvent()
		e.AuditID, e.Stage, e.Verb, e.RequestURI, e.UserAgent = types.UID(name), auditv1.StageResponseComplete, verb, uri, agent
		if micros != 0 {
			// Years that RFC 3339 has; others can't be written by encoding/json either.
			e.RequestReceivedTimestamp = metav1.NewMicroTime(time.UnixMicro(micros % 1e17))
			e.StageTimestamp = e.RequestReceivedTimestamp
		}
		if more {
			e.User = authnv1.UserInfo{Username: name, UID: verb, Groups: []string{group, "x"}}
			e.SourceIPs = []string{group}
			e.ObjectRef = &auditv1.ObjectReference{Resource: resource, Name: name, APIVersion: "v1"}
			e.ResponseStatus = &metav1.Status{Code: int32(code), Status: group}
			e.Annotations = map[string]string{name: uri, KeyMethod: verb}
		}
		line, err := appendLine(nil, &e)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if err := json.Unmarshal(slow, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-encoding/json +ours):\n%s", diff)
		}
		if line[len(line)-1] != '\n' {
			t.Error("the line has no end")
		}
	})
}

// TestForeignEventKeepsItsFields: what only other servers set is not lost.
func TestForeignEventKeepsItsFields(t *testing.T) {
	e := newEvent()
	e.AuditID, e.Stage = "a", auditv1.StageResponseStarted
	e.ImpersonatedUser = &authnv1.UserInfo{Username: "viewer"}
	e.ResponseStatus = &metav1.Status{Code: 403, Message: "no", Reason: "Forbidden"}
	line, err := appendLine(nil, &e)
	if err != nil {
		t.Fatal(err)
	}
	read, err := parseEvent(line)
	if err != nil || read.ImpersonatedUser == nil || read.ImpersonatedUser.Username != "viewer" || read.ResponseStatus.Message != "no" {
		t.Errorf("%v: %s", err, line)
	}
}
