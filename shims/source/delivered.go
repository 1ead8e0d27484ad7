package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/net/html"
)

// packType is the content type of a pack.
const packType = "application/x-git-packed-objects"

// Delivery is what an answer told of the source of one app.
type Delivery struct {
	// App is empty when it told nothing of any: of the list of apps, of an error, and of
	// what git asks before it has a pack.
	App string
	// Listed are the paths in the app's tree that a listing or a pack named, sorted;
	// those of folders end in a slash. Nil when nothing was listed.
	Listed []string
	// Files are those whose content was given, sorted by path.
	Files []File
}

// File is the content of a file.
type File struct {
	// Path is that in the app's tree.
	Path string
	Data []byte
	// Part reports that only a range was asked for.
	Part bool
}

// Delivered says what an answer of a Handler delivered. The target is the request's path
// and query below the handler, as it was sent: "/cart/src/a%20b.go"; contentType is the
// answer's. A pack that was cut off, as in a record that doesn't keep all of a body,
// delivers what it has, together with an error.
func Delivered(method, target, contentType string, status int, body []byte) (Delivery, error) {
	if method != http.MethodGet || status != http.StatusOK && status != http.StatusPartialContent {
		return Delivery{}, nil
	}
	u, err := url.ParseRequestURI("/" + strings.TrimPrefix(target, "/"))
	if err != nil {
		return Delivery{}, fmt.Errorf("the request's target: %w", err)
	}
	app, at, below := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	part := status == http.StatusPartialContent
	switch {
	case !below || contentType == plainType:
		return Delivery{}, nil
	case contentType == packType:
		if part {
			return Delivery{}, nil // of a part nothing can be unpacked
		}
		d, err := unpack(body)
		d.App = strings.TrimSuffix(app, ".git")
		return d, err
	case strings.HasPrefix(contentType, "application/x-git-"):
		return Delivery{}, nil
	case at != "" && !strings.HasSuffix(at, "/"):
		return Delivery{App: app, Files: []File{{at, body, part}}}, nil
	}
	listed, err := listedIn(contentType, body)
	for i := range listed {
		listed[i] = at + listed[i]
	}
	slices.Sort(listed)
	return Delivery{App: app, Listed: listed}, err
}

// listedIn are the entries of a listing, from the folder on.
func listedIn(contentType string, body []byte) ([]string, error) {
	out := []string{}
	var lines []string
	switch {
	case strings.HasPrefix(contentType, "application/json"):
		var l listing
		if err := json.Unmarshal(body, &l); err != nil {
			return nil, fmt.Errorf("the listing: %w", err)
		}
		for _, e := range l.Entries {
			text := strings.TrimPrefix(e.Path, l.Path)
			if e.Type == "dir" {
				text += "/"
			}
			out = append(out, text)
		}
		return out, nil
	case strings.HasPrefix(contentType, "text/html"):
		within := false
		for z := html.NewTokenizer(bytes.NewReader(body)); ; {
			kind := z.Next()
			if kind == html.ErrorToken {
				break
			}
			t := z.Token()
			switch {
			case t.Data == "li" && kind != html.TextToken:
				within = kind == html.StartTagToken
			case within && kind == html.TextToken:
				lines = append(lines, t.Data)
			}
		}
	default:
		for line := range strings.Lines(string(body)) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, notWhole) {
				lines = append(lines, line)
			}
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, `"`) {
			if text, err := strconv.Unquote(line); err == nil {
				line = text
			}
		}
		out = append(out, line)
	}
	return out, nil
}

var errPack = errors.New("the pack is none that this package made")

// unpack reads a pack: the files of its commit.
func unpack(data []byte) (Delivery, error) {
	s := packfile.NewScanner(bytes.NewReader(data))
	_, n, err := s.Header()
	if err != nil {
		return Delivery{}, fmt.Errorf("the pack: %w", err)
	}
	if int64(n) > int64(defaultBounds.files+defaultBounds.folders+1) {
		return Delivery{}, errPack
	}
	u := unpacked{trees: map[plumbing.Hash]*object.Tree{}, blobs: map[plumbing.Hash][]byte{}}
	var root plumbing.Hash
	total := int64(0)
	for range n {
		var content []byte
		var kind plumbing.ObjectType
		if kind, content, err = nextObject(s, &total); err != nil {
			break
		}
		o := &plumbing.MemoryObject{}
		o.SetType(kind)
		if _, err = o.Write(content); err != nil {
			break
		}
		switch kind {
		case plumbing.CommitObject:
			var c object.Commit
			err = c.Decode(o)
			root = c.TreeHash
		case plumbing.TreeObject:
			t := &object.Tree{}
			err = t.Decode(o)
			u.trees[o.Hash()] = t
		case plumbing.BlobObject:
			u.blobs[o.Hash()] = content
		default:
			err = errPack
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("the pack: %w", err)
	}
	u.walk(root, "", 0)
	slices.Sort(u.Listed)
	slices.SortFunc(u.Files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	if u.visited > defaultBounds.files+defaultBounds.folders {
		err = errors.Join(err, errPack)
	}
	return u.Delivery, err
}

// nextObject reads an object; total is how many bytes those so far had.
func nextObject(s *packfile.Scanner, total *int64) (plumbing.ObjectType, []byte, error) {
	h, err := s.NextObjectHeader()
	if err != nil {
		return 0, nil, err
	}
	if h.Length < 0 || h.Length > defaultBounds.bytes-*total {
		return 0, nil, errPack
	}
	*total += h.Length
	var content bytes.Buffer
	if _, _, err := s.NextObject(&content); err != nil {
		return 0, nil, err
	}
	if int64(content.Len()) != h.Length {
		return 0, nil, errPack
	}
	return h.Type, content.Bytes(), nil
}

// unpacked are the objects of a pack, and what was found of its commit.
type unpacked struct {
	Delivery
	trees   map[plumbing.Hash]*object.Tree
	blobs   map[plumbing.Hash][]byte
	visited int
}

// walk finds the files below a tree.
func (u *unpacked) walk(tree plumbing.Hash, folder string, depth int) {
	t := u.trees[tree]
	if t == nil || depth > maxPath {
		return
	}
	if u.Listed == nil {
		u.Listed = []string{}
	}
	for _, e := range t.Entries {
		if u.visited++; u.visited > defaultBounds.files+defaultBounds.folders {
			return
		}
		at := folder + e.Name
		if e.Mode == filemode.Dir {
			u.walk(e.Hash, at+"/", depth+1)
			continue
		}
		u.Listed = append(u.Listed, at)
		if data, ok := u.blobs[e.Hash]; ok {
			u.Files = append(u.Files, File{Path: at, Data: data})
		}
	}
}
