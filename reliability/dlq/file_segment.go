package dlq

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

const dayFormat = "2006-01-02"

// segment is the in-memory state of one file. All but number and day may change; File.mu guards it.
type segment struct {
	number uint64
	day    string // its folder
	first  uint64 // no line of it has a smaller number
	last   uint64 // number of its last line, first-1 if it has none
	size   int64

	live      int64 // entries that are there
	liveBytes int64 // their lines
	removals  bool  // it holds lines that remove others
	oldest    int64 // smallest saved of the live ones, ms; MaxInt64: none
	newest    int64 // largest saved of any, ms
	dead      bits  // by number - first; no bit for entries that compaction removed
	deadCount int64
	tallies   tallies
	bloom     bloom
	gaps      int   // places that cannot be read
	latest    int64 // largest saved of the live ones, ms; MinInt64: none
	sealed    bool  // nothing is added any more
}

func newSegment(number uint64, day string, first uint64) *segment {
	return &segment{number: number, day: day, first: first, last: first - 1, size: int64(segmentHead),
		oldest: math.MaxInt64, newest: math.MinInt64, latest: math.MinInt64, tallies: tallies{}}
}

func segmentName(number uint64) string { return fmt.Sprintf("%016d.ndjson", number) }

func (f *File) path(s *segment) string {
	return filepath.Join(f.o.Dir, s.day, segmentName(s.number))
}

// holds notes a line that is in the segment. For an entry that is gone dead is set.
func (s *segment) holds(l *line, key tallyKey, dead bool) {
	s.last = l.n
	if l.kind != lineEntry && l.kind != lineSynced {
		s.removals = true
	}
	if !l.isEntry() {
		return
	}
	s.bloom.add(hashID(string(encodedID(l.body))))
	s.newest = max(s.newest, l.saved)
	if dead {
		s.dead.set(l.n - s.first)
		s.deadCount++
		return
	}
	s.live++
	s.liveBytes += int64(l.size)
	s.oldest, s.latest = min(s.oldest, l.saved), max(s.latest, l.saved)
	s.tallies.add(key, 1)
}

// age is the latest time of saving, in ms. Unreadable data is as old as its folder.
func (s *segment) age() int64 {
	if day, err := time.Parse(dayFormat, s.day); err == nil && s.gaps > 0 {
		return max(s.newest, day.AddDate(0, 0, 1).UnixMilli())
	}
	return s.newest
}

func (s *segment) isDead(n uint64) bool { return s.dead.has(n - s.first) }

// buffers are for reading segments.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// read returns the first size bytes of a segment in a buffer that goes back to buffers.
func (f *File) read(s *segment) (buf *[]byte, err error) {
	return readFile(f.o.FS, f.path(s), s.size)
}

func readFile(fs fsys.FS, path string, size int64) (buf *[]byte, err error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if size < 0 {
		if size, err = file.Size(); err != nil {
			return nil, err
		}
	}
	buf = buffers.Get().(*[]byte)
	if int64(cap(*buf)) < size {
		*buf = make([]byte, size)
	}
	*buf = (*buf)[:size]
	if size == 0 {
		return buf, nil
	}
	if n, err := file.ReadAt(*buf, 0); int64(n) < size {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s: %d of %d bytes: %w", path, n, size, err)
	}
	return buf, nil
}
