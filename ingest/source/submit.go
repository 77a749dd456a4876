package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Submit makes a batch durable together with its position, and returns when it is. Until then it waits as long as it
// takes and tries again: for the engine, for rate limits, and for dead letters, which are safe before a position that
// covers them is submitted. at may be nil. After an error, which is that of ctx or means that the engine stops, the
// batch may be durable in part: its position says so.
func (in *Intake) Submit(ctx context.Context, b *Batch, at engine.Position) error {
	b.close()
	if err := in.saveDead(ctx, b); err != nil {
		return err
	}
	tickets := b.makeTickets()
	if in.o.Redact != nil {
		if err := in.o.Redact.Apply(&b.events); err != nil {
			return fmt.Errorf("redact the events of source %s: %w", in.o.Name, err)
		}
	}
	todo := b.todo()
	for {
		result, err := in.admit(ctx, &b.events, tickets, todo, at)
		if err != nil {
			return err
		}
		in.account(&result, tickets, todo)
		b.known(result.DupIndexes)
		in.seen.note(b)
		if len(result.Critical) > 0 {
			b.critical(result.Critical)
			if err := in.saveDead(ctx, b); err != nil {
				return err
			}
			for _, i := range result.Critical {
				in.o.Limiter.CountCritical(&tickets.List[i])
			}
		}
		switch {
		case len(result.Throttled) > 0:
			todo = slices.Clone(result.Throttled)
			wait, _ := tickets.List[todo[0]].Throttle()
			wait = min(max(wait, tickets.List[todo[0]].Wait, 10*time.Millisecond), 10*time.Second)
			rule := tickets.List[todo[0]].RuleName()
			resume := in.pause(TroubleRateLimit, "events exceed a rate limit that throttles; messages wait in the broker",
				"rate limit "+rule)
			waited := retry.Sleep(ctx, wait)
			resume()
			if !waited {
				return ctx.Err()
			}
		case len(result.Critical) > 0 && at != nil:
			// Their dead letters are safe, so the position covers them now.
			_, err := in.admit(ctx, &event.Batch{Backfill: b.backfill}, nil, nil, at)
			return err
		default:
			return nil
		}
	}
}

// known remembers which events were duplicates.
func (b *Batch) known(indexes []int) {
	if b.duplicates == nil && len(indexes) > 0 {
		b.duplicates = map[int]bool{}
	}
	for _, i := range indexes {
		b.duplicates[i] = true
	}
}

// admit asks the engine until it takes the batch.
func (in *Intake) admit(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32,
	at engine.Position) (engine.Result, error) {
	if len(b.Events) == 0 && at == nil {
		return engine.Result{}, nil
	}
	var resume func()
	defer func() {
		if resume != nil {
			resume()
		}
	}()
	for {
		result, err := in.o.Engine.AdmitAt(ctx, b, t, todo, at)
		if err == nil {
			in.state.mu.Lock()
			in.state.taken = in.o.Now()
			in.state.mu.Unlock()
			return result, nil
		}
		var unavailable *engine.UnavailableError
		if !errors.As(err, &unavailable) || unavailable == engine.ErrPoisoned || unavailable == engine.ErrStopping {
			return result, fmt.Errorf("store messages of source %s: %w", in.o.Name, err)
		}
		if resume == nil {
			resume = in.pause(TroubleEngine, unavailable.Detail+"; messages wait in the broker", err.Error())
		}
		if !retry.Sleep(ctx, unavailable.RetryAfter) {
			return engine.Result{}, ctx.Err()
		}
	}
}

// saveDead keeps the dead letters of the batch until that works.
func (in *Intake) saveDead(ctx context.Context, b *Batch) error {
	entries := b.dead[:0]
	for i := range b.dead {
		if in.o.Wanted == nil || in.o.Wanted(&b.dead[i]) {
			entries = append(entries, b.dead[i])
		} else {
			in.counts.discarded.Inc()
		}
	}
	b.dead = b.dead[:0]
	if len(entries) == 0 {
		return nil
	}
	var resume func()
	delay := 500 * time.Millisecond
	for {
		err := in.o.Save(ctx, entries)
		if errors.Is(err, dlq.ErrInvalid) { // another attempt would end like this one
			in.o.Logger.Error("dead letters dropped, they cannot be stored", "source", in.o.Name, "err", err)
			err = nil
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
		if resume == nil {
			brief := "dead letters cannot be saved; messages wait in the broker"
			if errors.Is(err, dlq.ErrFull) {
				brief =
					"the dead-letter storage is full; messages wait in the broker (raise dead_letters.max_bytes, or discard some)"
			}
			resume = in.pause(TroubleDeadLetters, brief, err.Error())
			defer func() { resume() }()
		}
		if !retry.Sleep(ctx, delay) {
			return ctx.Err()
		}
		delay = min(2*delay, 15*time.Second)
	}
	for i := range entries {
		in.counts.dead[entries[i].Reason].Inc()
		if entries[i].Reason != dlq.ReasonRateLimited {
			in.counts.rejected.Inc()
		}
	}
	return nil
}

// account counts the outcomes of events.
func (in *Intake) account(r *engine.Result, t *ratelimit.Tickets, todo []int32) {
	c := in.counts
	c.accepted.Add(r.Accepted)
	c.duplicate.Add(r.Duplicates)
	c.sampled.Add(r.Sampled)
	c.dropped.Add(r.Dropped)
	if r.Merged > 0 {
		in.o.Limiter.CountAggregated(r.Merged)
	}
	if r.Dropped == 0 {
		return
	}
	count := func(i int32) {
		if k := &t.List[i]; k.Verdict.Action == ratelimit.Drop && !slices.Contains(r.Critical, i) {
			in.o.Limiter.CountDropped(k)
		}
	}
	if todo == nil {
		for i := range t.List {
			count(int32(i))
		}
	}
	for _, i := range todo {
		count(i)
	}
}

// makeTickets makes a ticket for each event, from its content before redaction. nil: there are no limits.
func (b *Batch) makeTickets() *ratelimit.Tickets {
	if b.in.o.Limiter == nil {
		return nil
	}
	policy := b.in.o.Limiter.Policy()
	if policy == nil {
		return nil
	}
	b.tickets.Reset()
	// A source is configured by the operator, who is as good as a token.
	b.caller = ratelimit.Caller{Authenticated: true, Token: "source:" + b.in.o.Name}
	for i := range b.events.Events {
		item := &b.events.Events[i]
		if _, err := b.view.Parse(b.events.Event(i)); err != nil {
			panic(fmt.Sprintf("decoded event is unreadable: %v", err)) // a bug
		}
		subject := ratelimit.Subject{Service: b.view.Service, Type: b.view.Type, Severity: b.view.Severity,
			Attrs: &b.view, Sample: item.Key.Lo}
		if !item.HasKey {
			subject.Sample = xxh3.Hash(b.view.ID)
		}
		policy.Add(&b.caller, &subject, &b.tickets)
	}
	return &b.tickets
}
