package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file applies the decisions of the rate limits within a group. The decision is made once, before the write,
// and its outcome is written to the log: a weight, a merged event, ids without events, a count of drops. So
// reading the log again needs no limiter.

// Limiter decides about many events at once. It is a *ratelimit.Limiter.
type Limiter interface {
	Decide(ctx context.Context, now time.Time, batches []*ratelimit.Tickets) error
}

// DecideTimeout bounds how long a group waits for a decision. Rate limits that are shared through Redis have a shorter
// bound of their own.
//
// It bounds the latency that an unavailable limiter can add to every request in the group. Then all events
// pass.
const DecideTimeout = 2 * time.Second

// droppedStep is the resolution of the time of dropped events in their record, in nanoseconds.
//
// It is the width of the finest buckets of package fold, so a finer time would make no difference, and the drops
// of many events share one entry.
const droppedStep = int64(10 * time.Second)

// reasonLimited is the reason in the record of dropped events.
const reasonLimited = "rate_limited"

// deferredEvents are the events of a group that are not stored one by one: events to be merged, ids of events that
// another one stands for, and counts of dropped events. Only the committer uses them, and empties them for each group.
//
// known and keys hold ids that the table gets only with addDeferred: within the group they must be duplicates
// already, but a record with their keys has to be begun first.
type deferredEvents struct {
	tickets []*ratelimit.Tickets
	view    event.View // of the current event
	key     []byte     // scratch

	keys   []xxh3.Uint128
	known  map[xxh3.Uint128]struct{} // keys
	merged map[string]*merging
	order  []*merging // in order of arrival, so that the record is deterministic
	drops  map[string]uint64
	names  []string // keys of drops, in order of arrival
}

// merging is a set of events that become one. Its id follows from the id of the first, so that a sink recognises a
// duplicate.
type merging struct {
	event.Merger
	first []byte   // the first event, unchanged
	by    *request // of the first event
	id    string
}

// has reports whether an event with that id was merged or left out within the group.
//
// The committer asks it beside the table.
func (h *deferredEvents) has(key xxh3.Uint128) bool {
	_, ok := h.known[key]
	return ok
}

// add notes the id of an event that is not stored by itself. An event without an id is never a duplicate.
func (h *deferredEvents) add(item *event.Item) {
	if !item.HasKey {
		return
	}
	if h.known == nil {
		h.known = map[xxh3.Uint128]struct{}{}
	}
	h.known[item.Key] = struct{}{}
	h.keys = append(h.keys, item.Key)
}

// reset empties it for the next group. Maps that grew large are dropped: clearing one costs its size, also when
// it is nearly empty.
func (h *deferredEvents) reset() {
	if len(h.known) > 1<<14 || len(h.merged) > 1<<12 || len(h.drops) > 1<<12 {
		*h = deferredEvents{}
		return
	}
	h.keys, h.order, h.names, h.tickets = h.keys[:0], h.order[:0], h.names[:0], h.tickets[:0]
	clear(h.known)
	clear(h.merged)
	clear(h.drops)
}

// decide asks the Limiter about all events of the group that are not duplicates, with one call. If the Limiter fails,
// everything passes: a broken rate limit must not lose events. It reports whether any event was decided about.
//
// Requests that have waited to be merged were decided about before, and are not charged again. The time of the
// decision is the receive time of the group, so that tests and the limiter agree on it.
func (c *committer) decide(at int64) bool {
	if c.e.opt.Limiter == nil {
		return false
	}
	for _, r := range c.group {
		if r.kind != record.TypeEvents || r.tickets == nil || r.deferred {
			continue
		}
		list := r.tickets.List
		if r.todo != nil {
			for i := range list {
				list[i].Skip = true
			}
		}
		for k := range r.places() {
			i := r.place(k)
			item := &r.batch.Events[i]
			list[i].Skip = item.HasKey && c.ids.Has(item.Key)
		}
		c.deferred.tickets = append(c.deferred.tickets, r.tickets)
	}
	if len(c.deferred.tickets) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), DecideTimeout)
	defer cancel()
	if err := c.e.opt.Limiter.Decide(ctx, time.Unix(0, at), c.deferred.tickets); err != nil {
		c.e.opt.Logger.Error("rate limiter failed, admitting all events", "err", err)
		for _, t := range c.deferred.tickets {
			for i := range t.List {
				t.List[i].Verdict = ratelimit.Verdict{}
			}
		}
	}
	return true
}

// over reports whether the Limiter decided anything but to let the event pass.
func (c *committer) over(r *request, i int) bool {
	return r.tickets != nil && c.e.opt.Limiter != nil && r.tickets.List[i].Verdict.Action != ratelimit.Pass
}

// limit applies the decision about an event. stays is false if the event is not stored by itself. A weight other than 0
// is the number of events that it stands for.
//
// Critical is asked about every event over its limit that is neither throttled nor merged: a throttled event
// comes again, and merging loses nothing.
func (c *committer) limit(r *request, i int) (weight uint32, stays bool) {
	if !c.over(r, i) {
		return 0, true
	}
	v := r.tickets.List[i].Verdict
	item := &r.batch.Events[i]
	if v.Action == ratelimit.Throttle {
		r.result.Throttled = append(r.result.Throttled, int32(i))
		return 0, false
	}
	if _, err := c.deferred.view.Parse(r.batch.Event(i)); err != nil {
		c.e.opt.Logger.Error("event over its rate limit is unreadable, admitting it", "err", err)
		return 0, true
	}
	switch v.Action {
	case ratelimit.Keep, ratelimit.SampleOut, ratelimit.Aggregate:
		if c.e.opt.Whole != nil && c.e.opt.Whole(&c.deferred.view) {
			return 0, true
		}
	}
	if v.Action != ratelimit.Aggregate && c.e.opt.Critical != nil && c.e.opt.Critical(&c.deferred.view) {
		r.result.Critical = append(r.result.Critical, int32(i))
		return 0, false
	}
	switch v.Action {
	case ratelimit.Keep:
		if v.Weight > 1 {
			return v.Weight, true
		}
		return 0, true
	case ratelimit.SampleOut:
		c.deferred.add(item)
		r.result.Sampled++
	case ratelimit.Aggregate:
		// The earliest event of a backfill marks the start of the observed period, so its events are not
		// merged.
		if c.e.opt.MergeBy == nil || r.batch.Backfill || !c.merge(r, i) {
			return 0, true
		}
		r.result.Accepted++
		r.result.Merged++
	default:
		c.drop(item)
		r.result.Dropped++
	}
	return 0, false
}

// merge adds the current event to others like it.
//
// It reports false if the event cannot be merged at all. It is then stored by itself.
func (c *committer) merge(r *request, i int) bool {
	h, item := &c.deferred, &r.batch.Events[i]
	by, step := c.e.opt.MergeBy(h.view.Service)
	h.key = event.MergeKey(h.key[:0], &h.view, by, step)
	m := h.merged[string(h.key)]
	if m == nil || !m.Add(&h.view) { // a full merger stays in order
		key := item.Key
		if !item.HasKey {
			key = event.Key(h.view.Service, h.view.ID)
		}
		m = &merging{first: r.batch.Event(i), by: r, id: fmt.Sprintf("merged-%016x%016x", key.Hi, key.Lo)}
		m.Reset(by)
		m.Fields(r.tickets.List[i].AggregateFields())
		if !m.Add(&h.view) {
			return false
		}
		if h.merged == nil {
			h.merged = map[string]*merging{}
		}
		h.merged[string(h.key)] = m
		h.order = append(h.order, m)
	}
	h.add(item)
	return true
}

// drop counts the current event as dropped.
//
// The name in the map is service and type, each ended by a zero byte, and the time in droppedStep as 8 bytes.
func (c *committer) drop(item *event.Item) {
	h := &c.deferred
	h.key = append(append(h.key[:0], h.view.Service...), 0)
	h.key = append(append(h.key, h.view.Type...), 0)
	h.key = binary.LittleEndian.AppendUint64(h.key, uint64(item.Time-item.Time%droppedStep))
	n := uint64(h.view.Count)
	if _, ok := h.drops[string(h.key)]; ok {
		h.drops[string(h.key)] += n
		return
	}
	if h.drops == nil {
		h.drops = map[string]uint64{}
	}
	name := string(h.key)
	h.drops[name] = n
	h.names = append(h.names, name)
}

// addDeferred turns the deferred events into records of the group. The write that stores the accepted events stores
// these too, so that a crash never keeps one without the other.
//
// The ids of everything that was merged or sampled out are in the first of these records: the keys of a record
// say which ids became known with it, independent of its events. Merged events are split over records only if
// they exceed half of maxRecordBytes.
func (c *committer) addDeferred(at int64) {
	h := &c.deferred
	if len(h.keys)+len(h.order) > 0 {
		count, body, keys := 0, []byte(nil), h.keys
		for i, m := range h.order {
			if m.Events() == 1 {
				m.by.result.Merged-- // no event like it arrived
				body = append(body, m.first...)
			} else {
				body = m.Append(body, m.id)
			}
			count++
			if len(body) > maxRecordBytes/2 || i+1 == len(h.order) {
				c.addKeyed(at, count, body, keys)
				count, body, keys = 0, nil, nil
			}
		}
		if len(h.order) == 0 {
			c.addKeyed(at, 0, nil, keys)
		}
	}
	if len(h.names) > 0 {
		var payload []byte
		for _, name := range h.names {
			d := splitDrop(name)
			d.N = h.drops[name]
			payload = d.Append(payload)
		}
		c.pending = append(c.pending, wal.Pending{Time: at, Type: record.TypeDropped, Payload: payload})
	}
}

// addKeyed adds a record with keys.
//
// Its records belong to no single request, so no result names them.
func (c *committer) addKeyed(at int64, count int, body []byte, keys []xxh3.Uint128) {
	c.begin(at) // for each record, as reading the log again does
	for _, key := range keys {
		c.ids.Add(key)
	}
	payload := append(record.AppendKeyedHead(nil, count, 0, keys), body...)
	c.pending = append(c.pending, wal.Pending{Time: at, Type: record.TypeEvents, Payload: payload})
}

// splitDrop splits a name that drop made.
func splitDrop(name string) (d record.Dropped) {
	texts, tail := []byte(name[:len(name)-8]), name[len(name)-8:]
	for i, c := range texts {
		if c == 0 {
			d.Service, d.Type = texts[:i], texts[i+1:len(texts)-1]
			break
		}
	}
	d.Reason, d.Time = []byte(reasonLimited), int64(binary.LittleEndian.Uint64([]byte(tail)))
	return d
}
