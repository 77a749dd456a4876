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

// The page says where the memory for ids is short of the time for which spans are accepted.
func TestShortIDs(t *testing.T) {
	day := 24 * time.Hour
	for short, want := range map[time.Duration]int{0: 0, 6 * time.Hour: 1, day: 0} {
		got := shortIDs(&engine.Health{IDs: engine.IDHealth{Short: short}}, day)
		require.Len(t, got, want)
		for _, x := range got {
			require.Contains(t, x.Reason, "known for 6h, and ingest.allowed_lateness is 1d")
		}
	}
}

func TestHistoryBounds(t *testing.T) {
	const disk = 100 << 30
	for text, want := range map[string]retained.Bounds{
		"":                          {Age: 32 * 24 * time.Hour, Bytes: disk / 10},
		"log: {retain: 0}":          {Bytes: disk / 10},
		"log: {retain_bytes: 1GiB}": {Age: 32 * 24 * time.Hour, Bytes: 1 << 30},
		"log: {retain: 35d, retain_bytes: 50GiB}": {Age: 35 * 24 * time.Hour, Bytes: 50 << 30},
		"log: {retain: 35d}":                      {Age: 35 * 24 * time.Hour, Bytes: disk / 10},
		"log: {retain: 1d, retain_bytes: 0}":      {},
	} {
		c, err := config.Read("engine.yaml", []byte(text))
		require.NoError(t, err)
		require.Equal(t, want, historyBounds(&c, 30*24*time.Hour, disk), text)
	}
}
