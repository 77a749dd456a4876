package app

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/every"
)

// Run serves until ctx ends or something fails for good. Everything that it opens or starts is on
// the stack of one run group, and what comes last stops first: readiness falls, HTTP drains while
// the engine still answers, then the sinks stop, which read the engine's log, then the engine, and
// last the storages close. All of it shares one time-out.
func Run(ctx context.Context, opt Options) error {
	defer runtime.KeepAlive(ballast())
	s, err := readSettings(&opt)
	if err != nil {
		return err
	}
	g := newRunGroup()
	err = launch(ctx, opt, s, g)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // the end of a standby
	}
	return g.serve(ctx, err, s.config.Shutdown.Timeout, opt.Log)
}

// ballastBytes are added to the heap by which the garbage collector decides when to run.
const ballastBytes = 64 << 20

// ballast is memory that is never touched, so the system gives none for it. An engine with few ids has a heap of some
// 15 MB, which a few thousand requests fill once more: collecting each time takes 7 % of the CPU of single events. With
// ballast, garbage has as much room again as without, and ballastBytes. A tight memory limit leaves no room for that.
func ballast() []byte {
	if debug.SetMemoryLimit(-1) < 8*ballastBytes {
		return nil
	}
	return make([]byte, ballastBytes)
}

// launch answers health checks, opens the storage, which takes as long as the log is long, and then
// serves everything.
func launch(ctx context.Context, opt Options, s settings, g *runGroup) error {
	set := metrics.NewSet()
	f, err := listen(&opt, &s.config, set)
	if err != nil {
		return err
	}
	g.start(ctx, "http", f.serve)
	rpc, err := listenGRPC(&s.config, f.conns, opt.Log)
	if err != nil {
		return err
	}
	if rpc != nil {
		g.start(ctx, "grpc", rpc.serve)
	}
	if opt.Standby {
		f.handle(notReady("standing by while another engine uses the data directory", "The engine is a standby."))
		lock, err := standBy(ctx, opt.DataDir, opt.Log)
		if err != nil {
			return err
		}
		g.addCloser("lock of the data directory", lock)
		f.handle(opening())
		if s, err = readSettings(&opt); err != nil { // they may have changed meanwhile
			return err
		}
	}
	a, err := open(opt, s, f, set, g)
	if err != nil {
		return err
	}
	f.warnIfOpen(a.intake.auth)
	a.start(ctx, g)
	f.handle(a.routes.router)
	g.add("requests", func(stop context.Context) error {
		return f.drain(stop, func() { a.routes.events.Drain(drainBodyTime) })
	})
	if rpc != nil {
		rpc.warnIfOpen(a.intake.auth)
		rpc.handle(a.routes.events.GRPC(a.intake.auth.CheckHost))
		g.add("calls", func(stop context.Context) error {
			return rpc.drain(stop, func() { a.routes.events.Drain(drainBodyTime) })
		})
	}
	g.start(ctx, "streams", a.routes.web.Run) // open streams would hold the server up
	g.start(ctx, "reload on signal", onHangup(a.reloader.reload, a.storage.trail, a.specs))
	if opt.OnSources != nil {
		g.start(ctx, "import", after(a.storage.engine.Ready(), func(ctx context.Context) error {
			if err := opt.OnSources(ctx, a.sources.Status); err != nil && ctx.Err() == nil {
				return err
			}
			<-ctx.Done()
			return nil
		}))
	}
	if opt.OnReady != nil {
		g.start(ctx, "demo", after(a.storage.engine.Ready(), func(ctx context.Context) error {
			if err := opt.OnReady(ctx, f.base); err != nil && ctx.Err() == nil {
				return err
			}
			<-ctx.Done()
			return nil
		}))
	}
	g.add("readiness", func(context.Context) error { a.status.stopping.Store(true); return nil }) // the first to fall
	return nil
}

// start runs everything but HTTP. What is started later stops earlier.
func (a *app) start(ctx context.Context, g *runGroup) {
	eng := a.storage.engine
	ready := eng.Ready()
	g.start(ctx, "rejects", a.intake.rejects.Run)
	g.startLast(ctx, "engine", func(ctx context.Context) error { return eng.Run(ctx, a.engineParts()) })
	if link := a.intake.redis.link; link != nil {
		g.start(ctx, "redis", after(ready, link.Run))
		g.start(ctx, "shared breakers", after(ready, a.sinks.shared.Run))
	}
	g.start(ctx, "positions", after(ready, a.storage.positions.Run))
	g.start(ctx, "measurements", a.measure)
	g.start(ctx, "dead letters", a.deadLetters.run(ready))
	g.start(ctx, "sinks", after(ready, a.sinks.dispatcher.Run))
	g.start(ctx, "notifications", a.alerts.notifier.Run) // a recovery that takes long is something to tell of
	g.start(ctx, "alerts on the engine", func(ctx context.Context) error { return a.alerts.watch(ctx, ready) })
	g.start(ctx, "alerts without incidents", a.alerts.updateLate)
	g.start(ctx, "incidents", after(ready, a.incidents.run))
	g.start(ctx, "reports", after(ready, func(ctx context.Context) error {
		return a.reports.Run(ctx, a.routes.web.WriteReport)
	}))
	if a.subscribed != nil {
		g.start(ctx, "subscriptions", after(ready, func(ctx context.Context) error {
			return a.subscribed.Run(ctx, a.routes.web.PublicChanges)
		}))
	}
	g.start(ctx, "receivers", after(ready, a.alerts.receivers.Run))
	g.start(ctx, "reasons of pages", after(ready, a.storage.reasons.Run))
	if outlooks := a.evaluation.outlooks; outlooks != nil {
		g.start(ctx, "forecasts", after(ready, outlooks.Run))
	}
	if len(a.written) > 0 {
		g.start(ctx, "remote write", after(ready, a.written.run(a.routes.web.Gatherer)))
	}
	g.start(ctx, "replays", after(ready, a.evaluation.tries.Run))
	g.start(ctx, "evaluator", after(ready, a.reloader.begin)) // half-counted numbers are wrong
	g.start(ctx, "own events", after(ready, a.own.send))
	g.start(ctx, "audit log", a.storage.trail.file.Run)
	g.start(ctx, "expiry of tokens", a.intake.auth.WatchExpiry)
	g.start(ctx, "parked generations", after(ready, a.evaluation.parking.Evict))
	g.start(ctx, "rebuild", after(ready, a.evaluation.rebuilds.Run))
	g.start(ctx, "sources", after(ready, a.sources.Run)) // like requests, no more come once the engine stops
}

// engineParts are what the engine keeps its log for.
func (a *app) engineParts() engine.Parts {
	s := a.storage
	return engine.Parts{DeadLetters: s.deadLetters, Retain: s.neededFrom(a.sinks.dispatcher.Lowest),
		Instance: s.instance,
		Traces:   s.requests, History: s.bounds}
}

// measureEvery is how often figures are taken that no event brings.
const measureEvery = 5 * time.Second

// measure refreshes gauges that nothing else refreshes.
func (a *app) measure(ctx context.Context) error {
	for range every.Tick(ctx, measureEvery) {
		a.intake.rates.Limiter.Measure()
		a.deadLetters.measure(ctx)
	}
	return nil
}
