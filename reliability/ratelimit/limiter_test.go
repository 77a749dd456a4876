package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
)

func scrape(set *metrics.Set) string {
	var b bytes.Buffer
	set.WritePrometheus(&b)
	return b.String()
}

func user(id string) *Subject {
	s := typed("login")
	s.Attrs = attrs{"user_id": id}
	return s
}

var byUser = []Source{{Kind: FromAttribute, Name: "user_id"}}

// The most specific layer that is over decides, each that is over is hit, and none is
// charged.
func TestMostSpecificDecides(t *testing.T) {
	set := metrics.NewSet()
	l := mustLimiter(t, Options{Metrics: NewMetrics(set), Policy: mustCompile(t, Config{
		Global: &Values{Limit: new(int64(6)), Window: new(time.Minute), OnExceeded: new(OnExceededAggregate)},
		Types: []TypeRule{{Match: "login",
			Values: Values{Limit: new(int64(4)), Window: new(time.Minute), OnExceeded: new(OnExceededThrottle),
				ThrottleDelay: new(20 * time.Millisecond)}}},
		Contexts: []ContextRule{
			{Name: "user", From: byUser, Values: Values{Limit: new(int64(2)), Window: new(time.Minute),
				OnExceeded: new(OnExceededDrop)}},
			{Name: "tenant", From: []Source{{Kind: FromAttribute, Name: "tenant"}},
				Values: Values{Limit: new(int64(1)), Window: new(time.Minute), ThrottleMaxWait: new(9 * time.Second)}},
		},
	})})
	decide := func(s *Subject) *Ticket { return one(t, l, start, &Caller{}, s) }
	require.Equal(t, Verdict{Weight: 1}, decide(user("a")).Verdict)
	require.Equal(t, Verdict{Weight: 1}, decide(user("a")).Verdict)

	k := decide(user("a")) // user over
	require.Equal(t, Drop, k.Verdict.Action)
	require.Equal(t, Context, k.Verdict.Layer)
	require.Equal(t, "user", k.RuleName())
	require.Equal(t, "login", k.policy.rules[k.rule].name)
	require.EqualValues(t, 1<<2, k.Over)
	require.Equal(t, Pass, decide(user("b")).Verdict.Action)
	require.Equal(t, Pass, decide(user("b")).Verdict.Action)

	k = decide(user("c")) // type over
	require.Equal(t, Throttle, k.Verdict.Action)
	require.Equal(t, Type, k.Verdict.Layer)
	delay, wait := k.Throttle()
	require.Equal(t, 20*time.Millisecond, delay)
	require.Equal(t, time.Second, wait)
	require.GreaterOrEqual(t, k.RetryAfter(), 60)
	require.LessOrEqual(t, k.RetryAfter(), 68)

	k = decide(user("a")) // both
	require.Equal(t, "user", k.RuleName())
	require.EqualValues(t, 1<<2|1<<1, k.Over)

	other := typed("other")
	require.Equal(t, Pass, decide(other).Verdict.Action)
	other.Attrs = attrs{"tenant": "x"}
	require.Equal(t, Pass, decide(other).Verdict.Action)
	other.Attrs = nil
	k = decide(other) // global over: the treatment of the type, here that of global
	require.Equal(t, Global, k.Verdict.Layer)
	require.Equal(t, Aggregate, k.Verdict.Action)
	require.Equal(t, "global", k.RuleName())
	require.Equal(t, DefaultRule, k.policy.rules[k.rule].name)

	s := user("z") // the tenant's context has no strategy of its own
	s.Attrs = attrs{"tenant": "x"}
	k = decide(s)
	require.Equal(t, "tenant", k.RuleName())
	require.Equal(t, Throttle, k.Verdict.Action)
	delay, wait = k.Throttle()
	require.Equal(t, 20*time.Millisecond, delay)
	require.Equal(t, 9*time.Second, wait)

	hits := map[string]uint64{}
	for _, s := range l.Status() {
		hits[s.Rule] = s.Hits
	}
	require.Equal(t, map[string]uint64{"global": 2, "(default)": 0, "login": 3, "user": 2, "tenant": 1}, hits)
	text := scrape(set)
	require.Contains(t, text, `sloengine_ratelimit_hits_total{layer="global",type=""} 2`)
	require.Contains(t, text, `sloengine_ratelimit_hits_total{layer="type",type="login"} 3`)
	require.Contains(t, text, `sloengine_ratelimit_hits_total{layer="context",type=""} 3`)
	require.Contains(t, text, `sloengine_ratelimit_throttled_total 2`)
	require.Contains(t, text, `sloengine_ratelimit_aggregated_total 0`, "a verdict is no merged event")
	l.CountAggregated(3)
	require.Contains(t, scrape(set), `sloengine_ratelimit_aggregated_total 3`)
	require.Contains(t, text, `sloengine_ratelimit_dropped_total{type="login"} 0`,
		"only the caller knows what became of it")
}

func TestRefusedChargesNothing(t *testing.T) {
	l := mustLimiter(t, Options{Policy: mustCompile(t, Config{
		Global:   &Values{Limit: new(int64(100)), Window: new(time.Hour)},
		Contexts: []ContextRule{{Name: "user", From: byUser, Values: Values{Limit: new(int64(5)), Window: new(time.Hour)}}},
	})})
	require.Equal(t, 5, passes(t, l, start, &Caller{}, user("flood"), 10_000))
	for i := range 19 {
		require.Equal(t, 5, passes(t, l, start, &Caller{}, user(fmt.Sprint(i)), 6), "a flood of one user cost the others")
	}
	require.Zero(t, passes(t, l, start, &Caller{}, user("last"), 5))
}

func TestExemptAndSkip(t *testing.T) {
	set := metrics.NewSet()
	l := mustLimiter(t, Options{Metrics: NewMetrics(set), Policy: mustCompile(t, Config{
		Authentication: true,
		Default:        Values{Limit: new(int64(1)), Window: new(time.Hour), OnExceeded: new(OnExceededDrop)},
		Audit:          []string{"audit.*"},
		Bypass:         []BypassRule{{Types: []string{"fraud"}}},
	})})
	known := &Caller{Authenticated: true}
	require.Equal(t, 5, passes(t, l, start, &Caller{}, typed("audit.x"), 5))
	require.Equal(t, 5, passes(t, l, start, known, typed("fraud"), 5))
	require.Equal(t, 1, passes(t, l, start, &Caller{}, typed("fraud"), 5))
	var b Tickets
	for range 3 {
		l.Policy().Add(known, typed("a"), &b)
	}
	b.List[0].Skip, b.List[1].Skip = true, true
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
	for i := range b.List {
		require.Equal(t, Verdict{Weight: 1}, b.List[i].Verdict)
	}
	require.Contains(t, scrape(set), `sloengine_ratelimit_bypass_total{reason="audit"} 5`)
	require.Contains(t, scrape(set), `sloengine_ratelimit_bypass_total{reason="bypass"} 5`)
}

// An event is treated in the same way whenever it is sent again, 1 in N is kept, and weights add up
// to the number of events.
func TestSampling(t *testing.T) {
	for rate, weight := range map[float64]uint32{1: 1, 0.5: 2, 0.2: 5, 0.1: 10, 0.3: 3, 0.01: 100} {
		l := mustLimiter(t, Options{Policy: mustCompile(t, Config{
			Default: Values{Limit: new(int64(1)), Window: new(time.Hour), SampleRate: &rate},
		})})
		one(t, l, start, &Caller{}, typed("a"))
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 20_000
		var b Tickets
		s := typed("a")
		for i := range n {
			s.Sample = rng.Uint64()
			if i%2 == 0 {
				s.Sample &^= 0xfff // as others who sample by the low bits would leave
			}
			l.Policy().Add(&Caller{}, s, &b)
		}
		require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
		var first []Action
		var total, kept float64
		for i := range b.List {
			v := b.List[i].Verdict
			first = append(first, v.Action)
			if v.Action == Keep {
				require.Equal(t, weight, v.Weight)
				kept++
				total += float64(v.Weight)
			} else {
				require.Equal(t, SampleOut, v.Action)
				require.EqualValues(t, 1, v.Weight)
			}
		}
		p := 1 / float64(weight)
		require.InDelta(t, n*p, kept, 4*math.Sqrt(n*p*(1-p))+1e-9, "rate %v", rate)
		require.InDelta(t, n, total, 4*float64(weight)*math.Sqrt(n*p*(1-p))+1e-9)

		require.NoError(t, l.Decide(t.Context(), start.Add(time.Minute), []*Tickets{&b}))
		for i := range b.List {
			require.Equal(t, first[i], b.List[i].Verdict.Action, "a resend won")
		}
	}
}

// Seed 4: 1000 of a user in a minute are kept, then one in ten.
func TestSeedSample(t *testing.T) {
	l := mustLimiter(t, Options{Policy: mustCompile(t, Config{
		Default: Values{Limit: new(int64(100_000))},
		Contexts: []ContextRule{{Name: "user", From: byUser,
			Values: Values{Limit: new(int64(1000)), Window: new(time.Minute), SampleRate: new(0.1)}}},
	})})
	var b Tickets
	s := user("a")
	for i := range 10_000 {
		s.Sample = mix(uint64(i) + 1)
		l.Policy().Add(&Caller{}, s, &b)
	}
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
	count := map[Action]int{}
	for i := range b.List {
		count[b.List[i].Verdict.Action]++
	}
	require.Equal(t, 1000, count[Pass])
	require.InDelta(t, 900, count[Keep], 120)
	require.Equal(t, 9000, count[Keep]+count[SampleOut])
	require.Equal(t, 1000, passes(t, l, start, &Caller{}, user("b"), 1001), "another user has a limit of his own")
}

// Throttled tickets are decided again until they pass; the hit counts once.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		l := mustLimiter(t, Options{Metrics: NewMetrics(set), Policy: mustCompile(t, Config{
			Types: []TypeRule{{Match: "order", Values: Values{
				Limit: new(int64(100)), Window: new(time.Second), Algorithm: new(TokenBucket), Burst: new(int64(1)),
				OnExceeded: new(OnExceededThrottle),
			}}},
		})})
		var b Tickets
		for range 3 {
			l.Policy().Add(&Caller{}, typed("order"), &b)
		}
		began := time.Now()
		left := len(b.List)
		for left > 0 {
			require.NoError(t, l.Decide(t.Context(), time.Now(), []*Tickets{&b}))
			var delay time.Duration
			left = 0
			for i := range b.List {
				k := &b.List[i]
				if k.Verdict.Action == Throttle {
					delay, _ = k.Throttle()
					left++
				} else {
					k.Skip = true
				}
			}
			time.Sleep(delay)
		}
		require.Equal(t, 20*time.Millisecond, time.Since(began))
		for i := range b.List {
			require.Equal(t, Verdict{Weight: 1}, b.List[i].Verdict)
		}
		require.Contains(t, scrape(set), `sloengine_ratelimit_hits_total{layer="type",type="order"} 2`)
		require.Contains(t, scrape(set), `sloengine_ratelimit_throttled_total 2`)
	})
}

func TestReloadKeepsCounts(t *testing.T) {
	set, start := metrics.NewSet(), time.Now() // offenders age by the clock
	config := func(limit int64, types ...string) *Policy {
		c := Config{Default: Values{Window: new(time.Hour), OnExceeded: new(OnExceededDrop)}}
		for _, typ := range types {
			c.Types = append(c.Types, TypeRule{Match: typ, Values: Values{Limit: &limit}})
		}
		c.Contexts = []ContextRule{{Name: "user", From: byUser, Values: Values{Limit: new(int64(3)), Window: new(time.Hour)}}}
		return mustCompile(t, c)
	}
	l := mustLimiter(t, Options{Metrics: NewMetrics(set), Policy: config(10, "a", "b")})
	require.Equal(t, 8, passes(t, l, start, &Caller{}, typed("b"), 8))
	require.Equal(t, 3, passes(t, l, start, &Caller{}, user("u"), 5))

	var late Tickets // made before the reload, decided after it
	for range 4 {
		l.Policy().Add(&Caller{}, typed("b"), &late)
	}
	l.SetPolicy(config(10, "x", "y", "b")) // other numbers, same names
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&late}))
	require.Equal(t, []Action{Pass, Pass, Drop, Drop}, []Action{
		late.List[0].Verdict.Action, late.List[1].Verdict.Action, late.List[2].Verdict.Action, late.List[3].Verdict.Action,
	})
	require.Equal(t, "b", late.List[3].RuleName())
	require.Zero(t, passes(t, l, start, &Caller{}, typed("b"), 3))
	require.Zero(t, passes(t, l, start, &Caller{}, user("u"), 1))
	text := scrape(set)
	require.Contains(t, text, `sloengine_ratelimit_hits_total{layer="type",type="b"} 5`)
	require.NotContains(t, text, `type="a"`, "the series of a rule that is gone")
	require.Len(t, l.Offenders(), 1)
	require.EqualValues(t, 3, l.Offenders()[0].Hits)

	l.SetPolicy(config(12, "b")) // a higher limit has room for two more
	require.Equal(t, 2, passes(t, l, start, &Caller{}, typed("b"), 3))
	l.CountDropped(&late.List[2])
	l.CountCritical(&late.List[3]) // of a policy two reloads ago
	text = scrape(set)
	require.Contains(t, text, `sloengine_ratelimit_dropped_total{type="b"} 1`)
	require.Contains(t, text, `sloengine_ratelimit_critical_total{type="b"} 1`)
	l.SetPolicy(mustCompile(t, Config{}))
	l.SetPolicy(mustCompile(t, Config{}))
	require.Empty(t, l.Offenders())
	require.NotContains(t, scrape(set), `layer="context"`)
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&late}), "tickets of a policy that is long gone")
}

type failing struct{ err error }

func (f failing) Take(context.Context, time.Time, []*Tickets) error { return f.err }

func (f failing) Peek(context.Context, time.Time, *Tickets) error { return f.err }

func TestStoreError(t *testing.T) {
	away := errors.New("away")
	l := mustLimiter(t, Options{Policy: mustCompile(t, Config{}), Store: failing{away}})
	var b Tickets
	l.Policy().Add(&Caller{}, typed("a"), &b)
	require.ErrorIs(t, l.Decide(t.Context(), start, []*Tickets{&b}), away)
	require.Equal(t, Verdict{Weight: 1}, b.List[0].Verdict)
	require.ErrorIs(t, l.Judge(t.Context(), start, &b), away)
}

// Judge comes to the verdicts that Decide comes to, again and again, until the events are
// really charged; and counts nothing.
func TestJudgeChargesNothing(t *testing.T) {
	limit, window, rate := int64(3), time.Minute, 0.5
	for _, strategy := range []Strategy{OnExceededDrop, OnExceededSample, OnExceededThrottle, OnExceededAggregate} {
		for _, algorithm := range []Algorithm{SlidingWindow, TokenBucket, FixedWindow} {
			set := metrics.NewSet()
			l := mustLimiter(t, Options{Metrics: NewMetrics(set), Policy: mustCompile(t, Config{
				Default: Values{Limit: &limit, Window: &window, Algorithm: &algorithm, OnExceeded: &strategy, SampleRate: &rate},
			})})
			events := func() *Tickets {
				b := &Tickets{}
				for i, typ := range []string{"a", "a", "b", "a", "a", "a", "a", "b"} {
					l.Policy().Add(&Caller{}, &Subject{Type: []byte(typ), Sample: uint64(i)}, b)
				}
				return b
			}
			verdicts := func(b *Tickets) (out []Verdict) {
				for i := range b.List {
					out = append(out, b.List[i].Verdict)
				}
				return out
			}
			one := events() // so that there is a counter to copy
			one.List = one.List[:1]
			require.NoError(t, l.Decide(t.Context(), start, []*Tickets{one}))
			before := scrape(set)
			var first []Verdict
			for range 3 {
				b := events()
				require.NoError(t, l.Judge(t.Context(), start.Add(time.Second), b))
				if first == nil {
					first = verdicts(b)
				}
				require.Equal(t, first, verdicts(b))
				require.Equal(t, before, scrape(set))
			}
			b := events()
			require.NoError(t, l.Decide(t.Context(), start.Add(time.Second), []*Tickets{b}))
			require.Equal(t, first, verdicts(b))
			require.Equal(t, Pass, first[1].Action)
			require.NotEqual(t, Pass, first[3].Action)
		}
	}
}

// A rule that admits everything limits nothing, and its use says nothing.
func TestUnlimited(t *testing.T) {
	l := mustLimiter(t, Options{})
	limit := int64(1)
	l.SetPolicy(
		mustCompile(t, Config{Default: Unlimited(), Types: []TypeRule{{Match: "b", Values: Values{Limit: &limit}}}}))
	var b Tickets
	for range 100 {
		l.Policy().Add(&Caller{}, typed("a"), &b)
	}
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
	for i := range b.List {
		require.Equal(t, Pass, b.List[i].Verdict.Action)
	}
	var shown []string
	for _, s := range l.Status() {
		shown = append(shown, s.Rule)
	}
	require.Equal(t, []string{"b"}, shown)
}

// Limits come and go while the limiter is in use.
func TestWithoutPolicy(t *testing.T) {
	l := mustLimiter(t, Options{})
	require.Nil(t, l.Policy())
	require.Empty(t, l.Status())
	limit := int64(1)
	l.SetPolicy(mustCompile(t, Config{Default: Values{Limit: &limit}}))
	var b Tickets
	l.Policy().Add(&Caller{}, typed("a"), &b)
	l.Policy().Add(&Caller{}, typed("a"), &b)
	l.SetPolicy(nil)
	require.Nil(t, l.Policy())
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}), "those on their way are still decided")
	require.NotEqual(t, Pass, b.List[1].Verdict.Action)
	l.Measure()
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		m := NewMetrics(set)
		table := mustTable(t, TableOptions{Metrics: m})
		l := mustLimiter(t, Options{Metrics: m, Store: table, Policy: mustCompile(t, Config{
			Global: &Values{Limit: new(int64(6000)), Window: new(time.Minute)},
			Types:  []TypeRule{{Match: "login", Values: Values{Limit: new(int64(100)), Window: new(time.Second)}}},
			Contexts: []ContextRule{
				{Name: "user", From: byUser, Values: Values{Limit: new(int64(60)), Window: new(time.Minute)}}},
		})})
		for i := range 30 { // user-0 more than the others
			passes(t, l, time.Now(), &Caller{}, user("user-0"), 1)
			passes(t, l, time.Now(), &Caller{}, user(fmt.Sprint(i)), 1)
		}
		at := func(rule string) Status {
			for _, s := range l.Status() {
				if s.Rule == rule {
					return s
				}
			}
			return Status{}
		}
		require.Equal(t, Status{Layer: Global.String(), Rule: "global", PerSecond: 100, Current: 1}, at("global"))
		require.Equal(t, Status{Layer: Type.String(), Rule: "login", PerSecond: 100, Current: 60}, at("login"))
		require.Equal(t, Status{Layer: Context.String(), Rule: "user", PerSecond: 1, Current: 0.5}, at("user"))
		l.Measure()
		text := scrape(set)
		for _, want := range []string{
			`sloengine_ratelimit_current{layer="global"} 1`, `sloengine_ratelimit_threshold{layer="global"} 100`,
			`sloengine_ratelimit_current{layer="type"} 60`, `sloengine_ratelimit_threshold{layer="type"} 100`,
			`sloengine_ratelimit_current{layer="context"} 0.5`, `sloengine_ratelimit_threshold{layer="context"} 1`,
			`sloengine_ratelimit_contexts 33`, `sloengine_ratelimit_evictions_total 0`,
		} {
			require.Contains(t, text, want+"\n")
		}
		time.Sleep(90 * time.Second) // nothing comes any more
		require.Zero(t, at("global").Current)
		require.Zero(t, at("user").Current)
		l.Measure()
		require.Contains(t, scrape(set), `sloengine_ratelimit_current{layer="type"} 0`)
	})
}

func TestEvictionMetrics(t *testing.T) {
	set := metrics.NewSet()
	m := NewMetrics(set)
	l := mustLimiter(t, Options{Metrics: m, Store: mustTable(t, TableOptions{MaxCounters: 100, Metrics: m}),
		Policy: mustCompile(t, Config{})})
	for i := range 150 {
		passes(t, l, start, &Caller{}, typed(fmt.Sprint(i)), 1)
	}
	require.Contains(t, scrape(set), "sloengine_ratelimit_contexts 100\n")
	require.Contains(t, scrape(set), "sloengine_ratelimit_evictions_total 50\n")
}

// Everything at once, for the race detector; and the limit holds all the same.
func TestConcurrent(t *testing.T) {
	config := Config{
		Global:   &Values{Limit: new(int64(2000)), Window: new(time.Hour), OnExceeded: new(OnExceededDrop)},
		Default:  Values{Limit: new(int64(MaxLimit))},
		Contexts: []ContextRule{{Name: "user", From: byUser, Values: Values{Limit: new(int64(150)), Window: new(time.Hour)}}},
	}
	l := mustLimiter(t, Options{Policy: mustCompile(t, config)})
	var wg sync.WaitGroup
	passed := make([]int, 8)
	for g := range passed {
		wg.Go(func() {
			for i := range 100 {
				passed[g] += passes(t, l, start, &Caller{}, user(fmt.Sprint(i%20)), 10)
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			l.SetPolicy(mustCompile(t, config))
			l.Status()
			l.Measure()
			l.Offenders()
		}
	})
	wg.Wait()
	total := 0
	for _, n := range passed {
		total += n
	}
	require.Equal(t, 2000, total)
}
