package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kubecase/kubecase/recorder"
	"github.com/kubecase/kubecase/shims/source"
	"github.com/kubecase/kubecase/shims/traces"
)

// Sources on record whose requests are read here, because their answers need the shim's own code.
const (
	sourceOfSource = "source"
	sourceOfTraces = "jaeger"
)

// shimMappers say what was learned from source trees and traces.
var shimMappers = map[string]recorder.ShimMapper{sourceOfSource: sourceUses, sourceOfTraces: traceUses}

// maxServices bounds the services that one answer of Jaeger is evidence about.
const maxServices = 512

// shimClass is how a request to a shim ended.
func shimClass(r *recorder.Request) recorder.Class {
	switch code := r.Status(); {
	case r.Annotations[recorder.KeyAborted] != "", code == 0:
		return recorder.Failed
	case code == http.StatusNotImplemented:
		return recorder.Unsupported
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return recorder.Refused
	case code == http.StatusNotFound:
		return recorder.NotFound
	case code >= http.StatusBadRequest:
		return recorder.Failed
	}
	return recorder.Delivered
}

// sourceUses is T11 of a listing, T12 of a file, and both of a clone.
func sourceUses(r *recorder.Request, _, body []byte) []recorder.Use {
	class := shimClass(r)
	if class != recorder.Delivered {
		return missedSource(r, class, body)
	}
	// A pack that was cut off on record tells of what is there.
	d, _ := source.Delivered(r.Method(), r.RequestURI, r.Annotations[recorder.KeyContentType], r.Status(), body)
	var uses []recorder.Use
	if d.App != "" && d.Listed != nil {
		uses = append(uses, recorder.Use{Tool: recorder.ListCodeFiles, Args: map[string]string{"app": d.App}, Class: class,
			Response: recorder.Response{Status: r.Status(), Text: strings.Join(d.Listed, "\n"), Lines: d.Listed}})
	}
	for _, f := range d.Files {
		uses = append(uses, recorder.Use{Tool: recorder.GetSourceCode, Args: map[string]string{"app": d.App, "path": f.Path}, Class: class,
			Response: recorder.Response{Status: r.Status(), Text: string(f.Data), Truncated: f.Part || r.Annotations[recorder.KeyTruncated] != ""}})
	}
	return uses
}

// missedSource is what was asked for in vain.
func missedSource(r *recorder.Request, class recorder.Class, body []byte) []recorder.Use {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return nil
	}
	app, path, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if app == "" {
		return nil
	}
	use := recorder.Use{Tool: recorder.ListCodeFiles, Args: map[string]string{"app": app}, Class: class, Response: recorder.Response{Status: r.Status(), Message: strings.TrimSpace(string(body))}}
	if name, git := strings.CutSuffix(app, ".git"); git {
		use.Args["app"] = name
	} else if path != "" && !strings.HasSuffix(u.Path, "/") {
		use.Tool, use.Args["path"] = recorder.GetSourceCode, path
	}
	return []recorder.Use{use}
}

// traceUses is T4: of the service whose traces were searched, of each that a trace shows, and of
// each of the dependencies.
func traceUses(r *recorder.Request, _, body []byte) []recorder.Use {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return nil
	}
	class := shimClass(r)
	service := u.Query().Get("service")
	if service == "" {
		service = u.Query().Get("query.service_name")
	}
	response := recorder.Response{Status: r.Status(), Text: string(body)}
	if class != recorder.Delivered {
		response.Text, response.Message = "", strings.TrimSpace(string(body))
	}
	use := func(service string, response recorder.Response) recorder.Use {
		args := map[string]string{}
		if service != "" {
			args["service"] = service
		}
		return recorder.Use{Tool: recorder.GetServiceDependencies, Args: args, Class: class, Response: response}
	}
	switch {
	case strings.HasSuffix(u.Path, "/api/dependencies"):
		var answer struct {
			Data []traces.Dependency `json:"data"`
		}
		if class != recorder.Delivered || json.Unmarshal(body, &answer) != nil || len(answer.Data) == 0 {
			return []recorder.Use{use("", response)}
		}
		var uses []recorder.Use
		for _, root := range dependents(answer.Data) {
			text, err := json.Marshal(below(answer.Data, root))
			if err != nil {
				continue // strings and numbers can always be written
			}
			uses = append(uses, use(root, recorder.Response{Status: r.Status(), Text: string(text)}))
		}
		return uses
	case strings.Contains(u.Path, "/api/traces"), strings.Contains(u.Path, "/api/v3/traces"):
		if service != "" || class != recorder.Delivered {
			return []recorder.Use{use(service, response)}
		}
		var uses []recorder.Use
		for _, name := range servicesOf(body) {
			uses = append(uses, use(name, response))
		}
		return uses
	}
	return nil // services and operations say nothing of who calls whom
}

// dependents are the services of dependencies, in the order of their names.
func dependents(all []traces.Dependency) []string {
	var names []string
	for _, d := range all {
		names = append(names, d.Parent, d.Child)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxServices)]
}

// below are the dependencies that a service has, directly and through others, after those of
// its own callers.
func below(all []traces.Dependency, root string) []traces.Dependency {
	out := []traces.Dependency{}
	for _, d := range all {
		if d.Child == root {
			out = append(out, d)
		}
	}
	seen, next := map[string]bool{root: true}, []string{root}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, d := range all {
			if d.Parent != parent {
				continue
			}
			out = append(out, d)
			if !seen[d.Child] {
				seen[d.Child] = true
				next = append(next, d.Child)
			}
		}
	}
	return out
}

// servicesOf are the services of the traces in an answer of Jaeger's.
func servicesOf(body []byte) []string {
	var answer struct {
		Data []struct {
			Processes map[string]struct {
				ServiceName string `json:"serviceName"`
			} `json:"processes"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	var names []string
	for _, t := range answer.Data {
		for _, p := range t.Processes {
			names = append(names, p.ServiceName)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxServices)]
}
