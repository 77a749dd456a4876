package state

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// TestRestart stops the machine at some time of an alert's life and starts
// another after a while.
func TestRestart(t *testing.T) {
	at := start.Add(40 * day)
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Tiers, s.Alerting.Page.For = slo.Tiers[:1], 5*time.Minute
	rep := func(now time.Time, lasts time.Duration) sla.SLOReport {
		traffic := stream{rate: 100, from: start, incidents: []incident{{at, at.Add(lasts), 1}}}
		r := traffic.report(s, nil, now)
		r.Budget = slo.Budget{}
		return r
	}
	const pending, firing = "ErrorBudgetBurnPage/page-1h pending", "ErrorBudgetBurnPage/page-1h firing"
	for _, c := range []struct {
		name        string
		stop, again time.Duration // after the incident began
		lasts       time.Duration
		coverage    float64 // of the short window, after the start
		want        []string
		fired       time.Duration // after the incident began
	}{
		{"pending goes on within the grace", 2 * time.Minute, 4 * time.Minute, time.Hour, 1,
			[]string{pending}, 6 * time.Minute},
		{"pending waits again after longer", 2 * time.Minute, 4*time.Minute + 10*time.Second, time.Hour, 1, []string{pending},
			9*time.Minute + 10*time.Second},
		{"pending, and over meanwhile", 2 * time.Minute, 20 * time.Minute, 3 * time.Minute, 1, nil, 0},
		{"firing goes on", 7 * time.Minute, 30 * time.Minute, time.Hour, 1, []string{firing}, 6 * time.Minute},
		{"firing, and proven over", 7 * time.Minute, 30 * time.Minute, 8 * time.Minute, 1, nil, 0},
		{"firing, and nobody watched its end", 7 * time.Minute, 30 * time.Minute, 8 * time.Minute, 0.2,
			[]string{firing}, 6 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			drive(m, at, int(c.stop/(10*time.Second))+1, 10*time.Second, func(now time.Time) *sla.Report {
				return &sla.Report{Time: now, SLOs: []sla.SLOReport{rep(now, c.lasts)}}
			})
			snap := m.Snapshot()
			again := newMachine(t)
			require.NoError(t, again.Restore(snap))
			want := slices.Clone(m.View().Active)
			for i := range want {
				want[i].live = nil // until the spec is known
			}
			require.Equal(t, want, again.View().Active, "shown before the first report, too")
			require.JSONEq(t, string(snap), string(again.Snapshot()))

			r := rep(at.Add(c.again), c.lasts)
			observe(&r, time.Hour, c.coverage)
			again.Step(&sla.Report{Time: at.Add(c.again), SLOs: []sla.SLOReport{r}})
			got := names(again.View().Active)
			if c.want == nil {
				require.Empty(t, got)
				return
			}
			require.Equal(t, c.want, got)
			for i := 1; i < 60 && again.View().Active[0].State == Pending; i++ {
				now := at.Add(c.again + time.Duration(i)*10*time.Second)
				again.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{rep(now, c.lasts)}})
			}
			a := again.View().Active[0]
			require.Equal(t, c.fired, a.FiredAt.Sub(at))
			require.Equal(t, at, a.FirstBad)
		})
	}
}

// TestRestartsChangeNothing steps a machine that is often replaced from its snapshot beside one that runs
// on: their alerts, what keeps others from starting, and all that they remember are the same.
func TestRestartsChangeNothing(t *testing.T) {
	at := start.Add(40 * day)
	groups := []slo.Group{{"a"}, {"b"}, {slo.OtherGroup}}
	up, lat := newSLO(t, "shop/availability", "99.9", "product"), newSLO(t, "shop/latency", "95", "product")
	lat.Indicator = slo.Indicator{Kind: slo.KindLatency, Threshold: time.Minute}
	limit := &slo.Threshold{Service: "shop", Name: "processing", Critical: 2 * time.Minute, GroupBy: []string{"product"}}
	a := &sla.Agreement{Service: "shop", Name: "gold", Window: slo.Window{Rolling: 30 * day}, Components: []sla.Component{
		{Name: "availability", SLO: up.ID, Weight: 1}, {Name: "latency", SLO: lat.ID, Weight: 1},
	}}
	for _, e := range alerts.Catalogue() {
		a.Catalogue = append(a.Catalogue, sla.CatalogueAlert{Name: e.Name})
	}
	const seeds = 2
	fired := map[string]int{}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		streams := make([]stream, len(groups))
		for i := range streams {
			streams[i] = stream{rate: []float64{0.02, 1, 0.1}[i], from: start}
			for from := at; from.Before(at.Add(6 * time.Hour)); from = from.Add(time.Duration(rng.IntN(90)) * time.Minute) {
				streams[i].incidents = append(streams[i].incidents, incident{from,
					from.Add(time.Duration(rng.IntN(30)) * time.Minute), []float64{0.004, 0.1, 1}[rng.IntN(3)]})
			}
		}
		m, again := newMachine(t), newMachine(t)
		var traffic uint64
		critical := make([]uint64, len(groups))
		for now := at; now.Before(at.Add(6 * time.Hour)); now = now.Add(20 * time.Second) {
			if rng.IntN(200) == 0 {
				now = now.Add(time.Duration(rng.IntN(20)) * time.Minute)
			}
			traffic += uint64(rng.IntN(3))
			r := &sla.Report{Time: now, SLAs: []sla.SLAReport{{SLA: a}},
				Traffic: []sla.TrafficReport{{Service: "shop", Type: "order", Count: traffic}}}
			l := sla.ThresholdReport{Threshold: limit}
			for _, s := range []*slo.SLO{up, lat} {
				for i, g := range groups {
					x := streams[i].report(s, g, now)
					x.Budget = slo.Budget{}
					r.SLOs = append(r.SLOs, x)
				}
			}
			for i, g := range groups {
				critical[i] += streams[i].counts(now.Add(-20*time.Second), now).Bad
				l.Groups = append(l.Groups, sla.ThresholdGroup{Group: g, Total: sla.Violations{Critical: critical[i]}})
				l.Total.Critical += critical[i]
			}
			r.Thresholds = []sla.ThresholdReport{l}
			for _, tr := range m.Step(r) {
				if tr.To == Firing {
					fired[tr.Alert.Name]++
				}
			}
			restart := rng.IntN(8) == 0
			for i := 0; i < 2 && restart; i++ { // the first one stops before its first report
				saved := again.Snapshot()
				again = newMachine(t)
				require.NoError(t, again.Restore(saved))
			}
			again.Step(r)
			require.Equal(t, m.View().Held, again.View().Held)
			if restart {
				require.Equal(t, string(m.Snapshot()), string(again.Snapshot()), "seed %d, %s", seed, now.Sub(at))
			}
		}
	}
	for _, name := range []string{"ErrorBudgetBurnPage", "LatencySLACriticalViolation", "ErrorRateSLAViolation",
		"LatencySLARecovered"} {
		require.Greater(t, fired[name], seeds, name)
	}
}

func TestRestartWithAnotherSpec(t *testing.T) {
	at := start.Add(40 * day)
	hot := stream{rate: 100, from: start, incidents: []incident{{at.Add(-time.Hour), at.Add(day), 0.5}}}
	a, b := newSLO(t, "shop/a", "99.9"), newSLO(t, "shop/b", "99.9")
	a.Alerting.Tiers, b.Alerting.Tiers = slo.Tiers[:1], slo.Tiers[:1]
	m := newMachine(t)
	ra, rb := hot.report(a, nil, at), hot.report(b, nil, at)
	ra.Budget, rb.Budget = slo.Budget{}, slo.Budget{}
	m.Step(&sla.Report{Time: at, SLOs: []sla.SLOReport{ra, rb}})
	require.Len(t, m.View().Active, 2)

	again := newMachine(t)
	require.NoError(t, again.Restore(m.Snapshot()))
	rb = hot.report(b, nil, at.Add(time.Minute))
	rb.Budget = slo.Budget{}
	trs := again.Step(&sla.Report{Time: at.Add(time.Minute), SLOs: []sla.SLOReport{rb}})
	require.Len(t, trs, 1)
	require.Equal(t, slo.ID("shop/a"), trs[0].Alert.SLO)
	require.Equal(t, Resolved, trs[0].To)
	require.True(t, trs[0].Alert.Removed)
	require.Equal(t, slo.ID("shop/b"), again.View().Active[0].SLO)
	require.Equal(t, 1, again.active)
	require.Error(t, again.Restore(m.Snapshot()), "it has run already")
}

func TestSenderOutlivesARestart(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Page.Disabled, s.Alerting.Ticket.Disabled = true, true
	m := newMachine(t)
	var total uint64
	now := start
	step := func() {
		m.Step(&sla.Report{Time: now, SLOs: []sla.SLOReport{{SLO: s, LastEvent: now, RawBurns: rawBurns(1)}},
			Traffic: []sla.TrafficReport{{Service: "shop", Type: "order", Count: total}}})
	}
	for ; now.Before(start.Add(25 * time.Hour)); now = now.Add(time.Minute) {
		total += 2
		step()
	}
	again := newMachine(t)
	require.NoError(t, again.Restore(m.Snapshot()))
	require.Equal(t, string(m.Snapshot()), string(again.Snapshot()))
	m = again
	now = now.Add(3 * time.Minute)
	for end := now.Add(50 * time.Minute); now.Before(end); now = now.Add(time.Minute) {
		step()
	}
	require.Equal(t, []string{"SenderSilent firing"}, names(m.View().Active))
}

// TestFormerLabels: an alert of version 0.2 has the present labels as soon as it is read, and the labels of its group.
func TestFormerLabels(t *testing.T) {
	const text = `{"version":2,"time":"2026-01-01T00:00:00Z",
	"active":[{"scope":"slo","id":"shop/a","key":"ErrorBudgetBurnPage/page-1h","labels":[
		{"name":"alertname","value":"ErrorBudgetBurnPage"},{"name":"impact","value":"high"},{"name":"long","value":"1h"},
		{"name":"severity","value":"page"},
		{"name":"short","value":"5m"},{"name":"sla","value":"error_rate"},{"name":"slo_id","value":"shop/a"},
		{"name":"tier","value":"page-1h"}],
		"slo":"shop/a","service":"shop","state":"firing","value":1,"active_since":"2026-01-01T00:00:00Z",
		"first_bad":"2026-01-01T00:00:00Z","fired_at":"2026-01-01T00:00:00Z"}],
		"resolved":[{"labels":[{"name":"alertname","value":"ErrorBudgetExhausted"},{"name":"impact","value":"medium"},
		{"name":"tier","value":"gold"}],"slo":"shop/b",
		"service":"shop","group_by":["tier"],"group":["gold"],"state":"resolved","value":1,
		"active_since":"2026-01-01T00:00:00Z","first_bad":"2026-01-01T00:00:00Z",
		"fired_at":"2026-01-01T00:00:00Z","resolved_at":"2026-01-01T01:00:00Z"}],"senders":[]}`
	m := newMachine(t)
	require.NoError(t, m.Restore([]byte(text)))
	v := m.View()
	require.Equal(
		t, []Label{{"alertname", "ErrorBudgetBurnPage"}, {"severity", "page"}, {"slo_id", "shop/a"}, {"slo_impact", "high"},
			{"slo_kind", "error_rate"}, {"slo_long", "1h"}, {"slo_short", "5m"}, {"slo_tier", "page-1h"}}, v.Active[0].Labels)
	require.Equal(t, []Label{{"alertname", "ErrorBudgetExhausted"}, {"slo_impact", "medium"}, {"tier", "gold"}},
		v.Resolved[0].Labels)
	require.NoError(t, newMachine(t).Restore(m.Snapshot()))
}

func TestRestoreIsStrict(t *testing.T) {
	m := newMachine(t)
	good := m.Snapshot()
	require.NoError(t, newMachine(t).Restore(good))
	alert :=
		`{"scope":"slo","id":"a/b","key":"k","labels":[{"name":"alertname","value":"X"}],"state":"firing","value":1,` +
			`"active_since":"2026-01-01T00:00:00Z","first_bad":"2026-01-01T00:00:00Z","fired_at":"2026-01-01T00:00:00Z"}`
	with := func(active string) string {
		return `{"version":1,"time":"2026-01-01T00:00:00Z","active":[` + active + `],"resolved":[],"senders":[]}`
	}
	require.NoError(t, newMachine(t).Restore([]byte(with(alert))))
	for name, bad := range map[string]string{
		"empty":           "",
		"not JSON":        "x",
		"cut off":         string(good[:len(good)/2]),
		"more behind it":  string(good) + "{}",
		"newer":           `{"version":6,"time":"2026-01-01T00:00:00Z","new":1}`,
		"unknown field":   `{"version":1,"time":"2026-01-01T00:00:00Z","other":1}`,
		"no version":      `{"time":"2026-01-01T00:00:00Z"}`,
		"twice":           with(alert + "," + alert),
		"unknown scope":   with(strings.Replace(alert, `"slo"`, `"x"`, 1)),
		"unknown state":   with(strings.Replace(alert, `"firing"`, `"odd"`, 1)),
		"pending, fired":  with(strings.Replace(alert, `"firing"`, `"pending"`, 1)),
		"no name":         with(strings.Replace(alert, `alertname`, `x`, 1)),
		"labels unsorted": with(strings.Replace(alert, `[{`, `[{"name":"b","value":"1"},{`, 1)),
		"never began": with(
			strings.Replace(alert, `"active_since":"2026-01-01T00:00:00Z"`, `"active_since":"0001-01-01T00:00:00Z"`, 1)),
		"sender's history": `{"version":1,"time":"2026-01-01T00:00:00Z","active":[],"resolved":[],` +
			`"senders":[{"service":"a","type":"b","total":1,"changed":"2026-01-01T00:00:00Z","slot":0,"slots":[1]}]}`,
		"breaches without a count": `{"version":5,"time":"2026-01-01T00:00:00Z","active":[],"resolved":[],"senders":[],` +
			`"breaches":{"x":{"since":"2026-01-01T00:00:00Z","groups":[{"key":"","samples":[]}]}}}`,
		"breaches that decrease": `{"version":5,"time":"2026-01-01T00:00:00Z","active":[],"resolved":[],"senders":[],` +
			`"breaches":{"x":{"since":"2026-01-01T00:00:00Z","groups":[{"key":"","samples":[[1,2],[2,1]]}]}}}`,
		"not resolved": `{"version":1,"time":"2026-01-01T00:00:00Z","active":[],` +
			`"resolved":[{"labels":[{"name":"alertname","value":"X"}],"state":"firing","value":1,` +
			`"active_since":"2026-01-01T00:00:00Z","first_bad":"2026-01-01T00:00:00Z"}],"senders":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			require.ErrorIs(t, m.Restore([]byte(bad)), ErrSnapshot)
			require.Empty(t, m.View().Active)
		})
	}
	require.True(t, json.Valid(good))
}

func FuzzRestore(f *testing.F) {
	m, err := New(Options{})
	require.NoError(f, err)
	f.Add(m.Snapshot())
	f.Add(
		[]byte(
			`{"version":1,"time":"2026-01-01T00:00:00Z","active":[],"resolved":[],"senders":[{"service":"a","type":"b",` +
				`"total":1,"changed":"2026-01-01T00:00:00Z","slot":900,"slots":[1,2]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMachine(t)
		if m.Restore(data) != nil {
			return
		}
		m.Step(&sla.Report{Time: start})
		require.True(t, json.Valid(m.Snapshot()))
	})
}
