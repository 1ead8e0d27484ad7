package recorder

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

// ResponseType is the content type of a body that is a Response as JSON: a shim that
// answers in a form of its own may tell the recorder so what it delivered.
const ResponseType = "application/vnd.kubecase.response+json"

// told maps a request of which its shim said what tool it was.
func (d *deriver) told(a *answer, tool Tool) []Use {
	u := Use{Tool: tool, Class: a.class, Response: a.response()}
	if raw := a.Annotations[KeyArgs]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &u.Args); err != nil {
			u.Args = map[string]string{"args": raw}
		}
	}
	if pod := u.Args["pod"]; tool == CheckConnectivity && pod != "" && u.Args["service"] == "" {
		u.Args["service"] = d.service(u.Args["namespace"], pod)
		delete(u.Args, "pod")
	}
	_, body := d.bodies(a)
	if strings.HasPrefix(a.Annotations[KeyContentType], ResponseType) {
		var r Response
		if err := json.Unmarshal(body, &r); err == nil {
			if r.Status == 0 {
				r.Status = a.Status()
			}
			u.Response = r
		}
	} else if tool == GetAlerts {
		u.Response.Alerts = alerts(body)
	}
	if result, failed, ok := toolResult(body); ok {
		u.Response.Text = result
		if failed {
			u.Class, u.Response.Message = Failed, bounded(result, headerLimit)
			if strings.HasPrefix(result, "UnsupportedQuery") {
				u.Class = Unsupported
			}
		}
		if u.Class == Delivered {
			u.read(result)
		}
		if tool == GetRecentLogs || tool == GetErrorLogs {
			u.Response.Lines = logLines(result, false)
		}
	}
	if listed := a.Annotations[KeyAlerts]; listed != "" && tool == GetAlerts {
		u.Response.Alerts = alerts([]byte(listed))
	}
	return []Use{u}
}

// toolResult is the text in the answer of a diagnostic tool, over HTTP or MCP. MCP tells in
// the answer that a use failed.
func toolResult(body []byte) (text string, failed, ok bool) {
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	var plain string
	var called struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	switch {
	case json.Unmarshal(body, &answer) != nil || len(answer.Result) == 0:
		return "", false, false
	case json.Unmarshal(answer.Result, &plain) == nil:
		return plain, false, true
	case json.Unmarshal(answer.Result, &called) != nil || len(called.Content) == 0:
		return "", false, false
	}
	for _, part := range called.Content {
		plain += part.Text
	}
	return plain, called.IsError, true
}

func (d *deriver) bodies(a *answer) (requestBody, body []byte) {
	// Errors were noted when the answer was read; without Bodies nothing is known.
	if d.o.Bodies != nil && a.Annotations[KeyRequestBody] != "" {
		requestBody, _ = d.o.Bodies.Get(a.Annotations[KeyRequestBody])
	}
	body, _ = a.Body(d.dir, d.o.Bodies)
	return requestBody, body
}

// mesh are the metrics that say which service calls which.
var (
	mesh        = regexp.MustCompile(`istio_requests_total|istio_tcp_|istio_request_|source_workload|destination_workload|destination_service`)
	meshService = regexp.MustCompile(`(?:source|destination)_(?:workload|canonical_service|app|service_name)\s*=~?\s*"([a-z0-9][a-z0-9-]*)`)
)

// behindProxy are the paths of Jaeger's query API that tell who calls whom, when it is asked
// through a proxy.
var behindProxy = regexp.MustCompile(`^/(jaeger/)?api/(v3/)?(traces|dependencies)(/|$)`)

// shim maps what Alertmanager and Prometheus are asked; path is the path at the shim.
func (d *deriver) shim(a *answer, path string) []Use {
	mapper := d.o.Shims[a.Source()]
	if a.Source() == Kubernetes && behindProxy.MatchString(path) {
		mapper = d.o.Shims["jaeger"]
	}
	alertsPath := strings.HasSuffix(path, "/api/v2/alerts") || strings.HasSuffix(path, "/api/v2/alerts/groups") || strings.HasSuffix(path, "/api/v1/alerts")
	queryPath := strings.HasSuffix(path, "/api/v1/query") || strings.HasSuffix(path, "/api/v1/query_range")
	if mapper == nil && !alertsPath && !queryPath {
		return nil
	}
	requestBody, body := d.bodies(a)
	if mapper != nil {
		if uses := mapper(a.Request, requestBody, body); uses != nil {
			return uses
		}
	}
	u := Use{Tool: GetAlerts, Class: a.class, Response: a.response()}
	switch {
	case alertsPath:
		if a.class == Delivered {
			u.Response.Alerts, u.Response.Text = alerts(body), ""
		}
		return []Use{u}
	case queryPath:
		query := a.query.Get("query")
		if form, err := url.ParseQuery(string(requestBody)); query == "" && err == nil {
			query = form.Get("query")
		}
		query = strings.Join(strings.Fields(query), " ")
		u.Args = map[string]string{"query": query}
		if a.class == Delivered {
			u.Response.Series, u.Response.Text = series(body), ""
		}
		if !mesh.MatchString(query) {
			return []Use{u}
		}
		v := u
		v.Tool, v.Args = GetServiceDependencies, map[string]string{"query": query}
		if m := meshService.FindStringSubmatch(query); m != nil {
			v.Args["service"] = m[1]
		}
		return []Use{u, v}
	}
	return nil
}

// alerts reads Alertmanager's v2 list and groups, and Prometheus' own alerts, which are put in v2's shape.
func alerts(body []byte) []map[string]any {
	var list []map[string]any
	if json.Unmarshal(body, &list) == nil {
		var out []map[string]any
		for _, m := range list {
			inner, grouped := m["alerts"].([]any)
			if !grouped {
				out = append(out, m)
			}
			for _, v := range inner {
				if alert, ok := v.(map[string]any); ok {
					out = append(out, alert)
				}
			}
		}
		return out
	}
	var answer struct {
		Data struct {
			Alerts []map[string]any `json:"alerts"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	var out []map[string]any
	for _, m := range answer.Data.Alerts {
		state := text(m["state"])
		if state == "firing" {
			state = "active" // v2's word
		}
		out = append(out, map[string]any{
			"labels": m["labels"], "annotations": m["annotations"], "startsAt": m["activeAt"],
			"status": map[string]any{"state": state}, "value": m["value"],
		})
	}
	return out
}

// series reads the result of a query: a matrix as it is, a vector or a scalar as
// series of one value.
func series(body []byte) []map[string]any {
	var answer struct {
		Data struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	if answer.Data.ResultType == "scalar" || answer.Data.ResultType == "string" {
		var value []any
		if json.Unmarshal(answer.Data.Result, &value) != nil {
			return nil
		}
		return []map[string]any{{"metric": map[string]any{}, "values": []any{value}}}
	}
	var result []map[string]any
	if json.Unmarshal(answer.Data.Result, &result) != nil {
		return nil
	}
	for _, s := range result {
		if value, ok := s["value"]; ok {
			s["values"] = []any{value}
			delete(s, "value")
		}
	}
	return result
}
