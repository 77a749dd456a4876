package event

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestIdentity reads the same values as View for every event, and nothing of cut ones.
func TestIdentity(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := Event{
			ID: rapid.String().Draw(rt, "id"), Service: rapid.StringN(1, 40, -1).Draw(rt, "service"),
			Type: "t", Time: time.Unix(1, 0),
			Count: rapid.Uint32().Draw(rt, "count"), Weight: rapid.Uint32().Draw(rt, "weight"),
			Duration:    time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(rt, "duration")),
			HasDuration: rapid.Bool().Draw(rt, "timed"),
		}
		bin := AppendBinary(nil, &e)
		var v View
		_, err := v.Parse(bin)
		require.NoError(rt, err)
		id, service, ok := Identity(bin)
		require.True(rt, ok)
		require.Equal(rt, v.ID, id)
		require.Equal(rt, v.Service, service)
		_, _, ok = Identity(bin[:rapid.IntRange(0, len(bin)-1).Draw(rt, "cut")])
		require.False(rt, ok)
	})
}
