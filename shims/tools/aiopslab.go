package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// defaultMinutes is how far back metrics and traces go where an agent doesn't say, maxMinutes how
	// far at most.
	defaultMinutes, maxMinutes = 5, 24 * 60
	// defaultTimeout and maxTimeout bound a command, in seconds.
	defaultTimeout, maxTimeout = 30, 300
	// metricsStep is the time between two points of an exported series.
	metricsStep = 15 * time.Second
	// tracesOfService is the most traces of one service that are exported, as many as Jaeger gives unasked.
	tracesOfService = 100
	// maxTable bounds a file that is read, in bytes.
	maxTable = 32 << 20
	// maxText bounds an answer, in bytes; what is longer loses its middle.
	maxText = 64 << 10
)

// AIOpsLabOptions are by what the actions of AIOpsLab's interface are done, inside an episode.
type AIOpsLabOptions struct {
	// Kubectl runs kubectl as the agent would.
	Kubectl func(ctx context.Context, args ...string) (Printed, error)
	// Prometheus and Jaeger ask for a path such as "/api/v1/query", and give status and body; nil: not
	// captured.
	Prometheus, Jaeger func(ctx context.Context, path string, query url.Values) (status int, body []byte, err error)
	// Shell runs a command of a shell for at most timeout. nil: NoShell says why not.
	Shell   func(ctx context.Context, command string, timeout time.Duration) (Printed, error)
	NoShell string
	// Submit hands an answer in: a JSON object with the fields of a submission.
	Submit func(ctx context.Context, answer []byte) error
	// Dir is the folder in which files are made, and the only one in which they are read.
	Dir string
	// Now is the present, for the names of files and the times of traces.
	Now func() time.Time
}

// AIOpsLab does the actions of AIOpsLab's agent interface: an agent's reply has one call, in the
// notation of Python, and gets a text.
type AIOpsLab struct{ o AIOpsLabOptions }

// NewAIOpsLab makes the actions of an episode.
func NewAIOpsLab(o AIOpsLabOptions) *AIOpsLab { return &AIOpsLab{o} }

// Action is one that an agent can call.
type Action struct {
	Name, Description string
	// Arguments are in the order in which they are given without names.
	Arguments []Argument
	// Returns says what the text is.
	Returns string
	// shell: the argument is a command, in which backslashes are the shell's.
	shell bool
	do    func(ctx context.Context, l *AIOpsLab, a map[string]any) (string, error)
}

var (
	inNamespace = Argument{Name: "namespace", Aliases: []string{"ns"}, Description: "the namespace of the service", Type: "string", Required: true}
	lastMinutes = Argument{Name: "duration", Aliases: []string{"minutes"}, Description: fmt.Sprintf("how many minutes back; %d", defaultMinutes), Type: "integer"}
	filePath    = Argument{Name: "file_path", Aliases: []string{"path"}, Description: "the path of the CSV file", Type: "string", Required: true}
)

// Actions are AIOpsLab's, with its names and arguments.
var Actions = []Action{
	{Name: "get_logs", Description: "Read the logs of a service's pods.", Arguments: []Argument{
		inNamespace, {Name: "service", Aliases: []string{"service_name"}, Description: "the name of the service", Type: "string", Required: true},
	}, Returns: "the logs", do: getLogs},
	{Name: "get_metrics", Description: "Export the metrics of a namespace's containers to CSV files, for read_metrics.", Arguments: []Argument{inNamespace, lastMinutes},
		Returns: "the folder of the files, and their names", do: getMetrics},
	{Name: "read_metrics", Description: "Read a file that get_metrics exported.", Arguments: []Argument{filePath}, Returns: "its table", do: reader("Metrics")},
	{Name: "get_traces", Description: "Export the traces of the services to a CSV file, for read_traces.", Arguments: []Argument{inNamespace, lastMinutes},
		Returns: "the path of the file", do: getTraces},
	{Name: "read_traces", Description: "Read a file that get_traces exported.", Arguments: []Argument{filePath}, Returns: "its table", do: reader("Traces")},
	{Name: "exec_shell", Description: "Run a shell command where kubectl reaches the cluster. Each command runs in a shell of its own, which keeps nothing and can't ask back: kubectl edit and the like don't work.", Arguments: []Argument{
		{Name: "command", Aliases: []string{"cmd"}, Description: "the command", Type: "string", Required: true},
		{Name: "timeout", Description: fmt.Sprintf("after how many seconds it is ended; %d", defaultTimeout), Type: "integer"},
	}, Returns: "what the command printed", shell: true, do: execShell},
	{Name: "submit", Description: "Hand the solution in. The last one counts.", Arguments: []Argument{
		{Name: "solution", Description: `"Yes" or "No" (is something wrong?), a list of faulty components with the most suspected first, or {"system_level": …, "fault_type": …}; nothing when a repair is done`},
	}, Returns: "whether it was taken", do: submitSolution},
}

var callOfAction = regexp.MustCompile(`\b(` + strings.Join(actionNames(), "|") + `)\s*\(`)

func actionNames() []string {
	names := make([]string, len(Actions))
	for i, a := range Actions {
		names[i] = a.Name
	}
	return names
}

// FindAction gives an action by name; nil for none.
func FindAction(name string) *Action {
	for i := range Actions {
		if Actions[i].Name == name {
			return &Actions[i]
		}
	}
	return nil
}

// signature is how an action is called: get_logs(namespace: str, service: str).
func (a *Action) signature() string {
	parts := make([]string, len(a.Arguments))
	for i, arg := range a.Arguments {
		parts[i] = arg.Name
		if kind := map[string]string{"string": "str", "integer": "int"}[arg.Type]; kind != "" {
			parts[i] += ": " + kind
		}
		if !arg.Required {
			parts[i] += " = None"
		}
	}
	return a.Name + "(" + strings.Join(parts, ", ") + ")"
}

// Prompt describes the actions for an agent's prompt, as AIOpsLab does: each with its arguments and
// what it returns.
func Prompt() string {
	var out strings.Builder
	for _, a := range Actions {
		fmt.Fprintf(&out, "%s\n    %s\n", a.signature(), a.Description)
		if len(a.Arguments) > 0 {
			out.WriteString("\n    Args:\n")
		}
		for _, arg := range a.Arguments {
			fmt.Fprintf(&out, "        %s: %s\n", arg.Name, arg.Description)
		}
		fmt.Fprintf(&out, "\n    Returns:\n        %s\n\n", a.Returns)
	}
	return out.String()
}

// ActionDescription is an action's description as data.
type ActionDescription struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Arguments   map[string]any `json:"arguments"` // a JSON Schema
	Returns     string         `json:"returns"`
}

// DescribeActions describes all actions.
func DescribeActions() []ActionDescription {
	out := make([]ActionDescription, len(Actions))
	for i := range Actions {
		a := &Actions[i]
		out[i] = ActionDescription{a.Name, a.Description, schemaOf(a.Arguments), a.Returns}
	}
	return out
}

// schemaOf is the JSON Schema of arguments; one without a type can be anything.
func schemaOf(all []Argument) map[string]any {
	schema := (&Tool{Arguments: all}).schema()
	properties, _ := schema["properties"].(map[string]any)
	for _, a := range all {
		if a.Type == "" {
			properties[a.Name] = map[string]any{"description": a.Description}
		}
	}
	return schema
}

// Act does what an agent's reply asks for. What is wrong with a call is the answer's text, which begins
// "Error: ". The error wraps ErrNoCall for a reply without a call; others are no fault of the agent's.
func (l *AIOpsLab) Act(ctx context.Context, reply string) (string, error) {
	c, err := parseReply(reply)
	if err == nil {
		var given map[string]any
		if given, err = c.arguments(); err == nil {
			return l.Do(ctx, c.action, given)
		}
	}
	if errors.As(err, &callError{}) {
		return "Error: " + err.Error(), nil
	}
	return "", err
}

// Do does an action with arguments by their names; numbers may be int64 or float64.
func (l *AIOpsLab) Do(ctx context.Context, a *Action, given map[string]any) (string, error) {
	text := ""
	read, err := a.read(given)
	if err == nil {
		text, err = a.do(ctx, l, read)
	}
	if errors.As(err, &callError{}) {
		return "Error: " + err.Error(), nil
	}
	return shorten(text), err
}

// read checks the types of arguments. Whole numbers come back as int64, absent arguments are left out.
func (a *Action) read(given map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, arg := range a.Arguments {
		v := given[arg.Name]
		switch f, isFloat := v.(float64); {
		case isFloat && arg.Type == "integer" && f == float64(int64(f)):
			v = int64(f)
		case v == nil:
			if arg.Required {
				return nil, badCall("%s needs the argument %s: %s", a.Name, arg.Name, a.signature())
			}
			continue
		}
		switch v.(type) {
		case string:
			if arg.Type == "integer" {
				return nil, badCall("%s of %s is no whole number", arg.Name, a.Name)
			}
		case int64:
			if arg.Type == "string" {
				return nil, badCall("%s of %s is no text", arg.Name, a.Name)
			}
		default:
			if arg.Type != "" {
				return nil, badCall("%s of %s is of the wrong type: %s", arg.Name, a.Name, a.signature())
			}
		}
		out[arg.Name] = v
	}
	return out, nil
}

// clusterName is an argument that names something of the cluster: it can't be an option of kubectl's.
func clusterName(a map[string]any, of string) (string, error) {
	text, _ := a[of].(string)
	if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "-") || len(text) > 253 || strings.ContainsAny(text, "\x00\n,=!() ") {
		return "", badCall("%s can't be %.40q", of, text)
	}
	return text, nil
}

// within is a whole number between 1 and most, or what it is where it wasn't given.
func within(a map[string]any, of string, otherwise, most int64) (int64, error) {
	n, given := a[of].(int64)
	switch {
	case !given:
		return otherwise, nil
	case n < 1 || n > most:
		return 0, badCall("%s is %d: it can be 1 to %d", of, n, most)
	}
	return n, nil
}

// serviceLabels are the labels by which AIOpsLab finds a service's pods.
var serviceLabels = []string{"app", "io.kompose.service", "app.kubernetes.io/name"}

// getLogs asks for the logs by label: finding the pods is no use of its own then.
func getLogs(ctx context.Context, l *AIOpsLab, a map[string]any) (string, error) {
	const missing = "Error: Your service/namespace does not exist. Use kubectl to check."
	namespace, err := clusterName(a, "namespace")
	if err != nil {
		return missing, nil
	}
	service, err := clusterName(a, "service")
	if err != nil {
		return missing, nil
	}
	for _, label := range serviceLabels {
		p, err := l.o.Kubectl(ctx, "logs", "-n", namespace, "-l", label+"="+service, "--tail=-1", "--ignore-errors")
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return "", badCall("kubectl took too long")
		}
		if err != nil {
			return "", err
		}
		switch {
		case p.ExitCode == 0 && (p.Stdout != "" || !strings.Contains(p.Stderr, "No resources found")):
			return p.Stdout, nil
		case strings.Contains(p.Stderr, "(UnsupportedQuery)"):
			return "", badCall("%s", strings.TrimSpace(p.Stderr)) // not captured is not the same as not there
		case p.ExitCode != 0:
			return missing, nil
		}
	}
	return missing, nil
}

// execShell runs a command that the policy lets pass.
func execShell(ctx context.Context, l *AIOpsLab, a map[string]any) (string, error) {
	command, _ := a["command"].(string)
	seconds, err := within(a, "timeout", defaultTimeout, maxTimeout)
	if err != nil {
		return "", err
	}
	if refusal := refuse(command); refusal != "" {
		return refusal, nil
	}
	if l.o.Shell == nil {
		return "", badCall("no command can be run here: %s", l.o.NoShell)
	}
	p, err := l.o.Shell(ctx, command, time.Duration(seconds)*time.Second)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		text := p.Stdout + p.Stderr
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + fmt.Sprintf("Error: the command was ended after %d seconds.", seconds), nil
	case err != nil:
		return "", err
	case p.Stdout+p.Stderr == "" && p.ExitCode != 0:
		return fmt.Sprintf("(no output, exit code %d)", p.ExitCode), nil
	}
	return p.Stdout + p.Stderr, nil
}

// submitSolution words AIOpsLab's solutions as a submission.
func submitSolution(ctx context.Context, l *AIOpsLab, a map[string]any) (string, error) {
	answer, err := submission(a["solution"])
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return "", badCall("the solution can't be written as JSON: %w", err)
	}
	if err := l.o.Submit(ctx, text); err != nil {
		return "", err
	}
	return "Your solution was handed in.", nil
}

// submission is the JSON object that says the same as a solution.
func submission(solution any) (map[string]any, error) {
	switch s := solution.(type) {
	case nil:
		return map[string]any{"commands": []string{}}, nil // a repair's: what counts is what was done before
	case bool:
		return map[string]any{"detected": s}, nil
	case string:
		switch word := strings.ToLower(strings.Trim(s, " \t\n.")); word {
		case "yes", "no":
			return map[string]any{"detected": word == "yes"}, nil
		case "none", "":
			return map[string]any{"detected": false}, nil
		}
		return submission([]any{s})
	case []any:
		if len(s) == 0 {
			return map[string]any{"detected": false}, nil
		}
		if slices.ContainsFunc(s, func(v any) bool { _, text := v.(string); return !text }) {
			return nil, badCall("the list of the solution has an entry that is no text")
		}
		return map[string]any{"component": s[0], "components": s}, nil
	case map[string]any:
		out := map[string]any{}
		for key, v := range s {
			field := map[string]string{"system_level": "layer", "fault_type": "fault"}[key]
			text, isText := v.(string)
			if field == "" || !isText {
				return nil, badCall(`the solution's %q can't be used: it is {"system_level": "…", "fault_type": "…"}`, key)
			}
			out[field] = text
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return nil, badCall(`the solution is neither "Yes" or "No" nor a list of components nor {"system_level": "…", "fault_type": "…"}`)
}

// asked reads the answer of Prometheus or Jaeger. Their refusals are for the agent.
func asked(status int, body []byte, err error, into any) error {
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		var refused struct {
			Error  string `json:"error"`
			Errors []struct {
				Message string `json:"msg"`
			} `json:"errors"`
		}
		_ = json.Unmarshal(body, &refused) // else there are no words but the status
		if len(refused.Errors) > 0 {
			refused.Error = refused.Errors[0].Message
		}
		return badCall("the request was refused with status %d: %s", status, refused.Error)
	}
	return json.Unmarshal(body, into)
}

// getMetrics asks for all metrics with one query, as of the end of what was captured: the points are the
// same for each agent, however long it took to ask.
func getMetrics(ctx context.Context, l *AIOpsLab, a map[string]any) (string, error) {
	minutes, err := within(a, "duration", defaultMinutes, maxMinutes)
	if err != nil {
		return "", err
	}
	namespace, err := clusterName(a, "namespace")
	if err != nil {
		return "", err
	}
	if l.o.Prometheus == nil {
		return "", badCall("metrics were not captured")
	}
	query := fmt.Sprintf(`{__name__=~%q,namespace=%q}[%dm:%s]`, strings.Join(containerMetrics, "|"), namespace, minutes, metricsStep)
	var answer struct {
		Data struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	status, body, err := l.o.Prometheus(ctx, "/api/v1/query", url.Values{"query": {query}})
	if err := asked(status, body, err, &answer); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(l.o.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.Mkdir("metrics_output", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	// Of two exports within a second the later one is named for the next.
	folder := ""
	for at := l.o.Now(); ; at = at.Add(time.Second) {
		folder = filepath.Join("metrics_output", "metric_"+at.Format("20060102_150405"))
		if err := root.Mkdir(folder, 0o700); err == nil {
			break
		} else if !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	if err := root.Mkdir(filepath.Join(folder, "container"), 0o700); err != nil {
		return "", err
	}
	text := fmt.Sprintf("Metrics data exported to directory: %s\n\nFolder structure of exported metrics:\n%s/\n    container/\n", filepath.Join(l.o.Dir, folder), filepath.Base(folder))
	for _, metric := range containerMetrics {
		rows, err := metricRows(answer.Data.Result, metric)
		if err != nil {
			return "", err
		}
		if len(rows) == 0 {
			continue
		}
		file := "kpi_" + metric + ".csv"
		if err := writeCSV(root, filepath.Join(folder, "container", file), metricColumns, rows); err != nil {
			return "", err
		}
		text += "        " + file + "\n"
	}
	return text, nil
}

// getTraces asks Jaeger for each service's traces; one that several services have part in is exported
// once.
func getTraces(ctx context.Context, l *AIOpsLab, a map[string]any) (string, error) {
	minutes, err := within(a, "duration", defaultMinutes, maxMinutes)
	if err != nil {
		return "", err
	}
	if l.o.Jaeger == nil {
		return "", badCall("traces were not captured")
	}
	var services struct {
		Data []string `json:"data"`
	}
	status, body, err := l.o.Jaeger(ctx, "/api/services", nil)
	if err := asked(status, body, err, &services); err != nil {
		return "", err
	}
	end := l.o.Now()
	start := end.Add(-time.Duration(minutes) * time.Minute)
	var rows [][]string
	seen := map[string]bool{}
	for _, service := range services.Data {
		if strings.HasPrefix(service, "jaeger") {
			continue // Jaeger's traces of itself
		}
		var answer struct {
			Data []trace `json:"data"`
		}
		status, body, err := l.o.Jaeger(ctx, "/api/traces", url.Values{
			"service": {service}, "start": {strconv.FormatInt(start.UnixMicro(), 10)}, "end": {strconv.FormatInt(end.UnixMicro(), 10)},
			"lookback": {fmt.Sprintf("%dm", minutes)}, "limit": {strconv.Itoa(tracesOfService)},
		})
		if err := asked(status, body, err, &answer); err != nil {
			return "", err
		}
		for _, t := range answer.Data {
			if !seen[t.ID] {
				seen[t.ID] = true
				rows = append(rows, t.rows()...)
			}
		}
	}
	root, err := os.OpenRoot(l.o.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.Mkdir("trace_output", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	file := filepath.Join("trace_output", fmt.Sprintf("traces_%d.csv", end.Unix()))
	if err := writeCSV(root, file, traceColumns, rows); err != nil {
		return "", err
	}
	return "Traces data exported to: " + filepath.Join(l.o.Dir, file), nil
}

// MCP is the actions as a server of the Model Context Protocol.
func (l *AIOpsLab) MCP() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "aiopslab-actions", Version: "1"}, nil)
	for i := range Actions {
		a := &Actions[i]
		server.AddTool(&mcp.Tool{Name: a.Name, Description: a.Description, InputSchema: schemaOf(a.Arguments)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			given := map[string]any{}
			if len(req.Params.Arguments) > 0 {
				if err := json.Unmarshal(req.Params.Arguments, &given); err != nil {
					return nil, err
				}
			}
			text, err := l.Do(ctx, a, given)
			if err != nil {
				text = "Error: " + err.Error()
			}
			return &mcp.CallToolResult{IsError: strings.HasPrefix(text, "Error: ") || strings.HasPrefix(text, "error: "), Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	return server
}
