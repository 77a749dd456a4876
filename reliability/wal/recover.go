package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Open reads the whole log, checks every record, and takes a torn tail off the last
// segment. It returns a *CorruptError if synced data cannot be read (see
// Options.AcceptLoss), a *VersionError if a newer program wrote the log, and otherwise
// errors of the disk. What DurableSeq says afterwards has been synced by Open itself.
func Open(o Options) (*Log, error) {
	if err := o.fill(); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{o: o}
	if err := l.open(); err != nil {
		_ = l.closeFile()
		err = passing(err)
		// Nothing was appended yet: a sync that found no space is a full disk, and no more.
		var failed *fsys.SyncError
		if errors.As(err, &failed) && fsys.Classify(failed.Err) == fsys.NoSpace {
			err = fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
		return nil, fmt.Errorf("open log: %w", err)
	}
	l.measure()
	return l, nil
}

func (l *Log) open() error {
	if err := fsys.MkdirAllSynced(l.o.FS, l.o.Dir, fsys.SiteWALMkdir); err != nil {
		return err
	}
	if err := fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALOpen); err != nil {
		return fmt.Errorf("sync folder %s: %w", l.o.Dir, err)
	}
	err := l.recover()
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		return err
	}
	l.o.Metrics.corrupt.Inc()
	if !l.o.AcceptLoss {
		return err
	}
	if err := l.acceptLoss(corrupt); err != nil {
		return fmt.Errorf("move corrupt data aside (%w): %w", corrupt, err)
	}
	if err := l.recover(); err != nil {
		return err
	}
	for i := range l.losses {
		if l.losses[i].FirstSeq == corrupt.Seq {
			l.losses[i].Cause = corrupt
		}
	}
	return nil
}

// listSegments returns the segments by their names, ascending. Other names are ignored.
func (l *Log) listSegments() ([]*segment, error) {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list folder %s: %w", l.o.Dir, err)
	}
	var out []*segment
	for _, name := range names {
		if first, ok := parseSegmentName(name); ok {
			out = append(out, &segment{first: first, path: filepath.Join(l.o.Dir, name)})
		}
	}
	slices.SortFunc(out, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	return out, nil
}

// recover fills in segments, file, nextSeq, durable and losses.
func (l *Log) recover() error {
	segments, err := l.listSegments()
	if err != nil {
		return err
	}
	// Heads come first: where a segment must end is known from the next one's head.
	heads := make([]error, len(segments))
	for i, s := range segments {
		err := l.withFile(s, func(f fsys.File) error {
			if s.size, err = f.Size(); err != nil {
				return fmt.Errorf("size of %s: %w", s.path, err)
			}
			return s.readHead(f)
		})
		if err != nil && !errors.Is(err, errBadHead) {
			return err
		}
		heads[i] = err
	}

	var sc scanner
	l.nextSeq = 1
	durable := uint64(0)
	for i, s := range segments {
		last := i == len(segments)-1
		if heads[i] != nil {
			unborn, err := l.unborn(s)
			if err != nil {
				return err
			}
			if !last || !unborn {
				return &CorruptError{Segment: s.path, Seq: s.first, Reason: heads[i].Error()}
			}
			// The next batch creates it again, under the same name.
			l.nextSeq = s.first
			durable = max(durable, s.first-1)
			segments = segments[:i]
			break
		}
		if i == 0 {
			durable = s.start() - 1
		}
		if last {
			err = l.recoverLast(s, &sc)
		} else {
			err = l.verify(s, segments[i+1].start(), &sc)
		}
		if err != nil {
			return err
		}
		// A segment that follows an accepted loss and is empty holds nothing durable.
		if s.end.Load() > segmentHead {
			durable = l.nextSeq - 1
		}
		if s.lostFrom != 0 {
			l.losses = append(l.losses, l.lossBefore(s))
		}
	}
	l.segments = segments
	l.next.Store(l.nextSeq)
	l.durable.Store(durable)
	return nil
}

// unborn reports whether a segment with a bad head never held a record: its creation was
// cut short before the head was synced, so that nothing follows the head.
func (l *Log) unborn(s *segment) (bool, error) {
	var end int64
	err := l.withFile(s, func(f fsys.File) (err error) {
		end, err = usedBytes(f, s.size)
		return err
	})
	return end <= segmentHead, err
}

// verify checks a segment that is not the last one: it must end with the record before stop.
func (l *Log) verify(s *segment, stop uint64, sc *scanner) error {
	return l.withFile(s, func(f fsys.File) error {
		sc.open(f, s.salt, segmentHead)
		l.nextSeq = s.first
		for l.nextSeq < stop {
			var fr frame
			_, reason, err := sc.next(s.size, l.nextSeq, &fr)
			if err != nil {
				return fmt.Errorf("read segment %s at offset %d: %w", s.path, sc.off, err)
			}
			if reason != "" {
				end, err := usedBytes(f, s.size)
				if err != nil {
					return err
				}
				if end <= sc.off {
					reason = fmt.Sprintf("segment ends here, but the next one begins with record %d", stop)
				}
				return &CorruptError{Segment: s.path, Offset: sc.off, Seq: l.nextSeq, Reason: reason}
			}
			l.nextSeq++
		}
		if l.nextSeq != stop {
			return &CorruptError{Segment: s.path, Offset: sc.off, Seq: l.nextSeq,
				Reason: fmt.Sprintf("the next segment begins with record %d", stop)}
		}
		s.end.Store(sc.off)
		return nil
	})
}

// recoverLast finds the end of the last segment, cuts what a crash left behind it, and
// makes what is in front of it durable.
func (l *Log) recoverLast(s *segment, sc *scanner) error {
	f, err := l.o.FS.OpenReadWrite(s.path)
	if err != nil {
		return fmt.Errorf("open segment %s: %w", s.path, err)
	}
	l.file, l.active = f, s
	sc.open(f, s.salt, segmentHead)
	l.nextSeq = s.first
	batchAt := int64(segmentHead)
	var reason string
	for {
		var fr frame
		at := sc.off
		if _, reason, err = sc.next(s.size, l.nextSeq, &fr); err != nil {
			return fmt.Errorf("read segment %s at offset %d: %w", s.path, at, err)
		}
		if reason != "" {
			break
		}
		if fr.delta == 0 {
			batchAt = at
		}
		l.nextSeq++
	}
	if err := l.cutTail(s, f, sc.off, reason); err != nil {
		return err
	}
	// A process that died, or whose sync failed, may have left the last batch in memory
	// only, even in pages that the system no longer takes for unwritten. So the batch is
	// written once more. On a full disk that may fail where a copy would be needed.
	if err := rewrite(f, batchAt, sc.off); err != nil && !errors.Is(passing(err), ErrNoSpace) {
		return fmt.Errorf("write last batch of segment %s again: %w", s.path, err)
	}
	if err := fsys.SyncFile(f, fsys.SiteWALRecover); err != nil {
		return fmt.Errorf("sync segment %s: %w", s.path, err)
	}
	s.end.Store(sc.off)
	return nil
}

// cutTail decides about the bytes behind the last good frame: zeros are the preallocated
// rest; a batch whose sync never returned is cut off; damage to a batch that a later one
// follows is corruption, since the later one was only begun after that sync.
func (l *Log) cutTail(s *segment, f fsys.File, off int64, reason string) error {
	end, err := usedBytes(f, s.size)
	if err != nil {
		return fmt.Errorf("read segment %s: %w", s.path, err)
	}
	if end > off {
		rest := make([]byte, s.size-off)
		if n, err := f.ReadAt(rest, off); n < len(rest) {
			return fmt.Errorf("read segment %s at offset %d: %w", s.path, off, err)
		}
		if laterBatch(rest, s.salt, l.nextSeq) {
			return &CorruptError{Segment: s.path, Offset: off, Seq: l.nextSeq, Reason: reason}
		}
		l.o.Metrics.tornBytes.AddInt64(end - off)
		if err := f.Truncate(off); err != nil {
			return fmt.Errorf("cut torn tail of segment %s: %w", s.path, err)
		}
		s.size = off
	}
	if s.size >= l.o.SegmentBytes {
		return nil
	}
	// Without room for the reserve the log can still be read.
	err = f.Preallocate(s.size, l.o.SegmentBytes-s.size)
	if err == nil {
		s.size = l.o.SegmentBytes
	} else if !errors.Is(passing(err), ErrNoSpace) {
		return fmt.Errorf("preallocate segment %s: %w", s.path, err)
	}
	return nil
}

// usedBytes is the offset behind the last byte of a file that is not zero.
func usedBytes(f fsys.File, size int64) (int64, error) {
	buf := make([]byte, min(size, windowBytes))
	for end := size; end > 0; {
		at := max(0, end-int64(len(buf)))
		b := buf[:end-at]
		if n, err := f.ReadAt(b, at); n < len(b) {
			return 0, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		n := len(b)
		for n >= 8 && binary.LittleEndian.Uint64(b[n-8:]) == 0 {
			n -= 8
		}
		for n > 0 && b[n-1] == 0 {
			n--
		}
		if n > 0 {
			return at + int64(n), nil
		}
		end = at
	}
	return 0, nil
}

// rewrite writes the bytes [from, to) over themselves.
func rewrite(f fsys.File, from, to int64) error {
	buf := make([]byte, min(to-from, windowBytes))
	for at := from; at < to; at += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), to-at)]
		if n, err := f.ReadAt(b, at); n < len(b) {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) withFile(s *segment, use func(fsys.File) error) error {
	f, err := l.o.FS.Open(s.path)
	if err != nil {
		return fmt.Errorf("open segment %s: %w", s.path, err)
	}
	err = use(f)
	if cerr := f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close segment %s: %w", s.path, cerr)
	}
	return err
}
