package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/client"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// A business that uses the client goes on while the engine is killed: no call fails or
// takes long, and in the end every event counts once.
func TestClientWhileTheEngineIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec)
	settings := "evaluator: {interval: 200ms}\n"
	p := e2etest.Serve(t, dir, specFile, settings)
	address := p.Base[len("http://"):]

	c, err := client.New(client.Options{
		URL: p.Base, Service: "shop", Timeout: 200 * time.Millisecond,
		Spool: client.SpoolOptions{Dir: filepath.Join(dir, "spool")},
	})
	require.NoError(t, err)
	sent, worst := 0, time.Duration(0)
	send := func(for_ time.Duration) {
		for began := time.Now(); time.Since(began) < for_; sent++ {
			start := time.Now()
			require.NoError(t, c.Send(t.Context(), client.Event{ID: fmt.Sprint("c", sent), Type: "payment.paid"}))
			worst = max(worst, time.Since(start))
			testkit.Pause(2 * time.Millisecond)
		}
	}
	send(time.Second)
	p.Kill()
	send(2 * time.Second)
	p = e2etest.Ready(t, "serve", "-f", specFile, "--data-dir", filepath.Join(dir, "data"), "-c",
		filepath.Join(dir, "engine.yaml"), "--web.listen-address", address)
	send(time.Second)
	require.Eventually(t, func() bool {
		return e2etest.Counted(t, p, "payments") == sent
	}, testkit.Patience, 100*time.Millisecond,
		"%d of %d counted; client: %+v", e2etest.Counted(t, p, "payments"), sent, c.Status())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, c.Close(ctx))
	require.Less(t, worst, time.Second)
	t.Logf("| client while the engine is killed | in %d | counted %d | lost 0 | slowest call %s |", sent,
		e2etest.Counted(t, p, "payments"), worst)
	p.Stop(t)
}
