package rules_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// Every query that the other packages ask for reads a series that is recorded.
func TestQueriesReadWhatIsRecorded(t *testing.T) {
	in := insurance(t)
	for _, names := range []rules.Naming{rules.Own, rules.Sloth} {
		o := year
		o.Names = names
		recorded := map[string]bool{}
		for _, g := range recording(t, in, o) {
			for _, r := range g.Rules {
				recorded[r.Record] = true
			}
		}
		var queries []string
		for _, s := range in.SLOs {
			a := o.Alertable(s)
			queries = append(queries, a.PeriodErrorRatio(s), a.BadRate(s), a.ValidRate(s), a.CurrentBurnRate(s),
				a.PeriodBurnRate(s), a.PeriodRemaining(s),
				o.Objective(s), o.ErrorBudget(s), o.Days(s), o.Info(s), o.TablesEnd(s.ID.Service()))
			for _, w := range rules.Windows(s) {
				queries = append(queries, a.ErrorRatio(s, w), a.BurnRate(s, w), a.EventsOver(s, w), a.BadEventsOver(s, w))
			}
		}
		for _, ag := range in.Agreements {
			a := o.AlertableAgreement(ag)
			queries = append(queries, a.Score(ag), a.AlertScore(ag), a.ScoreLow(ag), a.ScoreHigh(ag),
				a.ComponentScore(ag, "latency"), a.AlertComponentScore(ag, ""))
		}
		p := parser.NewParser(parser.Options{})
		for _, q := range queries {
			e, err := p.ParseExpr(q)
			require.NoError(t, err, q)
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok {
					require.True(t, recorded[v.Name], "%s reads %s", q, v.Name)
				}
				return nil
			})
		}
	}
}

// What the rules read is exported by the engine or recorded by an earlier rule,
// and every recorded name is one that package series knows.
func TestRulesReadWhatExists(t *testing.T) {
	in := insurance(t)
	groups := recording(t, in, year)
	known := map[string]bool{}
	for _, s := range series.All() {
		known[s.Name] = true
	}
	var windows []string
	for _, s := range in.SLOs {
		for _, w := range rules.Windows(s) {
			windows = append(windows, slo.FormatDuration(w))
		}
		windows = append(windows, string(s.Window.Calendar))
	}
	names := recordedNames(windows...)
	seen, groupNames := map[string]bool{}, map[string]bool{}
	for _, g := range groups {
		require.False(t, groupNames[g.Name], g.Name)
		groupNames[g.Name] = true
		for _, r := range g.Rules {
			require.Contains(t, names, r.Record)
			seen[r.Record] = true
			require.NotContains(t, r.Expr, "99999")
			require.NotContains(t, r.Expr, "00000001")
			for k := range r.Labels {
				require.False(t, k == "team" && r.Record != series.RecordedInfo, "labels of the team are on the info series only")
			}
		}
	}
	p := parser.NewParser(parser.Options{})
	for _, g := range groups {
		for _, r := range g.Rules {
			e, err := p.ParseExpr(r.Expr)
			require.NoError(t, err)
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok {
					require.True(t, seen[v.Name] || known[v.Name], "%s reads %s", r.Record, v.Name)
				}
				return nil
			})
		}
	}
}

func TestSlothNames(t *testing.T) {
	o := rules.Options{Names: rules.Sloth}
	byRecord := map[string]map[string]string{}
	for _, g := range recording(t, load(t, shop), o) {
		for _, r := range g.Rules {
			byRecord[r.Record] = r.Labels
		}
	}
	id := map[string]string{"sloth_id": "shop-checkout", "sloth_service": "shop", "sloth_slo": "checkout"}
	for _, w := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"} {
		require.Equal(t, map[string]string{"sloth_window": w}, byRecord["slo:sli_error:ratio_rate"+w])
	}
	for _, name := range []string{"slo:objective:ratio", "slo:error_budget:ratio", "slo:time_period:days",
		"slo:valid_events:rate5m"} {
		require.Equal(t, id, byRecord[name], name)
	}
	for _, name := range []string{"slo:current_burn_rate:ratio", "slo:period_burn_rate:ratio",
		"slo:period_error_budget_remaining:ratio"} {
		require.Contains(t, byRecord, name)
	}
	require.Equal(t, "99.9", byRecord["sloth_slo_info"]["sloth_objective"])
	require.Equal(t, "shop-checkout", byRecord["sloth_slo_info"]["sloth_id"])
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]rules.Options{
		"unknown names":          {Names: "x"},
		"scrape interval":        {Scrape: time.Hour},
		"evaluation interval 7s": {Eval: 7 * time.Second},
		"long windows":           {LongEval: 10 * time.Minute},
		"before they begin":      {From: monday, Until: monday.Add(-time.Hour)},
	} {
		_, err := rules.Recording(load(t, shop), o)
		require.ErrorContains(t, err, want)
	}
	in := load(t, shop)
	in.SLOs = append(in.SLOs, in.SLOs[0])
	_, err := rules.Recording(in, rules.Options{})
	require.ErrorContains(t, err, "is there twice")
}

// Counters, queries, a ratio, samples against a threshold, and native histograms
// by queries: each form gives a ratio and never something else than a number.
func TestFormsOfExistingSeries(t *testing.T) {
	objective, err := slo.ParsePercent("99")
	require.NoError(t, err)
	form := func(name string, i slo.Indicator) *slo.SLO {
		i.Kind = slo.KindPrometheus
		return &slo.SLO{
			ID: slo.NewID("web", name), Objective: objective, Window: slo.Window{Rolling: 30 * 24 * time.Hour}, Indicator: i}
	}
	in := rules.Spec{SLOs: []*slo.SLO{
		form("queries-bad", slo.Indicator{PromBadQuery: `sum(increase(errors_total[$window]))`,
			PromTotalQuery: `sum(increase(requests_total[$window]))`}),
		form("queries-good",
			slo.Indicator{PromGoodQuery: `sum(rate(requests_total[$window])) - sum(rate(errors_total[$window]))`,
				PromTotalQuery: `sum(rate(requests_total[$window]))`}),
		form("ratio", slo.Indicator{
			PromErrorRatioQuery: `sum(rate(errors_total[$window])) / sum(rate(requests_total[$window]))`}),
		form("threshold", slo.Indicator{PromQuery: `queue_length`, PromOp: slo.NotAbove, PromValue: 5}),
		form("native", slo.Indicator{
			PromGoodQuery: `histogram_fraction(0, 0.5, sum(rate(latency_seconds[$window]))) * ` +
				`histogram_count(sum(rate(latency_seconds[$window])))`,
			PromTotalQuery: `histogram_count(sum(rate(latency_seconds[$window])))`,
		}),
	}}
	slow := string(rules.File("", recording(t, in, rules.Options{Scrape: 45 * time.Second})))
	require.Contains(t, slow, "requests_total[5m45s]", "a scrape more than what the rate stands for")
	groups := recording(t, in, rules.Options{})
	promtool(t, rules.File("", groups))
	w := rulestest.New(t, monday, groups)
	o := rules.Options{}
	requests, failed := 1e4, 1e3
	w.Run(monday.Add(3*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		if m := at.Sub(monday); m < time.Hour || m > 80*time.Minute { // twenty quiet minutes
			requests += 100
			failed += 10
		}
		add("requests_total", requests)
		add("errors_total", failed)
		queue := 3.0
		if at.Minute()%10 == 0 {
			queue = 7
		}
		add("queue_length", queue)
		w.Histogram("latency_seconds", at, requests-failed, failed)
	})
	for name, want := range map[string]float64{"queries-bad": 0.1, "queries-good": 0.1, "ratio": 0.1,
		"threshold": 0.1, "native": 0.1} {
		s := in.SLOs[slices.IndexFunc(in.SLOs, func(s *slo.SLO) bool { return s.ID.Name() == name })]
		for _, window := range []time.Duration{time.Hour, 2 * time.Hour, 24 * time.Hour} {
			got, ok := w.Value(o.ErrorRatio(s, window), w.Now())
			require.True(t, ok, name)
			require.InDelta(t, want, got, 0.012, "%s over %s", name, window)
		}
	}
}

// recordedNames lists every recorded name; those of error ratios and scores for
// the given windows, such as "5m" or "month", follow.
func recordedNames(windows ...string) []string {
	names := []string{
		series.BadEvents, series.ValidEvents, series.ValidEventsZero, series.BadEvents30m, series.ValidEvents30m,
		series.BadEvents1h, series.ValidEvents1h, series.BadEventsIncrease, series.ValidEventsIncrease,
		series.Engines, series.Observed, series.ObservedIncrease, series.CurrentBurnRate, series.PeriodBurnRate,
		series.PeriodBudgetRemaining, series.SliceAchievedRate, series.SliceTargetRate,
		series.Objective, series.ErrorBudget, series.TimePeriod, series.RecordedInfo, series.SlothInfo,
		series.CostIncrease, series.CostBaseline, series.CostInvestment,
		series.PeriodStart, series.PeriodEnd, series.CorrectionStart, series.CorrectionEnd, series.TablesEnd,
		series.RecordedComponentScore, series.RecordedCompositeScore, series.RecordedCompositeLow,
		series.RecordedCompositeHigh, series.RecordedObservedScore, series.ComponentWeight, series.BandEventsRate,
	}
	for _, w := range windows {
		if n := series.ValidEventsOver(w); len(w) > 0 && w[0] <= '9' && !slices.Contains(names, n) {
			names = append(names, n)
		}
		names = append(names, series.ErrorRatio(w), series.ObservedRatio(w), series.ObservedScoreOver(w),
			series.RecordedComponentScore+w, series.CompositeScoreOver(w))
	}
	return names
}

func TestRecordedNames(t *testing.T) {
	name := regexp.MustCompile(`^((slo|sla):[a-z0-9_]+:[a-z0-9_]+|slo:(info|observed|engines)|sloth_slo_info)$`)
	seen := map[string]bool{}
	for _, n := range recordedNames("5m", "1h30m", "month") {
		require.Regexp(t, name, n)
		require.False(t, seen[n], "%s is there twice", n)
		seen[n] = true
	}
}
