package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/parquet"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
)

// ParquetOptions of a Parquet sink.
type ParquetOptions struct {
	FS  fsys.FS
	Dir string `yaml:"dir" is:"required file"` // made if missing; one sink per folder
	// how long events wait for others before their files are written. Default 1 h.
	Roll time.Duration `yaml:"roll" min:"1s" max:"1d"`
}

// What a Parquet sink holds before it writes early. Tests make less of it.
var (
	parquetBytes   = 64 << 20
	parquetFolders = 256 // of a service and day: one file each
)

// The waits between attempts to write after a failure.
const (
	parquetRetry    = time.Second
	parquetRetryMax = time.Minute
)

// Parquet writes events as the export does, in files of a folder per service and day, each event once.
//
// Events are held in memory until they are written together: the files are written in the folder .staged, then the
// sink's position in the log is saved with their names, then they are renamed. So a start can finish what was saved
// and remove the rest, and events that are sent again are recognised by their place in the log. The dispatcher's cursor
// stays before what is held, which is in the log.
//
// It is a dispatch.Collector, for one call of Send at a time. It opens one file at a time.
type Parquet struct {
	o   ParquetOptions
	now func() time.Time

	mu     sync.Mutex
	lock   interface{ Close() error } // nil: it must be opened first
	w      *parquet.Writer
	state  parquetState  // as it was saved last
	next   parquet.Place // behind everything that was taken
	newest int64         // receive time of what was taken
	first  parquet.Place // of what is held
	since  time.Time     // when the first of it was taken
	closed bool

	failed  error // why files could not be written; nothing is taken meanwhile
	retryAt time.Time
	wait    time.Duration
}

var _ dispatch.Collector = (*Parquet)(nil)

// NewParquet makes the folder, locks it, and finishes what the last process had begun.
func NewParquet(o ParquetOptions) (*Parquet, error) {
	if o.Roll == 0 {
		o.Roll = time.Hour
	}
	if o.FS == nil || o.Dir == "" || o.Roll < 0 {
		return nil, errors.New("parquet sink: no file system or folder given, or a negative roll")
	}
	s := &Parquet{o: o, now: time.Now}
	var err error
	if s.w, err = parquet.NewWriter(o.FS, o.Dir); err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("parquet sink: %w", err), s.unlock())
	}
	return s, nil
}

func (s *Parquet) unlock() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

// Send takes events, and writes them if they are too many to hold.
func (s *Parquet) Send(ctx context.Context, batch []dispatch.Item) (r dispatch.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return dispatch.Result{Err: err}
	}
	err := s.ready()
	if err == nil && len(batch) > 0 && batch[0].Replayed {
		r.Failed, err = s.replay(batch)
	} else if err == nil {
		r.Failed, err = s.take(batch)
	}
	if err != nil {
		// It is never about the events: they wait until the folder can be written to.
		return dispatch.Result{Err: retry.WithClass(fmt.Errorf("parquet sink: %w", err), retry.ClassBlocked)}
	}
	return r
}

func (s *Parquet) take(batch []dispatch.Item) (failed []dispatch.Failure, err error) {
	var view event.View
	for i := range batch {
		it := &batch[i]
		if _, err := view.Parse(it.Payload); err != nil {
			failed = append(failed, dispatch.Failure{Index: i, Err: retry.Permanent(err)})
			continue
		}
		at, received := parquet.Place{Record: it.Seq, Index: it.Index}, it.Time.UnixNano()
		if at.Before(s.next) {
			if received > s.newest {
				return nil, fmt.Errorf("folder %s holds events of another log, or of a later state of this one: record %d "+
					"was received after them (give an empty folder)", s.o.Dir, it.Seq)
			}
			continue // it was sent before
		}
		if bytes, _ := s.w.Held(); bytes == 0 {
			s.first, s.since = at, s.now()
		}
		s.w.Hold(&parquet.Row{Event: &view, Binary: it.Payload, Received: received, Record: it.Seq, Index: it.Index})
		s.next, s.newest = parquet.Place{Record: it.Seq, Index: it.Index + 1}, max(s.newest, received)
		if bytes, folders := s.w.Held(); bytes >= parquetBytes || folders >= parquetFolders {
			if err := s.write(); err != nil {
				return nil, err
			}
		}
	}
	return failed, nil
}

// replay writes dead letters, but for those that an earlier attempt has written. Their places may be in a log range
// that was skipped in the middle of a batch: hence everything that was taken is written first.
func (s *Parquet) replay(batch []dispatch.Item) (failed []dispatch.Failure, err error) {
	if err := s.write(); err != nil {
		return nil, err
	}
	w, err := parquet.NewWriter(s.o.FS, s.o.Dir)
	if err != nil {
		return nil, err
	}
	var view event.View
	for i := range batch {
		it := &batch[i]
		if _, err := view.Parse(it.Payload); err != nil {
			failed = append(failed, dispatch.Failure{Index: i, Err: retry.Permanent(err)})
			continue
		}
		w.Hold(&parquet.Row{Event: &view, Binary: it.Payload, Received: it.Time.UnixNano(), Record: it.Seq, Index: it.Index})
	}
	left, err := w.Forget()
	if err == nil && left > 0 {
		err = s.save(w, parquet.Replayed, s.state)
	}
	return failed, s.note(err)
}

// Flush writes what was held for long enough, and otherwise finds out whether the folder is there.
func (s *Parquet) Flush(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil // Close has written everything, or the cursor stays before it
	}
	err := s.ready()
	if bytes, _ := s.w.Held(); err == nil && bytes > 0 && s.now().Sub(s.since) >= s.o.Roll {
		err = s.write()
	}
	if err != nil {
		return fmt.Errorf("parquet sink: %w", err)
	}
	return nil
}

// Held is the place of the first event that is in no file.
func (s *Parquet) Held() (at dispatch.Cursor, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes, _ := s.w.Held()
	return dispatch.Cursor{Seq: s.first.Record, Index: s.first.Index}, bytes > 0
}

// Drop forgets what is held.
func (s *Parquet) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

func (s *Parquet) drop() {
	s.w.Drop()
	s.next, s.newest = s.state.place(), s.state.Received
}

// ready opens the folder if that is due, and finds out whether it is still there.
func (s *Parquet) ready() error {
	switch {
	case s.closed:
		return errors.New("sink is closed")
	case s.failed != nil && s.now().Before(s.retryAt):
		return s.failed
	case s.failed != nil:
		return s.write()
	}
	if err := s.there(); err != nil {
		return s.note(err)
	}
	return nil
}

// there fails if the folder vanished.
func (s *Parquet) there() error {
	f, err := s.o.FS.Open(s.file(lockFile))
	if err != nil {
		return missing(s.o.Dir, err)
	}
	return f.Close()
}

// write writes what is held.
func (s *Parquet) write() error { return s.note(s.tryWrite()) }

func (s *Parquet) tryWrite() error {
	if s.lock == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	if bytes, _ := s.w.Held(); bytes == 0 {
		return nil
	}
	to := s.state
	to.Record, to.Index, to.Received = s.next.Record, s.next.Index, s.newest
	return s.save(s.w, parquet.Events, to)
}

// note remembers that files could not be written, or can be again. What is held stays.
func (s *Parquet) note(err error) error {
	if err == nil {
		s.failed, s.wait = nil, 0
		return nil
	}
	if gone := s.there(); errors.Is(err, fs.ErrNotExist) && gone != nil {
		err = gone // in the middle of a write
	}
	s.wait = min(max(2*s.wait, parquetRetry), parquetRetryMax)
	s.failed, s.retryAt = err, s.now().Add(s.wait)
	_ = s.unlock() // the folder is opened again, and may be another one
	return err
}

// Close writes everything and releases the folder.
func (s *Parquet) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	err := s.write()
	s.closed = true
	return errors.Join(err, s.unlock())
}

func missing(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folder %s is missing (create or mount it, delivery then resumes automatically): %w", dir, err)
	}
	return err
}
