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

// This file is the start: it surveys the log, identifies the remains of a crash, and makes the remaining
// records durable. Everything in it runs in the goroutine of Open, before any other goroutine has the Log.
// FORMAT.md lists the possible findings and how each is handled.

// Open reads the whole log, checks every record, and takes a torn tail off the last
// segment. It returns a *CorruptError if synced data cannot be read (see
// Options.AcceptLoss), a *VersionError if a newer program wrote the log, and otherwise
// errors of the disk. Open itself has synced all records up to DurableSeq.
func Open(o Options) (*Log, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
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

// open recovers the log. No other goroutine knows it yet, so no lock is held here or in the functions
// that it calls.
//
// The order matters. The folder is synced before it is read, so that nothing is served that a power loss could still
// take. The mark comes before the survey, which needs it to distinguish a torn end from a lost one. The survey
// changes nothing, so a log that is refused is left exactly as it was. A loss is accepted by rewriting the log and
// surveying it again: the second survey proves that the rewritten log has no gaps.
func (l *Log) open() error {
	if err := fsys.MkdirAllSynced(l.o.FS, l.o.Dir, fsys.SiteWALMkdir); err != nil {
		return err
	}
	if err := fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALOpen); err != nil {
		return fmt.Errorf("sync folder %s: %w", l.o.Dir, err)
	}
	if err := l.readMark(); err != nil {
		return err
	}
	v, err := l.survey()
	if err != nil {
		return err
	}
	var corrupt *CorruptError
	if len(v.gaps) > 0 {
		corrupt = v.corrupt()
		l.o.Metrics.corrupt.Inc()
		if !l.o.AcceptLoss {
			return corrupt
		}
		if err := l.salvage(v); err != nil {
			return fmt.Errorf("give up what is corrupt (%w): %w", corrupt, err)
		}
		if v, err = l.survey(); err != nil {
			return err
		}
		if len(v.gaps) > 0 {
			return v.corrupt()
		}
	}
	if err := l.take(v); err != nil {
		return err
	}
	if corrupt != nil {
		for i := range l.losses {
			l.losses[i].Cause = corrupt.at(l.losses[i].FirstSeq)
		}
	}
	l.tryMark()
	return nil
}

// listSegments returns the segments of a log or an archive by their names, ascending. Other names are ignored: an
// archive, a quarantine and the marker live beside the segments.
//
// Only first and path are set. The caller reads the heads.
func listSegments(f fsys.FS, dir string) ([]*segment, error) {
	names, err := f.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list folder %s: %w", dir, err)
	}
	var out []*segment
	for _, name := range names {
		if first, ok := parseSegmentName(name); ok {
			out = append(out, &segment{first: first, path: filepath.Join(dir, name)})
		}
	}
	slices.SortFunc(out, func(a, b *segment) int { return cmp.Compare(a.first, b.first) })
	return out, nil
}

// Starts are from, and the numbers behind it with which segments of a folder begin.
func Starts(f fsys.FS, dir string, from uint64) []uint64 {
	starts := []uint64{from}
	segments, _ := listSegments(f, dir) // who reads them finds the error
	for _, s := range segments {
		if s.first > from {
			starts = append(starts, s.first)
		}
	}
	return starts
}

// take builds the log from a survey without gaps, and makes its content durable.
//
// Repairs of heads come first: they are proven, and lose nothing if a crash ends the start here. Then segments whose
// records were all given up leave the folder, oldest reason first, so that the next start finds the same losses. Only
// the last segment may be changed beyond that, since only it can have been in the middle of a write.
func (l *Log) take(v *survey) error {
	if l.mark.bad != nil {
		l.repairs = append(l.repairs, l.mark.bad.Error())
	}
	for _, s := range v.segments {
		if s.repaired == nil {
			continue
		}
		if err := l.writeHead(s); err != nil {
			return err
		}
		l.repairs = append(l.repairs, fmt.Sprintf("segment %s: %v (head rewritten, no record lost)", s.path, s.repaired))
	}
	// A segment that was moved aside before a crash is not surveyed again. One that was not moved yet is
	// superseded again, by the same head, so this step can be repeated.
	if err := l.moveAside(v.superseded); err != nil {
		return err
	}
	l.nextSeq, l.rule = max(v.next, 1), max(v.rule, 1)
	// Nothing in front of the last segment needs a sync: a segment is only begun after the one before it was
	// synced to its end.
	durable := v.seq
	if n := len(v.segments); n > 0 {
		if durable == 0 {
			durable = v.segments[0].start() - 1
		}
		if v.uninitialized == nil {
			if err := l.takeLast(v, v.segments[n-1]); err != nil {
				return err
			}
		}
	}
	if v.uninitialized != nil {
		// Its name proves that the segment before it was full, so nothing may be appended to that one any more.
		// The next batch creates it again, under the same name.
		l.nextSeq = max(l.nextSeq, v.uninitialized.first)
		durable = max(durable, v.uninitialized.first-1)
	}
	for _, s := range v.segments {
		if s.lostFrom != 0 {
			l.losses = append(l.losses, l.lossBefore(s))
		}
	}
	l.segments = v.segments
	l.next.Store(l.nextSeq)
	l.durable.Store(durable)
	return nil
}

// isUninitialized reports whether a segment with a bad head never held a record: its creation was
// cut short before the head was synced, so that nothing follows the head.
func (l *Log) isUninitialized(s *segment) (bool, error) {
	var end int64
	err := l.withFile(s, func(f fsys.File) (err error) {
		end, err = usedBytes(f, s.size)
		return err
	})
	return end <= segmentHead, err
}

// takeLast cuts the remains of a crash from the end of the last segment, and makes the records in
// front of them durable.
//
// The four steps are ordered. First the tail is cut, or the bytes behind the last record would be synced with
// it. Then the batch is written again, because pages whose sync failed may be marked clean. Then one sync
// covers both. Only when take has stored the durable number after that can a reader be given a record.
func (l *Log) takeLast(v *survey, s *segment) error {
	f, err := l.o.FS.OpenReadWrite(s.path)
	if err != nil {
		return fmt.Errorf("open segment %s: %w", s.path, err)
	}
	l.file, l.active = f, s // closed by Open if anything below fails
	if err := l.cutTail(s, f, v.end); err != nil {
		return err
	}
	// A process that died, or whose sync failed, may have left the last batch in memory
	// only, even in pages that the system no longer takes for unwritten. So the batch is
	// written once more. On a full disk that may fail where a copy would be needed.
	if err := rewrite(f, v.batchAt, v.end); err != nil && !errors.Is(passing(err), ErrNoSpace) {
		return fmt.Errorf("write last batch of segment %s again: %w", s.path, err)
	}
	// The sync covers the cut, too. Only after it may readers see the records of the last batch: they would otherwise
	// act on records that a power loss removes again.
	if err := fsys.SyncFile(f, fsys.SiteWALRecover); err != nil {
		return fmt.Errorf("sync segment %s: %w", s.path, err)
	}
	return nil
}

// cutTail takes the bytes behind the last good frame off: they are zeros of the
// preallocated rest, or of a batch whose sync never returned.
func (l *Log) cutTail(s *segment, f fsys.File, off int64) error {
	end, err := usedBytes(f, s.size)
	if err != nil {
		return fmt.Errorf("read segment %s: %w", s.path, err)
	}
	// Cut, not overwritten with zeros: a later batch could end inside the leftovers, whose frames carry the right salt and
	// the right numbers, and would be read as its own.
	if end > off {
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

// Repairs lists the damage that Open repaired without a loss.
func (l *Log) Repairs() []string { return l.repairs }

// usedBytes is the offset behind the last byte of a file that is not zero. It reads backwards from the end, since the
// zeros of a preallocated segment are usually most of it.
//
// A payload may end with zeros, so the last record may reach beyond it.
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

// rewrite writes the bytes [from, to) over themselves, so that the pages are dirty and the next sync writes them.
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

// withFile opens a segment for reading, for the duration of one call.
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
