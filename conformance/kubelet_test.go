package conformance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// kubeletCase is the shipped case of the second recorded cluster, whose nodes
// ran real kubelets.
const kubeletCase = "shop-nodes"

// kubeletExchange is an Exchange of that cluster; long bodies were cut.
type kubeletExchange struct {
	Exchange
	BodyHead string `json:"body_head"`
}

// TestKubeletLogs asks for logs with every option and of every state of a
// container, and holds the answers to those of real kubelets: refusals word for
// word, logs by what the options promise, because the recorded containers went
// on writing until they were captured.
func TestKubeletLogs(t *testing.T) {
	dir := filepath.Join(recordings(t), "kubelet", "http")
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Skipf("%s: no recordings of kubelets", dir)
	}
	server := startCase(t, clockCaptured, kubeletCase)
	compared := map[bool]int{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		e := &kubeletExchange{}
		if err := json.Unmarshal(data, e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		query, err := url.ParseQuery(e.Query)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// A followed log of a running container doesn't end by itself.
		if e.Category != "logs" || e.Status == http.StatusOK && query.Has("follow") {
			continue
		}
		// Writes are an administrator's; here they are refused before they are routed.
		if e.Method != http.MethodGet && e.Method != http.MethodHead {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			client, err := server.Subjects[e.As].client()
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			ours, err := replay(t.Context(), server, client, "", &e.Exchange)
			if err != nil {
				t.Fatal(err)
			}
			if ours.Status != e.Status {
				t.Fatalf("%s?%s: status %d instead of %d: %s", e.Path, e.Query, ours.Status, e.Status, ours.Body)
			}
			compared[e.Status == http.StatusOK]++
			if e.Status != http.StatusOK {
				if want := e.refusal(); want != string(ours.Body) {
					t.Errorf("%s?%s: %s instead of %s", e.Path, e.Query, ours.Body, want)
				}
				return
			}
			checkLog(t, query, ours.Body)
		})
	}
	t.Logf("%d logs and %d refusals", compared[true], compared[false])
	if compared[true] < 50 || compared[false] < 50 {
		t.Error("too few exchanges were compared")
	}
}

func (e *kubeletExchange) refusal() string {
	if e.Body != "" {
		return e.Body
	}
	return e.BodyHead
}

// checkLog checks what the options promise about any log.
func checkLog(t *testing.T, query url.Values, body []byte) {
	t.Helper()
	limit, err := strconv.Atoi(query.Get("limitBytes"))
	if err == nil && len(body) > limit {
		t.Errorf("%d bytes with limitBytes=%d", len(body), limit)
	}
	if tail, err := strconv.Atoi(query.Get("tailLines")); err == nil && bytes.Count(body, []byte("\n")) > tail {
		t.Errorf("%d lines with tailLines=%d", bytes.Count(body, []byte("\n")), tail)
	}
	if limit > 0 {
		return // the last line is cut
	}
	stamped := query.Has("timestamps") && query.Get("timestamps") != "false" && query.Get("timestamps") != "0"
	for _, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
		if line != "" && strings.HasPrefix(line, "2026-12-01T") != stamped {
			t.Errorf("timestamps=%q, but a line is %.60q", query.Get("timestamps"), line)
			return
		}
	}
}
