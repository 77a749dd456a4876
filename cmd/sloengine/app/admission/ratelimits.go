package admission

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/redisconn"
	"github.com/sloengine/sloengine/reliability/retry"
)

// RateLimits are the rate limits in front of the log. They come, change and go by a reload. The
// connection to Redis changes with a restart only.
type RateLimits struct {
	Limiter *ratelimit.Limiter
	metrics *ratelimit.Metrics
	failed  *metrics.Counter // expressions
	log     *slog.Logger
	filter  *dlq.Filter

	redis  Redis
	prefix string // of keys in Redis

	inForce atomic.Pointer[config.RateLimits] // nil: nothing is limited
	told    atomic.Bool                       // that an expression failed, since the last reload
}

// Redis is what limits of several engines share; nil fields without it.
type Redis struct {
	Client *redisconn.Client
	Link   *shared.Link // watches over it
}

// NewRateLimits puts the limits of the settings in force.
func NewRateLimits(c *config.Config, redis Redis, filter *dlq.Filter, set *metrics.Set,
	log *slog.Logger) (*RateLimits, error) {
	l := &RateLimits{
		metrics: ratelimit.NewMetrics(set), failed: metric.RateLimitExpressionErrors.Counter(set), log: log,
		filter: filter, redis: redis,
	}
	if redis.Link != nil {
		l.prefix = c.RedisKeys("limits")
	}
	var err error
	if l.Limiter, err = ratelimit.New(ratelimit.Options{Metrics: l.metrics}); err != nil {
		return nil, err
	}
	apply, err := l.Prepare(c)
	if err != nil {
		return nil, err
	}
	apply()
	return l, nil
}

// Prepare checks the limits of other settings and returns what puts them in force. The
// counters continue, unless they move elsewhere or their number changes.
func (l *RateLimits) Prepare(next *config.Config) (apply func(), err error) {
	policy, err := next.RatePolicy(l.expressionFailed)
	if err != nil {
		return nil, err
	}
	if policy == nil {
		return func() { l.Limiter.SetPolicy(nil); l.inForce.Store(nil) }, nil
	}
	before := l.inForce.Load()
	if before != nil && before.MaxContexts == next.Limits.MaxContexts && before.Shared == next.Limits.Shared {
		return func() { l.Limiter.SetPolicy(policy); l.took(next.Limits) }, nil
	}
	store, err := l.store(next)
	if err != nil {
		return nil, err
	}
	return func() { l.Limiter.Change(policy, store); l.took(next.Limits) }, nil
}

func (l *RateLimits) took(now *config.RateLimits) {
	l.told.Store(false)
	l.inForce.Store(now)
}

// store makes the counters.
func (l *RateLimits) store(c *config.Config) (ratelimit.Store, error) {
	sharing := &c.Limits.Shared
	if sharing.Redis && l.redis.Link == nil {
		return nil, errors.New("limits.shared.redis: the redis section was added after the start (restart the engine)")
	}
	table, err := ratelimit.NewTable(c.RateTable(sharing.Redis, l.metrics))
	if err != nil || !sharing.Redis {
		return table, err
	}
	counters, err := shared.NewStore(shared.StoreOptions{Client: l.redis.Client, Prefix: l.prefix})
	if err != nil {
		return nil, err
	}
	o := shared.FailoverOptions{Link: l.redis.Link, Shared: counters, Logger: l.log}
	if !sharing.Fallback.Off {
		o.Local = table
	}
	return shared.NewFailover(o)
}

// expressionFailed notes that an expression could not be computed for an event, which is
// judged as if it were not there.
func (l *RateLimits) expressionFailed(setting string, err error) {
	l.failed.Inc()
	if l.told.CompareAndSwap(false, true) {
		l.log.Warn("rate limit expression failed, ignoring it for this event", "setting", setting, "err", err)
	}
}

// MergeWindow is how long a request waits to be merged with others.
func (l *RateLimits) MergeWindow() time.Duration {
	if now := l.inForce.Load(); now != nil {
		return now.AggregateWindow
	}
	return 0
}

// Critical says whether an event over its limit is kept as a dead letter.
func (l *RateLimits) Critical(v *event.View) bool {
	now := l.inForce.Load()
	return now != nil && now.RespectDLQFilter && l.filter.Decide(&dlq.Subject{
		Service: string(v.Service), Type: string(v.Type), Severity: string(v.Severity), Outcome: v.Outcome.String(),
		Attributes: func() map[string]string { return v.AttributeMap() },
		Reason:     dlq.ReasonRateLimited, Class: retry.ClassOverload.String(),
	}).Save
}
