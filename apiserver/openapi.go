package apiserver

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"
	openapi2 "k8s.io/kube-openapi/pkg/handler"
	openapi3 "k8s.io/kube-openapi/pkg/handler3"
)

// openAPIHandlers serve a cluster's OpenAPI documents as kube-openapi does.
// A document is read when it is asked for, and parsed only for protobuf.
type openAPIHandlers struct {
	source *openAPISource
	mu     sync.Mutex
	// protobuf forms by name in the case; they are costly to make.
	protobuf map[string][]byte
}

func newOpenAPIHandlers(s *snapshot) *openAPIHandlers {
	return &openAPIHandlers{source: newOpenAPISource(s), protobuf: map[string][]byte{}}
}

const (
	jsonForm = iota
	protobufForm
)

// openAPIForms are the media subtypes that kube-openapi accepts, by version of
// OpenAPI, and what it calls its answer.
var openAPIForms = map[string][]struct {
	subType, contentType string
	form                 int
}{
	"v2": {
		{"json", "application/json", jsonForm},
		{"com.github.proto-openapi.spec.v2@v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", protobufForm},
		{"com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", protobufForm},
	},
	"v3": {
		{"json", "application/json", jsonForm},
		{"com.github.proto-openapi.spec.v3@v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf", protobufForm},
		{"com.github.proto-openapi.spec.v3.v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf", protobufForm},
	},
}

func (h *openAPIHandlers) toProtobuf(name string, text []byte, convert func([]byte) ([]byte, error)) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if data, ok := h.protobuf[name]; ok {
		return data, nil
	}
	data, err := convert(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	h.protobuf[name] = data
	return data, nil
}

// serveV2 answers /openapi/v2.
func (h *openAPIHandlers) serveV2(w http.ResponseWriter, req *http.Request) error {
	text, err := h.source.document(openAPIV2Name)
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Add("Vary", "Accept")
	contentType, form, ok := negotiateOpenAPI(req, "v2")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	return h.serve(w, req, openAPIV2Name, openAPITag(text), text, contentType, form, openapi2.ToProtoBinary)
}

// serveV3 answers /openapi/v3 and what is below it.
func (h *openAPIHandlers) serveV3(w http.ResponseWriter, req *http.Request) error {
	const root = "/openapi/v3"
	if req.URL.Path == root {
		index, err := h.source.document(openAPIIndexName)
		if err != nil {
			return err
		}
		http.ServeContent(w, req, "", episodeFrom(req.Context()).Start, bytes.NewReader(index))
		return nil
	}
	group := strings.TrimPrefix(req.URL.Path, root+"/")
	name := "openapi/v3/" + strings.ReplaceAll(group, "/", "_") + ".json"
	if group == "" || strings.Contains(group, "..") || group == "index" {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	data, err := h.source.document(name)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	contentType, form, ok := negotiateOpenAPI(req, "v3")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	w.Header().Add("Vary", "Accept")
	tag := openAPITag(data)
	if hash := req.URL.Query().Get("hash"); hash != "" {
		if hash != tag {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Etag", fmt.Sprintf("%q", tag))
			http.Redirect(w, req, fmt.Sprintf("%s%s?hash=%s", episodeFrom(req.Context()).Path(), req.URL.Path, tag), http.StatusMovedPermanently)
			return nil
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	return h.serve(w, req, name, tag, data, contentType, form, openapi3.ToV3ProtoBinary)
}

// openAPITag is a document's tag, which is that of the JSON form in every form.
func openAPITag(text []byte) string { return fmt.Sprintf("%X", sha512.Sum512(text)) }

// serve writes a document.
func (h *openAPIHandlers) serve(w http.ResponseWriter, req *http.Request, name, tag string, text []byte, contentType string, form int, convert func([]byte) ([]byte, error)) error {
	data := text
	if form == protobufForm {
		var err error
		if data, err = h.toProtobuf(name, text, convert); err != nil {
			return err
		}
	}
	w.Header().Set("Etag", fmt.Sprintf("%q", tag))
	w.Header().Set("Content-Type", contentType)
	http.ServeContent(w, req, "", episodeFrom(req.Context()).Start, bytes.NewReader(data))
	return nil
}

func negotiateOpenAPI(req *http.Request, version string) (contentType string, form int, ok bool) {
	accept := req.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, f := range openAPIForms[version] {
			if clause.Type != "application" && clause.Type != "*" || clause.SubType != f.subType && clause.SubType != "*" {
				continue
			}
			return f.contentType, f.form, true
		}
	}
	return "", 0, false
}
