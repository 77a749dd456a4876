package ui

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 20, 12, 0, 7, 0, time.UTC)

func TestRange(t *testing.T) {
	for _, c := range []struct {
		query    string
		name     string
		from, to time.Time
		problem  string
	}{
		{"", "1d", noon.Add(-24 * time.Hour), noon, ""},
		{"range=1h", "1h", noon.Add(-time.Hour), noon, ""},
		{"range=90d", "90d", noon.Add(-90 * 24 * time.Hour), noon, ""},
		{"range=nonsense", "1d", noon.Add(-24 * time.Hour), noon, ""},
		{"from=2026-11-18T06:00&to=2026-11-18T09:00", "", time.Date(2026, 11, 18, 6, 0, 0, 0, time.UTC),
			time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC), ""},
		{"from=1795000000&to=1795003600", "", time.Unix(1795000000, 0), time.Unix(1795003600, 0), ""},
		{"from=2026-11-18T06:00:00%2B03:00&to=2026-11-19", "", time.Date(2026, 11, 18, 3, 0, 0, 0, time.UTC),
			time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC), ""},
		{"to=2026-11-19", "", time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC), ""},
		{"from=2026-11-19&to=2030-01-01", "", time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC), noon, ""},
		{"from=1795000000&to=1795000010", "", time.Unix(1795000000-145, 0), time.Unix(1795000000+155, 0), ""},
		{"from=soon", "1d", noon.Add(-24 * time.Hour), noon, "invalid start"},
		{"to=%3Cscript%3E", "1d", noon.Add(-24 * time.Hour), noon, "invalid end"},
		{"from=2026-11-19&to=2026-11-18&range=7d", "1d", noon.Add(-24 * time.Hour), noon, "starts after its end"},
		{"from=2030-01-01", "1d", noon.Add(-24 * time.Hour), noon, "in the future"},
		{"from=2000-01-01", "1d", noon.Add(-24 * time.Hour), noon, "longer than 400 days"},
	} {
		q, err := url.ParseQuery(c.query)
		require.NoError(t, err)
		got := newRange(q, noon, 0, false)
		require.Equal(t, c.name, got.Name, c.query)
		require.Equal(t, c.to.UTC(), got.To.UTC(), c.query)
		require.LessOrEqual(t, got.From.Sub(c.from).Abs(), got.Step, c.query)
		require.Zero(t, got.From.Unix()%int64(got.Step.Seconds()), "steps begin at round times: %s", c.query)
		if c.problem == "" {
			require.Empty(t, got.Problem, c.query)
		} else {
			require.Contains(t, got.Problem, c.problem, c.query)
		}
	}
}

func TestRangeWhileAPageFires(t *testing.T) {
	for query, name := range map[string]string{"": "1h", "range=nonsense": "1h", "range=7d": "7d", "from=soon": "1h"} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		got := newRange(q, noon, 0, true)
		require.Equal(t, name, got.Name, query)
		if query == "from=soon" {
			require.Contains(t, got.Problem, "The last hour is shown instead.")
		}
	}
}
