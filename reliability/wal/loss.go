package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file carries out an accepted loss: it rewrites the log so that a segment's head names the abandoned
// records and the remaining ones have no gaps. It runs inside Open only, and only under Options.AcceptLoss.
// Nothing is deleted.

// Loss is a range of records that was given up under Options.AcceptLoss.
type Loss struct {
	FirstSeq uint64
	// LastSeq is an upper bound: no lost record has a higher number. Numbering continues behind it, so
	// that no number is ever used twice.
	LastSeq    uint64
	Quarantine string        // folder that damaged segments go to, once the log needs them no more
	Cause      *CorruptError // only from the Open that gave it up
}

// Losses are the accepted losses that lie between the records still kept, oldest first.
//
// A loss disappears from the list when Truncate has passed it. The damaged segments stay in their quarantine
// folder.
func (l *Log) Losses() []Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.next.Load()
	if len(l.segments) > 0 {
		first = l.segments[0].start()
	}
	var out []Loss
	for _, loss := range l.losses { // Truncate does not touch the list: losses below the oldest record are skipped here
		if loss.FirstSeq >= first {
			out = append(out, loss)
		}
	}
	return out
}

// lossBefore describes the loss that the head of a segment names. LastSeq follows from the segment's own first
// number.
func (l *Log) lossBefore(s *segment) Loss {
	return Loss{FirstSeq: s.lostFrom, LastSeq: s.first - 1, Quarantine: l.quarantine(s.lostFrom)}
}

// quarantine is the folder for the segments damaged around the first lost record. Its name follows from that
// number alone, so that an attempt after a crash uses the same folder.
func (l *Log) quarantine(lostFrom uint64) string {
	return filepath.Join(l.o.Dir, fmt.Sprintf("quarantine-%020d", lostFrom))
}

// salvage takes the gaps out of the log, so that it is whole without them: the records after a gap
// begin a segment, whose head names the lost ones. Where the records behind a gap share a segment
// with those in front of it, they are copied to a new one; the old one keeps its bytes, which count
// only up to where the next one begins. The last gap comes first: after a crash the next attempt
// finds those that are left.
func (l *Log) salvage(v *survey) error {
	for i := len(v.gaps) - 1; i >= 0; i-- {
		g := v.gaps[i]
		var err error
		switch {
		// Nothing usable behind it: the log ends here, and numbering continues above.
		case g.next == nil:
			err = l.beginAbove(v, g)
		// The records behind it begin a segment already: its head only has to name the missing records in
		// front.
		case g.next.from == segmentHead:
			g.next.seg.lostFrom = g.Seq
			err = l.writeHead(g.next.seg)
		default:
			err = l.copyPiece(g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beginAbove makes an empty segment above every number that the lost end of the log can
// have held.
//
// The records that were lost may have been acknowledged, and dead letters or cursors may name them. A number that
// is used twice would make those point at other records, so numbering continues above the highest that fits into
// the lost bytes.
func (l *Log) beginAbove(v *survey, g *gap) error {
	var before *segment
	if n := len(v.segments); n > 0 {
		before = v.segments[n-1]
	}
	_, f, err := createSegment(&l.o, g.above+1, g.Seq, before, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeHead writes the head of a segment over itself. It is smaller than a sector, so a
// power loss leaves the old one or the new one.
func (l *Log) writeHead(s *segment) error {
	f, err := l.o.FS.OpenReadWrite(s.path)
	if err == nil {
		if _, err = f.WriteAt(s.head(), 0); err == nil {
			err = fsys.SyncFile(f, fsys.SiteWALHead)
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return fmt.Errorf("write head of segment %s: %w", s.path, err)
	}
	return nil
}

// copyPiece makes a segment of the records behind a gap.
//
// The steps are ordered so that the records count exactly once at any moment: they are written to a temporary
// name and synced, then renamed, then the folder is synced. Before the rename the old segment holds them. After
// it the head of the new one ends the old one in front of the gap. The copy is checked frame by frame again, so a
// second damage stops the override.
func (l *Log) copyPiece(g *gap) error {
	p := g.next
	s, err := newSegment(&l.o, p.first, g.Seq, p.seg)
	if err != nil {
		return err
	}
	write := func(to fsys.File) error {
		if _, err := to.WriteAt(s.head(), 0); err != nil {
			return err
		}
		at := int64(segmentHead)
		return l.withFile(p.seg, func(from fsys.File) error {
			var sc scanner
			var buf []byte
			sc.open(from, p.seg.salt, p.from)
			for seq := p.first; seq < p.next; seq++ {
				var f frame
				payload, reason, err := sc.next(p.to, seq, &f)
				if reason != "" {
					err = errors.New(reason)
				}
				if err != nil {
					return fmt.Errorf("read record %d again: %w", seq, err)
				}
				// Only the salt changes: number, batch and rule stay, so that later records still find their rule.
				rec := Pending{Time: f.time, Type: f.typ, Payload: payload, Seq: seq}
				buf = appendFrame(buf[:0], s.salt, &rec, f.delta, f.count, f.rule)
				if _, err := to.WriteAt(buf, at); err != nil {
					return err
				}
				at += int64(len(buf))
			}
			return nil
		})
	}
	// It appears whole or not at all: as soon as it is there, its records no longer count
	// where they were.
	temp := s.path + fsys.TempSuffix
	to, err := l.o.FS.Create(temp)
	if err != nil {
		return fmt.Errorf("create segment %s: %w", temp, err)
	}
	err = write(to)
	if err == nil {
		err = fsys.SyncFile(to, fsys.SiteWALSalvage)
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = l.o.FS.Rename(temp, s.path)
	}
	if err == nil {
		err = fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALQuarantineLog)
	}
	if err != nil {
		return fmt.Errorf("copy records to segment %s: %w", s.path, err)
	}
	return nil
}

// moveAside puts segments that hold only abandoned records into the quarantine.
func (l *Log) moveAside(segments []superseded) error {
	for _, x := range segments {
		if err := l.quarantineSegment(x.s.path, x.by.start()); err != nil {
			return fmt.Errorf("move segment %s aside: %w", x.s.path, err)
		}
	}
	return nil
}

// quarantineSegment moves one segment. A crash between any two of its steps leaves the segment in one of the two
// folders or in both, and the next start moves it again.
func (l *Log) quarantineSegment(path string, lostFrom uint64) error {
	dir := l.quarantine(lostFrom)
	if err := l.o.FS.MkdirAll(dir); err != nil {
		return err
	}
	// The folder must be durable before the segment moves into it, or a power loss takes both.
	if err := fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALQuarantineLog); err != nil {
		return err
	}
	if err := l.o.FS.Rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
		return err
	}
	// First there, then gone here: a crash in between leaves a segment twice, not never.
	if err := fsys.SyncDir(l.o.FS, dir, fsys.SiteWALQuarantineDir); err != nil {
		return err
	}
	return fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALQuarantineLog)
}

// copyBytes copies the first size bytes. It does not sync.
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
