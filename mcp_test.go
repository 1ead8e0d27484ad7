package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCP starts the server as MCP clients do, with the protocol's own client.
func TestMCP(t *testing.T) {
	program := filepath.Join(programs(t), "kubecase")
	command := exec.Command(program, "mcp", "shop-evening")
	command.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 12 {
		t.Errorf("listed %v, %v", listed, err)
	}
	for _, test := range []struct {
		tool      string
		arguments map[string]any
		isError   bool
		want      string
	}{
		{"GetResources", map[string]any{"resource_type": "endpoint", "namespace": "shop", "name": "redis"}, false, "redis"},
		{"CheckServiceConnectivity", map[string]any{"service_name": "redis", "port": 6379}, false, "succeeded"},
		{"GetSourceCode", map[string]any{"app_name": "x", "file_path": "y"}, true, "UnsupportedQuery"},
	} {
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: test.tool, Arguments: test.arguments})
		if err != nil {
			t.Errorf("%s: %v", test.tool, err)
			continue
		}
		text := ""
		for _, c := range got.Content {
			if part, ok := c.(*mcp.TextContent); ok {
				text += part.Text
			}
		}
		if got.IsError != test.isError || !strings.Contains(text, test.want) {
			t.Errorf("%s: error %v: %s; want error %v with %q", test.tool, got.IsError, text, test.isError, test.want)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}
