package relay

import (
	"context"
	"log/slog"
	"time"

	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Intervals of the tasks beside the publishing.
const (
	checkAgain  = 2 * time.Second  // until the broker can be used
	checkEvery  = 30 * time.Second // from then on, so that readiness is true of a relay without traffic
	checkWithin = 15 * time.Second
	countEvery  = 15 * time.Second
	// countShare bounds the share of the time in which rows are counted.
	countShare = 20
)

// checkBroker asks the broker whether it can be used, and keeps the readiness true.
func (r *Relay) checkBroker(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	err := r.o.Publisher.Check(limited)
	if ctx.Err() == nil {
		r.broker.is(err)
	}
	return err
}

// watchBroker keeps the readiness true while nothing is published, until ctx ends.
func (r *Relay) watchBroker(ctx context.Context) {
	for wait := time.Duration(0); retry.Sleep(ctx, wait); {
		if wait = checkEvery; r.checkBroker(ctx) != nil {
			wait = checkAgain
		}
	}
}

// watchRows counts the rows that wait, until ctx ends.
func (r *Relay) watchRows(ctx context.Context) {
	for wait := time.Duration(0); retry.Sleep(ctx, wait); {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		err := r.countRows(limited)
		cancel()
		if err != nil {
			r.databaseFailed(ctx, "count rows", err)
		}
		wait = max(countEvery, countShare*time.Since(began))
	}
}

func (r *Relay) countRows(ctx context.Context) error {
	var pending, failed int64
	var oldest float64
	if err := r.o.Database.QueryRow(ctx, r.sql.pending).Scan(&pending, &oldest); err != nil {
		return err
	}
	if err := r.o.Database.QueryRow(ctx, r.sql.failed).Scan(&failed); err != nil {
		return err
	}
	r.m.pending.Set(float64(pending))
	r.m.oldest.Set(max(oldest, 0))
	r.m.failedRows.Set(float64(failed))
	return nil
}

// maintain deletes rows after their retention and keeps partitions ahead, until ctx ends. All relays of a table do it:
// each skips the work that another is doing.
func (r *Relay) maintain(ctx context.Context) {
	if r.o.Retention == nil {
		return
	}
	late, retained := false, 0
	deleting := health.Log{Logger: r.o.Log, Broken: "old rows cannot be deleted", Works: "old rows are deleted again"}
	for wait := time.Duration(0); retry.Sleep(ctx, wait); wait = r.o.MaintainEvery {
		did, err := outbox.Maintain(ctx, r.o.Database, r.o.Table, *r.o.Retention)
		r.m.deleted.Add(int(did.Rows))
		if len(did.Created)+len(did.Dropped) > 0 {
			r.o.Log.Info("partitions changed", "created", did.Created, "dropped", did.Dropped)
		}
		if len(did.Retained) > retained {
			r.o.Log.Warn("partitions past their retention have rows that have to stay: pending, failed or uncounted ones",
				"partitions", did.Retained)
		}
		if did.Default && !late {
			r.o.Log.Warn("the default partition has rows, since there was no partition for their day")
		}
		if err == nil {
			late, retained = did.Default, len(did.Retained)
		}
		if ctx.Err() == nil {
			deleting.Note(postgres.Explain(err))
		}
	}
}

// listen keeps a session that is notified of new rows, until ctx ends. Without it, rows are found by
// polling.
func (r *Relay) listen(ctx context.Context) {
	if r.o.Listen == nil {
		return
	}
	listening := health.Log{
		Logger: r.o.Log, Level: slog.LevelWarn,
		Broken: "cannot listen for new rows, polling for them meanwhile", Works: "listening for new rows again",
	}
	for wait := time.Duration(0); retry.Sleep(ctx, wait); wait = time.Second {
		err := r.o.Listen(ctx, func() {
			listening.Note(nil)
			r.wakeUp()
		})
		if ctx.Err() == nil {
			listening.Note(postgres.Explain(err), "poll", r.o.Poll.String())
		}
	}
}

// failureLines bounds the log lines about rows, a second.
const failureLines = 10

// logFailure writes a line about a row.
func (r *Relay) logFailure(it *item, msg string, err error, more ...any) {
	if !r.lines.Allow() {
		r.dropped.Add(1)
		return
	}
	if n := r.dropped.Swap(0); n > 0 {
		more = append(more, "lines_left_out", n)
	}
	args := append([]any{"row", it.ID, "key", clip(it.Key), "topic", clip(it.Topic), "traceparent", traceParent(it), "err",
		clip(err.Error())}, more...)
	r.o.Log.Warn(msg, args...)
}
