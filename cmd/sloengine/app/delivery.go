package app

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/redact"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// delivery is what stands around the engine: limits in front of it, sinks behind it,
// and the dead letters of both and of the fold.
type delivery struct {
	c      *config.Config
	dir    string // the data folder
	log    *slog.Logger
	opened teardown // what it opened; closed when the engine has ended

	rates       *rateLimits
	deadLetters *deadLetters

	link     *shared.Link // nil without Redis
	limitsDB redis.UniversalClient
	dlqDB    redis.UniversalClient

	dlqMetrics    *dlq.Metrics
	sinkMetrics   *dispatch.Metrics
	sharedMetrics *shared.Metrics

	sinks    atomic.Pointer[dispatch.Dispatcher] // nil before the folder is open
	sinkList atomic.Pointer[[]config.Sink]       // those that run; changed with sinksMu held
	sinksMu  sync.Mutex

	isOpen chan struct{}      // closed when the data folder is open
	end    context.CancelFunc // of the letters' life

	lastStats atomic.Pointer[dlq.Stats] // of a storage that is not asked all the time
	redacting atomic.Pointer[redact.Redactor]
	redactM   *redact.Metrics
	redacts   atomic.Bool // there are rules
	salt      maphash.Seed
}

// newDelivery checks what the settings say and starts nothing. What is opened, now and
// later, is for closing to close.
func newDelivery(c *config.Config, dir string, log *slog.Logger, set *metrics.Set, closing *teardown) (*delivery, error) {
	r := &delivery{
		c: c, dir: dir, log: log, isOpen: make(chan struct{}),
		dlqMetrics: dlq.NewMetrics(set), sinkMetrics: dispatch.NewMetrics(set), sharedMetrics: shared.NewMetrics(set),
	}
	r.sinkList.Store(&c.Sinks)
	closing.add("storages", r.opened.run)
	filter, err := c.DeadLetterFilter(r.dlqMetrics)
	if err != nil {
		return nil, err
	}
	r.deadLetters = &deadLetters{dir: dir, fs: fsys.OS(), log: log, filter: filter, metrics: r.dlqMetrics, maxKept: c.DeadLetters.MaxBytes}
	r.deadLetters.life, r.end = context.WithCancel(context.Background())
	r.opened.add("replays", func(context.Context) error { r.end(); return nil })
	r.redactM = redact.NewMetrics(set)
	redactor, err := c.Redactor(r.redactM)
	if err != nil {
		return nil, err
	}
	r.redacting.Store(redactor)
	r.redacts.Store(len(c.Redact) > 0)
	r.salt = maphash.MakeSeed()
	redis.SetLogger(redisLog{log})
	if err := r.connect(); err != nil {
		return nil, err
	}
	if r.rates, err = newRateLimits(r, set); err != nil {
		return nil, err
	}
	return r, nil
}

// connect makes the clients of Redis. Nothing is asked of it yet.
func (r *delivery) connect() error {
	o, err := r.c.RedisOptions()
	if err != nil || o == nil {
		return err
	}
	// Dead letters are waited for, so their client has time-outs of its own.
	patient := *o
	patient.ContextTimeoutEnabled, patient.MaxRetries = false, 3
	patient.DialTimeout, patient.ReadTimeout, patient.WriteTimeout = 2*time.Second, 3*time.Second, 3*time.Second
	r.limitsDB, r.dlqDB = redis.NewUniversalClient(o), redis.NewUniversalClient(&patient)
	for _, c := range []redis.UniversalClient{r.limitsDB, r.dlqDB} {
		r.opened.add("redis", func(context.Context) error { return c.Close() })
	}
	r.link, err = shared.NewLink(shared.LinkOptions{
		Client: r.limitsDB, Prefix: r.c.RedisKeys("limits"), Timeout: r.c.Redis.Timeout,
		Logger: r.log, Metrics: r.sharedMetrics, Breakers: r.sinkMetrics.Breakers(),
	})
	return err
}

// Apply, ItemError and BodyError take personal data out, by the rules in force.
func (r *delivery) Apply(b *event.Batch) error { return r.redacting.Load().Apply(b) }

// ItemError is part of ingest.Redactor.
func (r *delivery) ItemError(e *event.ItemError) { r.redacting.Load().ItemError(e) }

// BodyError is part of ingest.Redactor.
func (r *delivery) BodyError(e *event.BodyError) { r.redacting.Load().BodyError(e) }

// redisLog takes what the client of Redis says of itself; the link logs what matters.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "msg", fmt.Sprintf(format, v...))
}

// reload checks the limits, redaction rules and sinks of other settings, and returns what
// puts them in force. What else changed needs a restart, and is named.
func (r *delivery) reload(next *config.Config) (apply func(), needRestart []string, err error) {
	limits, err := r.rates.prepare(next)
	if err != nil {
		return nil, nil, err
	}
	redactor, err := next.Redactor(r.redactM)
	if err != nil {
		return nil, nil, err
	}
	sinks, err := r.reloadSinks(next.Sinks)
	if err != nil {
		return nil, nil, err
	}
	for _, section := range r.c.Changed(next) {
		if !slices.Contains(reloaded, section) {
			needRestart = append(needRestart, section)
		}
	}
	return func() {
		r.redacting.Store(redactor)
		r.redacts.Store(len(next.Redact) > 0)
		limits()
		sinks()
	}, needRestart, nil
}

// reloaded are the sections that a reload puts in force. The policies are those of the
// sinks, each of which has its own.
var reloaded = []string{"redact", "limits", "sinks", "retry", "breaker", "bulkhead", "timeout"}

// open takes part in the data folder: it is ingest's OnOpen. replay gives dead letters of
// admission and of the fold back.
func (r *delivery) open(log *wal.Log, replay dlq.Target) (parts engine.Parts, err error) {
	if r.deadLetters.instance, err = instanceOf(r.deadLetters.fs, r.dir); err != nil {
		return parts, err
	}
	store, err := r.c.DeadLetterStore(r.dir, r.dlqDB, r.dlqMetrics)
	if err != nil {
		return parts, fmt.Errorf("open dead letters: %w", err)
	}
	r.opened.add("dead letters", func(context.Context) error { return store.Close() })
	r.deadLetters.tellDamage(store)
	held := &deadLetterStore{Store: store, wal: log}
	options := r.c.ReplayOptions(store, r.dlqMetrics)
	options.Targets = map[dlq.Origin]dlq.Target{dlq.Admission: replay, dlq.Fold: replay, dlq.Sink: r.replaySink}
	if r.c.DeadLetters.Storage == "redis" {
		alone := dlq.NewReplayLock(r.dlqDB, r.c.RedisKeys("dlq")+":replaying", store)
		for origin, target := range options.Targets {
			options.Targets[origin] = alone.Target(target)
		}
	}
	options.Classify = classify
	options.Done = func(result dlq.ReplayResult, err error) {
		if err != nil || result.Matched > 0 {
			r.log.Info("dead letters replayed", "replayed", result.Replayed, "failed", result.Failed, "held_back", result.HeldBack, "err", err)
		}
		if err := r.deadLetters.sweep(context.Background(), held); err != nil {
			r.log.Error("log ranges without a dead letter could not be removed", "err", err)
		}
	}
	if held.replayer, err = dlq.NewReplayer(options); err != nil {
		return parts, err
	}
	if err := r.deadLetters.sweepKept(context.Background(), store, func(string) bool { return true }); err != nil {
		r.log.Error("log ranges without a dead letter could not be removed", "err", err)
	}
	r.deadLetters.store.Store(held)
	parts.DeadLetters, parts.Instance = store, r.deadLetters.instance
	if parts.Retain, err = r.openSinks(log); err != nil {
		return parts, err
	}
	close(r.isOpen)
	return parts, nil
}

// classify names the class of a failed replay. What the fold refused again is told apart,
// because its next replay needs another key.
func classify(err error) string {
	var refused *engine.RefusedError
	if errors.As(err, &refused) {
		return engine.ClassRefused
	}
	var unavailable *engine.UnavailableError
	if errors.As(err, &unavailable) {
		return "" // it was not tried
	}
	return retry.ClassOf(err).String()
}

// sharedLimit makes a limit for calls to a sink that all instances have in common.
func (r *delivery) sharedLimit(l config.SharedSinkLimit) (dispatch.Limiter, error) {
	return shared.NewOutbound(shared.OutboundOptions{
		Link: r.link, Name: l.Name, N: l.Limit, Window: l.Window, MaxWait: l.MaxWait, Alone: l.Fallback,
	})
}

// run works until ctx ends: it delivers to the sinks, replays and cleans by schedule,
// and watches over Redis. ready is closed when the engine takes events.
func (r *delivery) run(ctx context.Context, ready <-chan struct{}) error {
	defer context.AfterFunc(ctx, r.end)()
	for _, wait := range []<-chan struct{}{r.isOpen, ready} {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil
		}
	}
	held, err := r.deadLetters.opened()
	if err != nil {
		return err
	}
	retention := r.c.RetentionOptions(held.Store)
	retention.Done = func(purged int, err error) {
		if err == nil {
			err = r.deadLetters.sweep(ctx, held)
		}
		if purged > 0 || err != nil {
			r.log.Info("dead letters purged", "purged", purged, "err", err)
		}
	}
	cleaner, err := dlq.NewRetention(retention)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.sinks.Load().Run(ctx) })
	g.Go(func() error { return cleaner.Run(ctx) })
	g.Go(func() error { return held.replayer.Run(ctx) })
	if r.link != nil {
		g.Go(func() error { return r.link.Run(ctx) })
	}
	g.Go(func() error { return r.measure(ctx, held.Store) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// measureEvery is how often figures are taken that no event brings.
const measureEvery = 5 * time.Second

// measure keeps gauges fresh that only change when somebody looks.
func (r *delivery) measure(ctx context.Context, store dlq.Store) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		r.rates.limiter.Measure()
		if r.c.DeadLetters.Storage == "redis" {
			asked, cancel := context.WithTimeout(ctx, measureEvery)
			if st, err := store.Stats(asked); err == nil { // its gauges are made fresh by that too
				r.lastStats.Store(&st)
			}
			cancel()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
