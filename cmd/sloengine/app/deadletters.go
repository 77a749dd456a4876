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

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/logrange"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// openDeadLetters opens the storage of the dead letters and of their log ranges. instance begins
// the IDs of this engine's dead letters.
func (b *builder) openDeadLetters(in *intake, source *wal.Log, instance string) (*logrange.Store, error) {
	storage, err := b.config.DeadLetterStore(b.DataDir, in.redis.dlq, in.deadLetters)
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	b.group.addCloser("dead letters", storage)
	logDamage(storage, b.Log)
	store := logrange.New(logrange.Options{
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
	*logrange.Store
	shared    bool // with other engines, in Redis
	replayer  *dlq.Replayer
	retention *dlq.Retention
	log       *slog.Logger

	stopping context.Context    // replays that were asked for end with it
	stop     context.CancelFunc // of stopping

	latest atomic.Pointer[dlq.Stats] // of a shared storage, which is not asked for each view
}

// deadLetters replays entries of admission and of the fold to the engine, and those of sinks to
// their sink.
func (b *builder) deadLetters(p *parts) (d *deadLetters, err error) {
	c, store, m, log := &b.config, p.storage.deadLetters, p.intake.deadLetters, b.Log
	d = &deadLetters{Store: store, shared: c.DeadLetters.Storage == "redis", log: log}
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
	return dlq.DiscardMatching(ctx, d.Store, q, dryRun)
}

// Purge removes what was saved before a time.
func (d *deadLetters) Purge(ctx context.Context, before time.Time, dryRun bool) (int, error) {
	if dryRun {
		return d.DiscardMatching(ctx, dlq.Query{To: before}, true)
	}
	n, err := d.Store.Purge(ctx, before)
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
