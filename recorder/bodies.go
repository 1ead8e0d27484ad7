package recorder

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	// compressFrom is the size in bytes from which compressing is tried: below, a
	// file takes its one block either way.
	compressFrom = 4 << 10
	// storedBodyLimit bounds what Get unpacks, in bytes, whatever a file claims.
	storedBodyLimit = 256 << 20
	// memoLimit bounds the kept answers, and the digests that are known to be stored.
	memoLimit = 1 << 14
)

// Bodies is a folder of response bodies, each stored once under its sha256:
// ab/cd/abcd….raw, or .gz where compressing pays. The episodes of a run share
// one. It is safe for concurrent use, by several processes too: a file is
// complete when it has its name, and two writers of one body write the same.
type Bodies struct {
	dir  string
	temp atomic.Uint64

	mu    sync.RWMutex
	known map[string]struct{} // digests that are surely stored
	memo  map[any]kept
}

// kept is what was worked out for an answer that is sent again and again.
type kept struct {
	wire   int // bytes on the wire
	size   int // bytes as stored
	digest string
}

// OpenBodies opens the folder and makes it where it doesn't exist.
func OpenBodies(dir string) (*Bodies, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("bodies: %w", err)
	}
	return &Bodies{dir: dir, known: map[string]struct{}{}, memo: map[any]kept{}}, nil
}

// Digest is the name of a body: its sha256 in lower-case hexadecimal.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// validDigest keeps path elements out: digests come from records, which may be forged.
func validDigest(digest string) bool {
	if len(digest) != 2*sha256.Size {
		return false
	}
	for _, c := range []byte(digest) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func (b *Bodies) path(digest string) string {
	return filepath.Join(b.dir, digest[:2], digest[2:4], digest)
}

// Put stores a body and returns its digest. added is the number of bytes that
// this took on disk, 0 when the body was there.
func (b *Bodies) Put(body []byte) (digest string, added int, err error) {
	digest = Digest(body)
	added, err = b.put(digest, body)
	return digest, added, err
}

func (b *Bodies) has(digest string) bool {
	b.mu.RLock()
	_, ok := b.known[digest]
	b.mu.RUnlock()
	if ok {
		return true
	}
	for _, suffix := range []string{".raw", ".gz"} {
		if _, err := os.Stat(b.path(digest) + suffix); err == nil {
			b.remember(digest)
			return true
		}
	}
	return false
}

func (b *Bodies) remember(digest string) {
	b.mu.Lock()
	if len(b.known) >= memoLimit {
		clear(b.known)
	}
	b.known[digest] = struct{}{}
	b.mu.Unlock()
}

func (b *Bodies) put(digest string, body []byte) (int, error) {
	if b.has(digest) {
		return 0, nil
	}
	data, suffix := body, ".raw"
	if len(body) >= compressFrom {
		if packed := pack(body); len(packed) < len(body)*4/5 {
			data, suffix = packed, ".gz"
		}
	}
	final := b.path(digest) + suffix
	// The name is this process' and this write's own; a kill leaves it behind, never a part of a body under its digest.
	temp := filepath.Join(b.dir, "tmp-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(b.temp.Add(1), 36))
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return 0, errors.Join(fmt.Errorf("bodies: %w", err), os.Remove(temp))
	}
	err := os.Rename(temp, final)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(final), 0o755); err == nil {
			err = os.Rename(temp, final)
		}
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("bodies: %w", err), os.Remove(temp))
	}
	b.remember(digest)
	return len(data), nil
}

// Get reads a body. The error is fs.ErrNotExist for a digest that isn't stored,
// and tells of a file whose content isn't that of its name.
func (b *Bodies) Get(digest string) ([]byte, error) {
	if !validDigest(digest) {
		return nil, fmt.Errorf("bodies: %q is no sha256 digest", digest)
	}
	path := b.path(digest)
	body, err := readBounded(path + ".raw")
	if errors.Is(err, fs.ErrNotExist) {
		body, err = readBounded(path + ".gz")
		if err == nil {
			body, err = unpack(body, storedBodyLimit)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bodies: %s: %w", digest, err)
	}
	if Digest(body) != digest {
		return nil, fmt.Errorf("bodies: %s: the file's content has another digest: it was changed or damaged", digest)
	}
	return body, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > storedBodyLimit {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, storedBodyLimit)
	}
	body := make([]byte, info.Size())
	n, err := io.ReadFull(f, body)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return body[:n], nil
}

var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return w
}}

func pack(body []byte) []byte {
	var out bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&out)
	_, _ = w.Write(body) // a bytes.Buffer doesn't fail
	_ = w.Close()
	return out.Bytes()
}

var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpack decodes gzip up to limit bytes. What was decoded before an error is
// returned with it: of a cut body the start is still known.
func unpack(packed []byte, limit int64) ([]byte, error) {
	r := unpackers.Get().(*gzip.Reader)
	defer unpackers.Put(r)
	if err := r.Reset(bytes.NewReader(packed)); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Grow(min(4*len(packed), 1<<20))
	n, err := io.Copy(&out, io.LimitReader(r, limit+1))
	if n > limit {
		out.Truncate(int(limit))
		err = fmt.Errorf("more than %d bytes are packed", limit)
	}
	return out.Bytes(), err
}

// recall returns what was worked out for the kept answer key.
func (b *Bodies) recall(key any) (kept, bool) {
	if key == nil {
		return kept{}, false
	}
	b.mu.RLock()
	k, ok := b.memo[key]
	b.mu.RUnlock()
	return k, ok
}

func (b *Bodies) keep(key any, k kept) {
	if key == nil || !reflect.TypeOf(key).Comparable() {
		return
	}
	b.mu.Lock()
	if len(b.memo) >= memoLimit {
		clear(b.memo)
	}
	b.memo[key] = k
	b.mu.Unlock()
}
