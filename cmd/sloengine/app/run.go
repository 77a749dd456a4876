package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	exporter "github.com/prometheus/exporter-toolkit/web"
)

// Run serves until ctx ends or something fails for good. Every goroutine of the process belongs
// to its run group. What is started last ends first: readiness falls, HTTP drains while the
// engine still answers, then the sinks stop, which read the engine's log, then the engine, and
// last the storages close.
func (a *App) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", a.opt.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), a.group.run(ctx))
	}
	base := a.baseURL(listener.Addr())
	if !loopback(a.opt.Listen) && !a.auth.Enabled() && a.config.Web.ConfigFile == "" {
		a.log.Warn("listening beyond loopback without tokens and TLS, anyone who can reach the address can send events and read everything")
	}
	a.log.Info("listening", "address", listener.Addr().String(), "url", base.String())

	g := a.group
	g.start(ctx, part{name: "engine", run: func(ctx context.Context) error { return a.engine.Run(ctx, a.parts) }, last: true})
	g.start(ctx, part{name: "sinks", run: func(ctx context.Context) error { return a.delivery.run(ctx, a.engine.Ready()) }})
	g.start(ctx, part{name: "evaluator", run: a.evaluate})
	g.start(ctx, part{name: "own events", run: a.sendOwnEvents})
	g.start(ctx, part{name: "parked generations", run: a.evictParked})
	g.start(ctx, part{name: "http", run: func(context.Context) error { return a.serveHTTP(listener) }, drain: a.drainHTTP})
	g.start(ctx, part{name: "streams", run: a.web.Run}) // open streams would hold the server up
	g.start(ctx, part{name: "reload on signal", run: a.reloadOnSignal})
	if a.opt.OnReady != nil {
		g.start(ctx, part{name: "demo", run: func(ctx context.Context) error {
			if err := a.waitReady(ctx); err != nil {
				return nil //nolint:nilerr // only the context can end the wait
			}
			if err := a.opt.OnReady(ctx, base); err != nil && ctx.Err() == nil {
				return err
			}
			<-ctx.Done()
			return nil
		}})
	}

	select {
	case <-ctx.Done():
		a.log.Info("stopping")
	case name := <-g.ended:
		a.log.Error("component ended, stopping the engine", "part", name)
	}
	a.stopping.Store(true) // readiness falls before anything is torn down
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), a.config.Shutdown.Timeout)
	defer done()
	err = g.run(stop)
	a.log.Info("stopped", "err", err)
	return err
}

func (a *App) serveHTTP(listener net.Listener) error {
	no := false
	err := exporter.Serve(a.conns.Listener(listener), a.server, &exporter.FlagConfig{
		WebConfigFile: &a.config.Web.ConfigFile, WebSystemdSocket: &no, WebListenAddresses: &[]string{a.opt.Listen},
	}, slog.New(slog.DiscardHandler))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// How long requests may go on once the engine is told to stop, and how long bodies may that
// are still on their way.
const (
	drainTime     = 15 * time.Second
	drainBodyTime = time.Second
)

// drainHTTP takes no new connections and lets the requests finish that are there.
func (a *App) drainHTTP(stop context.Context) {
	stop, done := context.WithTimeout(stop, drainTime)
	defer done()
	a.events.Drain(drainBodyTime)
	if err := a.server.Shutdown(stop); err != nil {
		a.log.Warn("requests were cut off at shutdown", "err", err)
		_ = a.server.Close() // it says what Shutdown said
	}
}

// evaluate waits for recovery, for half-counted numbers are wrong numbers, and
// then ticks.
func (a *App) evaluate(ctx context.Context) error {
	if err := a.waitReady(ctx); err != nil {
		return nil //nolint:nilerr // only the context can end the wait
	}
	if err := a.noteChange(ctx); err != nil && ctx.Err() == nil {
		a.log.Error("effects of the spec change are unknown", "err", err)
	}
	return a.eval.Run(ctx)
}

// waitReady returns once recovery is over, with an error only if ctx ends first.
func (a *App) waitReady(ctx context.Context) error {
	select {
	case <-a.engine.Ready():
		return nil
	case <-ctx.Done(): // also if the engine fails to start, which stops all parts
		return ctx.Err()
	}
}

// baseURL is the server as this machine reaches it.
func (a *App) baseURL(addr net.Addr) *url.URL {
	scheme := "http"
	if readWebConfig(a.config.Web.ConfigFile).TLS != nil {
		scheme = "https"
	}
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return &url.URL{Scheme: scheme, Host: host}
}
