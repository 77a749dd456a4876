package format

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnsafeRunesAreShownAsEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"plain ж":     "plain ж",
		"a\u202eb":    `a\u{202e}b`,
		"\x00\n":      `\u{0}\u{a}`,
		"\xffx":       `\xffx`,
		"abcdefghijk": "abcdefghij…",
		"\u00ad":      `\u{ad}`,
	} {
		require.Equal(t, want, Safe(in, 10))
	}
	require.Equal(t, "(none)", GroupValue(""))
}

func TestSigned(t *testing.T) {
	require.Equal(t, "+1.5", Signed(1.5, 1))
	require.Equal(t, "−1.5", Signed(-1.5, 1), "U+2212, as everywhere")
}

func TestLostPointsAreRoundedUp(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1e-12: "<0.01", 0.001: "0.01", 23.2412: "23.25", 100 - 76.75: "23.25",
		40: "40", 0.1 + 0.2: "0.30"} {
		require.Equal(t, want, PointsLost(x))
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 250 * time.Microsecond: "250µs", 250 * time.Millisecond: "250ms", 1500 * time.Millisecond: "1.5s",
		42 * time.Second: "42s", 90 * time.Second: "1m 30s", 15 * time.Minute: "15m", 26 * time.Hour: "1d 2h",
	} {
		require.Equal(t, want, Took(d))
	}
}

func TestPartsAddUp(t *testing.T) {
	require.Equal(t, []string{"33.4%", "33.3%", "33.3%"}, Parts([]float64{1, 1, 1}))
	require.Equal(t, []string{"56.5%", "29.4%", "14.1%"}, Parts([]float64{52, 27, 13}))
	require.Equal(t, []string{"100.0%"}, Parts([]float64{7}))
	require.Equal(t, []string{"0.0%", "100.0%"}, Parts([]float64{0, 2}))
	require.Equal(t, []string{NoValue, NoValue}, Parts([]float64{0, 0}))
	require.Empty(t, Parts(nil))
}

func TestAnd(t *testing.T) {
	require.Equal(t, []string{"", "a", "a and b", "a, b and c"},
		[]string{And(nil), And([]string{"a"}), And([]string{"a", "b"}), And([]string{"a", "b", "c"})})
}
