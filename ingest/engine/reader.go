package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file is the reader: it applies durable records to the State in the order of the log, answers callers that
// wait for a record, and captures the State for the saver. It never writes to the disk itself.

// reader applies durable records to the State, in order, and captures the State for checkpoints. Only its goroutine
// uses the State, and only it touches the fields below that are not channels. During recovery that is the goroutine of
// replayState.
//
// Between two records the State holds the log up to folded, and that is when functions of do run and captures are
// made. During recovery no other goroutine of the engine exists but the one that reads the ids, which does not
// touch these fields.
type reader struct {
	e     *Engine
	state State
	log   *wal.Reader
	more  chan struct{} // one signal that the log grew
	inbox chan func()   // calls of do, made between two records

	at     int64      // receive time of the last applied record, Unix ns
	refuse Refuse     // refuseEvent, bound once
	rec    wal.Record // the current one; its payload is valid until the next

	// Answers for goroutines that wait for a record. Refusals are remembered until they are asked for, at most
	// maxRefusals, since the record of a caller that left is never asked for.
	waits    []foldWait
	refused  map[uint64]string          // records that were refused as a whole, by number
	replayed map[uint64][]replayRefusal // refused events of replay records, by number

	// At most one checkpoint is under way. From the send on saves to the receipt from saved the saver reads buf, and the
	// reader must not encode into it.
	saves      chan *checkpoint.State // to the saver
	saved      chan saveResult
	saverEnded chan struct{} // closed when the saver failed for good
	saving     bool
	versions   map[string]uint64 // of the parts that are saved
	captured   map[string]uint64 // of those being saved
	since      int64             // bytes of log applied since the last capture
	lastSeq    uint64            // of the last capture
	buf        []byte            // encoded parts of the last capture
}

// foldWait is a goroutine that waits until the record seq is applied.
type foldWait struct {
	seq  uint64
	done chan error
}

// maxRefusals bounds the refusals that are remembered.
//
// A caller that waits asks within a few records. Beyond the bound all are forgotten: such a caller learns only
// that its record was applied.
const maxRefusals = 64

// newReader makes the reader of an engine. open gives it a place in the log. The channels saves and saved have room
// for the one capture that may be under way, so that neither side waits for the other. drain also needs the room of
// saved: it looks at its length, which is always 0 without.
func newReader(e *Engine) *reader {
	r := &reader{
		e: e, state: e.opt.State, more: make(chan struct{}, 1), inbox: make(chan func(), 16),
		refused: map[uint64]string{}, replayed: map[uint64][]replayRefusal{}, saves: make(chan *checkpoint.State, 1),
		saved:      make(chan saveResult, 1),
		saverEnded: make(chan struct{}), versions: map[string]uint64{},
	}
	r.refuse = r.refuseEvent
	return r
}

// refuseEvent makes a dead letter of an event that the fold refused, or of a record (index -1). The dead letter of a
// replayed event exists already: it only gets another attempt.
//
// Apply calls it, so it runs in the goroutine that owns the State. It only appends to memory: the dead letter is
// durable with the next flush, and before the next checkpoint.
func (r *reader) refuseEvent(index int, event []byte, reason string) {
	r.e.opt.Metrics.deadLetters.Inc()
	if r.rec.Type == record.TypeReplay && index >= 0 {
		if events, err := record.ParseEvents(r.rec.Payload); err == nil && index < len(events.DeadLetters) {
			r.e.dead.refuseReplay(events.DeadLetters[index], r.rec.Time)
			r.replayed[r.rec.Seq] = append(r.replayed[r.rec.Seq], replayRefusal{index, reason})
			return
		}
	}
	r.e.dead.refuse(deadletter.Refused(r.rec.Seq, index, r.rec.Time, event, reason))
}

// replayRefusal is an event of a replay that the fold refused again.
type replayRefusal struct {
	index  int
	reason string
}

// open begins after the record seq.
//
// lastSeq is set as if a checkpoint had just been made there, so that an idle engine makes none.
func (r *reader) open(log *wal.Log, seq uint64, at int64) (err error) {
	r.log, err = log.NewReader(seq + 1)
	r.e.folded.Store(seq)
	r.lastSeq, r.at = seq, at
	return err
}

// Close closes the reader of the log.
func (r *reader) Close() error {
	if r.log == nil {
		return nil
	}
	return r.log.Close()
}

// do has the reader's goroutine call f between two records. Once do has returned, f has run or never will, so
// variables that f writes may be read, even after an error.
//
// taken makes the promise exact: the goroutine that swaps it first decides whether f runs. A caller that
// loses the swap waits for f, which is running, so f may write to variables of its caller without a lock.
func (r *reader) do(ctx context.Context, f func()) error {
	done := make(chan error, 1)
	var taken atomic.Bool // by the reader, which calls f, or by the caller, which gives up
	call := func() {
		if taken.CompareAndSwap(false, true) {
			done <- guarded(f)
		}
	}
	var why error
	select {
	case r.inbox <- call:
	case <-r.e.ended:
		return ErrStopping
	case <-ctx.Done():
		return fmt.Errorf("wait for the fold: %w", context.Cause(ctx))
	}
	select {
	case err := <-done:
		return err
	case <-r.e.ended:
		why = ErrStopping
	case <-ctx.Done():
		why = fmt.Errorf("wait for the fold: %w", context.Cause(ctx))
	}
	if taken.CompareAndSwap(false, true) {
		return why
	}
	return <-done // it runs right now
}

// wait returns when the record seq is applied, with the reason if it was refused.
//
// Registering goes through do, since waits belongs to the reader's goroutine. A record that is applied already is
// answered at once.
func (r *reader) wait(ctx context.Context, seq uint64) error {
	done := make(chan error, 1)
	err := r.do(ctx, func() {
		r.waits = append(r.waits, foldWait{seq, done})
		r.answerWaits()
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-r.e.ended:
		return ErrStopping
	case <-ctx.Done():
		return fmt.Errorf("wait for the fold: %w", context.Cause(ctx))
	}
}

// answerWaits answers the goroutines whose record is applied.
//
// done has room for the answer, so a caller that has left does not block the reader.
func (r *reader) answerWaits() {
	rest := r.waits[:0]
	for _, w := range r.waits {
		if w.seq > r.e.folded.Load() {
			rest = append(rest, w)
			continue
		}
		if reason, ok := r.refused[w.seq]; ok {
			w.done <- errors.New(reason)
		} else {
			w.done <- nil
		}
	}
	clear(r.waits[len(rest):])
	r.waits = rest
}

// run applies records until stop is closed and the log's end is reached. Then it makes the last checkpoint.
//
// drain comes before each wait: the signal in more may stand for any number of records, and one that arrives
// while drain runs is kept in the channel.
func (r *reader) run(stop <-chan struct{}) error {
	tick := time.NewTicker(r.e.opt.Checkpoint.Interval)
	defer tick.Stop()
	for {
		if err := r.drain(tick.C); err != nil {
			return err
		}
		select {
		case <-r.more:
		case f := <-r.inbox:
			f()
		case <-tick.C:
			r.checkpoint()
		case result := <-r.saved:
			r.finishSave(result)
		case <-stop:
			return r.finish()
		}
	}
}

// tryAgain is the wait for a file descriptor, which others may release.
//
// A shorter wait would only fail more often: descriptors are freed by connections that end.
const tryAgain = time.Second

// wakeUp makes run check for more records.
func (r *reader) wakeUp() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// drain applies records until the durable end. Between records it makes the calls of do and starts checkpoints, so that
// a long backlog delays neither.
//
// tick is nil where no checkpoint must be started by time: before the saver runs, and at the end. An error is
// fatal.
func (r *reader) drain(tick <-chan time.Time) error {
	for {
		ok, err := r.next()
		if errors.Is(err, wal.ErrNoFiles) {
			r.e.troubles[troubleFold].Note(err)
			time.AfterFunc(tryAgain, r.wakeUp)
			return nil
		}
		if err != nil || !ok {
			return err
		}
		for len(r.inbox) > 0 {
			(<-r.inbox)()
		}
		if len(r.saved) > 0 {
			r.finishSave(<-r.saved)
		}
		if r.since >= r.e.opt.Checkpoint.LogBytes {
			r.checkpoint()
		} else if len(tick) > 0 {
			<-tick
			r.checkpoint()
		}
	}
}

// guarded calls f. A panic of a caller's function must not stop the fold.
func guarded(f func()) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = errors.New(panicReason(reason))
		}
	}()
	f()
	return nil
}

// next applies one record, if there is one.
//
// The order of the steps after Apply: at and since belong to the record before folded is stored, since a capture
// takes all three. folded is stored before waits are answered. A crash anywhere in between applies the record
// again, to a State that was restored from a checkpoint before it.
func (r *reader) next() (bool, error) {
	ok, err := r.log.Next(&r.rec)
	if err != nil {
		if errors.Is(err, wal.ErrPoisoned) {
			return false, nil // the committer reports it
		}
		return false, fmt.Errorf("read the log: %w", err)
	}
	if !ok {
		return false, nil
	}
	r.e.troubles[troubleFold].Note(nil)
	r.e.opt.CrashPoint(CrashBeforeApply)
	if len(r.replayed) > maxRefusals {
		clear(r.replayed)
	}
	if err := r.apply(); err != nil {
		r.refuse(-1, r.rec.Payload, err.Error())
		if len(r.refused) >= maxRefusals {
			clear(r.refused)
		}
		r.refused[r.rec.Seq] = err.Error()
	}
	r.at = r.rec.Time
	r.since += int64(len(r.rec.Payload))
	r.e.opt.Metrics.folded.Inc()
	r.e.folded.Store(r.rec.Seq)
	if len(r.waits) > 0 {
		r.answerWaits()
	}
	return true, nil
}

// apply confines a panic of the State to the record. EachEvent has confined those of single events before.
func (r *reader) apply() (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = errors.New(panicReason(reason))
		}
	}()
	return r.state.Apply(r.rec, r.refuse)
}

// checkpoint captures the State and passes it to the saver, unless the saver is busy or nothing is new.
//
// Skipping costs nothing: the next tick, or the next LogBytes, tries again. lastSeq and since are set here and
// not when the save succeeds, so that records that arrive meanwhile count for the next one.
func (r *reader) checkpoint() {
	seq := r.e.folded.Load()
	if r.saving || seq == r.lastSeq {
		return
	}
	r.e.opt.CrashPoint(CrashBeforeCheckpoint)
	c, err := r.capture(seq)
	if err != nil {
		r.e.checkpointFailed(err)
		return
	}
	r.saving, r.since, r.lastSeq = true, 0, seq
	r.saves <- c
}

// capture encodes the parts that changed since they were last saved. The State cannot be encoded in the saver's
// goroutine: it changes with the next record.
//
// All changed parts share one buffer, which is used again for the next capture: that begins only after the saver
// has answered. A part counts as changed unless it was saved with the version that it has now. Vital parts always
// do.
func (r *reader) capture(seq uint64) (c *checkpoint.State, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("encode the state: %s", panicReason(reason))
		}
	}()
	parts := r.state.Parts()
	c = &checkpoint.State{Seq: seq, At: r.at, Dead: r.e.dead.count(), Parts: make([]checkpoint.Part, len(parts))}
	captured := make(map[string]uint64, len(parts))
	ends := make([]int, len(parts))
	buf := r.buf[:0]
	for i := range parts {
		p := &parts[i]
		if _, twice := captured[p.Name]; twice {
			return nil, fmt.Errorf("encode the state: two parts are named %q", p.Name)
		}
		captured[p.Name] = p.Version
		version, saved := r.versions[p.Name]
		c.Parts[i] = checkpoint.Part{Name: p.Name, Changed: !saved || version != p.Version || p.Vital}
		if c.Parts[i].Changed {
			buf = p.Encode(buf)
			ends[i] = len(buf)
		}
	}
	r.buf, r.captured = buf, captured
	from := 0
	for i, end := range ends { // slices are taken last, since buf moves while it grows
		if c.Parts[i].Changed {
			c.Parts[i].Data = buf[from:end:end]
			from = end
		}
	}
	return c, nil
}

// finishSave applies the outcome of a save. Versions count as saved only now: after a failure the next capture must
// contain the same changes.
//
// ErrStale means that bytes of an earlier checkpoint are gone, so everything must be encoded again.
func (r *reader) finishSave(result saveResult) {
	r.saving = false
	switch {
	case result.err == nil:
		r.versions = r.captured
	case errors.Is(result.err, checkpoint.ErrStale):
		clear(r.versions)
		fallthrough
	default:
		r.lastSeq = 0 // try again, even without a new record
	}
}

// finish applies the rest of the log and makes the last checkpoint.
//
// The committer has ended, so the end of the log is final. A poisoned engine makes no checkpoint: the restart
// reads the log.
func (r *reader) finish() error {
	if err := r.drain(nil); err != nil || r.e.poisoned() {
		return err
	}
	for len(r.inbox) > 0 {
		(<-r.inbox)()
	}
	r.awaitSave()
	r.checkpoint()
	r.awaitSave()
	return nil
}

// awaitSave waits for the save that is under way, if one is. A saver that has ended answers no more.
func (r *reader) awaitSave() {
	if !r.saving {
		return
	}
	select {
	case result := <-r.saved:
		r.finishSave(result)
	case <-r.saverEnded: // it failed permanently
	}
}
