package wal

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file is the writer: one batch becomes one write and one sync. It holds the order that durability rests on
// (write, sync, publish, mark) and the state after a failure of each step.

// keepBuffer is the largest batch buffer that is kept for the next batch, in bytes.
const keepBuffer = 32 << 20

// Append writes recs as one batch and returns when they are durable: one write, one sync.
// It fills in their numbers, which are consecutive. On any error no number is assigned
// and no reader sees any of them, but after a crash all may be in the log: a caller that appends
// them again needs to recognise them.
//
// An error that wraps ErrNoSpace or ErrNoFiles, and any other failed write, leaves the log
// as it was before the call. A failed sync poisons the log.
//
// A batch is written as a whole or not at all, also after a crash. Only an operator who accepts the loss of damaged
// records can separate the records of a batch.
func (l *Log) Append(recs []Pending) error {
	if len(recs) == 0 {
		return l.alive()
	}
	if len(recs) > maxBatch {
		return fmt.Errorf("%w: %d records in one batch, at most %d", ErrTooLarge, len(recs), maxBatch)
	}
	size := int64(0)
	for i := range recs {
		n := recs[i].size()
		if n > MaxPayload {
			return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxPayload)
		}
		size += frameHead + int64(n)
	}
	// Held over the write and its sync: the place and the numbers of a batch follow from the one before it, and those are
	// final only when its sync has returned. Callers that want to share a sync put their records into one batch.
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.alive(); err != nil {
		return err
	}
	seg, err := l.segmentFor(size)
	if err == nil {
		err = l.write(seg, recs)
	}
	if err != nil {
		// The next batch gets the same numbers. A caller that kept them would mistake its records for those.
		for i := range recs {
			recs[i].Seq = 0
		}
		switch {
		case errors.Is(err, ErrNoSpace):
			l.o.Metrics.noSpace.Inc()
		case errors.Is(err, ErrNoFiles):
			l.o.Metrics.noFiles.Inc()
		default:
			l.o.Metrics.writeErrors.Inc()
		}
		return err
	}
	l.o.Metrics.batches.Inc()
	l.o.Metrics.records.Add(len(recs))
	l.o.Metrics.bytes.AddInt64(size)
	return nil
}

// Roll makes the next batch begin a segment, so that the present one closes before it is full.
func (l *Log) Roll() { l.roll.Store(true) }

// segmentFor returns the segment that a batch goes into, rolling to a new one if needed. A batch is never split over
// two segments, so that a crash leaves all of it or a torn tail at one place. appendMu is held.
//
// After an error l.file may be nil: then the log has no active segment, and the next batch tries to create one again
// under the same name.
//
// A batch larger than SegmentBytes goes into a segment of its own, which is made as large as the batch. An empty
// segment takes any batch, so a segment that was made for a batch whose write failed is used by the next one.
func (l *Log) segmentFor(size int64) (*segment, error) {
	if l.file != nil {
		end := l.active.end.Load()
		// A segment of an older version takes no more batches, since its frames cannot name the size of a batch. An empty one
		// is used up: a new segment would have its name.
		roll := l.roll.Swap(false)
		if end == segmentHead || !roll && end+size <= l.o.SegmentBytes && l.active.version == formatVersion {
			return l.active, nil
		}
		// From here on nothing may go into the old segment: a half-created new one may
		// be left on the disk, and its name says where the old one ends.
		if err := l.closeFile(); err != nil {
			return nil, err
		}
	}
	seg, f, err := createSegment(&l.o, l.nextSeq, 0, l.active, size)
	if err != nil {
		// A segment whose sync failed may appear after a crash although it was removed. Only a start can find out.
		if fsys.Classify(err) == fsys.SyncFailed {
			return nil, l.poison(err)
		}
		return nil, err
	}
	// The folder was synced, so the segment is in the list before any record in it can be durable: a reader that sees
	// such a record finds the segment.
	l.file, l.active = f, seg
	l.mu.Lock()
	l.segments = append(l.segments, seg)
	l.mu.Unlock()
	l.measure()
	// Should the new segment get lost, the old one cannot pass for a torn one. The log works without
	// its marker; the next SyncMark returns the error.
	l.tryMark()
	return seg, nil
}

// write encodes a batch, writes and syncs it, and only then publishes it: the end of the segment first, then the
// durable number, then the wake-up of those who wait. Until then no field that readers see has changed, so a failure
// has nothing to undo but the bytes in the file. appendMu is held.
func (l *Log) write(seg *segment, recs []Pending) error {
	l.buf = l.buf[:0]
	rule := l.rule // a copy: a batch that fails must not advance the rule of the next one
	for i := range recs {
		recs[i].Seq = l.nextSeq + uint64(i)
		if recs[i].Type == l.o.RuleType {
			rule = rule%math.MaxUint16 + 1
		}
		l.buf = appendFrame(l.buf, seg.salt, &recs[i], uint16(i), seg.counted(len(recs)), rule)
	}
	// The whole batch is encoded before the first byte is written. One write means that a short write is one torn
	// place at the end.
	buf := l.buf
	if cap(l.buf) > keepBuffer { // one huge batch must not hold its memory for the life of the log
		l.buf = nil
	}
	at := seg.end.Load()
	if _, err := l.file.WriteAt(buf, at); err != nil {
		return l.cutBack(seg, at, fmt.Errorf("write to segment %s: %w", seg.path, passing(err)))
	}
	// A failed sync is never tried again. The system may have marked the pages clean, so that a second sync succeeds
	// without having written them.
	began := time.Now()
	if err := fsys.SyncFile(l.file, fsys.SiteWALAppend); err != nil {
		return l.poison(fmt.Errorf("sync segment %s: %w", seg.path, err))
	}
	l.o.Metrics.syncSeconds.UpdateDuration(began)

	// end before durable: a reader that sees a record as durable reads up to end, and must find it there.
	// From here on nothing can fail, so the numbers are final.
	end := at + int64(len(buf))
	seg.end.Store(end)
	l.nextSeq += uint64(len(recs))
	l.rule = rule
	l.mu.Lock()
	seg.size = max(seg.size, end)
	l.next.Store(l.nextSeq)
	l.durable.Store(l.nextSeq - 1)
	l.wakeLocked()
	l.mu.Unlock()
	// Last, and without a sync: the marker may lag behind the log, but must never name a record that is not durable.
	l.markBatch(seg)
	return nil
}

// cutBack takes a failed write off the end of the segment, so that the next batch does
// not share the file with its leftovers. The sync of the next batch covers it. It gives
// back the reserve, which is asked for again at once; on a full disk the segment stays
// short and grows as it is written. A segment that cannot be cut takes no more batches:
// the name of the next one says where it ends.
//
// appendMu is held. The order of the two steps matters: without the truncation, a shorter batch could end inside
// the leftovers of this one, whose frames have the right salt and plausible numbers. seg.end and the numbers
// never moved, so readers are not affected. A crash before the next sync may bring the leftovers back, and Open
// then treats them as a torn batch.
func (l *Log) cutBack(seg *segment, at int64, cause error) error {
	if err := l.file.Truncate(at); err != nil {
		return errors.Join(
			fmt.Errorf("cut back segment %s after a failed write (%w): %w", seg.path, cause, err), l.closeFile())
	}
	size := at
	if l.o.SegmentBytes > at && l.file.Preallocate(at, l.o.SegmentBytes-at) == nil {
		size = l.o.SegmentBytes
	}
	l.mu.Lock()
	seg.size = size
	l.mu.Unlock()
	l.measure()
	return cause
}
