package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
)

// redisClients are nil without a redis section.
type redisClients struct {
	limits, dlq redis.UniversalClient
	link        *shared.Link // watches over limits
}

// connectRedis makes the clients. Nothing is asked of Redis yet.
func connectRedis(c *config.Config, log *slog.Logger, m *shared.Metrics, breakers *breaker.Metrics, g *runGroup) (r redisClients, err error) {
	redis.SetLogger(redisLog{log})
	o, err := c.RedisOptions()
	if err != nil || o == nil {
		return r, err
	}
	// Dead letters are waited for, so their client has time-outs of its own.
	patient := *o
	patient.ContextTimeoutEnabled, patient.MaxRetries = false, 3
	patient.DialTimeout, patient.ReadTimeout, patient.WriteTimeout = 2*time.Second, 3*time.Second, 3*time.Second
	r.limits, r.dlq = redis.NewUniversalClient(o), redis.NewUniversalClient(&patient)
	g.addCloser("redis for rate limits", r.limits)
	g.addCloser("redis for dead letters", r.dlq)
	r.link, err = shared.NewLink(shared.LinkOptions{
		Client: r.limits, Prefix: c.RedisKeys("limits"), Timeout: c.Redis.Timeout, Logger: log, Metrics: m, Breakers: breakers,
	})
	return r, err
}

// redisLog takes what the client of Redis says of itself; the link logs what matters.
type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "msg", fmt.Sprintf(format, v...))
}
