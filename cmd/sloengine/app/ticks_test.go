package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/backtest"
	command "github.com/sloengine/sloengine/cmd/sloengine/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
)

// TestBacktestEqualsTheEngine runs the whole engine but its sockets on a simulated clock, with random traffic, late
// events, failures, reloads, restarts and kills, and replays its log (SLOENGINE_WEEK=1: of a week): behind every tick
// the alert states are those that the engine had. A kill takes the data directory as it is between two steps of the
// engine, or with the alert states that were saved before.
func TestBacktestEqualsTheEngine(t *testing.T) {
	dir := t.TempDir()
	days, often := 1.0/16, 15
	if os.Getenv("SLOENGINE_WEEK") != "" {
		days, often = 7, 1
	}
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		x := &lives{t: t, dir: dir, rng: rand.New(rand.NewPCG(1, 2)), objective: "99.5", often: often}
		x.start()
		x.live(time.Duration(days * 24 * float64(time.Hour)))
		x.stop()
		t.Logf("%d restarts, %d kills, %d of them before the states were saved, %d reloads, %d alerts", x.restarts, x.kills,
			x.unsaved, x.reloads, x.alerts)
		require.Greater(t, x.alerts, 10)
		require.Positive(t, x.unsaved)
		require.Positive(t, x.reloads)
		c := command.New(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, nil)
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs([]string{"--verify", "--data-dir", x.data(), "-o", "json"})
		if err := c.Execute(); err != nil {
			require.ErrorIs(t, err, cli.ErrFindings, "%s", out.String())
		}
		var got backtest.Checked
		require.NoError(t, json.Unmarshal(out.Bytes(), &got))
		t.Logf("%d ticks compared, %d differences, %d events", got.Compared, got.Differences, got.Events)
		require.Zero(t, got.Differences, "%s", out.String())
		require.Equal(t, got.Ticks, got.Compared)
		require.InDelta(t, days*8640, got.Compared, days*8640/2)
		require.Equal(t, 1+x.restarts+x.kills, got.Processes)
	})
}

// lives are those of an engine.
type lives struct {
	t         *testing.T
	dir       string
	n         int // of the data directory
	rng       *rand.Rand
	objective string
	often     int // how often something happens

	app     *app
	end     func()
	log     strings.Builder
	states  []byte // of the alerts, as saved before the last time
	current []byte

	failing, slow                             float64
	restarts, kills, unsaved, reloads, alerts int
}

func (x *lives) data() string { return filepath.Join(x.dir, fmt.Sprint(x.n), "data") }

func (x *lives) start() {
	x.t.Helper()
	dir := filepath.Join(x.dir, fmt.Sprint(x.n))
	require.NoError(x.t, os.MkdirAll(dir, 0o700))
	opt := testOptions(x.t, dir, "log: {retain: 30d, segment: 1MiB}\nforecast: {groups: 0}\n", "127.0.0.1:8080")
	opt.LoadSpec = func() (*spec.Spec, spec.Problems, error) {
		file, err := os.ReadFile("../../../alerts/backtest/testdata/shop.yaml")
		if err != nil {
			return nil, nil, err
		}
		text := strings.Replace(string(file), "99.5", x.objective, 1)
		sp, problems := spec.Load([]spec.File{{Name: "shop.yaml", Data: []byte(text)}})
		return sp, problems, nil
	}
	opt.Log = slog.New(slog.NewTextHandler(&x.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	a, g := builtFrom(x.t, opt)
	x.app, x.end = a, serving(x.t, a, g)
}

func (x *lives) stop() {
	x.end()
	x.alerts += strings.Count(x.log.String(), "to=firing")
	x.log.Reset()
}

// kill continues with a copy of the data directory as it is now.
func (x *lives) kill() {
	x.t.Helper()
	from := x.data()
	x.n++
	require.NoError(x.t, os.CopyFS(x.data(), os.DirFS(from)))
	if x.states != nil && x.rng.IntN(2) == 0 {
		x.unsaved++
		require.NoError(x.t, os.WriteFile(filepath.Join(x.data(), AlertsFile), x.states, 0o600))
		x.states, x.current = nil, x.states
	}
	x.kills++
	x.stop()
	require.NoError(x.t, os.RemoveAll(from))
}

// live lets time go by, a second or so at a time.
func (x *lives) live(d time.Duration) {
	x.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(x.rng.IntN(4e9))) //nolint:forbidigo // simulated
		synctest.Wait()
		if now, err := os.ReadFile(filepath.Join(x.data(), AlertsFile)); err == nil && !bytes.Equal(now, x.current) {
			x.states, x.current = x.current, now
		}
		if x.rng.IntN(1000/x.often) == 0 {
			x.failing = []float64{0, 0, 0.02, 0.1, 0.6}[x.rng.IntN(5)]
			x.slow = []float64{0, 0.02, 0.3}[x.rng.IntN(3)]
		}
		switch x.rng.IntN(6000 / x.often) {
		case 0:
			x.restarts++
			x.stop()
			time.Sleep(time.Duration(x.rng.IntN(600/x.often)) * time.Second) //nolint:forbidigo // simulated
			x.start()
		case 1, 2:
			x.kill()
			time.Sleep(time.Duration(x.rng.IntN(600/x.often)) * time.Second) //nolint:forbidigo // simulated
			x.start()
		case 3:
			x.reloads++
			x.objective = []string{"99.5", "99.9", "99"}[x.rng.IntN(3)]
			require.NoError(x.t, x.app.reloader.reload(context.Background()))
		}
		x.send()
	}
}

func (x *lives) send() {
	x.t.Helper()
	if x.rng.IntN(10) == 0 {
		return
	}
	var lines []string
	for range x.rng.IntN(6) {
		at := time.Now().Add(-time.Duration(x.rng.IntN(3000)) * time.Millisecond)
		if x.rng.IntN(20) == 0 {
			at = at.Add(-time.Duration(x.rng.IntN(7200)) * time.Second)
		}
		outcome, took := "success", x.rng.IntN(900)
		if x.rng.Float64() < x.failing {
			outcome = "failure"
		}
		if x.rng.Float64() < x.slow {
			took = 3000
		}
		lines = append(lines, fmt.Sprintf(
			`{"service":"shop","type":"order","time":%q,"outcome":%q,"duration_ms":%d,"attributes":{"bank":"b%d"}}`,
			at.Format(time.RFC3339Nano), outcome, took, x.rng.IntN(3)))
	}
	if len(lines) == 0 {
		return
	}
	rec := request(x.app, http.MethodPost, "/api/v1/events", "127.0.0.1:8080", strings.Join(lines, "\n"),
		"Content-Type", "application/x-ndjson")
	require.Equal(x.t, http.StatusAccepted, rec.Code, rec.Body.String())
}
