package engine

import (
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// This file lets requests wait for each other. An event that is merged with a hundred others costs one record
// instead of a hundred, but only if they meet in one group, so a request with events to be merged may wait for
// MergeWindow before it is written.

// answerReserve is the part of a deadline that a waiting request leaves for the sync and the answer.
//
// A sync on a good disk takes about a millisecond. A request that waits any longer could be durable and still
// miss its deadline.
const answerReserve = 10 * time.Millisecond

// mergeWait holds requests with events to be merged, so that those of many senders meet in one group. The Limiter has
// decided about them and charged them, but nothing of them is in the log, and their senders may still leave. Only the
// committer uses it.
//
// Its requests are in the state waiting, and their bytes stay charged to the queue. A crash loses nothing that
// was promised: they are not answered yet.
type mergeWait struct {
	requests []*request
	bytes    int64
	until    time.Time   // the latest time at which they are written
	timer    *time.Timer // fires then; nil until the first request waits
}

// deferMerges moves the requests of the group that wait to be merged out of it, and returns their bytes. A request
// waits as a whole. Requests with a close deadline, backfills, and requests beyond the size of a group do not wait.
//
// The state is set back to waiting before leaving is checked, in the opposite order of the sender's two steps. So
// either the sender withdraws the request or the committer notices that it wants to leave.
func (c *committer) deferMerges(now time.Time) (bytes int64) {
	window := c.e.mergeWindow()
	if window <= 0 || c.stopping || c.e.opt.MergeBy == nil {
		return 0
	}
	w := &c.waits
	stay := c.group[:0]
	for _, r := range c.group {
		if r.deferred || r.kind != record.TypeEvents || r.batch.Backfill || !r.merges() ||
			len(w.requests) >= c.e.opt.GroupRequests || w.bytes+r.bytes > c.e.mergeBytes() {
			stay = append(stay, r)
			continue
		}
		until := now.Add(window)
		if !r.deadline.IsZero() && r.deadline.Add(-answerReserve).Before(until) {
			until = r.deadline.Add(-answerReserve)
		}
		if !until.After(now) {
			stay = append(stay, r)
			continue
		}
		r.deferred = true
		r.state.Store(requestWaiting)
		if r.leaving.Load() && r.state.CompareAndSwap(requestWaiting, requestTaken) {
			r.err = errSenderLeft // the sender could not withdraw the request while it was decided about
			r.answer()
			continue
		}
		if len(w.requests) == 0 || until.Before(w.until) {
			w.until = until
			w.set(until.Sub(now))
		}
		w.requests = append(w.requests, r)
		w.bytes += r.bytes
		bytes += r.bytes
	}
	clear(c.group[len(stay):])
	c.group = stay
	c.e.queue.setDeferred(len(w.requests))
	return bytes
}

// merges reports whether the Limiter wants any event of the request merged.
func (r *request) merges() bool {
	if r.tickets == nil {
		return false
	}
	for k := range r.places() {
		if t := &r.tickets.List[r.place(k)]; !t.Skip && t.Verdict.Action == ratelimit.Aggregate {
			return true
		}
	}
	return false
}

// set makes the timer fire after d. It may be running: the channel of a reset timer holds no stale value.
func (w *mergeWait) set(d time.Duration) {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
		return
	}
	w.timer.Reset(d)
}

// due fires when requests must be written. It is nil while no request waits.
func (w *mergeWait) due() <-chan time.Time {
	if len(w.requests) == 0 {
		return nil
	}
	return w.timer.C
}

// release appends the waiting requests to a group when their time has come, when they fill a group, or if all is set.
//
// They also go at half of mergeBytes, before new requests find no room to wait.
func (c *committer) release(group []*request, all bool) []*request {
	w := &c.waits
	n := len(w.requests)
	if n == 0 || !all && n < c.e.opt.GroupRequests && w.bytes < c.e.mergeBytes()/2 && time.Now().Before(w.until) {
		return group
	}
	group = append(group, w.requests...)
	clear(w.requests)
	w.requests, w.bytes = w.requests[:0], 0
	w.timer.Stop()
	c.e.queue.setDeferred(0)
	return group
}

// mergeBytes bounds the bytes of requests that wait to be merged: at most a group, and a quarter of the queue, so that
// other requests still find space.
func (e *Engine) mergeBytes() int64 { return min(int64(e.opt.GroupBytes), e.opt.QueueBytes/4) }

// mergeWindow is how long requests may wait to be merged.
//
// It is asked for each group, so a changed configuration applies at once.
func (e *Engine) mergeWindow() time.Duration {
	if e.opt.MergeWindow == nil {
		return 0
	}
	return e.opt.MergeWindow()
}
