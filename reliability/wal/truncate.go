package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Truncate deletes the segments whose records are all below a number, but never the last
// segment. Deleted segments do not return after a power loss. Readers that are inside a deleted
// segment finish it. A failed sync poisons the log; after another error, the next call retries the
// remaining segments.
//
// The owner passes the lowest record that a checkpoint or a sink still needs. That bound must be durable before
// the call: a segment that is gone cannot be read again by a start that goes back to an older cursor. Only
// whole segments are deleted, so up to SegmentBytes of records below the bound stay.
func (l *Log) Truncate(belowSeq uint64) error {
	l.truncateMu.Lock()
	defer l.truncateMu.Unlock()
	for {
		l.mu.Lock()
		if l.err != nil {
			defer l.mu.Unlock()
			return l.err
		}
		if len(l.segments) < 2 || l.segments[1].start() > belowSeq {
			l.mu.Unlock()
			return nil
		}
		// Out of the list first, so that no new reader picks it.
		oldest, next := l.segments[0], l.segments[1]
		l.segments = l.segments[1:]
		l.mu.Unlock()

		// Without mu, since it syncs. truncateMu keeps the list as it is: only Append adds to its end meanwhile.
		err := l.drop(oldest, next)
		if fsys.Classify(err) == fsys.SyncFailed {
			return l.poison(fmt.Errorf("sync folder %s: %w", l.o.Dir, err))
		}
		if err != nil {
			// The file is still there, so its records still count: back into the list, or Size and FirstSeq would lie.
			l.mu.Lock()
			l.segments = append([]*segment{oldest}, l.segments...)
			l.mu.Unlock()
			return fmt.Errorf("remove segment %s: %w", oldest.path, passing(err))
		}
		l.o.Metrics.removed.Inc()
		l.measure()
	}
}

// drop deletes a segment, or moves it aside if abandoned records lie behind it. Segments are
// deleted one by one from the oldest: even if a power loss brings some back, there is never a hole
// in front of a retained segment.
func (l *Log) drop(s, next *segment) error {
	if next.lostFrom != 0 {
		// It also holds the bytes of records that were given up, which an operator may want to look at.
		return l.quarantineSegment(s.path, next.lostFrom)
	}
	return fsys.ChangeDir(l.o.FS, l.o.Dir, fsys.SiteWALTruncate, func() error {
		// One that is gone already was removed by a call whose sync did not happen. The sync still has to happen.
		if err := l.o.FS.Remove(s.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Closed describes the oldest closed segment that begins with a record from that number on: its records are
// first <= number < next, without those that were given up. A closed segment never changes.
func (l *Log) Closed(from uint64) (first, next uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; i+1 < len(l.segments); i++ {
		if s := l.segments[i]; s.first >= from {
			return s.first, l.segments[i+1].start(), true
		}
	}
	return 0, 0, false
}
