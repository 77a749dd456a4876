package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app/sources"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/slo/fold"
)

// ownService is the service of the events that an engine sends about itself, if its
// spec has that service. testdata/specs/sloengine.yaml says what they are.
const (
	ownService  = "sloengine"
	ownInterval = 10 * time.Second
)

// ownTotals are what the engine counts about itself. What rate limits dropped is in
// the log and continues over restarts. The others begin with the process.
type ownTotals struct {
	accepted, lost uint64 // over HTTP and by sources, and by sinks
	overhead       dispatch.Overhead
	dropped        uint64 // by rate limits
}

// ownEvents sends events about the engine itself.
type ownEvents struct {
	log     *slog.Logger
	engine  *engine.Engine
	counts  *counting.Counts
	http    *ingest.HTTPMetrics
	sources *sources.Sources
	sinks   *dispatch.Dispatcher
	specs   *counting.Specs
	started time.Time
	run     string // begins the ids of this run of this engine
}

func (b *builder) ownEvents(p *parts, started time.Time) *ownEvents {
	return &ownEvents{
		log: b.Log, engine: p.storage.engine, counts: p.evaluation.counts, http: p.intake.http, sources: p.sources,
		sinks: p.sinks.dispatcher, specs: b.specs, started: started,
		run: fmt.Sprintf("%s-%d", p.storage.instance, started.UnixNano()),
	}
}

func (o *ownEvents) totals() (t ownTotals) {
	t.accepted = o.http.Totals().Accepted + o.sources.Accepted()
	if st := o.counts.Stats(); st != nil {
		for _, n := range st.Dropped {
			t.dropped += n
		}
	}
	for _, s := range o.sinks.Status() {
		t.lost += s.Dropped
		for i, n := range s.Overhead {
			t.overhead[i] += n
		}
	}
	return t
}

// since are the events about what happened after before; their ids begin with batch.
func (o *ownTotals) since(before *ownTotals, batch string, at time.Time) (out []event.Event) {
	add := func(typ, what string, was, is uint64, change func(*event.Event)) {
		if is <= was { // a sink that was removed takes its counts with it
			return
		}
		e := event.Event{
			ID: batch + "-" + typ + "-" + what, Time: at, Service: ownService, Type: typ,
			Count: uint32(min(is-was, math.MaxUint32)),
		}
		change(&e)
		out = append(out, e)
	}
	failed := func(cause string) func(*event.Event) {
		return func(e *event.Event) {
			e.Outcome, e.Severity = event.Failure, "critical"
			e.Set("cause", cause)
		}
	}
	add("ingest", "accepted", before.accepted, o.accepted, func(*event.Event) {})
	add("ingest", "dropped", before.dropped, o.dropped, failed("rate_limit"))
	add("ingest", "lost", before.lost, o.lost, failed("sink"))
	for i, n := range o.overhead {
		add("delivery", fmt.Sprint(i), before.overhead[i], n, func(e *event.Event) {
			e.Duration, e.HasDuration = time.Hour, true // slower than the last bound
			if i < len(dispatch.OverheadBounds) {
				e.Duration = dispatch.OverheadBounds[i]
			}
		})
	}
	return out
}

// send makes events about the engine itself durable until ctx ends, while the
// spec has their service. A batch that fails is tried again as it was, so that it counts
// once; what the last seconds before a crash would have told is not told.
func (o *ownEvents) send(ctx context.Context) error {
	ready := time.Now()
	if _, _, err := o.counts.Sums(ctx, fold.Request{Now: ready}); err != nil { // what was dropped before
		return nil //nolint:nilerr // only the end of the engine can
	}
	last := ownTotals{dropped: o.totals().dropped}
	pending := []event.Event{{
		ID: o.run + "-recovery", Time: ready, Service: ownService, Type: "recovery",
		Duration: ready.Sub(o.started), HasDuration: true,
	}}
	tick := time.NewTicker(ownInterval)
	defer tick.Stop()
	storing := health.Log{
		Logger: o.log, Level: slog.LevelWarn,
		Broken: "storing events about the engine failed, retrying",
		Works:  "storing events about the engine succeeds again",
	}
	for batch := 1; ; batch++ {
		if o.specs.InForce().Catalog.Lookup([]byte(ownService), nil) == event.UnknownService {
			pending, last = nil, o.totals()
		}
		if len(pending) > 0 {
			err := o.commit(ctx, pending)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				pending = nil
			}
			storing.Note(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case at := <-tick.C:
			if len(pending) == 0 {
				now := o.totals()
				pending = now.since(&last, fmt.Sprintf("%s-%d", o.run, batch), at)
				last = now
			}
		}
	}
}

// commit makes events durable in the way of all others, but for rate limits. Types
// that the spec does not have are left out.
func (o *ownEvents) commit(ctx context.Context, events []event.Event) error {
	var body []byte
	for i := range events {
		body = append(events[i].AppendJSON(body), '\n')
	}
	var d event.Decoder
	var b event.Batch
	if err := d.Decode(event.NDJSON, body, event.DecodeOptions{Now: time.Now(), Catalog: o.specs.InForce().Catalog},
		&b); err != nil {
		return err
	}
	_, err := o.engine.Commit(ctx, &b)
	return err
}
