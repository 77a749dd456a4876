package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

const agreement = `
version: sloengine/v1
service: shop
slos:
  - {name: availability, objective: 99, group_by: [product, region],
      indicator: {events: {valid: '{type="a"}', bad: '{outcome="failure"}'}}}
  - {name: latency, objective: 95, group_by: [product], indicator: {latency: {valid: '{type="a"}', threshold: 15m}}}
  - {name: throughput, objective: 90, group_by: [product], indicator: {throughput: {valid: '{type="a"}', at_least: 100,
      per: 1m}}}
slas:
  - name: gold
    group_by: [product]
    window: 6h
    score: METHOD
    components:
      availability: {slo: availability, weight: 50}
      latency: {slo: latency, weight: 30BANDS}
      throughput: {slo: throughput, weight: 20}
    no_data: POLICY
    alerts: {warning: 95, critical: 90}
    alert_window: 1h
`

// Three products: one with all data, one without throughput, one with no event at
// all. The rules score them as the evaluator's arithmetic does.
func TestScoresAreThoseOfTheEvaluator(t *testing.T) {
	for _, method := range []sla.Method{sla.Attainment, sla.Ratio, sla.Bands} {
		for _, policy := range []sla.NoData{sla.NoDataExclude, sla.NoDataGood, sla.NoDataBad} {
			t.Run(fmt.Sprintf("%s/%s", method, policy), func(t *testing.T) {
				t.Parallel()
				bands := ""
				if method == sla.Bands {
					bands = ", bands: [{p95: 5m, score: 100}, {p95: 15m, score: 80}, {p95: 30m, score: 50}, {score: 20}]"
				}
				in := load(
					t, strings.NewReplacer("METHOD", string(method), "POLICY", string(policy), "BANDS", bands).Replace(agreement))
				compareScores(t, in, in.Agreements[0])
			})
		}
	}
}

func compareScores(t *testing.T, in rules.Spec, a *sla.Agreement) {
	o := rules.Options{Eval: time.Minute}
	w := rulestest.New(t, monday, short(recording(t, in, o)))
	minutes := 0.0
	w.Run(monday.Add(20*time.Minute), scrape, func(at time.Time, add func(string, float64)) {
		minutes = at.Sub(monday).Minutes() + 100
		count := func(slo, product, rest string, goodRate, badRate float64) {
			labels := fmt.Sprintf(`slo_id="shop/%s",service="shop",slo="%s",product="%s"%s`, slo, slo, product, rest)
			add(`slo_events_total{`+labels+`,result="good"}`, goodRate*minutes)
			add(`slo_events_total{`+labels+`,result="bad"}`, badRate*minutes)
		}
		count("availability", "A", `,region="eu"`, 90, 10)
		count("availability", "A", `,region="us"`, 300, 0)
		count("availability", "B", `,region="eu"`, 1000, 5)
		count("availability", "C", `,region="eu"`, 0, 0)
		count("latency", "A", "", 96, 4)
		count("latency", "B", "", 90, 10)
		count("latency", "C", "", 0, 0)
		count("throughput", "A", "", 3, 1)
		count("throughput", "B", "", 0, 0)
		for _, p := range []string{"A", "B", "C"} {
			slices := map[string]float64{"A": 1}[p]
			add(`slo_slice_achieved_events_total{slo_id="shop/throughput",service="shop",slo="throughput",product="`+p+`"}`,
				slices*330*minutes)
			add(`slo_slice_target_events_total{slo_id="shop/throughput",service="shop",slo="throughput",product="`+p+`"}`,
				slices*400*minutes)
			for i, le := range []string{"300", "900", "1800", "+Inf"} {
				within := map[string][]float64{"A": {50, 95, 99, 100}, "B": {50, 90, 94, 100}, "C": {0, 0, 0, 0}}[p][i]
				add(fmt.Sprintf(`sla_band_events_total{service="shop",sla="gold",sla_component="latency",product="%s",le="%s"}`,
					p, le), within*minutes)
			}
		}
	})
	inputs := map[string][]sla.ComponentInput{
		"A": {{Counts: slo.Counts{Good: 390, Bad: 10}},
			{Counts: slo.Counts{Good: 96, Bad: 4}, Within: []uint64{50, 95, 99, 0}, Measured: 100},
			{Counts: slo.Counts{Good: 3, Bad: 1}, Achieved: 330, Target: 400}},
		"B": {{Counts: slo.Counts{Good: 1000, Bad: 5}},
			{Counts: slo.Counts{Good: 90, Bad: 10}, Within: []uint64{50, 90, 94, 0}, Measured: 100}, {}},
		"C": {{}, {Within: make([]uint64, 4)}, {}},
	}
	for product, components := range inputs {
		for i := range components {
			s := byName(in, a.Components[i].SLO.Name())
			components[i].Objective, components[i].Kind, components[i].Method = s.Objective, s.Indicator.Kind, slo.Occurrences
		}
		want := sla.NewScorer(a).Score(slo.Span{}, components, make([]sla.ComponentReport, len(components)))
		at := o.Where(`product="` + product + `"`)
		for _, c := range []struct {
			expr string
			want float64
			has  bool
		}{
			{at.Score(a), want.Score, want.HasData},
			{at.AlertScore(a), want.Score, want.HasData},
			{at.ScoreLow(a), want.Low, want.HasData},
			{at.ScoreHigh(a), want.High, want.HasData},
			{at.ComponentScore(a, "availability"), want.Components[0].Points, want.Components[0].HasData},
			{at.ComponentScore(a, "latency"), want.Components[1].Points, want.Components[1].HasData},
			{at.AlertComponentScore(a, "throughput"), want.Components[2].Points, want.Components[2].HasData},
		} {
			got, ok := w.Value(c.expr, w.Now())
			require.Equal(t, c.has, ok, c.expr)
			if ok {
				require.InDelta(t, c.want, got, 1e-6*(1+c.want), c.expr)
			}
		}
	}
}
