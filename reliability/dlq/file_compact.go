package dlq

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Compact frees the space of removed entries: segments are rewritten without
// them, empty ones deleted. Segments with damaged places are left as they are until they
// are too old.
func (f *File) Compact(ctx context.Context) error {
	if err := f.own(ctx); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	return f.compact()
}

func (f *File) compact() error {
	defer f.observe()
	for _, s := range slices.Clone(f.segments) { // oldest first: later removals get free
		if s.deadCount == 0 && !s.removals {
			continue
		}
		if s.gaps > 0 {
			continue
		}
		if err := f.rewrite(s, math.MinInt64); err != nil {
			return fmt.Errorf("compact dead letters: %w", err)
		}
	}
	return nil
}

// Purge implements Store.
func (f *File) Purge(ctx context.Context, before time.Time) (n int, err error) {
	if err := f.own(ctx); err != nil {
		return 0, err
	}
	defer func() { <-f.turn }()
	defer f.observe()
	limit := before.UnixMilli()
	if before.Nanosecond()%1e6 > 0 {
		limit++ // entries have whole milliseconds
	}
	for _, s := range slices.Clone(f.segments) {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		if s.oldest >= limit {
			// Nothing to purge. Damaged ones that hold nothing else go with their age.
			if s.gaps == 0 || s.live > 0 || s.age() >= limit {
				continue
			}
		}
		was := s.live
		if s.gaps > 0 && s.age() >= limit {
			err = f.purgeDamaged(s, limit)
		} else {
			err = f.rewrite(s, limit)
		}
		if err != nil {
			return n, fmt.Errorf("purge dead letters: %w", err)
		}
		n += int(was - s.live)
		f.o.Metrics.removed[purged].Add(int(was - s.live))
	}
	return n, nil
}

// purgeDamaged removes old entries by lines, as rewriting would destroy data that may still be
// recoverable.
func (f *File) purgeDamaged(s *segment, limit int64) error {
	buf, err := f.read(s)
	if err != nil {
		return err
	}
	defer buffers.Put(buf)
	p := &pending{}
	note := p.killer(f)
	eachLine(*buf, s.number, false, func(l *line) bool {
		if l.isEntry() && !s.isDead(l.n) && l.saved < limit {
			err = note(s, l)
		}
		return err == nil
	})
	if err != nil || len(p.kills) == 0 {
		return err
	}
	if err := p.measure(s, *buf); err != nil {
		return err
	}
	p.remove(purged, f.o.Now())
	return f.commit([]*pending{p})
}

// rewrite replaces a segment by one without removed entries and those saved before limit.
// Of its removals only those stay that something on disk still needs. A segment of which
// nothing is left is deleted, unless it is the last one, which knows the next number.
func (f *File) rewrite(s *segment, limit int64) error {
	newest := s == f.segments[len(f.segments)-1]
	if newest {
		if err := f.seal(); err != nil {
			return err
		}
	}
	buf, err := f.read(s)
	if err != nil {
		return err
	}
	defer buffers.Put(buf)
	fresh := newSegment(s.number, s.day, s.first)
	out := make([]byte, segmentHead, len(*buf)/2+segmentHead)
	put := func(l line, key tallyKey) {
		l.batch = len(out)
		out = appendLine(out, s.number, &l)
		l.size = len(out) - l.batch
		fresh.holds(&l, key, false)
	}
	err = nil
	eachLine(*buf, s.number, s.gaps == 0, func(l *line) bool {
		alive := l.isEntry() && !s.isDead(l.n) && l.saved >= limit
		if alive {
			key, keyErr := encodedKey(l.body)
			if err = keyErr; err != nil {
				return false
			}
			kept := *l
			if l.kind == lineAgain && len(f.needed(s, []span{{l.replaces, l.replaces}})) == 0 {
				kept.kind, kept.replaces = lineEntry, 0
			}
			put(kept, f.admit(key))
			return true
		}
		removes, spanErr := l.removes()
		if spanErr != nil {
			err = spanErr
			return false
		}
		if needed := f.needed(s, removes); len(needed) > 0 {
			why := l.kind
			if l.isEntry() {
				why = byte(discarded)
			}
			put(line{kind: why, n: l.n, saved: l.saved, body: appendSpans(nil, needed)}, tallyKey{})
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.path(s), err)
	}
	if len(out) == segmentHead {
		if !newest {
			return f.trouble(f.removeFile(s))
		}
		fresh.first, fresh.last = f.next, f.next-1
	}
	if fresh.last >= fresh.first && len(out) > segmentHead { // all of it is synced before it takes the old one's place
		out = appendLine(out, s.number, &line{kind: lineSynced, n: fresh.last, batch: len(out), saved: f.o.Now().UnixMilli()})
	}
	fresh.size = int64(len(out))
	appendSegmentHead(out[:0], fresh.number, fresh.first)
	// After a failed sync the file is whole, but it is unknown which of the two versions it is.
	return f.trouble(f.replace(s, fresh, out))
}

// replace rewrites a segment while no reader has it open.
func (f *File) replace(s, fresh *segment, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := fsys.Replace(f.o.FS, f.path(s), data)
	if err == nil {
		*s = *fresh
	}
	return err
}

// needed are those of the ranges that remove lines which other segments still hold.
func (f *File) needed(self *segment, removes []span) (needed []span) {
	for _, r := range removes {
		for _, s := range f.segments {
			if s == self || s.deadCount == 0 || s.last < r[0] || s.first > r[1] {
				continue
			}
			needed = append(needed, span{max(r[0], s.first), min(r[1], s.last)})
		}
	}
	return needed
}

func (f *File) removeFile(s *segment) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := filepath.Join(f.o.Dir, s.day)
	if err := fsys.ChangeDir(f.o.FS, dir, SiteRemoveDir, func() error { return f.o.FS.Remove(f.path(s)) }); err != nil {
		return err
	}
	f.segments = slices.DeleteFunc(f.segments, func(x *segment) bool { return x == s })
	s.live, s.liveBytes = 0, 0
	if names, err := f.o.FS.List(dir); err == nil && len(names) == 0 {
		_ = f.o.FS.Remove(dir) // an empty folder does no harm
		if f.day == s.day {
			f.day = ""
		}
	}
	return nil
}
