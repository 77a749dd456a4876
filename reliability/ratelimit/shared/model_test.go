package shared

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// oracle decides one ticket after the other from a list of everything that ever passed.
type oracle map[ratelimit.Key]*history

type history struct {
	limit  *ratelimit.Limit
	passed []time.Time
	level  int64 // of a token bucket, in tokens times the window's microseconds
	at     time.Time
}

// room is the remainder of a counter at a time, by the definition of its algorithm.
func (h *history) room(now time.Time) int64 {
	l, window := h.limit, h.limit.Window.Microseconds()
	switch l.Algorithm {
	case ratelimit.TokenBucket:
		if h.at.IsZero() {
			h.level = l.Burst * window
		} else {
			h.level = min(h.level+now.Sub(h.at).Microseconds()*l.N, l.Burst*window)
		}
		h.at = now
		return h.level / window
	case ratelimit.FixedWindow:
		return l.N - h.since(now.UnixMicro()/window, window)
	default:
		cut := int64(16)
		if l.N <= 16 {
			cut = 1000
		}
		width := (window + cut - 1) / cut
		return l.N - h.since(now.UnixMicro()/width-(window+width-1)/width, width)
	}
}

// since counts the events that passed at an index of at least first.
func (h *history) since(first, width int64) (n int64) {
	for i := len(h.passed) - 1; i >= 0 && h.passed[i].UnixMicro()/width >= first; i-- {
		n++
	}
	return n
}

func (o oracle) decide(now time.Time, charges []ratelimit.Charge) (over uint16, left []int64) {
	var all []*history
	for j, c := range charges {
		h := o[c.Key]
		if h == nil {
			h = &history{limit: c.Limit}
			o[c.Key] = h
		}
		all = append(all, h)
		room := h.room(now)
		if left = append(left, max(room, 0)); room <= 0 {
			over |= 1 << j
		}
	}
	if over == 0 {
		for j, h := range all {
			h.passed = append(h.passed, now)
			h.level -= h.limit.Window.Microseconds()
			left[j]--
		}
	}
	return over, left
}

// strict fails if ever more passed than the limit in a span of the window.
func (o oracle) strict(t *testing.T) (most int64) {
	for _, h := range o {
		for i, first := 0, 0; i < len(h.passed); i++ {
			for h.passed[i].Sub(h.passed[first]) >= h.limit.Window {
				first++
			}
			n, bound := int64(i-first+1), h.limit.N
			switch h.limit.Algorithm {
			case ratelimit.TokenBucket:
				bound += h.limit.Burst
			case ratelimit.FixedWindow:
				bound *= 2
			}
			require.LessOrEqual(t, n, bound, "%v", *h.limit)
			most = max(most, n*100/bound)
		}
	}
	return most
}

// TestModel runs the real script in a real Redis whose clock the test sets, and compares
// every decision with the oracle.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := newServer(t)
	client := s.client(patient)
	shapes := []limits{
		{
			global: ratelimit.Limit{N: 60, Window: 10 * time.Second},
			user:   ratelimit.Limit{N: 7, Window: 5 * time.Second},
			types: map[string]ratelimit.Limit{
				"sliding": {N: 25, Window: 3 * time.Second},
				"bucket":  {N: 20, Burst: 8, Window: 7 * time.Second, Algorithm: ratelimit.TokenBucket},
				"fixed":   {N: 15, Window: 4 * time.Second, Algorithm: ratelimit.FixedWindow},
				"one":     {N: 1, Window: 900 * time.Millisecond},
			},
		},
		{
			global: ratelimit.Limit{N: 50, Burst: 90, Window: 10 * time.Second, Algorithm: ratelimit.TokenBucket},
			user:   ratelimit.Limit{N: 18, Window: 1700*time.Millisecond + 13*time.Microsecond},
			types:  map[string]ratelimit.Limit{"sliding": {N: 40, Window: time.Minute}},
		},
	}
	for i, shape := range shapes {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			st, err := NewStore(StoreOptions{Client: client, Prefix: fmt.Sprint("model", i)})
			require.NoError(t, err)
			st.script = atTime(takeScriptText)
			p, o := shape.policy(t), oracle{}
			now := time.Now().Truncate(time.Microsecond)
			passed, refused := 0, 0
			for range 800 {
				switch r.IntN(10) {
				case 0:
					now = now.Add(time.Duration(r.IntN(12_000_000)) * time.Microsecond)
				case 1: // the same microsecond
				default:
					now = now.Add(time.Duration(r.IntN(300_000)) * time.Microsecond)
				}
				setTime(t, client, now)
				var list []*ratelimit.Tickets
				for range 1 + r.IntN(3) {
					var events []event
					for len(events) < r.IntN(15) {
						e := event{kind: []string{"sliding", "bucket", "fixed", "one", "free"}[r.IntN(5)]}
						if r.IntN(4) > 0 {
							e.user = fmt.Sprint(r.IntN(5))
						}
						events = append(events, repeat(1+r.IntN(4), e)...)
					}
					k := tickets(p, events...)
					for i := range k.List {
						k.List[i].Over = 77 // of an earlier life
						k.List[i].Skip, k.List[i].Exempt = r.IntN(8) == 0, r.IntN(8) == 0
					}
					list = append(list, k)
				}
				require.NoError(t, st.Take(context.Background(), time.Time{}, list))
				for _, k := range list {
					for i := range k.List {
						if k.List[i].Skip || k.List[i].Exempt {
							require.Zero(t, k.List[i].Over)
							continue
						}
						over, left := o.decide(now, k.Charges(i))
						require.Equal(t, over, k.List[i].Over, "ticket %d at %s", i, now)
						require.Equal(t, over != 0, k.List[i].Wait > 0)
						for j, c := range k.Charges(i) {
							require.Equal(t, left[j], int64(c.Left))
							require.NotZero(t, c.Cap)
						}
						if over == 0 {
							passed++
						} else {
							refused++
						}
					}
				}
			}
			t.Logf("%d passed, %d refused, %d counters, fullest span %d %%", passed, refused, len(o), o.strict(t))
			require.Greater(t, passed, 500)
			require.Greater(t, refused, 500)
		})
	}
}

// TestModelLargeGroup splits a group into many calls, most of them with a counter that
// is exhausted in the middle.
func TestModelLargeGroup(t *testing.T) {
	s := newServer(t)
	client := s.client(patient)
	st, err := NewStore(StoreOptions{Client: client})
	require.NoError(t, err)
	st.script = atTime(takeScriptText)
	p := limits{
		global: ratelimit.Limit{N: 9000, Window: time.Minute},
		user:   ratelimit.Limit{N: 7, Window: time.Minute},
		types:  map[string]ratelimit.Limit{"a": {N: 4000, Window: time.Minute}},
	}.policy(t)
	o := oracle{}
	now := time.Now().Truncate(time.Microsecond)
	for round := range 2 {
		setTime(t, client, now)
		events := make([]event, 10_000)
		for i := range events {
			events[i] = event{[]string{"a", "b"}[rand.IntN(2)], fmt.Sprint(rand.IntN(1500))}
		}
		k := tickets(p, events...)
		take(t, st, k)
		over := map[uint16]int{}
		for i := range k.List {
			want, _ := o.decide(now, k.Charges(i))
			require.Equal(t, want, k.List[i].Over, "round %d, ticket %d", round, i)
			over[want]++
		}
		t.Logf("%v", over)
		now = now.Add(40 * time.Second)
	}
	o.strict(t)
}

// TestWaitIsWhenThereIsRoom moves the clock to just before and just after the wait.
func TestWaitIsWhenThereIsRoom(t *testing.T) {
	s := newServer(t)
	client := s.client(patient)
	for name, limit := range map[string]ratelimit.Limit{
		"sliding, few":  {N: 5, Window: 10 * time.Second},
		"sliding, many": {N: 50, Window: 10 * time.Second},
		"fixed":         {N: 5, Window: 10 * time.Second, Algorithm: ratelimit.FixedWindow},
		"bucket":        {N: 3, Burst: 6, Window: 10 * time.Second, Algorithm: ratelimit.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := NewStore(StoreOptions{Client: client, Prefix: "wait" + name[len(name)-3:]})
			require.NoError(t, err)
			st.script = atTime(takeScriptText)
			p := limits{types: map[string]ratelimit.Limit{"x": limit}}.policy(t)
			one := func() *ratelimit.Tickets { return tickets(p, event{kind: "x"}) }
			now := time.Now().Truncate(time.Microsecond)
			for range 30 {
				setTime(t, client, now)
				k := one()
				if take(t, st, k) == 1 {
					now = now.Add(time.Duration(rand.IntN(200_000)) * time.Microsecond)
					continue
				}
				wait := k.List[0].Wait
				require.Positive(t, wait)
				require.LessOrEqual(t, wait, limit.Window*17/16+time.Second/100)
				setTime(t, client, now.Add(wait-time.Microsecond*2))
				require.Zero(t, take(t, st, one()))
				now = now.Add(wait)
				setTime(t, client, now)
				require.Equal(t, 1, take(t, st, one()))
			}
		})
	}
}

// TestClockOfRedisSetBack: a little is waited for, a lot is not.
func TestClockOfRedisSetBack(t *testing.T) {
	s := newServer(t)
	client := s.client(patient)
	for name, limit := range map[string]ratelimit.Limit{
		"sliding": {N: 20, Window: 10 * time.Second},
		"fixed":   {N: 20, Window: 10 * time.Second, Algorithm: ratelimit.FixedWindow},
		"bucket":  {N: 20, Burst: 20, Window: 10 * time.Second, Algorithm: ratelimit.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := NewStore(StoreOptions{Client: client, Prefix: name})
			require.NoError(t, err)
			st.script = atTime(takeScriptText)
			p := limits{types: map[string]ratelimit.Limit{"x": limit}}.policy(t)
			now := time.Now()
			many := func() *ratelimit.Tickets { return tickets(p, repeat(30, event{kind: "x"})...) }
			setTime(t, client, now)
			require.Equal(t, 20, take(t, st, many()))
			setTime(t, client, now.Add(-2*time.Second))
			require.Zero(t, take(t, st, many()))
			setTime(t, client, now.Add(-time.Hour))
			take(t, st, many())
			setTime(t, client, now.Add(-time.Hour+25*time.Second))
			require.Equal(t, 20, take(t, st, many()), "it would have stopped for an hour")
		})
	}
}
