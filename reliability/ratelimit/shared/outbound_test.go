package shared

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
)

func (in *instance) outbound(t testing.TB, o OutboundOptions) *Outbound {
	t.Helper()
	o.Link = in.Link
	if o.Name == "" {
		o.Name = "partner"
	}
	out, err := NewOutbound(o)
	require.NoError(t, err)
	return out
}

func TestOutboundOptions(t *testing.T) {
	in := newServer(t).instance(time.Second)
	out := in.outbound(t, OutboundOptions{N: 6})
	require.Equal(t, 6*5, out.Most())
	require.Equal(t, 50*time.Millisecond, out.o.Guard)
	_, err := NewOutbound(OutboundOptions{Name: "A b", N: 0, Window: 1, MaxWait: time.Hour, Alone: -1})
	for _, part := range []string{"Link is required", "invalid name", "limit 0", "window 1ns",
		"maximum wait", "without Redis"} {
		require.ErrorContains(t, err, part)
	}
	for _, o := range []OutboundOptions{
		{N: 6}, {N: 1000}, {N: 1_000_000, Window: 100 * time.Millisecond, MaxWait: time.Minute}, {N: 100, Window: time.Hour},
		{N: 1, MaxWait: -1},
	} {
		out := in.outbound(t, o)
		width, span := out.o.cut()
		require.GreaterOrEqual(t, width*span, (out.o.Window + out.o.Guard).Microseconds())
		require.LessOrEqual(t, (out.o.Window+out.o.Guard+out.o.MaxWait).Microseconds()/width,
			max(int64(out.o.N)*100_000, 600))
	}
}

// TestTurns checks reservations in a Redis whose clock the test sets: never more than N
// in a window, in the order of asking, none later than needed.
func TestTurns(t *testing.T) {
	s := newServer(t)
	in := s.instance(5 * time.Second)
	for i, o := range []OutboundOptions{
		{N: 6, Guard: -1},
		{N: 6},
		{N: 1, Window: 300 * time.Millisecond},
		{N: 1000, MaxWait: 20 * time.Second},
		{N: 7, Window: 10 * time.Second, MaxWait: time.Minute},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			o.Name = fmt.Sprint("turns", i)
			out := in.outbound(t, o)
			out.script = atTime(turnScriptText)
			width, span := out.o.cut()
			step := time.Duration(width) * time.Microsecond
			now := time.Now().Truncate(step)
			var turns []time.Time
			refused := 0
			for range 1500 {
				now = now.Add(time.Duration(rand.Int64N(int64(2*out.o.Window) / int64(o.N))))
				if rand.IntN(200) == 0 {
					now = now.Add(3 * out.o.Window)
				}
				now = now.Truncate(time.Microsecond)
				setTime(t, in.client, now)
				n := 1
				if rand.IntN(20) == 0 {
					n += rand.IntN(2 * o.N)
				}
				wait, err := out.reserve(context.Background(), n, out.o.MaxWait)
				require.NoError(t, err)

				// The earliest turn for the last of n, by brute force over the given turns.
				at := now
				if len(turns) > 0 && turns[len(turns)-1].After(at) {
					at = turns[len(turns)-1]
				}
				before := len(turns)
				for range n {
					if len(turns) >= o.N {
						if free := turns[len(turns)-o.N].UnixMicro()/width + span + 1; free > at.UnixMicro()/width {
							at = time.UnixMicro(free * width)
						}
					}
					turns = append(turns, at)
				}
				if expect := at.Sub(now); expect > out.o.MaxWait {
					require.Negative(t, wait)
					refused++
					turns = turns[:before]
					continue
				}
				require.InDelta(t, at.Sub(now), wait, float64(step))
			}
			for j := o.N; j < len(turns); j++ {
				require.GreaterOrEqual(t, turns[j].Sub(turns[j-o.N]), out.o.Window)
			}
			t.Logf("%d turns, %d refused", len(turns), refused)
			require.Greater(t, len(turns), 500)
		})
	}
}

// TestSixPerSecondForSixInstances is the seed's case: 6 instances, 6 calls a second in
// all. The calls' times are those at which Wait returned.
func TestSixPerSecondForSixInstances(t *testing.T) {
	s := newServer(t)
	var mu sync.Mutex
	var calls []time.Time
	var work sync.WaitGroup
	start := time.Now()
	end := start.Add(5 * time.Second)
	for range 6 {
		in := s.instance(5 * time.Second)
		in.run(t)
		out := in.outbound(t, OutboundOptions{N: 6})
		for range 2 {
			work.Go(func() {
				for time.Now().Before(end) {
					if err := out.Wait(context.Background(), 1); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					calls = append(calls, time.Now())
					mu.Unlock()
				}
			})
		}
	}
	work.Wait()
	slices.SortFunc(calls, time.Time.Compare)
	for i := 6; i < len(calls); i++ {
		// the machine may be busy after the turn
		require.GreaterOrEqual(t, calls[i].Sub(calls[i-6]), time.Second-200*time.Millisecond, "7 calls in a second")
	}
	took := time.Since(start).Seconds()
	t.Logf("%d calls, %.2f/s", len(calls), float64(len(calls))/took)
	require.LessOrEqual(t, float64(len(calls)), 6*(took+1))
	require.Greater(t, float64(len(calls))/took, 2.5, "a turn that a busy machine takes late is given up")
}

func TestOutboundRefusesAndGoesOn(t *testing.T) {
	s := newServer(t)
	in := s.instance(5 * time.Second)
	out := in.outbound(t, OutboundOptions{N: 2, Window: time.Minute, MaxWait: 20 * time.Second, Guard: -1})
	out.script = atTime(turnScriptText)
	now := time.Now()
	setTime(t, in.client, now)
	ctx := context.Background()
	require.NoError(t, out.Wait(ctx, 0))
	require.NoError(t, out.Wait(ctx, 2))
	start := time.Now()
	err := out.Wait(ctx, 1)
	var limited *dispatch.LimitedError
	require.ErrorAs(t, err, &limited)
	require.Equal(t, 20*time.Second, limited.MaxWait)
	require.Equal(t, retry.ClassOverload, retry.ClassOf(err))
	require.Less(t, time.Since(start), 10*time.Second, "there was nothing to wait for")
	require.ErrorAs(t, out.Wait(ctx, 100), &limited)
	setTime(t, in.client, now.Add(61*time.Second))
	require.NoError(t, out.Wait(ctx, 1), "refusals have used up turns")

	cut, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	slow := in.outbound(t, OutboundOptions{Name: "slow", N: 1, Window: 30 * time.Second, MaxWait: time.Minute})
	require.NoError(t, slow.Wait(ctx, 1))
	require.ErrorIs(t, slow.Wait(cut, 1), context.DeadlineExceeded)
	require.ErrorIs(t, slow.Wait(cut, 1), context.DeadlineExceeded)
	require.True(t, in.breaker.State() == 0, "the caller's deadline is not Redis' fault")
	text := in.metrics()
	require.Contains(t, text, `sloengine_ratelimit_outbound_allowed_total{name="partner"} 2`)
	require.Contains(t, text, `sloengine_ratelimit_outbound_refused_total{name="partner"} 2`)
	require.Contains(t, text, `sloengine_ratelimit_outbound_wait_seconds_count{name="partner"} 2`)
}

// TestOutboundWithoutRedis: one a second for this instance, until Redis is back.
func TestOutboundWithoutRedis(t *testing.T) {
	s := newServer(t)
	in := s.instance(5 * time.Second)
	in.run(t)
	require.Eventually(t, in.connected, testkit.Patience, 10*time.Millisecond)
	out := in.outbound(t, OutboundOptions{N: 600, MaxWait: 200 * time.Millisecond})
	wait := func() bool {
		err := out.Wait(context.Background(), 1)
		var limited *dispatch.LimitedError
		if err != nil {
			require.ErrorAs(t, err, &limited)
		}
		return err == nil
	}
	for range 20 {
		require.True(t, wait())
	}
	s.kill()
	passed, start := 0, time.Now()
	require.Eventually(t, func() bool {
		if wait() {
			passed++
		}
		return passed == 4
	}, testkit.Patience, 10*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
	var b bytes.Buffer
	in.set.WritePrometheus(&b)
	require.NotContains(t, b.String(), `outbound_fallback_total{name="partner"} 0`)
	s.start()
	require.Eventually(t, in.connected, testkit.Patience, 10*time.Millisecond)
	for range 20 {
		require.True(t, wait())
	}
}

// BenchmarkWait asks for a turn that is free.
func BenchmarkWait(b *testing.B) {
	in := newServer(b).instance(5 * time.Second)
	out := in.outbound(b, OutboundOptions{N: 1_000_000})
	for b.Loop() {
		require.NoError(b, out.Wait(context.Background(), 1))
	}
}
