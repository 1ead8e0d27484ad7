package apiserver

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
)

// builtInOpenAPI are the documents of the Kubernetes version that the binary is
// built from, for cases that came without.
//
//go:generate builtin/openapi/update.sh
//go:embed builtin/openapi/*.json.gz
var builtInOpenAPI embed.FS

// openAPISource finds OpenAPI documents by the name that they have in a case: the
// captured one, else the binary's own for built-in groups and one that is made
// from the definitions for custom resources.
type openAPISource struct {
	snapshot *snapshot
	mu       sync.Mutex
	made     map[string][]byte
}

func newOpenAPISource(s *snapshot) *openAPISource {
	return &openAPISource{snapshot: s, made: map[string][]byte{}}
}

const (
	openAPIV2Name    = "openapi/v2.json"
	openAPIIndexName = "openapi/v3/index.json"
)

// document returns a document's JSON; fs.ErrNotExist for one that isn't served.
func (s *openAPISource) document(name string) ([]byte, error) {
	data, err := s.snapshot.fixture.Document(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return bytes.TrimSpace(data), err
	}
	if name != openAPIV2Name && s.captured() {
		return nil, err // the captured index names all that the cluster had
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if data, ok := s.made[name]; ok {
		return data, nil
	}
	switch {
	case name == openAPIIndexName:
		data, err = s.index()
	case name == openAPIV2Name:
		data, err = builtInDocument("v2")
	default:
		data, err = s.groupVersion(strings.TrimSuffix(strings.TrimPrefix(name, "openapi/v3/"), ".json"))
	}
	if err != nil {
		return nil, err
	}
	s.made[name] = data
	return data, nil
}

// captured reports whether the case has OpenAPI v3 documents.
func (s *openAPISource) captured() bool {
	_, err := s.snapshot.fixture.Document(openAPIIndexName)
	return err == nil
}

// index lists the documents of all versions that discovery has, each by the hash
// of its content.
func (s *openAPISource) index() ([]byte, error) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for gv := range s.snapshot.api.resources {
		path := "apis/" + gv.String()
		if gv.Group == "" {
			path = "api/" + gv.Version
		}
		data, err := s.groupVersion(strings.ReplaceAll(path, "/", "_"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // an aggregated API, whose documents are its own
		}
		if err != nil {
			return nil, err
		}
		paths[path] = entry{fmt.Sprintf("/openapi/v3/%s?hash=%X", path, sha512.Sum512(data))}
	}
	return json.Marshal(map[string]any{"paths": paths})
}

// groupVersion is the document of a version by its name, such as "apis_apps_v1".
func (s *openAPISource) groupVersion(name string) ([]byte, error) {
	for gv := range s.snapshot.api.resources {
		want := "apis_" + strings.ReplaceAll(gv.String(), "/", "_")
		if gv.Group == "" {
			want = "api_" + gv.Version
		}
		if want != name {
			continue
		}
		data, err := builtInDocument(name)
		if errors.Is(err, fs.ErrNotExist) {
			return s.customResources(gv)
		}
		return data, err
	}
	return nil, fs.ErrNotExist
}

// customResources makes the document of a version of custom resources as
// apiextensions does.
func (s *openAPISource) customResources(gv schema.GroupVersion) ([]byte, error) {
	var specs []*spec3.OpenAPI
	for _, r := range s.snapshot.resources {
		if r.crdVersion == nil || r.gvr.GroupVersion() != gv {
			continue
		}
		spec, err := builder.BuildOpenAPIV3(r.crd, gv.Version, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("OpenAPI of %s: %w", r.gvr.GroupResource(), err)
		}
		specs = append(specs, spec)
	}
	if len(specs) == 0 {
		return nil, fs.ErrNotExist
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI of %s: %w", gv, err)
	}
	return json.Marshal(merged)
}

func builtInDocument(name string) ([]byte, error) {
	file, err := builtInOpenAPI.Open("builtin/openapi/" + name + ".json.gz")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(text)
	if err != nil {
		return nil, err
	}
	compact := &bytes.Buffer{}
	err = json.Compact(compact, data)
	return compact.Bytes(), err
}
