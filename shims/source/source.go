// Package source serves the source trees of a case's services: as folders and files over
// HTTP, and as repositories that git clones.
//
// Everything is answered from source/<app>/… of the case, byte for byte, and nothing is
// moved into an episode's time: a source tree has no present. An app whose source wasn't
// captured is refused with status 501. A captured tree is whole, so that a path that it
// doesn't have is 404, unless the case's coverage says that a part of it is missing, which
// is 501 with the reason. Nothing can be changed: what tries is refused with 403.
//
// A request's path is only ever compared with the names of the case's documents; it is
// never made into a path of a file.
package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
	"weak"

	"github.com/kubecase/kubecase/fixtures"
	"github.com/kubecase/kubecase/fixtures/clock"
)

const (
	// root is where the source trees of a case are, by app.
	root = "source/"
	// textType is the content type of listings and of source text. The repositories' own
	// text is plainType, without a charset, as git's own server has it: by that Delivered
	// tells it from a file.
	textType, plainType = "text/plain; charset=utf-8", "text/plain"
	// maxPath is the longest path of a file in a case, in bytes.
	maxPath = 4096
)

// Shim answers for any number of cases. It is safe for concurrent use.
type Shim struct {
	bounds bounds
	// building is held by who makes a repository: they are made one after the other, so
	// that the memory for it is needed once.
	building chan struct{}

	mu sync.Mutex
	// trees by case. A case that nobody holds any more takes its own along.
	trees map[weak.Pointer[fixtures.Case]]map[string]*app
	// kept are the apps whose repositories are in memory, the least recently used first.
	kept []*app
}

// app is the source tree of one app. files never change.
type app struct {
	name string
	// files are paths in the tree, sorted.
	files []string

	mu sync.Mutex
	// sizes of files in bytes, as far as they were asked for.
	sizes map[string]int64
	// repository is made when it is first asked for; Shim.mu guards it.
	repository *repository
	// refused is why there is none; Shim.mu guards it.
	refused error
}

// New returns a shim that has read nothing yet.
func New() *Shim {
	return &Shim{bounds: defaultBounds, building: make(chan struct{}, 1), trees: map[weak.Pointer[fixtures.Case]]map[string]*app{}}
}

// Handler serves the source trees of a case:
//
//	/                the apps
//	/<app>/<folder>/ what is in a folder; ?recursive=true: all files below it
//	/<app>/<file>    a file's bytes
//	/<app>.git/…     the tree as a repository of one commit, for git's dumb protocol
//
// A listing is text, one entry a line, JSON or HTML, by Accept or ?format=text|json|html.
// The clock is not asked. The case must stay open for as long as it is asked.
func (s *Shim) Handler(c *fixtures.Case, _ clock.Clock) http.Handler {
	a := &api{shim: s, fixture: c, apps: s.appsOf(c)}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := a.answer(w, req); err != nil {
			code, text := http.StatusInternalServerError, err.Error()
			if r := (refusal{}); errors.As(err, &r) {
				code = r.code
			}
			w.Header().Set("Content-Security-Policy", policy)
			http.Error(w, text, code)
		}
	})
}

// appsOf are the apps of a case, which are looked for once.
func (s *Shim) appsOf(c *fixtures.Case) map[string]*app {
	key := weak.Make(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if apps, ok := s.trees[key]; ok {
		return apps
	}
	apps := map[string]*app{}
	for _, name := range c.DocumentNames() {
		rest, ok := strings.CutPrefix(name, root)
		if !ok {
			continue
		}
		of, file, nested := strings.Cut(rest, "/")
		if !nested {
			continue // a file beside the apps is of none
		}
		if apps[of] == nil {
			apps[of] = &app{name: of, sizes: map[string]int64{}}
		}
		apps[of].files = append(apps[of].files, file)
	}
	s.trees[key] = apps
	runtime.AddCleanup(c, s.forget, key)
	return apps
}

func (s *Shim) forget(key weak.Pointer[fixtures.Case]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.trees[key] {
		s.kept = slices.DeleteFunc(s.kept, func(k *app) bool { return k == one })
	}
	delete(s.trees, key)
}

// api answers for one case.
type api struct {
	shim    *Shim
	fixture *fixtures.Case
	apps    map[string]*app
}

// refusal is an answer that is none: a status and a text.
type refusal struct {
	code int
	text string
}

func (r refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return refusal{code, fmt.Sprintf(format, args...)}
}

var errReadOnly = refusal{http.StatusForbidden, "the captured source is read-only: nothing can be pushed to it or changed in it"}

// answer writes an answer, or nothing and an error.
func (a *api) answer(w http.ResponseWriter, req *http.Request) error {
	switch req.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return errReadOnly
	default:
		w.Header().Set("Allow", "GET, HEAD")
		return refuse(http.StatusMethodNotAllowed, "the captured source can only be read, with GET or HEAD")
	}
	asked := strings.TrimPrefix(req.URL.Path, "/")
	if len(asked) > maxPath {
		return refuse(http.StatusNotFound, "no path in a source tree is that long")
	}
	name, rest, below := strings.Cut(asked, "/")
	if asked == "" {
		if len(a.apps) == 0 {
			return refuse(http.StatusNotImplemented, "not captured: the source of no app was captured%s", a.fixture.WhyNot("source"))
		}
		return a.listApps(w, req)
	}
	if one := a.apps[name]; one != nil {
		if !below {
			redirect(w, req, "./"+url.PathEscape(name)+"/")
			return nil
		}
		return a.tree(w, req, one, rest)
	}
	bare, isRepository := strings.CutSuffix(name, ".git")
	if one := a.apps[bare]; isRepository && one != nil {
		return a.git(w, req, one, rest)
	}
	if !isRepository {
		bare = name
	}
	return refuse(http.StatusNotImplemented, "not captured: the source of %q was not captured%s", bare, a.fixture.WhyNot(root+bare, "source"))
}

// tree answers for a path in the tree of an app.
func (a *api) tree(w http.ResponseWriter, req *http.Request, one *app, at string) error {
	if at == "info/refs" && req.URL.Query().Has("service") && a.apps[one.name+".git"] == nil {
		// git was given the tree's address: it follows to the repository's.
		redirect(w, req, "../../"+url.PathEscape(one.name+".git")+"/info/refs")
		return nil
	}
	if at == "" || strings.HasSuffix(at, "/") {
		if !one.hasFolder(at) {
			return a.missing(one, strings.TrimSuffix(at, "/"))
		}
		return a.listFolder(w, req, one, at)
	}
	if _, found := slices.BinarySearch(one.files, at); !found {
		if one.hasFolder(at + "/") {
			redirect(w, req, "./"+url.PathEscape(path.Base(at))+"/")
			return nil
		}
		return a.missing(one, at)
	}
	data, err := a.read(one, at)
	if err != nil {
		return err
	}
	contentType := "application/octet-stream"
	if utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		contentType = textType
	}
	send(w, req, contentType, digest(data), data)
	return nil
}

// read gives a file's bytes. The error tells neither the case's name nor its place.
func (a *api) read(one *app, file string) ([]byte, error) {
	data, err := a.fixture.Document(root + one.name + "/" + file)
	if err != nil {
		return nil, refuse(http.StatusInternalServerError, "%q of the source of %q can't be read", file, one.name)
	}
	return data, nil
}

// hasFolder reports a folder of the tree: "" or a path that ends in a slash.
func (one *app) hasFolder(folder string) bool {
	i, _ := slices.BinarySearch(one.files, folder)
	return i < len(one.files) && strings.HasPrefix(one.files[i], folder)
}

// missing is the answer for a path that the tree doesn't have.
func (a *api) missing(one *app, at string) error {
	if why := a.lacking(one, at); why != "" && fs.ValidPath(at) {
		return refuse(http.StatusNotImplemented, "not captured: %q of the source of %q was not captured: %s", at, one.name, why)
	}
	return refuse(http.StatusNotFound, "the source of %q has no %q", one.name, at)
}

// lacking says why a path in an app's tree wasn't captured or not whole, by the case's
// coverage; empty when it was. The path "" is the whole tree.
func (a *api) lacking(one *app, at string) string {
	if a.fixture.Manifest() == nil {
		return ""
	}
	within := func(place, other string) bool { return place == other || strings.HasPrefix(place, other+"/") }
	tree := root + one.name
	place := strings.TrimSuffix(tree+"/"+at, "/")
	var reasons []string
	for _, b := range a.fixture.Manifest().Coverage.Besides {
		what := strings.TrimSuffix(b.What, "/")
		if within(what, tree) && (within(place, what) || within(what, place)) && !slices.Contains(reasons, b.Reason) {
			reasons = append(reasons, b.Reason)
		}
	}
	return strings.Join(reasons, "; ")
}

// redirect leads to a relative address with the same query: the path below which this is
// mounted isn't known here.
func redirect(w http.ResponseWriter, req *http.Request, to string) {
	if req.URL.RawQuery != "" {
		to += "?" + req.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusMovedPermanently)
}

// policy lets a page load and run nothing.
const policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// send answers with a body, whole or the one range of it that is asked for, or says that
// the client has it already. There is no time of modification: none was captured.
func send(w http.ResponseWriter, req *http.Request, contentType, tag string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", policy)
	h.Set("ETag", `"`+tag+`"`)
	if strings.Contains(req.Header.Get("Range"), ",") {
		req = req.Clone(req.Context())
		req.Header.Del("Range") // several ranges would come in a form of their own
	}
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(body))
}

// digest names a body.
func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}
