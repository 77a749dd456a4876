package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file puts ranges of the log aside and reads them again: the dead letter of a range that a sink skipped, or
// of a record too large to copy, refers to one. An archive is a folder of segments, hard-linked where possible,
// and needs no open log.

// SizeFrom is about how many bytes the records from a number to the end take. It does
// not grow with the number.
//
// It counts frames, without the heads of segments and preallocated space. It is used to say how far a sink is
// behind. Callers search for a number by it, so it must never grow with from.
func (l *Log) SizeFrom(from uint64) (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Records are assumed to be of equal size within a segment. Exact offsets would need an index of all records.
	for i, s := range l.segments {
		next := l.next.Load()
		if i+1 < len(l.segments) {
			next = l.segments[i+1].start()
		}
		used := s.end.Load() - segmentHead
		switch {
		case from >= next || used <= 0:
		case from <= s.first:
			bytes += used
		default:
			bytes += int64(float64(used) * float64(next-from) / float64(next-s.first))
		}
	}
	return bytes
}

// Archive puts the segments that hold the records from..to into a folder of their own, where
// Truncate does not reach them, and returns when they are durable there. They are
// hard-linked, so they cost nothing until the log deletes them; where the file system has no links
// they are copied. Records outside the range may come along: OpenArchive leaves them out. Archiving
// the same range again is no error.
//
// The caller refers to the folder only after Archive has returned nil. A crash before that leaves a folder that
// nothing refers to, and one after that leaves an archive that is complete. An error wraps ErrTruncated if a
// record of the range is gone or not durable yet. Any error leaves at most files that a second call finds.
func (l *Log) Archive(from, to uint64, dir string) error {
	// Held until the links are durable, so that no segment goes away meanwhile.
	l.truncateMu.Lock()
	defer l.truncateMu.Unlock()
	l.mu.Lock()
	var keep []*segment
	for i, s := range l.segments {
		if s.first <= to && (i+1 == len(l.segments) || l.segments[i+1].start() > from) {
			keep = append(keep, s)
		}
	}
	first := l.next.Load()
	if len(l.segments) > 0 {
		first = l.segments[0].first
	}
	l.mu.Unlock()
	if from < first || to > l.durable.Load() {
		return fmt.Errorf("archive records %d to %d: %w", from, to, ErrTruncated)
	}
	// First the folder, then its files, then the folder again: once the second sync returns, a power loss cannot take
	// any of them. A crash before leaves links that the next call with the same range finds and accepts.
	if err := fsys.MkdirAllSynced(l.o.FS, dir, fsys.SiteWALArchive); err != nil {
		return err
	}
	for _, s := range keep {
		if err := l.link(s, filepath.Join(dir, segmentName(s.first))); err != nil {
			return fmt.Errorf("archive segment %s: %w", s.path, passing(err))
		}
	}
	if err := fsys.SyncDir(l.o.FS, dir, fsys.SiteWALArchive); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// linker is a file system with hard links.
type linker interface {
	Link(oldName, newName string) error
}

// link gives a segment a second name, or a copy under that name. The active segment may be linked, too: the bytes
// behind the archived range grow with the log, and readers of the archive stop before them. truncateMu is held.
func (l *Log) link(s *segment, name string) error {
	if links, ok := l.o.FS.(linker); ok {
		err := links.Link(s.path, name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return nil
		}
		// Another file system, or one without links: copy.
	}
	from, err := l.o.FS.Open(s.path)
	if err != nil {
		return err
	}
	defer from.Close()
	// A copy takes its name once it is whole and durable: a name that exists is taken for a complete segment. A crash
	// or a full disk leaves a short file under the other name, which the next call writes again from its beginning.
	to, err := l.o.FS.Create(name + fsys.TempSuffix)
	if err != nil {
		return err
	}
	// Up to the durable end only: bytes behind it may be torn, or be cut back while they are read.
	err = copyBytes(to, from, s.end.Load())
	if err == nil {
		err = fsys.SyncFile(to, fsys.SiteWALArchiveFile)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return l.o.FS.Rename(name+fsys.TempSuffix, name)
}

// ArchiveReader reads a range of records that Archive put aside. It is for one goroutine. It needs
// no open log: an archive outlives the log that it was made from.
//
// Its payloads are valid until the next call of Next, as those of a Reader. The first bad frame inside the range
// ends it: an archive has no second copy.
type ArchiveReader struct {
	fs    fsys.FS
	files []*segment // not yet entered, ascending; their heads are not read yet
	from  uint64     // records before it are read and skipped
	to    uint64
	tail  bool // of a log that goes on: its segments may be deleted meanwhile
	// unmarked: nothing says where it ends, so what follows its last good frame does.
	unmarked bool

	// Of the segment at hand; nil before the first Next.
	seg  *segment
	file fsys.File
	scan scanner
	size int64
	next uint64 // the record that must come next: any other is damage
}

// OpenArchive reads the records from..to of a folder that Archive made.
//
// It looks at names only. Heads and frames are checked as they are read.
func OpenArchive(f fsys.FS, dir string, from, to uint64) (*ArchiveReader, error) {
	files, err := listSegments(f, dir)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(s *segment) bool { return s.first > to })
	k := &ArchiveReader{fs: f, files: files, from: from, to: to}
	if len(k.files) == 0 || k.files[0].first > from {
		return nil, fmt.Errorf("archived records %s: %w: record %d is not there", dir, ErrTruncated, from)
	}
	return k, nil
}

// Next reads the next record; ok is false behind the last one of the range. A
// *CorruptError means that records are damaged or missing.
func (k *ArchiveReader) Next(rec *Record) (ok bool, err error) {
	for {
		if k.seg == nil || k.next > k.to {
			if k.seg != nil || len(k.files) == 0 {
				return false, nil
			}
			if err := k.enter(); err != nil {
				return false, err
			}
		}
		var f frame
		at := k.scan.off
		payload, reason, err := k.scan.next(k.size, k.next, &f)
		if err != nil {
			return false, fmt.Errorf("read segment %s at offset %d: %w", k.seg.path, at, err)
		}
		// A segment has no end mark: its last frame is followed by zeros, or by records that count as given up. So
		// apparent damage is the regular end if the next segment continues right here.
		if reason != "" {
			follows, err := k.follows()
			if err != nil {
				return false, err
			}
			if follows {
				if err := k.enter(); err != nil {
					return false, err
				}
				continue
			}
			if k.unmarked && len(k.files) == 0 {
				k.to = k.next - 1
				return false, nil
			}
			return false, &CorruptError{Segment: k.seg.path, Offset: at, Seq: k.next, Reason: reason}
		}
		k.next++
		if f.seq < k.from {
			continue
		}
		*rec = Record{Seq: f.seq, Time: f.time, Type: f.typ, Payload: payload, Segment: k.seg.first, Offset: at}
		return true, nil
	}
}

// follows reports whether the next segment begins with the next record, or says that the
// records up to its own were given up.
//
// A head that cannot be read does not follow: the caller then reports the damage at the place where it stands.
func (k *ArchiveReader) follows() (bool, error) {
	if len(k.files) == 0 {
		return false, nil
	}
	s := k.files[0]
	f, err := k.fs.Open(s.path)
	if err != nil {
		return false, fmt.Errorf("open archived segment: %w", err)
	}
	err = s.readHead(f)
	_ = f.Close() // it was only read
	return err == nil && s.start() <= k.next && k.next <= s.first, nil
}

// enter opens the next segment at its first record.
func (k *ArchiveReader) enter() error {
	if err := k.Close(); err != nil {
		return err
	}
	s := k.files[0]
	k.files = k.files[1:]
	f, err := k.fs.Open(s.path)
	if k.tail && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read record %d: %w", s.first, ErrTruncated)
	}
	if err != nil {
		return fmt.Errorf("open archived segment: %w", err)
	}
	k.file = f
	if err := s.readHead(f); err != nil {
		return fmt.Errorf("read archived segment %s: %w", s.path, err)
	}
	if k.size, err = f.Size(); err != nil {
		return fmt.Errorf("read archived segment %s: %w", s.path, err)
	}
	k.seg, k.next = s, s.first
	k.scan.open(f, s.salt, segmentHead)
	return nil
}

// Close closes the open file.
func (k *ArchiveReader) Close() error {
	if k.file == nil {
		return nil
	}
	f := k.file
	k.file = nil
	return f.Close()
}

// RemoveArchive deletes a folder that Archive made. One that is gone is no error.
//
// It does not sync: after a power loss the folder may be there again. The segments go first, since only an empty
// folder can be removed.
func RemoveArchive(f fsys.FS, dir string) error {
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list folder %s: %w", dir, err)
	}
	for _, name := range names { // those of copies that were not finished, too
		if _, ok := parseSegmentName(strings.TrimSuffix(name, fsys.TempSuffix)); !ok {
			continue
		}
		if err := f.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove archived records: %w", err)
		}
	}
	if err := f.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove archived records: %w", err)
	}
	return nil
}

// OpenFolder reads the durable records of a log that another process may be writing, from a number on, or from the
// oldest. It needs no lock and changes nothing. A segment that is deleted meanwhile ends it with ErrTruncated.
//
// A restored log has no marker until an engine starts on it: it is read up to its last good frame.
func OpenFolder(f fsys.FS, dir string, from uint64) (*ArchiveReader, error) {
	// The marker first: the list of segments then holds all that it names.
	l := &Log{o: Options{FS: f, Dir: dir}}
	if err := l.readMark(); err != nil {
		return nil, err
	}
	files, err := listSegments(f, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	to := l.mark.found.seq
	unmarked := to == 0
	if unmarked {
		to = math.MaxUint64
	}
	k := &ArchiveReader{fs: f, from: from, to: to, tail: true, unmarked: unmarked}
	if len(files) > 0 && from != 0 && files[0].first > from {
		return nil, fmt.Errorf("read from record %d of %s: %w, the oldest is %d", from, dir, ErrTruncated, files[0].first)
	}
	for i, s := range files {
		if s.first <= to && (i+1 == len(files) || files[i+1].first > from) {
			k.files = append(k.files, s)
		}
	}
	return k, nil
}
