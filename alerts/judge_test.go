package alerts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAtTheThreshold: an error ratio that is the threshold exactly is not above it: no alert, and while a part of the
// window was not observed, a hold.
func TestAtTheThreshold(t *testing.T) {
	e := Reading{Ratio: 0.5, Observed: 1, Events: 100, HasData: true}
	require.False(t, e.above(0.5, false))
	require.False(t, e.above(0.5, true))
	require.True(t, e.above(0.25, false))

	e.Observed = 0.5
	require.True(t, e.above(0.25, true))
	require.False(t, e.above(0.25, false))
	holds := (&Live{}).unobserved(time.Hour, e, 0.25, false)
	require.Len(t, holds, 1)
	require.Equal(t, HoldObserved, holds[0].Reason)
	require.Empty(t, (&Live{}).unobserved(time.Hour, e, 0.125, false))
}
