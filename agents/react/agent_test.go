package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded is what an endpoint answered, in turn, in one investigation.
var recorded = []string{
	`{"choices":[{"message":{"role":"assistant","content":"I look at the pods.","tool_calls":[{"id":"c1","type":"function","function":{"name":"kubectl","arguments":"{\"args\":\"get pods -n shop\"}"}}]}}],"usage":{"prompt_tokens":210,"completion_tokens":20}}`,
	`{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[{"id":"c2","type":"function","function":{"name":"kubectl","arguments":"{\"args\":\"kubectl describe pods -l 'app=check out' -n $SHOP\"}"}},{"id":"c3","type":"function","function":{"name":"shell","arguments":"{}"}}]}}],"usage":{"prompt_tokens":900,"completion_tokens":30}}`,
	`{"choices":[{"message":{"role":"assistant","content":"That is it."}}],"usage":{"prompt_tokens":1200,"completion_tokens":5}}`,
	`{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[{"id":"c4","type":"function","function":{"name":"answer","arguments":"{\"component\":\"deployment/checkout\",\"fault\":\"CrashLoop\"}"}}]}}],"usage":{"prompt_tokens":1300,"completion_tokens":25}}`,
}

// TestInvestigation plays a recorded endpoint: what the model asks for is run, what
// it gets is what was printed, and the answer says what it cost.
func TestInvestigation(t *testing.T) {
	var asked []map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/v1/chat/completions" || req.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("%s %s with Authorization %q", req.Method, req.URL, req.Header.Get("Authorization"))
		}
		body := map[string]any{}
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked = append(asked, body)
		if len(asked) > len(recorded) {
			http.Error(w, "no more", http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, recorded[len(asked)-1])
	}))
	defer server.Close()
	dir := t.TempDir()
	script := "#!/bin/sh\nfor a; do printf '[%s]' \"$a\"; done; echo; exit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("OPENAI_API_KEY", "key")
	var out, log strings.Builder
	if err := run(t.Context(), []string{"--endpoint", server.URL + "/v1/", "--model", "small"}, strings.NewReader("What is wrong?"), &out, &log); err != nil {
		t.Fatal(err)
	}
	if want := `{"component":"deployment/checkout","fault":"CrashLoop","inputTokens":3610,"outputTokens":80}` + "\n"; out.String() != want {
		t.Errorf("printed %s, want %s", out.String(), want)
	}
	last := asked[len(asked)-1]["messages"].([]any)
	var got []string
	for _, m := range last {
		m := m.(map[string]any)
		if m["role"] == "tool" {
			got = append(got, fmt.Sprint(m["tool_call_id"], " ", m["content"]))
		}
	}
	want := []string{"c1 [get][pods][-n][shop]\n", "c2 [describe][pods][-l][app=check out][-n][$SHOP]\n", "c3 there is no such tool"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the model saw (-want +got):\n%s", diff)
	}
}

// TestTrouble: an endpoint that fails, or never ends, is an error and no answer.
func TestTrouble(t *testing.T) {
	for name, tt := range map[string]struct {
		status     int
		body, want string
	}{
		"refused":   {http.StatusUnauthorized, `{"error":"bad key"}`, "401 Unauthorized"},
		"no JSON":   {http.StatusOK, `<html>`, "no JSON"},
		"no choice": {http.StatusOK, `{}`, "without a choice"},
		"bad call":  {http.StatusOK, `{"choices":[{"message":{"tool_calls":[{"function":{"name":"answer","arguments":"]"}}]}}]}`, "no JSON object"},
		"endless":   {http.StatusOK, `{"choices":[{"message":{"content":"hm"}}]}`, "no answer after 3 steps"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.body)
		}))
		var out, log strings.Builder
		err := run(t.Context(), []string{"--endpoint", server.URL, "--model", "m", "--steps", "3"}, strings.NewReader("q"), &out, &log)
		server.Close()
		if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("%s: error %v and output %q, want an error with %q and no output", name, err, out.String(), tt.want)
		}
	}
}
