package wal

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Loss is a range of records that was given up under Options.AcceptLoss.
type Loss struct {
	FirstSeq uint64
	// LastSeq is an upper bound: no lost record has a higher number. Numbering goes on
	// behind it, so that no number is ever used twice.
	LastSeq    uint64
	Quarantine string        // folder with the damaged segment and those after it
	Cause      *CorruptError // only from the Open that gave it up
}

// Losses are the accepted losses that lie between the records still kept, oldest first.
func (l *Log) Losses() []Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.next.Load()
	if len(l.segments) > 0 {
		first = l.segments[0].start()
	}
	var out []Loss
	for _, loss := range l.losses {
		if loss.FirstSeq >= first {
			out = append(out, loss)
		}
	}
	return out
}

func (l *Log) lossBefore(s *segment) Loss {
	return Loss{FirstSeq: s.lostFrom, LastSeq: s.first - 1, Quarantine: l.quarantine(s.lostFrom)}
}

func (l *Log) quarantine(lostFrom uint64) string {
	return filepath.Join(l.o.Dir, fmt.Sprintf("quarantine-%020d", lostFrom))
}

// acceptLoss replaces everything from a corruption on by an empty segment whose head
// says what was lost. The new segment comes first, so that a crash at any point leaves
// either a log that still stops at the corruption or one that is whole, and so that a
// second attempt numbers its segment above the first one's.
func (l *Log) acceptLoss(c *CorruptError) error {
	if err := l.closeFile(); err != nil {
		return err
	}
	l.losses = nil
	segments, err := l.listSegments()
	if err != nil {
		return err
	}
	damaged := slices.IndexFunc(segments, func(s *segment) bool { return s.path == c.Segment })
	if damaged < 0 {
		return fmt.Errorf("segment %s is gone", c.Segment)
	}
	aside := segments[damaged:]
	lastSeq, err := l.lastPossible(aside, c)
	if err != nil {
		return err
	}
	_, f, err := createSegment(&l.o, lastSeq+1, c.Seq, 0)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}

	dir := l.quarantine(c.Seq)
	if err := l.o.FS.MkdirAll(dir); err != nil {
		return err
	}
	if err := fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALQuarantineLog); err != nil {
		return err
	}
	if c.Offset > 0 {
		// The good records in front of the damage stay in the log.
		if err := l.copyAside(aside[0], dir); err != nil {
			return err
		}
		aside = aside[1:]
	}
	for _, s := range aside {
		if err := l.o.FS.Rename(s.path, filepath.Join(dir, filepath.Base(s.path))); err != nil {
			return err
		}
	}
	// First there, then gone here: a crash in between leaves a segment twice, not never.
	if err := fsys.SyncDir(l.o.FS, dir, fsys.SiteWALQuarantineDir); err != nil {
		return err
	}
	return fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALQuarantineLog)
}

// lastPossible is the highest number that a record in these segments can have: a record
// takes at least frameHead bytes.
func (l *Log) lastPossible(aside []*segment, c *CorruptError) (uint64, error) {
	last := c.Seq
	for i, s := range aside {
		var used int64
		err := l.withFile(s, func(f fsys.File) (err error) {
			if s.size, err = f.Size(); err != nil {
				return err
			}
			used, err = usedBytes(f, s.size)
			return err
		})
		if err != nil {
			return 0, err
		}
		first := s.first
		if i == 0 && c.Offset > 0 {
			first, used = c.Seq, used-c.Offset
		}
		last = max(last, first+uint64(max(0, used)+frameHead-1)/frameHead)
	}
	return last, nil
}

func (l *Log) copyAside(s *segment, dir string) error {
	return l.withFile(s, func(from fsys.File) error {
		used, err := usedBytes(from, s.size)
		if err != nil {
			return err
		}
		to, err := l.o.FS.Create(filepath.Join(dir, filepath.Base(s.path)))
		if err != nil {
			return err
		}
		err = copyBytes(to, from, used)
		if err == nil {
			err = fsys.SyncFile(to, fsys.SiteWALQuarantineFile)
		}
		if cerr := to.Close(); err == nil {
			err = cerr
		}
		return err
	})
}

func copyBytes(to, from fsys.File, size int64) error {
	buf := make([]byte, min(size, windowBytes))
	for at := int64(0); at < size; at += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), size-at)]
		if n, err := from.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("read segment at offset %d: %w", at, err)
		}
		if _, err := to.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}
