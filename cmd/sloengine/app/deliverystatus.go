package app

import (
	"context"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web"
)

// status adds what stands around the engine to its condition.
func (r *delivery) status(s *web.EngineStatus) {
	for _, l := range r.rates.limiter.Status() {
		s.Limits = append(s.Limits, web.LimitStatus{Layer: l.Layer.String(), Rule: l.Rule, PerSecond: l.PerSecond, Current: l.Current, Hits: l.Hits})
	}
	for _, o := range r.rates.limiter.Offenders() {
		s.Offenders = append(s.Offenders, web.OffenderStatus{Context: o.Context, Value: r.shownValue(o.Value), Hits: o.Hits, Error: o.Error})
	}
	if r.link != nil {
		l := r.link.Status()
		s.Redis = &web.RedisStatus{
			Connected: l.Connected, Since: l.Since, LastError: l.LastError, RoundTripSeconds: l.RoundTrip.Seconds(), Fallbacks: l.Fallbacks,
		}
	}
	if d := r.sinks.Load(); d != nil {
		list := *r.sinkList.Load()
		for _, x := range d.Status() {
			kind, most := "", int64(0)
			if c := sinkNamed(list, x.Name); c != nil {
				kind, most = c.Kind(), c.MaxLagBytes
			}
			sink := web.SinkStatus{
				Name: x.Name, Kind: kind, LagRecords: x.LagRecords, LagBytes: x.LagBytes, MaxLagBytes: most,
				OldestAgeSeconds: x.OldestAge.Seconds(), InFlight: x.InFlight, Delivered: x.Delivered, Retries: x.Retries, Dropped: x.Dropped,
				DeadLetters: x.DeadLetters, LastDelivery: x.LastDelivery, LastError: x.LastError, LastErrorAt: x.LastErrorAt,
				HeldSeconds: x.Held.Seconds(), Recovering: x.Recovering, Breaker: x.Breaker.State.String(),
			}
			if x.Breaker.State == breaker.HalfOpen {
				sink.Breaker = web.BreakerHalfOpen
			}
			for _, t := range x.Troubles {
				sink.Troubles = append(sink.Troubles, web.SinkTrouble{
					What: t.Kind, Since: t.Since, Cause: t.Cause, Brief: t.Brief, Failures: t.Failures, Blocked: t.Blocked,
				})
			}
			for code, n := range x.Answers {
				if sink.Answers == nil {
					sink.Answers = map[string]uint64{}
				}
				name := "other"
				if code > 0 {
					name = strconv.Itoa(code)
				}
				sink.Answers[name] = n
			}
			s.Sinks = append(s.Sinks, sink)
			if x.Breaker.Off {
				s.Sinks[len(s.Sinks)-1].Breaker = ""
			} else {
				s.Breakers = append(s.Breakers, web.BreakerStatus{
					Name: x.Name, State: sink.Breaker, Since: x.Breaker.Since, Reason: x.Breaker.Reason, RetryAfterSeconds: x.Breaker.RetryAfter.Seconds(),
				})
			}
			s.Bulkheads = append(s.Bulkheads, web.BulkheadStatus{
				Name: x.Name, Active: x.Bulkhead.Active, Queued: x.Bulkhead.Queued, Concurrency: x.Bulkhead.Concurrency,
				Queue: x.Bulkhead.Queue, Rejected: x.Bulkhead.Rejected,
			})
		}
	}
	if st, ok := r.deadLetterStats(); ok {
		s.DeadLetters = &web.DeadLetterStatus{
			Storage: st.Backend, Count: st.Count, Bytes: st.Bytes, Oldest: st.Oldest, Newest: st.Newest, ByOrigin: st.ByOrigin, ByReason: st.ByReason, BySink: st.BySink,
			Damaged: st.Damaged,
		}
		if st.Lost != nil {
			s.DeadLetters.LostEntries, s.DeadLetters.DamagedBytes = st.Lost.Entries, st.Lost.Bytes
		}
	}
}

// shownValue is the value of a context as it may be shown. Limits look at events before
// they are redacted, so where there are rules about that, the page gets a name that only
// this process knows.
func (r *delivery) shownValue(value string) string {
	if !r.redacts.Load() {
		return value
	}
	return fmt.Sprintf("(redacted) %08x", uint32(maphash.String(r.salt, value)))
}

// deadLetterStats are those of the dead letters. Redis is not asked for every view: measure
// does that now and then.
func (r *delivery) deadLetterStats() (dlq.Stats, bool) {
	if r.c.DeadLetters.Storage == "redis" {
		if st := r.lastStats.Load(); st != nil {
			return *st, true
		}
		return dlq.Stats{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := r.deadLetters.Stats(ctx)
	return st, err == nil
}
