package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// DeadLetter is an event, or a whole record, that the fold refused. It is one
// line of a file in the folder dead-letters.
type DeadLetter struct {
	Position Position        `json:"position"`
	Origin   string          `json:"origin"` // "fold"
	Reason   string          `json:"reason"`
	Time     time.Time       `json:"time"` // receive time of the record
	Event    json.RawMessage `json:"event,omitempty"`
	// Raw is what was refused where it is not a readable event.
	Raw []byte `json:"raw,omitempty"`
}

// Position says where in the log something is.
type Position struct {
	Seq   uint64 `json:"seq"`
	Index int    `json:"index"` // of the event in its record; -1 is the record itself
}

const (
	deadLetterDir    = "dead-letters"
	deadLetterRecent = 1000    // kept in memory for DeadLetters
	deadLetterBuffer = 1 << 20 // waiting bytes after which they are written early
)

// deadLetters writes refused events to numbered files of bounded size. Lines
// wait in memory until flush. A checkpoint flushes first; what a crash takes
// before that is refused again when the log is read again.
type deadLetters struct {
	fs      fsys.FS
	dir     string
	segment int64 // bytes after which a new file is begun

	mu      sync.Mutex
	pending []byte
	total   uint64
	recent  []DeadLetter
	oldest  int // in recent, once it is full

	// known holds the positions that are on disk already, though the checkpoint
	// that was loaded does not tell of them.
	known map[Position]bool

	flushing sync.Mutex // held around all that follows; mark also needs mu
	file     fsys.File
	number   uint64
	size     int64
	dirty    bool // written and not synced
}

// deadLetterMark is how far the files were at a checkpoint. Every line before it
// is about a record of the checkpoint; those after it may be or not.
type deadLetterMark struct {
	number uint64
	size   int64
	total  uint64 // refused up to the checkpoint's position
}

func deadLetterName(number uint64) string { return fmt.Sprintf("fold-%016d.ndjson", number) }

// refuse keeps an event for the dead letters, unless that is on disk already.
func (d *deadLetters) refuse(letter DeadLetter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[letter.Position] {
		delete(d.known, letter.Position)
		return
	}
	line, err := json.Marshal(letter)
	if err != nil { // the event's JSON is broken: keep the bytes instead
		letter.Raw, letter.Event = letter.Event, nil
		line, _ = json.Marshal(letter)
	}
	d.pending = append(append(d.pending, line...), '\n')
	d.remember(letter)
	d.total++
}

func (d *deadLetters) remember(letter DeadLetter) {
	if len(d.recent) < deadLetterRecent {
		d.recent = append(d.recent, letter)
		return
	}
	d.recent[d.oldest] = letter
	d.oldest = (d.oldest + 1) % deadLetterRecent
}

// latest returns up to limit dead letters, the newest first, and how many there
// ever were.
func (d *deadLetters) latest(limit int) ([]DeadLetter, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.recent)
	letters := make([]DeadLetter, 0, max(0, min(limit, n)))
	for i := range min(limit, n) {
		letters = append(letters, d.recent[(d.oldest+n-1-i)%n])
	}
	return letters, d.total
}

func (d *deadLetters) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// waiting is the number of bytes that a flush would write.
func (d *deadLetters) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pending)
}

// mark returns the present position. What was refused so far is durable after
// the next flush.
func (d *deadLetters) mark() deadLetterMark {
	d.mu.Lock()
	defer d.mu.Unlock()
	return deadLetterMark{d.number, d.size, d.total}
}

// flush makes all that was refused so far durable. After an error that is not
// about space the file must not be used again; after a lack of space the lines
// still wait.
func (d *deadLetters) flush() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	d.mu.Lock()
	lines := d.pending
	d.mu.Unlock()
	if len(lines) > 0 {
		if err := d.write(lines); err != nil {
			return fmt.Errorf("write dead letters: %w", err)
		}
		d.mu.Lock()
		d.size += int64(len(lines))
		// What was refused meanwhile moves to the front.
		d.pending = d.pending[:copy(d.pending, d.pending[len(lines):])]
		if cap(d.pending) > 4*deadLetterBuffer && len(d.pending) == 0 {
			d.pending = nil
		}
		d.mu.Unlock()
	}
	if d.dirty {
		if err := fsys.SyncFile(d.file, SiteDeadLetters); err != nil {
			return &syncError{fmt.Errorf("sync dead letters: %w", err)}
		}
		d.dirty = false
	}
	return nil
}

// write puts lines at the end of the newest file, or of a new one.
func (d *deadLetters) write(lines []byte) error {
	if d.file != nil && d.size > 0 && d.size+int64(len(lines)) > d.segment {
		if d.dirty {
			if err := fsys.SyncFile(d.file, SiteDeadLetters); err != nil {
				return &syncError{err}
			}
			d.dirty = false
		}
		if err := d.file.Close(); err != nil {
			return err
		}
		d.mu.Lock()
		d.file, d.number, d.size = nil, d.number+1, 0
		d.mu.Unlock()
	}
	if d.file == nil {
		file, err := d.fs.Create(filepath.Join(d.dir, deadLetterName(d.number)))
		if err != nil {
			return err
		}
		if err := fsys.SyncDir(d.fs, d.dir, SiteDeadLetterDir); err != nil {
			return errors.Join(&syncError{err}, file.Close())
		}
		d.file = file
	}
	// At a fixed place: a write that failed half-way is written over.
	if _, err := d.file.WriteAt(lines, d.size); err != nil {
		return err
	}
	d.dirty = true
	return nil
}

// Close lets go of the file. What waits is refused again after the next start.
func (d *deadLetters) Close() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.file == nil {
		return nil
	}
	file := d.file
	d.file = nil
	return file.Close()
}

// open finds what is on disk beyond the mark of the checkpoint at position seq,
// and cuts off a line that a crash left unfinished.
func (d *deadLetters) open(mark deadLetterMark, seq uint64) error {
	if err := fsys.MkdirAllSynced(d.fs, d.dir, SiteDataDir); err != nil {
		return err
	}
	names, err := d.fs.List(d.dir)
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	d.total, d.number, d.size = mark.total, mark.number, 0
	d.known = map[Position]bool{}
	var numbers []uint64 // rising, as the names are sorted
	for _, name := range names {
		var number uint64
		if _, err := fmt.Sscanf(name, "fold-%d.ndjson", &number); err == nil && name == deadLetterName(number) {
			numbers = append(numbers, number)
			d.number = max(d.number, number)
		}
	}
	for _, number := range numbers {
		if number+1 < mark.number { // what is older is not among the recent ones
			continue
		}
		from := int64(0)
		switch {
		case number < mark.number:
			from = -1
		case number == mark.number:
			from = mark.size
		}
		if err := d.scan(number, from, seq); err != nil {
			return fmt.Errorf("read dead letters %s: %w", deadLetterName(number), err)
		}
	}
	return nil
}

// scan reads one file. Lines from offset on count as unknown to the checkpoint
// if they are about later records; from < 0 means none does.
func (d *deadLetters) scan(number uint64, from int64, seq uint64) (err error) {
	file, err := d.fs.OpenReadWrite(filepath.Join(d.dir, deadLetterName(number)))
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, file.Close())
		}
	}()
	data, err := readAll(file)
	if err != nil {
		return err
	}
	at := int64(0)
	for at < int64(len(data)) {
		line, whole := cutLine(data[at:])
		var letter DeadLetter
		broken := !whole || json.Unmarshal(line, &letter) != nil
		unknown := from >= 0 && at >= from
		if broken && unknown {
			break // never synced: it is refused again when the log is read again
		}
		if !broken {
			d.remember(letter)
			if unknown && letter.Position.Seq > seq {
				d.known[letter.Position] = true
				d.total++
			}
		}
		at += int64(len(line)) + 1
	}
	if number < d.number {
		return nil
	}
	d.file, d.size, keep = file, min(at, int64(len(data))), true
	// Before anything new is written: the rest must not be taken for lines later.
	if d.size < int64(len(data)) {
		if err := file.Truncate(d.size); err != nil {
			return err
		}
	}
	d.dirty = true // what is there may be unsynced
	return nil
}

func cutLine(data []byte) (line []byte, whole bool) {
	for i, c := range data {
		if c == '\n' {
			return data[:i], true
		}
	}
	return data, false
}

func readAll(file fsys.File) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if n, err := file.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("read %d of %d bytes: %w", n, len(data), err)
	}
	return data, nil
}

// deadLetter makes the letter for an event in its binary form. Whatever is not
// a readable event is kept as it is.
func deadLetter(at Position, received int64, payload []byte, reason string) DeadLetter {
	letter := DeadLetter{Position: at, Origin: "fold", Reason: reason, Time: time.Unix(0, received).UTC()}
	var view event.View
	if n, err := view.Parse(payload); err == nil && n == len(payload) {
		letter.Event = view.AppendJSON(nil)
	} else {
		letter.Raw = append([]byte{}, payload...)
	}
	return letter
}
