package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/web/status"
)

// A status without a state of its own would read as failed, and make probes restart the engine.
func TestEveryStatusHasAState(t *testing.T) {
	for _, s := range []engine.Status{
		engine.StatusStarting, engine.StatusRecovering, engine.StatusReady, engine.StatusDiskLow, engine.StatusClockJump,
		engine.StatusStopping, engine.StatusPoisoned,
	} {
		require.Equal(t, status.State(s), webState(s))
		require.NotContains(t, status.StateText(webState(s)), "unknown")
	}
	require.Equal(t, status.Stopping, webState(engine.StatusStopped))
}

func TestHistoryBounds(t *testing.T) {
	const disk = 100 << 30
	for text, want := range map[string]retained.Bounds{
		"": {Bytes: disk / 10},
		"log: {retain: 35d, retain_bytes: 50GiB}": {Age: 35 * 24 * time.Hour, Bytes: 50 << 30},
		"log: {retain: 35d}":                      {Age: 35 * 24 * time.Hour, Bytes: disk / 10},
		"log: {retain: 1d, retain_bytes: 0}":      {},
	} {
		c, err := config.Read("engine.yaml", []byte(text))
		require.NoError(t, err)
		require.Equal(t, want, historyBounds(&c, disk), text)
	}
}
