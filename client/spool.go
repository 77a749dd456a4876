package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

const (
	recordEvents   = 1       // type of a record: events as NDJSON, each with its id and time
	recordOverhead = 64      // more than the log adds to a record or a segment, in bytes
	maxUnwritten   = 8 << 20 // bytes that may wait for the disk
	maxGroup       = 1 << 20 // about the bytes that one sync makes durable
	reopenEvery    = 5 * time.Second
)

var (
	errSpoolFull    = errors.New("the spool is full")
	errSpoolDown    = errors.New("the spool is not open")
	errSpoolTimeout = errors.New("the spool's disk did not respond in time")
)

// spoolFormat is the format of the spool's folder. Raise its number with any change that an older
// client would misread; those of version 0.1.0 have none.
var spoolFormat = fsys.Format{Kind: "client spool", Number: 1}

// spool keeps batches on disk. One goroutine writes, so that one sync serves all who
// wait for it and no caller waits for a hung disk longer than it wants to.
type spool struct {
	o    SpoolOptions
	log  *slog.Logger
	m    *Metrics
	wake chan struct{} // capacity 1

	mu        sync.Mutex
	waiting   []*spoolWrite
	unwritten int // bytes of waiting
	closed    bool
	err       error // why it is not open
	changed   chan struct{}

	current atomic.Pointer[spoolLog] // nil while it is not open

	cursorMu sync.Mutex // held to change current and what a sender has done with it
}

// spoolLog is the open folder.
type spoolLog struct {
	log      *wal.Log
	lock     io.Closer
	free     int64        // bytes that are surely left in the last segment; only the writer's
	next     uint64       // first record that was not sent; under cursorMu
	saved    time.Time    // when next was last written to the disk; under cursorMu
	backlog  atomic.Int64 // bytes that are not sent
	broken   atomic.Bool  // to be opened again
	segments int64        // bytes of one
}

type spoolWrite struct {
	body []byte
	done chan error // capacity 1
}

func newSpool(o *Options) *spool {
	return &spool{o: o.Spool, log: o.Logger, m: o.Metrics, wake: make(chan struct{}, 1)}
}

// put makes b durable. After wait it returns errSpoolTimeout; b gets to the disk later
// then, if it ever answers. b must not change afterwards, unless the error is nil.
func (s *spool) put(b *batch, wait time.Duration) error {
	w := &spoolWrite{body: b.Body, done: make(chan error, 1)}
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return fmt.Errorf("%w: %w", errSpoolDown, ErrClosed)
	case s.err != nil:
		defer s.mu.Unlock()
		return fmt.Errorf("%w: %w", errSpoolDown, s.err)
	case s.unwritten > 0 && s.unwritten+len(w.body) > maxUnwritten:
		s.mu.Unlock()
		return fmt.Errorf("%w: %d bytes are waiting to be written", errSpoolTimeout, maxUnwritten)
	}
	s.waiting = append(s.waiting, w)
	s.unwritten += len(w.body)
	s.mu.Unlock()
	signal(s.wake)

	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err := <-w.done:
		return err
	case <-t.C:
	}
	return errSpoolTimeout
}

// run writes until ctx has ended, and then what still waits.
func (s *spool) run(ctx context.Context) {
	again := time.NewTicker(reopenEvery)
	defer again.Stop()
	for {
		select {
		case <-s.wake:
			s.write()
		case <-again.C:
			s.reopen()
		case <-ctx.Done():
			s.mu.Lock()
			s.closed = true
			s.mu.Unlock()
			s.write()
			return
		}
	}
}

// write writes everything that waits.
func (s *spool) write() {
	for {
		group, size := s.group()
		if len(group) == 0 {
			return
		}
		s.append(group)
		s.mu.Lock()
		s.unwritten -= size
		s.mu.Unlock()
	}
}

// group takes what one sync is to make durable.
func (s *spool) group() (group []*spoolWrite, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 && size < maxGroup {
		w := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		group = append(group, w)
		size += len(w.body)
	}
	return group, size
}

// append makes a group durable with one sync, and answers those who wait for it.
func (s *spool) append(group []*spoolWrite) {
	recs := make([]wal.Pending, len(group))
	size := int64(recordOverhead)
	for i, w := range group {
		recs[i] = wal.Pending{Time: time.Now().UnixNano(), Type: recordEvents, Payload: w.body}
		size += int64(len(w.body)) + recordOverhead
	}
	err := s.appendRecords(recs, size)
	if errors.Is(err, errSpoolFull) && len(group) > 1 { // some may fit
		for _, w := range group {
			s.append([]*spoolWrite{w})
		}
		return
	}
	for _, w := range group {
		w.done <- err
	}
}

func (s *spool) appendRecords(recs []wal.Pending, size int64) error {
	l := s.current.Load()
	if l == nil || l.broken.Load() {
		return errSpoolDown
	}
	used, count := l.log.Size()
	if size > l.free && used+max(l.segments, size) > s.o.MaxBytes {
		return fmt.Errorf("%w: %d of %d bytes are used", errSpoolFull, used, s.o.MaxBytes)
	}
	err := l.log.Append(recs)
	switch {
	case err == nil:
	case errors.Is(err, wal.ErrNoSpace):
		return fmt.Errorf("%w: %w", errSpoolFull, err)
	default:
		if errors.Is(err, wal.ErrPoisoned) {
			s.fail(l, err)
		}
		return fmt.Errorf("%w: %w", errSpoolDown, err)
	}
	if _, now := l.log.Size(); now > count {
		l.free = l.segments - size
	} else {
		l.free = max(l.free-size, 0)
	}
	s.addBacklog(l, size-recordOverhead)
	return nil
}

func (s *spool) addBacklog(l *spoolLog, n int64) {
	l.backlog.Add(n)
	s.m.spoolBytes.Add(n)
}

// pending reports whether events wait to be sent.
func (s *spool) pending() bool {
	l := s.current.Load()
	return l != nil && l.backlog.Load() > 0
}

func (s *spool) status() (backlog int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.current.Load(); l != nil {
		backlog = l.backlog.Load()
	}
	return backlog, s.err
}

// open opens the folder. It must not be open.
func (s *spool) open() (err error) {
	defer func() {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		if err != nil {
			s.m.spoolOpen.Inc()
		}
	}()
	fs, dir := s.o.fs, s.o.Dir
	if err := fsys.MkdirAllSynced(fs, dir, siteSpoolDir); err != nil {
		return fmt.Errorf("spool: make folder: %w", err)
	}
	if err := spoolFormat.Check(fs, dir); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	lock, err := fs.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("spool: lock %s: %w", dir, err)
	}
	if err := spoolFormat.Mark(fs, dir); err != nil {
		_ = lock.Close()
		return fmt.Errorf("spool: %w", err)
	}
	l := &spoolLog{lock: lock, segments: min(max(s.o.MaxBytes/16, 64<<10), 4<<20)}
	// What a broken disk lost is lost; the application has nobody who could decide.
	l.log, err = wal.Open(wal.Options{FS: fs, Dir: filepath.Join(dir, "log"), SegmentBytes: l.segments, AcceptLoss: true})
	if err != nil {
		_ = lock.Close()
		return fmt.Errorf("spool: %w", err)
	}
	for _, loss := range l.log.Losses() {
		if loss.Cause != nil {
			s.m.spoolLoss.Inc()
			s.log.Error("spool damaged, unreadable records moved aside", "folder", loss.Quarantine, "err", loss.Cause)
		}
	}
	if err := s.measure(l); err != nil {
		_ = l.log.Close()
		_ = lock.Close()
		return fmt.Errorf("spool: %w", err)
	}
	s.cursorMu.Lock()
	s.m.spoolBytes.Add(l.backlog.Load())
	s.current.Store(l)
	s.cursorMu.Unlock()
	s.mu.Lock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	s.mu.Unlock()
	return nil
}

// measure finds out where to begin and how much is to be sent.
func (s *spool) measure(l *spoolLog) error {
	next, err := readCursor(s.o.fs, s.o.Dir)
	if err != nil {
		s.log.Warn("spool cursor unreadable, all spooled events are sent again", "err", err)
	}
	if next > l.log.NextSeq() { // the log was deleted, and this one is newer
		next = 0
		if err := writeCursor(s.o.fs, s.o.Dir, 0); err != nil {
			return err
		}
	}
	l.next = max(next, l.log.FirstSeq())
	if l.next >= l.log.NextSeq() {
		return nil
	}
	r, err := l.log.NewReader(l.next)
	if err != nil {
		return err
	}
	defer r.Close()
	var rec wal.Record
	for {
		ok, err := r.Next(&rec)
		if err != nil || !ok {
			return err
		}
		l.backlog.Add(costOf(&rec))
	}
}

func costOf(rec *wal.Record) int64 { return int64(len(rec.Payload)) + recordOverhead }

// fail takes a log out of service; it is opened again after a while.
func (s *spool) fail(l *spoolLog, err error) {
	s.log.Error("spool failed", "folder", s.o.Dir, "err", err)
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	l.broken.Store(true)
	signal(s.wake)
}

// reopen opens a folder that is not open or broken.
func (s *spool) reopen() {
	if l := s.current.Load(); l != nil {
		if !l.broken.Load() {
			return
		}
		s.closeLog(l)
	}
	if err := s.open(); err == nil {
		s.log.Info("spool opened", "folder", s.o.Dir)
	}
}

// closeLog closes the open folder.
func (s *spool) closeLog(l *spoolLog) {
	s.cursorMu.Lock()
	s.current.Store(nil)
	s.m.spoolBytes.Add(-l.backlog.Load())
	s.cursorMu.Unlock()
	_ = l.log.Close()
	_ = l.lock.Close()
}

// opened waits for an open folder that is not broken; nil when ctx has ended.
func (s *spool) opened(ctx context.Context) *spoolLog {
	for ctx.Err() == nil {
		s.mu.Lock()
		if l := s.current.Load(); l != nil && !l.broken.Load() {
			s.mu.Unlock()
			return l
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}
