package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// recover brings the State and the known ids to the end of the log: the newest
// valid checkpoint, then the rest. A returned saver has open files, also with
// an error.
func (e *Engine) recover(ctx context.Context, log *wal.Log) (*saver, *dedup.Table, error) {
	files := e.checkpointFiles()
	s := &saver{e: e, log: log, files: files}
	from, ids, err := files.load(&e.opt, log)
	if err != nil {
		return s, nil, err
	}
	e.startedAt.Store(from.seq)
	e.updateCheckpoint(func(h *CheckpointHealth) {
		h.Fallbacks = files.fallbacks
		if files.newest != nil {
			h.Position, h.At, h.State = from.seq, time.Unix(0, from.at).UTC(), from.stateBytes()
		}
	})
	e.opt.Metrics.checkpointFallbacks.Add(files.fallbacks)
	e.opt.Metrics.partsLost.Add(len(files.lostParts))
	e.opt.Metrics.idsLost.AddInt64(int64(files.lostIDs))
	if err := e.restore(files, from); err != nil {
		return s, nil, err
	}
	e.dead.resume(from.dead)
	if err := e.replay(ctx, log, from, ids); err != nil {
		return s, nil, err
	}
	if files.damaged {
		if err := s.afterDamage(ids); err != nil {
			return s, nil, err
		}
	}
	last := max(e.read.at, from.idAt)
	e.watermark.Store(last)
	e.clock.start(last)
	if now := e.opt.Now().UnixNano(); last > now {
		e.opt.Logger.Warn("the clock is behind the log: receive times stand still until it has caught up",
			"seconds", (last-now)/1e9)
	}
	e.durable.Store(max(log.DurableSeq(), e.folded.Load()))
	e.publishIDs(ids, last)
	e.opt.Logger.Info("recovered", "checkpoint", from.seq, "records", e.recovered.Load(), "ids", ids.Stats(last).Count)
	return s, ids, nil
}

func (e *Engine) checkpointFiles() *checkpoints {
	return &checkpoints{
		fs: e.opt.FS, dir: filepath.Join(e.opt.Dir, checkpointDir), crash: e.opt.CrashPoint, log: e.opt.Logger,
		files: map[uint64]*idFile{},
	}
}

// restore gives the State what the checkpoint holds.
func (e *Engine) restore(files *checkpoints, from *manifest) error {
	var buf []byte
	saved := map[string]bool{}
	err := files.eachPart(from, func(p *savedPart, pack fsys.File, err error) error {
		if files.lostParts[p.name] {
			if err := e.opt.State.Restore(p.name, nil); err != nil {
				return fmt.Errorf("restore without part %q: %w", p.name, err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if buf, err = readSaved(pack, *p, buf); err != nil {
			return err
		}
		saved[p.name] = !files.damaged
		if err := e.opt.State.Restore(p.name, buf[:len(buf):len(buf)]); err != nil {
			return fmt.Errorf("restore part %q: %w", p.name, err)
		}
		return nil
	}, func(string, error) error { return nil })
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

// afterDamage ends a recovery that had to go around damage with a checkpoint of its own,
// which refers to no older file. What is damaged is then moved aside. Where nothing was
// lost that can also be done later.
func (s *saver) afterDamage(ids *dedup.Table) error {
	// What the log lost at its end is behind, too.
	end := max(s.log.NextSeq()-1, s.e.folded.Load())
	s.e.folded.Store(end)
	c, err := s.e.read.capture(end)
	if err == nil {
		if err = s.e.dead.flush(); err == nil {
			_, err = s.files.write(c, ids.Capture(end, s.e.read.at))
		}
	}
	if err != nil {
		if s.files.lossy || isFatalSave(err) {
			return fmt.Errorf("make a checkpoint of what is left: %w", err)
		}
		s.e.checkpointFailed(err)
		return nil
	}
	s.e.read.versions, s.e.read.lastSeq = s.e.read.captured, end
	s.e.opt.Metrics.checkpoints.Inc()
	s.e.updateCheckpoint(func(h *CheckpointHealth) {
		h.Position, h.At, h.State = end, s.e.opt.Now(), s.files.newest.stateBytes()
	})
	return nil
}

// replay reads the log twice side by side, for the State and for the ids, since
// the two begin at different places and neither needs the other.
func (e *Engine) replay(ctx context.Context, log *wal.Log, from *manifest, ids *dedup.Table) error {
	end := log.NextSeq() - 1
	first := log.FirstSeq() - 1 // later than the checkpoint only after an accepted loss
	seq, idSeq := max(from.seq, first), max(from.idSeq, first)
	e.replayTodo.Store(end - min(end, seq) + end - min(end, idSeq))
	if err := e.read.open(log, seq, from.at); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.replayState(ctx) })
	group.Go(func() error { return e.readIDs(ctx, log, idSeq, ids) })
	return group.Wait()
}

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
			// The fold refuses it as well, and keeps it as a dead letter.
			e.opt.Logger.Error("ids of a record are not known", "record", rec.Seq, "err", err)
		}
		e.replayDone.Add(1)
	}
	return ctx.Err()
}

// waitForFiles reports whether a file descriptor was lacking, after a wait for one.
func (e *Engine) waitForFiles(ctx context.Context, err error) bool {
	if !errors.Is(err, wal.ErrNoFiles) {
		return false
	}
	e.troubles[troubleFold].failed(err)
	select {
	case <-ctx.Done(): // the caller looks at it
	case <-time.After(tryAgain):
	}
	return true
}

// replayIDs makes the ids of a record known again.
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
			ids.Add(ids.Key(view.Service, event.Key(view.Service, view.ID)))
		}
		body = body[n:]
	}
	events.EachKey(func(key xxh3.Uint128) { ids.Add(key) })
	ids.Mark()
	return nil
}
