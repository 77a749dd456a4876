package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/clock"
	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// maxRecordBytes is the payload after which the events of a request continue in another record of the same group.
const maxRecordBytes = wal.MaxPayload / 2

// maxArena is the largest payload buffer that the next group reuses.
const maxArena = 32 << 20

// committer writes the requests in the queue to the log, in groups: one write and one sync serve all requests that arrived
// during the previous sync. Only its goroutine appends to the log and uses the deduplication table, so no lock is needed
// between the look-up of an id and the record that adds it.
type committer struct {
	e     *Engine
	log   *wal.Log
	ids   *dedup.Table
	clock *clock.Clock

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
	arena    []byte // payloads; pending refers to it, so it must not grow after prepare
	runs     []eventRun
	deferred deferredEvents

	waits    mergeWait // requests whose events are to be merged with those of others
	stopping bool      // no request may wait to be merged any more
}

// eventRun is a range of new events in a batch's buffer. With a weight it is a single event that sampling kept.
type eventRun struct {
	from, to int
	weight   uint32
}

// run writes groups until stop is closed, and then the requests that still wait.
func (c *committer) run(stop <-chan struct{}) error {
	beat := time.NewTimer(c.e.opt.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-c.e.queue.wake:
		case <-c.waits.due():
		case <-beat.C:
			if err := c.heartbeat(); err != nil {
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
		c.group = c.release(c.e.queue.take(c.group[:0], int64(opt.GroupBytes), opt.GroupRequests), c.stopping)
		if len(c.group) == 0 {
			return nil
		}
		err := c.commit()
		clear(c.group)
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

// abandon answers all waiting requests after the log failed. The queue is closed first, so that none is added behind it.
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
func (c *committer) capture() *dedup.Capture {
	return c.ids.Capture(c.log.DurableSeq(), c.e.watermark.Load())
}

// dropCanceled removes requests from the group whose senders have left, and returns the bytes of all.
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

// commit decides about one group, writes its new events, and answers. Ids are added while the group is decided about, so
// that a duplicate within it is found, and are rolled back if the write fails. No request is answered before the sync, not
// even one of duplicates only: a duplicate promises that its original is durable. After an error the log cannot be used.
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
		case r.kind == record.TypeForget && (closed == nil || closed == ErrDiskFull):
			c.admitForget(r, at)
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

// admission returns the receive time for the group, and the reason if events cannot be accepted now. The error is fatal.
func (c *committer) admission() (at int64, closed *UnavailableError, err error) {
	at, ok := c.clock.Next()
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

// prepare reserves memory for the payloads of the whole group, so that they do not move while pending refers to them.
func (c *committer) prepare() {
	need := 0
	for _, r := range c.group {
		r.wrote = 0
		if r.batch != nil {
			n := len(r.batch.Buf)
			need += n + (1+n/(maxRecordBytes/2))*record.MaxHead
			if r.tickets != nil {
				need += len(r.batch.Events) * binary.MaxVarintLen32
			}
		}
	}
	if cap(c.arena) < need {
		c.arena = make([]byte, 0, need+need/4)
	}
	c.arena = c.arena[:0]
	c.pending = c.pending[:0]
}

// add adds a record to the group.
func (c *committer) add(r *request, at int64, kind byte, payload []byte) {
	c.pending = append(c.pending, wal.Pending{Time: at, Type: kind, Payload: payload})
	r.wrote = len(c.pending)
}

// admit looks up the ids of a batch, applies the decisions of the Limiter, and turns the new events into records.
func (c *committer) admit(r *request, at int64) {
	b := r.batch
	count, size := 0, 0
	begun := false // a record; its begin may start a generation of ids
	c.runs = c.runs[:0]
	for k := range r.places() {
		if k%dedup.TouchAhead == 0 {
			c.touch(r, k)
		}
		i := r.place(k)
		item := &b.Events[i]
		if size > 0 && size+item.End-item.Start > maxRecordBytes {
			c.events(r, at, count)
			count, size, begun = 0, 0, false
		}
		// Within a record, Add finds duplicates without a second look-up. Events over their rate limit are not added
		// there, so they are looked up.
		if item.HasKey && (c.deferred.has(item.Key) || (!begun || c.over(r, i)) && c.ids.Has(item.Key)) {
			r.duplicate(item.Index)
			continue
		}
		weight, stays := c.limit(r, i)
		if !stays {
			continue
		}
		if !begun {
			c.begin(at)
			begun = true
		}
		if item.HasKey && !c.ids.Add(item.Key) {
			r.duplicate(item.Index)
			continue
		}
		count++
		size += item.End - item.Start
		if n := len(c.runs); n > 0 && c.runs[n-1].to == item.Start && weight == 0 && c.runs[n-1].weight == 0 {
			c.runs[n-1].to = item.End
		} else {
			c.runs = append(c.runs, eventRun{item.Start, item.End, weight})
		}
	}
	if count > 0 {
		c.events(r, at, count)
	}
}

// touch loads the slots for the ids of the next TouchAhead events, so that their cache misses overlap.
func (c *committer) touch(r *request, from int) {
	var keys [dedup.TouchAhead]xxh3.Uint128
	n := 0
	for k := from; k < min(from+dedup.TouchAhead, r.places()); k++ {
		if item := &r.batch.Events[r.place(k)]; item.HasKey {
			keys[n] = item.Key
			n++
		}
	}
	if n > 1 {
		c.ids.Touch(keys[:n])
	}
}

// places is the number of events of the batch to look at, and place is the index of the k-th of them.
func (r *request) places() int {
	if r.todo != nil {
		return len(r.todo)
	}
	return len(r.batch.Events)
}

func (r *request) place(k int) int {
	if r.todo != nil {
		return int(r.todo[k])
	}
	return k
}

// begin must precede the first id of every record: see dedup.Table.Begin.
func (c *committer) begin(at int64) {
	if c.ids.Begin(at) {
		c.e.opt.Metrics.generations.Inc()
	}
}

// events adds the record of the collected runs.
func (c *committer) events(r *request, at int64, count int) {
	from := len(c.arena)
	c.arena = record.AppendHead(c.arena, count, r.batch.Backfill)
	for _, run := range c.runs {
		one := r.batch.Buf[run.from:run.to]
		if run.weight == 0 {
			c.arena = append(c.arena, one...)
			continue
		}
		weighted, err := event.AppendWeighted(c.arena, one, run.weight)
		if err != nil { // cannot happen with a validated event, which then counts once
			c.e.opt.Logger.Error("event stored without its weight", "err", err)
			weighted = append(c.arena, one...)
		}
		c.arena = weighted
	}
	c.runs = c.runs[:0]
	r.result.Accepted += count
	c.add(r, at, record.TypeEvents, c.arena[from:])
}

func (r *request) duplicate(index int) {
	r.result.Duplicates++
	r.result.DupIndexes = append(r.result.DupIndexes, index)
}

// answerKnown answers a batch when nothing can be stored. If all its events are duplicates, it needs no write and is
// answered as usual.
func (c *committer) answerKnown(r *request, why *UnavailableError) {
	r.result, r.err = Result{}, nil
	for k := range r.places() {
		item := &r.batch.Events[r.place(k)]
		if !item.HasKey || !c.ids.Has(item.Key) {
			r.result, r.err = Result{}, why
			c.e.opt.Metrics.unavailable[why].Inc()
			return
		}
		r.duplicate(item.Index)
	}
}

// append writes the group's records and syncs. Everything after Append relies on the records being durable: ids stay in the
// table, and the reader may apply the records.
func (c *committer) append(at int64) error {
	if len(c.pending) == 0 {
		return nil
	}
	c.e.opt.CrashPoint(CrashBeforeAppend)
	began := time.Now()
	if err := c.log.Append(c.pending); err != nil {
		return err
	}
	c.e.troubles[troubleLog].works()
	c.wrote = time.Now()
	took := c.wrote.Sub(began)
	c.e.lastAppend.Store(int64(took))
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

// finishGroup fills in what follows from the append.
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
