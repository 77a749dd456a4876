package relay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
)

// awayPause is how long a bucket, or a row, rests at least after the broker could not be reached for one of its rows.
const awayPause = time.Second

// result is the outcome to write for a row.
type result struct {
	*item
	status   string
	attempts int
	delay    time.Duration // until the next attempt
	err      string
	class    retry.Class
	released bool // nothing has happened to the row
}

// process publishes a batch and writes the results.
func (r *Relay) process(ctx context.Context, b *batch) {
	pause := time.Duration(0)
	defer func() {
		r.claims.done(b, pause)
		if b.full && pause == 0 {
			r.wakeUp()
		}
	}()
	permit, err := r.breaker.Acquire()
	if err != nil { // other batches have opened the breaker
		if results := r.claims.refuse(b.items, 0); len(results) > 0 {
			r.write(ctx, results)
		}
		return
	}
	sending, cancel := context.WithDeadline(ctx, b.taken.Add(r.o.SendTimeout))
	defer cancel()
	probing, done := permit.Context(sending)
	outcomes := r.publish(probing, b.items)
	done()
	pause = r.judge(permit, outcomes)
	results := r.results(sending, b, outcomes, pause)
	if len(results) > 0 {
		r.write(ctx, results)
	}
	r.m.batch.Update(time.Since(b.taken).Seconds())
}

// publish sends the rows. Those that are too large are not sent, and neither are later rows of their keys, which may
// have to wait for them.
func (r *Relay) publish(ctx context.Context, items []*item) []Outcome {
	outcomes := make([]Outcome, len(items))
	messages := make([]*Message, 0, len(items))
	index := make([]int, 0, len(items))
	var held map[string]bool
	for i, it := range items {
		if held[it.Key] {
			outcomes[i].Skipped = true
			continue
		}
		m, err := message(it)
		if err != nil {
			outcomes[i].Err = err
			if held == nil {
				held = map[string]bool{}
			}
			held[it.Key] = true
			continue
		}
		messages, index = append(messages, m), append(index, i)
	}
	if len(messages) == 0 {
		return outcomes
	}
	for i, o := range r.o.Publisher.Publish(ctx, messages) {
		outcomes[index[i]] = o
	}
	return outcomes
}

// judge passes the evidence of the outcomes about the broker to the breaker and the readiness. pause is how long
// rows rest that the broker could not be reached for.
func (r *Relay) judge(permit breaker.Permit, outcomes []Outcome) (pause time.Duration) {
	reached := false
	var failure error
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case o.Away:
			failure = o.Err
			after, _ := retry.AfterOf(o.Err)
			pause = max(pause, awayPause, min(after, r.retry.MaxRetryAfter()))
		case !o.Skipped:
			reached = reached || o.Err == nil || !errors.Is(o.Err, errMessage)
		}
	}
	switch {
	case reached:
		permit.Done(breaker.Success)
	case failure == nil || errors.Is(failure, errStopped) || errors.Is(failure, context.Canceled):
		permit.Done(breaker.Ignored)
	default:
		permit.Done(breaker.Failure)
	}
	if failure != nil && !reached {
		r.broker.is(failure)
	} else if reached {
		r.broker.is(nil)
	}
	return pause
}

// results decides the result to write for each row. Rows whose outcome says nothing about them are left
// unchanged.
func (r *Relay) results(ctx context.Context, b *batch, outcomes []Outcome, pause time.Duration) []result {
	results := make([]result, 0, len(b.items))
	var failed []int // of results: to be given up
	for i, it := range b.items {
		o := &outcomes[i]
		s := r.m.of(it.Topic, it.EventType)
		switch {
		case o.Skipped:
			results = append(results, r.claims.refuse(b.items[i:i+1], 0)...)
			continue
		case o.Err == nil:
			s.sent.Inc()
			if it.CompletedAt == nil { // it is not published again
				r.m.latency.Update(it.age + time.Since(b.taken).Seconds())
			}
			results = append(results, result{item: it, status: outbox.Completed, attempts: it.Attempts})
			continue
		}
		class := retry.ClassOf(o.Err)
		metric.OutboxSendFailures.Counter(s.m.set, s.m.destination, s.pair.topic, s.pair.eventType, class.String()).Inc()
		if o.Away {
			results = append(results, r.claims.refuse(b.items[i:i+1], pause)...)
			continue
		}
		res := result{item: it, status: outbox.Pending, attempts: it.Attempts + 1, err: clip(o.Err.Error()), class: class}
		if class == retry.ClassPermanent || res.attempts >= r.o.MaxAttempts {
			failed = append(failed, len(results))
		}
		res.delay = r.delay(res.attempts, o.Err)
		r.logFailure(it, "row was not published", o.Err, "attempt", res.attempts, "again_in",
			res.delay.Round(time.Millisecond).String())
		results = append(results, res)
	}
	r.giveUp(ctx, b, results, failed)
	return results
}

// delay is the wait after a failed attempt, from 1.
func (r *Relay) delay(attempt int, err error) time.Duration {
	d := r.retry.Delay(attempt-1, 0)
	if after, asked := retry.AfterOf(err); asked {
		d = max(d, min(after, r.retry.MaxRetryAfter()))
	}
	return d
}

// writeAgain is the wait between attempts to write results.
const writeAgain = 200 * time.Millisecond

// write stores results, each under the condition that its row is still claimed, and retries while the database
// is not reachable: sent rows would be sent again otherwise.
func (r *Relay) write(ctx context.Context, results []result) {
	for {
		limited, cancel := context.WithTimeout(ctx, r.o.SendTimeout)
		written, err := r.store(limited, results)
		cancel()
		if err == nil {
			r.database.is(nil)
			r.account(results, written)
			return
		}
		err = postgres.Explain(err)
		r.databaseFailed(ctx, "write results", err)
		if retry.ClassOf(err) == retry.ClassPermanent || !retry.Sleep(ctx, writeAgain) {
			r.account(results, nil)
			return
		}
	}
}

// store writes results in one statement, and returns the rows that were written.
func (r *Relay) store(ctx context.Context, results []result) (map[int64]bool, error) {
	n := len(results)
	ids, created, buckets, generations := make([]int64, n), make([]pgtype.Timestamptz, n),
		make([]int16, n), make([]int64, n)
	plain := true
	for i := range results {
		it := results[i].item
		ids[i], created[i], buckets[i], generations[i] = it.ID, it.StoredAt, it.bucket, it.generation
		plain = plain && results[i].status == outbox.Completed
	}
	args := []any{r.o.Name, ids, created, buckets, generations}
	query := r.sql.complete
	if !plain {
		query = r.sql.result
		status, attempts, delays, errs := make([]string, n), make([]int, n), make([]float64, n), make([]*string, n)
		for i := range results {
			status[i], attempts[i], delays[i] = results[i].status, results[i].attempts, results[i].delay.Seconds()
			if results[i].err != "" {
				errs[i] = &results[i].err
			}
		}
		args = append(args, status, attempts, delays, errs)
	}
	rows, err := r.o.Database.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	written := make(map[int64]bool, n)
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { written[id] = true; return nil })
	return written, err
}

// account counts results once it is known which were written. written is nil if that is unknown.
func (r *Relay) account(results []result, written map[int64]bool) {
	for i := range results {
		res := &results[i]
		s := r.m.of(res.Topic, res.EventType)
		if !written[res.ID] {
			if res.status == outbox.Completed {
				r.m.duplicates.Inc()
			}
			if written != nil {
				r.claims.lost()
			}
			continue
		}
		if res.released {
			continue
		}
		if res.Attempts == 0 {
			s.published.Inc()
		} else {
			r.m.retries.Inc()
		}
		if res.status == outbox.Failed {
			s.failed.Inc()
		}
	}
}
