package retained

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file reads retained records and then those of the log, each once, beside a Store that moves and deletes, also
// from another process.

// Live reads the records that are still in the log.
type Live interface {
	Next(rec *wal.Record) (ok bool, err error)
	Close() error
}

// Source is where a Reader reads from. It may be used by several at a time.
type Source struct {
	fs    fsys.FS
	dir   string
	form  Form
	files func() ([]*file, error) // of the moment, ascending
	live  func(from uint64) (Live, error)
	// segments are the numbers at which those of the log begin, from a number on, and the next number of the log.
	segments func(from uint64) []uint64
	ends     bool // live does not see what is written after it was opened
}

// Chunk is a range of records that are read together: those of a block, or of a segment of the log.
type Chunk struct {
	First, Next uint64 // First <= number < Next
	EventTo     int64  // latest time of an event; math.MaxInt64: not known
}

// Chunks yields what may hold records of a query, newest first, without reading any. A file whose index cannot be read
// is one chunk.
func (s *Source) Chunks(q Query) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		files, err := s.files()
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		from := q.From
		if n := len(files); n > 0 {
			from = max(from, files[n-1].Next)
		}
		starts := s.segments(from)
		for i := len(starts) - 2; i >= 0; i-- {
			c := Chunk{First: starts[i], Next: starts[i+1], EventTo: math.MaxInt64}
			if c.First < q.upTo() && !yield(c, nil) {
				return
			}
		}
		for _, f := range slices.Backward(files) {
			if !q.skipsFile(f) && !s.chunksOf(f, &q, yield) {
				return
			}
		}
	}
}

func (s *Source) chunksOf(f *file, q *Query, yield func(Chunk, error) bool) (more bool) {
	blocks, err := []Block(nil), f.err
	if err == nil {
		var open fsys.File
		if open, blocks, err = s.enter(f); err == nil {
			err = open.Close()
		}
	}
	if err != nil { // its reader notes the gap
		return yield(Chunk{First: f.First, Next: f.Next, EventTo: math.MaxInt64}, nil)
	}
	next := f.Next
	for i := range slices.Backward(blocks) {
		b := &blocks[i]
		c := Chunk{First: b.First, Next: next, EventTo: b.EventTo}
		if b.anyTag {
			c.EventTo = math.MaxInt64
		}
		if !q.skipsBlock(f, b, next) && !yield(c, nil) {
			return false
		}
		next = b.First
	}
	return true
}

// Source of a Store reads its folder, and then its log.
func (s *Store) Source() *Source {
	return &Source{
		segments: s.segments,
		fs:       s.o.FS,
		dir:      s.o.Dir,
		form:     s.o.Form,
		files:    func() ([]*file, error) { err := s.load(); return s.snapshot(), err },
		live:     func(from uint64) (Live, error) { return s.o.Log.NewReader(from) },
	}
}

func (s *Store) segments(from uint64) (starts []uint64) {
	for {
		first, next, ok := s.o.Log.Closed(from)
		if !ok {
			break
		}
		starts, from = append(starts, first), next
	}
	return append(starts, from, max(from, s.o.Log.NextSeq()))
}

// OpenFolders reads the folders of an engine that may be running, without its lock. It changes nothing. form is that of
// the Store that wrote them.
func OpenFolders(f fsys.FS, dir, logDir string, form Form) *Source {
	var mu sync.Mutex
	known := map[uint64]*file{} // an index is read once
	return &Source{
		fs:   f,
		dir:  dir,
		form: form,
		files: func() ([]*file, error) {
			mu.Lock()
			defer mu.Unlock()
			names, err := f.List(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("list folder %s: %w", dir, err)
			}
			var fresh []string
			have := map[uint64]bool{}
			for _, name := range names {
				if first, ok := parseName(name); ok {
					have[first] = true
					if known[first] == nil || known[first].err != nil {
						fresh = append(fresh, name)
					}
				}
			}
			for _, x := range readIndexes(f, dir, fresh) {
				known[x.First] = x
			}
			files := make([]*file, 0, len(known))
			for first, x := range known {
				if have[first] {
					files = append(files, x)
				} else {
					delete(known, first)
				}
			}
			sortFiles(files)
			guess(files)
			return files, nil
		},
		live:     func(from uint64) (Live, error) { return wal.OpenFolder(f, logDir, from) },
		segments: func(from uint64) []uint64 { return append(wal.Starts(f, logDir, from), math.MaxUint64) },
		ends:     true,
	}
}

// Gap is a range of records that could not be read.
type Gap struct {
	First, Next uint64 // First <= number < Next
	Reason      string
}

// maxGaps bounds what a Reader remembers of gaps.
const maxGaps = 100

// Reader reads the records of a query in order, each once. It is for one goroutine, and holds one block of records and
// one open file.
type Reader struct {
	src *Source
	q   Query
	u   *unpacker

	pos    uint64 // of the next record; 0: the oldest
	lost   uint64 // records that could not be read since the last one
	gaps   []Gap
	more   int // gaps that were not remembered
	block  records
	in     bool // a block is open
	file   *file
	open   fsys.File
	blocks []Block
	live   Live
	some   bool // live gave a record
}

// NewReader begins a query. The Reader must be closed.
func (s *Source) NewReader(q Query) (*Reader, error) {
	u, err := s.form.newUnpacker()
	if err != nil {
		return nil, err
	}
	return &Reader{src: s, q: q, u: u, pos: q.From}, nil
}

// Seek begins another query. What was noted of gaps stays.
func (r *Reader) Seek(q Query) error {
	err := r.leaveFile()
	if r.live != nil {
		err = errors.Join(err, r.live.Close())
	}
	r.q, r.pos, r.lost, r.in, r.live = q, q.From, 0, false, nil
	return err
}

// Gaps are the ranges that could not be read, the first of them, and the number of further ones.
func (r *Reader) Gaps() (gaps []Gap, more int) { return r.gaps, r.more }

// Read is how many bytes of compressed records were read from the disk.
func (r *Reader) Read() int64 { return r.u.read }

// Next reads the next record. ok is false behind the last one that there is now. rec.Lost is the number of records
// right before it that could not be read. Its payload is valid until the next call.
func (r *Reader) Next(rec *wal.Record) (ok bool, err error) {
	for {
		for r.in && r.block.next(rec) {
			if rec.Seq < r.pos { // it came from the log before it was moved
				continue
			}
			r.pos = rec.Seq + 1
			now, later := r.q.wants(rec)
			if !later {
				return false, nil
			}
			if now {
				rec.Lost, r.lost = r.lost, 0
				return true, nil
			}
		}
		r.in = false
		switch more, err := r.nextBlock(); {
		case err != nil:
			return false, err
		case more:
			continue
		}
		if done, err := r.nextLive(rec); done || err != nil {
			return done && err == nil && rec.Seq != 0, err
		}
	}
}

// nextBlock opens the next block that the query wants, false behind the last file.
func (r *Reader) nextBlock() (ok bool, err error) {
	if r.live != nil {
		return false, nil
	}
	for {
		for len(r.blocks) > 0 {
			b := r.blocks[0]
			r.blocks = r.blocks[1:]
			next := r.file.Next
			if len(r.blocks) > 0 {
				next = r.blocks[0].First
			}
			if r.q.skipsBlock(r.file, &b, next) {
				r.pos = max(r.pos, next)
				continue
			}
			if r.block, err = r.u.open(r.open, &b); err != nil {
				r.gap(max(r.pos, b.First), next, err)
				continue
			}
			r.in = true
			return true, nil
		}
		if err := r.leaveFile(); err != nil {
			return false, err
		}
		files, err := r.src.files()
		if err != nil {
			return false, err
		}
		f := following(files, r.pos)
		if f == nil || f.First >= r.q.upTo() || r.q.ReceivedTo != 0 && f.err == nil && f.From >= r.q.ReceivedTo {
			return false, nil
		}
		if r.pos != 0 && f.First > r.pos {
			r.gap(r.pos, f.First, errors.New("not retained"))
		}
		r.pos = max(r.pos, f.First)
		if r.q.skipsFile(f) {
			r.pos = f.Next
			continue
		}
		if err := r.enterFile(f); err != nil {
			r.gap(r.pos, f.Next, err)
		}
	}
}

func following(files []*file, pos uint64) *file {
	for _, f := range files {
		if f.Next > pos {
			return f
		}
	}
	return nil
}

func (r *Reader) enterFile(f *file) error {
	if f.err != nil {
		return f.err
	}
	open, blocks, err := r.src.enter(f)
	if err != nil {
		return err
	}
	r.file, r.open, r.blocks = f, open, blocks
	return nil
}

// enter opens a file and reads its table. The summary of f may be that of an earlier form: an erasure replaces files,
// and changes only the places of their blocks.
func (s *Source) enter(f *file) (open fsys.File, blocks []Block, err error) {
	if open, err = s.fs.Open(f.path); err != nil {
		return nil, nil, err
	}
	sum, _, err := readSummary(open, f.First)
	if err == nil {
		blocks, err = readTable(open, &sum)
	}
	if err != nil {
		return nil, nil, errors.Join(err, open.Close())
	}
	return open, blocks, nil
}

func (r *Reader) leaveFile() error {
	if r.open == nil {
		return nil
	}
	r.pos = max(r.pos, r.file.Next)
	open := r.open
	r.file, r.open, r.blocks = nil, nil, nil
	return open.Close()
}

func (r *Reader) gap(first, next uint64, err error) {
	r.pos = next
	if next <= first {
		return
	}
	r.lost += next - first
	if len(r.gaps) == maxGaps {
		r.more++
		return
	}
	r.gaps = append(r.gaps, Gap{first, next, err.Error()})
}

// nextLive reads from the log. done without a record is the end. Neither done nor an error: the segment was moved
// meanwhile, and the files are to be looked at again.
func (r *Reader) nextLive(rec *wal.Record) (done bool, err error) {
	rec.Seq = 0
	if r.pos >= r.q.upTo() {
		return true, nil
	}
	if r.live == nil {
		if r.live, err = r.src.live(r.pos); err != nil {
			r.live = nil
			return false, r.retry(err)
		}
		r.some = false
	}
	for {
		ok, err := r.live.Next(rec)
		if err != nil {
			rec.Seq = 0
			return false, r.retry(err)
		}
		if !ok {
			rec.Seq = 0
			if r.src.ends && r.some { // it may have grown
				err, r.live = r.live.Close(), nil
				return false, err
			}
			return true, nil
		}
		r.some = true
		if r.pos != 0 && rec.Seq > r.pos {
			r.gap(r.pos, rec.Seq, errors.New("not in the log"))
		}
		r.pos = rec.Seq + 1
		now, later := r.q.wants(rec)
		if !later {
			rec.Seq = 0
			return true, nil
		}
		if now {
			rec.Lost, r.lost = r.lost, 0
			return true, nil
		}
	}
}

// retry judges an error of the log: a record that is gone was moved, given up or deleted.
func (r *Reader) retry(err error) error {
	if r.live != nil {
		_ = r.live.Close()
		r.live = nil
	}
	if !errors.Is(err, wal.ErrTruncated) {
		return err
	}
	files, ferr := r.src.files()
	if ferr != nil {
		return ferr
	}
	if following(files, r.pos) != nil {
		return nil
	}
	// Neither there nor in the log: whatever comes next.
	live, err := r.src.live(0)
	if errors.Is(err, wal.ErrTruncated) {
		return nil
	}
	if err == nil {
		r.live, r.some = live, false
	}
	return err
}

// Close closes what is open.
func (r *Reader) Close() error {
	err := r.leaveFile()
	if r.live != nil {
		err = errors.Join(err, r.live.Close())
		r.live = nil
	}
	r.u.dec.Close()
	return err
}

// Reach says what a source holds: the retained part, and since when.
func (s *Source) Reach() (Stats, error) {
	files, err := s.files()
	return stats(files), err
}

// LastRule is the number of the last retained record of Options.RuleType, 0 without one, and that of the record behind
// all that is retained, 0 if nothing is. A later rule is in the log.
func (s *Source) LastRule() (rule, next uint64, err error) {
	files, err := s.files()
	for _, f := range files {
		next = max(next, f.Next)
		if n := len(f.Rules); f.err == nil && n > 0 {
			rule = f.Rules[n-1]
		}
	}
	return rule, next, err
}
