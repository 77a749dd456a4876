package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// sinkStop is how long a reload waits for the calls of a sink that it removes or changes.
const sinkStop = 30 * time.Second

// sinkNamed finds a sink by its name.
func sinkNamed(list []config.Sink, name string) *config.Sink {
	if i := slices.IndexFunc(list, func(s config.Sink) bool { return s.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

func (r *delivery) sinkParts() config.SinkParts {
	return config.SinkParts{FS: fsys.OS(), Shared: r.sharedLimit, Answered: r.sinkMetrics.Answered}
}

// openSinks takes up every sink where it was, so that the log is held for it.
func (r *delivery) openSinks(log *wal.Log) (retain func() (uint64, bool), err error) {
	d, err := dispatch.New(dispatch.Options{
		FS: fsys.OS(), Dir: filepath.Join(r.dir, engine.SinkDir), Source: log, Split: record.Items,
		DeadLetter: r.deadLetters.undelivered, OnLag: r.deadLetters.lagging, Logger: r.log, Metrics: r.sinkMetrics,
	})
	if err != nil {
		return nil, fmt.Errorf("open sinks: %w", err)
	}
	r.opened.add("sinks", func(context.Context) error { d.Close(); return nil })
	r.sinksMu.Lock()
	defer r.sinksMu.Unlock()
	list := *r.sinkList.Load()
	for i := range list {
		o, err := list[i].Options(r.sinkParts())
		if err != nil {
			return nil, fmt.Errorf("open sinks: %w", err)
		}
		if err := d.Add(o); err != nil {
			if c, ok := o.Sink.(io.Closer); ok {
				err = errors.Join(err, c.Close())
			}
			return nil, fmt.Errorf("open sinks: %w", err)
		}
	}
	r.sinks.Store(d)
	return d.Lowest, nil
}

// reloadSinks makes what other settings say about sinks, as far as it can fail, and
// returns what puts it in force. A sink that is changed keeps its cursor; one that is
// removed loses it.
func (r *delivery) reloadSinks(next []config.Sink) (apply func(), err error) {
	made := map[string]dispatch.SinkOptions{}
	old := *r.sinkList.Load()
	for i := range next {
		s := &next[i]
		if was := sinkNamed(old, s.Name); was != nil && reflect.DeepEqual(*was, *s) {
			continue
		}
		if s.RateLimit != nil && s.RateLimit.Shared && r.link == nil {
			return nil, fmt.Errorf("sink %s: rate_limit.shared needs redis, and a redis section takes effect with a restart", s.Name)
		}
		if made[s.Name], err = s.Options(r.sinkParts()); err != nil {
			return nil, err
		}
	}
	return func() { r.changeSinks(next, made) }, nil
}

func (r *delivery) changeSinks(next []config.Sink, made map[string]dispatch.SinkOptions) {
	r.sinksMu.Lock()
	defer r.sinksMu.Unlock()
	d, old := r.sinks.Load(), *r.sinkList.Load()
	if d == nil { // the folder is not open yet: they are taken up as they are then
		r.sinkList.Store(&next)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sinkStop)
	defer cancel()
	var running []config.Sink
	told := func(what, sink string, err error) bool {
		if err != nil {
			r.log.Error("sink not "+what+"; reload again to try once more", "sink", sink, "err", err)
			return false
		}
		r.log.Info("sink "+what, "sink", sink)
		return true
	}
	// Those that go first, as they may hold a folder that another one wants.
	for i := range old {
		if sinkNamed(next, old[i].Name) != nil {
			continue
		}
		err := d.Remove(ctx, old[i].Name)
		if errors.Is(err, dispatch.ErrNoSink) {
			err = nil
		}
		if !told("removed", old[i].Name, err) {
			running = append(running, old[i])
		}
	}
	for i := range next {
		s, was := &next[i], sinkNamed(old, next[i].Name)
		o, changed := made[s.Name]
		switch {
		case !changed:
			running = append(running, *s)
		case was == nil:
			if told("added", s.Name, d.Replace(ctx, o)) {
				running = append(running, *s)
			}
		case told("changed", s.Name, d.Replace(ctx, o)):
			running = append(running, *s)
		default:
			running = append(running, *was)
		}
	}
	r.sinkList.Store(&running)
}
