package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// drive steps a machine through a stream and returns all transitions as text.
func drive(m *Machine, from time.Time, n int, every time.Duration, report func(now time.Time) *sla.Report) []string {
	var out []string
	for i := range n {
		now := from.Add(time.Duration(i) * every)
		for _, tr := range m.Step(report(now)) {
			out = append(out, fmt.Sprintf("%s %s: %s to %s", now.Sub(from), names([]Alert{tr.Alert})[0], tr.From, tr.To))
		}
	}
	return out
}

func TestLife(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9", "product")
	s.Alerting.Page.For = time.Minute
	s.Alerting.Page.Labels = map[string]string{"severity": "critical", "team": "a"}
	s.Alerting.Ticket.Disabled = true
	at := start.Add(40 * day)
	traffic := stream{rate: 100, from: start, incidents: []incident{{at.Add(time.Minute), at.Add(3 * time.Minute), 1}}}
	m := newMachine(t)
	rep := func(now time.Time) *sla.Report {
		return &sla.Report{Time: now, SLOs: []sla.SLOReport{traffic.report(s, slo.Group{"MED"}, now),
			traffic.report(s, slo.Group{slo.OtherGroup}, now)}}
	}
	got := drive(m, at, 80, 10*time.Second, rep)
	require.Equal(t, []string{
		"2m0s ErrorBudgetBurnPage/page-1h pending: inactive to pending",
		"3m0s ErrorBudgetBurnPage/page-1h firing: pending to firing",
		"8m0s ErrorBudgetBurnPage/page-1h resolved: firing to resolved",
	}, got, "the group of all others never alerts")
	v := m.View()
	require.Empty(t, v.Active)
	require.Len(t, v.Resolved, 1)
	a := v.Resolved[0]
	require.Equal(t, []Label{
		{"alertname", "ErrorBudgetBurnPage"}, {"product", "MED"}, {"service", "shop"}, {"severity", "critical"},
		{"slo", "availability"},
		{"slo_id", "shop/availability"}, {"slo_impact", "high"}, {"slo_kind", "error_rate"},
		{"slo_long", "1h"}, {"slo_short", "5m"},
		{"slo_tier", "page-1h"}, {"team", "a"},
	}, a.Labels)
	require.Len(t, a.Fingerprint, 16)
	require.Equal(t, "critical", a.Severity)
	require.Equal(t, at.Add(2*time.Minute), a.ActiveSince)
	require.Equal(t, at.Add(3*time.Minute), a.FiredAt)
	require.Equal(t, at.Add(8*time.Minute), a.ResolvedAt)
	require.Equal(t, at.Add(time.Minute), a.FirstBad, "the last report without a burn")
	require.Equal(t, 2*time.Minute, a.Detection())
	require.InDelta(t, 120.0/3600, a.Value, 0.001)
}

func TestGuards(t *testing.T) {
	at := start.Add(40 * day)
	for _, c := range []struct {
		name      string
		minEvents uint64
		rate      float64 // per second
		ratio     float64
		want      []string
	}{
		{"enough traffic", 0, 10, 0.02, []string{"ErrorBudgetBurnPage/page-1h firing"}},
		{"proven by few but all bad", 0, 0.01, 1, []string{"ErrorBudgetBurnPage/page-1h firing"}},
		{"too few to mean it", 0, 0.01, 0.02, nil},
		{"fewer events than asked for", 100, 0.01, 1, nil},
		{"as many events as asked for", 36, 0.01, 1, []string{"ErrorBudgetBurnPage/page-1h firing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSLO(t, "shop/availability", "99.9")
			s.Alerting.MinEvents, s.Alerting.Ticket.Disabled = c.minEvents, true
			s.Alerting.Tiers = slo.Tiers[:1]
			traffic := stream{rate: c.rate, from: start, incidents: []incident{{at.Add(-time.Hour), at.Add(day), c.ratio}}}
			m := newMachine(t)
			m.Step(&sla.Report{Time: at, SLOs: []sla.SLOReport{traffic.report(s, nil, at)}})
			var burns []Alert
			for _, a := range m.View().Active {
				if a.Label("slo_tier") != "" {
					burns = append(burns, a)
				}
			}
			if c.want == nil {
				require.Empty(t, burns)
			} else {
				require.Equal(t, c.want, names(burns))
			}
		})
	}
}

// What was not observed counts as good until the alert fires; from then on it
// proves nothing.
func TestUnobservedTime(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Ticket.Disabled = true
	s.Alerting.Tiers = slo.Tiers[:1]
	at := start.Add(40 * day)
	traffic := stream{rate: 100, from: start, incidents: []incident{{at, at.Add(10 * time.Minute), 0.1}}}
	m := newMachine(t)
	step := func(after time.Duration, change func(*sla.SLOReport)) []string {
		r := traffic.report(s, nil, at.Add(after))
		r.Budget = slo.Budget{} // not the subject here
		change(&r)
		m.Step(&sla.Report{Time: at.Add(after), SLOs: []sla.SLOReport{r}})
		return names(m.View().Active)
	}
	seen := func(upTo time.Duration, share float64) func(*sla.SLOReport) {
		return func(r *sla.SLOReport) { observe(r, upTo, share) }
	}
	firing := []string{"ErrorBudgetBurnPage/page-1h firing"}
	// 1.53 % of the hour are bad, where 1.44 % are enough.
	require.Empty(t, step(9*time.Minute+10*time.Second, seen(time.Hour, 0.94)))
	held := m.View().Held
	require.Len(t, held, 1)
	require.Equal(t, []string{"ErrorBudgetBurnPage", "page-1h", "shop/availability"},
		[]string{held[0].Name, held[0].Tier, string(held[0].SLO)})
	require.Len(t, held[0].Why, 1)
	require.Equal(t, "94 % of 1h observed, so 1.44 % of it is bad, more than 1.44 % needed", held[0].Why[0].String())
	require.Empty(t, step(9*time.Minute+20*time.Second, seen(5*time.Minute, 0.14)), "1.4 % of the short window")
	require.Contains(t, m.View().Held[0].Why[0].String(), "14 % of 5m observed")
	require.Equal(t, firing, step(9*time.Minute+30*time.Second, seen(5*time.Minute, 0.15)))
	require.Empty(t, m.View().Held)
	require.Equal(t, firing, step(9*time.Minute+40*time.Second, seen(time.Hour, 0.9)),
		"what fires goes by what was observed")
	require.Equal(t, firing, step(20*time.Minute, seen(5*time.Minute, 0.89)), "over, but nothing proves it")
	require.Empty(t, m.View().Held)
	require.Equal(t, firing, step(20*time.Minute+10*time.Second, func(r *sla.SLOReport) {
		for i := range r.Burns {
			r.Burns[i] = slo.Burn{Window: r.Burns[i].Window}
		}
	}), "no data while nobody looked")
	require.Empty(t, step(20*time.Minute+20*time.Second, func(r *sla.SLOReport) {
		observe(r, time.Hour, 0.1)
		r.Burns[0].Observed = 0.9
	}), "the short window proves it alone")
}

// A new engine sees an outage as soon as one that has watched for weeks, and takes
// no blip for one.
func TestNewEngine(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Tiers = slo.Tiers
	at := start.Add(40 * day)
	for _, c := range []struct {
		name    string
		traffic stream
		old     bool
		fires   map[string]time.Duration
	}{
		{"an outage, on an old engine", stream{rate: 100, from: start, incidents: []incident{{at, at.Add(day), 1}}}, true,
			map[string]time.Duration{"page-1h": 60, "page-6h": 130, "ticket-1d": 260, "ticket-3d": 260}},
		{"the same on a new one", stream{rate: 100, from: at, incidents: []incident{{at, at.Add(day), 1}}}, false,
			map[string]time.Duration{"page-1h": 60, "page-6h": 130, "ticket-1d": 260, "ticket-3d": 260}},
		{"every second event fails", stream{rate: 100, from: at, incidents: []incident{{at, at.Add(day), 0.5}}}, false,
			map[string]time.Duration{"page-1h": 110, "page-6h": 260, "ticket-1d": 520, "ticket-3d": 520}},
		{"a blip of ten seconds", stream{rate: 100, from: at, incidents: []incident{{at, at.Add(10 * time.Second), 1}}},
			false, map[string]time.Duration{}},
		{"a failed request a minute after the start",
			stream{rate: 0.02, from: at, incidents: []incident{{at, at.Add(50 * time.Second), 1}}}, false,
			map[string]time.Duration{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			got := map[string]time.Duration{}
			for after := time.Duration(0); after <= 10*time.Minute; after += 10 * time.Second {
				r := c.traffic.report(s, nil, at.Add(after))
				if !c.old {
					r.Burns = append([]slo.Burn(nil), r.Burns...)
					for i := range r.Burns {
						r.Burns[i].Observed = min(1, float64(after)/float64(r.Burns[i].Window))
					}
				}
				for _, tr := range m.Step(&sla.Report{Time: at.Add(after), SLOs: []sla.SLOReport{r}}) {
					if tr.To == Firing {
						got[tr.Alert.Label("slo_tier")] = after / time.Second
					}
				}
			}
			require.Equal(t, c.fires, got)
		})
	}
}

func TestExhaustedAndNoData(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9", "product")
	// not in any report
	s.Alerting.Tiers = []slo.Tier{{Page: true, Long: 20 * time.Minute, Short: 2 * time.Minute, Share: 0.02}}
	at := start.Add(40 * day)
	traffic := stream{rate: 1, from: start, incidents: []incident{{at.Add(-5 * day), at.Add(-5*day + time.Hour), 1}}}
	stops := at.Add(-23 * time.Hour)
	m := newMachine(t)
	got := drive(m, at, 130, time.Minute, func(now time.Time) *sla.Report {
		a, b := traffic.report(s, slo.Group{"A"}, now), traffic.report(s, slo.Group{"B"}, now)
		b.Budget = slo.NewBudget(s.Objective, slo.Counts{Good: 10})
		for _, r := range []*sla.SLOReport{&a, &b} {
			if quiet := now.Sub(stops); quiet >= 24*time.Hour {
				r.RawBurns = append([]slo.Burn(nil), r.RawBurns...)
				r.RawBurns[5].Counts = slo.Counts{}
			}
			r.LastEvent = stops
		}
		return &sla.Report{Time: now, SLOs: []sla.SLOReport{a, b}}
	})
	require.Equal(t, []string{
		"0s ErrorBudgetExhausted pending: inactive to pending",
		"10m0s ErrorBudgetExhausted firing: pending to firing",
		"1h0m0s SLONoData pending: inactive to pending",
		"1h10m0s SLONoData firing: pending to firing",
	}, got)
	nodata := m.View().Active[1]
	require.Equal(t, stops, nodata.FirstBad)

	// A day of a volume is judged when it is over: until then its events are its data.
	s.Indicator.Kind = slo.KindVolume
	got = drive(newMachine(t), at, 130, time.Minute, func(now time.Time) *sla.Report {
		r := traffic.report(s, slo.Group{"A"}, now)
		r.RawBurns = append([]slo.Burn(nil), r.RawBurns...)
		r.RawBurns[5].Counts = slo.Counts{}
		r.Volume, r.LastEvent, r.Budget = &sla.VolumeReport{}, stops, slo.Budget{}
		return &sla.Report{Time: now, SLOs: []sla.SLOReport{r}}
	})
	require.Equal(
		t, []string{"1h0m0s SLONoData pending: inactive to pending", "1h10m0s SLONoData firing: pending to firing"}, got)
	require.Empty(t, nodata.Label("product"), "it is about all groups")
	require.Equal(t, "A", m.View().Active[0].Label("product"))
}

func TestScores(t *testing.T) {
	a := &sla.Agreement{Service: "shop", Name: "gold", GroupBy: []string{"product"}, Window: slo.Window{Rolling: 30 * day},
		AlertWindow: time.Hour, Warning: 95, Critical: 90}
	m := newMachine(t)
	up := newSLO(t, "shop/availability", "99.9")
	up.Alerting.Page.Disabled, up.Alerting.Ticket.Disabled, up.Alerting.NoData.Disabled = true, true, true
	score, alert := 99.0, 99.0
	observed, lately := 1.0, 1.0
	rep := func(now time.Time) *sla.Report {
		c := func(score float64) []sla.ComponentReport {
			return []sla.ComponentReport{{Name: "x", SLO: up.ID, HasData: true, Weight: 0.6, Points: score / 100,
				Observed: observed}, {Name: "never seen", Weight: 0.4}}
		}
		r := sla.SLAReport{SLA: a, Group: slo.Group{"MED"}, HasData: true, Score: score, Components: c(score)}
		r.Alert = &sla.SLAReport{SLA: a, Group: r.Group, HasData: true, Score: alert, Components: c(alert),
			Period: slo.Span{From: now.Add(-time.Hour), To: now}}
		return &sla.Report{Time: now, SLAs: []sla.SLAReport{r},
			SLOs: []sla.SLOReport{{SLO: up, Burns: []slo.Burn{{Window: 5 * time.Minute, Observed: lately}}}}}
	}
	now := start
	run := func(d time.Duration) []string {
		var out []string
		for end := now.Add(d); now.Before(end); now = now.Add(10 * time.Second) {
			for _, tr := range m.Step(rep(now)) {
				out = append(out, names([]Alert{tr.Alert})[0])
			}
		}
		return out
	}
	score = 80
	require.Empty(t, run(10*time.Minute), "the alert window counts")
	alert = 95
	require.Empty(t, run(10*time.Minute), "at the threshold is not below it")
	alert, observed = 94, 0.5
	require.Empty(t, run(10*time.Minute), "97 if the other half of the hour was good")
	require.Equal(t, "50 % of 1h observed, so the score over all of it is 97, below 95 needed",
		m.View().Held[0].Why[0].String())
	observed = 0.9
	require.Equal(t, []string{"CompositeSLAWarning pending", "CompositeSLAWarning firing"}, run(10*time.Minute))
	observed = 0.5
	require.Empty(t, run(10*time.Minute), "what fires goes by what was observed")
	observed = 1
	alert = 89
	require.Equal(t, []string{"CompositeSLACritical pending", "CompositeSLACritical firing"}, run(10*time.Minute))
	crit := m.View().Active[1]
	require.Equal(t, "gold", crit.Agreement)
	require.Equal(t, "gold", crit.Label(series.LabelAgreement))
	require.Equal(t, "MED", crit.Label("product"))
	require.Equal(t, "ticket", crit.Severity)
	require.False(t, crit.Urgent)
	require.Equal(t, 89.0, crit.Value)
	lately, alert = 0.5, 100
	require.Empty(t, run(10*time.Minute))
	lately = 1
	require.Equal(t, []string{"CompositeSLAWarning resolved", "CompositeSLACritical resolved"}, run(10*time.Minute))
}

func TestCatalogue(t *testing.T) {
	at := start.Add(40 * day)
	up := newSLO(t, "shop/availability", "99.9")
	lat := newSLO(t, "shop/latency", "95")
	lat.Indicator = slo.Indicator{Kind: slo.KindLatency, Threshold: time.Minute}
	up.Alerting.Page.Disabled, up.Alerting.Ticket.Disabled = true, true
	lat.Alerting = up.Alerting
	limit := &slo.Threshold{Service: "shop", Name: "processing", Critical: 2 * time.Minute}
	a := &sla.Agreement{Service: "shop", Name: "gold", Window: slo.Window{Rolling: 30 * day}, Components: []sla.Component{
		{Name: "availability", SLO: up.ID, Weight: 1}, {Name: "latency", SLO: lat.ID, Weight: 1},
	}}
	for _, e := range alerts.Catalogue() {
		a.Catalogue = append(a.Catalogue, sla.CatalogueAlert{Name: e.Name})
	}
	bad := stream{rate: 10, from: start, incidents: []incident{{at, at.Add(10 * time.Minute), 0.08}}}
	m := newMachine(t)
	var critical uint64
	fired := map[string]time.Duration{}
	for now := at.Add(-10 * time.Minute); now.Before(at.Add(2 * time.Hour)); now = now.Add(10 * time.Second) {
		if now.After(at) && !now.After(at.Add(10*time.Minute)) {
			critical += 8 // of 100
		}
		u, l := bad.report(up, nil, now), bad.report(lat, nil, now)
		u.Budget, l.Budget = slo.Budget{}, slo.Budget{}
		for _, tr := range m.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{u, l}, SLAs: []sla.SLAReport{{SLA: a}},
			Thresholds: []sla.ThresholdReport{{Threshold: limit, Total: sla.Violations{Critical: critical}}}}) {
			if tr.To == Firing {
				fired[tr.Alert.Name] = now.Sub(at)
			}
		}
	}
	require.Equal(t, map[string]time.Duration{
		// 0.1 % are reached after 5 s, 0.5 % after 25 s; of an hour after 60 s.
		"ErrorRateSLAViolation": 0, "ErrorRateSLACriticalViolation": 0,
		"AvailabilitySLAViolation": 6*time.Minute + 20*time.Second,
		// 5 % are reached after 190 s, and 195 of 3,000 events, which is more than chance makes of 150, after 250 s.
		"LatencySLAViolation":         6*time.Minute + 10*time.Second,
		"LatencySLACriticalViolation": 5*time.Minute + 10*time.Second,
		// Two minutes after the alert is over at 12m, and five after the hour.
		"LatencySLARecovered": 14 * time.Minute, "ErrorRateSLARecovered": 0,
		"AvailabilitySLARecovered": 74*time.Minute + 20*time.Second,
	}, onlyKnown(fired))
	require.Empty(t, m.View().Active)
}

// TestLimitByGroup: where the event threshold tells the groups of the SLO apart, the alert is in the group that
// suffers.
func TestLimitByGroup(t *testing.T) {
	at := start.Add(40 * day)
	lat := newSLO(t, "shop/latency", "95", "product")
	lat.Indicator, lat.MaxGroups = slo.Indicator{Kind: slo.KindLatency, Threshold: time.Minute}, 10
	lat.Alerting.Page.Disabled, lat.Alerting.Ticket.Disabled = true, true
	limit := &slo.Threshold{Service: "shop", Name: "processing", Critical: 2 * time.Minute,
		GroupBy: []string{"channel", "product"}, MaxGroups: 10}
	a := &sla.Agreement{Service: "shop", Name: "gold", Window: slo.Window{Rolling: 30 * day},
		Components: []sla.Component{{Name: "latency", SLO: lat.ID, Weight: 1}},
		Catalogue:  []sla.CatalogueAlert{{Name: sla.CatalogueLatencyCritical}}}
	good := stream{rate: 10, from: start}
	m := newMachine(t)
	critical := map[string]uint64{}
	var got []string
	step := func(now time.Time) {
		r := &sla.Report{Time: now, SLAs: []sla.SLAReport{{SLA: a}}, Thresholds: []sla.ThresholdReport{{Threshold: limit}}}
		l := &r.Thresholds[0]
		for _, product := range []string{"MED", "TRV", "NEW", slo.OtherGroup} {
			g := good.report(lat, slo.Group{product}, now)
			g.Informative = product == slo.OtherGroup
			r.SLOs = append(r.SLOs, g)
			for _, channel := range []string{"back", "front"} {
				n, ok := critical[channel+product]
				if !ok {
					continue
				}
				l.Groups = append(
					l.Groups, sla.ThresholdGroup{Group: slo.Group{channel, product}, Total: sla.Violations{Critical: n}})
				l.Total.Critical += n
			}
		}
		for _, tr := range m.Step(r) {
			got = append(got, fmt.Sprint(tr.Alert.Group, " ", tr.Alert.Label("product"), " ", tr.To, " ", now.Sub(at)))
		}
	}
	critical["frontMED"], critical["backMED"], critical["frontTRV"] = 1_000_000, 1_000_000, 1_000_000
	for i := range 180 { // half an hour
		now := at.Add(time.Duration(i) * 10 * time.Second)
		if i > 60 && i <= 120 { // 100 events in ten seconds: 4 and 4 of MED, 4 of TRV
			critical["frontMED"] += 4
			critical["backMED"] += 4
			critical["frontTRV"] += 4
			critical["frontNEW"] += 8 // which no report had before
		}
		step(now)
	}
	// 8 % instead of 5 % are no chance after 250 s, and fire after the minute of waiting. They end when 195 of 3,000 are
	// left.
	require.Equal(t, []string{
		"[MED] MED pending 14m10s", "[NEW] NEW pending 14m10s", "[MED] MED firing 15m10s", "[NEW] NEW firing 15m10s",
		"[MED] MED resolved 21m0s", "[NEW] NEW resolved 21m0s",
	}, got)
	require.Len(t, m.breaches, 1)

	// A group that disappears is forgotten, and what begins again is no breach.
	got = nil
	delete(critical, "frontNEW")
	critical["frontMED"], critical["backMED"] = 0, 500
	for i := 180; i < 240; i++ {
		step(at.Add(time.Duration(i) * 10 * time.Second))
	}
	require.Empty(t, got)
	for _, c := range m.breaches {
		require.Len(t, c.groups, 2)
	}
}

// onlyKnown leaves out the alerts whose time depends on rounding.
func onlyKnown(fired map[string]time.Duration) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, d := range fired {
		if strings.HasPrefix(name, "ErrorRate") {
			d = 0
		}
		out[name] = d
	}
	return out
}

func TestSilentSender(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Page.Disabled, s.Alerting.Ticket.Disabled = true, true
	m := newMachine(t)
	var total uint64
	var got []string
	run := func(from, to time.Time, perStep uint64) {
		for now := from; now.Before(to); now = now.Add(time.Minute) {
			total += perStep
			for _, tr := range m.Step(&sla.Report{Time: now,
				SLOs: []sla.SLOReport{{SLO: s, LastEvent: now, RawBurns: rawBurns(1)}},
				Traffic: []sla.TrafficReport{{Service: "shop", Type: "order", Outcome: "success", Count: total},
					{Service: "shop", Type: "order", Outcome: "failure", Count: 1}},
			}) {
				got = append(got, fmt.Sprintf("%s %s %s", now.Sub(start), tr.Alert.Label("type"), names([]Alert{tr.Alert})[0]))
			}
		}
	}
	day1 := start.Add(day)
	run(start, start.Add(8*time.Hour), 0)                   // quiet nights
	run(start.Add(8*time.Hour), start.Add(20*time.Hour), 2) // and busy days
	run(start.Add(20*time.Hour), day1.Add(8*time.Hour), 0)
	run(day1.Add(8*time.Hour), day1.Add(12*time.Hour), 2)
	require.Empty(t, got, "the night was as quiet as the one before")
	run(day1.Add(12*time.Hour), day1.Add(14*time.Hour), 0)
	run(day1.Add(14*time.Hour), day1.Add(15*time.Hour), 2)
	require.Equal(t, []string{
		"36h29m0s order SenderSilent pending", "36h44m0s order SenderSilent firing", "38h0m0s order SenderSilent resolved",
	}, got)
	require.Equal(t, day1.Add(12*time.Hour-time.Minute), m.View().Resolved[0].FirstBad)
	require.Equal(t, 60.0, m.View().Resolved[0].Value, "events of the same half hour")
}

func rawBurns(valid uint64) []slo.Burn {
	var out []slo.Burn
	for _, w := range slo.BurnWindows {
		out = append(out, slo.Burn{Window: w, Counts: slo.Counts{Good: valid}, HasData: valid > 0, Observed: 1})
	}
	return out
}

func TestSpecChangesAndGroupsThatLeave(t *testing.T) {
	at := start.Add(40 * day)
	traffic := stream{rate: 100, from: start, incidents: []incident{{at.Add(-time.Hour), at.Add(day), 0.5}}}
	s := newSLO(t, "shop/availability", "99.9", "product")
	s.Alerting.Tiers, s.Alerting.Ticket.Disabled = slo.Tiers[:2], true
	m := newMachine(t)
	now := at
	step := func(s *slo.SLO, groups ...string) []string {
		now = now.Add(10 * time.Second)
		rep := &sla.Report{Time: now}
		for _, g := range groups {
			r := traffic.report(s, slo.Group{g}, now)
			r.Budget = slo.Budget{}
			rep.SLOs = append(rep.SLOs, r)
		}
		var out []string
		for _, tr := range m.Step(rep) {
			out = append(out, tr.Alert.Label("product")+" "+names([]Alert{tr.Alert})[0])
		}
		return out
	}
	both := func(g string) []string {
		return []string{
			g + " ErrorBudgetBurnPage/page-1h pending", g + " ErrorBudgetBurnPage/page-1h firing",
			g + " ErrorBudgetBurnPage/page-6h pending", g + " ErrorBudgetBurnPage/page-6h firing",
		}
	}
	require.Equal(t, both("B"), step(s, "B"))
	require.Equal(t, both("A"), step(s, "A", "B"), "a group before the others moves no alert")
	require.Empty(t, step(s, "A", "B"))
	require.Equal(
		t, []string{"A ErrorBudgetBurnPage/page-1h resolved", "A ErrorBudgetBurnPage/page-6h resolved"}, step(s, "B"))
	require.True(t, m.View().Resolved[0].Removed)

	changed := *s
	changed.Alerting.Tiers = slo.Tiers[1:2]
	changed.Alerting.Page.Labels = map[string]string{"team": "x"}
	before := m.View().Active[1]
	require.Equal(t, []string{"B ErrorBudgetBurnPage/page-1h resolved"}, step(&changed, "B"),
		"the tier is gone from the spec")
	after := m.View().Active
	require.Equal(t, []string{"ErrorBudgetBurnPage/page-6h firing"}, names(after), "the other goes on")
	require.Equal(t, before.FiredAt, after[0].FiredAt)
	require.Equal(t, "x", after[0].Label("team"), "with its new labels")
	require.NotEqual(t, before.Fingerprint, after[0].Fingerprint)

	require.Equal(t, []string{"B ErrorBudgetBurnPage/page-6h resolved"}, step(&changed))
	require.Empty(t, m.View().Active)
	require.Zero(t, m.active)
}

func TestOwnTiers(t *testing.T) {
	at := start.Add(40 * day)
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Tiers = []slo.Tier{{Page: true, Long: 15 * time.Minute, Short: 2 * time.Minute, Share: 0.01}}
	traffic := stream{rate: 100, from: start, incidents: []incident{{at.Add(-time.Hour), at.Add(day), 0.5}}}
	r := traffic.report(s, nil, at)
	r.Budget = slo.Budget{}
	for _, w := range []time.Duration{2 * time.Minute, 15 * time.Minute} {
		b := slo.NewBurn(w, slo.NewBudget(s.Objective, traffic.counts(at.Add(-w), at)))
		b.Observed = 1
		r.TierBurns = append(r.TierBurns, b)
	}
	m := newMachine(t)
	m.Step(&sla.Report{Time: at, SLOs: []sla.SLOReport{r}})
	require.Equal(t, []string{"ErrorBudgetBurnPage/page-15m firing"}, names(m.View().Active))
	require.Equal(t, at.Add(-time.Hour), m.View().Active[0].FirstBad,
		"the first report shows that it has burnt for an hour")
}

func TestReportsOutOfOrder(t *testing.T) {
	m := newMachine(t)
	require.Nil(t, m.Step(nil))
	m.Step(&sla.Report{Time: start})
	m.Step(&sla.Report{Time: start.Add(-time.Minute)})
	require.Equal(t, start, m.View().Time, "an older report is ignored")
	m.Step(&sla.Report{Time: start.Add(-time.Hour)})
	require.Equal(t, start.Add(-time.Hour), m.View().Time, "the clock was set back")
}

func TestResolvedAreBounded(t *testing.T) {
	at := start.Add(40 * day)
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Tiers = slo.Tiers[:1]
	m := newMachine(t, func(o *Options) { o.MaxResolved = 3; o.KeepResolved = time.Hour })
	hot, cold := stream{rate: 100, from: start, incidents: []incident{{start, at.Add(90 * day), 0.5}}},
		stream{rate: 100, from: start}
	for i := range 20 {
		now := at.Add(time.Duration(i) * 5 * time.Minute)
		tr := hot
		if i%2 == 1 {
			tr = cold
		}
		r := tr.report(s, nil, now)
		r.Budget = slo.Budget{}
		m.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{r}})
		require.LessOrEqual(t, len(m.View().Resolved), 3)
	}
	require.Len(t, m.View().Resolved, 3)
	last := m.View().Resolved[2].ResolvedAt
	m.Step(&sla.Report{Time: last.Add(time.Hour), SLOs: []sla.SLOReport{cold.report(s, nil, last.Add(time.Hour))}})
	require.Empty(t, m.View().Resolved)
}

func TestMetrics(t *testing.T) {
	set := metrics.NewSet()
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Ticket.Disabled = true
	at := start.Add(40 * day)
	traffic := stream{rate: 100, from: start, incidents: []incident{{at.Add(time.Minute), at.Add(5 * time.Minute), 1}}}
	m := newMachine(t, func(o *Options) { o.Metrics = NewMetrics(set) })
	drive(m, at, 18, 10*time.Second, func(now time.Time) *sla.Report {
		return &sla.Report{Time: now, SLOs: []sla.SLOReport{traffic.report(s, nil, now)}}
	})
	var b bytes.Buffer
	set.WritePrometheus(&b)
	for _, want := range []string{
		`sloengine_alert_transitions_total{to="firing"} 1`, `sloengine_alert_transitions_total{to="pending"} 1`,
		`sloengine_alerts{state="firing"} 1`, `sloengine_alerts{state="pending"} 0`,
		`sloengine_alert_detection_seconds_bucket{le="60"} 1`,
	} {
		require.Contains(t, b.String(), want+"\n")
	}
	_, err := New(Options{Grace: -1})
	require.Error(t, err)
}

// TestBreachesOfALimitThatIsNew: those that were seen count, and are not taken for all of the window.
func TestBreachesOfALimitThatIsNew(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	seen := &breachCount{samples: []breachSample{{now.Add(-2 * time.Minute), 10}, {now, 17}}}
	b := breaches{"limit": {since: now.Add(-2 * time.Minute), groups: map[string]*breachCount{"": seen}}}
	for window, whole := range map[time.Duration]bool{5 * time.Minute: false, 2 * time.Minute: true} {
		n, all := b.recent(limitBy{key: "limit"}, nil, now, window)
		require.EqualValues(t, 7, n)
		require.Equal(t, whole, all, window)
	}
}

// TestHalfHourThatWasNotWatched: what came in the half hour before is known if both slots that it touches were watched.
func TestHalfHourThatWasNotWatched(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s := &sender{slot: slotOf(now), known: 5}
	for back, known := range map[int]bool{0: false, 1: true, 4: true, 5: false} {
		_, ok := s.before(now, time.Duration(back)*quietSlot)
		require.Equal(t, known, ok, back)
	}
}
