package recorder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// The newest lines of a record are put into memory that belongs to a file, TailFile: the system
// keeps it when the process is killed, and a line costs a copy instead of a call of the system,
// which would be a tenth of a small request. A moment later they are moved to AuditFile, many at once.
//
// TailFile is: the offset in AuditFile at which its lines belong (8 bytes, little endian), the
// lines, zeros. AuditFile may hold some of the lines already, so it is longer than that offset then.
// No line holds a zero byte; one that was being copied when the process ended is followed or
// interrupted by one.
const (
	tailHeader = 8
	// tailSize is some 350 lines.
	tailSize = 256 << 10
	// longLine is what is written to AuditFile at once, in bytes.
	longLine = tailSize / 4
)

// tail is the mapped TailFile of an open Log. A nil tail takes no line.
type tail struct {
	memory []byte
	moved  int // bytes that are in AuditFile
	used   int // bytes of lines
	path   string
	unmap  func() error
}

// newTail makes the file anew. All its bytes are written, so that the disk has room for them.
func newTail(dir string, base int64) (*tail, error) {
	path := filepath.Join(dir, TailFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	content := make([]byte, tailSize)
	binary.LittleEndian.PutUint64(content, uint64(base))
	_, err = file.Write(content)
	var memory []byte
	var unmap func() error
	if err == nil {
		memory, unmap, err = mapShared(file, tailSize)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &tail{memory: memory, path: path, unmap: unmap}, nil
}

// put takes a line if there is room for it.
func (t *tail) put(line []byte) (ok bool, err error) {
	if t == nil || len(line) > longLine || len(line) > len(t.memory)-tailHeader-t.used {
		return false, nil
	}
	defer caught(&err, debug.SetPanicOnFault(true))
	copy(t.memory[tailHeader+t.used:], line)
	t.used += len(line)
	return true, nil
}

// caught turns the fault of a file that was cut, or that has no room after all, into an error.
func caught(err *error, before bool) {
	debug.SetPanicOnFault(before)
	if p := recover(); p != nil {
		if _, fault := p.(interface{ Addr() uintptr }); !fault {
			panic(p)
		}
		*err = fmt.Errorf("%s can't be written to: was it cut, or is the disk full? (%v)", TailFile, p)
	}
}

// waiting are the bytes that AuditFile doesn't have.
func (t *tail) waiting() []byte {
	if t == nil {
		return nil
	}
	return t.memory[tailHeader+t.moved : tailHeader+t.used]
}

// empty forgets the lines, all of which are in AuditFile, which ends at base. The order matters: who
// reads the file in between, or after the process was killed, finds no line twice.
func (t *tail) empty(base int64) (err error) {
	if t == nil {
		return nil
	}
	defer caught(&err, debug.SetPanicOnFault(true))
	clear(t.memory[tailHeader : tailHeader+t.used])
	// The mapping begins at a page, so that the header is one word.
	(*atomic.Uint64)(unsafe.Pointer(&t.memory[0])).Store(uint64(base))
	t.moved, t.used = 0, 0
	return nil
}

// close gives the memory back; the file goes too when AuditFile has everything.
func (t *tail) close() error {
	if t == nil {
		return nil
	}
	var err error
	if len(t.waiting()) == 0 {
		err = os.Remove(t.path)
	}
	t.memory = nil
	return errors.Join(err, t.unmap())
}

// readTail reads the lines of a TailFile and the offset at which they belong, of a record that is
// being written, too. There are none where there is no such file.
func readTail(dir string) (base int64, lines []byte, err error) {
	file, err := os.Open(filepath.Join(dir, TailFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = file.Close() }()
	for range 100 {
		content, err := io.ReadAll(io.NewSectionReader(file, 0, tailSize))
		if err != nil {
			return 0, nil, err
		}
		if len(content) < tailHeader {
			return 0, nil, nil // it was being made
		}
		var again [tailHeader]byte
		if _, err := file.ReadAt(again[:], 0); err != nil {
			return 0, nil, err
		}
		if !bytes.Equal(again[:], content[:tailHeader]) {
			continue // it was emptied meanwhile
		}
		lines, _, _ = bytes.Cut(content[tailHeader:], []byte{0})
		return int64(binary.LittleEndian.Uint64(content)), lines, nil
	}
	return 0, nil, fmt.Errorf("%s changes all the time", file.Name())
}

// Written is the size of a record in bytes: it grows with each line, from the moment at which
// the line can be read.
func Written(dir string) (int64, error) {
	info, err := os.Stat(filepath.Join(dir, AuditFile))
	if err != nil {
		return 0, fmt.Errorf("recorder: %w", err)
	}
	base, lines, err := readTail(dir)
	if err != nil {
		return 0, fmt.Errorf("recorder: %w", err)
	}
	return max(info.Size(), base+int64(len(lines))), nil
}

// recordReader reads the lines of AuditFile and then those of TailFile that it lacks.
type recordReader struct {
	dir    string
	file   *os.File
	offset int64
	rest   []byte
	last   bool
}

func openRecord(dir string) (*recordReader, error) {
	file, err := os.Open(filepath.Join(dir, AuditFile))
	if err != nil {
		return nil, err
	}
	return &recordReader{dir: dir, file: file}, nil
}

func (r *recordReader) Close() error { return r.file.Close() }

func (r *recordReader) Read(p []byte) (int, error) {
	if !r.last {
		n, err := r.file.Read(p)
		r.offset += int64(n)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		base, lines, err := readTail(r.dir)
		if err != nil {
			return 0, err
		}
		from := r.offset - base
		if from < 0 || from >= int64(len(lines)) {
			// They may have been moved between the two looks.
			n, err := r.file.Read(p)
			r.offset += int64(n)
			if n > 0 || !errors.Is(err, io.EOF) {
				return n, err
			}
			from = max(0, from) // where AuditFile was cut, what there is of the rest follows
		}
		r.rest, r.last = lines[min(from, int64(len(lines))):], true
	}
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
