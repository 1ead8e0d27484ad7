package tools

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRequest bounds the arguments of a call, in bytes.
const maxRequest = 64 << 10

// result is the body of an answer.
type result struct {
	Tool   string `json:"tool"`
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Handler serves the tools below "/": GET / lists them, GET /openapi.json describes them,
// POST /<Tool> uses one with a JSON object of arguments, and /mcp is the MCP server.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, listing()) })
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, openAPI()) })
	mux.HandleFunc("POST /{tool}", s.serveCall)
	// A server for each request, so that a use goes on the record of its request.
	h := mcp.NewStreamableHTTPHandler(func(req *http.Request) *mcp.Server { return s.MCP(req.Context()) }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		mux.Handle(method+" /mcp", h)
	}
	return mux
}

func (s *Server) serveCall(w http.ResponseWriter, req *http.Request) {
	t := Find(req.PathValue("tool"))
	if t == nil {
		writeJSON(w, http.StatusNotFound, result{Tool: req.PathValue("tool"), Error: "there is no such tool: GET the list", Reason: "NotFound"})
		return
	}
	given := map[string]any{}
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxRequest)).Decode(&given); err != nil && req.ContentLength != 0 {
		writeJSON(w, http.StatusBadRequest, result{Tool: t.Name, Error: "the arguments are no JSON object: " + err.Error(), Reason: ErrArguments.Error()})
		return
	}
	text, err := s.Call(req.Context(), t, given)
	writeJSON(w, status(err), answered(t, text, err))
}

func status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrArguments):
		return http.StatusBadRequest
	case errors.Is(err, ErrUnsupported):
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

func answered(t *Tool, text string, err error) result {
	r := result{Tool: t.Name, Result: text}
	if err != nil {
		r.Error, r.Reason = err.Error(), "InternalError"
		for _, known := range []error{ErrArguments, ErrUnsupported} {
			if errors.Is(err, known) {
				r.Reason = known.Error()
				r.Error = strings.TrimPrefix(r.Error, known.Error()+": ")
			}
		}
	}
	return r
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a client that left needs no answer
}

// schema is the JSON Schema of a tool's arguments.
func (t *Tool) schema() map[string]any {
	properties := map[string]any{}
	required := []string{}
	for _, a := range t.Arguments {
		properties[a.Name] = map[string]any{"type": a.Type, "description": a.Description}
		if a.Required {
			required = append(required, a.Name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

func listing() any {
	type entry struct {
		Number      string         `json:"number"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Arguments   map[string]any `json:"arguments"`
	}
	out := make([]entry, len(Tools))
	for i := range Tools {
		t := &Tools[i]
		out[i] = entry{t.Number, t.Name, t.Description, t.schema()}
	}
	return map[string]any{"tools": out}
}

func openAPI() any {
	paths := map[string]any{}
	for i := range Tools {
		t := &Tools[i]
		paths["/"+t.Name] = map[string]any{"post": map[string]any{
			"operationId": t.Name, "summary": t.Description,
			"requestBody": map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": t.schema()}}},
			"responses": map[string]any{
				"200": map[string]any{"description": "the answer", "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{
					"type": "object", "properties": map[string]any{"tool": map[string]any{"type": "string"}, "result": map[string]any{"type": "string"}},
				}}}},
				"400": map[string]any{"description": "the arguments are wrong"},
				"501": map[string]any{"description": "outside what was captured (UnsupportedQuery)"},
			},
		}}
	}
	return map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "Diagnostic tools", "version": "1"}, "paths": paths,
	}
}

// MCP is the same as a server of the Model Context Protocol, whose uses are part of within.
func (s *Server) MCP(within context.Context) *mcp.Server {
	return MCP(func(_ context.Context, t *Tool, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		given := map[string]any{}
		if len(arguments) > 0 {
			if err := json.Unmarshal(arguments, &given); err != nil {
				return nil, err
			}
		}
		text, err := s.Call(within, t, given)
		if err != nil {
			text = err.Error()
		}
		return &mcp.CallToolResult{IsError: err != nil, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
}

// MCP is a server of the Model Context Protocol whose tools are used with call.
func MCP(call func(ctx context.Context, t *Tool, arguments json.RawMessage) (*mcp.CallToolResult, error)) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "cluster-diagnostics", Version: "1"}, nil)
	for i := range Tools {
		t := &Tools[i]
		server.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.schema()}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return call(ctx, t, req.Params.Arguments)
		})
	}
	return server
}
