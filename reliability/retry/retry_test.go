package retry

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errFlaky = errors.New("flaky")

func mustNew(t *testing.T, o Options) *Policy {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	return p
}

func always(v float64) func() float64 { return func() float64 { return v } }

func TestDefaultPolicyIsFourAttemptsOfFullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		p := mustNew(t, Options{
			Rand:    always(0.5),
			OnRetry: func(_ int, wait time.Duration, _ error) { waits = append(waits, wait) },
		})
		start := time.Now()
		calls := 0
		err := p.Do(t.Context(), func(context.Context, int) error { calls++; return errFlaky })
		var gave *Error
		require.ErrorAs(t, err, &gave)
		require.ErrorIs(t, err, errFlaky)
		require.Equal(t, Exhausted, gave.Reason)
		require.Equal(t, 4, gave.Attempts)
		require.Equal(t, 4, calls)
		require.Equal(t, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}, waits)
		require.Equal(t, 350*time.Millisecond, time.Since(start))
	})
}

func TestDoStopsOnSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := mustNew(t, Options{}).Do(t.Context(), func(_ context.Context, attempt int) error {
			require.Equal(t, calls, attempt)
			if calls++; calls < 3 {
				return errFlaky
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, calls)
	})
}

func TestReasonsToGiveUp(t *testing.T) {
	tests := []struct {
		name     string
		o        Options
		timeout  time.Duration
		err      error
		reason   Reason
		attempts int
	}{
		{name: "permanent", err: Permanent(errFlaky), reason: Refused, attempts: 1},
		{name: "hook", o: Options{Classify: func(error) Decision {
			return Stop
		}}, err: errFlaky, reason: Refused, attempts: 1},
		{name: "never", o: Options{MaxRetries: Never}, err: errFlaky, reason: Exhausted, attempts: 1},
		{name: "one", o: Options{MaxRetries: 1}, err: errFlaky, reason: Exhausted, attempts: 2},
		{name: "elapsed", o: Options{MaxRetries: Unlimited, MaxElapsed: 250 * time.Millisecond, Jitter: None}, err: errFlaky,
			reason: Elapsed, attempts: 2},
		{name: "deadline", o: Options{MaxRetries: Unlimited, Jitter: None}, timeout: 250 * time.Millisecond, err: errFlaky,
			reason: Deadline, attempts: 2},
		{name: "a wait to the deadline", o: Options{MaxRetries: Unlimited, Jitter: None}, timeout: 300 * time.Millisecond,
			err: errFlaky, reason: Deadline, attempts: 2},
		{name: "retry after beyond deadline", timeout: time.Second, err: After(errFlaky, 2*time.Second),
			reason: Deadline, attempts: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				start := time.Now()
				err := mustNew(t, tt.o).Do(ctx, func(context.Context, int) error { return tt.err })
				var gave *Error
				require.ErrorAs(t, err, &gave)
				require.Equal(t, tt.reason, gave.Reason)
				require.Equal(t, tt.attempts, gave.Attempts)
				require.ErrorIs(t, err, errFlaky)
				if tt.timeout > 0 {
					require.Less(t, time.Since(start), tt.timeout, "gives up before the deadline, not at it")
				}
			})
		})
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("shutting down")
		time.AfterFunc(time.Second, func() { cancel(stop) })
		start := time.Now()
		err := mustNew(t, Options{}).Do(ctx, func(context.Context, int) error { return After(errFlaky, 30*time.Second) })
		require.ErrorIs(t, err, stop)
		require.ErrorIs(t, err, errFlaky)
		require.Equal(t, time.Second, time.Since(start))

		err = mustNew(t, Options{}).Do(ctx, func(context.Context, int) error { panic("called after the end") })
		require.ErrorIs(t, err, stop)
	})
}

func TestRetryAfterIsHonouredAndCapped(t *testing.T) {
	tests := []struct {
		after    time.Duration
		least    time.Duration
		atMost   time.Duration
		maxAfter time.Duration
	}{
		{after: 0, least: 0, atMost: 200 * time.Millisecond},
		{after: 7 * time.Second, least: 7 * time.Second, atMost: 7*time.Second + 100*time.Millisecond},
		{after: 24 * time.Hour, least: time.Minute, atMost: time.Minute + 100*time.Millisecond},
		{after: time.Hour, maxAfter: 2 * time.Second, least: 2 * time.Second, atMost: 2*time.Second + 100*time.Millisecond},
		{after: -time.Hour, least: 0, atMost: 200 * time.Millisecond},
		{after: math.MaxInt64, least: time.Minute, atMost: time.Minute + 100*time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waited time.Duration
				p := mustNew(t, Options{MaxRetries: 1, MaxRetryAfter: tt.maxAfter,
					OnRetry: func(_ int, w time.Duration, _ error) { waited = w }})
				_ = p.Do(t.Context(), func(context.Context, int) error { return After(errFlaky, tt.after) })
				require.GreaterOrEqual(t, waited, tt.least)
				require.LessOrEqual(t, waited, tt.atMost)
			})
		})
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	tests := []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"0", 0, true},
		{"5", 5 * time.Second, true},
		{" 120 ", 2 * time.Minute, true},
		{"Fri, 20 Nov 2026 09:00:30 GMT", 30 * time.Second, true},
		{"Friday, 20-Nov-26 09:00:30 GMT", 30 * time.Second, true},
		{"Fri Nov 20 09:00:30 2026", 30 * time.Second, true},
		{"Fri, 20 Nov 2026 08:00:00 GMT", 0, true},
		{"", 0, false},
		{"-5", 0, false},
		{"NaN", 0, false},
		{"1e3", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
		{"0x10", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			d, ok := ParseRetryAfter(tt.value, now)
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.want, d)
		})
	}
	d, ok := ParseRetryAfter("99999999999999999999999999", now)
	require.True(t, ok)
	require.Positive(t, d)
}

func TestDelaysStayInsideTheirBounds(t *testing.T) {
	const base, limit = 100 * time.Millisecond, 5 * time.Second
	for _, j := range []Jitter{Full, Equal, Decorrelated, PlusMinus, None} {
		for _, r := range []float64{0, 0.25, 0.5, 0.999999, 1, -3, 17, math.NaN(), math.Inf(1), math.Inf(-1)} {
			p := mustNew(t, Options{Jitter: j, Spread: 1, Rand: always(r)})
			previous := time.Duration(0)
			for n := range 200 {
				d := p.Delay(n, previous)
				require.GreaterOrEqual(t, d, time.Duration(0), "%s %v %d", j, r, n)
				require.LessOrEqual(t, d, limit, "%s %v %d", j, r, n)
				if j == Decorrelated {
					require.GreaterOrEqual(t, d, base)
				}
				previous = d
			}
		}
	}
	p := mustNew(t, Options{Cap: math.MaxInt64 / 4, Jitter: None})
	require.Equal(t, time.Duration(math.MaxInt64/4), p.Delay(1000, 0), "no overflow")
}

func TestJitterFormulas(t *testing.T) {
	ms := time.Millisecond
	tests := []struct {
		jitter   Jitter
		n        int
		previous time.Duration
		low      time.Duration // with rand = 0
		middle   time.Duration // with rand = 0.5
	}{
		{Full, 0, 0, 0, 50 * ms},
		{Full, 3, 0, 0, 400 * ms},
		{Full, 20, 0, 0, 2500 * ms},
		{Equal, 3, 0, 400 * ms, 600 * ms},
		{Decorrelated, 0, 0, 100 * ms, 200 * ms},
		{Decorrelated, 1, 300 * ms, 100 * ms, 500 * ms},
		{Decorrelated, 9, 5000 * ms, 100 * ms, 2550 * ms},
		{PlusMinus, 2, 0, 200 * ms, 400 * ms},
		{None, 2, 0, 400 * ms, 400 * ms},
	}
	for _, tt := range tests {
		require.Equal(t, tt.low, mustNew(t, Options{Jitter: tt.jitter, Rand: always(0)}).Delay(tt.n, tt.previous))
		require.Equal(t, tt.middle, mustNew(t, Options{Jitter: tt.jitter, Rand: always(0.5)}).Delay(tt.n, tt.previous))
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Base: -1}, {Base: time.Second, Cap: time.Millisecond}, {Spread: 1.5}, {Spread: math.NaN()}, {Spread: -1},
		{MaxRetries: -3}, {MaxElapsed: -1}, {MaxRetryAfter: -1}, {Jitter: "some"}, {Cap: math.MaxInt64},
	} {
		_, err := New(o)
		require.Error(t, err, "%+v", o)
	}
	p := mustNew(t, Options{Base: 20 * time.Second})
	require.Equal(t, 20*time.Second, p.o.Cap)
}

func TestMarksKeepTheError(t *testing.T) {
	require.NoError(t, After(nil, time.Second))
	require.NoError(t, Permanent(nil))
	err := After(errFlaky, time.Second)
	require.ErrorIs(t, err, errFlaky)
	require.Equal(t, "flaky", err.Error())
	require.True(t, IsPermanent(Permanent(err)))
	require.False(t, IsPermanent(err))
}
