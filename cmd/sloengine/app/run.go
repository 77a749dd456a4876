package app

import (
	"context"
	"errors"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Run serves until ctx ends or something fails for good. Everything that it opens or starts is on
// the stack of one run group, and what comes last stops first: readiness falls, HTTP drains while
// the engine still answers, then the sinks stop, which read the engine's log, then the engine, and
// last the storages close. All of it shares one time-out.
func Run(ctx context.Context, opt Options) error {
	s, err := readSettings(&opt)
	if err != nil {
		return err
	}
	g := newRunGroup()
	a, err := launch(ctx, opt, s, g)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // it was told to stop while it stood by
	} else if err == nil {
		select {
		case <-ctx.Done():
			opt.Log.Info("stopping")
		case name := <-g.ended:
			opt.Log.Error("component ended, stopping the engine", "component", name)
		}
		a.stopping.Store(true) // readiness falls before anything is torn down
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), s.config.Shutdown.Timeout)
	defer done()
	err = errors.Join(err, g.stop(stop))
	opt.Log.Info("stopped", "err", err)
	return err
}

// launch answers health checks, opens the storage, which takes as long as the log is long, and then
// serves everything.
func launch(ctx context.Context, opt Options, s settings, g *runGroup) (*app, error) {
	set := metrics.NewSet()
	f, err := listen(&opt, &s.config, set)
	if err != nil {
		return nil, err
	}
	g.start(ctx, "http", f.serve)
	if opt.Standby {
		f.handle(notReady("standing by while another engine uses the data directory", "The engine is a standby."))
		lock, err := standBy(ctx, opt.DataDir, opt.Log)
		if err != nil {
			return nil, err
		}
		g.addCloser("lock of the data directory", lock)
		f.handle(opening())
		if s, err = readSettings(&opt); err != nil { // they may have changed meanwhile
			return nil, err
		}
	}
	a, err := open(opt, s, f, set, g)
	if err != nil {
		return nil, err
	}
	f.warnIfOpen(a.auth)
	a.start(ctx, g)
	f.handle(a.router)
	g.add("requests", func(stop context.Context) error { return f.drain(stop, func() { a.events.Drain(drainBodyTime) }) })
	g.start(ctx, "streams", a.web.Run) // open streams would hold the server up
	g.start(ctx, "reload on signal", onHangup(a.reloader.reload, a.trail, a.specs))
	if opt.OnReady != nil {
		g.start(ctx, "demo", after(a.engine.Ready(), func(ctx context.Context) error {
			if err := opt.OnReady(ctx, f.base); err != nil && ctx.Err() == nil {
				return err
			}
			<-ctx.Done()
			return nil
		}))
	}
	return a, nil
}

// start runs everything but HTTP. What is started later stops earlier.
func (a *app) start(ctx context.Context, g *runGroup) {
	ready := a.engine.Ready()
	g.startLast(ctx, "engine", func(ctx context.Context) error { return a.engine.Run(ctx, a.parts) })
	if a.link != nil {
		g.start(ctx, "redis", after(ready, a.link.Run))
		g.start(ctx, "shared breakers", after(ready, a.sinks.Shared.Run))
	}
	g.start(ctx, "positions", after(ready, a.positions.Run))
	g.start(ctx, "measurements", a.measure)
	g.start(ctx, "dead letters", a.deadLetters.run(ready))
	g.start(ctx, "sinks", after(ready, a.sinks.Dispatcher.Run))
	g.start(ctx, "notifications", a.alerts.notifier.Run) // a recovery that takes long is something to tell of
	g.start(ctx, "alerts on the engine", func(ctx context.Context) error { return a.alerts.watch(ctx, ready) })
	g.start(ctx, "alerts without incidents", a.alerts.updateLate)
	g.start(ctx, "incidents", after(ready, a.incidents.run))
	g.start(ctx, "reports", after(ready, a.reports.Sender.Run))
	g.start(ctx, "receivers", after(ready, a.alerts.receivers.Run))
	if a.outlooks != nil {
		g.start(ctx, "forecasts", after(ready, a.outlooks.Run))
	}
	g.start(ctx, "evaluator", after(ready, a.evaluate))
	g.start(ctx, "own events", after(ready, a.own.send))
	g.start(ctx, "audit log", a.trail.file.Run)
	g.start(ctx, "expiry of tokens", a.auth.WatchExpiry)
	g.start(ctx, "parked generations", after(ready, a.parking.Evict))
	g.start(ctx, "sources", after(ready, a.sources.Run)) // like requests, no more come once the engine stops
}

// evaluate ticks. Half-counted numbers are wrong numbers, so recovery must be over.
func (a *app) evaluate(ctx context.Context) error {
	if err := a.changes.Note(ctx); err != nil && ctx.Err() == nil {
		a.opt.Log.Error("effects of the spec change are unknown", "err", err)
	}
	return a.eval.Run(ctx)
}

// measureEvery is how often figures are taken that no event brings.
const measureEvery = 5 * time.Second

// measure refreshes gauges that nothing else refreshes.
func (a *app) measure(ctx context.Context) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		a.rates.Limiter.Measure()
		a.deadLetters.measure(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
