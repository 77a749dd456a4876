package engine

import (
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// answerReserve is what is left of a request's deadline for the answer, and for the sync
// when the request waits to be merged.
const answerReserve = 10 * time.Millisecond

// mergeWait holds requests with events to be merged, so that those of many senders meet in
// one group. They are decided and charged, but nothing of them is in the log, and their
// senders may still leave. Only the committer uses it.
type mergeWait struct {
	requests []*request
	bytes    int64
	until    time.Time   // when they are written at the latest
	timer    *time.Timer // fires then; nil before the first one waited
}

// hold moves the requests of the group that are to wait out of it, and returns how many
// bytes those have. A request waits as a whole. One whose deadline is near, a backfill, and
// whatever is more than a group takes do not wait.
func (c *committer) hold(now time.Time) (bytes int64) {
	window := c.e.mergeWindow()
	if window <= 0 || c.stopping || c.e.opt.MergeBy == nil {
		return 0
	}
	w := &c.waits
	stay := c.group[:0]
	for _, r := range c.group {
		if r.held || r.kind != record.TypeEvents || r.batch.Backfill || !r.merges() ||
			len(w.requests) >= c.e.opt.GroupRequests || w.bytes+r.bytes > c.e.holdBytes() {
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
		r.held = true
		r.state.Store(requestWaiting)
		if r.leaving.Load() && r.state.CompareAndSwap(requestWaiting, requestTaken) {
			r.err = errSenderLeft // it could not leave while its request was decided
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
	c.e.queue.holds(len(w.requests))
	return bytes
}

// merges reports whether the limits want any event of the request merged.
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

func (w *mergeWait) set(d time.Duration) {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
		return
	}
	w.timer.Reset(d)
}

// due is when to look again; nil if nothing waits.
func (w *mergeWait) due() <-chan time.Time {
	if len(w.requests) == 0 {
		return nil
	}
	return w.timer.C
}

// release appends what waited to a group, if its time has come, there is as much as a group
// holds, or all must go.
func (c *committer) release(group []*request, all bool) []*request {
	w := &c.waits
	n := len(w.requests)
	if n == 0 || !all && n < c.e.opt.GroupRequests && w.bytes < c.e.holdBytes()/2 && time.Now().Before(w.until) {
		return group
	}
	group = append(group, w.requests...)
	clear(w.requests)
	w.requests, w.bytes = w.requests[:0], 0
	w.timer.Stop()
	c.e.queue.holds(0)
	return group
}

// holdBytes bounds the bytes of requests that wait to be merged: a group's worth, and never
// so much of the queue that others find it full.
func (e *Engine) holdBytes() int64 { return min(int64(e.opt.GroupBytes), e.opt.QueueBytes/4) }

// mergeWindow is how long requests may wait to be merged.
func (e *Engine) mergeWindow() time.Duration {
	if e.opt.MergeWindow == nil {
		return 0
	}
	return e.opt.MergeWindow()
}
