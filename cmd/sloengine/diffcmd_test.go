package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counting"
)

// TestPlannedChangeSaysWhatARebuildTakes: how far back it reaches, how long it takes, and what it cancels.
func TestPlannedChangeSaysWhatARebuildTakes(t *testing.T) {
	shown := func(p past) string {
		var b strings.Builder
		printChange(&b, &plannedChange{SpecChange: &counting.SpecChange{Started: []string{"shop/checkout"}}, Past: &p})
		return b.String()
	}
	p := past{HistoryFrom: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), HistoryEvents: 1000, RebuildSeconds: 75.2,
		Held: []string{"shop/checkout"}}
	text := shown(p)
	require.Contains(t, text, "The history reaches back to 2026-03-01T00:00:00Z, with 1000 events.\n")
	require.Contains(t, text, "rebuilt from it, in about 1m15s for each service.\n")
	require.Contains(t, text, "shop/checkout  has an earlier definition in force until its counts are rebuilt.")
	p.RebuildSeconds, p.Held = 0.0001, nil
	text = shown(p)
	require.Contains(t, text, "in about 1s for each service")
	require.NotContains(t, text, "earlier definition")
	p.RebuildSeconds = 0
	require.Contains(t, shown(p), "are not rebuilt from it: engine.yaml has rebuild: off.")
}
