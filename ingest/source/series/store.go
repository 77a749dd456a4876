package series

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/order"
)

// store counts the samples of requests, and what waited long enough.
func (r *Receiver) store(all []*write) error {
	if r.closed {
		return engine.ErrStopping
	}
	now := r.o.Intake.Now()
	if err := r.o.Engine.CatchUp(context.Background()); err != nil { // what failed may be in the log
		return err
	}
	if r.failed {
		r.loadPending(now)
		r.failed = false
	}
	var items []item
	samples, size := 0, 0
	for _, w := range all {
		if w.routes != r.routes.Load() {
			w.err = errOtherRoutes
			continue
		}
		items, samples, size = append(items, w.items...), samples+w.samples, size+w.size
	}
	// A first sample says more when those before it are known.
	order.By(items, func(a, b *item) int { return cmp.Compare(a.at.at, b.at.at) })
	r.begin()
	for _, u := range r.units {
		u.samples = 0
	}
	r.oldest = now.Add(time.Duration(step) - cmp.Or(r.o.SizeLimits.AllowedLateness, 24*time.Hour)).UnixNano()
	r.tally.left = ""
	clear(r.behind)
	for i := range items {
		r.item(&items[i], now)
	}
	gaps := r.gaps
	err := r.commit(now)
	if err == nil && len(all) > 0 {
		r.o.Intake.Took(samples, size, 0, 0, 0)
	}
	for ; err == nil && (len(gaps) > 0 || r.gapsDue(now)); gaps = r.gaps {
		r.addGaps(gaps)
		if err = r.commit(now); err == nil {
			r.addBehind(gaps)
			err = r.commit(now)
		}
	}
	return err
}

// commit makes what was counted durable, with what waited long enough.
func (r *Receiver) commit(now time.Time) error {
	r.events.Reset()
	emitted := r.pair(now)
	if err := r.write(now, r.o.SizeLimits, r.o.Longest()); err != nil {
		r.failed = true
		return err
	}
	for _, u := range r.units {
		if o := u.observed(r.scrape); o.Source != "" {
			r.batch.Observed(o)
		}
		if u.samples > 0 {
			r.handOver(u.plan)
		}
	}
	r.elections.note(r.batch)
	var result engine.Result
	var err error
	if len(r.events.Events) > 0 || !r.batch.Empty() {
		// The sender may leave: what is known of its series must be what the log says.
		ctx := context.Background()
		if result, err = r.o.Engine.AdmitAt(ctx, &r.events, nil, nil, r.batch); err == nil {
			err = r.o.Engine.CatchUp(ctx)
		}
	}
	if err != nil {
		r.failed = true
		for _, u := range r.units {
			u.newest = u.until
		}
		r.complain(source.TroubleEngine, "", err)
		return err
	}
	r.o.Intake.Works(source.TroubleEngine, "")
	r.stored(emitted, now)
	r.o.Intake.Counted(result.Accepted, r.events.Rejected, r.cut())
	if r.tally.left != "" {
		r.wrongWith("samples", "a part of the samples is not counted", r.tally.left, now)
	}
	return nil
}

// item counts a sample.
func (r *Receiver) item(x *item, now time.Time) {
	w, lenient := x.in, time.Duration(0)
	if x.of.replica != "" {
		var ok bool
		if ok, lenient = r.elections.allow(x.of.cluster, x.of.replica, now, x.at.at); !ok {
			w.left[leftReplica]++
			return
		}
	}
	switch {
	case x.at.at > now.Add(cmp.Or(r.o.SizeLimits.MaxFuture, 5*time.Minute)).UnixNano():
		x.refuse(leftInvalid, fmt.Sprintf("a sample of %s is of %s, in the future", x.of.name,
			time.Unix(0, x.at.at).UTC().Format(time.RFC3339)))
		return
	case !x.at.isCount():
		w.left[leftStale]++
		return
	}
	best := leftReasons
	for i := range x.of.routes {
		to := &x.of.routes[i]
		switch {
		case (to.plan.native != nil) != (x.at.native != nil):
			best = min(best, leftHistogram)
			continue
		case !w.may(to.plan):
			best = min(best, leftForbidden)
			continue
		}
		best = min(best, leftBy[r.sampleOf(to, x.at, lenient)])
		u := r.units[to.plan.Stream]
		if u.samples++; !to.isPart {
			u.newest, u.came = max(u.newest, x.at.at), now
		}
	}
	if best == leftNothing && x.at.at < r.oldest {
		best = leftOld
	}
	if best == leftFull {
		x.refuse(leftFull, fmt.Sprintf("no room for another series of %s: the last samples of all series take %d MiB",
			x.of.name, counter.MaxBytes>>20))
	} else if best > 0 {
		w.left[best]++
	}
}

// sampleOf adds a sample to the sums, or to those behind a gap.
func (r *Receiver) sampleOf(to *routed, at point, lenient time.Duration) counter.Verdict {
	key := seriesKey{to.plan, to.series, to.target}
	if i, had := r.behind[key]; had {
		r.gaps[i].points = append(r.gaps[i].points, at)
		return counter.Adds
	}
	why := r.sample(to, at, lenient)
	if why == unresolved {
		r.behind[key] = len(r.gaps)
		r.gaps = append(r.gaps, gap{of: *to, points: []point{at}, lenient: lenient})
	}
	return why
}

var leftBy = map[counter.Verdict]leftOut{counter.Adds: leftNothing, counter.Baseline: leftBaseline,
	counter.Stale: leftKnown, counter.Decreased: leftDecreased, counter.Full: leftFull}

// may reports whether the sender may write all services of a unit.
func (w *write) may(p *plan) bool {
	if w.allow == nil {
		return true
	}
	ok, had := w.allowed[p]
	if !had {
		ok = !slices.ContainsFunc(p.SLOs, func(s SLO) bool { return !w.allow([]byte(s.Owner)) })
		w.allowed[p] = ok
	}
	return ok
}

// observed is what the newest sample of the total adds to what was observed.
func (u *unitState) observed(scrape time.Duration) (o counter.Observation) {
	if u.newest-u.until < step {
		return o
	}
	from := u.until
	if u.newest-from > 3*int64(scrape) {
		from = u.newest - int64(scrape)
	}
	return counter.Observation{Source: u.plan.Stream, From: from, To: u.newest}
}

// stored says that the last batch is in the log.
func (r *Receiver) stored(emitted []cell, now time.Time) {
	r.elections.stored()
	for _, c := range emitted {
		delete(r.pending, c)
	}
	for _, u := range r.units {
		if u.newest-u.until >= step {
			u.until = u.newest
		}
		found := r.found[u.plan]
		if u.samples == 0 && found == nil {
			continue
		}
		u.plan.former = nil
		r.began(&u.plan.Unit, now)
		r.reached(u.plan.Stream, time.Unix(0, max(u.newest, u.until)))
		r.read(u.plan.Stream, u.samples, r.of(u.plan), r.tally.left)
		u.samples = 0
	}
}

// cut is how many events of the last batch exceed all that there can be.
func (r *Receiver) cut() (n uint64) {
	for _, f := range r.found {
		n += f.Cut
	}
	return n
}
