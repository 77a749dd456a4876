package slo

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// incidentOf fills a Contrast with ten minutes of traffic whose base error ratio differs from incident to incident. If
// times is not 0, one value of an attribute is bad so many times as often. It returns that value.
func incidentOf(r *rand.Rand, planted bool) (c *Contrast, want [2]string) {
	c = NewContrast(nil)
	n := 2000 + r.IntN(20_000)
	sizes := make([]int, 12)
	for i := range sizes {
		sizes[i] = 2 + r.IntN(40)
	}
	base := 0.002 + 0.02*r.Float64()
	times := 3 + 27*r.Float64()
	at, worse := r.IntN(len(sizes)), 0
	// One that enough events have: the bad ones must be seen.
	worse = r.IntN(min(4, sizes[at]))
	if planted {
		want = [2]string{fmt.Sprint("attribute", at), fmt.Sprint("value", worse)}
	}
	var names, texts [64][]byte
	for i := range names {
		names[i], texts[i] = fmt.Appendf(nil, "attribute%d", i), fmt.Appendf(nil, "value%d", i)
	}
	skew := 1 + r.Float64()
	values := make([]int, len(sizes))
	for i := range n {
		for k, size := range sizes {
			values[k] = int(float64(size) * pow(r.Float64(), skew))
		}
		values[1] = (values[0] + r.IntN(2)) % sizes[1] // two attributes are correlated
		// The error ratio of all drifts, so the minutes differ.
		p := base * (1 + float64(i)/float64(n))
		if planted && values[at] == worse {
			p = min(1, p*times)
		}
		c.Add(int64(i)*int64(10*time.Minute)/int64(n), r.Float64() < p, 1, 1, func(yield func(name, value []byte) bool) {
			for k, v := range values {
				if !yield(names[k], texts[v]) {
					return
				}
			}
			yield([]byte("id"), fmt.Appendf(nil, "%d", i))
		})
	}
	return c, want
}

func pow(x, skew float64) float64 {
	if skew > 1.5 {
		return x * x
	}
	return x
}

// TestPlantedCauses: of 200 random incidents with one value that is 3 to 30 times worse, it is named first in 95 %, and
// none is named in 95 % of those without.
func TestPlantedCauses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	first, quiet := 0, 0
	for range 200 {
		c, want := incidentOf(r, true)
		if got := c.Differences(); len(got) > 0 && got[0].Attribute == want[0] && got[0].Value == want[1] {
			first++
		}
		c, _ = incidentOf(r, false)
		if len(c.Differences()) == 0 {
			quiet++
		}
	}
	t.Log("rank 1:", first, "none named:", quiet)
	require.GreaterOrEqual(t, first, 190)
	require.GreaterOrEqual(t, quiet, 190)
}

// attributes yields pairs of names and values.
func attributes(pairs ...string) func(func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield([]byte(pairs[i]), []byte(pairs[i+1])) {
				return
			}
		}
	}
}

func TestDifferences(t *testing.T) {
	c := NewContrast([]string{"error"})
	for i := range 10_000 {
		bank, region := "a", "eu"
		if i%10 == 0 {
			bank, region = "x", "us"
		}
		bad := i%1000 == 1 || bank == "x" && i%20 == 0
		kind := "none"
		if bad {
			kind = "timeout"
		}
		c.Add(int64(i)*int64(time.Second), bad, 1, 1,
			attributes("bank", bank, "region", region, "error", kind, "order", fmt.Sprint(i)))
	}
	got := c.Differences()
	require.Len(t, got, 1, "order is unique, error is the definition, and region names the same events")
	require.Equal(t, "bank", got[0].Attribute)
	require.Equal(t, "x", got[0].Value)
	require.Equal(t, []string{"region=us"}, got[0].Same)
	require.InDelta(t, 500.0/510, got[0].OfBad, 1e-9)
	require.InDelta(t, 500.0/9490, got[0].OfGood, 1e-9)
	require.InDelta(t, 10.0/9000, got[0].Without, 1e-9)
	require.Less(t, got[0].P, 1e-6)
	require.InDelta(t, 0.051, c.Ratio(), 1e-9)
}

// A value with more events in the minutes of the incident is no cause: only the same minutes are compared.
func TestOnlyTheSameMinutesAreCompared(t *testing.T) {
	c := NewContrast(nil)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 40_000 {
		late := i >= 20_000
		batch := "no"
		if late && i%10 != 0 || !late && i%10 == 0 {
			batch = "yes"
		}
		p := 0.001
		if late {
			p = 0.05
		}
		c.Add(int64(i)*int64(10*time.Millisecond), r.Float64() < p, 1, 1, attributes("batch", batch))
	}
	require.Empty(t, c.Differences())
}

// Few events with large weights are little evidence: five that have a value of every second event.
func TestWeightsAreNoEvidence(t *testing.T) {
	for weight, want := range map[float64]int{1: 1, 100: 0} { // 500 events, or 5 with a weight
		c := NewContrast(nil)
		for i := range 1000 {
			c.Add(int64(i)*int64(time.Second), i%200 == 0, 100/weight, weight, attributes("bank", []string{"a", "x"}[i%2]))
		}
		require.Len(t, c.Differences(), want, weight)
		bad, good := c.Counts()
		require.EqualValues(t, 500, bad)
		require.EqualValues(t, 99_500, good)
	}
}

func TestAttributesWithManyValues(t *testing.T) {
	c := NewContrast(nil)
	for i := range 10_000 {
		user := fmt.Sprint(i % 1001)
		c.Add(int64(i)*int64(time.Second), i%1001 == 7 || i%100 == 0, 1, 1, attributes("user", user))
	}
	require.Empty(t, c.Differences())
}

func BenchmarkContrast(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		c, _ := incidentOf(r, true)
		c.Differences()
	}
}

// TestRareCausesExplainNothing: a value of one in a thousand bad events is not named, however certain it is.
func TestRareCausesExplainNothing(t *testing.T) {
	c := NewContrast(nil)
	add := func(n int, bad bool, value string) {
		for range n {
			c.Add(1, bad, 1, 1, func(yield func(name, value []byte) bool) { yield([]byte("error_type"), []byte(value)) })
		}
	}
	add(5000, true, "usual")
	add(20, true, "rare")
	add(20_000, false, "usual")
	add(1, false, "rare")
	require.Empty(t, c.Differences())
}
