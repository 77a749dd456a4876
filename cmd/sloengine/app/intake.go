package app

import (
	"log/slog"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app/admission"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/ingest/servicebudget"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// intake is what stands between senders and the log: who may send, how much of it, and what is taken out of it.
type intake struct {
	http        *ingest.HTTPMetrics
	auth        *ingest.Auth
	redis       redisClients
	rates       *admission.RateLimits
	redaction   *admission.Redaction
	budgets     *servicebudget.Budgets
	rejects     *rejects.Table
	seen        *otlp.Seen
	findings    *otlp.Findings
	filter      *dlq.Filter // of dead letters
	deadLetters *dlq.Metrics
}

func (b *builder) intake() (in *intake, err error) {
	c := &b.config
	in = &intake{http: ingest.NewHTTPMetrics(b.set), deadLetters: dlq.NewMetrics(b.set)}
	if in.filter, err = c.DeadLetterFilter(in.deadLetters); err != nil {
		return nil, err
	}
	if in.redis, err = connectRedis(c, b.Log, shared.NewMetrics(b.set), b.delivery.Breakers(), b.group); err != nil {
		return nil, err
	}
	redis := admission.Redis{Client: in.redis.limits, Link: in.redis.link}
	if in.rates, err = admission.NewRateLimits(c, redis, in.filter, b.set, b.Log); err != nil {
		return nil, err
	}
	if in.redaction, err = admission.NewRedaction(c, b.set); err != nil {
		return nil, err
	}
	in.seen = otlp.NewSeen(time.Now)
	in.findings = b.findings()
	in.rejects = rejects.New(in.redaction.Active, time.Now)
	in.budgets = servicebudget.New(c.Ingest.Queue, b.set)
	in.budgets.Set(c.ServiceBudgets())
	in.auth, err = newAuth(c, in.http, b.Listen, b.Log)
	return in, err
}

// findings are what OpenTelemetry signals show of senders.
func (b *builder) findings() *otlp.Findings {
	f := otlp.NewFindings(otlp.FindingsOptions{Logger: b.Log, Traced: func(service []byte) bool {
		_, ok := Known(b.specs.InForce().Spec).Traced[string(service)]
		return ok
	}})
	for why, name := range otlp.FindingReasons() {
		metric.OTLPFindings.Read(b.set, func() (n float64) {
			for _, x := range f.Snapshot() {
				if int(x.Reason) == why {
					n++
				}
			}
			return n
		}, name)
	}
	return f
}

// keptOfSpans says what spans of services keep. Other settings of OpenTelemetry take effect at a start.
func (b *builder) keptOfSpans(services []string, started time.Time) []otlp.Kept {
	out, loaded := make([]otlp.Kept, len(services)), b.specs.InForce().Loaded.UTC()
	for i, service := range services {
		named, _ := b.specs.MergeBy([]byte(service))
		out[i] = otlp.Kept{Service: service, Attributes: append([]string{}, named...), NamedSince: loaded,
			Keep: append([]string{}, b.config.OTLP.Keep...), KeepSince: started.UTC()}
	}
	return out
}

// handler takes events over HTTP.
func (b *builder) handler(p *parts) (*ingest.Handler, error) {
	c, in := &b.config, p.intake
	dataMap, err := c.CloudEventMapping()
	if err != nil {
		return nil, err
	}
	return ingest.NewHandler(ingest.HandlerOptions{
		Committer: p.storage.engine,
		Auth:      in.auth,
		Catalog:   func() event.Catalog { return b.specs.InForce().Catalog },
		SizeLimits: event.SizeLimits{
			MaxEventBytes:   int(c.Ingest.MaxEvent),
			MaxBatchEvents:  c.Ingest.MaxBatch,
			MaxFuture:       c.Ingest.MaxFuture,
			AllowedLateness: c.Ingest.AllowedLateness,
		},
		MaxBackfill:      func() time.Duration { return b.specs.InForce().Longest },
		MaxBodyBytes:     c.Ingest.MaxBody,
		MaxInFlightBytes: c.Ingest.BodiesInFlight,
		Deadline:         orNever(c.Ingest.Deadline),
		Reserve:          orNever(c.Ingest.DeadlineReserve),
		Metrics:          in.http,
		Logger:           b.Log,
		Limiter:          in.rates.Limiter,
		Critical:         in.rates.Critical,
		SaveCritical:     p.storage.deadLetters.Save,
		Redact:           in.redaction,
		Rejects:          in.rejects,
		Budgets:          in.budgets,
		Translation: ingest.Translation{
			CloudEvents: dataMap, Spans: &c.OTLP, Seen: in.seen, Findings: in.findings,
			Attributes: func(service []byte) []string {
				attrs, _ := b.specs.MergeBy(service)
				return attrs
			},
			Counters: p.storage.counters, Recorder: p.storage.engine, Thresholds: b.specs.Thresholds,
			Write: p.sources.Write,
		},
	})
}

// orNever is how options whose zero value is a default say 0.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// redisClients are nil without a redis section.
type redisClients struct {
	limits, dlq *redisconn.Client
	link        *shared.Link // watches over limits
}

// connectRedis makes the clients. Nothing is asked of Redis yet.
func connectRedis(c *config.Config, log *slog.Logger, m *shared.Metrics, breakers *breaker.Metrics,
	g *runGroup) (r redisClients, err error) {
	o, err := c.RedisOptions()
	if err != nil || o == nil {
		return r, err
	}
	// Dead letters are waited for, so their client has time-outs of its own.
	patient := *o
	patient.Retries, patient.DialTimeout = 3, 2*time.Second
	patient.Timeout, patient.WriteTimeout = 3*time.Second, 3*time.Second
	r.limits, r.dlq = redisconn.New(*o), redisconn.New(patient)
	g.addCloser("redis for rate limits", r.limits)
	g.addCloser("redis for dead letters", r.dlq)
	r.link, err = shared.NewLink(shared.LinkOptions{
		Client: r.limits, Prefix: c.RedisKeys("limits"), Timeout: c.Redis.Timeout, Logger: log,
		Metrics: m, Breakers: breakers,
	})
	return r, err
}
