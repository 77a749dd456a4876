package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
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
