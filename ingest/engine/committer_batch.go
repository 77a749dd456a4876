package engine

import (
	"slices"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/zeebo/xxh3"
)

// This file turns one batch into records: ids are looked up, the Limiter decides, and the new events are copied. It
// runs within committer.commit, on the committer's goroutine.

// eventRun is a range of new events in a batch's buffer. With a weight it is a single event that sampling kept.
//
// from and to are offsets in batch.Buf. Neighbouring events without a weight are joined into one run, so that a
// batch without duplicates is copied in one piece.
type eventRun struct {
	from, to int
	weight   uint32
}

// admit looks up the ids of a batch, applies the decisions of the Limiter, and turns the new events into records.
//
// Each event ends in exactly one place: a duplicate, throttled, critical, sampled, merged, dropped, or in a
// record. The counts in the result add up to the number of events that were looked at.
func (c *committer) admit(r *request, at int64) {
	b := r.batch
	c.position = c.position[:0]
	count, size := 0, 0
	begun := false // a record; its begin may evict ids
	since := c.ids.Since(at)
	c.runs = c.runs[:0]
	for k := range r.places() {
		if k%dedup.TouchAhead == 0 {
			c.touch(r, k)
		}
		i := r.place(k)
		item := &b.Events[i]
		if size > 0 && size+item.End-item.Start > maxRecordBytes {
			c.events(r, at, count)
			count, size, begun, since = 0, 0, false, c.ids.Since(at)
		}
		// Within a record, Add finds duplicates without a second look-up. Events over their rate limit are not added
		// there, so they are looked up.
		if item.HasKey && (c.deferred.has(item.Key) || (!begun || c.over(r, i)) && c.ids.Has(item.Key)) {
			r.duplicate(item.Index)
			continue
		}
		if item.Earliest != 0 && item.Earliest < since && !c.ids.Has(item.Key) {
			r.result.Forgotten, r.result.KnownSince = append(r.result.Forgotten, int32(i)), since
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
		if item.HasKey && !c.know(r.batch.Timed, item) {
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
	if r.position != nil {
		c.position = r.position.AppendPosition(c.position, r.result.undecided())
		if whole := c.position; count > 0 && size+len(whole) > maxRecordBytes {
			c.position = nil
			c.events(r, at, count)
			count, begun, c.position = 0, false, whole
		}
	}
	if count == 0 && len(c.position) > 0 && !begun {
		c.begin(at)
	}
	if count > 0 || len(c.position) > 0 {
		c.events(r, at, count)
	}
	if len(r.payload) > 0 {
		c.add(r, at, record.TypeDropped, r.payload)
	}
}

// undecided are the indexes of the events about which nothing is written, ascending.
func (r *Result) undecided() []int32 {
	if len(r.Critical) == 0 {
		return r.Throttled
	}
	both := slices.Concat(r.Throttled, r.Critical)
	slices.Sort(both)
	return both
}

// touch loads the slots for the ids of the next TouchAhead events, so that their cache misses overlap.
//
// In a large table each look-up is a cache miss. touch changes nothing that can be seen.
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
//
// Recovery calls Begin once per record, too. Only if both do it at the same places are the same ids evicted, and is an
// id known after a restart exactly if it was known before.
func (c *committer) begin(at int64) {
	if c.ids.Begin(at) {
		c.e.opt.Metrics.generations.Inc()
	}
}

// know adds the id of an event and reports whether it was new. Reading the log again must give it the same time.
func (c *committer) know(timed bool, item *event.Item) bool {
	if timed {
		return c.ids.AddAt(item.Key, item.Time)
	}
	return c.ids.Add(item.Key)
}

// events adds the record of the collected runs.
//
// The events stay in the batch until the log copies them. runs is empty afterwards. A batch that needs several records
// has its position in the last one.
func (c *committer) events(r *request, at int64, count int) {
	from, first := len(c.arena), len(c.parts)
	c.arena = record.AppendHead(c.arena, count, r.batch, c.position)
	head := c.arena[from:]
	for _, run := range c.runs {
		one := r.batch.Buf[run.from:run.to]
		if run.weight != 0 {
			from := len(c.arena)
			weighted, err := event.AppendWeighted(c.arena, one, run.weight)
			if err == nil {
				c.arena, one = weighted, weighted[from:]
			} else { // cannot happen with a validated event, which then counts once
				c.e.opt.Logger.Error("event stored without its weight", "err", err)
			}
		}
		c.parts = append(c.parts, one)
	}
	c.runs = c.runs[:0]
	if r.batch.Traces != nil {
		c.traced = append(c.traced, tracedRecord{len(c.pending), r.batch.Traces})
	}
	r.result.Accepted += count
	c.add(r, at, record.TypeEvents, head, c.parts[first:]...)
}

// duplicate notes a duplicate by its index in the sender's request, which the answer names.
func (r *request) duplicate(index int) {
	r.result.Duplicates++
	r.result.DupIndexes = append(r.result.DupIndexes, index)
}

// answerKnown answers a batch when nothing can be stored. If all its events are duplicates, it needs no write and is
// answered as usual, unless it has a position.
//
// The table must hold ids of durable records only, so after a failed write it comes after the rollback. The
// result that admit may have filled in is dropped, since nothing of it is stored.
func (c *committer) answerKnown(r *request, why *UnavailableError) {
	r.result, r.err = Result{}, nil
	if r.position != nil {
		r.err = why
		c.e.opt.Metrics.unavailable[why].Inc()
		return
	}
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
