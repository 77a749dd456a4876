// Package engine makes events durable, counts each id once and passes events on in log order. README.md beside this
// file states its promises and the effect of each kind of crash.
//
// The Engine owns one data folder. Commit queues decoded batches. One committer goroutine looks up their ids, writes
// the new events as one record per request, syncs once for the whole group, and only then answers. One reader goroutine
// applies durable records to a State in log order. From time to time both are captured in a checkpoint (package
// checkpoint), after which old log segments are deleted. After a crash the newest valid checkpoint is loaded and the
// rest of the log applied, which gives the same counts: they are a function of the log alone.
//
// The package does not know HTTP or how events are counted: the State it fills, the configuration records it carries
// and the catalog of services belong to its caller.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file holds the Engine, its life (Open, Run, Close), and how its goroutines are started and stopped. Each
// goroutine has a file of its own: committer.go, reader.go, saver.go and disk.go. README.md draws how they are
// connected.

// Engine makes events durable, counts each id once and folds the log into a State. Any goroutine may call its methods,
// also before and after Run.
//
// While it runs it has six goroutines: the committer (owns the deduplication table and is the only one to append to
// the log), the reader (owns the State), the saver (owns the checkpoint files), the disk guard, the one that syncs the
// log's marker, and the one that moves closed segments to the history. They share the fields below and communicate
// through channels.
//
// Once the engine is ready, positions in the log are ordered: checkpoint <= folded <= durable. The committer may
// run ahead of the reader by as much of the log as the disk holds, and the ids of the deduplication table belong
// to durable, not to folded.
type Engine struct {
	opt Options // never changed after Open

	// The parts have locks or atomics of their own, except clock, which only the committer uses, and read, whose owner
	// is the reader's goroutine.
	queue *queue
	clock *record.Clock
	disk  *diskGuard
	dead  *foldDeadLetters
	read  *reader

	// Set by Open. The lock outlasts every write: Close releases it last.
	lock io.Closer // of the data folder; held from Open to Close
	log  *wal.Log  // open from Open to Close

	history *retained.Store // of log; owned by its own goroutine
	// redaction of an event of it
	redaction atomic.Pointer[func(dst, raw []byte) ([]byte, error)]

	retain func() (seq uint64, ok bool) // set by Run before any goroutine starts, read by the saver
	traces *trace.Table                 // likewise; the committer and the reader of the log use it

	// The life of the engine. The health derives from phase, together with the disk and the clock. phase moves
	// forward only: starting, recovering, ready, stopping, stopped. Poisoned replaces any of them and stays.
	running atomic.Bool   // Run was called
	ready   chan struct{} // closed when the first events are accepted
	ended   chan struct{} // closed when Run returns
	phase   atomic.Pointer[Status]
	failMu  sync.Mutex
	failed  error // why the phase is StatusPoisoned; guarded by failMu, the first error stays

	troubles [troubleParts]health.Log

	// Figures for Health. Each is written by one goroutine: durable, watermark and idStats by the committer,
	// folded by the reader, the rest by recovery, which has ended before the others start. Only checkpointHealth has two
	// writers, the reader and the saver, and is therefore changed by compare-and-swap.
	watermark        atomic.Int64
	durable, folded  atomic.Uint64
	startedAt        atomic.Uint64
	recovered        atomic.Uint64
	replayTodo       atomic.Uint64
	replayDone       atomic.Uint64
	idStats          atomic.Pointer[dedup.Stats]
	checkpointHealth atomic.Pointer[CheckpointHealth]
}

// Open locks the data folder and opens its log, which is checked as a whole. It reads nothing else and starts nothing:
// Run does. An error is, among others, a *wal.CorruptError or fsys.ErrLocked. The caller must close the Engine.
//
// After an error nothing is locked or open. The gauges are registered last, so that a scrape never meets a
// half-built engine.
func Open(opt Options) (_ *Engine, err error) {
	opt.applyDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		opt:   opt,
		queue: &queue{limit: opt.QueueBytes, wake: make(chan struct{}, 1), closed: ErrNotReady},
		clock: record.NewClock(opt.Now, opt.Uptime, opt.MaxClockJump),
		disk:  newDiskGuard(&opt),
		dead:  &foldDeadLetters{},
		ready: make(chan struct{}),
		ended: make(chan struct{}),
	}
	e.track()
	e.read = newReader(e)
	e.setPhase(StatusStarting)
	e.idStats.Store(&dedup.Stats{})
	e.checkpointHealth.Store(&CheckpointHealth{})
	if err := e.openFolder(); err != nil {
		return nil, err
	}
	opt.Metrics.gauges(e)
	opt.Metrics.troubles(e)
	return e, nil
}

// Log returns the open log, for readers such as sinks.
//
// Only the committer may append to it, and only the saver may truncate it.
func (e *Engine) Log() *wal.Log { return e.log }

// Close closes the log and unlocks the data folder, after Run has returned or instead of Run. While Run has not
// returned it does nothing: the lock must outlast the last write.
//
// The log is closed before the lock is released, or a second engine could open a log that this one still writes
// to.
func (e *Engine) Close() error {
	if e.running.Load() {
		select {
		case <-e.ended:
		default:
			return nil
		}
	}
	err := errors.Join(e.log.Close(), e.lock.Close())
	if err == nil || e.poisoned() { // Run has returned the cause
		return nil
	}
	return fmt.Errorf("close data folder: %w", err)
}

// setPhase is called by the goroutine of Run, and by any goroutine that poisons the engine.
//
// It does not replace StatusPoisoned. A stop that comes at the same time as a failed sync would otherwise hide the
// failure from the saver, which then saves the ids of events that are not in the log.
func (e *Engine) setPhase(s Status) {
	for {
		old := e.phase.Load()
		if old != nil && *old == StatusPoisoned || e.phase.CompareAndSwap(old, &s) {
			return
		}
	}
}

// Ready is closed when recovery is over and the first events are accepted.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Do calls f between two records, in the goroutine that owns the State. During recovery it returns ErrNotReady and does
// not call f. Once Do has returned, f has run or never will.
//
// f must be short: while it runs, no record is applied. A panic in f is returned as an error. ErrStopping means
// that f did not run.
func (e *Engine) Do(ctx context.Context, f func()) error {
	select {
	case <-e.ready:
	default:
		return ErrNotReady
	}
	return e.read.do(ctx, f)
}

// CatchUp returns when the State has applied every record that was durable at the time of the call.
func (e *Engine) CatchUp(ctx context.Context) error {
	durable := e.durable.Load()
	if err := e.read.wait(ctx, durable); err != nil && e.folded.Load() < durable {
		return err
	}
	return nil // an error of that record itself belongs to another caller
}

// Run recovers, and serves until ctx is done. Then it answers all waiting requests, folds the log to its end and makes
// a last checkpoint. An error means that the folder cannot be used (such as a *checkpoint.LossError), or that the
// written data is in doubt. The process should then exit and start again. Run can be called once.
//
// The deferred functions run in the reverse order: files are closed, then the outcome is published, and ended is
// closed last, so a goroutine that waits for ended finds everything closed and may call Close.
func (e *Engine) Run(ctx context.Context, parts Parts) (err error) {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("engine: Run called twice")
	}
	defer close(e.ended)
	defer func() {
		if err != nil {
			e.poison(err)
			return
		}
		e.queue.close(ErrStopping)
		e.setPhase(StatusStopped)
	}()
	if err := e.openDeadLetters(e.log, parts.DeadLetters); err != nil {
		return err
	}
	defer closing(&err, e.dead, "dead letters")
	// No goroutine has been started yet, so these fields need no lock.
	e.retain, e.dead.instance, e.traces = parts.Retain, parts.Instance, parts.Traces
	e.history.SetBounds(parts.History)
	e.setPhase(StatusRecovering)
	saver, ids, err := e.recover(ctx, e.log)
	if saver != nil {
		defer closing(&err, saver.files, "checkpoint files")
		defer closing(&err, e.read, "reader")
	}
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil // stopped while recovering: nothing was promised
		}
		return err
	}
	return e.serve(ctx, e.log, ids, saver)
}

// closing closes c when its caller returns, and reports the failure unless the caller has an error of its own.
func closing(err *error, c interface{ Close() error }, what string) {
	if cerr := c.Close(); cerr != nil && *err == nil {
		*err = fmt.Errorf("close %s: %w", what, cerr)
	}
}

// serve runs the goroutines of the engine and stops them in order: the committer first, so that the reader sees the
// last record, then the reader, so that the last checkpoint holds everything, then the rest.
//
// The order of the end matters. If the reader stopped first, the last records would be applied only by the next
// start, and their senders that wait for the fold would get no answer. If the saver stopped before the reader,
// the last checkpoint would not be written. Whichever goroutine fails, the others are stopped in the same order,
// and the first error is returned.
func (e *Engine) serve(ctx context.Context, log *wal.Log, ids *dedup.Table, saver *saver) error {
	c := &committer{e: e, log: log, ids: ids, clock: e.clock, captures: make(chan chan *dedup.Capture)}
	if e.opt.Config != nil {
		c.config = e.opt.Config()
	}
	saver.committer = c
	stopCommitter, stopReader, stopRest := make(chan struct{}), make(chan struct{}), make(chan struct{})
	failed := make(chan error, 5) // one from each goroutine at most
	start := func(wg *sync.WaitGroup, run func() error) {
		wg.Go(func() {
			if err := run(); err != nil {
				e.poison(err)
				failed <- err
			}
		})
	}
	var committing, reading, rest sync.WaitGroup
	saver.committerEnded = make(chan struct{})
	// The start and configuration records are written and counted before any event is accepted.
	if err := c.start(); err != nil {
		return err
	}
	if err := e.read.drain(nil); err != nil {
		return err
	}
	start(&rest, func() error { defer close(e.read.saverEnded); return saver.run(stopRest) })
	start(&rest, func() error { e.disk.run(stopRest); return nil })
	start(&rest, func() error { e.markEnd(log, stopRest); return nil })
	start(&rest, func() error { return e.history.Run(stopRest) })
	start(&reading, func() error { return e.read.run(stopReader) })
	start(&committing, func() error {
		defer close(saver.committerEnded)
		err := c.run(stopCommitter)
		if err != nil {
			e.poison(err) // before committerEnded: the saver must not save ids of records that are not durable
		}
		return err
	})

	// Senders were refused with ErrNotReady until here. The queue is open before ready is closed, so a
	// goroutine that waits for ready can commit at once.
	e.queue.open()
	e.setPhase(StatusReady)
	close(e.ready)

	var err error
	select {
	case <-ctx.Done():
		e.setPhase(StatusStopping)
		e.queue.close(ErrStopping)
	case err = <-failed:
	}
	close(stopCommitter)
	committing.Wait()
	close(stopReader)
	reading.Wait()
	close(stopRest)
	rest.Wait()
	if err == nil {
		select {
		case err = <-failed:
		default:
		}
	}
	return err
}

// poison makes the engine refuse everything from now on, because of err.
//
// Any goroutine may call it. Requests that are in the queue already are answered by the committer, see abandon.
func (e *Engine) poison(err error) {
	e.failMu.Lock()
	if e.failed == nil {
		e.failed = err
	}
	e.failMu.Unlock()
	e.setPhase(StatusPoisoned)
	e.queue.close(ErrPoisoned)
}

// failure is the text of the error that poisoned the engine.
func (e *Engine) failure() string {
	e.failMu.Lock()
	defer e.failMu.Unlock()
	if e.failed == nil {
		return ""
	}
	return e.failed.Error()
}

func (e *Engine) poisoned() bool { return *e.phase.Load() == StatusPoisoned }

// wake signals the reader that the log is durable up to seq.
//
// The committer calls it after the sync. durable is stored before the signal, so that a reader that wakes sees
// the lag in Health.
func (e *Engine) wake(seq uint64) {
	e.durable.Store(seq)
	e.read.wakeUp()
}

// markInterval is the age up to which the loss of records at the log's end goes unnoticed at the next start.
const markInterval = time.Second

// markEnd syncs the marker of the log's durable end. A start compares the two, so that a log whose end was lost is not
// taken for a complete one.
// An error is no reason to stop: the log is complete, and only a check at the next start is weaker.
func (e *Engine) markEnd(log *wal.Log, stop <-chan struct{}) {
	tick := time.NewTicker(markInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		err := log.SyncMark()
		if errors.Is(err, wal.ErrPoisoned) {
			return
		}
		e.troubles[troubleMarker].Note(err)
	}
}

// publishIDs copies the figures of the table, which only its owner may read, for Health.
//
// The committer calls it once per group, and recovery once.
func (e *Engine) publishIDs(ids *dedup.Table, now int64) {
	stats := ids.Stats(now)
	e.idStats.Store(&stats)
}
