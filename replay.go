package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/evaluator"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/kubeconfigs"
	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/tools"
)

// replay is an episode in which this program itself asks a case what clauses ask
// for, with the built-in kubectl, as an agent would.
type replay struct {
	serving  *serving
	log      *recorder.Log
	bodies   *recorder.Bodies
	episode  *apiserver.Episode
	dir      string
	kubectl  string
	captured time.Time
	// asked is the number of calls so far.
	asked int
}

// newReplay serves a case to this program alone. The case's own clock is used: nothing moves.
func (a *app) newReplay(c *fixtures.Case) (*replay, error) { return a.newReplayWith(c, nil) }

// newReplayWith puts a handler in front of the case, outside of what is recorded.
func (a *app) newReplayWith(c *fixtures.Case, front func(http.Handler) http.Handler) (r *replay, err error) {
	r = &replay{captured: c.Manifest().Capture.Time.UTC()}
	if r.dir, err = os.MkdirTemp(a.tempDir, "replay-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	r.serving = &serving{done: make(chan struct{}), failed: make(chan error, 1)}
	r.serving.services = newServices(true)
	r.serving.api = r.serving.services.newAPI(r.serving.done)
	if err := r.serving.listen(servingOptions{address: "127.0.0.1"}, r.serving.api); err != nil {
		return r, err
	}
	if r.bodies, err = recorder.OpenBodies(filepath.Join(r.dir, "bodies")); err != nil {
		return r, err
	}
	recording := &episodeRecording{}
	own := &mount{}
	wrap := func(next http.Handler) http.Handler { return own.wrap(recording.wrap(next)) }
	if front != nil {
		wrap = func(next http.Handler) http.Handler { return front(own.wrap(recording.wrap(next))) }
	}
	if r.episode, err = r.serving.api.AddEpisode(apiserver.EpisodeOptions{Case: c, Clock: clock.Captured, Wrap: wrap}); err != nil {
		return r, err
	}
	record := filepath.Join(r.dir, "record")
	if r.log, err = recorder.Open(record, recorder.Options{Bodies: r.bodies}); err != nil {
		return r, err
	}
	recording.begin(r.log, r.episode.Token, record)
	own.tools = a.diagnosticTools(r.serving, c, r.episode).Handler()
	own.open(r.serving.services, c, r.episode, r.log)
	access := kubeconfigs.Access{Server: r.serving.url + r.episode.Path(), Token: r.episode.Token, CA: r.serving.ca}
	if err := kubeconfigs.Write(filepath.Join(r.dir, "kubeconfig"), access); err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	bin, err := programFolder(r.dir, self, "kubectl")
	r.kubectl = filepath.Join(bin, "kubectl")
	return r, err
}

func (r *replay) close() error {
	var errs []error
	if r.log != nil {
		errs = append(errs, r.log.Close())
	}
	if r.serving != nil && r.serving.http != nil {
		errs = append(errs, r.serving.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// run runs one kubectl command and returns what it printed; a command that fails is
// an answer, too.
func (r *replay) run(ctx context.Context, args []string) (string, error) {
	command := exec.CommandContext(ctx, r.kubectl, args...)
	command.Env = []string{"KUBECONFIG=" + filepath.Join(r.dir, "kubeconfig"), "HOME=" + r.dir, "TZ=UTC", "PATH=" + filepath.Dir(r.kubectl)}
	out, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = nil
	}
	return string(out), err
}

// asEpisode is a request inside the episode, with its credentials.
func (r *replay) asEpisode(req *http.Request) *http.Request {
	req = req.Clone(r.serving.api.WithEpisode(req.Context(), r.episode))
	req.Header.Set("Authorization", "Bearer "+r.episode.Token)
	return req
}

// ask asks one question and returns the uses of tools that came of it, and what was
// answered.
func (r *replay) ask(ctx context.Context, q question) (uses []recorder.Use, printed string, err error) {
	if q.tool == "" {
		printed, err = r.run(ctx, q.kubectl)
	} else {
		printed, err = r.use(ctx, q)
	}
	if err != nil {
		return nil, "", err
	}
	t, err := r.trajectory()
	if err != nil {
		return nil, "", err
	}
	for _, call := range t.Calls[min(r.asked, len(t.Calls)):] {
		uses = append(uses, call.Uses...)
	}
	r.asked = len(t.Calls)
	return uses, printed, nil
}

// use uses a diagnostic tool, as an agent would.
func (r *replay) use(ctx context.Context, q question) (string, error) {
	body, err := json.Marshal(q.arguments)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.serving.url+r.episode.Path()+toolsPrefix+"/"+q.tool, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+r.episode.Token)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.serving.ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct{ Result, Error string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Error != "" {
		return "Error: " + answer.Error, nil
	}
	return answer.Result, nil
}

// question is a command of kubectl or a use of a diagnostic tool.
type question struct {
	kubectl   []string
	tool      string
	arguments map[string]any
}

func (q question) String() string {
	if q.tool == "" {
		return "kubectl " + strings.Join(q.kubectl, " ")
	}
	text, err := json.Marshal(q.arguments)
	if err != nil {
		return q.tool
	}
	return q.tool + " " + string(text)
}

// clauseQuestions ask for what a clause is about, the likeliest first: with kubectl where it
// can, else with the tool.
func clauseQuestions(c *evaluator.Clause) (out []question) {
	for _, args := range clauseCommands(c) {
		out = append(out, question{kubectl: args})
	}
	tool := tools.Find(string(c.Tool))
	if tool == nil || len(out) > 0 && c.Tool != recorder.CheckNodeServiceStatus {
		return out
	}
	arguments := map[string]any{}
	for name, matchers := range c.Args {
		if len(matchers) == 0 || strings.Contains(matchers[0], "*") {
			continue
		}
		if i := slices.IndexFunc(tool.Arguments, func(a tools.Argument) bool { return a.Name == name || slices.Contains(a.Aliases, name) }); i >= 0 {
			name = tool.Arguments[i].Name
		}
		if number, err := strconv.Atoi(matchers[0]); err == nil && name == "port" {
			arguments[name] = number
		} else {
			arguments[name] = matchers[0]
		}
	}
	return append(out, question{tool: tool.Name, arguments: arguments})
}

// trajectory is what was asked so far.
func (r *replay) trajectory() (recorder.Trajectory, error) {
	t, err := recorder.ReadTrajectory(r.log.Dir(), recorder.DeriveOptions{Episode: r.episode.ID, Captured: r.captured, Bodies: r.bodies, Shims: shimMappers}, nil)
	return t, err
}

// clauseCommands are the kubectl commands that ask for what a clause is about, the
// likeliest first; none for tools that kubectl doesn't serve.
func clauseCommands(c *evaluator.Clause) [][]string {
	first := func(name string) string {
		if m := c.Args[name]; len(m) > 0 {
			return m[0]
		}
		return ""
	}
	kind, name, namespace := first("type"), first("name"), first("namespace")
	scope := []string{"-n", namespace}
	if namespace == "*" || namespace == "" || strings.Contains(namespace, "*") {
		scope = []string{"-A"}
	}
	listed := strings.ContainsAny(name, "*") || name == ""
	with := func(words ...[]string) []string {
		var out []string
		for _, w := range words {
			out = append(out, w...)
		}
		return out
	}
	selectors := []string{}
	if labels := first("labels"); labels != "" {
		selectors = append(selectors, "-l", labels)
	}
	if fields := first("fields"); fields != "" {
		selectors = append(selectors, "--field-selector", fields)
	}
	switch c.Tool {
	case recorder.GetResources:
		get := with([]string{"get", kind}, selectors, scope)
		if !listed {
			get = []string{"get", kind, name}
			if namespace != "" {
				get = append(get, "-n", namespace)
			}
		}
		table, object := get, with(get, []string{"-o", "json"})
		switch first("output") {
		case "object":
			return [][]string{object}
		case "table":
			return [][]string{table}
		}
		return [][]string{table, object}
	case recorder.DescribeResource:
		describe := []string{"describe", kind}
		if name != "" {
			// describe takes the beginning of a name
			prefix, _, _ := strings.Cut(name, "*")
			if prefix != "" {
				describe = append(describe, prefix)
			}
		}
		if namespace == "" && len(describe) > 2 {
			return [][]string{describe}
		}
		return [][]string{with(describe, scope)}
	case recorder.GetAppYAML:
		var out [][]string
		for _, kind := range []string{"deployment", "statefulset", "daemonset", "service", "serviceaccount"} {
			out = append(out, with([]string{"get", kind, first("service"), "-o", "json"}, scope))
		}
		return out
	case recorder.GetRecentLogs, recorder.GetErrorLogs:
		logs := with([]string{"logs", "--tail=-1"}, scope)
		if first("previous") == "true" {
			logs = append(logs, "--previous")
		}
		if container := first("container"); container != "" && !strings.Contains(container, "*") {
			logs = append(logs, "-c", container)
		} else {
			logs = append(logs, "--all-containers")
		}
		if pod := first("pod"); pod != "" && !strings.Contains(pod, "*") {
			return [][]string{with(logs, []string{pod})}
		}
		service := first("service")
		return [][]string{
			with(logs, []string{"deployment/" + service}), with(logs, []string{"statefulset/" + service}), with(logs, []string{"daemonset/" + service}),
			with(logs, []string{"-l", "app=" + service}), with(logs, []string{"-l", "app.kubernetes.io/name=" + service}), with(logs, []string{service}),
		}
	case recorder.GetClusterConfig:
		return [][]string{{"get", "nodes", "-o", "json"}}
	case recorder.CheckNodeServiceStatus:
		return [][]string{
			{"get", "nodes", "-o", "json"}, {"get", "--raw", "/api/v1/nodes/" + first("node") + "/proxy/healthz"}, {"get", "componentstatuses", "-o", "json"},
		}
	}
	return nil
}
