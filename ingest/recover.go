package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// recover brings the State and the known ids to the end of the log: the newest
// valid checkpoint, then the rest. A returned saver has open files, also with
// an error.
func (e *Engine) recover(ctx context.Context, log *wal.Log) (*saver, *knownIDs, error) {
	files := &checkpoints{
		fs: e.opt.FS, dir: filepath.Join(e.opt.Dir, checkpointDir), crash: e.opt.CrashPoint, log: e.opt.Logger,
		files: map[uint64]*idFile{},
	}
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
	if err := e.restore(files); err != nil {
		return s, nil, err
	}
	e.dead.resume(from.dead)
	if err := e.replay(ctx, log, from, ids); err != nil {
		return s, nil, err
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
	e.opt.Logger.Info("recovered", "checkpoint", from.seq, "records", e.recovered.Load(), "ids", ids.stats(last).count)
	return s, ids, nil
}

// restore gives the State what the checkpoint holds.
func (e *Engine) restore(files *checkpoints) error {
	var buf []byte
	saved := map[string]bool{}
	if files.newest != nil {
		err := files.eachPart(files.newest, func(p *savedPart, pack fsys.File) (err error) {
			if buf, err = readSaved(pack, *p, buf); err != nil {
				return err
			}
			saved[p.name] = true
			if err := e.opt.State.Restore(p.name, buf); err != nil {
				return fmt.Errorf("restore part %q: %w", p.name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
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

// replay reads the log twice side by side, for the State and for the ids, since
// the two begin at different places and neither needs the other.
func (e *Engine) replay(ctx context.Context, log *wal.Log, from *manifest, ids *knownIDs) error {
	end := log.NextSeq() - 1
	first := log.FirstSeq() - 1 // later than the checkpoint only after an accepted loss
	seq, idSeq := max(from.seq, first), max(from.idSeq, first)
	e.replayTodo.Store(end - min(end, seq) + end - min(end, idSeq))
	if err := e.read.open(log, seq, from.at); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.replayState(ctx) })
	group.Go(func() error { return e.replayIDs(ctx, log, idSeq, ids) })
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

func (e *Engine) replayIDs(ctx context.Context, log *wal.Log, seq uint64, ids *knownIDs) (err error) {
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
		if err := ids.replay(&rec, &view); err != nil {
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
	_ = sleep(ctx, tryAgain) // the caller looks at ctx
	return true
}

// load finds the newest valid checkpoint and the one before it, and reads the
// ids of the newest. Without any it returns an empty manifest: the whole log.
func (c *checkpoints) load(opt *Options, log *wal.Log) (*manifest, *knownIDs, error) {
	if err := fsys.MkdirAllSynced(c.fs, c.dir, SiteDataDir); err != nil {
		return nil, nil, err
	}
	numbers, err := c.manifests()
	if err != nil {
		return nil, nil, err
	}
	var ids *knownIDs
	var broken []uint64
	for _, number := range numbers {
		m, err := c.readManifest(number)
		if err == nil && c.newest != nil {
			c.before = m
			break
		}
		if err == nil {
			ids, err = c.verify(m, opt.IDs)
		}
		switch {
		case err == nil:
			c.newest = m
			continue
		case errors.Is(err, errNewerFormat):
			return nil, nil, fmt.Errorf("checkpoint %s: %w", c.path(manifestName(number)), err)
		case fsys.Classify(err) == fsys.NoFiles: // which says nothing about the checkpoint
			return nil, nil, fmt.Errorf("read checkpoint %s: %w", c.path(manifestName(number)), err)
		}
		c.log.Error("checkpoint is broken, the one before it is tried", "manifest", manifestName(number), "err", err)
		broken = append(broken, number)
		if c.newest == nil {
			c.fallbacks++
		}
	}
	if err := c.judge(opt, log, len(numbers)); err != nil {
		return nil, nil, err
	}
	if err := c.moveAside(broken); err != nil {
		return nil, nil, err
	}
	if c.newest == nil {
		return &manifest{}, newKnownIDs(opt.IDs), nil
	}
	if end := log.NextSeq() - 1; max(c.newest.seq, c.newest.idSeq) > end {
		if err := c.rebase(end); err != nil {
			return nil, nil, err
		}
	}
	return c.newest, ids, nil
}

// judge refuses a start at which records would be missing between the
// checkpoint and the log, unless that was accepted.
func (c *checkpoints) judge(opt *Options, log *wal.Log, found int) error {
	first, end := log.FirstSeq(), log.NextSeq()-1
	reason := ""
	switch m := c.newest; {
	case m == nil && first <= 1:
	case m == nil && found > 0:
		reason = fmt.Sprintf("no checkpoint is valid, and the log begins with record %d", first)
	case m == nil:
		reason = fmt.Sprintf("there is no checkpoint, and the log begins with record %d", first)
	case max(m.seq, m.idSeq) > end:
		reason = fmt.Sprintf("the checkpoint holds the log up to record %d, but the log ends with record %d", max(m.seq, m.idSeq), end)
	case min(m.seq, m.idSeq)+1 < first:
		reason = fmt.Sprintf("the checkpoint holds the log up to record %d, but the log begins with record %d", min(m.seq, m.idSeq), first)
	}
	if reason == "" {
		return nil
	}
	if !opt.AcceptLoss {
		return &LossError{Dir: opt.Dir, Reason: reason}
	}
	c.log.Error("going on with what is left, as was asked", "reason", reason)
	return nil
}

// rebase puts the checkpoint at the end of a log that lost records it holds, so
// that the records to come are counted on top of it.
func (c *checkpoints) rebase(end uint64) error {
	m := *c.newest
	m.number, m.seq, m.idSeq = c.last+1, end, end
	if err := c.writeManifest(&m); err != nil {
		return err
	}
	aside := []uint64{c.newest.number}
	if c.before != nil {
		aside = append(aside, c.before.number)
	}
	c.last, c.newest, c.before = m.number, &m, nil
	return c.moveAside(aside)
}

// manifests returns the numbers of all manifests, the newest first, and takes
// note of the highest number in any name.
func (c *checkpoints) manifests() (numbers []uint64, err error) {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	for _, name := range names {
		if number, ok := numberOf(name, manifestName); ok {
			numbers = append(numbers, number)
		}
		if number, ok := checkpointNumber(strings.TrimSuffix(name, brokenSuffix)); ok {
			c.last = max(c.last, number)
		}
	}
	slices.Reverse(numbers)
	return numbers, nil
}

func (c *checkpoints) readManifest(number uint64) (*manifest, error) {
	file, err := c.fs.Open(c.path(manifestName(number)))
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	data, err := readAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, err := decodeManifest(data)
	if err == nil {
		m.size = int64(len(data))
	}
	if err == nil && m.number != number {
		err = fmt.Errorf("it says that its number is %d", m.number)
	}
	return m, err
}

// verify reads everything that m refers to and returns its ids. The files of
// the ids stay open.
func (c *checkpoints) verify(m *manifest, opt IDOptions) (*knownIDs, error) {
	ids := newKnownIDs(opt)
	files := map[uint64]*idFile{}
	var group errgroup.Group
	group.Go(func() error {
		if len(m.generations) < 1 || len(m.generations) > 2 {
			return fmt.Errorf("%d generations of ids", len(m.generations))
		}
		ids.next, ids.old, ids.epochs = m.nextGeneration, nil, m.epochs
		for _, saved := range m.generations {
			g, file, err := c.loadIDs(saved, ids.bytes)
			if err != nil {
				return err
			}
			files[g.number] = file
			ids.old, ids.young = ids.young, g
		}
		if len(m.generations) == 1 {
			ids.old = nil
		}
		return nil
	})
	group.Go(func() error {
		var buf []byte
		return c.eachPart(m, func(p *savedPart, pack fsys.File) (err error) {
			buf, err = readSaved(pack, *p, buf)
			return err
		})
	})
	err := group.Wait()
	if err != nil {
		for _, f := range files {
			err = errors.Join(err, f.file.Close())
		}
		return nil, err
	}
	c.files = files
	ids.mark()
	return ids, nil
}

// eachPart calls f with every part of m, pack by pack.
func (c *checkpoints) eachPart(m *manifest, f func(p *savedPart, pack fsys.File) error) error {
	byPack := map[uint64][]*savedPart{}
	for i := range m.parts {
		byPack[m.parts[i].pack] = append(byPack[m.parts[i].pack], &m.parts[i])
	}
	for _, saved := range m.packs {
		if err := c.eachOf(saved, byPack[saved.number], f); err != nil {
			return err
		}
		delete(byPack, saved.number)
	}
	if len(byPack) > 0 {
		return errors.New("a part lies in a pack that is not listed")
	}
	return nil
}

func (c *checkpoints) eachOf(saved savedPack, parts []*savedPart, f func(p *savedPart, pack fsys.File) error) (err error) {
	name := packName(saved.number)
	pack, err := c.fs.Open(c.path(name))
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer closing(&err, pack, name)
	head := make([]byte, fileHead)
	if n, err := pack.ReadAt(head, 0); n < len(head) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err := checkHead(head, packMagic); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, p := range parts {
		if err := f(p, pack); err != nil {
			return err
		}
	}
	return nil
}

// moveAside renames manifests that must not be used again.
func (c *checkpoints) moveAside(numbers []uint64) error {
	for _, number := range numbers {
		path := c.path(manifestName(number))
		if err := c.fs.Rename(path, path+brokenSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move a broken manifest aside: %w", err)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	if err := fsys.SyncDir(c.fs, c.dir, SiteDataDir); err != nil {
		return fmt.Errorf("move a broken manifest aside: %w", err)
	}
	return nil
}

func readAll(file fsys.File) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if n, err := file.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("read %d of %d bytes: %w", n, len(data), err)
	}
	return data, nil
}
