package slo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

const hour = uint64(3600)

func TestBudget(t *testing.T) {
	// Every day twelve hours at 100 events per second and twelve at 1.
	busy, quiet := 12*hour*100, 12*hour
	month := 30 * (busy + quiet)
	require.Equal(t, uint64(130_896_000), month)
	for _, c := range []struct {
		name, objective string
		bad, valid      uint64
		consumed        float64
		sli             float64
	}{
		{"an hour's outage at peak", "99.9", 100 * hour, month, 2.750275, 0.997249725},
		{"an hour's outage at night", "99.9", hour, month, 0.0275027, 0.9999724973},
		{"all of a month's budget", "99.9", month / 1000, month, 1, 0.999},
		{"nothing bad", "99.9", 0, month, 0, 1},
		{"everything bad", "99.9", month, month, 1000, 0},
		{"one of a thousand", "99.9", 1, 1000, 1, 0.999},
		{"one of ten thousand", "99.9", 1, 10_000, 0.1, 0.9999},
		{"five of a hundred within 95", "95", 5, 100, 1, 0.95},
		{"one of a hundred within 99", "99", 1, 100, 1, 0.99},
		{"half of what may fail", "99.5", 25, 10_000, 0.5, 0.9975},
		{"the only event was bad", "99", 1, 1, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			counts := slo.Counts{Good: c.valid - c.bad, Bad: c.bad}
			b := slo.NewBudget(percent(t, c.objective), counts)
			require.True(t, b.HasData)
			require.Equal(t, counts, b.Counts)
			require.InDelta(t, c.consumed, b.Consumed, 1e-6)
			require.InDelta(t, 1-c.consumed, b.Remaining, 1e-6)
			require.InDelta(t, c.sli, b.SLI, 1e-9)
		})
	}
	require.Equal(t, slo.Budget{}, slo.NewBudget(percent(t, "99.9"), slo.Counts{}), "no events is no data, not good")
}

func TestRatioBudget(t *testing.T) {
	o := percent(t, "99")
	// Three slices: all good, half good, all good. As slices 5/6, whatever their traffic.
	b := slo.NewRatioBudget(o, slo.Counts{Good: 2, Bad: 1}, (1+0.5+1)/3, true)
	require.InDelta(t, 100.0/6, b.Consumed, 1e-9)
	require.Equal(t, slo.Counts{Good: 2, Bad: 1}, b.Counts)
	require.False(t, slo.NewRatioBudget(o, slo.Counts{}, 0, false).HasData)
}

// An hour's outage at peak, seen right after it.
func TestBurn(t *testing.T) {
	o := percent(t, "99.9")
	for _, c := range []struct {
		window time.Duration
		valid  uint64
		rate   float64
	}{
		{time.Hour, 100 * hour, 1000},
		{2 * time.Hour, 200 * hour, 500},
		{6 * time.Hour, 600 * hour, 1000.0 / 6},
		{24 * time.Hour, 101 * 12 * hour, 82.508251},
		{3 * 24 * time.Hour, 3 * 101 * 12 * hour, 27.502750},
	} {
		b := slo.NewBurn(c.window, slo.NewBudget(o, slo.Counts{Good: c.valid - 100*hour, Bad: 100 * hour}))
		require.Equal(t, c.window, b.Window)
		require.True(t, b.HasData)
		require.False(t, b.Period)
		require.InDelta(t, c.rate, b.Rate, 1e-6)
	}
	require.False(t, slo.NewBurn(time.Hour, slo.Budget{}).HasData)
}

func TestCounts(t *testing.T) {
	c := slo.Counts{Good: 3, Bad: 1}
	require.Equal(t, uint64(4), c.Valid())
	require.Equal(t, slo.Counts{Good: 4, Bad: 3}, c.Add(slo.Counts{Good: 1, Bad: 2}))
	require.Equal(t, c, c.Add(slo.Counts{Good: 1, Bad: 2}).Sub(slo.Counts{Good: 1, Bad: 2}))
	r, ok := c.Ratio()
	require.True(t, ok)
	require.Equal(t, 0.75, r)
	_, ok = slo.Counts{}.Ratio()
	require.False(t, ok)
}

// A budget of the whole is the mean of the budgets of its parts, weighted by
// their events.
func TestBudgetIsWeightedByEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, err := slo.ParsePercent(rapid.SampledFrom([]string{"90", "95", "99", "99.9", "99.99"}).Draw(t, "objective"))
		require.NoError(t, err)
		var sum slo.Counts
		weighted := 0.0
		for range rapid.IntRange(1, 20).Draw(t, "hours") {
			c := slo.Counts{Good: rapid.Uint64Range(0, 1e6).Draw(t, "good"), Bad: rapid.Uint64Range(0, 1e4).Draw(t, "bad")}
			sum = sum.Add(c)
			weighted += slo.NewBudget(o, c).Consumed * float64(c.Valid())
		}
		b := slo.NewBudget(o, sum)
		if !b.HasData {
			require.Zero(t, sum.Valid())
			return
		}
		require.InEpsilon(t, 1+weighted/float64(sum.Valid()), 1+b.Consumed, 1e-9)
		require.InDelta(t, 1, b.Consumed+b.Remaining, 1e-9*(1+b.Consumed))
		require.GreaterOrEqual(t, b.SLI, 0.0)
		require.LessOrEqual(t, b.SLI, 1.0)
	})
}

func TestEffective(t *testing.T) {
	require.Equal(t, 5.0, slo.Effective(5, 0))
	require.Zero(t, slo.Effective(0, 0))
	// A hundred of weight 10 are a hundred, whatever they stand for.
	require.InDelta(t, 100, slo.Effective(1000, 100*(10*10-10)), 1e-9)
	// Uneven weights are worth less than their number: (3+1)^2 / (9+1).
	require.InDelta(t, 1.6, slo.Effective(4, 6), 1e-12)
	require.Equal(t, 7.0, slo.NewBurn(time.Hour, slo.NewBudget(percent(t, "99"), slo.Counts{Good: 5, Bad: 2})).Effective)
}
