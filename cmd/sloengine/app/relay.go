package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/outbox/relay"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/web/collector"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// RelayOptions are what relay turns its flags into.
type RelayOptions struct {
	Config  config.Relay
	Version site.Version
	Listen  string
	Log     *slog.Logger
}

// relayStop bounds the shutdown of a relay.
const relayStop = 10 * time.Second

// RunRelay publishes the rows of an outbox table until ctx ends. A database or broker that is not reachable is no
// reason to end: readiness says so, and the relay goes on once it is.
func RunRelay(ctx context.Context, opt RelayOptions) error {
	g := newRunGroup()
	return g.serve(ctx, launchRelay(ctx, g, opt), relayStop, opt.Log)
}

func launchRelay(ctx context.Context, g *runGroup, opt RelayOptions) error {
	set := metrics.NewSet()
	metric.BuildInfo.Read(set, func() float64 { return 1 }, opt.Version.Version, opt.Version.Revision, opt.Version.Go)
	c := config.Default()
	c.Web.ConfigFile, c.Web.MaxConnections = opt.Config.Web.ConfigFile, opt.Config.Web.MaxConnections
	f, err := listen(&Options{Log: opt.Log, Listen: opt.Listen}, &c, set)
	if err != nil {
		return err
	}
	g.start(ctx, "http", f.serve)
	g.add("requests", func(stop context.Context) error { return f.drain(stop, func() {}) })
	pool, err := postgres.Open(opt.Config.Database)
	if err != nil {
		return err
	}
	g.add("database", func(context.Context) error { pool.Close(); return nil })
	publisher, err := opt.Config.Publisher(set)
	if err != nil {
		return err
	}
	g.addCloser("broker", publisher)
	o, err := opt.Config.Settings()
	if err != nil {
		return err
	}
	o.Database, o.Publisher, o.Log = pool, publisher, opt.Log
	o.Metrics, o.Breaker.Metrics = relay.NewMetrics(set, opt.Config.Destination()), breaker.NewMetrics(set)
	if opt.Config.Listen != nil {
		l := opt.Config.Listen
		o.Listen = func(ctx context.Context, wake func()) error { return listenFor(ctx, l.Options, l.Channel, wake) }
	}
	r, err := relay.New(o)
	if err != nil {
		return err
	}
	f.handle(relayRoutes(r, opt, set))
	opt.Log.Info("relaying", "table", o.Table.Name.Text(), "claim", o.Claim, "database", pool.Address(), "destination",
		opt.Config.Destination())
	g.startLast(ctx, "relay", r.Run)
	return nil
}

// listenFor calls wake for each notification of a channel, and once it listens, until the session ends.
func listenFor(ctx context.Context, o postgres.Options, channel string, wake func()) error {
	conn, err := postgres.Dial(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for wake(); ; wake() {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// relayRoutes answers health checks and scrapes.
func relayRoutes(r *relay.Relay, opt RelayOptions, set *metrics.Set) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	router := gin.New()
	router.HandleMethodNotAllowed = true
	router.GET("/-/healthy", func(c *gin.Context) {
		c.Header("Cache-Control", "no-store")
		respond.JSON(c, http.StatusOK, "application/json", gin.H{"status": "ok"})
	})
	router.GET("/-/ready", func(c *gin.Context) {
		c.Header("Cache-Control", "no-store")
		code, answer := relayReady(r.Status())
		respond.JSON(c, code, "application/json", answer)
	})
	router.GET("/metrics", gin.WrapH(collector.Handler(collector.Options{
		NoSeries: true, Sets: []*metrics.Set{set}, Registry: registry, Timeout: 10 * time.Second,
		LogError: func(msg string, err error) { opt.Log.Error(msg, "err", err) },
	})))
	return router
}

// relayHealth is the answer of /-/ready.
type relayHealth struct {
	Status  string        `json:"status"` // ready or degraded
	Buckets int           `json:"buckets"`
	Failing []failingPart `json:"failing,omitempty"`
}

type failingPart struct {
	Part   string     `json:"part"`
	Reason string     `json:"reason"`
	Since  *time.Time `json:"since,omitempty"`
}

func relayReady(s relay.Status) (code int, h relayHealth) {
	code, h = http.StatusOK, relayHealth{Status: "ready", Buckets: s.Buckets}
	for _, p := range []struct {
		name string
		relay.PartStatus
	}{{"database", s.Database}, {"broker", s.Broker}} {
		if p.OK {
			continue
		}
		part := failingPart{Part: p.name, Reason: p.Reason}
		if !p.Since.IsZero() {
			part.Since = &p.Since
		}
		code, h.Status, h.Failing = http.StatusServiceUnavailable, "degraded", append(h.Failing, part)
	}
	return code, h
}
