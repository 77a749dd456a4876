package app

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
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

// build makes an app on the folder data in dir.
func build(t testing.TB, dir, settings, listen string) (*App, error) {
	t.Helper()
	file := writeFile(t, dir, "engine.yaml", settings)
	return New(Options{
		LoadConfig: func() (config.Config, error) { return config.Load(file) },
		LoadSpec: func() (*spec.Spec, spec.Problems, error) {
			sp, problems := spec.Load([]spec.File{{Name: "shop.yaml", Data: []byte(shopSpec)}})
			return sp, problems, nil
		},
		DataDir: filepath.Join(dir, "data"), Listen: listen, Log: slog.New(slog.DiscardHandler),
	})
}

// guarded is an app that does not run.
func guarded(t *testing.T, settings, listen string) *App {
	t.Helper()
	a, err := build(t, t.TempDir(), settings, listen)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.group.run(context.Background())) })
	return a
}

// serving runs an app until stop is called, and waits until it takes events.
func serving(t *testing.T, a *App) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case <-a.engine.Ready():
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "not ready in time")
	}
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func request(a *App, method, path, host, body string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	a.router.ServeHTTP(rec, req)
	return rec
}
