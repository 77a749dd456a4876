package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/wal"
)

// DeadLetters is where the engine keeps what the fold refuses: a dlq.Store.
type DeadLetters interface {
	// Save returns nil when the entries are durable. Entries that it holds, or held not
	// long ago, are skipped.
	Save(ctx context.Context, entries []dlq.Entry) error
	// Failed notes that a replay was refused.
	Failed(ctx context.Context, failures []dlq.Failure) (int, error)
}

// The names below the data folder.
const (
	// DeadLetterDir holds the dead letters where they are kept in files.
	DeadLetterDir = "dead-letters"
	// KeptDir holds stretches of the log that a dead letter stands for, a folder each.
	KeptDir = "kept"
	// SinkDir holds how far each sink is.
	SinkDir = "sinks"
)

const (
	deadLetterBuffer = 1 << 20 // waiting bytes after which they are written early
	deadLetterSplit  = 1000    // entries that are saved at once
)

// foldLetters collects what the fold refuses until flush makes it durable. A
// checkpoint flushes first; what a crash takes before that is refused again when
// the log is read again, and has the same ID then.
type foldLetters struct {
	store DeadLetters
	own   *dlq.File // store, if the engine opened it
	log   *wal.Log
	kept  string // folder of KeptDir

	instance string // see Parts

	// mu guards what the reader adds; it is never held during a write, so that the fold
	// does not wait for the disk.
	mu      sync.Mutex
	pending []dlq.Entry
	failed  []dlq.Failure
	bytes   int
	total   uint64

	// flushing is held for the whole of a flush, by the saver or by a replay that must
	// know the outcome. It guards what is being written.
	flushing sync.Mutex
	saving   []dlq.Entry
	noting   []dlq.Failure
}

// refuse keeps an event for the dead letters.
func (d *foldLetters) refuse(letter dlq.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, letter)
	d.bytes += d.size(&letter)
	d.total++
}

// refuseReplay notes that the dead letter of that ID was refused again. It is
// still there: a replay removes it only once it is counted.
func (d *foldLetters) refuseReplay(id string, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = append(d.failed, dlq.Failure{ID: id, Class: deadletter.ClassRefused, At: time.Unix(0, at).UTC()})
	d.bytes += letterOverhead
}

// resume goes on counting from what a checkpoint had counted. Health may ask meanwhile.
func (d *foldLetters) resume(total uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = total
}

func (d *foldLetters) count() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// waiting is about the number of bytes that a flush would write.
func (d *foldLetters) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes
}

// flush makes all that was refused so far durable. After an error it still waits.
func (d *foldLetters) flush() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	d.mu.Lock()
	// Taken over, since the store fills in what is missing in place.
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
	for i := range d.pending { // what came meanwhile
		d.bytes += d.size(&d.pending[i])
	}
	d.bytes += len(d.failed) * letterOverhead
	d.mu.Unlock()
	return nil
}

// letterOverhead is about what a letter takes besides its event, in bytes.
const letterOverhead = 256

func (d *foldLetters) size(e *dlq.Entry) int { return len(e.Event) + len(e.Raw) + letterOverhead }

func (d *foldLetters) save(entries []dlq.Entry, failed []dlq.Failure) error {
	ctx := context.Background()
	for i := range entries {
		e := &entries[i]
		e.ID = deadletter.ID(d.instance, e)
		if e.SeqEnd != 0 {
			if err := d.log.Archive(e.Seq, e.SeqEnd, filepath.Join(d.kept, e.ID)); err != nil {
				return err
			}
		}
	}
	if len(entries) > 0 {
		if err := d.store.Save(ctx, entries); err != nil {
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

// Close lets go of the store if the engine opened it. What waits is refused again
// after the next start.
func (d *foldLetters) Close() error {
	if d.own == nil {
		return nil
	}
	return d.own.Close()
}

// openDeadLetters takes the store that the options give, or opens one in files.
func (e *Engine) openDeadLetters(log *wal.Log, store DeadLetters) error {
	e.dead.log, e.dead.kept = log, filepath.Join(e.opt.Dir, KeptDir)
	if store != nil {
		e.dead.store = store
		return nil
	}
	file, err := dlq.OpenFile(dlq.FileOptions{
		FS: e.opt.FS, Dir: filepath.Join(e.opt.Dir, DeadLetterDir), SegmentBytes: e.opt.DeadLetterSegmentBytes, Now: e.opt.Now,
	})
	if err != nil {
		return fmt.Errorf("open dead letters: %w", err)
	}
	e.dead.store, e.dead.own = file, file
	return nil
}

// isFatalLetter tells a disk that lost dead letters from a store that is full or away.
func isFatalLetter(err error) bool { return errors.Is(err, dlq.ErrPoisoned) }
