package shared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// instance is one engine's side: a link that runs, a failover, and a local table a third
// as large.
type instance struct {
	*Link
	*Failover
	set *metrics.Set
	log *testkit.Buffer
}

func (s *server) instance(timeout time.Duration) *instance {
	in := &instance{set: metrics.NewSet(), log: &testkit.Buffer{}}
	logger := slog.New(slog.NewTextHandler(in.log, nil))
	client := s.client(func(o *redisconn.Options) { Tune(o, timeout) })
	var err error
	in.Link, err = NewLink(LinkOptions{
		Client: client, Timeout: timeout, Interval: 200 * time.Millisecond,
		Logger: logger, Metrics: NewMetrics(in.set), Breakers: breaker.NewMetrics(in.set),
	})
	require.NoError(s.t, err)
	st, err := NewStore(StoreOptions{Client: client})
	require.NoError(s.t, err)
	local, err := ratelimit.NewTable(ratelimit.TableOptions{Scale: 1.0 / 3})
	require.NoError(s.t, err)
	in.Failover, err = NewFailover(FailoverOptions{Link: in.Link, Shared: st, Local: local, Logger: logger})
	require.NoError(s.t, err)
	return in
}

// run runs the link until the test ends.
func (in *instance) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- in.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// ping calls Redis regardless of the breaker.
func (in *instance) ping(ctx context.Context) error {
	return ping(ctx, in.client, in.Link.o.Prefix)
}

func (in *instance) connected() bool { return in.Status().Connected }

func (in *instance) metrics() string {
	var b bytes.Buffer
	in.set.WritePrometheus(&b)
	return b.String()
}

// TestFaultsUnderLoad kills, pauses and restarts Redis under three instances that never
// stop asking. No error surfaces, no caller waits for long, the fallback is used and left.
func TestFaultsUnderLoad(t *testing.T) {
	s := newServer(t)
	const timeout = 2 * time.Second // a busy machine may be slow at times
	p := limits{
		global: ratelimit.Limit{N: 3000, Window: time.Second},
		user:   ratelimit.Limit{N: 1000, Window: time.Second},
	}.policy(t)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	var instances []*instance
	var slow, takes [3]atomic.Int64
	var longest atomic.Int64
	for i := range 3 {
		in := s.instance(timeout)
		in.run(t)
		instances = append(instances, in)
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				k := tickets(p, repeat(50, event{"x", fmt.Sprint("u", n%7)})...)
				start := time.Now()
				if err := in.Take(context.Background(), start, []*ratelimit.Tickets{k}); err != nil {
					t.Errorf("instance %d: %s", i, err)
					return
				}
				took := time.Since(start)
				if took > timeout/2 {
					slow[i].Add(1)
				}
				for old := longest.Load(); int64(took) > old && !longest.CompareAndSwap(old, int64(took)); old = longest.Load() {
				}
				takes[i].Add(1)
				testkit.Pause(2 * time.Millisecond)
			}
		})
	}
	all := func(want bool, within time.Duration) {
		t.Helper()
		require.Eventually(t, func() bool {
			for _, in := range instances {
				if in.connected() != want {
					return false
				}
			}
			return true
		}, within, 10*time.Millisecond)
	}
	all(true, time.Minute)
	for _, fault := range []struct {
		name        string
		begin, heal func()
	}{
		{"paused", func() { s.signal(sigStop) }, func() { s.signal(sigCont) }},
		{"killed", s.kill, s.start},
		{"replica", func() { s.do("replicaof", "127.0.0.1", "1") }, func() { s.do("replicaof", "no", "one") }},
		{"full", func() { s.do("config", "set", "maxmemory", "1") }, func() { s.do("config", "set", "maxmemory", "0") }},
		{"flushed", func() { s.do("script", "flush") }, nil},
	} {
		t.Run(fault.name, func(t *testing.T) {
			var fallbacks [3]uint64
			for i, in := range instances {
				fallbacks[i] = in.Status().Fallbacks
				slow[i].Store(0)
			}
			longest.Store(0)
			fault.begin()
			if fault.heal == nil {
				testkit.Pause(300 * time.Millisecond)
				all(true, time.Minute)
				return
			}
			all(false, time.Minute)
			before := [3]int64{takes[0].Load(), takes[1].Load(), takes[2].Load()}
			testkit.Pause(1200 * time.Millisecond)
			for i, in := range instances {
				require.Eventually(t, func() bool {
					return takes[i].Load()-before[i] > 50 && in.Status().Fallbacks > fallbacks[i]+50
				}, testkit.Patience, 10*time.Millisecond, "held up while Redis was unreachable")
				require.NotEmpty(t, in.Status().LastError)
				require.Contains(t, in.metrics(), "sloengine_ratelimit_fallback 1\n")
				require.Contains(t, in.metrics(), "sloengine_redis_up 0\n")
			}
			for i := range slow {
				require.LessOrEqual(t, slow[i].Load(), int64(3), "only the first may have to wait for the timeout")
			}
			healed := time.Now()
			fault.heal()
			all(true, time.Minute)
			t.Logf("longest call %s, back after %s", time.Duration(longest.Load()), time.Since(healed))
			require.Less(t, time.Duration(longest.Load()), 2*timeout)
			for _, in := range instances {
				require.Contains(t, in.metrics(), "sloengine_ratelimit_fallback 0\n")
				require.Contains(t, in.metrics(), "sloengine_redis_up 1\n")
			}
		})
	}
	in := instances[0]
	require.Contains(t, in.log.String(), `level=WARN msg="redis unreachable`)
	require.Contains(t, in.log.String(), `level=WARN msg="redis reachable again`)
	text := in.metrics()
	for _, name := range []string{
		`sloengine_ratelimit_fallback_total`, `sloengine_redis_round_trip_seconds_count`,
		`sloengine_redis_errors_total{reason="read_only"}`, `sloengine_breaker_state{`,
	} {
		require.Contains(t, text, name)
	}
	require.NotContains(t, text, `sloengine_redis_errors_total{reason="read_only"} 0`)
	require.NotContains(t, text, `sloengine_redis_errors_total{reason="out_of_memory"} 0`)
	st := in.Status()
	require.True(t, st.Connected)
	require.Positive(t, st.RoundTripSeconds)
}

// do runs a command with a client of its own.
func (s *server) do(args ...any) {
	s.t.Helper()
	c := s.client(patient)
	defer c.Close()
	do(s.t, c, args...)
}

// TestNoFallbackBecauseOfALimit: events that the shared limit refuses are refused, though the local
// one has all of its capacity.
func TestNoFallbackBecauseOfALimit(t *testing.T) {
	in := newServer(t).instance(5 * time.Second)
	p := limits{global: ratelimit.Limit{N: 30, Window: time.Hour}}.policy(t)
	require.Equal(t, 30, take(t, in, tickets(p, repeat(100, event{"x", ""})...)))
	require.Zero(t, take(t, in, tickets(p, repeat(100, event{"x", ""})...)))
	require.Zero(t, in.Status().Fallbacks)
}

// TestRedisMissingFromTheStart: stricter limits from the first event on.
func TestRedisMissingFromTheStart(t *testing.T) {
	s := newServer(t)
	s.kill()
	in := s.instance(5 * time.Second)
	require.False(t, in.connected())
	p := limits{global: ratelimit.Limit{N: 30, Window: time.Hour}}.policy(t)
	require.Equal(t, 10, take(t, in, tickets(p, repeat(100, event{"x", ""})...)))
	require.False(t, in.connected())
	in.run(t)
	s.start()
	require.Eventually(t, in.connected, testkit.Patience, 10*time.Millisecond)
	require.Equal(t, 30, take(t, in, tickets(p, repeat(100, event{"x", ""})...)))
}

// TestIdleLinkIsTrue: without any traffic the status follows Redis.
func TestIdleLinkIsTrue(t *testing.T) {
	s := newServer(t)
	in := s.instance(time.Second)
	in.run(t)
	require.Eventually(t, in.connected, testkit.Patience, 10*time.Millisecond)
	require.NoError(t, in.ping(context.Background()))
	since := in.Status().Since
	s.kill()
	require.Eventually(t, func() bool { return !in.connected() }, testkit.Patience, 10*time.Millisecond)
	require.True(t, in.Status().Since.After(since))
	require.Error(t, in.ping(context.Background()))
}

// TestCallerGoesAway: a context that ends says nothing about Redis, and the events are
// judged all the same.
func TestCallerGoesAway(t *testing.T) {
	in := newServer(t).instance(time.Second)
	p := limits{global: ratelimit.Limit{N: 30, Window: time.Hour}}.policy(t)
	take(t, in, tickets(p, event{"x", ""}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	k := tickets(p, repeat(100, event{"x", ""})...)
	require.NoError(t, in.Take(ctx, time.Now(), []*ratelimit.Tickets{k}))
	require.Equal(t, 10, count(k))
	require.True(t, in.connected())
	require.Empty(t, in.Status().LastError)
}

type failing struct{}

func (f failing) Peek(ctx context.Context, now time.Time, t *ratelimit.Tickets) error {
	return f.Take(ctx, now, []*ratelimit.Tickets{t})
}

func (failing) Take(_ context.Context, _ time.Time, list []*ratelimit.Tickets) error {
	list[0].List[0].Over = 3
	return errors.New("no")
}

func TestEvenTheLocalStoreFails(t *testing.T) {
	in := newServer(t).instance(time.Second)
	f, err := NewFailover(FailoverOptions{Link: in.Link, Shared: failing{}, Local: failing{}})
	require.NoError(t, err)
	p := limits{}.policy(t)
	require.Equal(t, 5, take(t, f, tickets(p, repeat(5, event{"x", ""})...)))
	require.Contains(t, in.metrics(), "sloengine_ratelimit_fallback_errors_total 1\n")
}

// TestFlapping: a Redis that answers probes while calls fail is tried less and less often.
func TestFlapping(t *testing.T) {
	s := newServer(t)
	in := s.instance(time.Second)
	var asked atomic.Int64
	broken := storeFunc(func() error { asked.Add(1); return errors.New("permission denied for scripts") })
	local, err := ratelimit.NewTable(ratelimit.TableOptions{})
	require.NoError(t, err)
	f, err := NewFailover(FailoverOptions{Link: in.Link, Shared: broken, Local: local})
	require.NoError(t, err)
	in.run(t)
	p := limits{}.policy(t)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); testkit.Pause(5 * time.Millisecond) {
		take(t, f, tickets(p, event{"x", ""}))
	}
	t.Logf("asked %d times", asked.Load())
	require.GreaterOrEqual(t, asked.Load(), int64(3))
	require.LessOrEqual(t, asked.Load(), int64(7))
}

type storeFunc func() error

func (f storeFunc) Take(context.Context, time.Time, []*ratelimit.Tickets) error { return f() }

func (f storeFunc) Peek(context.Context, time.Time, *ratelimit.Tickets) error { return f() }

// TestPeek: the expected outcome is returned, and nothing is written.
func TestPeek(t *testing.T) {
	s := newServer(t)
	store := s.store()
	for _, a := range []ratelimit.Algorithm{ratelimit.SlidingWindow, ratelimit.TokenBucket, ratelimit.FixedWindow} {
		p := limits{global: ratelimit.Limit{N: 30, Window: time.Hour, Algorithm: a},
			user: ratelimit.Limit{N: 10, Window: 2 * time.Hour, Algorithm: a}}.policy(t)
		events := append(repeat(20, event{"x", "u"}), repeat(25, event{"x", "v"})...)
		require.Equal(t, 5, take(t, store, tickets(p, repeat(5, event{"x", "u"})...)))
		var keys []string
		for range 3 {
			k := tickets(p, events...)
			require.NoError(t, store.Peek(context.Background(), time.Now(), k))
			require.Equal(t, 15, count(k), "5 of u and 10 of v")
			now := redisconn.Strings(do(t, s.client(patient), "KEYS", "*"))
			if keys == nil {
				keys = now
			}
			require.ElementsMatch(t, keys, now)
		}
		require.Equal(t, 15, take(t, store, tickets(p, events...)))
		do(t, s.client(patient), "FLUSHDB")
	}
}

// TestNoFallback: without local limits everything passes while Redis is not there.
func TestNoFallback(t *testing.T) {
	s := newServer(t)
	in := s.instance(time.Second)
	f, err := NewFailover(FailoverOptions{Link: in.Link, Shared: s.store()})
	require.NoError(t, err)
	p := limits{global: ratelimit.Limit{N: 30, Window: time.Hour}}.policy(t)
	require.Equal(t, 30, take(t, f, tickets(p, repeat(50, event{"x", ""})...)))
	s.kill()
	k := tickets(p, repeat(50, event{"x", ""})...)
	require.Equal(t, 50, take(t, f, k))
	require.NoError(t, f.Peek(context.Background(), time.Now(), k))
	require.Equal(t, 50, count(k))
}
