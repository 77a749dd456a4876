package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file holds the public interface of the package: errors, options, the types of records, and Log with its
// locks. Append, recovery, truncation and readers are methods of Log in files of their own. Before you change
// one of them, read the comment of Log, which says what each lock guards.

const (
	// DefaultSegmentBytes is the default size of a segment file.
	DefaultSegmentBytes = 64 << 20
	// MinSegmentBytes is the smallest size of a segment file.
	MinSegmentBytes = 512
	// MaxPayload is the largest payload of one record, in bytes.
	MaxPayload = 16 << 20
)

var (
	// ErrNoSpace is wrapped by the error of Append and Open if the disk is full.
	// Nothing of the batch is in the log, and the log can still be used.
	ErrNoSpace = errors.New("no space left for the log")
	// ErrNoFiles is wrapped by the error of Append, Open and of readers if no file
	// descriptor is left. It makes the same promise as ErrNoSpace; a reader can continue, too.
	ErrNoFiles = errors.New("no file descriptor left for the log")
	// ErrPoisoned is wrapped, together with its cause, by the errors of all calls
	// after a failed sync: the content of the disk is unknown until the log is reopened.
	ErrPoisoned = errors.New("log is poisoned by a failed sync")
	// ErrClosed is returned by all calls after Close.
	ErrClosed = errors.New("log is closed")
	// ErrTooLarge is wrapped if a payload is larger than MaxPayload.
	ErrTooLarge = errors.New("record is too large for the log")
	// ErrTruncated is wrapped if a record was asked for that Truncate removed.
	ErrTruncated = errors.New("record was truncated from the log")
	// ErrAhead is wrapped if a reader asks for a record beyond the next one: the caller remembers that
	// number from another log.
	ErrAhead = errors.New("record is beyond the end of the log")
)

// CorruptError says where synced data cannot be read. The log is left as it is.
type CorruptError struct {
	Segment string // path of the segment file
	Offset  int64  // of the first bad frame, in bytes; 0 = the segment's head
	Seq     uint64 // first record that cannot be read
	Reason  string

	// By [Open] only: LastSeq is the last record that cannot be read, or an upper bound
	// at the end of a log. Unproven, if not 0, is the last of the whole records behind it
	// that are lost as well, since a rule for them may be: see Options.RuleType.
	LastSeq, Unproven uint64
	// After and Before are the receive times of the records around the loss, in Unix nanoseconds; 0
	// where there is none.
	After, Before int64
	More          []*CorruptError // other places, in order
}

// Error names the place of the damage, and the total loss.
func (e *CorruptError) Error() string {
	text := fmt.Sprintf("log is corrupt: segment %s, offset %d, record %d: %s", e.Segment, e.Offset, e.Seq, e.Reason)
	if e.LastSeq > 0 {
		text += "; " + e.Lost()
	}
	for _, m := range e.More {
		text += fmt.Sprintf("; segment %s, offset %d: %s; %s", m.Segment, m.Offset, m.Reason, m.Lost())
	}
	return text
}

// Last is the last record that cannot be read, in all places. Those of Unproven can be.
//
// The owner compares it with a checkpoint: damage that ends at or before the checkpoint costs nothing.
func (e *CorruptError) Last() uint64 {
	last := e.LastSeq
	for _, m := range e.More {
		last = max(last, m.LastSeq)
	}
	return last
}

// at is the part of the error that is about the gap from that record on, if any is.
func (e *CorruptError) at(seq uint64) *CorruptError {
	for _, c := range append([]*CorruptError{e}, e.More...) {
		if c.Seq == seq {
			return c
		}
	}
	return nil
}

// Lost says how many records cannot be used, and when they were received.
func (e *CorruptError) Lost() string {
	last := max(e.LastSeq, e.Unproven)
	text := fmt.Sprintf("records %d to %d cannot be used, %d in all", e.Seq, last, last-e.Seq+1)
	if e.Unproven > 0 {
		text += ", those whose configuration is lost among them"
	}
	const form = "2006-01-02T15:04:05Z"
	if e.After > 0 {
		text += ", received after " + time.Unix(0, e.After).UTC().Format(form)
	}
	if e.Before > 0 {
		text += ", received before " + time.Unix(0, e.Before).UTC().Format(form)
	}
	return text
}

// VersionError says that a segment has a version that this package does not read: a newer one, since no release wrote
// an older one.
type VersionError struct {
	Segment string
	Version uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("segment %s has format version %d, and this program reads %d to %d: %s",
		e.Segment, e.Version, oldestVersion, formatVersion, fsys.Newer)
}

// Unwrap distinguishes it from damage.
func (e *VersionError) Unwrap() error { return fsys.ErrNewer }

// Options of a Log.
//
// They are copied by Open. The file system is an interface so that tests can fail single operations and drop
// unsynced data. In production it is the operating system's.
type Options struct {
	FS  fsys.FS
	Dir string // made if missing
	// SegmentBytes is the size of a segment file, DefaultSegmentBytes if 0. A batch
	// that is larger gets a segment of its own.
	SegmentBytes int64
	// AcceptLoss is the operator's override for a log that does not open because it
	// is corrupt: all whole records stay in the log, those that are not are given up.
	// Damaged segments go into the folder Dir/quarantine-<first lost record> instead of
	// being deleted. Numbering continues above every number that may have been in use, and
	// [Log.Losses] lists the missing records. Without corruption it does nothing.
	AcceptLoss bool
	// RuleType is the type of the records by which later ones have to be read, such as a
	// configuration; 0: there are none. Every record names the last such record in front
	// of it, so that those behind damage are used only if no rule was lost in it.
	RuleType byte
	// Covered is the last record that the owner has no need of any more: if damage ends
	// there, the records behind it need no proof.
	Covered uint64
	Metrics *Metrics // nil: counted, but not exported
}

func (o *Options) applyDefaults() {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
}

// validate refuses values that no default can repair. MinSegmentBytes has no deeper meaning than to leave
// room for a head and a few records: tests use small segments to see many of them.
func (o *Options) validate() error {
	switch {
	case o.FS == nil:
		return errors.New("invalid log options: no file system")
	case o.Dir == "":
		return errors.New("invalid log options: no folder")
	case o.SegmentBytes < MinSegmentBytes:
		return fmt.Errorf("invalid log segment size %d: want at least %d bytes", o.SegmentBytes, MinSegmentBytes)
	}
	return nil
}

// Pending is a record to append.
//
// The caller owns it before and after Append. Append reads the payload and writes Seq, and keeps no reference to
// either.
type Pending struct {
	Time    int64 // receive time, unix nanoseconds
	Type    byte
	Payload []byte // at most MaxPayload bytes; not kept
	// Parts continue the payload, so that what lies in several places is copied once; they count against MaxPayload.
	Parts [][]byte
	Seq   uint64 // out: its number
}

// size is the length of the whole payload.
func (p *Pending) size() int {
	n := len(p.Payload)
	for _, part := range p.Parts {
		n += len(part)
	}
	return n
}

// Record is a record read back.
//
// It is the caller's. Next overwrites it, so a caller that keeps a record copies it together with its payload.
type Record struct {
	Seq     uint64 // from 1; consecutive, but for accepted losses
	Time    int64  // receive time, unix nanoseconds
	Type    byte
	Payload []byte // valid until the next call of Next
	Segment uint64 // first number of the segment that holds it
	Lost    uint64 // how many records right before it were given up
	Offset  int64  // of its frame in the segment, bytes
}

// Log is an open log. All methods may be called concurrently.
//
// Three locks, taken in the order truncateMu or appendMu, then mu. appendMu and truncateMu
// are held while files are written and synced; mu never is, so that readers and Health do
// not wait for the disk.
//
// Invariants between two calls of Append:
//
//   - Every record up to durable is synced, with the directory entry of its segment. durable is next-1, except after a
//     start that gave up the end of the log: it is then the last usable record, until the first batch is written.
//   - The segments are ascending, and none is missing between them: a segment's start is the number behind the last
//     record of the one before it.
//   - Only the last segment is written to. A segment that another one follows never changes, apart from its head during
//     a recovery, so it can be read, linked and copied without a lock.
//   - The marker names durable or an earlier record, never a later one.
//
// After a failed sync err is set for good. The bytes on the disk behind durable are then unknown, and only Open
// can read them.
type Log struct {
	o Options // never changed after Open

	// appendMu is held by Append and Close for as long as a batch is written and synced.
	// It guards fields that only the writer reads.
	appendMu sync.Mutex
	file     fsys.File // of the active segment; nil: the next batch needs a new segment
	active   *segment  // the last one
	buf      []byte
	nextSeq  uint64
	roll     atomic.Bool
	rule     uint16 // number of the last record of Options.RuleType, modulo 65535, from 1

	mark    marker   // has a lock of its own, since SyncMark runs beside Append
	repairs []string // set by Open

	// truncateMu is held by Truncate, Archive and Snapshot for their whole duration: a segment that is
	// archived or copied must not be deleted, and segments must go one after the other.
	truncateMu sync.Mutex

	// next and durable are stored after the sync, under mu, and loaded without it. The end
	// of a segment is stored before durable: a reader that sees a record as durable may read it.
	next    atomic.Uint64
	durable atomic.Uint64

	// mu guards the fields below. It is held for a few instructions only.
	mu       sync.Mutex
	segments []*segment    // ascending; the last one is appended to
	err      error         // why the log cannot be used: ErrClosed, or wraps ErrPoisoned; never reset
	closed   bool          // also after a failed sync, so that Close closes the files once
	wake     chan struct{} // closed when durable moves or err is set; nil without waiters
	losses   []Loss
}

// NextSeq is the number that the next record will get.
//
// While a batch is being written it is still the number of the batch's first record.
func (l *Log) NextSeq() uint64 { return l.next.Load() }

// DurableSeq is the number of the last record that survives a power loss; one less than the first
// possible number if the log is empty.
func (l *Log) DurableSeq() uint64 { return l.durable.Load() }

// FirstSeq is the number of the oldest record that is still kept, NextSeq if there is none.
func (l *Log) FirstSeq() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) == 0 {
		return l.next.Load()
	}
	return l.segments[0].first
}

// Size is the disk space of all segments, in bytes, preallocated space included.
//
// It counts the size of the files and not the bytes in use, since the disk has to hold the files.
func (l *Log) Size() (bytes int64, segments int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		bytes += s.size
	}
	return bytes, len(l.segments)
}

// Wait returns nil as soon as a record after the given number is durable. Otherwise it
// returns the error of ctx, ErrClosed, or an error that wraps ErrPoisoned.
//
// Records that are durable are reported even after the log has failed: a reader that is behind can still get at
// them.
func (l *Log) Wait(ctx context.Context, afterSeq uint64) error {
	for {
		l.mu.Lock()
		if l.durable.Load() > afterSeq {
			l.mu.Unlock()
			return nil
		}
		if l.err != nil {
			defer l.mu.Unlock()
			return l.err
		}
		// Made under the lock that the writer takes to store durable, so that no wake-up is missed in between.
		if l.wake == nil {
			l.wake = make(chan struct{})
		}
		wake := l.wake
		l.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close closes the files. Acknowledged records are durable already. Waiters get ErrClosed. Readers
// keep their own files and must be closed too.
//
// The marker is written and synced a last time, so a log that loses records after a clean stop is noticed at the
// next start. Close may be called twice, and after a failed sync.
func (l *Log) Close() error {
	// appendMu lets a batch that is being written finish. err is set before the files are closed, so that later calls
	// are refused and do not meet a closed file.
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	if l.err == nil {
		l.err = ErrClosed
	}
	l.wakeLocked()
	l.mu.Unlock()
	return errors.Join(l.closeFile(), l.closeMark())
}

// closeFile closes the active segment, if there is one. appendMu is held, or the log is not open yet.
func (l *Log) closeFile() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

// alive returns why the log can no longer be used.
func (l *Log) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// poison ends the log for good and returns the error for the caller at hand. The first cause stays: later failures
// follow from it. Readers are woken, since nothing more will become durable.
func (l *Log) poison(cause error) error {
	l.o.Metrics.poisoned.Set(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("%w: %w", ErrPoisoned, cause)
		l.wakeLocked()
	}
	return l.err
}

// wakeLocked wakes everybody in Wait. A channel that is closed, unlike a condition variable, can be waited for together
// with a context. mu is held.
func (l *Log) wakeLocked() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}
