package sources

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka"
	"github.com/sloengine/sloengine/ingest/source/outbox"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/status"
)

// Sources are the sources of the engine, which come, change and go by a reload.
type Sources struct {
	o       Options
	metrics *source.Metrics
	kafka   *kafka.Metrics
	rabbit  *rabbitMetrics
	outbox  *outbox.Metrics

	mu      sync.Mutex // guards the rest
	next    []config.Source
	running map[string]*runningSource
	ctx     context.Context // of all; nil before run, and after it
	stopped bool
}

// Options are the parts of the engine that sources need.
type Options struct {
	Config    *config.Config
	Engine    *engine.Engine
	Positions *Positions
	Limiter   *ratelimit.Limiter
	Redact    source.Redactor
	Specs     *counting.Specs
	Save      func(context.Context, []dlq.Entry) error // dead letters
	Filter    *dlq.Filter
	Set       *metrics.Set
	Clients   *kafkaclient.Metrics
	Counters  *counter.Table
	// Observed is the end of what was observed of a stream of counters; zero: nothing was.
	Observed func(ctx context.Context, stream string) (time.Time, error)
	// Spans is what was observed of a stream.
	Spans func(ctx context.Context, stream string) ([]slo.Span, error)
	// SeeRules takes the alerting rules in the Prometheus of a source; nil: nothing is known of them any more.
	SeeRules func(source string, seen *state.RulesSeen)
	Log      *slog.Logger
}

// runningSource is a source and its goroutine.
type runningSource struct {
	config   config.Source
	intake   *source.Intake
	kafka    *kafka.Source                             // nil for other kinds
	rabbit   rabbitReader                              // nil for other kinds
	outbox   *outbox.Source                            // nil for other kinds
	series   interface{ Progress() []series.Progress } // nil for other kinds
	receiver *series.Receiver                          // likewise
	started  time.Time
	stop     context.CancelFunc
	ended    chan struct{}
}

// New starts nothing.
func New(o Options) *Sources {
	m := source.NewMetrics(o.Set)
	return &Sources{o: o, metrics: m, kafka: kafka.NewMetrics(m), rabbit: newRabbitMetrics(o.Set),
		outbox: outbox.NewMetrics(m), next: o.Config.Sources, running: map[string]*runningSource{}}
}

// Run reads from all sources, once their positions are known.
func (s *Sources) Run(ctx context.Context) error {
	select {
	case <-s.o.Positions.ready:
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	s.ctx = ctx
	s.change(s.next)
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, r := range s.running {
		<-r.ended
	}
	return nil
}

// Prepare returns what puts other settings in force. Sources whose settings did not change go on.
func (s *Sources) Prepare(next []config.Source) (apply func(), err error) {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next = next
		if s.ctx != nil && !s.stopped {
			s.change(next)
		}
	}, nil
}

// change stops and starts what differs. One that is changed goes on at its position.
func (s *Sources) change(next []config.Source) {
	for name, r := range s.running {
		i := slices.IndexFunc(next, func(n config.Source) bool { return n.Name == name })
		if i >= 0 && reflect.DeepEqual(next[i], r.config) {
			continue
		}
		r.stop()
		<-r.ended
		delete(s.running, name)
		if i < 0 {
			s.metrics.Forget(name)
			s.o.Clients.Forget("source:" + name)
			s.rabbit.forget(name)
			s.o.Log.Info("source removed", "source", name)
		}
	}
	for _, n := range next {
		if s.running[n.Name] != nil {
			continue
		}
		if err := s.start(n); err != nil {
			if s.ctx.Err() == nil {
				s.o.Log.Error("source not started; reload to retry", "source", n.Name, "err", err)
			}
			continue
		}
		s.o.Log.Info("source started", "source", n.Name, "kind", n.Kind())
	}
}

func (s *Sources) start(c config.Source) error {
	r := &runningSource{config: c, started: time.Now(), ended: make(chan struct{})}
	make := s.makeKafka
	switch {
	case c.Outbox != nil:
		make = s.makeOutbox
	case c.Prometheus != nil:
		make = s.makePrometheus
	case c.Kafka == nil:
		make = s.makeRabbitMQ
	}
	run, err := make(&c, r)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(s.ctx)
	r.stop = stop
	s.running[c.Name] = r
	go func() {
		defer close(r.ended)
		if err := run(ctx); err != nil {
			s.o.Log.Error("source ended", "source", c.Name, "err", err)
		}
	}()
	return nil
}

func (s *Sources) makeKafka(c *config.Source, r *runningSource) (run func(context.Context) error, err error) {
	known, err := s.o.Positions.of(s.ctx, c.Name)
	if err != nil {
		return nil, err
	}
	if r.intake, err = source.New(s.intake(c)); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	client, err := c.Kafka.Client("source:" + c.Name)
	if err != nil {
		return nil, err
	}
	client.Metrics = s.o.Clients
	r.kafka, err = kafka.New(kafka.Options{
		Settings: c.Kafka.Settings, Hostname: host, Intake: r.intake, Client: client, Positions: known,
		LongestWindow: s.longest, Metrics: s.kafka, Logger: s.o.Log,
	})
	if err != nil {
		return nil, err
	}
	return r.kafka.Run, nil
}

func (s *Sources) intake(c *config.Source) source.Options {
	ingest := &s.o.Config.Ingest
	return source.Options{
		Name: c.Name, Settings: c.Settings, Engine: s.o.Engine, Lose: s.o.Engine.Lose, Catalog: s.catalog,
		MaxBackfill: s.longest,
		SizeLimits: event.SizeLimits{
			MaxEventBytes: int(ingest.MaxEvent), MaxBatchEvents: ingest.MaxBatch, MaxFuture: ingest.MaxFuture,
			AllowedLateness: ingest.AllowedLateness,
		},
		Limiter: s.o.Limiter, Save: s.o.Save, Redact: s.o.Redact, Kinds: s.kinds, Metrics: s.metrics, Logger: s.o.Log,
		Wanted: func(e *dlq.Entry) bool {
			// That an event over its limit is critical, the filter has said already.
			return e.Reason == dlq.ReasonRateLimited || s.o.Filter.ShouldSave(dlq.SubjectOf(e))
		},
	}
}

func (s *Sources) catalog() event.Catalog { return s.o.Specs.InForce().Catalog }

func (s *Sources) longest() time.Duration { return s.o.Specs.InForce().Longest }

func (s *Sources) kinds() (out []source.ServiceType) {
	for _, service := range s.o.Specs.InForce().Spec.Services {
		for _, typ := range service.Types {
			out = append(out, source.ServiceType{Service: service.Name, Type: typ})
		}
		if len(service.Types) == 0 {
			out = append(out, source.ServiceType{Service: service.Name})
		}
	}
	return out
}

// Of is the intake of a source.
func (s *Sources) Of(name string) *source.Intake {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.running[name]; r != nil {
		return r.intake
	}
	return nil
}

// Accepted is how many events the running sources took.
func (s *Sources) Accepted() (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		n += r.intake.Totals().Accepted
	}
	return n
}

// Status is how all sources are, by name.
func (s *Sources) Status() []status.SourceStatus {
	s.mu.Lock()
	running := make([]*runningSource, 0, len(s.running))
	for i := range s.next {
		if r := s.running[s.next[i].Name]; r != nil {
			running = append(running, r)
		}
	}
	s.mu.Unlock()
	var out []status.SourceStatus
	for _, r := range running {
		n := r.intake.Totals()
		x := status.SourceStatus{
			Name: r.config.Name, Kind: r.config.Kind(), Messages: n.Messages, Bytes: n.Bytes, Accepted: n.Accepted,
			Duplicates: n.Duplicates,
			Rejected:   n.Rejected, Expired: n.Expired, DeadLetters: n.DeadLetters, LastBatch: n.LastBatch,
			Counters: r.counters(), Reading: s.progress(r),
		}
		if r.kafka != nil {
			x.Lag, x.Topics = r.kafka.Lag(), r.kafka.Topics()
		} else if r.outbox != nil {
			x.Table = tableStatus(r.outbox.Status())
			x.Lag = x.Table.Behind
		} else if q := consumed(r.rabbit); q != nil {
			x.Lag = int64(q.Messages)
			x.Topics = []status.SourceTopic{{Name: q.Name, Partitions: 1, Owned: 1, Lag: x.Lag}}
		}
		x.Troubles = r.intake.Troubles()
		for i := range x.Troubles {
			x.Paused = x.Paused || x.Troubles[i].Kind.Pauses()
		}
		out = append(out, x)
	}
	return out
}
