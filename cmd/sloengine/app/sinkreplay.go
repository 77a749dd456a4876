package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// replay gives dead letters of one sink back to it. It is a dlq.Target.
func (s *sinks) replay(ctx context.Context, entries []dlq.Entry) []error {
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
	for k, err := range deliver(ctx, s.dispatcher, entries[0].Sink, items) {
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
func (s *sinks) replayRange(ctx context.Context, e *dlq.Entry) (err error) {
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

func (s *sinks) sendRange(ctx context.Context, e *dlq.Entry, items []dispatch.Item) error {
	var refused []dispatch.DeadLetter
	now := time.Now()
	for i, err := range deliver(ctx, s.dispatcher, e.Sink, items) {
		if err == nil {
			continue
		}
		class := retry.ClassOf(err)
		if class != retry.ClassPermanent {
			return err
		}
		refused = append(refused, dispatch.DeadLetter{
			Item: items[i], Sink: e.Sink, Reason: dispatch.ReasonPermanent, Class: class, Err: err.Error(), Attempts: 1, First: now, Last: now,
		})
	}
	if len(refused) == 0 {
		return nil
	}
	return s.deadLetters.undelivered(ctx, refused)
}
