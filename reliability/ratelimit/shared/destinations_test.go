package shared

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// delivering is an instance with a breaker and a budget of the destination "partner".
type delivering struct {
	*instance
	destination *Destination
	breaker     *breaker.Breaker
}

func (in *instance) delivering(t *testing.T, name string) *delivering {
	t.Helper()
	all := NewDestinations(in.Link, name)
	d, err := all.Of("partner", retry.BudgetOptions{})
	require.NoError(t, err)
	b, err := breaker.New(breaker.Options{
		Name: "partner", Consecutive: breaker.Consecutive{Failures: 2, Open: time.Minute, Probes: 1},
		Rate: breaker.Rate{Off: true}, OnChange: d.Changed,
	})
	require.NoError(t, err)
	t.Cleanup(d.Join(b))
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = all.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return &delivering{in, d, b}
}

func (d *delivering) call(t *testing.T, outcome breaker.Outcome) {
	t.Helper()
	p, err := d.breaker.Acquire()
	require.NoError(t, err)
	p.Done(outcome)
}

func (d *delivering) becomes(t *testing.T, want breaker.State) {
	t.Helper()
	require.Eventually(t, func() bool { return d.breaker.State() == want }, testkit.Patience, 10*time.Millisecond)
}

// The breaker that opens in one instance opens in the others, and the first success releases all of them.
func TestSharedBreaker(t *testing.T) {
	s := newServer(t)
	var all []*delivering
	for i := range 3 {
		in := s.instance(5 * time.Second)
		in.run(t)
		all = append(all, in.delivering(t, fmt.Sprint("engine", i)))
	}
	for range 2 {
		all[0].call(t, breaker.Failure)
	}
	for _, d := range all {
		d.becomes(t, breaker.Open)
		status := d.breaker.Status()
		require.Greater(t, status.RetryAfter, 30*time.Second, "for the rest of the open time")
		require.Contains(t, status.Reason, "2 failures in a row")
	}
	require.Contains(t, all[1].breaker.Status().Reason, othersReason)
	// A health check of one finds it well.
	all[1].breaker.Release("for the test")
	all[1].call(t, breaker.Success)
	require.Equal(t, breaker.Closed, all[1].breaker.State())
	all[0].becomes(t, breaker.HalfOpen)
	all[2].becomes(t, breaker.HalfOpen)
	for _, d := range []*delivering{all[0], all[2]} {
		d.call(t, breaker.Success)
		require.Equal(t, breaker.Closed, d.breaker.State())
	}
	// And again, now that everything was seen once.
	for range 2 {
		all[2].call(t, breaker.Failure)
	}
	all[0].becomes(t, breaker.Open)
	all[1].becomes(t, breaker.Open)
}

// While Redis is not reachable, a breaker is its instance's own. Its findings are published once Redis is
// back.
func TestSharedBreakerWithoutRedis(t *testing.T) {
	s := newServer(t)
	one, two := s.instance(time.Second), s.instance(time.Second)
	one.run(t)
	two.run(t)
	a, b := one.delivering(t, "one"), two.delivering(t, "two")
	require.Eventually(t, func() bool { return one.connected() && two.connected() },
		testkit.Patience, 10*time.Millisecond)
	s.kill()
	require.Eventually(t, func() bool { return !one.connected() && !two.connected() },
		testkit.Patience, 10*time.Millisecond)
	for range 2 {
		a.call(t, breaker.Failure)
	}
	require.Equal(t, breaker.Open, a.breaker.State())
	testkit.Pause(3 * lookEvery)
	require.Equal(t, breaker.Closed, b.breaker.State())
	s.start()
	b.becomes(t, breaker.Open)
}

// Retries of three instances together stay within the earnings of all first attempts and the common
// minimum.
func TestSharedBudget(t *testing.T) {
	s := newServer(t)
	options := retry.BudgetOptions{Ratio: 0.1, MinPerSecond: -1, Burst: 10}
	var spent atomic.Int64
	var work sync.WaitGroup
	const firsts = 1000
	for i := range 3 {
		in := s.instance(5 * time.Second)
		d, err := NewDestinations(in.Link, fmt.Sprint(i)).Of("partner", options)
		require.NoError(t, err)
		own, err := retry.NewBudget(options)
		require.NoError(t, err)
		budget := d.Budget(own)
		work.Go(func() {
			for range firsts {
				budget.Earn()
				if ok, wait := budget.Spend(); ok {
					spent.Add(1)
				} else if wait != 0 {
					t.Error("only traffic earns here")
				}
			}
		})
	}
	work.Wait()
	require.InDelta(t, 10+0.1*3*firsts, spent.Load(), 1)

	// Without Redis each has its own, and its earnings of that time are in the common one afterwards.
	in := s.instance(time.Second)
	in.run(t)
	require.Eventually(t, in.connected, testkit.Patience, 10*time.Millisecond)
	d, err := NewDestinations(in.Link, "alone").Of("partner", options)
	require.NoError(t, err)
	own, err := retry.NewBudget(options)
	require.NoError(t, err)
	budget := d.Budget(own)
	ok, _ := budget.Spend()
	require.False(t, ok, "the others used it up")
	s.kill()
	require.Eventually(t, func() bool { return !in.connected() }, testkit.Patience, 10*time.Millisecond)
	alone := 0
	for range 20 {
		if ok, _ := budget.Spend(); ok {
			alone++
		}
	}
	require.Equal(t, 10, alone, "its own burst")
	require.EqualValues(t, 10, budget.Status().Spent)
}

// With a minimum, the wait says when there is a retry again.
func TestSharedBudgetWait(t *testing.T) {
	s := newServer(t)
	in := s.instance(5 * time.Second)
	options := retry.BudgetOptions{Ratio: 0.5, MinPerSecond: 0.2, Burst: 1}
	d, err := NewDestinations(in.Link, "x").Of("slow", options)
	require.NoError(t, err)
	own, err := retry.NewBudget(options)
	require.NoError(t, err)
	budget := d.Budget(own)
	ok, _ := budget.Spend()
	require.True(t, ok)
	ok, wait := budget.Spend()
	require.False(t, ok)
	require.Greater(t, wait, time.Duration(0))
	require.LessOrEqual(t, wait, 5*time.Second)
	require.Eventually(t, func() bool { ok, _ := budget.Spend(); return ok }, testkit.Patience, 20*time.Millisecond)
	_, err = NewDestinations(in.Link, "x").Of("a b", options)
	require.ErrorContains(t, err, "invalid destination")
	_, err = NewDestinations(in.Link, "x").Of("a", retry.BudgetOptions{Ratio: 3})
	require.ErrorContains(t, err, "budget ratio")
}
