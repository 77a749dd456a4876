package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file is the saver: it writes checkpoints and dead letters, and deletes log segments that are no longer
// needed.

// flushInterval is how long a dead letter may stay in memory.
const flushInterval = time.Second

// saver writes checkpoints and dead letters in a goroutine of its own, so that neither the reader nor the committer
// waits for these syncs. The order within a checkpoint makes it safe against a crash: dead letters, parts, ids,
// manifest, and only then the log is truncated. Data that a later step needs is durable before the step that gives
// up its source.
//
// During recovery there is no committer yet, and the goroutine of Run uses files. From serve on only the saver's
// goroutine does.
type saver struct {
	e     *Engine
	log   *wal.Log
	files *checkpoint.Store

	// The saver asks the committer for new ids while that runs. After committerEnded is closed, it reads the table
	// itself.
	committer      *committer
	committerEnded chan struct{}
}

// saveResult is the answer to a capture. The reader gets one for each, unless the saver has failed for good.
type saveResult struct{ err error }

// run saves the captures of the reader until stop is closed. After an error nothing more can be
// promised.
//
// The answer is sent before an error is returned. saved has room for it, so the saver never waits for the reader.
func (s *saver) run(stop <-chan struct{}) error {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case c := <-s.e.read.saves:
			err := s.save(c)
			s.e.read.saved <- saveResult{err}
			if isFatalSave(err) {
				return err
			}
		case <-s.e.history.Moved():
			if err := s.truncate(); isFatalSave(err) {
				return err
			}
		case <-tick.C:
			if err := s.flush(); err != nil {
				return err
			}
		case <-stop:
			return s.flush()
		}
	}
}

// flush makes the dead letters durable. On a full disk they stay in memory, and the next tick tries again.
//
// An error that it returns is fatal.
func (s *saver) flush() error {
	if s.e.dead.waiting() == 0 {
		return nil
	}
	err := s.e.dead.flush()
	if err == nil {
		s.e.troubles[troubleDeadLetters].Note(nil)
	}
	if err == nil || isFatalSave(err) {
		return err
	}
	if isNoSpace(err) {
		s.e.disk.full()
	}
	s.e.troubles[troubleDeadLetters].Note(err)
	return nil
}

// isNoSpace reports whether the disk is full, for the errors of all packages.
func isNoSpace(err error) bool {
	return fsys.Classify(err) == fsys.NoSpace || errors.Is(err, dlq.ErrNoSpace) || errors.Is(err, wal.ErrNoSpace)
}

// isFatalSave reports whether a sync failed. After anything else, such as a full disk, too many open files, or a file
// that cannot be opened now, the next checkpoint may succeed.
func isFatalSave(err error) bool {
	return fsys.Classify(err) == fsys.SyncFailed || errors.Is(err, wal.ErrPoisoned) || errors.Is(err, dlq.ErrPoisoned)
}

// save makes one checkpoint and truncates the log before it.
//
// An error is counted and shown in Health. The caller decides whether it is fatal.
func (s *saver) save(state *checkpoint.State) error {
	began := time.Now()
	written, err := s.write(state)
	if err != nil {
		if isNoSpace(err) {
			s.e.disk.full()
		}
		s.e.checkpointFailed(err)
		return err
	}
	took := time.Since(began)
	s.e.updateCheckpoint(func(h *CheckpointHealth) {
		h.Position, h.At = state.Seq, s.e.opt.Now()
		h.Written, h.State = written, s.files.Bytes()
	})
	s.e.troubles[troubleCheckpoint].Note(nil)
	s.e.troubles[troubleDeadLetters].Note(nil) // write has flushed them
	s.e.opt.Metrics.checkpoints.Inc()
	s.e.opt.Metrics.checkpointBytes.AddInt64(written)
	s.e.opt.Metrics.checkpointSeconds.Add(took.Seconds())
	s.e.opt.Logger.Debug("checkpoint", "position", state.Seq, "written_bytes", written, "took_ms", took.Milliseconds())
	return nil
}

// write carries out the steps in the one order that loses nothing:
//
//   - Dead letters first: the checkpoint no longer has the records that were refused, so a crash after it would forget
//     them.
//   - Ids are captured after the state, so they are never behind it. Both positions are in the manifest.
//   - The log is truncated last, below the records that both checkpoints and every sink still need.
//
// An error leaves the files written before it, which is harmless: the next checkpoint writes or replaces
// it.
func (s *saver) write(state *checkpoint.State) (written int64, err error) {
	if err := s.e.dead.flush(); err != nil {
		return 0, err
	}
	s.e.opt.CrashPoint(CrashAfterDeadLetters)
	ids, err := s.captureIDs()
	if err != nil {
		return 0, err
	}
	if written, err = s.files.Write(state, ids); err != nil {
		return written, err
	}
	s.e.opt.CrashPoint(CrashBeforeTruncate)
	return written, s.truncate()
}

// truncate deletes what neither a checkpoint nor a sink needs, and what is retained.
func (s *saver) truncate() error {
	floor := s.floor()
	s.e.history.Offer(floor)
	if err := s.log.Truncate(min(floor, s.e.history.Floor())); err != nil {
		return fmt.Errorf("truncate the log: %w", err)
	}
	s.e.opt.CrashPoint(CrashAfterTruncate)
	return nil
}

// floor is the first record of the log that a checkpoint or a sink may still need.
//
// It uses durable positions only: those in the manifests, and the cursors of the sinks on the disk. Record
// numbers only rise, so a bound that is out of date is too low, which only keeps more.
func (s *saver) floor() uint64 {
	floor := s.files.Floor()
	if s.e.retain != nil {
		if seq, ok := s.e.retain(); ok {
			floor = min(floor, seq)
		}
	}
	return floor
}

// captureIDs asks the committer, or reads the table after the committer has ended.
//
// A committer that failed may have ids of records in the table that are not durable. They must not be saved:
// after the restart a resend would be a duplicate of an event that does not exist.
func (s *saver) captureIDs() (*dedup.Capture, error) {
	reply := make(chan *dedup.Capture, 1)
	select {
	case s.committer.captures <- reply:
		return <-reply, nil
	case <-s.committerEnded:
	}
	if s.e.poisoned() {
		return nil, ErrPoisoned
	}
	return s.committer.capture(), nil
}

// checkpointFailed notes a failure. The earlier checkpoints are untouched, and the next interval tries again.
func (e *Engine) checkpointFailed(err error) {
	e.opt.Metrics.checkpointFailures.Inc()
	e.updateCheckpoint(func(h *CheckpointHealth) { h.Failures++ })
	e.troubles[troubleCheckpoint].Note(err)
}

// updateCheckpoint changes the figures of the health. The reader counts failures, the saver does the rest.
//
// change may be called more than once and must not have other effects.
func (e *Engine) updateCheckpoint(change func(*CheckpointHealth)) {
	for {
		old := e.checkpointHealth.Load()
		health := *old
		change(&health)
		if e.checkpointHealth.CompareAndSwap(old, &health) {
			return
		}
	}
}
