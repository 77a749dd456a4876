package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// replaySink gives dead letters of one sink back to it. It is a dlq.Target.
func (r *delivery) replaySink(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	var items []dispatch.Item
	var places []int
	for i := range entries {
		e := &entries[i]
		if e.SeqEnd != 0 {
			errs[i] = r.replayStretch(ctx, e)
			continue
		}
		item, err := engine.ItemOf(e)
		if err != nil {
			errs[i] = err
			continue
		}
		items = append(items, item)
		places = append(places, i)
	}
	for k, err := range deliver(ctx, r.sinks.Load(), entries[0].Sink, items) {
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

// stretchBatch is how many events of a stretch of the log go out at once.
const stretchBatch = 500

// replayStretch gives a sink the events of a stretch of the log that it was too far
// behind for, no faster than dead letters are replayed. Events that the sink refuses for
// good become dead letters of their own; after any other failure the stretch stays, and
// the next replay begins at its start again: sinks bear repeats.
func (r *delivery) replayStretch(ctx context.Context, e *dlq.Entry) (err error) {
	kept, err := wal.OpenArchive(r.deadLetters.fs, filepath.Join(r.deadLetters.dir, engine.KeptDir, e.ID), e.Seq, e.SeqEnd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	pace := rate.NewLimiter(rate.Limit(r.c.DeadLetters.Replay.Rate), stretchBatch)
	var items []dispatch.Item
	send := func() error {
		if len(items) == 0 {
			return nil
		}
		if err := pace.WaitN(ctx, len(items)); err != nil {
			return err
		}
		defer func() { items = items[:0] }()
		return r.sendStretch(ctx, e, items)
	}
	for {
		var rec wal.Record
		ok, err := kept.Next(&rec)
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
			if items = append(items, item); len(items) == stretchBatch {
				err = send()
			}
		})
		if err = errors.Join(err, splitErr); err != nil {
			return fmt.Errorf("record %d: %w", rec.Seq, err)
		}
	}
}

func (r *delivery) sendStretch(ctx context.Context, e *dlq.Entry, items []dispatch.Item) error {
	var refused []dispatch.DeadLetter
	now := time.Now()
	for i, err := range deliver(ctx, r.sinks.Load(), e.Sink, items) {
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
	return r.deadLetters.undelivered(ctx, refused)
}
