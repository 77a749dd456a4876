package alerts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// TestExhaustedSoonRule runs the rule over the forecast that an engine exports: it fires after five minutes at the
// threshold, for the group that it is about, and no longer once the budget is empty.
func TestExhaustedSoonRule(t *testing.T) {
	percent, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	s := &slo.SLO{
		ID: "shop/availability", Objective: percent, Window: slo.Window{Rolling: 30 * 24 * time.Hour},
		GroupBy:   []string{"product"},
		Budgeting: slo.Budgeting{Method: slo.Occurrences}, Indicator: slo.Indicator{Kind: slo.KindEvents},
		Alerting: slo.Alerting{Soon: slo.SoonAlert{Within: 36 * time.Hour, Probability: 0.8}},
	}
	in := rules.Spec{SLOs: []*slo.SLO{s}}
	rule := newGenerator(in, Options{}).exhaustedSoon(s).rule
	group := rules.Group{Name: "soon", Interval: time.Minute, Rules: []rules.Rule{rule}}
	l := newLab(t, group)
	const from, to = 0, 3 * time.Hour
	const of = `slo_id="shop/availability",product=`
	l.load(`slo_forecast_exhausted_probability{`+of+`"BOOK",slo_ahead="1d12h"}`, from, to, time.Minute,
		func(at time.Duration) (float64, bool) {
			if at >= 30*time.Minute {
				return 0.85, true
			}
			return 0.79, true
		})
	l.load(`slo_forecast_exhausted_probability{`+of+`"TOY",slo_ahead="1d12h"}`, from, to, time.Minute, constant(0.5))
	l.load(`slo_forecast_exhausted_probability{`+of+`"TOY",slo_ahead="1d"}`, from, to, time.Minute, constant(0.9))
	l.load(`slo_forecast_exhausted_probability{`+of+`"__other__",slo_ahead="1d12h"}`, from, to, time.Minute, constant(1))
	l.load(`slo_forecast_exhaustion_seconds{`+of+`"BOOK",slo_quantile="0.95"}`, from, to, time.Minute,
		func(at time.Duration) (float64, bool) {
			if at >= 2*time.Hour {
				return 0, true
			}
			return 3600, true
		})
	got := l.run(from, to, time.Minute, func(x labels.Labels) string { return x.Get("product") + " " + x.Get("slo") })
	require.Len(t, got, 1)
	fired := got["BOOK availability"]
	require.NotEmpty(t, fired)
	require.InDelta(t, (35 * time.Minute).Minutes(), fired[0].Minutes(), 1.1)
	require.InDelta(t, (2*time.Hour + soonKeeps).Minutes(), fired[len(fired)-1].Minutes(), 1.1,
		"it goes on until the other alert has taken over")
}

// TestExhaustedSoonIsAsked: an SLO that does not ask for the alert has none, nor has one on Prometheus series.
func TestExhaustedSoonIsAsked(t *testing.T) {
	percent, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	s := &slo.SLO{ID: "shop/availability", Objective: percent, Window: slo.Window{Rolling: 30 * 24 * time.Hour},
		Indicator: slo.Indicator{Kind: slo.KindEvents}}
	count := func() (n int) {
		for _, l := range LiveAlerts(rules.Spec{SLOs: []*slo.SLO{s}}, Options{}) {
			if l.Alert == NameExhaustedSoon {
				n++
			}
		}
		return n
	}
	require.Zero(t, count())
	s.Alerting.Soon = slo.SoonAlert{Within: 24 * time.Hour, Probability: 0.8}
	require.Equal(t, 1, count())
	s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromBad: "bad_total", PromTotal: "all_total"}
	require.Zero(t, count())
}
