package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/alerts/own"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/remotewrite"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/web/status"
)

// sinkStop is how long a reload waits for the calls of a sink that it removes or changes.
const sinkStop = 30 * time.Second

// sinks are those of the engine, which come, change and go by a reload.
type sinks struct {
	dispatcher  *dispatch.Dispatcher
	undelivered *undelivered
	link        *shared.Link         // nil without Redis
	shared      *shared.Destinations // nil without Redis
	parts       config.SinkParts
	replayRate  float64 // events a second
	log         *slog.Logger

	mu   sync.Mutex                    // held while sinks change
	list atomic.Pointer[[]config.Sink] // those that run
}

// sinks takes up every sink at its cursor, so that the log is retained for it.
func (b *builder) sinks(p *parts) (s *sinks, err error) {
	link, m := p.intake.redis.link, amqpclient.NewMetrics(b.set)
	dead := &undelivered{
		store: p.storage.deadLetters, instance: p.storage.instance, filter: p.intake.filter,
		metrics: p.intake.deadLetters, log: b.Log,
	}
	d, err := dispatch.New(dispatch.Options{
		FS: fsys.OS(), Dir: filepath.Join(b.DataDir, engine.SinkDir), Source: p.storage.engine.Log(), Split: record.Items,
		DeadLetter: dead.save, OnLag: dead.lagging, Logger: b.Log, Metrics: b.delivery,
	})
	if err != nil {
		return nil, fmt.Errorf("open sinks: %w", err)
	}
	b.group.add("sink files", func(context.Context) error { d.Close(); return nil })
	s = &sinks{
		dispatcher: d, undelivered: dead, link: link, replayRate: b.config.DeadLetters.Replay.Rate, log: b.Log,
		parts: config.SinkParts{FS: fsys.OS(), Answered: b.delivery.Answered, Kafka: b.kafka, RabbitMQ: m,
			Shared: func(l config.SharedSinkLimit) (dispatch.Limiter, error) {
				return shared.NewOutbound(shared.OutboundOptions{
					Link: link, Name: l.Name, N: l.Limit, Window: l.Window, MaxWait: l.MaxWait, Alone: l.Fallback,
				})
			}},
	}
	if link != nil {
		s.shared = shared.NewDestinations(link, p.storage.instance)
		s.parts.Sharing = func(name string, budget retry.BudgetOptions) (dispatch.Sharing, error) {
			return s.shared.Of(name, budget)
		}
	}
	s.list.Store(&b.config.Sinks)
	for i := range b.config.Sinks {
		made, err := b.config.Sinks[i].Options(s.parts)
		if err != nil {
			return nil, fmt.Errorf("open sinks: %w", err)
		}
		if err := d.Add(made); err != nil {
			if c, ok := made.Sink.(io.Closer); ok {
				err = errors.Join(err, c.Close())
			}
			return nil, fmt.Errorf("open sinks: %w", err)
		}
	}
	return s, nil
}

// namedSink finds a sink by its name.
func namedSink(list []config.Sink, name string) *config.Sink {
	if i := slices.IndexFunc(list, func(s config.Sink) bool { return s.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// prepare makes what other settings say about sinks, as far as it can fail, and
// returns what puts it in force. A sink that is changed keeps its cursor; one that is
// removed loses it.
func (s *sinks) prepare(next []config.Sink) (apply func(), err error) {
	made := map[string]dispatch.SinkOptions{}
	old := *s.list.Load()
	for i := range next {
		n := &next[i]
		if was := namedSink(old, n.Name); was != nil && reflect.DeepEqual(*was, *n) {
			continue
		}
		if (n.Shared || n.RateLimit != nil && n.RateLimit.Shared) && s.link == nil {
			return nil, fmt.Errorf("sink %s: shared requires the redis section, which takes effect after a restart", n.Name)
		}
		if made[n.Name], err = n.Options(s.parts); err != nil {
			return nil, err
		}
	}
	return func() { s.change(next, made) }, nil
}

func (s *sinks) change(next []config.Sink, made map[string]dispatch.SinkOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, old := s.dispatcher, *s.list.Load()
	ctx, cancel := context.WithTimeout(context.Background(), sinkStop)
	defer cancel()
	var running []config.Sink
	logged := func(what, sink string, err error) bool {
		if err != nil {
			s.log.Error("sink not "+what+"; reload again to retry", "sink", sink, "err", err)
			return false
		}
		s.log.Info("sink "+what, "sink", sink)
		return true
	}
	// Those that go first, as they may hold a directory that another one wants.
	for i := range old {
		if namedSink(next, old[i].Name) != nil {
			continue
		}
		err := d.Remove(ctx, old[i].Name)
		if errors.Is(err, dispatch.ErrNoSink) {
			err = nil
		}
		if !logged("removed", old[i].Name, err) {
			running = append(running, old[i])
			continue
		}
		s.parts.Kafka.Forget(config.ClientOfSink + old[i].Name)
		s.parts.RabbitMQ.Forget(config.ClientOfSink + old[i].Name)
	}
	for i := range next {
		n, was := &next[i], namedSink(old, next[i].Name)
		o, changed := made[n.Name]
		switch {
		case !changed:
			running = append(running, *n)
		case was == nil:
			if logged("added", n.Name, d.Replace(ctx, o)) {
				running = append(running, *n)
			}
		case logged("changed", n.Name, d.Replace(ctx, o)):
			running = append(running, *n)
		default:
			running = append(running, *was)
		}
	}
	s.list.Store(&running)
}

// status adds the sinks, their breakers and bulkheads to the condition of the engine.
func (s *sinks) status(e *status.Engine) {
	list := *s.list.Load()
	for _, x := range s.dispatcher.Status() {
		if c := namedSink(list, x.Name); c != nil {
			x.Kind = c.Kind()
		}
		e.Sinks, e.Bulkheads = append(e.Sinks, x), append(e.Bulkheads, x.Bulkhead)
		if b := &x.CircuitBreaker; !b.Off {
			e.Breakers = append(e.Breakers, status.BreakerStatus{
				Name: x.Name, State: x.Breaker, Since: b.Since, Reason: b.Reason, RetryAfterSeconds: b.RetryAfter.Seconds(),
			})
		}
	}
}

// RemoteWriteDir is where samples wait that were not sent.
const RemoteWriteDir = "remote_write"

// remoteWrites send the engine's own series. A reload does not change them.
type remoteWrites []*remotewrite.Writer

func (b *builder) remoteWrites(about own.Settings) (out remoteWrites, err error) {
	for i := range b.config.RemoteWrite {
		r := &b.config.RemoteWrite[i]
		client, err := r.Client()
		if err != nil {
			return nil, fmt.Errorf("remote_write %s: %w", r.Name, err)
		}
		settings := r.Settings
		settings.Labels = map[string]string{"job": about.Job, "instance": about.Instance} // which a scrape adds
		maps.Copy(settings.Labels, r.Labels)
		w, err := remotewrite.New(remotewrite.Options{Settings: settings, Name: r.Name, URL: r.URL, Client: client,
			Dir: filepath.Join(b.DataDir, RemoteWriteDir, r.Name), Set: b.set, Logger: b.Log})
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	left, _ := os.ReadDir(filepath.Join(b.DataDir, RemoteWriteDir)) // missing without remote_write
	for _, dir := range left {
		if !slices.ContainsFunc(b.config.RemoteWrite, func(r config.RemoteWrite) bool { return r.Name == dir.Name() }) {
			b.Log.Warn("folder of a server that is not in remote_write any more; remove it, or its samples stay",
				"dir", filepath.Join(b.DataDir, RemoteWriteDir, dir.Name()))
		}
	}
	return out, nil
}

// run sends until ctx ends.
func (w remoteWrites) run(from prometheus.Gatherer) func(context.Context) error {
	return func(ctx context.Context) error {
		var g errgroup.Group
		for _, one := range w {
			g.Go(func() error { return one.Run(ctx, from) })
		}
		return g.Wait()
	}
}

// status adds them as sinks, which they are to whoever looks after the engine.
func (w remoteWrites) status(e *status.Engine) {
	now := time.Now()
	for _, one := range w {
		x := one.Status(now)
		s := status.SinkStatus{
			Name: x.Name, Kind: status.RemoteWrite, LagRecords: uint64(x.Files), LagBytes: x.Bytes,
			OldestAgeSeconds: x.Lag.Seconds(), Delivered: x.Sent, Retries: x.Failures, Dropped: x.Dropped,
			LastDelivery: x.LastDelivery, LastError: x.Failure.Text(), LastErrorAt: x.Failure.Last,
		}
		if f := &x.Failure; f.Count > 0 {
			s.Troubles = []status.SinkTrouble{{Kind: dispatch.TroubleDelivery, Since: f.Since, Failures: f.Count,
				Cause: f.Text(), Brief: dispatch.BriefCause(f.Err), Blocked: retry.ClassOf(f.Err) == retry.ClassBlocked}}
		}
		e.Sinks = append(e.Sinks, s)
	}
}
