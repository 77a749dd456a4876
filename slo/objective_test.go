package slo_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

func percent(t testing.TB, s string) slo.Objective {
	t.Helper()
	o, err := slo.ParsePercent(s)
	require.NoError(t, err)
	return o
}

func TestParsePercent(t *testing.T) {
	for _, c := range []struct {
		in, percent   string
		ratio, budget float64
	}{
		{"99.9", "99.9", 0.999, 0.001},
		{"99.90", "99.9", 0.999, 0.001},
		{"99.99", "99.99", 0.9999, 0.0001},
		{"99.999", "99.999", 0.99999, 0.00001},
		{"99.95", "99.95", 0.9995, 0.0005},
		{"95", "95", 0.95, 0.05},
		{"95.000", "95", 0.95, 0.05},
		{"099.5", "99.5", 0.995, 0.005},
		{"0.1", "0.1", 0.001, 0.999},
		{"50", "50", 0.5, 0.5},
		{"99.999999999999", "99.999999999999", 0.99999999999999, 1e-14},
		{"0.000000000001", "0.000000000001", 1e-14, 0.99999999999999},
	} {
		o := percent(t, c.in)
		require.Equal(t, c.percent, o.Percent(), c.in)
		require.Equal(t, c.percent+"%", o.String())
		require.Equal(t, c.ratio, o.Ratio(), c.in)
		require.Equal(t, c.budget, o.Budget(), c.in)
		require.False(t, o.IsZero())
	}
	require.True(t, slo.Objective{}.IsZero())
}

func TestParsePercentRefuses(t *testing.T) {
	for _, s := range []string{
		"", "0", "0.0", "100", "100.0", "100.1", "101", "-1", "+99", "99,9", "99.9%", " 99", "99 ", ".9",
		"99.", "1e1", "0x10", "1/2",
		"1_0", "NaN", "Inf", "999", "0099.9", "99.9.9", "99.1234567890123", "٩٩",
	} {
		_, err := slo.ParsePercent(s)
		require.ErrorIs(t, err, slo.ErrObjective, s)
	}
}

// Ratio and budget are the floats nearest to the decimal, whatever its digits.
func TestPercentIsDecimalExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(0, 12).Draw(t, "places")
		scale := int64(1)
		for range places {
			scale *= 10
		}
		n := rapid.Int64Range(1, 100*scale-1).Draw(t, "n")
		text := fmt.Sprint(n / scale)
		if places > 0 {
			text += fmt.Sprintf(".%0*d", places, n%scale)
		}
		o, err := slo.ParsePercent(text)
		require.NoError(t, err)
		ratio := big.NewRat(n, 100*scale)
		want, _ := ratio.Float64()
		require.Equal(t, want, o.Ratio(), text)
		want, _ = new(big.Rat).Sub(big.NewRat(1, 1), ratio).Float64()
		require.Equal(t, want, o.Budget(), text)

		again, err := slo.ParsePercent(o.Percent())
		require.NoError(t, err)
		require.Equal(t, o, again, "what is printed reads back as the same")
		require.False(t, strings.Contains(o.Percent(), ".") && strings.HasSuffix(o.Percent(), "0"))
	})
}

func TestFormatRatio(t *testing.T) {
	for x, want := range map[float64]string{
		1 - 0.999: "0.001", 0.1 + 0.2: "0.3", 14.4 * 0.001: "0.0144", 0: "0", 1: "1", 1e-14: "1e-14",
		2.0 / 3: "0.666666666667",
	} {
		require.Equal(t, want, slo.FormatRatio(x))
	}
}
