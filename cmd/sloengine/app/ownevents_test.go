package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
)

// TestOwnEventsSince: only what grew is told.
func TestOwnEventsSince(t *testing.T) {
	var before, now ownTotals
	before.accepted, before.lost, before.dropped = 10, 5, 100
	now.accepted, now.lost, now.dropped = 17, 2, 103
	now.overhead[0], now.overhead[len(dispatch.OverheadBounds)] = 4, 1
	var got []string
	for _, e := range now.since(&before, "run-1", time.Unix(0, 0)) {
		got = append(got, fmt.Sprintf("%s %s %v %d %s", e.ID, e.Type, e.Outcome == event.Failure, e.Count, e.Duration))
	}
	require.Equal(t, []string{
		"run-1-ingest-accepted ingest false 7 0s", "run-1-ingest-dropped ingest true 3 0s",
		"run-1-delivery-0 delivery false 4 1ms", "run-1-delivery-7 delivery false 1 1h0m0s",
	}, got)
}
