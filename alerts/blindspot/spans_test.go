package blindspot

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lines are the sentences about a week.
func lines(t *testing.T, objective string, ahead time.Duration, perHour func(day, hour int) float64) string {
	var w Week
	for i := range w {
		w[i] = perHour(i/24, i%24)
	}
	hours, why := Find(newSLO(t, "shop/up", objective), &w)
	require.Empty(t, why)
	var out []string
	for _, s := range Spans(hours, ahead) {
		out = append(out, s.String())
	}
	return strings.Join(out, "\n")
}

func TestSentences(t *testing.T) {
	for _, c := range []struct {
		name      string
		objective string
		ahead     time.Duration
		perHour   func(day, hour int) float64
		want      string
	}{
		{"steady", "99.9", 0, func(int, int) float64 { return 1000 },
			"at any time: an outage under 1m is invisible, and so is an error rate under 1.6% for an hour (1000 events " +
				"an hour)"},
		{"quiet nights", "99.9", 0, func(_, hour int) float64 {
			if hour >= 2 && hour < 5 {
				return 4
			}
			return 3600
		},
			"every day 05:00 to 02:00: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 " +
				"events an hour)\nevery day 02:00 to 05:00: an outage under 45m is invisible, and so is an error rate under " +
				"76% for an hour (4 events an hour)"},
		{"closed on weekends, in a zone with half an hour", "99.9", 5*time.Hour + 30*time.Minute,
			func(day, hour int) float64 {
				if day >= 5 {
					return 0
				}
				return 3600
			},
			"Mon 00:30 to 05:30: there is no traffic, so an outage is invisible until traffic returns\n" +
				"Mon 05:30 to 00:30: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 " +
				"events an hour)\nTue-Fri: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 " +
				"events an hour)\nSat 00:30 to 05:30: an outage under 1m is invisible, and so is an error rate under 1.5% for an " +
				"hour (3600 events an hour)\nSat 05:30 to 00:30: there is no traffic, so an outage is invisible until traffic " +
				"returns\nSun: there is no traffic, so an outage is invisible until traffic returns"},
		{"hardly any", "99.9", 0, func(int, int) float64 { return 0.3 },
			"at any time: no outage pages within 1d: there are too few events (0.3 an hour)"},
		{"few", "99.9", 0, func(int, int) float64 { return 2 },
			"at any time: an outage under 1h30m is invisible (2 events an hour)"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, lines(t, c.objective, c.ahead, c.perHour)) })
	}
}
