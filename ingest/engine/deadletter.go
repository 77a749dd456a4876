package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file is the way of a refused event from the fold to the dead-letter queue. The fold only appends to
// memory. The saver, or recovery, writes, and always before the checkpoint that would forget the refusal.

// DeadLetters stores the events that the fold refuses. It is a dlq.Store.
//
// Both methods may be called again with the same arguments after an error or a crash.
type DeadLetters interface {
	// Save returns nil when the entries are durable. Entries that it holds, or held recently, are skipped. After an error
	// that wraps dlq.ErrInvalid, all are durable but those that never can be.
	Save(ctx context.Context, entries []dlq.Entry) error
	// Failed notes that a replay was refused.
	Failed(ctx context.Context, failures []dlq.Failure) (int, error)
}

const (
	deadLetterBuffer = 1 << 20 // waiting bytes after which they are written early
	deadLetterSplit  = 1000    // entries that are saved at once
)

// foldDeadLetters collects refused events until flush makes them durable. A checkpoint flushes first, since it is the
// last to know the refusals before its record. Refusals that a crash loses are made again when the log is read again,
// with the same IDs.
type foldDeadLetters struct {
	// Set by Run before the reader starts.
	store    DeadLetters
	own      *dlq.File // store, if the engine opened it
	log      *wal.Log
	logger   *slog.Logger
	archives string // folder of the archived log ranges
	instance string // see Parts

	// mu guards the entries that the reader adds. It is never held during a write, so that the fold does not wait
	// for the disk.
	mu      sync.Mutex
	pending []dlq.Entry
	failed  []dlq.Failure
	bytes   int
	total   uint64

	// flushing is held for the whole of a flush, by the saver or by a replay that must know the outcome. It guards the
	// entries being written. It is taken before mu.
	flushing sync.Mutex
	saving   []dlq.Entry
	noting   []dlq.Failure
}

// refuse adds an entry to the next flush.
func (d *foldDeadLetters) refuse(entry dlq.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, entry)
	d.bytes += d.size(&entry)
	d.total++
}

// refuseReplay notes that the dead letter of that ID was refused again. It is still stored: a replay removes it only
// once it counts.
func (d *foldDeadLetters) refuseReplay(id string, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = append(d.failed, dlq.Failure{ID: id, Class: deadletter.ClassRefused, At: time.Unix(0, at).UTC()})
	d.bytes += entryOverhead
}

// resume continues counting from a checkpoint. Health may read the count meanwhile.
func (d *foldDeadLetters) resume(total uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = total
}

// count is the number of events ever refused, over all restarts. It is part of each checkpoint.
func (d *foldDeadLetters) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// waiting is roughly the number of bytes that a flush would write.
func (d *foldDeadLetters) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes
}

// flush makes everything that was refused so far durable. After an error the entries stay for the next flush.
//
// Entries go from pending to saving and leave that only after Save has returned nil. So an error at any place
// writes some entries again later, which the store recognises by their IDs, and never skips one.
func (d *foldDeadLetters) flush() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	d.mu.Lock()
	// Moved, not copied: the store fills in missing fields in place, and mu cannot be held for that long.
	d.saving, d.pending = append(d.saving, d.pending...), nil
	d.noting, d.failed = append(d.noting, d.failed...), nil
	d.mu.Unlock()
	for len(d.saving)+len(d.noting) > 0 {
		entries := d.saving[:min(len(d.saving), deadLetterSplit)]
		failed := d.noting[:min(len(d.noting), deadLetterSplit)]
		if err := d.save(entries, failed); err != nil {
			return fmt.Errorf("save dead letters: %w", err)
		}
		d.saving, d.noting = d.saving[len(entries):], d.noting[len(failed):]
	}
	d.saving, d.noting = nil, nil
	d.mu.Lock()
	d.bytes = 0
	for i := range d.pending { // added meanwhile
		d.bytes += d.size(&d.pending[i])
	}
	d.bytes += len(d.failed) * entryOverhead
	d.mu.Unlock()
	return nil
}

// entryOverhead is roughly the size of an entry without its event, in bytes.
const entryOverhead = 256

func (d *foldDeadLetters) size(e *dlq.Entry) int { return len(e.Event) + len(e.Raw) + entryOverhead }

// save writes entries and failed replays. A log range is archived before the entry that refers to it is stored.
//
// In the other order a crash could leave an entry whose log range is gone. IDs follow from the place in the log,
// so an entry that is refused again after a crash gets the same one. flushing is held.
func (d *foldDeadLetters) save(entries []dlq.Entry, failed []dlq.Failure) error {
	ctx := context.Background()
	for i := range entries {
		e := &entries[i]
		e.ID = deadletter.ID(d.instance, e)
		if e.SeqEnd != 0 {
			if err := d.log.Archive(e.Seq, e.SeqEnd, filepath.Join(d.archives, e.ID)); err != nil {
				return err
			}
		}
	}
	if len(entries) > 0 {
		err := d.store.Save(ctx, entries)
		if errors.Is(err, dlq.ErrInvalid) { // another attempt would end like this one
			d.logger.Error("dead letters dropped, they cannot be stored", "err", err)
		} else if err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		if _, err := d.store.Failed(ctx, failed); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the store if the engine opened it. Entries that wait are refused again after the next start.
func (d *foldDeadLetters) Close() error {
	if d.own == nil {
		return nil
	}
	return d.own.Close()
}

// openDeadLetters uses the store of the caller, or opens one in files.
//
// It runs in Run before any other goroutine. Only a store that the engine opened is closed by it.
func (e *Engine) openDeadLetters(log *wal.Log, store DeadLetters) error {
	e.dead.log, e.dead.logger, e.dead.archives = log, e.opt.Logger, filepath.Join(e.opt.Dir, LogRangeDir)
	if store != nil {
		e.dead.store = store
		return nil
	}
	file, err := dlq.OpenFile(dlq.FileOptions{
		FS: e.opt.FS, Dir: filepath.Join(e.opt.Dir, DeadLetterDir),
		SegmentBytes: e.opt.DeadLetterSegmentBytes, Now: e.opt.Now,
	})
	if err != nil {
		return fmt.Errorf("open dead letters: %w", err)
	}
	e.dead.store, e.dead.own = file, file
	return nil
}
