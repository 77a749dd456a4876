package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file turns the log into batches: it reads records, splits them into items, and cuts batches by number,
// size and age. It also says for each batch where the cursor may go when the batch is done.

// feed reads records and forms batches. It belongs to the session's goroutine and never blocks: at the durable end it
// says so, and a waiter waits.
//
// pos is behind everything that is in a batch, the one that is filling included, and items holds the part behind
// pos of the record read last. So a batch that take hands over always ends at pos.
type feed struct {
	l *lane
	r *wal.Reader

	// Where it reads.
	pos   Cursor     // next item to put into a batch
	rec   wal.Record // read last; its payload is a copy, which its items share
	last  uint64     // number of rec, also when it had no items
	items []Item     // of rec, those that are not in a batch yet
	atEnd bool       // the durable end was reached; reset by the session when the log grew

	// The batch that is filling. take hands it to a worker, and from then on the feed must not touch it.
	batch      []Item
	bytes      int          // payload of batch
	first      time.Time    // when it got its first item
	full       bool         // it must not get more, although it has not been taken yet
	unreadable []DeadLetter // of records that Split refused; such a record is the last of its batch
}

// fill adds items until the batch is full or the durable end is reached.
//
// The limits are checked before an item is added, so only an item that is larger than BatchBytes by itself
// exceeds them, in a batch of its own. An error is one of the log. The items of the batch are sent again by the
// next session.
func (f *feed) fill() error {
	for !f.full {
		if len(f.items) == 0 {
			ok, err := f.read()
			if err != nil || !ok {
				return err
			}
			continue
		}
		it := f.items[0]
		if len(f.batch) > 0 && f.bytes+len(it.Payload) > f.l.o.BatchBytes {
			f.full = true
			return nil
		}
		if len(f.batch) == 0 {
			f.first = time.Now()
			f.batch = make([]Item, 0, min(len(f.items), f.l.o.BatchItems))
		}
		f.batch = append(f.batch, it)
		f.bytes += len(it.Payload)
		f.items = f.items[1:]
		// Inside a record the cursor counts items, so that a large record that fills several batches is not sent again as
		// a whole. Behind the last item it moves to the next record, or the log would be retained for a finished one.
		f.pos = Cursor{it.Seq, it.Index + 1}
		if len(f.items) == 0 {
			f.pos = Cursor{Seq: it.Seq + 1}
		}
		f.full = len(f.batch) >= f.l.o.BatchItems
	}
	return nil
}

// read splits the next record into items. One that cannot be split becomes a dead letter and ends the batch, so that
// the cursor moves over it only with the dead letter.
func (f *feed) read() (ok bool, err error) {
	if f.atEnd || len(f.unreadable) > 0 {
		return false, nil
	}
	ok, err = f.r.Next(&f.rec)
	if err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	if !ok {
		f.atEnd = true
		return false, nil
	}
	f.rec.Payload = slices.Clone(f.rec.Payload) // batches outlive the reader's buffer
	f.last = f.rec.Seq
	f.items = nil
	err = f.split()
	if err != nil {
		f.items = nil
		now := time.Now()
		f.unreadable = append(f.unreadable, DeadLetter{
			Item: Item{Seq: f.rec.Seq, Time: time.Unix(0, f.rec.Time), Payload: f.rec.Payload},
			Sink: f.l.o.Name, Reason: ReasonUnreadable, Class: retry.ClassPermanent, Err: err.Error(), First: now, Last: now,
		})
	}
	if f.rec.Seq == f.pos.Seq { // partly delivered before the restart
		f.items = f.items[min(f.pos.Index, len(f.items)):]
	}
	if len(f.items) == 0 {
		f.pos = Cursor{Seq: f.rec.Seq + 1}
	}
	return true, nil
}

// split calls Options.Split, which is foreign code: a panic is an error about this record.
//
// Items that it yielded before an error or a panic are not sent: the record becomes one dead letter as a whole.
func (f *feed) split() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("split panicked: %v", r)
		}
	}()
	n := 0
	return f.l.d.o.Split(&f.rec, func(it Item) {
		it.Seq, it.Index = f.rec.Seq, n
		n++
		f.items = append(f.items, it)
	})
}

// due reports whether the batch should go now. If not, wait is how long it may wait for more items, 0 if there is none.
//
// A record that could not be split does not wait, since nothing may be added behind it in the same batch.
func (f *feed) due(now time.Time) (ok bool, wait time.Duration) {
	if len(f.batch) == 0 {
		return len(f.unreadable) > 0, 0
	}
	if f.full || len(f.unreadable) > 0 {
		return true, 0
	}
	wait = f.l.o.BatchWait - now.Sub(f.first)
	return wait <= 0, wait
}

// take hands the batch over; the feed starts the next one.
func (f *feed) take() *batch {
	b := &batch{items: f.batch, unreadable: f.unreadable, end: f.pos}
	f.batch, f.unreadable, f.bytes, f.full = nil, nil, 0, false
	return b
}

// batch is a log range in delivery, up to end.
//
// Its end is where the cursor goes when it is done and all batches in front of it are.
type batch struct {
	// Written by the feed, read by the worker.
	items      []Item
	unreadable []DeadLetter // records in it that Split refused
	end        Cursor       // next item after it
	done       bool         // set by the worker, before it hands the batch back
	returned   bool         // it is back and done; for the session only
}

// waiter waits for the log to grow in a goroutine of its own, because Source.Wait blocks and the session must not. busy
// belongs to the session: it asks again only after an answer.
type waiter struct {
	ask  chan uint64
	grew chan error
	busy bool
}

// run answers each question once, and ends with ctx. The channels have room for one, so neither side blocks on
// the other.
func (w *waiter) run(ctx context.Context, s Source) {
	for {
		select {
		case seq := <-w.ask:
			err := s.Wait(ctx, seq)
			select {
			case w.grew <- err:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
