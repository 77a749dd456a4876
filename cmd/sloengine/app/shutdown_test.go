package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/reliability/connlimit"
)

// The order in which parts stop is the order of the stack, read from its end: nothing may stop
// before what uses it.
func TestWhatUsesOthersStopsFirst(t *testing.T) {
	dir := t.TempDir()
	opt := testOptions(t, dir, "sinks: [{name: f, file: {dir: out}}]\nredis: {address: '127.0.0.1:1'}\n", "127.0.0.1:0")
	s, err := readSettings(&opt)
	require.NoError(t, err)
	g := newRunGroup()
	require.NoError(t, launch(t.Context(), opt, s, g))
	var names []string
	for i := len(g.steps) - 1; i >= 0; i-- {
		names = append(names, g.steps[i].name)
	}
	require.Equal(t,
		strings.Fields(`readiness, reload on signal, streams, requests, sources, rebuild, parked generations, `+
			`expiry of tokens, audit log, own events, evaluator, replays, forecasts, reasons of pages, receivers, reports, `+
			`incidents, `+
			`alerts without incidents, alerts on the engine, notifications, sinks,
		dead letters, measurements, positions, shared breakers, redis, engine, rejects, sink files, dead letters, `+
			`audit log, data directory, redis for dead letters, redis for rate limits, http`),
		strings.Fields(strings.Join(names, ", ")))
	require.NoError(t, g.stop(context.Background()))
}

// While the storage is being opened the process is healthy and not ready, and refuses the rest.
func TestOpeningAnswersHealthOnly(t *testing.T) {
	for path, want := range map[string]int{"/-/healthy": 200, "/-/ready": 503, "/": 503, "/metrics": 503,
		"/api/v1/slos": 503} {
		rec := httptest.NewRecorder()
		opening().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, want, rec.Code, path)
		require.Contains(t, rec.Body.String(), "starting", path)
	}
}

// Over gRPC there is no answer of HTTP alone: Java's exporter drops what such a one refuses.
func TestOpeningAnswersCallsWithUnavailable(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	conns, err := connlimit.New(connlimit.Options{Max: 1, Metrics: metrics.NewSet(), Logger: log})
	require.NoError(t, err)
	c := &config.Config{}
	c.OTLP.GRPC = "127.0.0.1:0"
	f, err := listenGRPC(c, conns, log)
	require.NoError(t, err)
	defer f.listener.Close()
	rec := httptest.NewRecorder()
	f.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/any/Method", nil))
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "14", rec.Result().Trailer.Get("Grpc-Status"))
}
