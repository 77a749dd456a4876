package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/logrange"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// sinkStop is how long a reload waits for the calls of a sink that it removes or changes.
const sinkStop = 30 * time.Second

// Sinks are the sinks of the engine, which come, change and go by a reload.
type Sinks struct {
	Dispatcher  *dispatch.Dispatcher
	deadLetters *deadLetters
	link        *shared.Link         // nil without Redis
	Shared      *shared.Destinations // nil without Redis
	parts       config.SinkParts
	replayRate  float64 // events a second
	log         *slog.Logger

	mu   sync.Mutex                    // held while sinks change
	list atomic.Pointer[[]config.Sink] // those that run
}

// Options are the parts of the engine that sinks need.
type Options struct {
	Config      *config.Config
	Dir         string // the data directory
	Source      *wal.Log
	Link        *shared.Link // nil without Redis
	Instance    string       // of this engine
	Store       *logrange.Store
	Filter      *dlq.Filter
	DeadLetters *dlq.Metrics
	Metrics     *dispatch.Metrics
	Kafka       *kafkaclient.Metrics
	RabbitMQ    *amqpclient.Metrics
	Log         *slog.Logger
}

// Open takes up every sink at its cursor, so that the log is retained for it.
func Open(o Options) (s *Sinks, err error) {
	dead := &deadLetters{store: o.Store, instance: o.Instance, filter: o.Filter, metrics: o.DeadLetters, log: o.Log}
	d, err := dispatch.New(dispatch.Options{
		FS: fsys.OS(), Dir: filepath.Join(o.Dir, engine.SinkDir), Source: o.Source, Split: record.Items,
		DeadLetter: dead.undelivered, OnLag: dead.lagging, Logger: o.Log, Metrics: o.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("open sinks: %w", err)
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	s = &Sinks{
		Dispatcher: d, deadLetters: dead, link: o.Link, replayRate: o.Config.DeadLetters.Replay.Rate, log: o.Log,
		parts: config.SinkParts{FS: fsys.OS(), Answered: o.Metrics.Answered, Kafka: o.Kafka, RabbitMQ: o.RabbitMQ,
			Shared: func(l config.SharedSinkLimit) (dispatch.Limiter, error) {
				return shared.NewOutbound(shared.OutboundOptions{
					Link: o.Link, Name: l.Name, N: l.Limit, Window: l.Window, MaxWait: l.MaxWait, Alone: l.Fallback,
				})
			}},
	}
	if o.Link != nil {
		s.Shared = shared.NewDestinations(o.Link, o.Instance)
		s.parts.Sharing = func(name string, budget retry.BudgetOptions) (dispatch.Sharing, error) {
			return s.Shared.Of(name, budget)
		}
	}
	s.list.Store(&o.Config.Sinks)
	for i := range o.Config.Sinks {
		made, err := o.Config.Sinks[i].Options(s.parts)
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

// named finds a sink by its name.
func named(list []config.Sink, name string) *config.Sink {
	if i := slices.IndexFunc(list, func(s config.Sink) bool { return s.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// Prepare makes what other settings say about sinks, as far as it can fail, and
// returns what puts it in force. A sink that is changed keeps its cursor; one that is
// removed loses it.
func (s *Sinks) Prepare(next []config.Sink) (apply func(), err error) {
	made := map[string]dispatch.SinkOptions{}
	old := *s.list.Load()
	for i := range next {
		n := &next[i]
		if was := named(old, n.Name); was != nil && reflect.DeepEqual(*was, *n) {
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

func (s *Sinks) change(next []config.Sink, made map[string]dispatch.SinkOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, old := s.Dispatcher, *s.list.Load()
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
		if named(next, old[i].Name) != nil {
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
		n, was := &next[i], named(old, next[i].Name)
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
