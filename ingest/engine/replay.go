package engine

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// Replay is one dead letter that comes back to be counted.
type Replay struct {
	// Key is that by which it counts once: see ReplayKey.
	Key    xxh3.Uint128
	Letter string // ID of the dead letter
	Event  []byte // in its binary form
}

// RefusedError is the fold's reason for refusing a replayed event.
type RefusedError struct{ Reason string }

// Error returns the reason.
func (e *RefusedError) Error() string { return "refused again: " + e.Reason }

// maxReplay is how many events one record of a replay holds.
const maxReplay = 1000

// Replay counts events that come back from the dead letters, each once, and returns
// an error for each that was not: nil where it counts now or did before. With sunk, the
// sinks have had the events and do not get them again. At most 1000 at a time.
func (e *Engine) Replay(ctx context.Context, events []Replay, sunk bool) []error {
	errs := make([]error, len(events))
	all := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if len(events) == 0 {
		return nil
	}
	if len(events) > maxReplay {
		return all(fmt.Errorf("replay of %d events: at most %d at a time", len(events), maxReplay))
	}
	r := e.queue.request(record.TypeReplay)
	r.replay, r.sunk, r.bytes = events, sunk, requestOverhead
	for i := range events {
		r.bytes += int64(len(events[i].Event))
	}
	result, err := e.wait(ctx, r)
	if err != nil {
		return all(err)
	}
	if result.Seq == 0 {
		return errs // all of them count already
	}
	refused, err := e.read.takeReplayed(ctx, result.Seq)
	if err != nil {
		return all(err)
	}
	// Before anybody is told: the next replay needs another key.
	if len(refused) > 0 {
		if err := e.dead.flush(); err != nil {
			return all(err)
		}
	}
	// The record holds what was new, in order.
	known := map[int]bool{}
	for _, i := range result.DupIndexes {
		known[i] = true
	}
	var places []int
	for i := range events {
		if !known[i] {
			places = append(places, i)
		}
	}
	for _, f := range refused {
		errs[places[f.index]] = &RefusedError{f.reason}
	}
	return errs
}

// takeReplayed waits until the record is folded and returns what was refused of it.
func (r *reader) takeReplayed(ctx context.Context, seq uint64) (refused []replayRefusal, err error) {
	// A record that is refused as a whole has its own letter: its events count nowhere,
	// but their letters are still there.
	if err := r.wait(ctx, seq); err != nil {
		return nil, err
	}
	err = r.do(ctx, func() {
		refused = r.replayed[seq]
		delete(r.replayed, seq)
	})
	return refused, err
}

// admitReplay turns what is new of a replay into a record.
func (c *committer) admitReplay(r *request, at int64) {
	var keys []xxh3.Uint128
	var body, letters []byte
	count := 0
	for i := range r.replay {
		e := &r.replay[i]
		if c.ids.Has(e.Key) || c.deferred.has(e.Key) {
			r.duplicate(i)
			continue
		}
		if count == 0 {
			c.begin(at)
		}
		if !c.ids.Add(e.Key) {
			r.duplicate(i)
			continue
		}
		keys = append(keys, e.Key)
		letters = binary.AppendUvarint(letters, uint64(len(e.Letter)))
		letters = append(letters, e.Letter...)
		body = append(body, e.Event...)
		count++
	}
	if count == 0 {
		return
	}
	flags := byte(record.FlagReplayed)
	if r.sunk {
		flags |= record.FlagDelivered
	}
	payload := record.AppendKeyedHead(nil, count, flags, keys)
	payload = append(append(payload, letters...), body...)
	r.result.Accepted = count
	c.add(r, at, record.TypeReplay, payload)
}

// ReplayTarget gives dead letters of the fold, or of admission, back to the engine.
// It is a dlq.Target.
func (e *Engine) ReplayTarget(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	for from := 0; from < len(entries); from += maxReplay {
		part := entries[from:min(from+maxReplay, len(entries))]
		e.replayPart(ctx, part, errs[from:from+len(part)])
	}
	return errs
}

func (e *Engine) replayPart(ctx context.Context, entries []dlq.Entry, errs []error) {
	for _, sunk := range []bool{false, true} {
		var replays []Replay
		var places []int
		for i := range entries {
			if entry := &entries[i]; (entry.Origin == dlq.Fold) == sunk {
				if bin, view, err := deadletter.Event(entry); err != nil {
					errs[i] = err
				} else {
					replays = append(replays, Replay{deadletter.ReplayKey(entry, &view), entry.ID, bin})
					places = append(places, i)
				}
			}
		}
		for i, err := range e.Replay(ctx, replays, sunk) {
			errs[places[i]] = err
		}
	}
}
