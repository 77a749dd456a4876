package app

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/connlimit"
	"github.com/sloengine/sloengine/slo/spec"
)

const shopSpec = `version: sloengine/v1
service: shop
slos:
  - name: latency
    objective: 90
    window: 1h
    indicator: {latency: {valid: '{type="order"}', threshold: 100ms}}
`

// writeFile writes a file of the test's folder and returns its name.
func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// testOptions are of an app on the folder data in dir.
func testOptions(t testing.TB, dir, settings, listen string) Options {
	t.Helper()
	file := writeFile(t, dir, "engine.yaml", settings)
	return Options{
		LoadConfig: func() (config.Config, error) { return config.Load(file) },
		LoadSpec: func() (*spec.Spec, spec.Problems, error) {
			sp, problems := spec.Load([]spec.File{{Name: "shop.yaml", Data: []byte(shopSpec)}})
			return sp, problems, nil
		},
		DataDir: filepath.Join(dir, "data"), Listen: listen, Log: slog.New(slog.DiscardHandler),
	}
}

// built is an app that does not run and has no server.
func built(t testing.TB, dir, settings, listen string) (*app, *runGroup) {
	t.Helper()
	return builtFrom(t, testOptions(t, dir, settings, listen))
}

func builtFrom(t testing.TB, opt Options) (*app, *runGroup) {
	t.Helper()
	s, err := readSettings(&opt)
	require.NoError(t, err)
	g, set := newRunGroup(), metrics.NewSet()
	conns, err := connlimit.New(connlimit.Options{Max: 100, Metrics: set})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.stop(context.Background())) })
	a, err := open(opt, s, &front{conns: conns, base: &url.URL{Scheme: "http", Host: opt.Listen}}, set, g)
	require.NoError(t, err)
	return a, g
}

// guarded is an app that does not run.
func guarded(t *testing.T, settings, listen string) *app {
	t.Helper()
	a, _ := built(t, t.TempDir(), settings, listen)
	return a
}

// serving runs an app until stop is called, and waits until it takes events.
func serving(t testing.TB, a *app, g *runGroup) (stop func()) {
	t.Helper()
	a.start(t.Context(), g)
	select {
	case <-a.storage.engine.Ready():
	case name := <-g.ended:
		require.Fail(t, name+" ended")
	case <-time.After(testkit.Patience):
		require.Fail(t, "not ready in time")
	}
	return func() { require.NoError(t, g.stop(context.Background())) }
}

func request(a *app, method, path, host, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	a.routes.router.ServeHTTP(rec, req)
	return rec
}
