package alerts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

func TestLint(t *testing.T) {
	const day = 24 * time.Hour
	perDay := func(n float64) func(slo.ID) (float64, bool) { return func(slo.ID) (float64, bool) { return n, true } }
	one := func(s *slo.SLO) rules.Spec { return rules.Spec{SLOs: []*slo.SLO{s}} }
	pages := func(percent string) *slo.SLO {
		s := simple(t, "shop/up", percent)
		s.Alerting.Ticket.Disabled = true
		return s
	}
	for _, c := range []struct {
		name string
		in   rules.Spec
		o    LintOptions
		want []string
	}{
		{"nothing to find", one(simple(t, "shop/up", "99.9")),
			LintOptions{Retention: 31 * day, EventsPerDay: perDay(1e7)}, nil},
		{"the synthetic spec", synthetic(t), LintOptions{}, nil},
		{"no objective", one(&slo.SLO{ID: "shop/up"}), LintOptions{}, []string{
			"error: an objective of 100 % leaves no budget: the first bad event would make every alert fire forever"}},
		{"can never fire", one(pages("90")), LintOptions{}, []string{
			"info: the page alert over 1h is left out because it can never fire: a burn rate of 14.4 means that 144 % of all " +
				"events are bad"}},
		{"none is left", one(pages("80")), LintOptions{}, []string{
			"info: the page alert over 1h is left out because it can never fire: a burn rate of 14.4 means that 288 % of all " +
				"events are bad",
			"info: the page alert over 6h is left out because it can never fire: a burn rate of 6 means that 120 % of all " +
				"events are bad",
			"warning: no burn-rate alert remains"}},
		{"retention", one(simple(t, "shop/up", "99.9")), LintOptions{Retention: 15 * day}, []string{
			"error: Prometheus retains samples for 15d, less than the window (30d), so the budget would cover only part of it"}},
		{"slow scrapes", one(pages("99.9")),
			LintOptions{Options: Options{Options: rules.Options{Scrape: 2 * time.Minute}}}, []string{
				"warning: alert page-1h: its short window of 5m contains fewer than four scrapes (every 2m), so one missed " +
					"scrape silences it"}},
		{"low traffic", one(pages("99.9")), LintOptions{EventsPerDay: perDay(240)}, []string{
			"warning: alert page-1h: traffic is too low, its short window of 5m contains about 0.8 events",
			"warning: alert page-6h: traffic is too low, its short window of 30m contains about 5 events"}},
		{"min_events out of reach", one(func() *slo.SLO {
			s := pages("99.9")
			s.Alerting.MinEvents = 20
			return s
		}()), LintOptions{EventsPerDay: perDay(240)}, []string{
			"warning: alert page-1h can hardly ever fire: it needs 20 events, but 1h contains about 10",
			"warning: alert page-6h: traffic is too low, its short window of 30m contains about 5 events"}},
		{"causes that keep nothing quiet", func() rules.Spec {
			s, quiet := simple(t, "shop/up", "99.9"), simple(t, "shop/quiet", "99.9")
			quiet.Alerting.Page.Disabled = true
			s.CausedBy = []slo.Cause{{SLO: "bank/up"}, {SLO: "shop/quiet"}}
			return rules.Spec{SLOs: []*slo.SLO{s, quiet}}
		}(), LintOptions{}, []string{
			"info: caused_by bank/up keeps no alert quiet: no loaded spec has this SLO",
			"warning: caused_by shop/quiet keeps no alert quiet: that SLO never pages"}},
		{"slices too long", one(func() *slo.SLO {
			s := pages("99.9")
			s.Budgeting = slo.Budgeting{Method: slo.Timeslices, Slice: 10 * time.Minute}
			return s
		}()), LintOptions{}, []string{
			"warning: alert page-1h: slices of 10m are longer than its short window of 5m, which rarely contains one"}},
		{"capacity", one(func() *slo.SLO {
			s := simple(t, "shop/up", "99.9")
			s.Indicator = slo.Indicator{Kind: slo.KindThroughput, AtLeast: 1, Per: time.Minute,
				Capacity: slo.Capacity{Events: 120, Per: time.Minute}}
			return s
		}()), LintOptions{}, []string{
			"info: rules record how much of its capacity is used, but not when it will be reached: PromQL cannot follow the " +
				"trend of the same hours of five weeks"}},
		{"twice", rules.Spec{
			SLOs:       []*slo.SLO{simple(t, "shop/up", "99.9"), simple(t, "shop/up", "99.9")},
			Agreements: []*sla.Agreement{{Service: "shop", Name: "x"}, {Service: "shop", Name: "x"}},
		}, LintOptions{}, []string{"error: duplicate id", "error: duplicate agreement name"}},
		{"alike in Sloth's names", rules.Spec{SLOs: []*slo.SLO{simple(t, "a-b/c", "99.9"), simple(t, "a/b-c", "99.9")}},
			LintOptions{Options: Options{Options: rules.Options{Names: rules.Sloth}}},
			[]string{"error: its series have the same name (a-b-c) as those of a-b/c"}},
		{"a score over a month", rules.Spec{Agreements: []*sla.Agreement{
			{Service: "shop", Name: "x", Window: slo.Window{Rolling: 30 * day}, Warning: 95}}}, LintOptions{},
			[]string{"info: the score over 30d changes by hundredths within minutes, so its alerts fire days late"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range Lint(c.in, c.o) {
				require.NotEmpty(t, f.SLO)
				require.NotEmpty(t, f.Hint)
				got = append(got, string(f.Severity)+": "+f.Message)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestLintAdvice: where no alert can fire because the window is too long for the objective, a longer one is no advice.
func TestLintAdvice(t *testing.T) {
	s := simple(t, "shop/x", "50")
	s.Window = slo.Window{Rolling: 60 * 24 * time.Hour}
	found := Lint(rules.Spec{SLOs: []*slo.SLO{s}}, LintOptions{})
	require.Equal(t, Finding{s.ID, FindingWarning, "no burn-rate alert remains",
		"raise the objective or shorten the window"}, found[len(found)-1])
}

func TestFeeds(t *testing.T) {
	s := simple(t, "legacy/x", "99")
	feed := func(bad, good, total string) []counterFeed {
		s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromBad: bad, PromGood: good, PromTotal: total}
		f, err := newFeed(s)
		require.NoError(t, err)
		return f.series
	}
	require.Equal(t, []counterFeed{{`http_requests_total{code="500"}`, false, true, false},
		{`http_requests_total{code="200"}`, true, false, false}},
		feed(`http_requests_total{code=~"5.."}`, "", `http_requests_total`))
	require.Equal(
		t, []counterFeed{{`req{code="500",job="a"}`, false, true, false}, {`req{code="200",job="a"}`, true, false, false}},
		feed(`req{job="a",code=~"(500|502)"}`, "", `req{job="a",code!~"4.."}`))
	require.Equal(
		t, []counterFeed{{`lat_bucket{job="a",le="0.4"}`, true, false, false}, {`lat_count{job="a"}`, true, true, false}},
		feed("", `lat_bucket{job="a",le="0.4"}`, `lat_count{job="a"}`))
	require.Equal(t, "0 60000+60000x1 120000+0x2 _x2",
		counterFeed{"x", true, false, false}.values(
			[]phase{{2 * time.Minute, 0}, {3 * time.Minute, silence}, {2 * time.Minute, gone}}, time.Minute))
	// A matcher on the label of a group holds for all that is fed, whichever selector it stands in, and two groups are fed
	// where the matchers leave two.
	s.GroupBy = []string{"cluster"}
	require.Equal(t, []counterFeed{{`req{cluster="a",code="500"}`, false, true, false},
		{`req{cluster="a",code="200"}`, true, false, false}},
		feed(`req{code=~"5..",cluster="a"}`, "", `req`))
	require.Equal(t, []counterFeed{
		{`req{cluster="a",code="500"}`, false, true, false}, {`req{cluster="a",code="200"}`, true, false, false},
		{`req{cluster="b",code="500"}`, false, true, false}, {`req{cluster="b",code="200"}`, true, false, false},
	}, feed(`req{code=~"5.."}`, "", `req{cluster=~"a|b"}`))
	require.Equal(t, []counterFeed{
		{`lat_bucket{cluster="b",le="0.4"}`, true, false, false}, {`lat_count{cluster="b"}`, true, true, false},
	}, feed("", `lat_bucket{le="0.4"}`, `lat_count{cluster="b"}`))
	s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromBad: `req{cluster="a",code="500"}`,
		PromTotal: `req{cluster="b"}`}
	_, err := newFeed(s)
	require.ErrorContains(t, err, "no group is known that both of its selectors match")
	s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromErrorRatioQuery: "x[$window]"}
	_, err = newFeed(s)
	require.ErrorIs(t, err, errFree)
	files, findings, err := Tests(rules.Spec{SLOs: []*slo.SLO{s}}, Options{Options: tables})
	require.NoError(t, err)
	require.Empty(t, files)
	require.Equal(t,
		[]Finding{{s.ID, FindingInfo, "no rule tests are generated: its query is free, no counter is known to feed it",
			"test its alerts with series of your own"}}, findings)
}
