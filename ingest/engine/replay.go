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

// This file counts dead letters again. A replay is a record of its own type: its events carry their own keys and
// the IDs of their dead letters, so that a second attempt, or a crash in between, counts each of them once.

// Replay is the event of a dead letter that is to be counted.
//
// The engine may replace Key while Engine.Replay runs, see rekey.
type Replay struct {
	// Key is the key by which it counts once: see deadletter.ReplayKey.
	Key   xxh3.Uint128
	ID    string // of the dead letter
	Event []byte // in its binary form
}

// RefusedError is the fold's reason for refusing a replayed event.
type RefusedError struct{ Reason string }

// Error returns the reason.
func (e *RefusedError) Error() string { return "refused again: " + e.Reason }

// maxReplay is the maximum number of events in a replay record.
//
// It bounds the record, together with the size of its events.
const maxReplay = 1000

// Replay counts the events of dead letters, each once, and returns an error for each. nil means that the event counts
// now or did before. With delivered, the sinks have the events and do not get them again. It takes at most 1000 at a
// time.
//
// It returns when the record is folded, not only durable, since only the fold knows whether an event counts.
// After an error of ctx the events may count all the same: the caller keeps the dead letters, and its next
// attempt finds that they are duplicates.
func (e *Engine) Replay(ctx context.Context, events []Replay, delivered bool) []error {
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
	r.replay, r.delivered, r.bytes = events, delivered, requestOverhead
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
	// Durable before the answer: the key of the next replay depends on it.
	if len(refused) > 0 {
		if err := e.dead.flush(); err != nil {
			return all(err)
		}
	}
	// The record holds the new events, in order. Refusals name places in the record.
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

// takeReplayed waits until the record is folded and returns its refused events.
//
// The refusals are deleted, so they can be taken once.
func (r *reader) takeReplayed(ctx context.Context, seq uint64) (refused []replayRefusal, err error) {
	// A record that is refused as a whole becomes a dead letter of its own. Its events count nowhere, but their dead
	// letters are still stored.
	if err := r.wait(ctx, seq); err != nil {
		return nil, err
	}
	err = r.do(ctx, func() {
		refused = r.replayed[seq]
		delete(r.replayed, seq)
	})
	return refused, err
}

// admitReplay turns the events of a replay that do not count yet into a record.
//
// Rate limits do not apply: an operator requested these events.
func (c *committer) admitReplay(r *request, at int64) {
	var keys []xxh3.Uint128
	var body, entryIDs []byte
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
		entryIDs = binary.AppendUvarint(entryIDs, uint64(len(e.ID)))
		entryIDs = append(entryIDs, e.ID...)
		body = append(body, e.Event...)
		count++
	}
	if count == 0 {
		return
	}
	flags := byte(record.FlagReplayed)
	if r.delivered {
		flags |= record.FlagDelivered
	}
	payload := record.AppendKeyedHead(nil, count, flags, keys)
	payload = append(append(payload, entryIDs...), body...)
	r.result.Accepted = count
	c.add(r, at, record.TypeReplay, payload)
}

// ReplayTarget replays dead letters of the fold or of admission into the engine. It is a dlq.Target.
//
// A nil error lets the queue remove the dead letter. The event is durable and counted by then.
func (e *Engine) ReplayTarget(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	for from := 0; from < len(entries); from += maxReplay {
		part := entries[from:min(from+maxReplay, len(entries))]
		e.replayPart(ctx, part, errs[from:from+len(part)])
	}
	return errs
}

// replayPart replays at most maxReplay entries. A record says once whether the sinks have its events, and holds no more
// than maxRecordBytes of them: the log refuses a larger one, and with it the requests that are written together.
func (e *Engine) replayPart(ctx context.Context, entries []dlq.Entry, errs []error) {
	// Only those of the fold went to the sinks before.
	for _, delivered := range []bool{false, true} {
		var replays []Replay
		var places []int
		size := 0
		flush := func() {
			for i, err := range e.Replay(ctx, replays, delivered) {
				errs[places[i]] = err
			}
			replays, places, size = nil, nil, 0
		}
		for i := range entries {
			entry := &entries[i]
			if (entry.Origin == dlq.Fold) != delivered {
				continue
			}
			bin, view, err := deadletter.Event(entry)
			if err != nil {
				errs[i] = err
				continue
			}
			if len(replays) > 0 && size+len(bin) > maxRecordBytes {
				flush()
			}
			size += len(bin)
			replays = append(replays, Replay{deadletter.ReplayKey(entry, &view), entry.ID, bin})
			places = append(places, i)
		}
		flush()
	}
}
