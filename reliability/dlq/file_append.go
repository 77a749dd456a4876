package dlq

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// maxCommit is how many bytes go into one write.
const maxCommit = 4 << 20

// pending are lines that go into one write together.
type pending struct {
	lines []draft
	bytes int
	kills []kill
	done  chan struct{}
	err   error
}

// draft is a line before it has a number.
type draft struct {
	line
	entry *Entry // of lines with an entry
	hash  xxh3.Uint128
	skip  bool // there already
}

// kill takes an entry out of the index.
type kill struct {
	segment *segment
	n       uint64
	bytes   int64
	key     tallyKey
	// of the segment, once all of a batch are gone
	oldest, latest int64
}

// Save implements Store. Entries that are saved together are written together up to
// 1 MB; a larger slice may be kept in part.
func (f *File) Save(ctx context.Context, entries []Entry) error {
	kept, invalid := prepare(entries, f.o.Now())
	var batches []*pending
	var p *pending
	for _, e := range kept {
		if p == nil || p.bytes > 1<<20 {
			p = &pending{done: make(chan struct{})}
			batches = append(batches, p)
		}
		p.lines = append(p.lines, draft{entry: e.Entry, hash: hashID(e.ID),
			line: line{kind: lineEntry, saved: e.Saved.UnixMilli(), body: e.body}})
		p.bytes += lineHead + len(e.body) + 1
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.queue.Lock()
	f.queue.waiting = append(f.queue.waiting, batches...)
	f.queue.Unlock()
	for _, p := range batches {
		if err := f.await(ctx, p); err != nil {
			return err
		}
	}
	return f.o.Metrics.refused(len(entries)-len(kept), invalid)
}

// await returns when p is written, by the holder of the turn, possibly by this call.
func (f *File) await(ctx context.Context, p *pending) error {
	for {
		select {
		case <-p.done:
			return p.err
		default:
		}
		select {
		case <-p.done:
			return p.err
		case <-ctx.Done():
			return ctx.Err() // it may be written all the same
		case f.turn <- struct{}{}:
			f.drain()
			f.release()
		}
	}
}

// drain writes one batch of the waiting entries.
func (f *File) drain() {
	f.queue.Lock()
	waiting := f.queue.waiting
	n, bytes := 0, 0
	for n < len(waiting) && (n == 0 || bytes+waiting[n].bytes <= min(maxCommit, int(f.o.SegmentBytes))) {
		bytes += waiting[n].bytes
		n++
	}
	load := waiting[:n:n]
	f.queue.waiting = waiting[n:]
	if len(f.queue.waiting) == 0 {
		f.queue.waiting = nil
	}
	f.queue.Unlock()
	if n == 0 {
		return
	}
	err := f.writable()
	if err == nil {
		err = f.room(bytes)
	}
	if err == nil {
		err = f.commit(load)
	}
	for _, p := range load {
		p.err = err
		close(p.done)
	}
}

// release gives the turn on. Once the segment is nearly full, the file of the next one is
// made meanwhile: a sync less for the write that needs it, and no write waits for this one.
func (f *File) release() {
	defer func() { <-f.turn }()
	f.takeSpare(false)
	if f.spare != nil || f.making != nil || f.active == nil || len(f.segments) == 0 || f.writable() != nil {
		return
	}
	s := f.segments[len(f.segments)-1]
	if s.size < f.o.SegmentBytes*3/4 || s.day != f.o.Now().UTC().Format(dayFormat) {
		return
	}
	next, made := newSegment(s.number+1, s.day, f.next), make(chan spare, 1)
	f.making = made
	f.o.later(func() { made <- f.prepare(next) })
}

// spare is the file of the next segment, made ahead of time: empty, its entry durable.
type spare struct {
	file fsys.File
	of   *segment
	err  error
}

// prepare may run beside everything else: the segment is not opened before it is done.
func (f *File) prepare(next *segment) spare {
	made := spare{of: next}
	made.err = fsys.ChangeDir(f.o.FS, filepath.Join(f.o.Dir, next.day), SiteSegmentDir, func() (err error) {
		made.file, err = f.o.FS.Create(f.path(next))
		return err
	})
	return made
}

// takeSpare takes the prepared segment, or with wait waits for one in progress.
func (f *File) takeSpare(wait bool) {
	if f.making == nil {
		return
	}
	var made spare
	if wait {
		made = <-f.making
	} else {
		select {
		case made = <-f.making:
		default:
			return
		}
	}
	f.making = nil
	if made.err == nil {
		f.spare, f.spareOf = made.file, made.of
		return
	}
	_ = f.trouble(made.err) // a failed sync poisons the store; other failures are reported when the file is needed
	if made.file != nil {
		_ = made.file.Close() // it is empty
	}
}

// dropSpare removes a prepared segment that is not needed.
func (f *File) dropSpare() {
	if f.spare == nil {
		return
	}
	_ = f.spare.Close() // it is empty
	_ = f.o.FS.Remove(f.path(f.spareOf))
	f.spare, f.spareOf = nil, nil
}

// mark writes that all before it is synced. No caller waits for it: should it be lost, less
// is known about the last batch, see FORMAT.md.
func (f *File) mark(s *segment) {
	l := line{kind: lineSynced, n: f.next - 1, batch: int(s.size), saved: f.o.Now().UnixMilli()}
	buf := appendLine(nil, s.number, &l)
	if _, err := f.active.WriteAt(buf, s.size); err != nil {
		return // the next batch is written over it
	}
	f.mu.Lock()
	s.size += int64(len(buf))
	f.mu.Unlock()
}

// room makes sure that so many bytes may be added.
func (f *File) room(bytes int) error {
	if f.total()+int64(bytes) <= f.o.MaxBytes {
		return nil
	}
	if err := f.compact(); err != nil {
		return err
	}
	if total := f.total(); total+int64(bytes) > f.o.MaxBytes {
		return fmt.Errorf("%w: %d of %d bytes", ErrFull, total, f.o.MaxBytes)
	}
	return nil
}

// total is the size of all files.
func (f *File) total() (bytes int64) {
	for _, s := range f.segments {
		bytes += s.size
	}
	return bytes
}

// commit writes and syncs loads of lines in one go. The caller has the turn.
func (f *File) commit(loads []*pending) error {
	began := time.Now()
	bytes := 0
	for _, p := range loads {
		bytes += p.bytes
	}
	s, fresh, prepared, err := f.open(int64(bytes))
	if err != nil {
		return f.trouble(err)
	}
	start, next := s.size, f.next
	var buf []byte
	if fresh {
		buf = appendSegmentHead(make([]byte, 0, bytes+segmentHead), s.number, s.first)
		start = 0
	} else {
		buf = make([]byte, 0, bytes)
	}
	batch := int(s.size)
	inBatch := map[xxh3.Uint128]bool{}
	lines := 0
	for _, p := range loads {
		for i := range p.lines {
			d := &p.lines[i]
			if d.kind == lineEntry {
				if d.skip = f.known.has(d.hash) || inBatch[d.hash]; d.skip {
					continue
				}
				inBatch[d.hash] = true
			}
			d.n, d.batch, d.offset = next, batch, int(start)+len(buf)
			next++
			buf = appendLine(buf, s.number, &d.line)
			d.size = int(start) + len(buf) - d.offset
			lines++
		}
	}
	if lines == 0 {
		f.abandon(s, fresh)
		return nil
	}
	write := func() error { return f.write(s, buf, start) }
	if fresh && !prepared {
		err = fsys.ChangeDir(f.o.FS, filepath.Join(f.o.Dir, s.day), SiteSegmentDir, write)
	} else {
		err = write()
	}
	if err != nil {
		if f.poison == nil {
			f.abandon(s, fresh)
		}
		return f.trouble(err)
	}
	f.next = next
	f.publish(s, loads, start+int64(len(buf)), fresh)
	f.mark(s)
	f.observe()
	f.o.Metrics.commitSeconds.UpdateDuration(began)
	return nil
}

// abandon removes a new file that no line went into. Should it stay, the next start
// removes it.
func (f *File) abandon(s *segment, fresh bool) {
	if fresh {
		_ = f.seal()
		_ = f.o.FS.Remove(f.path(s))
	}
}

// write makes bytes durable at an offset of the active file.
func (f *File) write(s *segment, buf []byte, at int64) error {
	if _, err := f.active.WriteAt(buf, at); err != nil {
		// Cut back to the acknowledged entries. A second failure leaves nothing certain.
		if cutErr := f.active.Truncate(at); cutErr != nil {
			return f.fail(errors.Join(err, cutErr))
		}
		if cutErr := fsys.SyncFile(f.active, SiteAppend); cutErr != nil {
			return f.fail(errors.Join(err, cutErr))
		}
		return fmt.Errorf("write %s: %w", f.path(s), err)
	}
	return fsys.SyncFile(f.active, SiteAppend)
}

// publish puts durable lines into the index.
func (f *File) publish(s *segment, loads []*pending, size int64, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fresh {
		f.segments = append(f.segments, s)
	}
	s.size = size
	for _, p := range loads {
		for i := range p.lines {
			d := &p.lines[i]
			if d.skip {
				continue
			}
			var key tallyKey
			if d.entry != nil {
				key = f.admit(keyOf(d.entry))
				f.known.add(d.hash)
			}
			s.holds(&d.line, key, false)
			switch d.kind {
			case lineEntry:
				f.o.Metrics.saved(d.entry.Origin, d.entry.Reason, 1)
			case lineAgain:
				f.locate(d.entry.ID, d.n)
			}
		}
		for _, k := range p.kills {
			k.segment.dead.set(k.n - k.segment.first)
			k.segment.deadCount++
			k.segment.live--
			k.segment.liveBytes -= k.bytes
			k.segment.tallies.add(k.key, -1)
		}
		// Additions are counted above, unless they are in the same segment: then the smaller of the two
		// applies.
		for _, k := range p.kills {
			k.segment.oldest, k.segment.latest = k.oldest, k.latest
		}
		for i := range p.lines {
			if d := &p.lines[i]; !d.skip && d.isEntry() {
				s.oldest, s.latest = min(s.oldest, d.saved), max(s.latest, d.saved)
			}
		}
	}
}

// locate remembers where an entry is, so that its removal need not look for it.
func (f *File) locate(id string, n uint64) {
	if len(f.located) >= 1<<16 {
		clear(f.located)
	}
	f.located[id] = n
}

// open returns the segment to write to. A fresh one is not in the index yet; the entry of
// one that was prepared is durable.
func (f *File) open(bytes int64) (s *segment, fresh, prepared bool, err error) {
	day := f.o.Now().UTC().Format(dayFormat)
	if len(f.segments) > 0 {
		s = f.segments[len(f.segments)-1]
	}
	if s != nil && !s.sealed && s.day == day && (s.size == int64(segmentHead) || s.size+bytes <= f.o.SegmentBytes) {
		if f.active == nil {
			if f.active, err = f.o.FS.OpenReadWrite(f.path(s)); err != nil {
				return nil, false, false, err
			}
		}
		return s, false, false, nil
	}
	if err := f.seal(); err != nil {
		return nil, false, false, err
	}
	f.takeSpare(true)
	if err := f.writable(); err != nil {
		return nil, false, false, err
	}
	number := uint64(1)
	if s != nil {
		number = s.number + 1
	}
	s = newSegment(number, day, f.next)
	if f.spare != nil && f.spareOf.number == number && f.spareOf.day == day {
		f.active, f.spare, f.spareOf = f.spare, nil, nil
		return s, true, true, nil
	}
	if f.spare != nil { // of another day; a power loss may bring it back, so its number stays taken
		s.number = max(s.number, f.spareOf.number+1)
		f.dropSpare()
	}
	if f.day != day { // its parents stay once they are durable
		if err := fsys.MkdirAllSynced(f.o.FS, filepath.Join(f.o.Dir, day), SiteMkdir); err != nil {
			return nil, false, false, err
		}
		f.day = day
	}
	if f.active, err = f.o.FS.Create(f.path(s)); err != nil {
		f.active, f.day = nil, ""
		return nil, false, false, err
	}
	return s, true, false, nil
}

// trouble converts an error of the disk into one of the store: only a failed sync poisons it.
func (f *File) trouble(err error) error {
	switch class := fsys.Classify(err); {
	case errors.Is(err, ErrPoisoned):
	case class == fsys.SyncFailed:
		return f.fail(err)
	case class == fsys.NoSpace:
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}
