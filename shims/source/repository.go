package source

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// bounds are those of one repository, and of all that are kept. The first two are what a
// capture takes of a source tree.
type bounds struct {
	files, folders int
	// bytes of a repository's objects; kept is that of packs in memory.
	bytes, kept int64
}

var defaultBounds = bounds{files: 20_000, folders: 100_000, bytes: 256 << 20, kept: 512 << 20}

// repository is a source tree as git has it: one commit in one pack.
type repository struct {
	commit, pack plumbing.Hash
	// data and index are the files of the pack.
	data, index []byte
}

func (r *repository) size() int64 { return int64(len(r.data) + len(r.index)) }

// git answers for a file of the repository of an app, as git's dumb protocol asks for them.
// What isn't there is 404, by which git goes on to look for it in the pack.
func (a *api) git(w http.ResponseWriter, req *http.Request, one *app, file string) error {
	if req.URL.Query().Get("service") == "git-receive-pack" {
		return errReadOnly
	}
	packed, isPack := strings.CutPrefix(file, "objects/pack/pack-")
	switch file {
	case "HEAD", "info/refs", "objects/info/packs":
	default:
		if !isPack {
			return refuse(http.StatusNotFound, "the repository of the source of %q has no %q", one.name, file)
		}
	}
	r, err := a.repository(req, one)
	if err != nil {
		return err
	}
	text, contentType := []byte(nil), plainType
	switch {
	case file == "HEAD":
		text = []byte("ref: refs/heads/main\n")
	case file == "info/refs":
		text = fmt.Appendf(nil, "%s\trefs/heads/main\n", r.commit)
	case file == "objects/info/packs":
		text = fmt.Appendf(nil, "P pack-%s.pack\n\n", r.pack)
	case packed == r.pack.String()+".pack":
		text, contentType = r.data, packType
	case packed == r.pack.String()+".idx":
		text, contentType = r.index, "application/x-git-packed-objects-toc"
	default:
		return refuse(http.StatusNotFound, "the repository of the source of %q has no %q", one.name, file)
	}
	tag := r.pack.String()
	if contentType == plainType {
		tag = digest(text)
	}
	send(w, req, contentType, tag, text)
	return nil
}

// repository is that of an app: made when it is first asked for, and again after it had
// to make place for others.
func (a *api) repository(req *http.Request, one *app) (*repository, error) {
	s := a.shim
	if r, err := s.made(one); r != nil || err != nil {
		return r, err
	}
	select {
	case s.building <- struct{}{}:
		defer func() { <-s.building }()
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if r, err := s.made(one); r != nil || err != nil {
		return r, err
	}
	r, err := a.build(one)
	if err != nil {
		if refused := (refusal{}); errors.As(err, &refused) && refused.code == http.StatusInsufficientStorage {
			s.mu.Lock()
			one.refused = err
			s.mu.Unlock()
		}
		return nil, err
	}
	s.keep(one, r)
	return r, nil
}

// made is the repository of an app if it is there, and makes it the last to go.
func (s *Shim) made(one *app) (*repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.repository == nil {
		return nil, one.refused
	}
	if i := slices.Index(s.kept, one); i >= 0 {
		s.kept = append(slices.Delete(s.kept, i, i+1), one)
	}
	return one.repository, nil
}

// keep keeps a repository, and of those that were used before as many as there is place for.
func (s *Shim) keep(one *app, r *repository) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.repository = r
	s.kept = append(s.kept, one)
	total := int64(0)
	for _, k := range s.kept {
		total += k.repository.size()
	}
	for total > s.bounds.kept && len(s.kept) > 1 {
		total -= s.kept[0].repository.size()
		s.kept[0].repository = nil
		s.kept = slices.Delete(s.kept, 0, 1)
	}
}

// build makes the repository of an app: always the same, byte for byte, of the same tree.
func (a *api) build(one *app) (*repository, error) {
	b := &builder{bounds: a.shim.bounds, app: one.name, store: memory.NewStorage(), known: map[plumbing.Hash]bool{}}
	if len(one.files) > b.bounds.files {
		return nil, b.tooLarge()
	}
	var files []committed
	leftOut := 0
	for _, file := range one.files {
		if refusedByGit(file) {
			leftOut++
			continue
		}
		data, err := a.read(one, file)
		if err != nil {
			return nil, err
		}
		o := &plumbing.MemoryObject{}
		o.SetType(plumbing.BlobObject)
		if _, err := o.Write(data); err != nil {
			return nil, err
		}
		hash, err := b.add(&b.blobs, o)
		if err != nil {
			return nil, err
		}
		files = append(files, committed{file, hash})
	}
	tree, err := b.tree(files, 0)
	if err != nil {
		return nil, err
	}
	commit, err := b.commit(tree, message(a.lacking(one, ""), leftOut))
	if err != nil {
		return nil, err
	}
	return b.pack(commit)
}

// message is that of the commit. It tells nothing of the case but what is missing.
func message(lacking string, leftOut int) string {
	text := "source as captured\n"
	if lacking != "" {
		text += "\nNot captured whole: " + oneLine(lacking) + "\n"
	}
	if leftOut > 0 {
		text += fmt.Sprintf("\nWithout %d captured files whose names git refuses.\n", leftOut)
	}
	return text
}

// refusedByGit reports a path that git doesn't put into a tree, or doesn't check out
// everywhere: one with a .git in it, in any of the spellings that some file system takes
// for it.
func refusedByGit(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		// Control characters are fine with git, not with the check.
		name = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return '_'
			}
			return r
		}, name)
		if _, err := (&object.Tree{}).FindEntry(name); !errors.Is(err, object.ErrEntryNotFound) {
			return true
		}
	}
	return false
}

// builder collects the objects of a repository.
type builder struct {
	bounds       bounds
	app          string
	store        *memory.Storage
	known        map[plumbing.Hash]bool
	blobs, trees []plumbing.Hash
	bytes        int64
}

// committed is a file in a tree.
type committed struct {
	path string
	hash plumbing.Hash
}

func (b *builder) tooLarge() error {
	return refuse(http.StatusInsufficientStorage, "the source of %q is larger than a repository is made of: %d files, %d folders, %d MiB; its files can be read one by one",
		b.app, b.bounds.files, b.bounds.folders, b.bounds.bytes>>20)
}

// add keeps an object and, once, its hash among others.
func (b *builder) add(among *[]plumbing.Hash, o plumbing.EncodedObject) (plumbing.Hash, error) {
	hash := o.Hash()
	if b.known[hash] {
		return hash, nil
	}
	if b.bytes += o.Size(); b.bytes > b.bounds.bytes {
		return hash, b.tooLarge()
	}
	b.known[hash] = true
	*among = append(*among, hash)
	return b.store.SetEncodedObject(o)
}

// tree adds the tree of files, sorted by path, whose paths are equal up to a byte.
func (b *builder) tree(files []committed, at int) (plumbing.Hash, error) {
	var t object.Tree
	for len(files) > 0 {
		name, _, nested := strings.Cut(files[0].path[at:], "/")
		entry, n := object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: files[0].hash}, 1
		if nested {
			folder := files[0].path[:at+len(name)+1]
			for n < len(files) && strings.HasPrefix(files[n].path, folder) {
				n++
			}
			hash, err := b.tree(files[:n], len(folder))
			if err != nil {
				return hash, err
			}
			entry.Mode, entry.Hash = filemode.Dir, hash
		}
		t.Entries = append(t.Entries, entry)
		files = files[n:]
	}
	sort.Sort(object.TreeEntrySorter(t.Entries))
	if len(b.trees) >= b.bounds.folders {
		return plumbing.ZeroHash, b.tooLarge()
	}
	o := &plumbing.MemoryObject{}
	o.SetType(plumbing.TreeObject)
	if err := t.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return b.add(&b.trees, o)
}

// commit adds the commit of a tree. Its time is the beginning of time: when the source was
// committed was not captured, and every episode gets the same commit.
func (b *builder) commit(tree plumbing.Hash, message string) (plumbing.Hash, error) {
	by := object.Signature{Name: "source", Email: "source@localhost", When: time.Unix(0, 0).UTC()}
	o := &plumbing.MemoryObject{}
	if err := (&object.Commit{Author: by, Committer: by, Message: message, TreeHash: tree}).Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	var alone []plumbing.Hash
	return b.add(&alone, o)
}

// pack packs the objects: the commit and the trees first, so that the beginning of a pack
// tells what the rest is.
func (b *builder) pack(commit plumbing.Hash) (*repository, error) {
	slices.Reverse(b.trees) // the root was last
	var data, index bytes.Buffer
	// What can't be compressed grows by a little. To grow the buffer step by step would
	// take up to three times that.
	data.Grow(int(b.bytes+b.bytes/64) + 64*len(b.known) + 64)
	pack, err := packfile.NewEncoder(&data, b.store, false).Encode(slices.Concat([]plumbing.Hash{commit}, b.trees, b.blobs), 0)
	if err != nil {
		return nil, err
	}
	var w idxfile.Writer
	parser, err := packfile.NewParser(packfile.NewScanner(bytes.NewReader(data.Bytes())), &w)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, err
	}
	found, err := w.Index()
	if err != nil {
		return nil, err
	}
	if _, err := idxfile.NewEncoder(&index).Encode(found); err != nil {
		return nil, err
	}
	packed := data.Bytes()
	if cap(packed) > len(packed)/4*5 {
		packed = bytes.Clone(packed)
	}
	return &repository{commit: commit, pack: pack, data: packed, index: index.Bytes()}, nil
}
