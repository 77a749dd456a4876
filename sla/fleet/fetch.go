package fleet

import (
	"context"
	"errors"
	"net/http"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// fetching is the fetching of one engine's sums for one report, and of what changed of its slices.
type fetching struct {
	fleet  *Fleet
	engine int
	spec   string
	cfg    *fold.Config
	joined *fold.Joined
	req    *fold.Request

	bytes int // of all answers
}

// errChanged ends a fetch whose spec is no longer in force.
var errChanged = errors.New("the spec changed meanwhile")

// run asks until all slices were told. Sums come with the first answer. If time runs out between two answers, the next
// report goes on there.
func (x *fetching) run(ctx context.Context) (*fold.Sums, error) {
	var sums *fold.Sums
	for {
		q := x.query(sums != nil)
		data, err := x.fleet.clients[x.engine].call(ctx, http.MethodGet, SumsPath, q.values(), q.spec, nil)
		if err != nil {
			if sums != nil && ctx.Err() != nil {
				return sums, nil // they are complete, only slices are not
			}
			return nil, err
		}
		x.bytes += len(data)
		a, err := Decode(data, x.cfg, x.req)
		switch {
		case err != nil:
			return nil, err
		case sums == nil && a.Sums == nil:
			return nil, ErrFormat
		case sums == nil && a.Request != RequestSum(x.req):
			return nil, errors.New("it evaluates other windows, so its version may be another one")
		}
		if sums == nil {
			sums = a.Sums
		}
		more, err := x.take(a, sums)
		if err != nil || !more {
			return sums, err
		}
	}
}

// query is what to ask next.
func (x *fetching) query(more bool) *sumsQuery {
	f := x.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	e := &f.engines[x.engine]
	q := &sumsQuery{spec: x.spec, now: x.req.Now, minutes: x.req.Minutes, run: e.run, conf: e.conf,
		raw: fold.RawRequest{Since: e.since, From: e.next}, more: more}
	if e.run != "" && e.noted == e.run {
		q.noted, q.notes = true, e.changes
	}
	return q
}

// take takes over what an answer says of slices, and reports whether there are more.
func (x *fetching) take(a *Answer, sums *fold.Sums) (more bool, err error) {
	f := x.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined != x.joined {
		return false, errChanged
	}
	e := &f.engines[x.engine]
	if a.Run != e.run || a.Raw.Config != e.conf { // it began again, and so did its answer
		x.joined.Reset(x.engine)
		e.run, e.conf, e.since, e.reach, e.next, e.loaded = a.Run, a.Raw.Config, 0, 0, fold.RawCursor{}, false
	}
	if a.Sums != nil {
		f.note(e, a.Run, &a.Notes)
	}
	if err := x.joined.Update(x.engine, &a.Raw); err != nil {
		x.joined.Reset(x.engine)
		e.run = "" // everything is asked for again
		return false, err
	}
	if e.next == (fold.RawCursor{}) {
		e.reach = a.Raw.Clock
	}
	if a.Raw.More {
		if a.Raw.Next == e.next {
			return false, ErrFormat // it would go on for ever
		}
		e.next = a.Raw.Next
		return true, nil
	}
	e.since, e.next, e.loaded = e.reach, fold.RawCursor{}, true
	observed := make(map[string][]slo.Span, len(sums.Eras))
	for i := range sums.Eras {
		if x.cfg.Indicators[i].Slice != nil {
			observed[sums.Eras[i].Indicator] = sums.Eras[i].Observed(sums.Up)
		}
	}
	x.joined.Observe(x.engine, observed)
	return false, nil
}
