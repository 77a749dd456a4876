package sinks

import (
	"strconv"

	"github.com/sloengine/sloengine/web/status"
)

// Status adds the sinks, their breakers and bulkheads to the condition of the engine.
func (s *Sinks) Status(e *status.Engine) {
	list := *s.list.Load()
	for _, x := range s.Dispatcher.Status() {
		kind, most := "", int64(0)
		if c := named(list, x.Name); c != nil {
			kind, most = c.Kind(), c.MaxLagBytes
		}
		sink := status.SinkStatus{
			Name: x.Name, Kind: kind, LagRecords: x.LagRecords, LagBytes: x.LagBytes, MaxLagBytes: most,
			OldestAgeSeconds: x.OldestAge.Seconds(), InFlight: x.InFlight, Delivered: x.Delivered,
			Retries: x.Retries, Dropped: x.Dropped,
			DeadLetters: x.DeadLetters, LastDelivery: x.LastDelivery, LastError: x.LastError, LastErrorAt: x.LastErrorAt,
			HeldSeconds: x.Held.Seconds(), Recovering: x.Recovering, Breaker: x.Breaker.State.String(),
			Troubles: x.Troubles,
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
		e.Sinks = append(e.Sinks, sink)
		if x.Breaker.Off {
			e.Sinks[len(e.Sinks)-1].Breaker = ""
		} else {
			e.Breakers = append(e.Breakers, status.BreakerStatus{
				Name: x.Name, State: sink.Breaker, Since: x.Breaker.Since, Reason: x.Breaker.Reason,
				RetryAfterSeconds: x.Breaker.RetryAfter.Seconds(),
			})
		}
		e.Bulkheads = append(e.Bulkheads, status.BulkheadStatus{
			Name: x.Name, Active: x.Bulkhead.Active, Queued: x.Bulkhead.Queued, Concurrency: x.Bulkhead.Concurrency,
			Queue: x.Bulkhead.Queue, Rejected: x.Bulkhead.Rejected,
		})
	}
}
