package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func loadText(t *testing.T, text string) (*Spec, Problems) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	s, ps, err := LoadPaths([]string{name}, nil)
	if err != nil && s == nil {
		return nil, ps
	}
	return s, ps
}

func TestBudgetLeft(t *testing.T) {
	for _, c := range []struct {
		text    string
		want    []slo.LeftAlert
		problem string
	}{
		{"[50, 20]", []slo.LeftAlert{{Share: 0.5}, {Share: 0.2}}, ""},
		{"[12.5, {left: 1, severity: page}, {left: 99}]",
			[]slo.LeftAlert{{Share: 0.125}, {Share: 0.01, Page: true}, {Share: 0.99}}, ""},
		{"[]", nil, "budget_left: want 1 to 8 percentages, got 0"},
		{"[1, 2, 3, 4, 5, 6, 7, 8, 9]", nil, "want 1 to 8 percentages, got 9"},
		{"[100]", nil, "want a percentage below 100"},
		{"[0]", nil, "want a percentage above 0"},
		{"[20, {left: 20, severity: page}]", nil, "budget_left: 20 is listed twice"},
		{"[{severity: page}]", nil, "left"},
		{"[{left: 20, severity: loud}]", nil, "severity"},
		{"20", nil, "want a list"},
	} {
		s, ps := loadText(t, strings.NewReplacer("CAPACITY", "5 per 1m", "exhausted_soon: SOON", "budget_left: "+c.text).
			Replace(throughputSpec))
		if c.problem != "" {
			require.Contains(t, ps.Errors().String(), c.problem, c.text)
			continue
		}
		require.Empty(t, ps.Errors().String())
		require.Equal(t, c.want, s.SLOs[0].Alerting.Left)
	}
}

const throughputSpec = `version: sloengine/v1
service: shop
slos:
  - name: orders
    objective: 99
    indicator: {throughput: {at_least: 10, capacity: CAPACITY}}
    alerting: {exhausted_soon: SOON}
`

func TestCapacityAndSoon(t *testing.T) {
	for _, c := range []struct {
		capacity, soon string
		want           slo.Capacity
		within         time.Duration
		probability    float64
		problem        string
	}{
		{"120 per 1m", "{}", slo.Capacity{Events: 120, Per: time.Minute}, 24 * time.Hour, 0.8, ""},
		{"{events: 5, per: 1s}", "{within: 3d, probability: 50}", slo.Capacity{Events: 5, Per: time.Second},
			72 * time.Hour, 0.5, ""},
		{"many", "{}", slo.Capacity{}, 0, 0, "capacity: \"many\" is not a number of events per time"},
		{"0 per 1m", "{}", slo.Capacity{}, 0, 0, "capacity: invalid"},
		{"{events: 5}", "{}", slo.Capacity{}, 0, 0, "per"},
		{"5 per 1m", "{within: 8d}", slo.Capacity{}, 0, 0, "within"},
		{"5 per 1m", "{probability: 100}", slo.Capacity{}, 0, 0, "probability"},
	} {
		text := strings.NewReplacer("CAPACITY", c.capacity, "SOON", c.soon).Replace(throughputSpec)
		s, ps := loadText(t, text)
		if c.problem != "" {
			require.Contains(t, ps.Errors().String(), c.problem, "%s %s", c.capacity, c.soon)
			continue
		}
		require.Empty(t, ps.Errors().String())
		require.Equal(t, c.want, s.SLOs[0].Indicator.Capacity)
		require.Equal(t, c.within, s.SLOs[0].Alerting.Soon.Within)
		require.Equal(t, c.probability, s.SLOs[0].Alerting.Soon.Probability)
		requireRoundTrip(t, s)
	}
}

func TestSoonNeedsCounts(t *testing.T) {
	_, ps := loadText(t, `version: sloengine/v1
service: shop
slos:
  - name: api
    objective: 99
    indicator: {prometheus: {bad: bad_total, total: all_total}}
    alerting: {exhausted_soon: {}}
  - name: daily
    objective: 90
    indicator: {volume: {at_least: 10, per: week, timezone: UTC}}
    alerting: {exhausted_soon: {}}
`)
	require.Contains(t, ps.Errors().String(), "exhausted_soon needs a forecast, and the engine counts no events")
	require.Contains(
		t, ps.Errors().String(), "exhausted_soon needs a forecast, and a volume is judged when its week is over")
}

// Who sends alerts can be chosen where rules can be looked up. The engine alone alerts on events.
func TestAlertsBy(t *testing.T) {
	const text = `version: sloengine/v1
service: shop
slos:
  - name: orders
    objective: 99
    indicator: INDICATOR
    alerting: {by: BY}
`
	for by, problem := range map[string]string{
		"rules": "alerting: by: rules needs a prometheus indicator",
		"both":  "alerting: by: both needs a prometheus indicator",
		"live":  "", "nobody": `"nobody"`,
	} {
		_, ps := loadText(t, strings.NewReplacer("BY", by, "INDICATOR",
			"{events: {bad: '{outcome=\"failure\"}'}}").Replace(text))
		if problem == "" {
			require.Empty(t, ps.Errors())
		} else {
			require.Contains(t, ps.Errors().String(), problem)
		}
	}
	s, ps := loadText(t, strings.NewReplacer("BY", "both", "INDICATOR",
		"{prometheus: {total: all, bad: bad}}").Replace(text))
	require.Empty(t, ps.Errors())
	require.Equal(t, slo.AlertsBoth, s.SLOs[0].Alerting.By)
}
