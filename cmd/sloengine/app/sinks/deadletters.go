package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/logrange"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// reasonLagging is the reason of a log range that a sink was too far behind for.
const reasonLagging = "lagging"

// deadLetters makes dead letters of what sinks did not get.
type deadLetters struct {
	store    *logrange.Store
	instance string // of this engine
	filter   *dlq.Filter
	metrics  *dlq.Metrics
	log      *slog.Logger
}

// undelivered saves items that a sink did not get, as far as the filter wants them.
func (l *deadLetters) undelivered(ctx context.Context, list []dispatch.DeadLetter) error {
	entries := make([]dlq.Entry, 0, len(list))
	for i := range list {
		entry := deadletter.Undelivered(&list[i])
		entry.ID = deadletter.ID(l.instance, &entry)
		if l.filter.ShouldSave(dlq.SubjectOf(&entry)) {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return l.saved(l.store.Save(ctx, entries))
}

// saved is the error of a Save that may be tried again.
func (l *deadLetters) saved(err error) error {
	if errors.Is(err, dlq.ErrInvalid) {
		l.log.Error("dead letters dropped, they cannot be stored", "err", err)
		return nil
	}
	return err
}

// lagging archives a log range that a sink was too far behind for.
func (l *deadLetters) lagging(ctx context.Context, sink string, from, to uint64) error {
	now := time.Now()
	entry := dlq.Entry{
		Origin: dlq.Sink, Sink: sink, Reason: reasonLagging, First: now, Last: now, Seq: from, SeqEnd: to, Index: -1,
		Error: fmt.Sprintf(
			"the sink lagged by more than max_lag_bytes and did not receive the events of log records %d to %d", from, to),
	}
	entry.ID = deadletter.ID(l.instance, &entry)
	err := l.saved(l.store.Archive(ctx, entry))
	if !errors.Is(err, logrange.ErrFull) {
		return err
	}
	// A sink that is gone for good must not fill the disk: better that it lacks events, and
	// everybody is told, than that none are accepted any more.
	l.metrics.Dropped(dlq.DropFull, 1)
	l.log.Error("sink fell behind and dead-letter storage is full, events dropped", "sink", sink, "from",
		from, "to", to, "err", err)
	return nil
}

// Replay gives dead letters of one sink back to it. It is a dlq.Target.
func (s *Sinks) Replay(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	var items []dispatch.Item
	var places []int
	for i := range entries {
		e := &entries[i]
		if e.SeqEnd != 0 {
			errs[i] = s.replayRange(ctx, e)
			continue
		}
		item, err := deadletter.Item(e)
		if err != nil {
			errs[i] = err
			continue
		}
		items = append(items, item)
		places = append(places, i)
	}
	for k, err := range deliver(ctx, s.Dispatcher, entries[0].Sink, items) {
		errs[places[k]] = err
	}
	return errs
}

// deliver sends items to a sink once and returns an error, or nil, for each.
func deliver(ctx context.Context, d *dispatch.Dispatcher, sink string, items []dispatch.Item) []error {
	errs := make([]error, len(items))
	if len(items) == 0 {
		return errs
	}
	result := d.Deliver(ctx, sink, items)
	for i := range errs {
		errs[i] = result.Err
	}
	for _, f := range result.Failed {
		errs[f.Index] = f.Err
	}
	return errs
}

// rangeBatch is how many events of a log range go out at once.
const rangeBatch = 500

// replayRange sends a sink the events of a log range that it was too far behind for, no
// faster than dead letters are replayed. Events that the sink refuses for good become
// dead letters of their own. After any other failure the range stays, and the next replay
// begins at its start again: sinks must be idempotent.
func (s *Sinks) replayRange(ctx context.Context, e *dlq.Entry) (err error) {
	archive, err := s.deadLetters.store.Open(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	pace := rate.NewLimiter(rate.Limit(s.replayRate), rangeBatch)
	var items []dispatch.Item
	send := func() error {
		if len(items) == 0 {
			return nil
		}
		if err := pace.WaitN(ctx, len(items)); err != nil {
			return err
		}
		defer func() { items = items[:0] }()
		return s.sendRange(ctx, e, items)
	}
	for {
		var rec wal.Record
		ok, err := archive.Next(&rec)
		if err != nil {
			return err
		}
		if !ok {
			return send()
		}
		rec.Payload = append([]byte{}, rec.Payload...) // items point into it
		index := 0
		splitErr := record.Items(&rec, func(item dispatch.Item) {
			item.Seq, item.Index = rec.Seq, index
			index++
			if err != nil {
				return
			}
			if items = append(items, item); len(items) == rangeBatch {
				err = send()
			}
		})
		if err = errors.Join(err, splitErr); err != nil {
			return fmt.Errorf("record %d: %w", rec.Seq, err)
		}
	}
}

func (s *Sinks) sendRange(ctx context.Context, e *dlq.Entry, items []dispatch.Item) error {
	var refused []dispatch.DeadLetter
	now := time.Now()
	for i, err := range deliver(ctx, s.Dispatcher, e.Sink, items) {
		if err == nil {
			continue
		}
		class := retry.ClassOf(err)
		if class != retry.ClassPermanent {
			return err
		}
		refused = append(refused, dispatch.DeadLetter{
			Item: items[i], Sink: e.Sink, Reason: dispatch.ReasonPermanent, Class: class, Err: err.Error(),
			Attempts: 1, First: now, Last: now,
		})
	}
	if len(refused) == 0 {
		return nil
	}
	return s.deadLetters.undelivered(ctx, refused)
}
