package shared

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

func TestOptions(t *testing.T) {
	_, err := NewStore(StoreOptions{})
	require.ErrorIs(t, err, errNoClient)
	client := redisconn.New(redisconn.Options{})
	defer client.Close()
	for prefix, want := range map[string]string{
		"": "{sloengine}", "prod": "{prod}", "{a}:b": "{a}:b", "x:{y}": "x:{y}",
		"{}x": "error", "a b": "error", "}a{": "error", strings.Repeat("x", 101): "error",
	} {
		s, err := NewStore(StoreOptions{Client: client, Prefix: prefix})
		if want == "error" {
			require.ErrorContains(t, err, "prefix", prefix)
			continue
		}
		require.NoError(t, err, prefix)
		require.Equal(t, want, s.prefix)
	}
	_, err = NewLink(LinkOptions{Client: client, Timeout: 1})
	require.ErrorContains(t, err, "at least 1ms")
	_, err = NewFailover(FailoverOptions{Link: &Link{}})
	require.Error(t, err)
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		limit             ratelimit.Limit
		width, span, most int64
	}{
		{ratelimit.Limit{N: 100, Window: time.Minute}, 3_750_000, 16, 64_751},
		{ratelimit.Limit{N: 5, Window: time.Second}, 1000, 1000, 2010},
		{ratelimit.Limit{N: 100, Window: time.Microsecond}, 1, 1, 1010},
		{ratelimit.Limit{N: 100, Window: time.Hour, Algorithm: ratelimit.FixedWindow}, 3_600_000_000, 0, 3_601_010},
		{ratelimit.Limit{N: 100, Burst: 50, Window: time.Hour, Algorithm: ratelimit.TokenBucket}, 0, 0, 1_801_010},
		{ratelimit.Limit{N: 1, Burst: 1 << 40, Window: 24 * time.Hour, Algorithm: ratelimit.TokenBucket}, 0, 0,
			11 * 365 * 86400 * 1000},
	} {
		p, err := planOf(&c.limit)
		require.NoError(t, err)
		require.Equal(t, c.width, p.width)
		require.Equal(t, c.span, p.span)
		require.GreaterOrEqual(t, p.width*p.span, min(c.width, 1)*c.limit.Window.Microseconds()*min(c.span, 1))
		require.Positive(t, p.ttl)
		require.LessOrEqual(t, p.ttl, c.most)
	}
	for _, l := range []ratelimit.Limit{{Window: 1}, {N: 1}, {N: 1, Window: time.Second, Algorithm: ratelimit.TokenBucket},
		{N: 1, Window: time.Second, Algorithm: 9}} {
		_, err := planOf(&l)
		require.Error(t, err)
	}
}

// TestAllOrNone: an event that one layer refuses is charged to none.
func TestAllOrNone(t *testing.T) {
	st := newServer(t).store()
	p := limits{
		global: ratelimit.Limit{N: 10, Window: time.Minute},
		user:   ratelimit.Limit{N: 3, Window: time.Minute},
	}.policy(t)
	require.Equal(t, 3, take(t, st, tickets(p, repeat(50, event{"x", "greedy"})...)))
	// The 47 refused have taken nothing from the others.
	k := tickets(p, append(
		repeat(5, event{"x", ""}), append(repeat(2, event{"x", "greedy"}), repeat(4, event{"x", "other"})...)...)...)
	require.Equal(t, 7, take(t, st, k))
	var over []uint16
	for i := range k.List {
		over = append(over, k.List[i].Over)
	}
	const global, user = 1, 4
	require.Equal(t, []uint16{0, 0, 0, 0, 0, user, user, 0, 0, global, global}, over)
}

// TestOneRoundTrip: a group of 10,000 events is one pipeline of short scripts.
func TestOneRoundTrip(t *testing.T) {
	s := newServer(t)
	client := s.client(patient)
	st, err := NewStore(StoreOptions{Client: client})
	require.NoError(t, err)
	plenty := ratelimit.Limit{N: 1_000_000, Window: time.Minute}
	p := limits{global: plenty, user: plenty}.policy(t)
	require.Equal(t, 1, take(t, st, tickets(p, event{"x", "first"}))) // Redis learns the script

	for _, c := range []struct{ users, atMost int }{{1, 1}, {400, 1}, {1000, 40}} {
		do(t, client, "CONFIG", "RESETSTAT")
		var list []*ratelimit.Tickets
		for b := range 10 {
			events := make([]event, 1000)
			for i := range events {
				events[i] = event{"x", fmt.Sprint((b*1000 + i) % c.users)}
			}
			list = append(list, tickets(p, events...))
		}
		if c.users == 400 { // in order: long runs
			list = nil
			for u := range c.users {
				list = append(list, tickets(p, repeat(25, event{"x", fmt.Sprint(u)})...))
			}
		}
		start := time.Now()
		require.Equal(t, 10_000, take(t, st, list...))
		stats, _ := do(t, client, "INFO", "commandstats").(string)
		_, of, found := strings.Cut(stats, "cmdstat_evalsha:calls=")
		require.True(t, found, stats)
		number, _, _ := strings.Cut(of, ",")
		scripts, err := strconv.Atoi(number)
		require.NoError(t, err)
		t.Logf("%d users: %d scripts, %s", c.users, scripts, time.Since(start))
		require.LessOrEqual(t, scripts, c.atMost)
		require.NotContains(t, stats, "cmdstat_eval:")
	}
	g := newGroup()
	require.NoError(t, g.fill([]*ratelimit.Tickets{tickets(p, repeat(10_000, event{"x", "u"})...)}))
	require.Equal(t, 1, g.n)
	require.Len(t, g.chunks[0].runs, 1)
}

// TestReloadInAGroup: tickets of two policies in one group count in the same counters.
func TestReloadInAGroup(t *testing.T) {
	st := newServer(t).store()
	one := limits{global: ratelimit.Limit{N: 100, Window: time.Minute}}.policy(t)
	two := limits{global: ratelimit.Limit{N: 150, Window: time.Minute}}.policy(t)
	list := []*ratelimit.Tickets{
		tickets(one, repeat(80, event{"x", ""})...), tickets(two, repeat(40, event{"x", ""})...),
		tickets(one, repeat(40, event{"x", ""})...), tickets(two, repeat(40, event{"x", ""})...),
	}
	take(t, st, list...)
	for i, want := range []int{80, 40, 0, 30} {
		require.Equal(t, want, count(list[i]), i)
	}
}

func TestEmptyGroups(t *testing.T) {
	st, err := NewStore(StoreOptions{Client: redisconn.New(redisconn.Options{Addrs: []string{"127.0.0.1:1"}})})
	require.NoError(t, err)
	defer st.client.Close()
	require.Zero(t, take(t, st)) // nothing to ask, so nothing is
	p := limits{}.policy(t)
	k := tickets(p, event{"x", ""})
	k.List[0].Skip, k.List[0].Over = true, 5
	require.Equal(t, 1, take(t, st, k))
}

// TestInstancesWithSkewedClocks: three instances at once, whose clocks are hours apart,
// never let more pass than the limit in any span of the window.
func TestInstancesWithSkewedClocks(t *testing.T) {
	s := newServer(t)
	const n, window = 200, 500 * time.Millisecond
	p := limits{global: ratelimit.Limit{N: n, Window: window}, user: ratelimit.Limit{N: 20, Window: window}}.policy(t)
	type grant struct{ before, after time.Time }
	var mu sync.Mutex
	by := map[string][]grant{}
	var work sync.WaitGroup
	end := time.Now().Add(2500 * time.Millisecond)
	some := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(by["all"]) > 3*n || time.Since(end) > time.Minute
	}
	for i := range 3 {
		st := s.store()
		skew := time.Duration(i-1) * 3 * time.Hour
		work.Go(func() {
			for round := 0; time.Now().Before(end) || !some(); round++ {
				var events []event
				for j := range 40 {
					events = append(events, event{"x", fmt.Sprint((round + j/2) % 15)})
				}
				k := tickets(p, events...)
				before := time.Now()
				if err := st.Take(context.Background(), before.Add(skew), []*ratelimit.Tickets{k}); err != nil {
					t.Error(err)
					return
				}
				g := grant{before, time.Now()}
				mu.Lock()
				for j := range k.List {
					if k.List[j].Over == 0 {
						by["all"] = append(by["all"], g)
						by[events[j].user] = append(by[events[j].user], g)
					}
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	for who, grants := range by {
		limit := 20
		if who == "all" {
			limit = n
			require.Greater(t, len(grants), 3*n, "too strict")
		}
		for _, first := range grants {
			sure := 0 // within less than a window from first.before
			for _, g := range grants {
				if !g.before.Before(first.before) && g.after.Before(first.before.Add(window)) {
					sure++
				}
			}
			require.LessOrEqual(t, sure, limit, who)
		}
	}
	t.Logf("%d passed", len(by["all"]))
}

func TestKeysExpire(t *testing.T) {
	s := newServer(t)
	client := s.client(patient)
	st, err := NewStore(StoreOptions{Client: client, Prefix: "expire"})
	require.NoError(t, err)
	p := limits{
		global: ratelimit.Limit{N: 5, Window: 2 * time.Second},
		user:   ratelimit.Limit{N: 100, Burst: 100, Window: 3 * time.Second, Algorithm: ratelimit.TokenBucket},
		types:  map[string]ratelimit.Limit{"x": {N: 10, Window: 2 * time.Second, Algorithm: ratelimit.FixedWindow}},
	}.policy(t)
	require.Equal(t, 2, take(t, st, tickets(p, event{"x", "a"}, event{"x", "b"})))
	keys := redisconn.Strings(do(t, client, "KEYS", "*"))
	require.Len(t, keys, 4)
	for _, k := range keys {
		require.Regexp(t, `^\{expire\}:l:[0-9a-f]{32}$`, k)
		ttl := do(t, client, "PTTL", k)
		require.Positive(t, ttl)
		require.LessOrEqual(t, ttl, int64(6100))
		require.True(t, strings.HasPrefix(k, "{expire}:"), "one slot of a cluster")
	}
	require.Eventually(t, func() bool { return do(t, client, "DBSIZE") == int64(0) },
		testkit.Patience, 50*time.Millisecond)
}

// TestCallersClient: password, user and database are those of the client.
func TestCallersClient(t *testing.T) {
	s := newServer(t, "--requirepass", "secret")
	p := limits{}.policy(t)
	wrong, err := NewStore(StoreOptions{Client: s.client(patient)})
	require.NoError(t, err)
	err = wrong.Take(context.Background(), time.Now(), []*ratelimit.Tickets{tickets(p, event{"x", ""})})
	require.Error(t, err)
	require.Equal(t, reasonDenied, reasonOf(err))
	require.Error(t, ping(context.Background(), wrong.client, wrong.prefix))

	client := s.client(patient, func(o *redisconn.Options) {
		o.DB, o.Login = 3, func() (string, string, error) { return "", "secret", nil }
	})
	st, err := NewStore(StoreOptions{Client: client})
	require.NoError(t, err)
	require.Equal(t, 1, take(t, st, tickets(p, event{"x", ""})))
	require.NoError(t, ping(context.Background(), st.client, st.prefix))
	require.Contains(t, do(t, client, "INFO", "keyspace"), "db3:keys=2")
}

// TestErrorsOfRedis: every failure is named, charges nothing, and ends.
func TestErrorsOfRedis(t *testing.T) {
	s := newServer(t)
	client := s.client(patient)
	st, err := NewStore(StoreOptions{Client: client})
	require.NoError(t, err)
	ctx := context.Background()
	p := limits{global: ratelimit.Limit{N: 100, Window: time.Hour}}.policy(t)
	ten := func() *ratelimit.Tickets { return tickets(p, repeat(10, event{"x", ""})...) }
	require.Equal(t, 10, take(t, st, ten()))

	t.Run("scripts forgotten", func(t *testing.T) {
		do(t, client, "SCRIPT", "FLUSH")
		require.Equal(t, 10, take(t, st, ten()))
	})
	fails := func(t *testing.T, want reason) {
		t.Helper()
		k := ten()
		k.List[3].Over = 9
		err := st.Take(ctx, time.Now(), []*ratelimit.Tickets{k})
		require.Error(t, err)
		require.Equal(t, want, reasonOf(err), err.Error())
		require.Equal(t, 10, count(k))
		require.Error(t, ping(ctx, st.client, st.prefix))
	}
	t.Run("replica", func(t *testing.T) {
		do(t, client, "REPLICAOF", "127.0.0.1", "1")
		fails(t, reasonReadOnly)
		do(t, client, "REPLICAOF", "NO", "ONE")
		require.Equal(t, 10, take(t, st, ten()))
	})
	t.Run("full", func(t *testing.T) {
		do(t, client, "CONFIG", "SET", "maxmemory", "1")
		fails(t, reasonMemory)
		do(t, client, "CONFIG", "SET", "maxmemory", "0")
		k := ten()
		require.Equal(t, 10, take(t, st, k))
		require.EqualValues(t, 60, k.Charges(9)[0].Left, "a failed group was charged")
	})
	t.Run("foreign value", func(t *testing.T) {
		for _, k := range redisconn.Strings(do(t, client, "KEYS", "{sloengine}:l:*")) {
			do(t, client, "SET", k, "hello, this is not ours")
		}
		require.Equal(t, 10, take(t, st, ten())) // begun again
	})
	t.Run("gone", func(t *testing.T) {
		s.kill()
		k := ten()
		err := st.Take(ctx, time.Now(), []*ratelimit.Tickets{k})
		require.Equal(t, reasonConnection, reasonOf(err))
	})
}

// TestHardTimeout: with a client that waits for 30 seconds, Take still ends in time, also while it connects.
func TestHardTimeout(t *testing.T) {
	s := newServer(t)
	st, err := NewStore(StoreOptions{Client: s.client(func(o *redisconn.Options) { o.Timeout = 30 * time.Second })})
	require.NoError(t, err)
	p := limits{}.policy(t)
	k := tickets(p, event{"x", ""})
	take(t, st, k)
	s.signal(sigStop)
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		start := time.Now()
		err := st.Take(ctx, start, []*ratelimit.Tickets{k})
		cancel()
		require.Error(t, err)
		require.Less(t, time.Since(start), 10*time.Second)
		require.Equal(t, reasonTimeout, reasonOf(err), err.Error())
	}
	s.signal(sigCont)
	take(t, st, k)
}
