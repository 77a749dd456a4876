package incident

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func TestMeasure(t *testing.T) {
	b := NewBook()
	at := func(min int) time.Time { return start.Add(time.Duration(min) * time.Minute) }
	near := ticket("near", "shop/latency", at(0))
	near.Alert.Proactive, near.Alert.Agreement, near.Alert.Group = true, "gold", []string{"a"}
	slow := page("slow", "shop/latency", at(8)) // detected 3 minutes after its onset
	slow.Alert.Group = []string{"a"}
	apply(t, b, at(0), near)
	apply(t, b, at(8), slow)
	apply(t, b, at(12), Operation{Kind: AckIt, ID: "INC-2026-11-0001", By: "Ann", Team: "ops", How: ByAPI})
	apply(t, b, at(13), over("near", at(13)), over("slow", at(13)))
	calls := page("calls", "shop/mdm", at(60))
	calls.Onset = at(15)
	calls.Team = "dev"
	apply(t, b, at(60), calls)
	apply(t, b, at(61), Operation{Kind: OpenByHand, Key: "k", Title: "t", Severity: Critical, Service: "shop",
		By: "Ann", Onset: at(51)})

	baselines := []*slo.Baseline{
		{Service: "shop", Name: "performance", SLOs: []string{"latency"}, Goal: 0.5,
			Detection: slo.Before{From: time.Hour, To: 90 * time.Minute, Target: 5 * time.Minute}},
		{Service: "shop", Name: "integration", SLOs: []string{"mdm"}, Goal: 0.5,
			Detection: slo.Before{From: time.Hour, To: 2 * time.Hour, Target: 5 * time.Minute}},
		{Service: "shop", Name: "sla", Agreements: []string{"silver"}, Goal: 0.5,
			Detection: slo.Before{From: time.Hour, To: 2 * time.Hour}},
		{Service: "shop", Name: "all", Goal: 0.9,
			Response: slo.Before{From: 40 * time.Minute, To: time.Hour, Target: time.Minute}},
		{Service: "billing", Name: "all", Goal: 0.5, Detection: slo.Before{From: time.Hour, To: time.Hour}},
	}
	m := b.View().Measure(at(-1), at(100), baselines)
	require.Equal(t, 3, m.Incidents)
	require.Equal(t, 2, m.Automated)
	require.InDelta(t, 2./3, *m.AutomatedRatio, 1e-9)
	require.Equal(t, Figure{Count: 3, Mean: (3 + 45 + 10) * 60. / 3, Median: 600, P90: 2700, Max: 2700},
		m.Detection["critical"])
	require.Zero(t, m.Detection["warning"].Count, "the page made it critical")
	require.Equal(t, map[string]Figure{"ops": {1, 240, 240, 240, 240}}, m.Response)
	verdicts := map[string]string{}
	for _, c := range m.Comparisons {
		verdicts[c.Service+" "+c.Baseline+" "+c.Of] = c.Verdict
	}
	require.Equal(t, map[string]string{
		"shop performance detection": "met", "shop integration detection": "missed", "shop sla detection": "no data",
		"shop all response": "met", "billing all detection": "no data",
	}, verdicts)
	require.InDelta(t, -0.95, *m.Comparisons[0].Change, 1e-9, "3 minutes instead of 60")
	require.Equal(t, 1, m.Comparisons[0].Within)
	require.InDelta(t, -0.25, *m.Comparisons[1].Change, 1e-9)
	require.Zero(t, m.Comparisons[1].Within)
	require.Equal(t, 2, m.Warned.Violations)
	require.Equal(
		t, []Lead{{"INC-2026-11-0001", "near", "shop/latency", []string{"a"}, at(0), at(8), 480}}, m.Warned.Leads)
	require.InDelta(t, 0.5, *m.Warned.Ratio, 1e-9)

	empty := b.View().Measure(at(200), at(300), baselines)
	require.Nil(t, empty.AutomatedRatio)
	require.Nil(t, empty.Warned.Ratio)
	require.Zero(t, empty.Incidents)
}

func TestFigure(t *testing.T) {
	require.Equal(t, Figure{}, NewFigure(nil))
	var all []time.Duration
	// the 90th percentile of 1 to n+1
	for n, want := range []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 18, 19} {
		all = append(all, time.Duration(n+1)*time.Second)
		f := NewFigure(all)
		require.Equal(t, want, f.P90, "of %d", n+1)
		require.Equal(t, float64((n+1)/2+1), f.Median, "of %d", n+1)
		require.Equal(t, float64(n+1), f.Max)
	}
	require.Equal(t, NewFigure(all), NewFigure(append(all[10:], all[:10]...)), "in any order")
}
