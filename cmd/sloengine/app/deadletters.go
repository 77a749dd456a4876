package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// reasonLagging is the reason of a stretch of the log that a sink was too far behind for.
const reasonLagging = "lagging"

// deadLetters are the dead letters of the running engine: what the page, the API and the
// sinks see of the store. Until the data folder is open there is no store.
type deadLetters struct {
	dir    string // the data folder
	fs     fsys.FS
	log    *slog.Logger
	filter *dlq.Filter

	instance string // of this engine; set before the store
	maxKept  int64  // bytes of stretches of the log
	metrics  *dlq.Metrics
	store    atomic.Pointer[deadLetterStore]
	life     context.Context // ends when the engine is told to stop; replays end with it

	// keeping is held while a stretch of the log is put aside and its letter saved, and
	// while stretches without a letter are removed.
	keeping sync.Mutex
}

type deadLetterStore struct {
	dlq.Store
	replayer *dlq.Replayer
	wal      *wal.Log
}

func (l *deadLetters) opened() (*deadLetterStore, error) {
	if s := l.store.Load(); s != nil {
		return s, nil
	}
	return nil, engine.ErrNotReady
}

// List, Get and Stats read the store.
func (l *deadLetters) List(ctx context.Context, q dlq.Query) (dlq.Page, error) {
	s, err := l.opened()
	if err != nil {
		return dlq.Page{}, err
	}
	return s.List(ctx, q)
}

// Get returns one dead letter.
func (l *deadLetters) Get(ctx context.Context, id string) (dlq.Entry, error) {
	s, err := l.opened()
	if err != nil {
		return dlq.Entry{}, err
	}
	return s.Get(ctx, id)
}

// Stats counts what is there.
func (l *deadLetters) Stats(ctx context.Context) (dlq.Stats, error) {
	s, err := l.opened()
	if err != nil {
		return dlq.Stats{}, err
	}
	return s.Stats(ctx)
}

// Save keeps what admission did not let in.
func (l *deadLetters) Save(ctx context.Context, entries []dlq.Entry) error {
	s, err := l.opened()
	if err != nil {
		return err
	}
	return s.Save(ctx, entries)
}

// Replay gives back what matches.
func (l *deadLetters) Replay(ctx context.Context, q dlq.Query, dryRun bool) (dlq.ReplayResult, error) {
	s, err := l.opened()
	if err != nil {
		return dlq.ReplayResult{}, err
	}
	ctx, done := l.while(ctx)
	defer done()
	result, err := s.replayer.Replay(ctx, q, dryRun)
	return result, errors.Join(err, l.sweep(ctx, s))
}

// ReplayIDs gives back single ones.
func (l *deadLetters) ReplayIDs(ctx context.Context, ids []string, dryRun bool) (dlq.ReplayResult, error) {
	s, err := l.opened()
	if err != nil {
		return dlq.ReplayResult{}, err
	}
	ctx, done := l.while(ctx)
	defer done()
	result, err := s.replayer.ReplayIDs(ctx, ids, dryRun)
	return result, errors.Join(err, l.sweep(ctx, s))
}

// while is a context that also ends with the engine.
func (l *deadLetters) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.life, func() { cancel(engine.ErrStopping) })
	return ctx, func() { stop(); cancel(nil) }
}

// Discard removes single ones, with the stretches of the log that they stand for.
func (l *deadLetters) Discard(ctx context.Context, ids []string) (int, error) {
	s, err := l.opened()
	if err != nil {
		return 0, err
	}
	n, err := s.Discard(ctx, ids)
	return n, errors.Join(err, l.sweep(ctx, s))
}

// DiscardMatching removes what matches.
func (l *deadLetters) DiscardMatching(ctx context.Context, q dlq.Query, dryRun bool) (int, error) {
	s, err := l.opened()
	if err != nil {
		return 0, err
	}
	n, err := dlq.DiscardMatching(ctx, s.Store, q, dryRun)
	if dryRun {
		return n, err
	}
	return n, errors.Join(err, l.sweep(ctx, s))
}

// Purge removes what was saved before a time.
func (l *deadLetters) Purge(ctx context.Context, before time.Time, dryRun bool) (int, error) {
	s, err := l.opened()
	if err != nil {
		return 0, err
	}
	if dryRun {
		return dlq.DiscardMatching(ctx, s.Store, dlq.Query{To: before}, true)
	}
	n, err := s.Purge(ctx, before)
	if c, ok := s.Store.(dlq.Compacter); ok && n > 0 {
		err = errors.Join(err, c.Compact(ctx))
	}
	return n, errors.Join(err, l.sweep(ctx, s))
}

// sweep removes stretches of the log whose letter is gone. Those of the fold are
// swept at the start only: it puts them aside before it saves their letters.
func (l *deadLetters) sweep(ctx context.Context, s *deadLetterStore) error {
	return l.sweepKept(ctx, s, func(id string) bool { return strings.HasPrefix(id, l.instance+"-"+string(dlq.Sink)) })
}

func (l *deadLetters) sweepKept(ctx context.Context, s dlq.Store, which func(id string) bool) error {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	dir := filepath.Join(l.dir, engine.KeptDir)
	if err := l.fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("open kept log: %w", err)
	}
	names, err := l.fs.List(dir)
	if err != nil {
		return fmt.Errorf("list kept log: %w", err)
	}
	for _, id := range names {
		if !which(id) {
			continue
		}
		if _, err := s.Get(ctx, id); !errors.Is(err, dlq.ErrNotFound) {
			continue // it is there, or nobody knows
		}
		if err := wal.RemoveArchive(l.fs, filepath.Join(dir, id)); err != nil {
			return err
		}
	}
	return nil
}

// keptBytes is the size of all stretches of the log that are put aside.
func (l *deadLetters) keptBytes() (bytes int64, err error) {
	dir := filepath.Join(l.dir, engine.KeptDir)
	ids, err := l.fs.List(dir)
	if err != nil {
		return 0, fmt.Errorf("list kept log: %w", err)
	}
	for _, id := range ids {
		segments, err := l.fs.List(filepath.Join(dir, id))
		if err != nil {
			return 0, fmt.Errorf("list kept log: %w", err)
		}
		for _, name := range segments {
			f, err := l.fs.Open(filepath.Join(dir, id, name))
			if err != nil {
				return 0, fmt.Errorf("list kept log: %w", err)
			}
			size, err := f.Size()
			if err = errors.Join(err, f.Close()); err != nil {
				return 0, fmt.Errorf("list kept log: %w", err)
			}
			bytes += size
		}
	}
	return bytes, nil
}

// undelivered keeps items that a sink did not get, as far as the filter wants them.
func (l *deadLetters) undelivered(ctx context.Context, list []dispatch.DeadLetter) error {
	s, err := l.opened()
	if err != nil {
		return err
	}
	entries := make([]dlq.Entry, 0, len(list))
	for i := range list {
		entry := engine.SinkLetter(&list[i])
		entry.ID = engine.LetterID(l.instance, &entry)
		if l.filter == nil || l.filter.ShouldSave(dlq.SubjectOf(&entry)) {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return s.Save(ctx, entries)
}

// lagging keeps a stretch of the log that a sink was too far behind for.
func (l *deadLetters) lagging(ctx context.Context, sink string, from, to uint64) error {
	s, err := l.opened()
	if err != nil {
		return err
	}
	now := time.Now()
	entry := dlq.Entry{
		Origin: dlq.Sink, Sink: sink, Reason: reasonLagging, First: now, Last: now, Seq: from, SeqEnd: to, Index: -1,
		Error: fmt.Sprintf("the sink was further behind than its max_lag_bytes: it did not get the events of the log's records %d to %d", from, to),
	}
	entry.ID = engine.LetterID(l.instance, &entry)
	l.keeping.Lock()
	defer l.keeping.Unlock()
	kept, err := l.keptBytes()
	if err != nil {
		return err
	}
	if kept >= l.maxKept {
		// A sink that is gone for good must not fill the disk: better that it lacks events,
		// and everybody is told, than that none are taken any more.
		l.metrics.Dropped(dlq.DropFull, 1)
		l.log.Error("sink fell behind and dead-letter storage is full, events dropped",
			"sink", sink, "from", from, "to", to, "kept_bytes", kept, "max_bytes", l.maxKept)
		return nil
	}
	if err := s.wal.Archive(from, to, filepath.Join(l.dir, engine.KeptDir, entry.ID)); err != nil {
		return err
	}
	return s.Save(ctx, []dlq.Entry{entry})
}

// toldDamages is how many damaged places are logged one by one.
const toldDamages = 10

// tellDamage logs what a start could not read of the dead letters.
func (l *deadLetters) tellDamage(store dlq.Store) {
	files, ok := store.(*dlq.File)
	if !ok {
		return
	}
	places, n := files.Damage()
	for _, d := range places[:min(len(places), toldDamages)] {
		l.log.Error("dead letters damaged", "file", d.Path, "offset", d.Offset, "bytes", d.Bytes, "lost_at_most", d.Lost,
			"saved_after", d.From, "saved_before", d.To, "reason", d.Reason)
	}
	stats, err := store.Stats(context.Background())
	if err != nil {
		return // the store was opened a moment ago; whoever asks next is told
	}
	if n > toldDamages {
		l.log.Error("dead letters damaged", "places", n, "bytes", stats.Lost.Bytes, "lost_at_most", stats.Lost.Entries,
			"saved_after", stats.Lost.From, "saved_before", stats.Lost.To)
	}
	if stats.TornBytes > 0 {
		l.log.Warn("dead letters end in an unfinished write, which was never acknowledged; it is left as it is", "bytes", stats.TornBytes)
	}
}
