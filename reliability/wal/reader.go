package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Reader reads durable records in order. It is for one goroutine; any number of readers
// may run beside each other and beside Append.
//
// A reader takes Log.mu only to find a segment and, at the durable end, to ask whether the log can still grow. It
// learns from two atomic numbers how far it may read: Log.durable says which records exist, segment.end where their
// bytes end. Its file is its own, so a segment that Truncate deletes stays readable until the reader leaves it.
//
// Between two calls of Next, scan stands at the frame of the record next in seg, or at the end of seg. next is
// above want only behind a loss that was accepted: Record.Lost reports the difference.
type Reader struct {
	l *Log // fixed

	seg  *segment  // at hand; nil before the first record of an empty log
	file fsys.File // of seg, opened by this reader
	scan scanner   // at the next frame of file
	next uint64    // number of the next record
	want uint64    // likewise, had none been given up; 0 = the first that comes
}

// NewReader returns a reader whose first record is fromSeq, or the oldest record if
// fromSeq is 0. If fromSeq lies in a range that was given up under Options.AcceptLoss,
// the first record after it comes first. The error wraps ErrTruncated or ErrAhead if
// there can be no such record.
//
// A number equal to NextSeq is allowed: the reader then waits for a record that does not exist yet. The reader
// must be closed.
func (l *Log) NewReader(fromSeq uint64) (*Reader, error) {
	r := &Reader{l: l}
	if err := r.seek(fromSeq); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// seek moves to a record. The segment is chosen under mu and opened without it: Truncate may delete it in between,
// which enter reports as ErrTruncated. The caller would have received the same error a moment later.
func (r *Reader) seek(from uint64) error {
	l := r.l
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	var at *segment
	for _, s := range l.segments {
		if s.start() > from && at != nil {
			break
		}
		at = s
	}
	next := l.next.Load()
	l.mu.Unlock()

	if from > next {
		return fmt.Errorf("read from record %d: %w, which is record %d", from, ErrAhead, next-1)
	}
	if at == nil {
		// Nothing was ever written.
		r.next, r.want = next, from
		return nil
	}
	if from != 0 && from < at.start() {
		return fmt.Errorf("read from record %d: %w, the oldest is %d", from, ErrTruncated, at.first)
	}
	if err := r.enter(at); err != nil {
		return err
	}
	// Segments have no index. Reading over the records in front checks them on the way.
	var rec Record
	for r.next < from {
		if ok, err := r.Next(&rec); err != nil {
			return err
		} else if !ok {
			break
		}
	}
	r.want = from
	return nil
}

func (r *Reader) enter(s *segment) error {
	f, err := r.l.o.FS.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read record %d: %w", s.first, ErrTruncated)
	}
	if err != nil {
		return fmt.Errorf("open segment %s: %w", s.path, passing(err))
	}
	// The new file is open before the old one is closed, so that a failure leaves the reader where it was.
	if err := r.Close(); err != nil {
		_ = f.Close()
		return err
	}
	r.file, r.seg, r.next = f, s, s.first
	r.scan.open(f, s.salt, segmentHead)
	return nil
}

// Next reads the next record. ok is false at the durable end; [Log.Wait] with the number
// of the last record waits for more. After a failed sync, durable records can still be read, and
// the end is an error that wraps ErrPoisoned. A *CorruptError means that the disk changed written
// data; the reader cannot continue.
//
// An error leaves the reader in front of the record that it could not read, so after ErrNoFiles the caller can
// wait and call again. Next never blocks on the writer: the durable end is an answer and not a wait.
func (r *Reader) Next(rec *Record) (ok bool, err error) {
	// durable before end: the writer stores them the other way round, so every record below durable is inside end.
	if r.next > r.l.durable.Load() {
		return false, r.l.alive()
	}
	// A record is durable after its segment's end was moved behind it, so a reader at
	// the end of its segment finds the record in a later one.
	for r.seg == nil || r.scan.off >= r.seg.end.Load() {
		s, err := r.following()
		if err != nil {
			return false, err
		}
		if err := r.enter(s); err != nil {
			return false, err
		}
		if r.next > r.l.durable.Load() {
			return false, r.l.alive()
		}
	}
	var f frame
	at := r.scan.off
	payload, reason, err := r.scan.next(r.seg.end.Load(), r.next, &f)
	if err != nil {
		return false, fmt.Errorf("read segment %s at offset %d: %w", r.seg.path, at, err)
	}
	// Below end everything was synced and checked once. A bad frame there is no torn write but a disk that changed it.
	if reason != "" {
		r.l.o.Metrics.corrupt.Inc()
		return false, &CorruptError{Segment: r.seg.path, Offset: at, Seq: r.next, Reason: reason}
	}
	*rec = Record{Seq: f.seq, Time: f.time, Type: f.typ, Payload: payload, Segment: r.seg.first, Offset: at}
	if r.want != 0 {
		rec.Lost = f.seq - r.want
	}
	r.next++
	r.want = r.next
	return true, nil
}

// following finds the segment that begins with the next record, or after a gap there.
func (r *Reader) following() (*segment, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for _, s := range r.l.segments {
		// The present one may be empty and match too, if all that it held was given up.
		if s.start() <= r.next && r.next <= s.first && (r.seg == nil || s.first > r.seg.first) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("read record %d: %w", r.next, ErrTruncated)
}

// Close closes the reader's file. It does not end a Wait.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close segment %s: %w", r.seg.path, err)
	}
	return nil
}
