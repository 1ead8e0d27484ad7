package recorder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// The files of a record.
const (
	// AuditFile holds one audit.k8s.io/v1 Event per line.
	AuditFile = "audit.jsonl"
	// TailFile holds the newest lines of a record that is open, or whose process was killed,
	// until they are in AuditFile: see tail.go. Events reads both.
	TailFile = "audit.tail"
	// TornFile keeps what repairs cut off.
	TornFile = "audit.torn"
	// streamsFolder holds the bodies of responses that are still being sent.
	streamsFolder = "streams"
)

const (
	defaultMaxBody  = 16 << 20
	defaultMaxTotal = 1 << 30
	// defaultMaxRecord is some sixty thousand requests.
	defaultMaxRecord = 64 << 20
	// lineLimit bounds a line that is read, in bytes. Written ones are shorter: all
	// their parts are bounded.
	lineLimit = 8 << 20
	// moveInterval is how long lines wait for others before they are moved to AuditFile.
	moveInterval = 20 * time.Millisecond
)

// Options say how an episode is recorded.
type Options struct {
	// Bodies is where response bodies go. Required.
	Bodies *Bodies
	// Now is the episode's present in captured time; default time.Now.
	Now func() time.Time
	// Unshift moves the timestamps in a body, or in a query's value, back to captured
	// time. Nil when nothing is moved. It must not change its argument.
	Unshift func([]byte) []byte
	// UnshiftText is Unshift for bodies of plain text, such as logs; nil: Unshift.
	UnshiftText func([]byte) []byte
	// MaxBody bounds a stored body, in bytes, default 16 MiB: of a longer one the start is
	// kept, with the size and digest of the whole.
	MaxBody int64
	// MaxTotal bounds what the episode adds to Bodies, in bytes, default 1 GiB:
	// beyond it, bodies aren't stored, and their lines say so.
	MaxTotal int64
	// MaxRecord bounds AuditFile, in bytes, default 64 MiB: beyond it requests are
	// refused with 429 and not recorded. Those that are under way get their lines.
	MaxRecord int64
}

// Repair is what Open had to mend.
type Repair struct {
	// Torn is the number of bytes that were cut off the end and appended to TornFile.
	Torn int
	// Interrupted are the audit ids of responses that were under way when the
	// process ended; each has got its ResponseComplete line.
	Interrupted []string
}

// Log is an episode's record in a folder. One process has it open at a time;
// within, it is safe for concurrent use. A line is in one of the record's files before
// the response that it is about is complete, so that a kill loses no response
// that a client has got. (Power loss may: nothing is synced.)
type Log struct {
	dir    string
	o      Options
	repair Repair
	stored atomic.Int64
	who    lastWho
	stamps stamps
	// size of the record; it grows under mu.
	size atomic.Int64

	// moving is held while AuditFile is written to; who needs both takes it first.
	moving sync.Mutex
	file   *os.File
	// mu keeps the tail.
	mu     sync.Mutex
	tail   *tail // nil where no file can be mapped
	broken error
	// mover moves the tail's lines a moment after the first of them came.
	mover    *time.Timer
	expected bool
}

// ErrInUse says that another Log has the record open.
var ErrInUse = errors.New("the record is open already: end the program that writes it, or name another folder")

// Open opens the record in dir, makes it where there is none, and repairs what a
// killed process left: a torn or meaningless end is cut off and kept aside, and
// streams that were under way get their end. The error is ErrInUse while another Log,
// of any process, has it open.
func Open(dir string, o Options) (*Log, error) {
	if o.Bodies == nil {
		return nil, errors.New("recorder: Options.Bodies is not set: open a folder for bodies with OpenBodies")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	o.MaxBody = min(o.MaxBody, storedBodyLimit)
	if o.MaxTotal <= 0 {
		o.MaxTotal = defaultMaxTotal
	}
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	if err := os.MkdirAll(filepath.Join(dir, streamsFolder), 0o755); err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, AuditFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l := &Log{dir: dir, o: o, file: file}
	if err := l.mend(); err != nil {
		return nil, errors.Join(fmt.Errorf("recorder: repairing %s: %w", dir, err), file.Close())
	}
	l.mover = time.AfterFunc(time.Hour, l.move)
	l.mover.Stop()
	if l.tail, err = newTail(dir, l.size.Load()); err != nil {
		l.tail = nil // lines are written to AuditFile then, which tells if it can't be
	}
	return l, nil
}

// Repaired tells what Open mended.
func (l *Log) Repaired() Repair { return l.repair }

// Dir is the record's folder.
func (l *Log) Dir() string { return l.dir }

// Close ends the record. Responses that are still under way fail.
func (l *Log) Close() error {
	l.moving.Lock()
	defer l.moving.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	l.mover.Stop()
	err := errors.Join(l.emptyTail(), l.tail.close(), l.file.Close())
	l.file, l.tail, l.broken = nil, nil, errors.New("recorder: the record is closed")
	return err
}

// mend puts in the lines that a killed process left in its tail, cuts off what follows the last
// good line, and ends interrupted streams.
func (l *Log) mend() error {
	if err := l.takeTail(); err != nil {
		return err
	}
	open := map[string]auditv1.Event{}
	var order []string
	good, err := scanLines(l.file, func(line []byte) bool {
		event, err := parseEvent(line)
		if err != nil {
			return false
		}
		id := string(event.AuditID)
		if event.Stage == auditv1.StageResponseStarted {
			open[id] = event
			order = append(order, id)
		} else {
			delete(open, id)
		}
		if event.Stage != auditv1.StageResponseStarted && event.Annotations[KeyBody] != "" {
			// An upper bound of what the episode added: bodies may be shared or compressed.
			var n int64
			_, _ = fmt.Sscan(event.Annotations[KeyBodySize], &n)
			l.stored.Add(max(0, n))
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := l.cut(good); err != nil {
		return err
	}
	l.size.Store(good)
	for _, id := range order {
		event, ok := open[id]
		if !ok {
			continue
		}
		delete(open, id)
		if err := l.endInterrupted(event); err != nil {
			return err
		}
		l.repair.Interrupted = append(l.repair.Interrupted, id)
	}
	return l.removeStreams()
}

// takeTail moves the lines of a killed process from TailFile to AuditFile.
func (l *Log) takeTail() error {
	record, err := openRecord(l.dir)
	if err != nil {
		return err
	}
	defer func() { _ = record.Close() }()
	size, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := record.file.Seek(size, io.SeekStart); err != nil {
		return err
	}
	record.offset = size
	if _, err := io.Copy(l.file, record); err != nil {
		return errors.Join(err, l.file.Truncate(size)) // the tail has it still
	}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(l.dir, TailFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// cut moves everything from offset on to TornFile.
func (l *Log) cut(offset int64) error {
	info, err := l.file.Stat()
	if err != nil || info.Size() == offset {
		return err
	}
	torn, err := os.OpenFile(filepath.Join(l.dir, TornFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(torn, io.NewSectionReader(l.file, offset, info.Size()-offset))
	if err = errors.Join(err, torn.Close()); err != nil {
		return err
	}
	l.repair.Torn = int(n)
	return l.file.Truncate(offset)
}

func (l *Log) endInterrupted(event auditv1.Event) error {
	event.Stage = auditv1.StageResponseComplete
	event.StageTimestamp = metav1.NewMicroTime(l.o.Now())
	if event.Annotations == nil {
		event.Annotations = map[string]string{}
	}
	event.Annotations[KeyAborted] = "interrupted"
	if body, err := readBounded(l.streamPath(string(event.AuditID))); err == nil {
		if err := l.storeStream(&event, l.unpacked(Source{}, &event, body)); err != nil {
			return err
		}
	}
	return l.append(&event)
}

// removeStreams drops the files of streams whose body is stored by now.
func (l *Log) removeStreams() error {
	dir := filepath.Join(l.dir, streamsFolder)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}
	return err
}

// streamPath is safe for any id: what is no plain name becomes one.
func (l *Log) streamPath(id string) string {
	return filepath.Join(l.dir, streamsFolder, streamName(id))
}

func streamName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, bounded(id, 64))
	return "s-" + name
}

// lines are buffers for lines.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// append writes one line, or nothing.
func (l *Log) append(event *auditv1.Event) error {
	return l.appendWith(func(b []byte) ([]byte, error) { return appendLine(b, event) })
}

// appendWith is append of a line that write makes.
func (l *Log) appendWith(write func([]byte) ([]byte, error)) error {
	scratch := lines.Get().(*[]byte)
	defer lines.Put(scratch)
	line, err := write((*scratch)[:0])
	if err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	if cap(line) <= pooledLimit {
		*scratch = line
	}
	if ok, err := l.putLine(line); ok || err != nil {
		return err
	}
	l.moving.Lock()
	defer l.moving.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	if err := l.emptyTail(); err != nil {
		return fmt.Errorf("recorder: %w", err)
	}
	return l.writeLine(line)
}

// putLine puts a line into the tail, if there is room.
func (l *Log) putLine(line []byte) (ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return false, l.broken
	}
	if ok, err = l.tail.put(line); !ok || err != nil {
		if err != nil {
			err = fmt.Errorf("recorder: %w", err)
			l.broken = err
		}
		return ok, err
	}
	l.size.Add(int64(len(line)))
	if !l.expected {
		l.expected = true
		l.mover.Reset(moveInterval)
	}
	return true, nil
}

// writeLine writes a line to AuditFile itself, with one write. One that fails half-way is taken
// back; where that fails too, the record takes nothing more. The tail is empty.
func (l *Log) writeLine(line []byte) error {
	n, err := l.file.Write(line)
	if err != nil {
		if n > 0 {
			if cut := l.file.Truncate(l.size.Load()); cut != nil {
				l.broken = fmt.Errorf("recorder: %s ends in half a line and can't be cut; open it anew: %w", l.dir, cut)
			}
		}
		return fmt.Errorf("recorder: %w", err)
	}
	l.size.Add(int64(n))
	return l.tail.empty(l.size.Load())
}

// move writes the tail's lines to AuditFile. Those that can't be written stay in the tail; who puts
// the line for which there is no room any more gets the error.
func (l *Log) move() {
	l.moving.Lock()
	defer l.moving.Unlock()
	l.mu.Lock()
	l.expected = false
	waiting := l.tail.waiting()
	l.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	n, _ := l.file.Write(waiting)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail.moved += n
}

// emptyTail moves what the tail holds and makes room in it. Both locks are held.
func (l *Log) emptyTail() error {
	waiting := l.tail.waiting()
	if l.tail == nil || l.tail.used == 0 {
		return nil
	}
	n, err := l.file.Write(waiting)
	l.tail.moved += n
	if err != nil {
		return err
	}
	return l.tail.empty(l.size.Load())
}

// full reports whether the record takes no more requests.
func (l *Log) full() bool {
	return l.size.Load() >= l.o.MaxRecord
}

// store keeps a body that is in captured time already and notes it in the event.
// cutFrom is the digest of the whole where body is only its start.
func (l *Log) store(event *auditv1.Event, body []byte) (digest string, err error) {
	a := event.Annotations
	a[KeyBodySize] = itoa(len(body))
	if len(body) == 0 {
		return "", nil
	}
	digest = Digest(body)
	if l.stored.Load() >= l.o.MaxTotal && !l.o.Bodies.has(digest) {
		a[KeyTruncated] = "episode"
		a[KeyWireDigest] = digest
		return "", nil
	}
	added, err := l.o.Bodies.put(digest, body)
	if err != nil {
		return "", err
	}
	l.stored.Add(int64(added))
	a[KeyBody] = digest
	return digest, nil
}

// unpacked is the plain body of a stream, in captured time. One that was aborted
// lacks the end of its packing, which is no loss.
func (l *Log) unpacked(source Source, event *auditv1.Event, body []byte) []byte {
	a := event.Annotations
	if a[KeyContentEncoding] != "gzip" {
		return body // in captured time already
	}
	plain, err := unpack(body, l.o.MaxBody)
	if err != nil && !(a[KeyAborted] != "" && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF))) {
		a[KeyTruncated] = "body"
	}
	return l.captured(source, a[KeyContentType], plain)
}

func (l *Log) storeStream(event *auditv1.Event, body []byte) error {
	if int64(len(body)) > l.o.MaxBody {
		event.Annotations[KeyTruncated] = "body"
		body = body[:l.o.MaxBody]
	}
	_, err := l.store(event, body)
	return err
}

// captured moves a body's times to captured time.
func (l *Log) captured(source Source, contentType string, body []byte) []byte {
	unshift := l.unshift(source, contentType)
	if unshift == nil || len(body) == 0 {
		return body
	}
	return unshift(body)
}

// unshift is what moves the times in bodies of a type; nil: nothing is moved.
func (l *Log) unshift(source Source, contentType string) func([]byte) []byte {
	if source.Unshift != nil {
		return source.Unshift
	}
	if l.o.UnshiftText != nil && strings.HasPrefix(contentType, "text/plain") {
		return l.o.UnshiftText
	}
	return l.o.Unshift
}

// parseEvent reads a line as an audit event.
func parseEvent(line []byte) (auditv1.Event, error) {
	var event auditv1.Event
	if err := json.Unmarshal(line, &event); err != nil {
		return event, err
	}
	if event.AuditID == "" || event.Stage == "" {
		return event, errors.New("the line is no audit event: auditID or stage is missing")
	}
	return event, nil
}

// scanLines calls visit for each complete line, without its newline, and returns
// the offset behind the last line for which visit returned true. Lines longer than lineLimit
// are passed as their start, which is no valid event.
func scanLines(r io.Reader, visit func(line []byte) bool) (good int64, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var offset int64
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		offset += int64(len(part))
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) < lineLimit {
				long = append(long, part...)
			}
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return good, err
		}
		line := part
		if len(long) > 0 {
			line = append(long, part...)
			long = nil
		}
		if visit(bytes.TrimSuffix(line, []byte("\n"))) {
			good = offset
		}
	}
}
