package engine

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file opens the data folder: its names, its format number, its lock, and the log in it. The order is the
// safety: versions are checked before the lock is taken, and no file of the folder is changed before it is held.

// DataFormat is the format of the data folder as a whole. Raise its number together with that of any file in the
// folder, so that an older program refuses the folder before it touches anything. Folders of version 0.1.0 have no
// number. Format 2 has records and parts of incidents, format 3 the sizes of batches in the log and positions of
// sources, format 4 the times that backfills cover, where the backlog of a stream ends, and ended work, format 5
// records of rebuilt counts and of ticks.
var DataFormat = fsys.Format{Kind: "data directory", Number: 5}

// The names in the data folder. The engine leaves everything else in it alone.
const (
	// LockFile is held while an engine uses the folder.
	LockFile = "LOCK"
	// InstanceFile holds a random name that distinguishes engines that share a storage.
	InstanceFile = "INSTANCE"
	// LinkKeyFile holds the key that signs links to acknowledge incidents. Backups leave it out.
	LinkKeyFile = "LINK_KEY"
	// DeadLetterDir holds the dead letters if they are stored in files.
	DeadLetterDir = "dead-letters"
	// LogRangeDir holds archived ranges of the log that a dead letter stands for, one folder for each.
	LogRangeDir = "kept"
	// SinkDir holds the position of each sink in the log.
	SinkDir = "sinks"
	// LogDir holds the log.
	LogDir = "wal"
	// HistoryDir holds the log behind the last checkpoint, as far back as it is retained.
	HistoryDir = "history"
	// RebuiltDir holds counts that were made from the retained log, until a checkpoint holds them.
	RebuiltDir = "rebuilt"

	reserveName = "RESERVE"
)

// Contents lists the names in a data folder that belong to an engine.
func Contents() []string {
	return []string{fsys.FormatFile, LockFile, InstanceFile, LinkKeyFile, reserveName, LogDir, HistoryDir, RebuiltDir,
		checkpoint.Dir, DeadLetterDir, LogRangeDir, SinkDir}
}

// openFolder locks the folder and opens the log. A folder of a newer version is refused first, and nothing is changed
// in the folder before the lock is held.
//
// An error leaves no lock and no open file. The disk is checked before the log is opened, since opening a log may
// write.
func (e *Engine) openFolder() (err error) {
	if err := fsys.MkdirAllSynced(e.opt.FS, e.opt.Dir, checkpoint.SiteDataDir); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	if err := e.checkFormats(); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	e.lock = io.NopCloser(nil)
	if !e.opt.Locked {
		if e.lock, err = e.opt.FS.Lock(filepath.Join(e.opt.Dir, LockFile)); err != nil {
			return fmt.Errorf("open data folder: %w", err)
		}
	}
	defer func() {
		if err != nil {
			_ = e.lock.Close() // the engine does not exist, so nothing else closes it
		}
	}()
	if err := DataFormat.Mark(e.opt.FS, e.opt.Dir); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	e.disk.start()
	if e.log, err = e.openLog(); err != nil {
		return err
	}
	e.history = e.newHistory()
	for _, repair := range e.log.Repairs() {
		e.opt.Logger.Warn("repaired the log", "what", repair)
	}
	for _, loss := range e.log.Losses() {
		e.opt.Logger.Error("records of the log are lost",
			"first", loss.FirstSeq, "last", loss.LastSeq, "moved_to", loss.Quarantine)
	}
	return nil
}

// newHistory makes the store of the retained log. It reads nothing until it runs, so a start does not wait for it.
func (e *Engine) newHistory() *retained.Store {
	return retained.New(retained.Options{
		FS: e.opt.FS, Dir: filepath.Join(e.opt.Dir, HistoryDir), Log: e.log, Describe: record.Describe,
		Form:     record.Form(),
		Rewrite:  record.Eraser(e.redact),
		RuleType: record.TypeConfig, Now: func() time.Time { return time.Unix(0, e.watermark.Load()) },
		Missing: e.disk.missing, Logger: e.opt.Logger, Metrics: e.opt.Metrics.history,
		Step: func(step string) { e.opt.CrashPoint(CrashPoint(step)) },
	})
}

// OpenLog reads the log of a data folder and its history, without the lock of an engine that may be running. It changes
// nothing.
func OpenLog(f fsys.FS, dir string) (*retained.Source, error) {
	if err := DataFormat.Check(f, dir); err != nil {
		return nil, err
	}
	mark, err := f.Open(filepath.Join(dir, fsys.FormatFile))
	if err != nil {
		return nil, fmt.Errorf("%q is not the data directory of an engine: %w", dir, err)
	}
	if err := mark.Close(); err != nil {
		return nil, err
	}
	return retained.OpenFolders(f, filepath.Join(dir, HistoryDir), filepath.Join(dir, LogDir), record.Form()), nil
}

// redact applies the rules in force to one event of the retained log.
func (e *Engine) redact(dst, raw []byte) ([]byte, error) {
	if f := e.redaction.Load(); f != nil {
		return (*f)(dst, raw)
	}
	return append(dst, raw...), nil
}

// RedactHistory sets what redacts an event when the retained log is redacted.
func (e *Engine) RedactHistory(f func(dst, raw []byte) ([]byte, error)) { e.redaction.Store(&f) }

// History is the retained log. Its bounds are zero until Run.
func (e *Engine) History() *retained.Store { return e.history }

// checkFormats refuses a folder of a newer version and changes nothing. The log checks its own segments before it
// changes any.
//
// It runs without the lock, beside an engine that may be running. It only reads.
func (e *Engine) checkFormats() error {
	if err := DataFormat.Check(e.opt.FS, e.opt.Dir); err != nil {
		return err
	}
	return e.checkpoints().CheckFormat()
}

// openLog opens the log. Damage to records that a checkpoint holds and that every sink has costs nothing: the log is
// then opened without them. Any other damage is refused, unless the loss is accepted.
//
// Damage is accepted without asking the operator only if two conditions hold: the checkpoint has counted the
// damaged records, and no sink has yet to read them. Everything else needs AcceptLoss, and the error names the
// loss.
func (e *Engine) openLog() (*wal.Log, error) {
	o := wal.Options{
		FS: e.opt.FS, Dir: filepath.Join(e.opt.Dir, LogDir), SegmentBytes: e.opt.SegmentBytes,
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
		return nil, fmt.Errorf("%w; the positions of the sinks are unknown: %w", err, cerr)
	}
	last := corrupt.Last()
	if last > covered && !e.opt.AcceptLoss {
		return nil,
			fmt.Errorf(
				"data folder %s: %w; of those, the checkpoint holds the records up to %d; restore the folder from a backup, or "+
					"start with the accept-loss override to continue without the others", e.opt.Dir, err, covered)
	}
	if last >= needed && !e.opt.AcceptLoss {
		return nil,
			fmt.Errorf(
				"data folder %s: %w; the checkpoint holds them, but a sink still needs them from record %d on; restore the "+
					"folder from a backup, or start with the accept-loss override to continue without them", e.opt.Dir, err, needed)
	}
	if last <= covered {
		e.opt.Logger.Error("log is damaged, the checkpoint holds all that is lost", "checkpoint", covered, "err", err)
	}
	o.AcceptLoss, o.Covered = true, covered
	return wal.Open(o)
}
