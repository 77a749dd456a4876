package ratelimit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// For any values in any order: counts are never too low, errors never too small, no error is above
// total/tracked, and a missing value is no more frequent than floor.
func TestSketchBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		values := rapid.IntRange(1, 2000).Draw(t, "values")
		skew := rapid.Float64Range(0, 3).Draw(t, "skew")
		rng := rand.New(rand.NewPCG(seed, 0))
		s, truth, total := newSketch(), map[string]uint64{}, uint64(0)
		for range rapid.IntRange(0, 5000).Draw(t, "events") {
			v := fmt.Sprint(int(float64(values) * math.Pow(rng.Float64(), skew+1)))
			truth[v]++
			total++
			s.note(hashKey([]byte(v)), []byte(v))
		}
		require.LessOrEqual(t, len(s.entries), tracked)
		require.Len(t, s.by, len(s.entries))
		for v, n := range truth {
			i, ok := s.by[hashKey([]byte(v))]
			if !ok {
				require.LessOrEqual(t, n, s.floor())
				continue
			}
			e := s.entries[i]
			require.Equal(t, v, string(e.value))
			require.GreaterOrEqual(t, e.hits, n)
			require.LessOrEqual(t, e.hits-e.slack, n)
			require.LessOrEqual(t, e.slack, total/tracked)
		}
	})
}

// Ten heavy offenders are found in a flood of a hundred thousand that come once.
func TestOffenders(t *testing.T) {
	l := mustLimiter(t, Options{Policy: mustCompile(t, Config{
		Default: Values{Limit: new(int64(MaxLimit))},
		Contexts: []ContextRule{{Name: "user", From: byUser,
			Values: Values{Limit: new(int64(1)), Window: new(time.Hour), OnExceeded: new(OnExceededDrop)}}},
	})})
	now := time.Now()
	var b Tickets
	want := map[string]uint64{}
	for round := range 100 {
		b.Reset()
		for i := range 12 {
			v := fmt.Sprintf("heavy-%02d", i)
			for range 10 * (i + 1) {
				l.Policy().Add(&Caller{}, user(v), &b)
				want[v]++
			}
		}
		for i := range 1000 {
			s := user(fmt.Sprint(round*1000 + i))
			l.Policy().Add(&Caller{}, s, &b)
			l.Policy().Add(&Caller{}, s, &b)
		}
		require.NoError(t, l.Decide(t.Context(), now, []*Tickets{&b}))
	}
	got := l.Offenders()
	require.Len(t, got, 10)
	require.True(t, slices.IsSortedFunc(got, func(a, b Offender) int { return cmp.Compare(b.Hits, a.Hits) }))
	for _, o := range got {
		n := want[o.Value] - 1 // the first passed
		require.Equal(t, "user", o.Context)
		require.GreaterOrEqual(t, o.Hits, n)
		require.LessOrEqual(t, o.Hits-o.Error, n)
	}
	require.Equal(t, "heavy-11", got[0].Value)
}

// Offenders are forgotten after an hour, and kept for half of one.
func TestOffendersAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustLimiter(t, Options{Policy: mustCompile(t, Config{
			Default: Values{Limit: new(int64(MaxLimit))},
			Contexts: []ContextRule{
				{Name: "user", From: byUser, Values: Values{Limit: new(int64(1)), Window: new(24 * time.Hour)}}},
		})})
		passes(t, l, time.Now(), &Caller{}, user("a"), 4)
		require.Equal(t, []Offender{{"user", "a", 3, 0}}, l.Offenders())
		time.Sleep(29 * time.Minute)
		require.Len(t, l.Offenders(), 1)
		passes(t, l, time.Now(), &Caller{}, user("b"), 3)
		time.Sleep(29 * time.Minute)
		passes(t, l, time.Now(), &Caller{}, user("b"), 2)
		require.Equal(t, []Offender{{"user", "b", 4, 0}, {"user", "a", 3, 0}}, l.Offenders(), "both halves add up")
		time.Sleep(5 * time.Minute)
		require.Equal(t, []Offender{{"user", "b", 2, 0}}, l.Offenders())
		time.Sleep(2 * time.Hour)
		require.Empty(t, l.Offenders())
	})
}

func TestOverAllocates(t *testing.T) {
	l := mustLimiter(t, Options{Policy: mustCompile(t, Config{
		Contexts: []ContextRule{{Name: "user", From: byUser,
			Values: Values{Limit: new(int64(1)), Window: new(time.Hour), OnExceeded: new(OnExceededDrop)}}},
	})})
	a := &benchAttrs{user: []byte("u0000")}
	s := &Subject{Type: []byte("a"), Attrs: a}
	c, b := &Caller{}, &Tickets{}
	batches := []*Tickets{b}
	n := 0
	run := func() {
		b.Reset()
		for range 500 {
			n++
			copy(a.user[1:], fmt.Appendf(nil, "%04d", n%1000))
			l.Policy().Add(c, s, b)
		}
		require.NoError(t, l.Decide(t.Context(), start, batches))
	}
	for range 10 {
		run()
	}
	b.Reset()
	for range 500 {
		l.Policy().Add(c, s, b)
	}
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(20, func() {
		_ = l.Decide(ctx, start, batches)
	}))
}
