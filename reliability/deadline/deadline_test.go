package deadline

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/retry"
)

func TestParse(t *testing.T) {
	want := time.Date(2026, 11, 20, 9, 0, 0, 500_000_000, time.UTC)
	for _, v := range []string{"2026-11-20T09:00:00.5Z", "2026-11-20t09:00:00.5z",
		"2026-11-20T12:00:00.5+03:00", "1795165200.5"} {
		got, err := Parse(v)
		require.NoError(t, err, v)
		require.True(t, want.Equal(got), v)
	}
	got, err := Parse(Format(want))
	require.NoError(t, err)
	require.True(t, want.Equal(got))
	for _, v := range []string{"", "soon", "-1", "NaN", "1e300", "Inf"} {
		_, err := Parse(v)
		require.Error(t, err, v)
	}
}

// The seed's chain with its numbers: 2000 ms for all, steps nested and side by side.
func TestTheBudgetShrinksOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := func(ctx context.Context) time.Duration {
			d, ok := Remaining(ctx)
			require.True(t, ok)
			return d
		}
		request, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		time.Sleep(150 * time.Millisecond) // gateway and aggregator
		order, cancel, err := Step{Limit: 500 * time.Millisecond, Reserve: 600 * time.Millisecond}.Begin(request)
		require.NoError(t, err)
		defer cancel()
		require.Equal(t, 500*time.Millisecond, left(order))
		time.Sleep(100 * time.Millisecond)
		stock, cancel, err := Step{Limit: time.Hour, Reserve: 20 * time.Millisecond}.Begin(order)
		require.NoError(t, err)
		defer cancel()
		require.Equal(t, 380*time.Millisecond, left(stock), "a nested step never has more than its caller")
		h := http.Header{}
		Set(h, stock)
		at, err := Parse(h.Get(Header))
		require.NoError(t, err)
		want, _ := stock.Deadline()
		require.False(t, at.After(want))
		time.Sleep(385 * time.Millisecond)

		m := NewMetrics(metrics.NewSet(), "test")
		_, _, err = Step{Reserve: 20 * time.Millisecond, Metrics: m}.Begin(order)
		require.ErrorIs(t, err, ErrExpired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, retry.ClassTimeout, retry.ClassOf(err))
		_, _, err = Step{Least: time.Second, Metrics: m}.Begin(order)
		require.ErrorIs(t, err, ErrExpired)
		time.Sleep(time.Second)
		_, _, err = Step{Metrics: m}.Begin(order)
		require.ErrorIs(t, err, ErrExpired)
		require.EqualValues(t, 3, m.expired.Get())
	})
}

func TestWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := http.Header{}
		Set(h, t.Context())
		require.Empty(t, h)
		ctx, cancel, err := Step{}.Begin(t.Context())
		require.NoError(t, err)
		_, ok := Remaining(ctx)
		require.False(t, ok)
		cancel()
		ctx, cancel, err = Step{Limit: Default}.Begin(t.Context())
		require.NoError(t, err)
		d, _ := Remaining(ctx)
		require.Equal(t, Default, d)
		cancel()
		gone := errors.New("gone")
		cause, stop := context.WithCancelCause(t.Context())
		stop(gone)
		_, _, err = Step{}.Begin(cause)
		require.ErrorIs(t, err, gone)
	})
}
