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

// The history says how far back it reaches of what an SLO needs, and what would do, once that is known.
func TestShortHistory(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	known := &config.Known{Longest: "shop/checkout", LongestWindow: 30 * day}
	for name, x := range map[string]struct {
		days  float64
		bytes int64
		b     retained.Bounds
		want  string
	}{
		"nothing":          {0, 0, retained.Bounds{Age: 32 * day, Bytes: 1 << 30}, ""},
		"off":              {19, 1 << 30, retained.Bounds{Bytes: 1 << 30}, ""},
		"room for all":     {19, 1 << 30, retained.Bounds{Age: 32 * day, Bytes: 2 << 30}, ""},
		"a burst just now": {0.1, 1 << 30, retained.Bounds{Age: 32 * day, Bytes: 2 << 30}, ""},
		"too little": {2, 2 << 30, retained.Bounds{Age: 32 * day, Bytes: 19 << 30},
			"history will reach back 19 of the 30 days that shop/checkout needs at the rate so far; 11.0 GiB more would do"},
		"full": {19, 19 << 30, retained.Bounds{Age: 32 * day, Bytes: 19 << 30},
			"history reaches back 19 of the 30 days that shop/checkout needs; 11.0 GiB more would do"},
		"full in half a day": {0.5, 1 << 30, retained.Bounds{Age: 32 * day, Bytes: 1 << 30},
			"history reaches back 0 of the 30 days that shop/checkout needs; 59.0 GiB more would do"},
		"deleted for its age": {19, 1 << 30, retained.Bounds{Age: 19 * day, Bytes: 5 << 30},
			"history reaches back at most 19 of the 30 days that shop/checkout needs; raise log.retain"},
	} {
		kept := &retained.Stats{Bytes: x.bytes}
		if x.bytes > 0 {
			kept.From = now.Add(-time.Duration(x.days * float64(day)))
		}
		require.Equal(t, x.want, ShortHistory(kept, x.b, now, known), name)
	}
	short := &config.Known{Longest: "shop/checkout", LongestWindow: day}
	require.Equal(t, "history reaches back 12h of the 1d that shop/checkout needs; 1.0 GiB more would do",
		ShortHistory(&retained.Stats{Bytes: 1 << 30, From: now.Add(-day / 2)},
			retained.Bounds{Age: 3 * day, Bytes: 1 << 30}, now, short))
	kept := &retained.Stats{Bytes: 5}
	require.EqualValues(t, 100, spaceFor(kept, 100, 1000, 10))
	require.EqualValues(t, 85, spaceFor(kept, 100, 100, 10), "the disk keeps twice the low-water mark")
	require.EqualValues(t, 5, spaceFor(kept, 100, 10, 10))
	require.EqualValues(t, 100, spaceFor(kept, 100, 10, -1), "the disk is not guarded")
}
