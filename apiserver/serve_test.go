package apiserver_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/kubecase/kubecase/apiserver"
	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
	"github.com/kubecase/kubecase/shims/logs"
)

func init() { klog.SetLogger(logr.Discard()) }

// captured is the capture instant of the small case.
var captured = time.Date(2026, 12, 1, 0, 10, 0, 0, time.UTC)

// smallCase has one of each thing that takes a path of its own: a built-in kind
// with a captured table and one without, an object with a field that no version
// knows, a custom resource, an aggregated one, a namespace that was not swept,
// logs, and a write-only resource.
var smallCase = fstest.MapFS{
	"case.yaml": {Data: []byte(`apiVersion: kubecase.io/v1
kind: Case
name: nightingale
query: What is wrong?
capture: {time: "2026-12-01T00:10:00Z"}
coverage:
  resources:
  - {version: v1, resource: secrets, namespaces: [shop], reason: the rest was forbidden}
  - {version: v1, resource: endpoints, reason: nobody asked for it}
  logs: [shop]
`)},
	"version.json": {Data: []byte(`{"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "x", "gitTreeState": "clean", "buildDate": "2026-11-30T00:00:00Z", "goVersion": "go1", "compiler": "gc", "platform": "linux/amd64"}`)},
	"discovery/resources/api_v1.json": {Data: []byte(`{"kind": "APIResourceList", "groupVersion": "v1", "resources": [
  {"name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding", "verbs": ["create"]},
  {"name": "endpoints", "singularName": "endpoints", "namespaced": true, "kind": "Endpoints", "verbs": ["get", "list", "watch"]},
  {"name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace", "verbs": ["create", "delete", "get", "list", "watch"]},
  {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"], "shortNames": ["po"]},
  {"name": "pods/exec", "singularName": "", "namespaced": true, "kind": "PodExecOptions", "verbs": ["create", "get"]},
  {"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
  {"name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get", "patch", "update"]},
  {"name": "secrets", "singularName": "secret", "namespaced": true, "kind": "Secret", "verbs": ["create", "get", "list", "watch"]}]}`)},
	"discovery/resources/apis_example.com_v1.json": {Data: []byte(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1", "resources": [
  {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": ["get", "list", "watch"]}]}`)},
	"discovery/resources/apis_apiextensions.k8s.io_v1.json": {Data: []byte(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apiextensions.k8s.io/v1", "resources": [
  {"name": "customresourcedefinitions", "singularName": "customresourcedefinition", "namespaced": false, "kind": "CustomResourceDefinition", "verbs": ["get", "list", "watch"]}]}`)},
	"discovery/resources/apis_metrics.k8s.io_v1beta1.json": {Data: []byte(`{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
  {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"]}]}`)},
	"objects/core_v1_namespaces.json": {Data: []byte(`{"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "90"}, "items": [
  {"metadata": {"name": "shop", "resourceVersion": "1", "creationTimestamp": "2026-12-01T00:00:00Z"}, "status": {"phase": "Active"}}]}`)},
	"objects/core_v1_pods.json": {Data: []byte(`{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "100"}, "items": [
  {"metadata": {"name": "a", "namespace": "shop", "uid": "u-a", "resourceVersion": "40", "creationTimestamp": "2026-12-01T00:00:00Z", "labels": {"app": "web"}},
   "spec": {"nodeName": "n1", "futureField": {"kept": [1, 2.50]}, "containers": [{"name": "main", "image": "i"}]},
   "status": {"phase": "Running", "startTime": "2026-12-01T00:00:01Z", "containerStatuses": [{"name": "main", "ready": true, "restartCount": 2, "state": {"running": {"startedAt": "2026-12-01T00:05:00Z"}},
     "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-12-01T00:04:00Z", "containerID": "c://1"}}}]}},
  {"metadata": {"name": "b", "namespace": "shop", "uid": "u-b", "resourceVersion": "41", "creationTimestamp": "2026-12-01T00:00:00Z", "labels": {"app": "db"}},
   "spec": {"containers": [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]}, "status": {"phase": "Pending"}},
  {"metadata": {"name": "c", "namespace": "test", "uid": "u-c", "resourceVersion": "42", "creationTimestamp": "2026-12-01T00:00:00Z", "labels": {"app": "web"}},
   "spec": {"nodeName": "n2", "containers": [{"name": "main", "image": "i"}]}, "status": {"phase": "Failed"}}]}`)},
	"tables/core_v1_pods.json": {Data: []byte(`{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "100"},
 "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}, {"name": "Mood", "type": "string", "format": "", "description": "", "priority": 0}, {"name": "Status", "type": "string", "format": "", "description": "", "priority": 0}, {"name": "Restarts", "type": "string", "format": "", "description": "", "priority": 0}, {"name": "Age", "type": "string", "format": "", "description": "", "priority": 0}],
 "rows": [
  {"cells": ["a", "grim", "Captured", "2 (1m ago)", "99d"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", "namespace": "shop"}}},
  {"cells": ["b", "calm", "Captured", "0", "99d"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "b", "namespace": "shop"}}}]}`)},
	"objects/core_v1_secrets.json": {Data: []byte(`{"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "101"}, "items": [
  {"metadata": {"name": "s", "namespace": "shop", "resourceVersion": "3", "creationTimestamp": "2026-12-01T00:00:00Z"}, "type": "Opaque", "data": {"k": "MjAyNi0xMi0wMVQwMDowMDowMFo="}}]}`)},
	"objects/apiextensions.k8s.io_v1_customresourcedefinitions.json": {Data: []byte(`{"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"resourceVersion": "100"}, "items": [
  {"metadata": {"name": "widgets.example.com", "resourceVersion": "4", "creationTimestamp": "2026-12-01T00:00:00Z"},
   "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".spec.size"}],
     "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}, {"name": "Since", "type": "date", "jsonPath": ".spec.since"}]}]}}]}`)},
	"objects/example.com_v1_widgets.json": {Data: []byte(`{"apiVersion": "example.com/v1", "kind": "WidgetList", "metadata": {"resourceVersion": "100"}, "items": [
  {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop", "resourceVersion": "5", "creationTimestamp": "2026-12-01T00:00:00Z"}, "spec": {"size": "big", "since": "2026-12-01T00:07:00Z"}}]}`)},
	"objects/metrics.k8s.io_v1beta1_nodes.json": {Data: []byte(`{"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [
  {"metadata": {"name": "n2"}, "timestamp": "2026-12-01T00:09:50Z", "window": "10s", "usage": {"cpu": "100m", "memory": "1Mi"}},
  {"metadata": {"name": "n1"}, "timestamp": "2026-12-01T00:09:50Z", "window": "10s", "usage": {"cpu": "100m", "memory": "1Mi"}}]}`)},
	"logs/shop/a/main.log": {Data: []byte("2026-12-01T00:09:00.000000000Z one at 2026-12-01T00:08:59Z\n2026-12-01T00:09:30.000000000Z two\n2026-12-01T00:09:59.500000000Z three\n")},
}

func openCase(t testing.TB, files fstest.MapFS) *fixtures.Case {
	t.Helper()
	c, err := fixtures.OpenFS("small", files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// site is a running server.
type site struct {
	t      testing.TB
	api    *apiserver.Server
	web    *httptest.Server
	client *http.Client
}

func newSite(t testing.TB) *site {
	t.Helper()
	done := make(chan struct{})
	s := &site{t: t, api: apiserver.New(apiserver.Config{Logs: logs.Source{}, Done: done})}
	s.web = httptest.NewUnstartedServer(s.api)
	s.web.EnableHTTP2 = true
	s.web.StartTLS()
	s.client = s.web.Client()
	s.client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	t.Cleanup(func() {
		close(done)
		s.web.CloseClientConnections()
		s.web.Close()
	})
	return s
}

func (s *site) episode(o apiserver.EpisodeOptions) *apiserver.Episode {
	s.t.Helper()
	e, err := s.api.AddEpisode(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// answer is a response that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// call is one request: headers as "Name: value".
func (s *site) call(ctx context.Context, method, url, token string, body io.Reader, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.web.URL+url, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

func capturedReader(c *fixtures.Case) apiserver.EpisodeOptions {
	return apiserver.EpisodeOptions{Case: c, Clock: clock.Captured}
}
