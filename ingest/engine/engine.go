package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/clock"
	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// The names in the data folder. What else lies there is not touched.
const (
	// LockFile is held while an engine uses the folder.
	LockFile = "LOCK"
	// InstanceFile holds a random name that tells engines apart that share anything.
	InstanceFile = "INSTANCE"

	reserveName = "RESERVE"
	logDir      = "wal"
)

// Contents lists the names in a data folder that are an engine's.
func Contents() []string {
	return []string{fsys.FormatFile, LockFile, InstanceFile, reserveName, logDir, checkpoint.Dir, DeadLetterDir, KeptDir, SinkDir}
}

// Engine makes events durable, counts each id once and folds the log into a
// State. Its methods may be called by any goroutine, also before Run and after.
//
// While it runs it has five goroutines: the committer (owns the deduplication table and is
// the only one to append to the log), the reader (owns the State), the saver (owns the
// checkpoint files), the disk guard, and the one that syncs the log's marker. They share
// the parts below, which have locks or atomics of their own, and talk through channels.
type Engine struct {
	opt   Options // never changed after Open
	queue *queue
	clock *clock.Clock
	disk  *diskGuard
	dead  *foldLetters
	read  *reader
	lock  io.Closer // of the data folder; held from Open to Close
	log   *wal.Log  // open from Open to Close

	retain func() (seq uint64, ok bool) // set by Run before any goroutine starts, read by the saver

	running atomic.Bool   // Run was called
	ready   chan struct{} // closed when events are first let in
	ended   chan struct{} // closed when Run returns
	phase   atomic.Pointer[Status]
	failMu  sync.Mutex
	failed  error // why the phase is StatusPoisoned; guarded by failMu, the first error stays

	troubles [troubleParts]trouble

	// Figures for Health. Each is written by one goroutine: durable, watermark, lastAppend
	// and idStats by the committer, folded by the reader, the rest by recovery, which has
	// ended before the others start. Only checkpointHealth has two writers, the reader and
	// the saver, and is therefore changed by compare-and-swap.
	watermark        atomic.Int64
	durable, folded  atomic.Uint64
	lastAppend       atomic.Int64
	startedAt        atomic.Uint64
	recovered        atomic.Uint64
	replayTodo       atomic.Uint64
	replayDone       atomic.Uint64
	idStats          atomic.Pointer[dedup.Stats]
	checkpointHealth atomic.Pointer[CheckpointHealth]
}

// Open locks the data folder and opens its log, which is checked as a whole. It reads nothing
// else and starts nothing: Run does. An error is, among others, a *wal.CorruptError or
// fsys.ErrLocked. Whoever opens an Engine closes it.
func Open(opt Options) (_ *Engine, err error) {
	opt.applyDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		opt:   opt,
		queue: &queue{limit: opt.QueueBytes, wake: make(chan struct{}, 1), closed: ErrNotReady},
		clock: clock.New(opt.Now, opt.Uptime, opt.MaxClockJump),
		disk:  newDiskGuard(&opt),
		dead:  &foldLetters{},
		ready: make(chan struct{}),
		ended: make(chan struct{}),
	}
	for i := range e.troubles {
		t := &e.troubles[i]
		t.part, t.now, t.log = troubleNames[i], opt.Now, opt.Logger
	}
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

// openFolder takes the lock before it changes anything in the folder.
func (e *Engine) openFolder() (err error) {
	if err := fsys.MkdirAllSynced(e.opt.FS, e.opt.Dir, checkpoint.SiteDataDir); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	if err := e.checkFormats(); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	if e.lock, err = e.opt.FS.Lock(filepath.Join(e.opt.Dir, LockFile)); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	defer func() {
		if err != nil {
			_ = e.lock.Close() // the folder is as it was
		}
	}()
	if err := DataFormat.Mark(e.opt.FS, e.opt.Dir); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	e.disk.start()
	if e.log, err = e.openLog(); err != nil {
		return err
	}
	for _, repair := range e.log.Repairs() {
		e.opt.Logger.Warn("damage to the log repaired", "what", repair)
	}
	for _, loss := range e.log.Losses() {
		e.opt.Logger.Error("records of the log are lost",
			"first", loss.FirstSeq, "last", loss.LastSeq, "moved_to", loss.Quarantine)
	}
	return nil
}

// Log is the open log.
func (e *Engine) Log() *wal.Log { return e.log }

// Close closes the log and unlocks the data folder, after Run has returned or instead of Run.
// While Run has not returned it does nothing: the lock must outlast the last write.
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

func (e *Engine) setPhase(s Status) { e.phase.Store(&s) }

// Ready is closed when recovery is over and events are first let in.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Do calls f between two records, in the goroutine that alone uses the State.
// It returns ErrNotReady until recovery is over, and f is then not called. If
// ctx ends first, f may still be called later.
func (e *Engine) Do(ctx context.Context, f func()) error {
	select {
	case <-e.ready:
	default:
		return ErrNotReady
	}
	return e.read.do(ctx, f)
}

// Run recovers, and serves until ctx is done; then it answers all who wait,
// folds the log to its end and makes a last checkpoint. parts take part from the
// start. An error means that what is in the folder cannot be used (such as a
// *checkpoint.LossError), or that nothing more could be promised about what is written; the
// process should then exit and start again. Run can be called once.
func (e *Engine) Run(ctx context.Context, parts Parts) (err error) {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("ingest: Run called twice")
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
	e.retain, e.dead.instance = parts.Retain, parts.Instance
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

// openLog opens the log. Damage to records that nobody needs any more is gone around.
func (e *Engine) openLog() (*wal.Log, error) {
	o := wal.Options{
		FS: e.opt.FS, Dir: filepath.Join(e.opt.Dir, logDir), SegmentBytes: e.opt.SegmentBytes,
		RuleType: record.TypeConfig, Metrics: e.opt.Metrics.log,
	}
	log, err := wal.Open(o)
	var corrupt *wal.CorruptError
	if !errors.As(err, &corrupt) {
		return log, err
	}
	covered, cerr := e.checkpoints().Covered()
	if cerr != nil {
		return nil, fmt.Errorf("read checkpoint: %w", cerr)
	}
	needed, cerr := dispatch.OldestCursor(e.opt.FS, filepath.Join(e.opt.Dir, SinkDir))
	if cerr != nil && !e.opt.AcceptLoss {
		return nil, fmt.Errorf("%w; what sinks have yet to get is not known: %w", err, cerr)
	}
	last := corrupt.Last()
	if last > covered && !e.opt.AcceptLoss {
		return nil, fmt.Errorf("data folder %s: %w; of those, the checkpoint holds the records up to %d; restore the folder from a copy, or start with the accept-loss override to go on without the others", e.opt.Dir, err, covered)
	}
	if last >= needed && !e.opt.AcceptLoss {
		return nil, fmt.Errorf("data folder %s: %w; the checkpoint holds them, but a sink has yet to get them, from record %d on; restore the folder from a copy, or start with the accept-loss override to go on without", e.opt.Dir, err, needed)
	}
	if last <= covered {
		e.opt.Logger.Error("the log is damaged; the checkpoint holds all that is lost", "checkpoint", covered, "err", err)
	}
	o.AcceptLoss, o.Covered = true, covered
	return wal.Open(o)
}

func closing(err *error, c interface{ Close() error }, what string) {
	if cerr := c.Close(); cerr != nil && *err == nil {
		*err = fmt.Errorf("close %s: %w", what, cerr)
	}
}

// serve runs the goroutines of the engine and takes them down in order: the
// committer first, so that the reader sees the last record, then the reader,
// so that the last checkpoint holds all, then the rest.
func (e *Engine) serve(ctx context.Context, log *wal.Log, ids *dedup.Table, saver *saver) error {
	c := &committer{e: e, log: log, ids: ids, clock: e.clock, captures: make(chan chan *dedup.Capture)}
	saver.committer = c
	stopCommitter, stopReader, stopRest := make(chan struct{}), make(chan struct{}), make(chan struct{})
	failed := make(chan error, 4) // one from each goroutine at most
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
	// What every start begins with is written and counted before anything else.
	if err := c.start(); err != nil {
		return err
	}
	if err := e.read.drain(nil); err != nil {
		return err
	}
	start(&rest, func() error { defer close(e.read.saverEnded); return saver.run(stopRest) })
	start(&rest, func() error { e.disk.run(stopRest); return nil })
	start(&rest, func() error { e.markEnd(log, stopRest); return nil })
	start(&reading, func() error { return e.read.run(stopReader) })
	start(&committing, func() error {
		defer close(saver.committerEnded)
		err := c.run(stopCommitter)
		if err != nil {
			e.poison(err) // before the saver asks for the ids that it left
		}
		return err
	})

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
func (e *Engine) poison(err error) {
	e.failMu.Lock()
	if e.failed == nil {
		e.failed = err
	}
	e.failMu.Unlock()
	e.setPhase(StatusPoisoned)
	e.queue.close(ErrPoisoned)
}

func (e *Engine) failure() string {
	e.failMu.Lock()
	defer e.failMu.Unlock()
	if e.failed == nil {
		return ""
	}
	return e.failed.Error()
}

func (e *Engine) poisoned() bool { return *e.phase.Load() == StatusPoisoned }

// wake tells the reader that the log is durable up to seq.
func (e *Engine) wake(seq uint64) {
	e.durable.Store(seq)
	e.read.wakeUp()
}

// markInterval is how much of the log's end can get lost without being missed.
const markInterval = time.Second

// markEnd keeps the marker of the log's durable end up to date on the disk.
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
		if err != nil {
			e.troubles[troubleMarker].failed(err)
		} else {
			e.troubles[troubleMarker].works()
		}
	}
}

func (e *Engine) publishIDs(ids *dedup.Table, now int64) {
	stats := ids.Stats(now)
	e.idStats.Store(&stats)
}
