package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// openDeadLetters opens the storage of the dead letters and of their log ranges. instance begins
// the IDs of this engine's dead letters.
func (b *builder) openDeadLetters(in *intake, source *wal.Log, instance string) (*dlq.RangeStore, error) {
	storage, err := b.config.DeadLetterStore(b.DataDir, in.redis.dlq, in.deadLetters)
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	b.group.addCloser("dead letters", storage)
	logDamage(storage, b.Log)
	store := dlq.NewRangeStore(dlq.RangeOptions{
		FS: fsys.OS(), Dir: filepath.Join(b.DataDir, engine.LogRangeDir), Log: source, Store: storage,
		Owned: instance + "-" + string(dlq.Sink), MaxBytes: b.config.DeadLetters.MaxBytes,
	})
	logSweep(store.Recover(context.Background()), b.Log)
	return store, nil
}

func logSweep(err error, log *slog.Logger) {
	if err != nil {
		log.Error("removing unreferenced log ranges failed", "err", err)
	}
}

// loggedDamages is how many damaged places are logged one by one.
const loggedDamages = 10

// logDamage logs what a start could not read of the dead letters.
func logDamage(store dlq.Store, log *slog.Logger) {
	files, ok := store.(*dlq.File)
	if !ok {
		return
	}
	places, n := files.Damage()
	for _, d := range places[:min(len(places), loggedDamages)] {
		log.Error("dead letters damaged", "file", d.Path, "offset", d.Offset, "bytes", d.Bytes, "lost_at_most", d.Lost,
			"saved_after", d.From, "saved_before", d.To, "reason", d.Reason)
	}
	stats, err := store.Stats(context.Background())
	if err != nil {
		return // the store was opened a moment ago; the next caller gets the error
	}
	if n > loggedDamages {
		log.Error("dead letters damaged", "places", n, "bytes", stats.Lost.Bytes, "lost_at_most", stats.Lost.Entries,
			"saved_after", stats.Lost.From, "saved_before", stats.Lost.To)
	}
	if stats.TornBytes > 0 {
		log.Warn("dead-letter file ends in an incomplete write that was never acknowledged, leaving it unchanged",
			"bytes", stats.TornBytes)
	}
}

// deadLetters is what page and API can do with dead letters, and what is done by schedule.
type deadLetters struct {
	*dlq.RangeStore
	shared    bool // with other engines, in Redis
	replayer  *dlq.Replayer
	retention *dlq.Retention

	stopping context.Context    // replays that were asked for end with it
	stop     context.CancelFunc // of stopping

	latest atomic.Pointer[dlq.Stats] // of a shared storage, which is not asked for each view
}

// deadLetters replays entries of admission and of the fold to the engine, and those of sinks to
// their sink.
func (b *builder) deadLetters(p *parts) (d *deadLetters, err error) {
	c, store, m, log := &b.config, p.storage.deadLetters, p.intake.deadLetters, b.Log
	d = &deadLetters{RangeStore: store, shared: c.DeadLetters.Storage == "redis"}
	d.stopping, d.stop = context.WithCancel(context.Background())
	toEngine := (&source.Replayer{
		Engine: p.storage.engine, Catalog: func() event.Catalog { return b.specs.InForce().Catalog }, Of: p.sources.Of,
	}).Target
	replay := c.ReplayOptions(store, m)
	replay.Targets = map[dlq.Origin]dlq.Target{dlq.Admission: toEngine, dlq.Fold: toEngine, dlq.Sink: p.sinks.Replay}
	if d.shared {
		lock := dlq.NewReplayLock(p.intake.redis.dlq, c.RedisKeys("dlq")+":replaying", store)
		for origin, target := range replay.Targets {
			replay.Targets[origin] = lock.Target(target)
		}
	}
	replay.Classify = classify
	replay.Done = func(result dlq.ReplayResult, err error) {
		if err != nil || result.Matched > 0 {
			log.Info("dead letters replayed", "replayed", result.Replayed, "failed", result.Failed, "held_back",
				result.HeldBack, "err", err)
		}
		logSweep(store.Sweep(d.stopping), log)
	}
	if d.replayer, err = dlq.NewReplayer(replay); err != nil {
		return nil, err
	}
	retention := c.RetentionOptions(store)
	retention.Refused = p.storage.engine.ClockJumped
	retention.Done = func(purged int, err error) {
		if purged > 0 || err != nil {
			log.Info("dead letters purged", "purged", purged, "err", err)
		}
	}
	d.retention, err = dlq.NewRetention(retention)
	return d, err
}

// classify names the class of a failed replay. What the fold refused again is told apart,
// because its next replay needs another key.
func classify(err error) string {
	var refused *engine.RefusedError
	if errors.As(err, &refused) {
		return deadletter.ClassRefused
	}
	var unavailable *engine.UnavailableError
	if errors.As(err, &unavailable) {
		return "" // it was not tried
	}
	return retry.ClassOf(err).String()
}

// run replays and cleans by schedule once ready is closed. Its end also ends the replays that were
// asked for.
func (d *deadLetters) run(ready <-chan struct{}) func(ctx context.Context) error {
	scheduled := after(ready, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return d.retention.Run(ctx) })
		g.Go(func() error { return d.replayer.Run(ctx) })
		return g.Wait()
	})
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, d.stop)()
		return scheduled(ctx)
	}
}

// Replay replays what matches.
func (d *deadLetters) Replay(ctx context.Context, q dlq.Query, dryRun bool) (dlq.ReplayResult, error) {
	ctx, done := d.untilStop(ctx)
	defer done()
	return d.replayer.Replay(ctx, q, dryRun)
}

// ReplayIDs replays single ones.
func (d *deadLetters) ReplayIDs(ctx context.Context, ids []string, dryRun bool) (dlq.ReplayResult, error) {
	ctx, done := d.untilStop(ctx)
	defer done()
	return d.replayer.ReplayIDs(ctx, ids, dryRun)
}

// untilStop is a context that also ends with the engine.
func (d *deadLetters) untilStop(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.stopping, func() { cancel(engine.ErrStopping) })
	return ctx, func() { stop(); cancel(nil) }
}

// DiscardMatching removes what matches.
func (d *deadLetters) DiscardMatching(ctx context.Context, q dlq.Query, dryRun bool) (int, error) {
	return dlq.DiscardMatching(ctx, d.RangeStore, q, dryRun)
}

// Purge removes what was saved before a time.
func (d *deadLetters) Purge(ctx context.Context, before time.Time, dryRun bool) (int, error) {
	if dryRun {
		return d.DiscardMatching(ctx, dlq.Query{To: before}, true)
	}
	n, err := d.RangeStore.Purge(ctx, before)
	if n > 0 {
		err = errors.Join(err, d.Compact(ctx))
	}
	return n, err
}

// measure refreshes the figures of a shared storage.
func (d *deadLetters) measure(ctx context.Context) {
	if !d.shared {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measureEvery)
	defer cancel()
	if st, err := d.Stats(ctx); err == nil { // which also refreshes its gauges
		d.latest.Store(&st)
	}
}

// stats are at most a few seconds old.
func (d *deadLetters) stats() (st dlq.Stats, ok bool) {
	if d.shared {
		if st := d.latest.Load(); st != nil {
			return *st, true
		}
		return st, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := d.Stats(ctx)
	return st, err == nil
}

// reasonLagging is the reason of a log range that a sink was too far behind for.
const reasonLagging = "lagging"

// undelivered makes dead letters of what sinks did not get.
type undelivered struct {
	store    *dlq.RangeStore
	instance string // of this engine
	filter   *dlq.Filter
	metrics  *dlq.Metrics
	log      *slog.Logger
}

// save saves items that a sink did not get, as far as the filter wants them.
func (l *undelivered) save(ctx context.Context, list []dispatch.DeadLetter) error {
	entries := make([]dlq.Entry, 0, len(list))
	for i := range list {
		entry := deadletter.Undelivered(&list[i])
		entry.ID = deadletter.ID(l.instance, &entry)
		if l.filter.ShouldSave(dlq.SubjectOf(&entry)) {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return l.saved(l.store.Save(ctx, entries))
}

// saved is the error of a Save that may be tried again.
func (l *undelivered) saved(err error) error {
	if errors.Is(err, dlq.ErrInvalid) {
		l.log.Error("dead letters dropped, they cannot be stored", "err", err)
		return nil
	}
	return err
}

// lagging archives a log range that a sink was too far behind for.
func (l *undelivered) lagging(ctx context.Context, sink string, from, to uint64) error {
	now := time.Now()
	entry := dlq.Entry{
		Origin: dlq.Sink, Sink: sink, Reason: reasonLagging, First: now, Last: now, Seq: from, SeqEnd: to, Index: -1,
		Error: fmt.Sprintf(
			"the sink lagged by more than max_lag_bytes and did not receive the events of log records %d to %d", from, to),
	}
	entry.ID = deadletter.ID(l.instance, &entry)
	err := l.saved(l.store.Archive(ctx, entry))
	if !errors.Is(err, dlq.ErrRangesFull) {
		return err
	}
	// A sink that is gone for good must not fill the disk: better that it lacks events, and
	// everybody is told, than that none are accepted any more.
	l.metrics.Dropped(dlq.DropFull, 1)
	l.log.Error("sink fell behind and dead-letter storage is full, events dropped", "sink", sink, "from",
		from, "to", to, "err", err)
	return nil
}

// Replay gives dead letters of one sink back to it. It is a dlq.Target.
func (s *sinks) Replay(ctx context.Context, entries []dlq.Entry) []error {
	errs := make([]error, len(entries))
	var items []dispatch.Item
	var places []int
	for i := range entries {
		e := &entries[i]
		if e.SeqEnd != 0 {
			errs[i] = s.replayRange(ctx, e)
			continue
		}
		item, err := deadletter.Item(e)
		if err != nil {
			errs[i] = err
			continue
		}
		items = append(items, item)
		places = append(places, i)
	}
	for k, err := range deliver(ctx, s.dispatcher, entries[0].Sink, items) {
		errs[places[k]] = err
	}
	return errs
}

// deliver sends items to a sink once and returns an error, or nil, for each.
func deliver(ctx context.Context, d *dispatch.Dispatcher, sink string, items []dispatch.Item) []error {
	errs := make([]error, len(items))
	if len(items) == 0 {
		return errs
	}
	result := d.Deliver(ctx, sink, items)
	for i := range errs {
		errs[i] = result.Err
	}
	for _, f := range result.Failed {
		errs[f.Index] = f.Err
	}
	return errs
}

// rangeBatch is how many events of a log range go out at once.
const rangeBatch = 500

// replayRange sends a sink the events of a log range that it was too far behind for, no
// faster than dead letters are replayed. Events that the sink refuses for good become
// dead letters of their own. After any other failure the range stays, and the next replay
// begins at its start again: sinks must be idempotent.
func (s *sinks) replayRange(ctx context.Context, e *dlq.Entry) (err error) {
	archive, err := s.undelivered.store.Open(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	pace := rate.NewLimiter(rate.Limit(s.replayRate), rangeBatch)
	var items []dispatch.Item
	send := func() error {
		if len(items) == 0 {
			return nil
		}
		if err := pace.WaitN(ctx, len(items)); err != nil {
			return err
		}
		defer func() { items = items[:0] }()
		return s.sendRange(ctx, e, items)
	}
	for {
		var rec wal.Record
		ok, err := archive.Next(&rec)
		if err != nil {
			return err
		}
		if !ok {
			return send()
		}
		rec.Payload = append([]byte{}, rec.Payload...) // items point into it
		index := 0
		splitErr := record.Items(&rec, func(item dispatch.Item) {
			item.Seq, item.Index = rec.Seq, index
			index++
			if err != nil {
				return
			}
			if items = append(items, item); len(items) == rangeBatch {
				err = send()
			}
		})
		if err = errors.Join(err, splitErr); err != nil {
			return fmt.Errorf("record %d: %w", rec.Seq, err)
		}
	}
}

func (s *sinks) sendRange(ctx context.Context, e *dlq.Entry, items []dispatch.Item) error {
	var refused []dispatch.DeadLetter
	now := time.Now()
	for i, err := range deliver(ctx, s.dispatcher, e.Sink, items) {
		if err == nil {
			continue
		}
		class := retry.ClassOf(err)
		if class != retry.ClassPermanent {
			return err
		}
		refused = append(refused, dispatch.DeadLetter{
			Item: items[i], Sink: e.Sink, Reason: dispatch.ReasonPermanent, Class: class, Err: err.Error(),
			Attempts: 1, First: now, Last: now,
		})
	}
	if len(refused) == 0 {
		return nil
	}
	return s.undelivered.save(ctx, refused)
}

// RejectsFile keeps how many events were rejected.
const RejectsFile = "rejects.json"

// saveDeadLetters saves those of sources, and notes the types that the spec does not have.
func (p *parts) saveDeadLetters(ctx context.Context, entries []dlq.Entry) error {
	if err := p.storage.deadLetters.Save(ctx, entries); err != nil {
		return err
	}
	var b event.Batch
	for i := range entries {
		e := &entries[i]
		if code := event.Code(e.Class); e.Type != "" && (code == event.CodeUnknownService || code == event.CodeUnknownType) {
			b.Refuse([]byte(e.Service), []byte(e.Type), code, 1)
		}
	}
	if len(b.Unknown) > 0 {
		p.intake.rejects.DeadLetters(b.Unknown)
	}
	return nil
}
