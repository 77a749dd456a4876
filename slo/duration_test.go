package slo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1ms": time.Millisecond, "250ms": 250 * time.Millisecond, "90s": 90 * time.Second,
		"5m":    5 * time.Minute,
		"1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "30d": 720 * time.Hour, "4w": 672 * time.Hour,
		"366d":          366 * 24 * time.Hour,
		"1w2d3h4m5s6ms": 7*24*time.Hour + 51*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond,
		"007s":          7 * time.Second,
		"106751d":       106751 * 24 * time.Hour,
	} {
		d, err := slo.ParseDuration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, d, in)
	}
	for _, in := range []string{
		"", "5", "s", "-5m", "+5m", "1.5h", "5 m", " 5m", "5m ", "5M", "5y", "5µs", "5us", "30m1h", "1h1h", "1ms1s",
		"1e3s", "5mm", "106752d",
		"99999999999999999999s", "1w99999999999d", "0x5s", "٥s",
	} {
		_, err := slo.ParseDuration(in)
		require.ErrorIs(t, err, slo.ErrDuration, in)
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", time.Nanosecond: "0s", 1500 * time.Microsecond: "1ms", 90 * time.Minute: "1h30m",
		24 * time.Hour:      "1d",
		30 * 24 * time.Hour: "30d", 25 * time.Hour: "1d1h", 61 * time.Second: "1m1s", 1001 * time.Millisecond: "1s1ms",
	} {
		require.Equal(t, want, slo.FormatDuration(d))
	}
}

func TestDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<43).Draw(t, "ms")) * time.Millisecond
		got, err := slo.ParseDuration(slo.FormatDuration(d))
		require.NoError(t, err)
		require.Equal(t, d, got)
	})
}

// Prometheus reads the same notation, years excepted.
func TestDurationAgreesWithPrometheus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[0-9]{0,4}(w|d|h|m|s|ms|x|)`), 0, 4).Draw(t, "parts")
		s := strings.Join(parts, "")
		got, err := slo.ParseDuration(s)
		want, wantErr := model.ParseDuration(s)
		require.Equal(t, wantErr == nil, err == nil, "%q: %v, Prometheus: %v", s, err, wantErr)
		if err == nil {
			require.Equal(t, time.Duration(want), got, s)
		}
	})
}

// TestParseTime: RFC 3339 allows lower-case letters.
func TestParseTime(t *testing.T) {
	want := time.Date(2026, 11, 20, 9, 0, 0, 500, time.UTC)
	for _, s := range []string{"2026-11-20T09:00:00.0000005Z", "2026-11-20t09:00:00.0000005z",
		"2026-11-20t12:00:00.0000005+03:00"} {
		got, err := slo.ParseTime(s)
		require.NoError(t, err)
		require.True(t, want.Equal(got), s)
	}
	_, err := slo.ParseTime("2026-11-20 09:00:00Z")
	require.Error(t, err)
}
