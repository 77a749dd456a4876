package every_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/every"
)

func TestTicksUntilTheContextEnds(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(context.Context, time.Duration) iter.Seq[time.Time]
		want []time.Duration
	}{
		"at once": {every.Tick, []time.Duration{0, time.Minute, 2 * time.Minute}},
		"later":   {every.Later, []time.Duration{time.Minute, 2 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
				defer cancel()
				began := time.Now()
				var got []time.Duration
				for now := range c.of(ctx, time.Minute) {
					require.Equal(t, time.Now(), now)
					got = append(got, now.Sub(began))
				}
				require.Equal(t, c.want, got)
				require.Equal(t, 150*time.Second, time.Since(began), "it ends with the context")
			})
		})
	}
}

// A ticker drops what nobody takes: after long work there is one turn at once, and then those of the interval.
func TestLongWorkIsNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, turns := time.Now(), []time.Duration{}
		for range every.Tick(t.Context(), time.Minute) {
			if turns = append(turns, time.Since(began)); len(turns) == 1 {
				<-time.After(150 * time.Second)
			}
			if len(turns) == 4 {
				break
			}
		}
		require.Equal(t, []time.Duration{0, 150 * time.Second, 3 * time.Minute, 4 * time.Minute}, turns)
	})
}
