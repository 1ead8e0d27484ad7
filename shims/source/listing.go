package source

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/munnerz/goautoneg"
)

// maxListing bounds a listing, in bytes.
const maxListing = 64 << 20

// listing is what is in a folder, as JSON.
type listing struct {
	// App and Path are empty for the list of apps; Path ends in a slash unless it is
	// the tree itself.
	App  string `json:"app,omitempty"`
	Path string `json:"path,omitempty"`
	// NotCaptured says why there may be more than what is listed.
	NotCaptured string  `json:"notCaptured,omitempty"`
	Entries     []entry `json:"entries"`
}

// entry is one file or folder.
type entry struct {
	Name string `json:"name"`
	// Path is that in the app's tree; of an app its name.
	Path string `json:"path"`
	// Type is "file" or "dir".
	Type string `json:"type"`
	// Size of a file in bytes.
	Size *int64 `json:"size,omitempty"`
	// Repository is what git clones, beside the app.
	Repository string `json:"repository,omitempty"`
}

// line is an entry of a text: as it follows the folder's address, in quotes where it
// would be more than one line or look like one in quotes.
func (e entry) line(folder string) string {
	text := strings.TrimPrefix(e.Path, folder)
	if e.Type == "dir" {
		text += "/"
	}
	if strings.HasPrefix(text, `"`) || strings.HasPrefix(text, notWhole) || strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}

// notWhole begins the last line of a text, and a paragraph of a page, that says that
// there may be more.
const notWhole = "# not captured whole: "

var page = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<h1>{{.Title}}</h1>
{{if .Up}}<p><a href="../">up</a></p>
{{end}}<ul>
{{range .Links}}<li><a href="{{.To}}">{{.Text}}</a></li>
{{end}}</ul>
{{with .Note}}<p>{{.}}</p>
{{end}}</html>
`))

// link is an entry of a page.
type link struct{ To, Text string }

func (a *api) listApps(w http.ResponseWriter, req *http.Request) error {
	l := listing{NotCaptured: strings.TrimPrefix(a.fixture.WhyNot("source"), ": ")}
	for name := range a.apps {
		e := entry{Name: name, Path: name, Type: "dir"}
		if repository := name + ".git"; a.apps[repository] == nil {
			e.Repository = repository
		}
		l.Entries = append(l.Entries, e)
	}
	slices.SortFunc(l.Entries, func(x, y entry) int { return strings.Compare(x.Name, y.Name) })
	recursive, err := isRecursive(req)
	if err != nil {
		return err
	}
	if recursive {
		return refuse(http.StatusBadRequest, "the files of one app are listed at once, not those of all: ask /<app>/?recursive=true")
	}
	return l.send(w, req, func(*entry) {})
}

func (a *api) listFolder(w http.ResponseWriter, req *http.Request, one *app, folder string) error {
	recursive, err := isRecursive(req)
	if err != nil {
		return err
	}
	l := listing{App: one.name, Path: folder, NotCaptured: a.lacking(one, folder)}
	first, _ := slices.BinarySearch(one.files, folder)
	for _, file := range one.files[first:] {
		rest, ok := strings.CutPrefix(file, folder)
		if !ok {
			break
		}
		e := entry{Name: path.Base(file), Path: file, Type: "file"}
		if name, _, nested := strings.Cut(rest, "/"); nested && !recursive {
			e = entry{Name: name, Path: folder + name, Type: "dir"}
			if n := len(l.Entries); n > 0 && l.Entries[n-1].Path == e.Path {
				continue
			}
		}
		l.Entries = append(l.Entries, e)
	}
	return l.send(w, req, func(e *entry) {
		if size, ok := a.size(one, e.Path); e.Type == "file" && ok {
			e.Size = &size
		}
	})
}

func isRecursive(req *http.Request) (bool, error) {
	text := req.URL.Query().Get("recursive")
	if text == "" {
		return false, nil
	}
	recursive, err := strconv.ParseBool(text)
	if err != nil {
		return false, refuse(http.StatusBadRequest, "recursive is true or false")
	}
	return recursive, nil
}

// size is a file's. It is known by reading it, once.
func (a *api) size(one *app, file string) (size int64, ok bool) {
	one.mu.Lock()
	size, ok = one.sizes[file]
	one.mu.Unlock()
	if ok {
		return size, true
	}
	data, err := a.read(one, file)
	if err != nil {
		return 0, false
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.sizes[file] = int64(len(data))
	return int64(len(data)), true
}

// send answers with a listing in the form that is asked for; measure completes an entry
// where the form tells of it.
func (l listing) send(w http.ResponseWriter, req *http.Request, measure func(*entry)) error {
	form, err := formOf(req)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	contentType := textType
	switch form {
	case "json":
		contentType = "application/json"
		for i := range l.Entries {
			measure(&l.Entries[i])
		}
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false) // names as they are
		err = e.Encode(l)
	case "html":
		contentType = "text/html; charset=utf-8"
		err = page.Execute(&body, l.page(req))
	default:
		for _, e := range l.Entries {
			body.WriteString(e.line(l.Path))
			body.WriteByte('\n')
		}
		if l.NotCaptured != "" {
			body.WriteString(notWhole + oneLine(l.NotCaptured) + "\n")
		}
	}
	if err != nil {
		return err
	}
	if body.Len() > maxListing {
		return refuse(http.StatusInsufficientStorage, "the listing is larger than %d MiB: list a folder below", maxListing>>20)
	}
	w.Header().Set("Vary", "Accept")
	send(w, req, contentType, digest(body.Bytes()), body.Bytes())
	return nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// page is what the template takes.
func (l listing) page(req *http.Request) any {
	// Links are relative. Without a slash at its end, the address of the list of apps is
	// that of its parent to a browser.
	base := "./"
	if req.URL.Path == "" {
		address, _, _ := strings.Cut(req.RequestURI, "?")
		base += path.Base(address) + "/"
	}
	var links []link
	for _, e := range l.Entries {
		parts := strings.Split(strings.TrimPrefix(e.Path, l.Path), "/")
		for i := range parts {
			parts[i] = url.PathEscape(parts[i])
		}
		to := base + strings.Join(parts, "/")
		if e.Type == "dir" {
			to += "/"
		}
		links = append(links, link{to, e.line(l.Path)})
	}
	title, note := "source", ""
	if l.App != "" {
		title = l.App + "/" + l.Path
	}
	if l.NotCaptured != "" {
		note = notWhole + l.NotCaptured
	}
	return map[string]any{"Title": title, "Up": l.App != "", "Links": links, "Note": note}
}

// formOf is the form in which a listing is asked for.
func formOf(req *http.Request) (string, error) {
	switch form := req.URL.Query().Get("format"); form {
	case "json", "text", "html":
		return form, nil
	case "":
	default:
		return "", refuse(http.StatusBadRequest, "format is text, json or html")
	}
	// The first is what a client gets that takes anything, such as curl.
	switch goautoneg.Negotiate(strings.Join(req.Header.Values("Accept"), ","), []string{"text/plain", "application/json", "text/html"}) {
	case "application/json":
		return "json", nil
	case "text/html":
		return "html", nil
	}
	return "text", nil
}
