package alerts

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

const step = 30 * time.Second

// The guards of a page, over series that are as rules record them.
func TestPageGuards(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct {
		name      string
		ratio     float64 // over all windows
		perHour   float64
		minEvents uint64
		observed  float64 // share of the hour, the last minutes of it
		fires     bool
	}{
		{"a full outage", 1, 36_000, 0, 1, true},
		{"more bad than valid events is a full outage, no NaN", 1.05, 36_000, 0, 1, true},
		{"well above the threshold, many events", 0.02, 360_000, 0, 1, true},
		{"above the threshold, too few events to be sure", 0.02, 100, 0, 1, false},
		{"far above, few events", 0.5, 20, 0, 1, true},
		{"just below", 0.0143, 1e7, 0, 1, false},
		{"nothing bad", 0, 36_000, 0, 1, false},
		{"no event in the window", 0, 0, 0, 1, false},
		{"a full outage of fewer events than min_events", 1, 19, 20, 1, false},
		{"of just as many", 1, 20, 20, 1, true},
		{"on an engine that is up for half a minute", 1, 36_000, 0, 0.5 / 60, false},
		{"and for a minute", 1, 36_000, 0, 1. / 60, true},
		{"half of the events, for a minute", 0.5, 36_000, 0, 1. / 60, false},
		{"and for two", 0.5, 36_000, 0, 2. / 60, true},
		{"two bad events", 0.5, 4, 0, 1, false},
		{"three of few, in two minutes", 0.5, 6, 0, 2. / 60, true},
		{"nothing is observed", 1, 36_000, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := simple(t, "shop/up", "99.9")
			s.Alerting.MinEvents = c.minEvents
			groups := Rules(rules.Spec{SLOs: []*slo.SLO{s}}, Options{NoEngine: true})
			l := newLab(t, only(t, groups, NameBurnPage)...)
			sel := sloSeries("shop/up").String()
			for _, w := range []string{"5m", "30m", "1h", "6h"} {
				l.load("slo:sli_error:ratio_rate"+w+sel, 0, h, step, constant(c.ratio))
			}
			l.load("slo:valid_events:rate1h"+sel, 0, h, step, constant(c.perHour/3600))
			l.load("slo:observed:ratio1h"+sel, 0, h, step, constant(c.observed))
			l.load("slo:observed:ratio5m"+sel, 0, h, step, constant(min(1, 12*c.observed)))
			l.run(h, h, step, byTier)
			fired := l.firing()
			if !c.fires {
				require.Empty(t, fired)
				return
			}
			require.Len(t, fired, 1) // the tier of six hours has no counts here
			require.Equal(t, "page-1h", fired[0].Labels.Get(series.LabelTier))
			require.Contains(t, fired[0].Annotations.Get("description"), "%")
		})
	}
}

// Time that was not observed counts as good for an alert that does not fire, and
// proves nothing about one that does.
func TestUnobservedTimeKeepsWhatFires(t *testing.T) {
	for _, naming := range []rules.Naming{rules.Own, rules.Sloth} {
		groups := Rules(rules.Spec{SLOs: []*slo.SLO{grouped(simple(t, "shop/up", "99.9"), "region")}},
			Options{NoEngine: true, Options: rules.Options{Names: naming}})
		l := newLab(t, only(t, groups, NameBurnPage)...)
		const m = time.Minute
		id := sloSeries("shop/up")
		if naming == rules.Sloth {
			id = labels.FromStrings("sloth_id", "shop-up", "sloth_service", "shop", "sloth_slo", "up")
		}
		for _, region := range []string{"north", "south", slo.OtherGroup} {
			b := labels.NewBuilder(id).Set("region", region)
			for _, w := range []string{"5m", "1h"} {
				if naming == rules.Sloth {
					b.Set("sloth_window", w)
				}
				l.load("slo:sli_error:ratio_rate"+w+b.Labels().String(), 0, 90*m, step, func(at time.Duration) (float64, bool) {
					switch {
					case region == "south" && at < 20*m:
						return 0, true
					case at < 35*m:
						return 0.5, true
					case at < 50*m: // gone, as its counters are
						return 0, false
					}
					return 0, true
				})
			}
			for _, w := range []string{"5m", "1h"} {
				l.load("slo:valid_events:rate"+w+b.Del("sloth_window").Labels().String(), 0, 90*m, step, constant(100))
			}
		}
		for w, share := range map[string]curve{
			"1h": func(at time.Duration) (float64, bool) { return map[bool]float64{true: 1, false: 0.02}[at < 10*m], true },
			"5m": func(at time.Duration) (float64, bool) {
				return map[bool]float64{true: 1, false: 0.89}[at < 10*m || at >= 60*m], true
			},
		} {
			l.load("slo:observed:ratio"+w+id.String(), 0, 90*m, step, share)
		}
		byRegion := func(l labels.Labels) string { return l.Get("region") }
		require.Equal(t, map[string][]time.Duration{"north": {0}}, l.run(0, 45*m, step, byRegion),
			"south began when 1 % of the hour was bad by what was observed; the other group never alerts")
		require.Len(t, l.firing(), 1)
		require.Contains(t, l.firing()[0].Annotations.Get("description"), "missing data does not resolve it")
		require.Equal(t, map[string][]time.Duration{"north": {45*m + step, 60 * m}}, l.run(45*m+step, 70*m, step, byRegion),
			"over once five minutes were observed")
	}
}

func catalogueLab(t *testing.T, names ...string) *lab {
	groups := Rules(synthetic(t), Options{Options: tables, NoEngine: true})
	return newLab(t, only(t, groups, names...)...)
}

// step between two levels at a time.
func level(before, after float64, at time.Duration) curve {
	return func(t time.Duration) (float64, bool) {
		if t < at {
			return before, true
		}
		return after, true
	}
}

func TestRecovery(t *testing.T) {
	const m = time.Minute
	l := catalogueLab(t, NameLatencyViolation, NameLatencyRecovered)
	sel := sloSeries("shop/latency").String()
	l.loadObserved(sloSeries("shop/latency"), 0, 120*m, step, constant(1))
	l.load("slo:valid_events:rate5m"+sel, 0, 120*m, step, constant(10))
	l.load("slo:sli_error:ratio_rate5m"+sel, 0, 120*m, step, func(at time.Duration) (float64, bool) {
		// Bad from 10 to 30; then good; bad from 60 to 70; then no data at all.
		return map[bool]float64{true: 0.2, false: 0.01}[at >= 10*m && at < 30*m || at >= 60*m], at < 70*m
	})
	edges := l.run(0, 120*m, step, byName)
	require.Len(t, edges[NameLatencyViolation], 4)
	require.Equal(t, []time.Duration{12 * m, 30 * m}, edges[NameLatencyViolation][:2])
	// Two minutes of being good, then for as long as it is recent.
	got := edges[NameLatencyRecovered]
	require.Len(t, got, 2, "silence is no recovery: %s", minutes(got))
	require.Equal(t, 32*m, got[0])
	require.InDelta(t, (45 * m).Seconds(), got[1].Seconds(), step.Seconds())
}

func TestCompositeHasItsOwnWindow(t *testing.T) {
	const m = time.Minute
	l := catalogueLab(t, NameCompositeWarning, NameCompositeCritical, NameCompositeRecovered)
	sel := `{service="shop",sla="gold"}`
	l.load("sla:composite_score:ratio"+sel, 0, 120*m, step, constant(99.9))
	score := func(at time.Duration) (float64, bool) {
		switch {
		case at < 10*m:
			return 100, true
		case at < 20*m:
			return 93, true
		case at < 30*m, at >= 70*m && at < 80*m:
			return 80, true
		case at >= 80*m && at < 95*m:
			return 0, false
		}
		return 99, true
	}
	l.load("sla:composite_score:ratio1h"+sel, 0, 120*m, step, score)
	l.load("sla:observed_score:ratio1h"+sel, 0, 120*m, step, func(at time.Duration) (float64, bool) {
		if at >= 76*m {
			return 99, true // most of the hour is not observed
		}
		return score(at)
	})
	for _, id := range []string{"shop/availability", "shop/latency", "shop/errors", "shop/throughput",
		"shop/calls", "shop/stages"} {
		l.loadObserved(sloSeries(id), 0, 120*m, step, func(at time.Duration) (float64, bool) {
			return map[bool]float64{true: 0.5, false: 1}[at >= 78*m && at < 100*m], true
		})
	}
	edges := l.run(0, 110*m, step, byName)
	require.Equal(t, []time.Duration{15 * m, 30 * m, 75 * m, 100 * m}, edges[NameCompositeWarning],
		"not over before somebody looks again")
	require.Equal(t, []time.Duration{25 * m, 30 * m, 75 * m, 100 * m}, edges[NameCompositeCritical])
	require.Equal(t, 35*m, edges[NameCompositeRecovered][0])
}

func TestCascading(t *testing.T) {
	const m = time.Minute
	l := catalogueLab(t, NameCascading)
	bad := func(id, label, value string, from, to time.Duration, perSecond float64) {
		sel := sloSeries(id, label, value).String()
		inside := func(at time.Duration) bool { return at >= from && at < to }
		l.load("slo:bad_events:rate5m"+sel, 0, 60*m, step, func(at time.Duration) (float64, bool) {
			return map[bool]float64{true: perSecond}[inside(at)], true
		})
		l.load("slo:sli_error:ratio_rate5m"+sel, 0, 60*m, step, func(at time.Duration) (float64, bool) {
			return map[bool]float64{true: 0.5}[inside(at)], true
		})
	}
	bad("shop/calls", "integration", "bank", 10*m, 30*m, 1)
	bad("shop/calls", "integration", "post", 40*m, 50*m, 0.01) // three calls: too few
	bad("shop/stages", "stage", "pay", 20*m, 35*m, 1)
	bad("shop/stages", "stage", "ship", 40*m, 50*m, 1)
	var seen labels.Labels
	edges := l.run(0, 60*m, step, func(l labels.Labels) string {
		seen = l
		return l.Get("integration") + " " + l.Get("slo_effect")
	})
	require.Equal(t, map[string][]time.Duration{"bank shop/stages": {21 * m, 30 * m}}, edges,
		"both at the same time, and over when one is")
	require.Equal(t, SeverityTicket, seen.Get("severity"))
	require.Equal(t, "gold", seen.Get(series.LabelAgreement))
}

func TestTrendComparesRatios(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		name       string
		valid, bad curve
		fires      bool
	}{
		{"traffic triples, its errors with it", level(10, 30, 60*m), level(0.08, 0.24, 60*m), false},
		{"errors double", constant(10), level(0.04, 0.08, 60*m), true},
		{"errors double, but are few", constant(10), level(0.004, 0.008, 60*m), false},
		{"errors fall", constant(10), level(0.09, 0.07, 60*m), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := catalogueLab(t, NameErrorRateTrend)
			sel := sloSeries("shop/errors", "tier", "north", "http_code", "500").String()
			l.load("slo:valid_events:rate5m"+sel, 0, 80*m, step, c.valid)
			l.load("slo:bad_events:rate5m"+sel, 0, 80*m, step, c.bad)
			l.load("slo:sli_error:ratio_rate5m"+sel, 0, 80*m, step, func(at time.Duration) (float64, bool) {
				b, _ := c.bad(at)
				v, _ := c.valid(at)
				return b / v, true
			})
			edges := l.run(30*m, 80*m, step, byName)
			require.Equal(t, c.fires, len(edges) > 0, edges)
		})
	}
}

func TestLatencyCriticalCountsBreaches(t *testing.T) {
	const m = time.Minute
	l := catalogueLab(t, NameLatencyCritical)
	l.load("slo:valid_events:rate5m"+sloSeries("shop/latency").String(), 0, 60*m, step, constant(10))
	l.loadObserved(sloSeries("shop/latency"), 0, 60*m, step, constant(1))
	breaches := func(at time.Duration) (float64, bool) { // one a second from 20m to 40m: 10 %
		return max(0, min(at, 40*m)-20*m).Seconds() * 1, at >= 0
	}
	l.load(`sla_violations_total{sla_type="request",severity="critical",service="shop"}`, 0, 60*m,
		15*time.Second, breaches)
	l.load(`sla_violations_total{sla_type="request",severity="warning",service="shop"}`, 0, 60*m,
		15*time.Second, constant(0))
	edges := l.run(10*m, 60*m, step, byName)
	got := edges[NameLatencyCritical]
	require.Len(t, got, 2)
	require.InDelta(t, (23*m + 45*time.Second).Seconds(), got[0].Seconds(), 60, "half of five minutes, and one to be sure")
	require.InDelta(t, (42*m + 30*time.Second).Seconds(), got[1].Seconds(), 60)
}

// A threshold that tells the groups of the SLO apart gives an alert to each of them.
func TestLatencyCriticalNamesTheGroup(t *testing.T) {
	const m = time.Minute
	in := synthetic(t)
	slow := in.SLOs[slices.IndexFunc(in.SLOs, func(s *slo.SLO) bool { return s.ID == "shop/latency" })]
	slow.GroupBy, slow.MaxGroups = []string{"product"}, 10
	in.Thresholds[0].GroupBy, in.Thresholds[0].MaxGroups = []string{"channel", "product"}, 10
	build := func() []rules.Group {
		groups := Rules(in, Options{Options: tables, NoEngine: true})
		return only(t, groups, NameLatencyCritical)
	}
	l := newLab(t, build()...)
	l.loadObserved(sloSeries("shop/latency"), 0, 60*m, step, constant(1))
	for _, product := range []string{"MED", "TRV", slo.OtherGroup} {
		l.load("slo:valid_events:rate5m"+sloSeries("shop/latency", "product", product).String(), 0, 60*m, step, constant(10))
		for _, channel := range []string{"front", "back"} {
			l.load(
				fmt.Sprintf(`sla_violations_total{sla_type="request",severity="critical",service="shop",channel=%q,product=%q}`,
					channel, product), 0, 60*m, 15*time.Second, func(at time.Duration) (float64, bool) {
					if product == "TRV" {
						return 0, true
					}
					return max(0, min(at, 40*m)-20*m).Seconds() * 0.4, true // 8 % of both channels, 4 % of one
				})
		}
	}
	byProduct := func(x labels.Labels) string { return x.Get("alertname") + " " + x.Get("product") }
	edges := l.run(10*m, 30*m, step, byProduct)
	require.Len(t, edges, 1, "not TRV, and not the group of all others")
	require.Len(t, edges[NameLatencyCritical+" MED"], 1)
	require.Contains(t, l.firing()[0].Annotations.Get("summary"), "shop/latency (product=MED)")
	l.run(30*m+step, 60*m, step, byProduct)
	require.Empty(t, l.firing())

	for what, change := range map[string]func(){
		"a threshold without the attribute": func() { in.Thresholds[0].GroupBy = []string{"channel"} },
		"a threshold with room for less":    func() { in.Thresholds[0].MaxGroups = 9 },
		"an SLO without groups":             func() { slow.GroupBy = nil },
	} {
		by, n, as := in.Thresholds[0].GroupBy, in.Thresholds[0].MaxGroups, slow.GroupBy
		change()
		require.Contains(t, build()[0].Rules[0].Annotations["summary"], "shop/latency", what)
		require.NotContains(t, build()[0].Rules[0].Expr, "sum by (", what)
		in.Thresholds[0].GroupBy, in.Thresholds[0].MaxGroups, slow.GroupBy = by, n, as
	}
}

func TestThroughputDecline(t *testing.T) {
	const m = time.Minute
	l := catalogueLab(t, NameThroughputDecline)
	l.load("slo:valid_events:rate5m"+sloSeries("shop/throughput").String(), 0, 120*m, step, level(1./60, 0, 80*m))
	l.load("slo:valid_events:rate5m"+sloSeries("shop/availability").String(), 0, 120*m, step,
		func(at time.Duration) (float64, bool) {
			switch {
			case at < 20*m:
				return 150. / 60, true
			case at < 40*m:
				return 110. / 60, true
			case at < 60*m:
				return 90. / 60, true // below the target is another alert
			}
			return 110. / 60, true
		})
	require.Equal(t, map[string][]time.Duration{NameThroughputDecline: {30 * m, 40 * m, 70 * m, 80 * m}},
		l.run(0, 120*m, step, byName), "closed hours end it")
}

func TestThroughputBelowTarget(t *testing.T) {
	const m = time.Minute
	l := catalogueLab(t, NameThroughputViolation)
	l.loadObserved(sloSeries("shop/throughput"), 0, 30*m, step, constant(1))
	l.load("slo:sli_error:ratio_rate5m"+sloSeries("shop/throughput").String(), 0, 30*m, step, level(0.4, 0.8, 10*m))
	require.Equal(t, map[string][]time.Duration{NameThroughputViolation: {13 * m}}, l.run(0, 30*m, step, byName))
}

// A week of traffic by day only; on the eighth day one type stops.
func TestSilentSender(t *testing.T) {
	const h, day, s = time.Hour, 24 * time.Hour, 5 * time.Minute
	groups := Rules(rules.Spec{SLOs: []*slo.SLO{simple(t, "shop/up", "99.9")}}, Options{NoEngine: true})
	l := newLab(t, only(t, groups, NameSenderSilent)...)
	stop := 8*day + 12*h
	perDay := func(at time.Duration) float64 { // 100 an hour from 8 to 20
		whole, rest := at/day, at%day
		return float64(whole)*1200 + 100*max(0, min(rest, 20*h)-8*h).Hours()
	}
	load := func(typ string, f func(at time.Duration) float64) {
		l.load(`sloengine_events_total{service="shop",type="`+typ+`",outcome="success"}`, 0, 9*day+h, s,
			func(at time.Duration) (float64, bool) {
				return f(at), true
			})
	}
	load("request", func(at time.Duration) float64 { return perDay(min(at, stop)) })
	load("job", perDay)
	edges := l.run(7*day, 9*day, s, func(l labels.Labels) string { return l.Get("type") })
	require.Len(t, edges["request"], 2, "%v", edges)
	require.InDelta(t, (stop + 45*time.Minute).Hours(), edges["request"][0].Hours(), 0.2,
		"half an hour of silence, a quarter to be sure")
	require.InDelta(t, (8*day + 20*h).Hours(), edges["request"][1].Hours(), 0.6,
		"at night silence is what was to be expected")
	require.Empty(t, edges["job"])
}

func TestNoData(t *testing.T) {
	const m, h = time.Minute, time.Hour
	s := grouped(simple(t, "shop/up", "99.9"), "region")
	groups := Rules(rules.Spec{SLOs: []*slo.SLO{s}}, Options{NoEngine: true})
	t.Run("counters vanish", func(t *testing.T) {
		l := newLab(t, only(t, groups, NameNoData)...)
		l.load("slo:valid_events:rate5m"+sloSeries("shop/up", "region", "a").String(), 0, h, step, constant(1))
		l.load("slo:valid_events:increase5m"+sloSeries("shop/up", "region", "a").String(), 0, h, 5*m, constant(300))
		edges := l.run(0, 2*h, step, byName)[NameNoData]
		require.Len(t, edges, 1)
		require.InDelta(t, (h + 15*m).Minutes(), edges[0].Minutes(), 1,
			"five minutes until samples are stale, ten to be sure")
	})
	t.Run("one group is silent, the other is not", func(t *testing.T) {
		l := newLab(t, only(t, groups, NameNoData)...)
		for region, v := range map[string]float64{"a": 0, "b": 300} {
			l.load("slo:valid_events:rate5m"+sloSeries("shop/up", "region", region).String(), 0, 26*h, 5*m, constant(v/300))
			l.load("slo:valid_events:increase5m"+sloSeries("shop/up", "region", region).String(), 0, 26*h, 5*m, constant(v))
		}
		require.Empty(t, l.run(25*h, 26*h, 5*m, byName))
	})
	t.Run("nothing for a day", func(t *testing.T) {
		l := newLab(t, only(t, groups, NameNoData)...)
		sel := sloSeries("shop/up", "region", "a").String()
		l.load("slo:valid_events:rate5m"+sel, 0, 30*h, 5*m, level(1, 0, 2*h))
		l.load("slo:valid_events:increase5m"+sel, 0, 30*h, 5*m, level(300, 0, 2*h))
		l.loadObserved(sloSeries("shop/up"), 0, 30*h, 5*m, constant(1))
		edges := l.run(0, 30*h, 5*m, byName)[NameNoData]
		require.Len(t, edges, 1)
		require.InDelta(t, (26*h + 10*m).Minutes(), edges[0].Minutes(), 10)
		require.Contains(t, l.firing()[0].Annotations.Get("description"), "No events within 1d")
	})
	t.Run("nothing yet, on a fresh engine", func(t *testing.T) {
		l := newLab(t, only(t, groups, NameNoData)...)
		sel := sloSeries("shop/up", "region", "a").String()
		l.load("slo:valid_events:rate5m"+sel, 0, 30*h, 5*m, constant(0))
		l.load("slo:valid_events:increase5m"+sel, 0, 30*h, 5*m, constant(0))
		l.loadObserved(sloSeries("shop/up"), 0, 30*h, 5*m, func(at time.Duration) (float64, bool) {
			return min(1, float64(at)/float64(24*h)), true
		})
		edges := l.run(0, 30*h, 5*m, byName)[NameNoData]
		require.Len(t, edges, 1)
		require.InDelta(t, (21*h + 46*m).Minutes(), edges[0].Minutes(), 10)
	})
}

// A budget is spent when it would be with the rest of the window good.
func TestExhaustedNeedsObservation(t *testing.T) {
	const m = time.Minute
	groups := Rules(rules.Spec{SLOs: []*slo.SLO{simple(t, "shop/up", "99.9")}}, Options{NoEngine: true})
	for _, c := range []struct {
		name             string
		left             curve
		period, recently curve
		edges            []time.Duration
	}{
		{"twice the budget of less than half of the period", constant(-1), constant(0.49), constant(1), nil},
		{"of half of it", constant(-1), constant(0.5), constant(1), []time.Duration{10 * m}},
		{"what fires goes on by what is observed", constant(-1), level(1, 0.1, 30*m), constant(1), []time.Duration{10 * m}},
		{"and is over by it", level(-1, 0.1, 30*m), level(1, 0.1, 20*m), constant(1), []time.Duration{10 * m, 30 * m}},
		{"but not while nobody looks", level(-1, 0.1, 30*m), constant(1), func(at time.Duration) (float64, bool) {
			return map[bool]float64{true: 0.8, false: 1}[at >= 30*m && at < 40*m], true
		}, []time.Duration{10 * m, 40 * m}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, only(t, groups, NameBudgetExhausted)...)
			sel := sloSeries("shop/up").String()
			l.load("slo:period_error_budget_remaining:ratio"+sel, 0, 60*m, step, c.left)
			l.load("slo:observed:ratio30d"+sel, 0, 60*m, step, c.period)
			l.load("slo:observed:ratio5m"+sel, 0, 60*m, step, c.recently)
			got := l.run(0, 60*m, step, byName)[NameBudgetExhausted]
			require.Len(t, got, len(c.edges))
			for i := range c.edges { // the remaining budget is looked back for
				require.InDelta(t, c.edges[i].Minutes(), got[i].Minutes(), 1)
			}
		})
	}
}

// Every alert on the engine fires on what it is about, and its texts expand.
func TestEngineAlerts(t *testing.T) {
	const m = time.Minute
	type input struct {
		metric string
		f      curve
	}
	grow := func(perSecond float64) curve {
		return func(at time.Duration) (float64, bool) { return perSecond * at.Seconds(), true }
	}
	for name, in := range map[string][]input{
		"IngestUnavailable": {
			{`sloengine_ingest_unavailable_total{reason="disk_full",job="e",instance="a"}`, grow(1)}},
		"IngestRejectingEvents": {{`sloengine_ingest_events_total{result="rejected",instance="a"}`, grow(1)},
			{`sloengine_ingest_events_total{result="accepted",instance="a"}`, grow(9)}},
		"EngineNotReady":        {{`sloengine_ingest_ready{instance="a"}`, constant(0)}},
		"IngestDiskLow":         {{`sloengine_ingest_disk_free_bytes{instance="a"}`, constant(5e8)}},
		"IngestDiskFilling":     {{`sloengine_ingest_disk_free_bytes{instance="a"}`, grow(-1e6)}},
		"WriteAheadLogPoisoned": {{`sloengine_wal_poisoned{instance="a"}`, constant(1)}},
		"FoldLagging":           {{`sloengine_fold_lag_records{instance="a"}`, constant(2e5)}},
		"GroupsFull":            {{`sloengine_fold_full_slos{instance="a"}`, constant(1)}},
		"WorkNotTracked":        {{`sloengine_fold_untracked_starts_total{instance="a"}`, grow(0.01)}},
		"EvaluatorLate": {{`sloengine_evaluate_ticks_total{instance="a"}`, grow(0.1)},
			{`sloengine_evaluate_late_total{instance="a"}`, grow(0.09)}},
		"EvaluatorStopped": {{`sloengine_evaluate_ticks_total{instance="a"}`, constant(7)}},
		"BreakerOpen":      {{`sloengine_breaker_state{breaker="kafka",instance="a"}`, constant(2)}},
		"DeadLettersTooMany": {{`sloengine_dlq_entries{origin="sink",instance="a"}`, constant(6000)},
			{`sloengine_dlq_entries{origin="fold",instance="a"}`, constant(6000)}},
		"DeadLettersGrowing": {{`sloengine_dlq_entries{origin="sink",instance="a"}`, grow(0.2)}},
		"DeadLettersFromRateLimit": {
			{`sloengine_dlq_saved_total{origin="admission",reason="rate_limited",instance="a"}`, grow(60)}},
		"LateSpansRefused": {
			{`sloengine_dlq_saved_total{origin="admission",reason="id_forgotten",instance="a"}`, grow(1)}},
		"RetryRateHigh": {
			{`sloengine_retry_attempted_items_total{target="kafka",instance="a"}`, grow(120)}},
		"RateLimitHit":      {{`sloengine_ratelimit_hits_total{layer="global",instance="a"}`, grow(11)}},
		"RateLimitDropping": {{`sloengine_ratelimit_dropped_total{type="order",instance="a"}`, grow(101)}},
		"RateLimitTypeFlood": {
			{`sloengine_ratelimit_hits_total{layer="type",type="order",instance="a"}`, grow(1)}},
		"RateLimitCallerFlood": {{`sloengine_ratelimit_hits_total{layer="context",instance="a"}`, grow(2)}},
		"RateLimitUtilisationHigh": {{`sloengine_ratelimit_current{layer="global",instance="a"}`, constant(85)},
			{`sloengine_ratelimit_threshold{layer="global",instance="a"}`, constant(100)}},
		"RateLimitUtilisationCritical": {{`sloengine_ratelimit_current{layer="global",instance="a"}`, constant(96)},
			{`sloengine_ratelimit_threshold{layer="global",instance="a"}`, constant(100)}},
		"CriticalEventsRateLimited": {{`sloengine_ratelimit_critical_total{type="order",instance="a"}`, grow(0.1)}},
		"RedisFallbackActive":       {{`sloengine_ratelimit_fallback{instance="a"}`, constant(1)}},
		"ClientFailingSilently": {
			{`sloengine_client_failures_total{context="job",reason="refused",instance="a"}`, grow(11)}},
		"ClientSpoolNearlyFull": {{`sloengine_client_spool_bytes{instance="a"}`, constant(90)},
			{`sloengine_client_spool_limit_bytes{instance="a"}`, constant(100)}},
		"ClientBreakerBlocking": {
			{`sloengine_client_failures_total{context="job",reason="breaker_open",instance="a"}`, grow(6)}},
		"SinkFailing": {
			{`sloengine_sink_failing{sink="hook",what="delivery",instance="a"}`, constant(1)}},
		"SinkRateLimited":      {{`sloengine_sink_rate_limited_total{sink="hook",instance="a"}`, grow(0.1)}},
		"RemoteWriteFailing":   {{`sloengine_remote_write_lag_seconds{target="mimir",instance="a"}`, constant(400)}},
		"NotificationsFailing": {{`sloengine_notify_failing{target="am:9093",instance="a"}`, constant(1)}},
		"ReportsFailing": {{`sloengine_reports_failing{report="monthly",instance="a"}`, constant(2)},
			{`sloengine_reports_pending{report="monthly",instance="a"}`, constant(2)}},
		"SourceFailing": {
			{`sloengine_source_trouble{source="orders",kind="connection",instance="a"}`, constant(1)}},
		"SourceSaturated": {
			{`sloengine_kafka_source_lag_messages{source="orders",topic="t",partition="3",instance="a"}`, constant(20000)},
			{`sloengine_source_busy_seconds_total{source="orders",instance="a"}`, grow(0.9)}},
		"RabbitMQDeadLetterRateHigh": {
			{`sloengine_rabbitmq_dead_letters_handled_total{source="workers",instance="a"}`, grow(0.2)}},
		"RabbitMQDeadLetterQueueDeep": {
			{`sloengine_rabbitmq_dead_letter_depth{source="workers",instance="a"}`, constant(101)}},
		"RabbitMQDeadLetterHandlerStopped": {{`sloengine_rabbitmq_dead_letter_depth{source="workers",instance="a"}`,
			constant(1)}, {`sloengine_rabbitmq_dead_letters_handled_total{source="workers",instance="a"}`, constant(7)}},
		"RabbitMQDeadLettersOverdue": {
			{`sloengine_rabbitmq_dead_letters_overdue_seconds{source="workers",queue="w",instance="a"}`, constant(120)}},
		"RabbitMQTopologyDiffers": {
			{`sloengine_rabbitmq_topology_problems{source="workers",instance="a"}`, constant(1)}},
		"RabbitMQDeadLetterShareHigh": {
			{`sloengine_rabbitmq_dead_letters_total{source="workers",outcome="failure",type="job",instance="a"}`, grow(0.6)},
			{`sloengine_fold_events_total{instance="a"}`, grow(10)}},
		"TokenExpiring": {
			{`sloengine_token_expiry_seconds{token="shop",key="1a2b3c4d",job="e",instance="a"}`, constant(0)},
			{`sloengine_token_last_used_seconds{token="shop",key="1a2b3c4d",job="e",instance="a"}`, constant(60)}},
		"SinkLagging": {{`sloengine_sink_lag_seconds{sink="kafka",instance="a"}`, constant(400)}},
		"SinkOverflowing": {{`sloengine_sink_lag_bytes{sink="kafka",instance="a"}`, constant(90)},
			{`sloengine_sink_max_lag_bytes{sink="kafka",instance="a"}`, constant(100)}},
		"OutboxRelayNotReady": {{`sloengine_outbox_ready{part="broker",job="a",instance="r"}`, constant(0)},
			{`sloengine_outbox_ready{part="database",job="a",instance="r"}`, constant(1)}},
		"OutboxStuck": {{`sloengine_outbox_pending_rows{job="a",instance="r"}`, constant(1001)},
			{`sloengine_outbox_pending_rows{job="a",instance="s"}`, constant(7)}},
		"OutboxFailing": {
			{`sloengine_outbox_failed_total{topic="orders",event_type="created",job="a",instance="r"}`, grow(0.06)},
			{`sloengine_outbox_failed_total{topic="orders",event_type="paid",job="a",instance="s"}`, grow(0.05)}},
		"OutboxLagging": {{`sloengine_outbox_latency_seconds_bucket{le="300",job="a",instance="r"}`,
			grow(9)}, {`sloengine_outbox_latency_seconds_bucket{le="600",job="a",instance="r"}`, grow(10)},
			{`sloengine_outbox_latency_seconds_bucket{le="+Inf",job="a",instance="r"}`, grow(10)}},
	} {
		t.Run(name, func(t *testing.T) {
			groups := Rules(rules.Spec{}, Options{})
			l := newLab(t, only(t, groups, name)...)
			for _, x := range in {
				l.load(x.metric, 0, 80*m, step, x.f)
			}
			l.run(60*m, 80*m, step, byName)
			var names []string
			for _, a := range l.firing() {
				names = append(names, a.Labels.Get("alertname"))
				require.Contains(t, a.Annotations.Get("summary"), "a")
			}
			require.Contains(t, names, name)
		})
	}
	var known []string
	for _, a := range engineAlerts(EngineThresholds{}.WithDefaults()) {
		known = append(known, a.Alert)
	}
	require.Len(t, known, 48, "every alert on the engine is tried above")
}

// What a counter has at its first sample counts, unless the counter is only new to Prometheus.
func TestABurstBeforeTheFirstScrape(t *testing.T) {
	const m = time.Minute
	groups := Rules(rules.Spec{}, Options{})
	for name, c := range map[string]struct{ began, scraped, counter time.Duration }{
		"the engine starts":             {began: 20*m - 10*time.Second, scraped: 20 * m, counter: 20 * m},
		"the counter is born later":     {began: 0, scraped: 10 * m, counter: 20 * m},
		"Prometheus is new, the engine": {began: 0, scraped: 20 * m, counter: 20 * m},
	} {
		l := newLab(t, only(t, groups, "RabbitMQDeadLetterRateHigh")...)
		l.load(`process_start_time_seconds{job="e",instance="a"}`, c.scraped, 40*m, step, constant(c.began.Seconds()))
		l.load(`sloengine_rabbitmq_dead_letters_handled_total{source="workers",job="e",instance="a"}`, c.counter,
			40*m, step, constant(130))
		fired := l.run(18*m, 40*m, step, byName)
		if c.scraped == c.counter && c.began == 0 {
			require.Empty(t, fired, name)
			continue
		}
		require.Equal(t, map[string][]time.Duration{"RabbitMQDeadLetterRateHigh": {21 * m, 25 * m}}, fired, name)
	}
}

// A disk that fills is predicted from a trend, and the first samples of an engine are none.
func TestDiskFillingNeedsHistory(t *testing.T) {
	const m = time.Minute
	groups := Rules(rules.Spec{}, Options{})
	l := newLab(t, only(t, groups, "IngestDiskFilling")...)
	l.load(`sloengine_ingest_disk_free_bytes{instance="a"}`, 10*m, 80*m, step, func(at time.Duration) (float64, bool) {
		return 1e9 - 1e6*at.Seconds(), true
	})
	active := func(at time.Duration) int {
		l.run(at, at, step, byName)
		n := 0
		for _, r := range l.rules {
			n += len(r.ActiveAlerts())
		}
		return n
	}
	require.Zero(t, active(12*m), "two minutes are no trend")
	require.Zero(t, active(24*m))
	require.Equal(t, 1, active(26*m))
	require.Equal(t, map[string][]time.Duration{"IngestDiskFilling": {41 * m}}, l.run(27*m, 80*m, step, byName))
}

// A relay that publishes nothing has no latency, and the age of what waits says it.
func TestOutboxLaggingWithoutAnythingSent(t *testing.T) {
	const m = time.Minute
	groups := Rules(rules.Spec{}, Options{})
	l := newLab(t, only(t, groups, "OutboxLagging")...)
	l.load(`sloengine_outbox_oldest_pending_seconds{job="a",instance="r"}`, 0, 60*m, step,
		func(at time.Duration) (float64, bool) {
			return at.Seconds(), true
		})
	require.Equal(t, map[string][]time.Duration{"OutboxLagging": {10*m + step}}, l.run(0, 60*m, step, byName),
		"5m until it is too old, and 5m of waiting")
	require.Contains(t, l.firing()[0].Annotations.Get("description"), "published 1h")
}

func TestEngineAlertsAreQuietWhenAllIsWell(t *testing.T) {
	const m = time.Minute
	groups := Rules(rules.Spec{}, Options{})
	l := newLab(t, groups...)
	loaded := map[string]bool{}
	for _, r := range groups[len(groups)-1].Rules {
		for _, name := range regexp.MustCompile(`sloengine_\w+`).FindAllString(r.Expr, -1) {
			if loaded[name] {
				continue
			}
			loaded[name] = true
			f := constant(0)
			switch metric.Lookup(name) {
			case metric.IngestReady, metric.OutboxReady:
				f = constant(1)
			case metric.IngestDiskFreeBytes, metric.TokenExpirySeconds:
				f = constant(1e12)
			case metric.EvaluateTicks:
				f = func(at time.Duration) (float64, bool) { return at.Seconds() / 10, true }
			case metric.RateLimitThreshold, metric.ClientSpoolLimitBytes, metric.SinkMaxLagBytes:
				f = constant(100)
			}
			l.load(name+`{instance="a",job="e"}`, 0, 60*m, step, f)
		}
	}
	require.Greater(t, len(loaded), 20)
	got := l.run(30*m, 60*m, step, byName)
	require.Contains(t, got, NameWatchdog, "it always fires")
	require.Len(t, got, 1)
}
