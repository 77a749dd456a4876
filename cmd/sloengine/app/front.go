package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	exporter "github.com/prometheus/exporter-toolkit/web"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/reliability/connlimit"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/status"
)

// front is an HTTP server: that of everything, or that of OTLP/gRPC. It answers health checks while the storage is
// being opened, and everything after that.
type front struct {
	log      *slog.Logger
	config   *config.Config
	address  string // as it was asked for
	listener net.Listener
	base     *url.URL // the server as this machine reaches it
	conns    *connlimit.Limit
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
}

// listen opens the socket that the options name, and serves nothing yet.
func listen(opt *Options, c *config.Config, set *metrics.Set) (*front, error) {
	conns, err := connlimit.New(connlimit.Options{Max: c.Web.MaxConnections, Metrics: set, Logger: opt.Log})
	if err != nil {
		return nil, err
	}
	f, err := listenAt(opt.Listen, c, conns, opt.Log)
	if err == nil {
		f.handle(opening())
		opt.Log.Info("listening", "address", f.listener.Addr().String(), "url", f.base.String())
	}
	return f, err
}

// listenGRPC opens the socket for OTLP/gRPC; nil: the settings have none. conns bounds the connections of both.
func listenGRPC(c *config.Config, conns *connlimit.Limit, log *slog.Logger) (*front, error) {
	if c.OTLP.GRPC == "" {
		return nil, nil
	}
	f, err := listenAt(c.OTLP.GRPC, c, conns, log)
	if err != nil {
		return nil, fmt.Errorf("otlp.grpc: %w", err)
	}
	f.handle(ingest.NoEngine("the engine is starting or standing by"))
	f.server.Protocols = &http.Protocols{}
	f.server.Protocols.SetUnencryptedHTTP2(true)
	f.server.Protocols.SetHTTP2(true)
	log.Info("listening for OTLP/gRPC", "address", f.listener.Addr().String())
	return f, nil
}

func listenAt(address string, c *config.Config, conns *connlimit.Limit, log *slog.Logger) (*front, error) {
	web, err := config.ReadWebConfig(c.Web.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("web.config_file: %w", err)
	}
	f := &front{log: log, config: c, address: address, conns: conns}
	f.server = &http.Server{Handler: f, ErrorLog: ingest.ErrorLog(log)}
	ingest.Harden(f.server)
	f.conns.Serve(f.server)
	if f.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	f.base = &url.URL{Scheme: "http", Host: f.listener.Addr().String()}
	if web.TLS != nil {
		f.base.Scheme = "https"
	}
	if tcp, ok := f.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		f.base.Host = fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return f, nil
}

// warnIfOpen warns of an address that anybody may use.
func (f *front) warnIfOpen(auth *ingest.Auth) {
	if !loopback(f.address) && !auth.Enabled() && f.config.Web.ConfigFile == "" {
		f.log.Warn(
			"listening beyond loopback without tokens and TLS, anyone who can reach the address can send events and read " +
				"everything")
	}
}

// handle answers requests by h from now on.
func (f *front) handle(h http.Handler) { f.handler.Store(&h) }

// ServeHTTP is part of http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.handler.Load()).ServeHTTP(w, r)
}

// opening answers while the storage is being opened.
func opening() http.Handler { return notReady("opening the data directory", "The engine is starting.") }

// notReady answers before there is an engine. A restart would not help, so the process is
// healthy; it is not ready.
func notReady(reason, title string) http.Handler {
	health := func(code int) gin.HandlerFunc {
		return func(c *gin.Context) {
			c.Header("Cache-Control", "no-store")
			respond.JSON(c, code, "application/json", gin.H{"status": status.Starting, "reason": reason})
		}
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.GET("/-/healthy", health(http.StatusOK))
	r.GET("/-/ready", health(http.StatusServiceUnavailable))
	r.NoRoute(func(c *gin.Context) {
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, title, nil)
	})
	return r
}

// serve answers until ctx ends.
func (f *front) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = f.server.Close() })() // nothing is left of it after drain
	no := false
	err := exporter.Serve(f.conns.Listener(f.listener), f.server, &exporter.FlagConfig{
		WebConfigFile: &f.config.Web.ConfigFile, WebSystemdSocket: &no, WebListenAddresses: &[]string{f.address},
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

// drain takes no new connections and lets the requests finish that are there. bodies cuts off what is still being sent.
func (f *front) drain(stop context.Context, bodies func()) error {
	stop, release := half(stop)
	defer release()
	stop, done := context.WithTimeout(stop, drainTime)
	defer done()
	bodies()
	if err := f.server.Shutdown(stop); err != nil {
		f.log.Warn("requests were cut off at shutdown", "err", err)
		_ = f.server.Close() // it says what Shutdown said
	}
	return nil
}
