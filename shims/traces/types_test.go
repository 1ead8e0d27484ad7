package traces_test

import (
	"encoding/json"
	"net/http"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/shims/traces"
)

// TestClientTypes reads what version 3 answers with the types that its clients have, which are
// OpenTelemetry's: every field must be known, and nothing may be lost.
func TestClientTypes(t *testing.T) {
	h := traces.New(traces.Options{}).Handler(newCase(t, map[string]string{"traces/traces.json": testdata(t, "traces.json")}), clock.New(clock.Captured, captured, captured))
	var listed struct {
		Data []struct {
			TraceID string            `json:"traceID"`
			Spans   []json.RawMessage `json:"spans"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(testdata(t, "traces.json")), &listed); err != nil {
		t.Fatal(err)
	}
	spans := 0
	for _, want := range listed.Data {
		w := ask(h, http.MethodGet, "/api/v3/traces/"+want.TraceID)
		var answer struct {
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d %v: %.300s", want.TraceID, w.Code, err, w.Body)
			continue
		}
		read := &tracev1.TracesData{}
		if err := protojson.Unmarshal(answer.Result, read); err != nil {
			t.Errorf("%s: %v: %.300s", want.TraceID, err, answer.Result)
			continue
		}
		found := 0
		for _, r := range read.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					found++
					if len(span.SpanId) == 0 || span.Name == "" || span.StartTimeUnixNano == 0 || span.EndTimeUnixNano < span.StartTimeUnixNano {
						t.Errorf("%s: a span lacks what it must have: %v", want.TraceID, span)
					}
				}
			}
		}
		if found != len(want.Spans) {
			t.Errorf("%s: %d spans, want %d", want.TraceID, found, len(want.Spans))
		}
		spans += found
	}
	if spans == 0 {
		t.Error("no span was read")
	}
}
