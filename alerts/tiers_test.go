package alerts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func TestTiers(t *testing.T) {
	type tier struct {
		name              string
		factor, threshold string
	}
	for _, c := range []struct {
		name, objective string
		window          slo.Window
		own             []slo.Tier
		want            []tier
		left            []string
	}{
		{"30d at 99.9", "99.9", slo.Window{Rolling: 30 * 24 * time.Hour}, nil,
			[]tier{{"page-1h", "14.4", "0.0144"}, {"page-6h", "6", "0.006"}, {"ticket-1d", "3", "0.003"},
				{"ticket-3d", "1", "0.001"}}, nil},
		{"factors follow the period", "99.9", slo.Window{Rolling: 28 * 24 * time.Hour}, nil,
			[]tier{{"page-1h", "13.44", "0.01344"}, {"page-6h", "5.6", "0.0056"}, {"ticket-1d", "2.8", "0.0028"},
				{"ticket-3d", "0.933333333333", "0.000933333333333"}}, nil},
		{"93 could need 1.008", "93", slo.Window{Rolling: 30 * 24 * time.Hour}, nil,
			[]tier{{"page-6h", "6", "0.42"}, {"ticket-1d", "3", "0.21"}, {"ticket-3d", "1", "0.07"}},
			[]string{
				"the page alert over 1h is left out because it can never fire: a burn rate of 14.4 means that 100.8 % of all " +
					"events are bad"}},
		{"a day is too short for a day", "99.9", slo.Window{Calendar: slo.Day, Location: time.UTC}, nil,
			[]tier{{"page-1h", "0.48", "0.00048"}, {"page-6h", "0.2", "0.0002"}},
			[]string{"the ticket alert over 1d is left out: the window of the SLO (day UTC) must be longer",
				"the ticket alert over 3d is left out: the window of the SLO (day UTC) must be longer"}},
		{"own", "99.5", slo.Window{Rolling: 7 * 24 * time.Hour}, []slo.Tier{
			{Page: true, Long: 30 * time.Minute, Short: 5 * time.Minute, Share: 0.1},
			{Page: true, Long: 30 * time.Minute, Short: 10 * time.Minute, Share: 0.05},
			{Page: true, Long: 30 * time.Minute, Short: 10 * time.Minute, Share: 0.01},
			{Long: time.Hour, Short: time.Hour, Share: 0.01},
		}, []tier{{"page-30m", "33.6", "0.168"}, {"page-30m-10m", "16.8", "0.084"}}, []string{
			"two page alerts have the same windows 30m and 10m, so the second is left out",
			"the ticket alert over 1h is left out: its short window (1h) is not shorter",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := simple(t, "a/b", c.objective)
			s.Window, s.Alerting.Tiers = c.window, c.own
			tiers, left := Tiers(s)
			var got []tier
			for _, x := range tiers {
				got = append(got, tier{x.Name, number(x.Factor), number(x.Threshold)})
			}
			require.Equal(t, c.want, got)
			var messages []string
			for _, f := range left {
				require.NotEmpty(t, f.Hint)
				messages = append(messages, f.Message)
			}
			require.Equal(t, c.left, messages)
		})
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0.1 + 0.2: "0.3", 14.4 * 0.001: "0.0144", 1e-5: "0.00001", 100: "100", 1e6: "1000000", -0.5: "-0.5", 0: "0",
		1.0 / 3: "0.333333333333",
	} {
		require.Equal(t, want, number(x))
	}
	require.Equal(t, "0.1 %", percent(0.001))
	require.Equal(t, "1 GiB", size(1<<30))
	require.Equal(t, "1.5 MiB", size(3<<19))
	require.Equal(t, "12 B", size(12))
}
