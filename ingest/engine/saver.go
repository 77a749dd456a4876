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

// flushInterval is how long a dead letter may wait in memory.
const flushInterval = time.Second

// saver writes checkpoints and dead letters in a goroutine of its own, so that neither
// the reader nor the committer waits for these syncs. The order within a checkpoint is what
// makes it safe: dead letters, parts, ids, manifest, and only then the log is truncated.
type saver struct {
	e     *Engine
	log   *wal.Log
	files *checkpoint.Store

	committer      *committer
	committerEnded chan struct{}
}

type saveResult struct{ err error }

// run saves what the reader captures until stop is closed. The error is one
// after which nothing can be promised.
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
		case <-tick.C:
			if err := s.flush(); err != nil {
				return err
			}
		case <-stop:
			return s.flush()
		}
	}
}

// flush makes the dead letters durable. A full disk is waited out.
func (s *saver) flush() error {
	if s.e.dead.waiting() == 0 {
		return nil
	}
	err := s.e.dead.flush()
	if err == nil {
		s.e.troubles[troubleLetters].works()
	}
	if err == nil || isFatalSave(err) {
		return err
	}
	if isNoSpace(err) {
		s.e.disk.full()
	}
	s.e.troubles[troubleLetters].failed(err)
	return nil
}

func isNoSpace(err error) bool {
	return fsys.Classify(err) == fsys.NoSpace || errors.Is(err, dlq.ErrNoSpace) || errors.Is(err, wal.ErrNoSpace)
}

// isFatalSave tells a failed sync from everything after which the next checkpoint may
// succeed, such as a full disk, too many open files, or a file that cannot be opened now.
func isFatalSave(err error) bool {
	return fsys.Classify(err) == fsys.SyncFailed || errors.Is(err, wal.ErrPoisoned) || isFatalLetter(err)
}

// save makes one checkpoint and lets go of the log that no checkpoint needs.
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
		h.Position, h.At, h.Took = state.Seq, s.e.opt.Now(), took
		h.Written, h.State = written, s.files.Bytes()
	})
	s.e.troubles[troubleCheckpoint].works()
	s.e.troubles[troubleLetters].works() // they were flushed first
	s.e.opt.Metrics.checkpoints.Inc()
	s.e.opt.Metrics.checkpointBytes.AddInt64(written)
	s.e.opt.Metrics.checkpointSeconds.Add(took.Seconds())
	s.e.opt.Logger.Debug("checkpoint", "position", state.Seq, "written_bytes", written, "took_ms", took.Milliseconds())
	return nil
}

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
	if err := s.log.Truncate(s.floor()); err != nil {
		return written, fmt.Errorf("let go of old log: %w", err)
	}
	s.e.opt.CrashPoint(CrashAfterTruncate)
	return written, nil
}

// floor is the number below which nobody needs the log any more.
func (s *saver) floor() uint64 {
	floor := s.files.Floor()
	if s.e.retain != nil {
		if seq, ok := s.e.retain(); ok {
			floor = min(floor, seq)
		}
	}
	return floor
}

// captureIDs asks the committer, or takes what it left behind.
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

// checkpointFailed counts a failure; the earlier checkpoints are as they were.
func (e *Engine) checkpointFailed(err error) {
	e.opt.Metrics.checkpointFailures.Inc()
	e.updateCheckpoint(func(h *CheckpointHealth) { h.Failures++ })
	e.troubles[troubleCheckpoint].failed(err)
}

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
