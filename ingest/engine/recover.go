package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file is the recovery: it loads the checkpoint that package checkpoint has chosen, and reads the rest of
// the log twice, for the State and for the ids. Nothing is written to the log before it has ended. It runs in the
// goroutine of Run.

// recover brings the State and the deduplication table to the end of the log: the newest valid checkpoint, then the
// rest of the log. It runs before any other goroutine of the engine. A returned saver has open files, also with an
// error.
//
// The clock continues from the last record, so receive times never go back, even if the system's clock did.
func (e *Engine) recover(ctx context.Context, log *wal.Log) (*saver, *dedup.Table, error) {
	s := &saver{e: e, log: log, files: e.checkpoints()}
	from, err := s.files.Load(log)
	if err != nil {
		return s, nil, err
	}
	e.startedAt.Store(from.Seq)
	e.updateCheckpoint(func(h *CheckpointHealth) {
		h.Fallbacks = from.Fallbacks
		if h.State = s.files.Bytes(); h.State > 0 {
			h.Position, h.At = from.Seq, time.Unix(0, from.At).UTC()
		}
	})
	e.opt.Metrics.checkpointFallbacks.Add(from.Fallbacks)
	e.opt.Metrics.partsLost.Add(from.LostParts)
	e.opt.Metrics.idsLost.AddInt64(int64(from.LostIDs))
	if err := e.restore(s.files, from); err != nil {
		return s, nil, err
	}
	e.dead.resume(from.Dead)
	if err := e.replay(ctx, log, from); err != nil {
		return s, nil, err
	}
	if from.Damaged {
		if err := s.afterDamage(from); err != nil {
			return s, nil, err
		}
	}
	last := max(e.read.at, from.IDAt)
	e.watermark.Store(last)
	e.clock.Start(last)
	e.durable.Store(max(log.DurableSeq(), e.folded.Load()))
	e.publishIDs(from.IDs, last)
	e.opt.Logger.Info("recovered", "checkpoint", from.Seq, "records", e.recovered.Load(), "ids",
		from.IDs.Stats(last).Count)
	return s, from.IDs, nil
}

// checkpoints returns a store of the folder's checkpoints. Each user of one has its own, since a store has no lock.
//
// It is cheap: a store reads nothing until it is used.
func (e *Engine) checkpoints() *checkpoint.Store {
	return checkpoint.New(checkpoint.Options{
		FS: e.opt.FS, DataDir: e.opt.Dir, Logger: e.opt.Logger, IDs: e.opt.IDs, Loss: e.opt.State.Loss,
		AcceptLoss: e.opt.AcceptLoss, Step: func(step string) { e.opt.CrashPoint(CrashPoint(step)) },
	})
}

// restore loads the checkpoint into the State.
//
// Parts() is asked after FinishRestore and before the first record, so that the versions are those of the bytes
// on the disk. A part that is not in saved is written by the next checkpoint.
func (e *Engine) restore(files *checkpoint.Store, from *checkpoint.Start) error {
	saved := map[string]bool{}
	err := files.Restore(from, func(name string, data []byte) error {
		saved[name] = data != nil && !from.Damaged // after damage all parts are written again
		if err := e.opt.State.Restore(name, data); err != nil {
			return fmt.Errorf("restore part %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.opt.State.FinishRestore(); err != nil {
		return fmt.Errorf("restore the state: %w", err)
	}
	// From here on a part is unchanged while it has the version it has now.
	for _, p := range e.opt.State.Parts() {
		if saved[p.Name] {
			e.read.versions[p.Name] = p.Version
		}
	}
	return nil
}

// afterDamage ends a recovery that worked around damage with a checkpoint that refers to no older file. The damaged
// files are moved aside by it. If nothing was lost, a later checkpoint can do that, too. If something was, the loss
// must be durable before anything new is counted: a second start would otherwise judge the same damage differently.
//
// Dead letters come first, as in every checkpoint. The State and the ids are both at end, so the checkpoint has
// one position.
func (s *saver) afterDamage(from *checkpoint.Start) error {
	// Records that the log lost at its end are covered as well.
	end := max(s.log.NextSeq()-1, s.e.folded.Load())
	s.e.folded.Store(end)
	c, err := s.e.read.capture(end)
	if err == nil {
		if err = s.e.dead.flush(); err == nil {
			_, err = s.files.Write(c, from.IDs.Capture(end, s.e.read.at))
		}
	}
	if err != nil {
		if from.Lossy || isFatalSave(err) {
			return fmt.Errorf("write checkpoint of what is left: %w", err)
		}
		s.e.checkpointFailed(err)
		return nil
	}
	s.e.read.versions, s.e.read.lastSeq = s.e.read.captured, end
	s.e.opt.Metrics.checkpoints.Inc()
	s.e.updateCheckpoint(func(h *CheckpointHealth) {
		h.Position, h.At, h.State = end, s.e.opt.Now(), s.files.Bytes()
	})
	return nil
}

// replay reads the log twice, side by side: for the State and for the ids. They begin at different places and do not
// need each other.
//
// An error of one stops the other. The order of the two does not matter: the State never asks for an id, and the
// table never for a count.
func (e *Engine) replay(ctx context.Context, log *wal.Log, from *checkpoint.Start) error {
	end := log.NextSeq() - 1
	first := log.FirstSeq() - 1 // beyond the checkpoint only after an accepted loss
	seq, idSeq := max(from.Seq, first), max(from.IDSeq, first)
	e.replayTodo.Store(end - min(end, seq) + end - min(end, idSeq))
	if err := e.read.open(log, seq, from.At); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.replayState(ctx) })
	group.Go(func() error { return e.readIDs(ctx, log, idSeq, from.IDs) })
	return group.Wait()
}

// replayState applies the rest of the log to the State. Dead letters are flushed before they take too much memory: a
// later crash may refuse the same events again, and the store skips those.
//
// It is the only goroutine that uses the State and e.read during recovery. An error of the disk while dead
// letters are written is logged and tried again with the next flush. They stay in memory meanwhile, so nothing is
// lost.
func (e *Engine) replayState(ctx context.Context) error {
	for ctx.Err() == nil {
		ok, err := e.read.next()
		if e.waitForFiles(ctx, err) {
			continue
		}
		if err != nil || !ok {
			return err
		}
		e.recovered.Add(1)
		e.replayDone.Add(1)
		if e.dead.waiting() > deadLetterBuffer {
			if err := e.dead.flush(); err != nil {
				if isFatalSave(err) {
					return err
				}
				e.opt.Logger.Error("dead letters not written", "err", err)
			}
		}
	}
	return ctx.Err()
}

// readIDs adds the ids of the rest of the log to the table.
//
// While it runs, no other goroutine uses the table.
func (e *Engine) readIDs(ctx context.Context, log *wal.Log, seq uint64, ids *dedup.Table) (err error) {
	reader, err := log.NewReader(seq + 1)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer closing(&err, reader, "reader of ids")
	var rec wal.Record
	var view event.View
	for ctx.Err() == nil {
		ok, err := reader.Next(&rec)
		if e.waitForFiles(ctx, err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if !ok {
			return nil
		}
		if err := replayIDs(ids, &rec, &view); err != nil {
			// The fold refuses it, too, and makes it a dead letter.
			e.opt.Logger.Error("ids of a record are not in the deduplication table", "record", rec.Seq, "err", err)
		}
		e.replayDone.Add(1)
	}
	return ctx.Err()
}

// waitForFiles reports whether err is a lack of file descriptors, after a wait. It passes, so the caller tries again.
func (e *Engine) waitForFiles(ctx context.Context, err error) bool {
	if !errors.Is(err, wal.ErrNoFiles) {
		return false
	}
	e.troubles[troubleFold].Note(err)
	retry.Sleep(ctx, tryAgain) // the caller checks ctx
	return true
}

// replayIDs adds the ids of a record to the table, exactly as the committer did when it wrote the record.
//
// Begin, Add and Mark must come in the same order as in admit and append, or other ids would be evicted and the table
// would know other ids than before the restart. Ids that the server has assigned are not
// stored, as there.
func replayIDs(ids *dedup.Table, rec *wal.Record, view *event.View) error {
	if rec.Type == record.TypeForget {
		f, err := record.ParseForget(rec.Payload)
		if err == nil {
			ids.Forget(f.Services)
		}
		return err
	}
	if rec.Type != record.TypeEvents && rec.Type != record.TypeReplay {
		return nil
	}
	events, err := record.ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	ids.Begin(rec.Time)
	for body := events.Body; len(body) > 0 && rec.Type == record.TypeEvents; {
		n, err := view.Parse(body)
		if err != nil {
			return err
		}
		if !view.Assigned {
			key := ids.Key(view.Service, event.Key(view.Service, view.ID))
			if events.Timed {
				ids.AddAt(key, view.Time)
			} else {
				ids.Add(key)
			}
		}
		body = body[n:]
	}
	events.EachKey(func(key xxh3.Uint128) { ids.Add(key) })
	ids.Mark()
	return nil
}
