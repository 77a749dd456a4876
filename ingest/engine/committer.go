package engine

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file is the committer: it decides about each request, writes a group with one sync, and answers. The
// promise of the engine rests on the order in commit: look up and add ids, append, and answer only then.

// maxRecordBytes is the payload after which the events of a request continue in another record of the same group.
//
// Half leaves room for the head of the record, for the weights that are added to events, and for one large event.
const maxRecordBytes = wal.MaxPayload / 2

// maxArena is the largest arena that the next group reuses, in bytes: a burst must not hold its memory forever.
const maxArena = 32 << 20

// committer writes the requests in the queue to the log, in groups: one write and one sync serve all requests that
// arrived during the previous sync. Only its goroutine appends to the log and uses the deduplication table, so no lock
// is needed between the look-up of an id and the record that adds it.
//
// Between two groups the table holds the ids of durable records and no others, and no request that was taken from
// the queue is unanswered, except those in waits.
type committer struct {
	e     *Engine
	log   *wal.Log
	ids   *dedup.Table
	clock *record.Clock

	config []byte // of the start records; nil: none

	// The saver asks here for the new ids of the table. It is answered between two groups, when all ids in the table
	// belong to durable records.
	captures chan chan *dedup.Capture

	opened     bool      // the start records are written
	wrote      time.Time // when the last record was written, for heartbeats
	configured uint64    // number of the last configuration record, for Forget

	// The current group. The next group reuses the memory, which is safe because a request is not touched after its
	// answer.
	group    []*request
	pending  []wal.Pending
	arena    []byte   // beginnings of payloads, and events that the batches have not in this form
	parts    [][]byte // the rest of payloads, in the arena and in the batches
	runs     []eventRun
	position []byte // encoded, of the batch that is admitted
	deferred deferredEvents
	traced   []tracedRecord

	waits    mergeWait // requests whose events are to be merged with those of others
	stopping bool      // no request may wait to be merged any more
}

// tracedRecord is a record in pending whose request has trace ids.
type tracedRecord struct {
	place int // in pending
	ids   *trace.Batch
}

// run writes groups until stop is closed, and then the requests that still wait.
//
// It returns the error that made the log unusable, or nil after a stop. The heartbeat depends on wrote:
// while records are written no heartbeat is needed, since any record shows that the engine is up.
func (c *committer) run(stop <-chan struct{}) error {
	beat := time.NewTimer(c.e.opt.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-c.e.queue.wake:
		case <-c.waits.due():
		case <-beat.C:
			if err := c.heartbeat(); err != nil {
				c.abandon() // requests that arrived during the sync
				return err
			}
			beat.Reset(max(time.Millisecond, c.e.opt.Heartbeat-time.Since(c.wrote)))
		case reply := <-c.captures:
			reply <- c.capture()
		case <-stop:
			return c.finish()
		}
		if err := c.drain(); err != nil {
			return err
		}
	}
}

// drain commits groups until the queue is empty. The saver is answered between groups: under load the queue never is.
func (c *committer) drain() error {
	opt := &c.e.opt
	for {
		runtime.Gosched() // senders that are about to push a request share the sync, too
		c.group = c.release(c.e.queue.take(c.group[:0], int64(opt.GroupBytes), opt.GroupRequests), c.stopping)
		if len(c.group) == 0 {
			return nil
		}
		err := c.commit()
		clear(c.group)
		clear(c.parts)
		if err != nil {
			c.abandon()
			return err
		}
		select {
		case reply := <-c.captures:
			reply <- c.capture()
		default:
		}
	}
}

// finish answers all waiting requests and writes the stop record.
func (c *committer) finish() error {
	c.stopping = true
	if *c.e.phase.Load() == StatusPoisoned {
		c.abandon()
		return nil
	}
	if err := c.drain(); err != nil {
		return err
	}
	c.e.opt.CrashPoint(CrashBeforeStop)
	err := c.beat(record.BeatStop)
	c.e.opt.CrashPoint(CrashAfterStop)
	return err
}

// abandon answers all waiting requests after the log failed. The queue is closed first, so that no request is added
// behind it.
//
// It also answers the requests that wait to be merged. Senders get ErrPoisoned, which promises nothing about
// their events: a group whose sync failed may be in the log after the restart, and a resend with the same ids is
// then a duplicate.
func (c *committer) abandon() {
	c.e.queue.close(ErrPoisoned)
	for {
		c.group = c.release(c.e.queue.take(c.group[:0], 1<<62, 1<<30), true)
		if len(c.group) == 0 {
			return
		}
		c.dropCanceled()
		for _, r := range c.group {
			r.err = ErrPoisoned
			r.answer()
		}
	}
}

// capture returns the new ids of the table, and the position of the log to which they belong.
//
// It must be called between two groups: within one, the table has ids whose records are not durable, and a
// checkpoint with them would make a resend a duplicate of nothing.
func (c *committer) capture() *dedup.Capture {
	return c.ids.Capture(c.log.DurableSeq(), c.e.watermark.Load())
}

// dropCanceled removes requests from the group whose senders have left, and returns the bytes of all.
//
// The compare-and-swap decides between the sender, who withdraws, and the committer, who takes. Exactly one of
// them wins and owns the request from then on, so no request is answered twice or returned to the pool twice.
func (c *committer) dropCanceled() (bytes int64) {
	live := c.group[:0]
	for _, r := range c.group {
		bytes += r.bytes
		if r.state.CompareAndSwap(requestWaiting, requestTaken) {
			live = append(live, r)
		} else {
			c.e.queue.release(r)
		}
	}
	c.group = live
	return bytes
}

// commit decides about one group, writes its new events, and answers. Ids are added while the group is decided about,
// so that a duplicate within it is found, and are rolled back if the write fails. No request is answered before the
// sync, not even one of duplicates only: a duplicate promises that its original is durable. After an error the log
// cannot be used.
//
// Consequences of another order:
//
//   - an answer before the sync: a power loss takes events that were acknowledged as stored.
//   - ids added after the sync: two equal events in one group would both be written.
//   - a deduplication table that keeps the ids of a failed write: the resend would be reported as a duplicate and lost.
//
// The bytes of a group are returned to the queue when all of its requests are answered, so that QueueBytes also
// bounds the group being written. Requests that wait to be merged stay charged.
func (c *committer) commit() error {
	bytes := c.dropCanceled()
	c.rekey()
	c.forgetLast()
	at, closed, err := c.admission()
	c.deferred.reset()
	if err == nil && closed == nil && c.decide(at) {
		bytes -= c.deferMerges(time.Now())
	}
	defer c.e.queue.free(bytes)
	c.prepare()
	for _, r := range c.group {
		switch {
		case err != nil:
		case r.kind == record.TypeReplay && closed == nil:
			c.admitReplay(r, at)
		case r.kind == record.TypeReplay:
			r.err = closed
		// These are small, so a nearly full disk does not refuse them either.
		case (r.kind == record.TypeForget || r.kind == record.TypeRebuilt) && (closed == nil || closed == ErrDiskFull):
			c.admitOnBasis(r, at)
		case r.kind != record.TypeEvents:
			// Also on a nearly full disk: a configuration is small.
			if closed == nil || closed == ErrDiskFull {
				c.add(r, at, r.kind, r.payload)
			} else {
				r.err = closed
			}
		case closed != nil:
			c.answerKnown(r, closed)
		default:
			c.admit(r, at)
		}
	}
	if err == nil {
		c.addDeferred(at)
		err = c.append(at)
	}
	switch {
	case err == nil:
		c.finishGroup()
	case isFatalAppend(err):
		for _, r := range c.group {
			r.result, r.err = Result{}, ErrPoisoned
		}
	default:
		c.rollback(err)
	}
	c.e.opt.CrashPoint(CrashAfterAppend)
	for _, r := range c.group {
		r.answer()
	}
	c.e.opt.CrashPoint(CrashAfterAck)
	if isFatalAppend(err) {
		return fmt.Errorf("append to the log: %w", err)
	}
	return nil
}

// admission returns the receive time for the group, and the reason if events cannot be accepted now. The error is
// fatal.
//
// All records of a group have the same time, which is never before that of the last record. Until the start
// records are written, no event is accepted: a record in front of them would look like one of the process before.
func (c *committer) admission() (at int64, closed *UnavailableError, err error) {
	at, ok := c.now()
	if !ok {
		return at, ErrClockJump, nil
	}
	if err := c.open(at); err != nil {
		return at, nil, err
	}
	if !c.opened || c.e.disk.low.Load() {
		return at, ErrDiskFull, nil
	}
	return at, nil, nil
}

// now returns the receive time for the next records, or false while the clock is not trusted. It records the reason.
func (c *committer) now() (at int64, ok bool) {
	at, ok = c.clock.Next()
	c.e.troubles[troubleClock].Note(c.clock.Check())
	return at, ok
}

// prepare empties what the group before has left. The slices in pending stay valid until its next call, that is until
// after Append.
func (c *committer) prepare() {
	for _, r := range c.group {
		r.wrote = 0
	}
	c.arena = c.arena[:0]
	c.parts = c.parts[:0]
	c.pending = c.pending[:0]
	clear(c.traced)
	c.traced = c.traced[:0]
}

// add adds a record to the group.
//
// It notes the place of the request's last record, from 1, from which finishGroup takes the number.
func (c *committer) add(r *request, at int64, kind byte, payload []byte, parts ...[]byte) {
	c.pending = append(c.pending, wal.Pending{Time: at, Type: kind, Payload: payload, Parts: parts})
	r.wrote = len(c.pending)
}

// append writes the group's records and syncs. Everything after Append relies on the records being durable: ids stay in
// the table, and the reader may apply the records.
//
// The steps after the sync are ordered: the clock and the table accept the written group before the reader is
// woken, and capture sees a watermark that belongs to the durable end. After an error all of them are
// unchanged, and the caller rolls back the table.
func (c *committer) append(at int64) error {
	if len(c.pending) == 0 {
		return nil
	}
	c.e.opt.CrashPoint(CrashBeforeAppend)
	began, next := time.Now(), c.log.NextSeq()
	for _, r := range c.traced { // before the reader can see the records
		c.e.traces.Put(next+uint64(r.place), r.ids)
	}
	if err := c.log.Append(c.pending); err != nil {
		for _, r := range c.traced { // other records will have the numbers
			c.e.traces.Take(next + uint64(r.place))
		}
		return err
	}
	c.e.troubles[troubleLog].Note(nil)
	c.wrote = time.Now()
	took := c.wrote.Sub(began)
	c.e.opt.Metrics.appendSeconds.Update(took.Seconds())
	c.e.opt.Metrics.groups.Inc()
	c.clock.Wrote(at)
	c.ids.Mark()
	c.e.watermark.Store(at)
	c.e.publishIDs(c.ids, at)
	c.e.wake(c.pending[len(c.pending)-1].Seq)
	if cap(c.arena) > maxArena {
		c.arena = nil
	}
	return nil
}

func isFatalAppend(err error) bool {
	return errors.Is(err, wal.ErrPoisoned) || errors.Is(err, wal.ErrClosed)
}

// finishGroup fills in the results of the append.
//
// Numbers of records are known only now. Counters move here and not in admit, so a group that was rolled back
// leaves no trace in them.
func (c *committer) finishGroup() {
	accepted, duplicates := 0, 0
	for _, r := range c.group {
		if r.wrote > 0 {
			r.result.Seq = c.pending[r.wrote-1].Seq
		}
		c.noteWritten(r)
		accepted += r.result.Accepted
		duplicates += r.result.Duplicates
	}
	c.e.opt.Metrics.events.Add(accepted)
	c.e.opt.Metrics.duplicates.Add(duplicates)
}

// rollback undoes the changes of a group that could not be written, and answers its requests.
//
// The log is as it was before the group. Requests that were answered while the group was decided about (an error
// is set) keep their answer. All other senders are asked to retry, except those of duplicates only.
func (c *committer) rollback(err error) {
	why := c.troubled(err)
	c.ids.Rollback()
	for _, r := range c.group {
		switch {
		case r.err != nil:
		case r.kind == record.TypeEvents:
			c.answerKnown(r, why)
		default:
			r.result, r.err = Result{}, why
		}
	}
}
