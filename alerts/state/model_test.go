package state

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// oracle is the machine said in the plainest way: one entry per alert, looked up
// by name, and conditions written out for the two tiers that the model has.
type oracle struct {
	last     time.Time
	alerts   map[string]*oracleAlert
	met      map[metKey]time.Time // when the condition of a window last held
	resolved []string
}

type metKey struct {
	name, what string
}

type oracleAlert struct {
	state              State
	since, fired, over time.Time
}

// step takes for each alert what is known of it: true, false, or nil.
func (o *oracle) step(now time.Time, wait, keep time.Duration, known map[string]*bool) {
	fresh := o.last.IsZero() || now.Sub(o.last) > 2*time.Minute
	for name, a := range o.alerts {
		if _, there := known[name]; !there {
			o.end(name, a)
		}
	}
	maps.DeleteFunc(o.met, func(m metKey, _ time.Time) bool { _, there := known[m.name]; return !there })
	for name, holds := range known {
		a := o.alerts[name]
		if holds == nil {
			continue
		}
		if *holds {
			if a == nil {
				a = &oracleAlert{state: Pending, since: now}
				o.alerts[name] = a
			} else if a.state == Pending && fresh {
				a.since = now
			}
			a.over = time.Time{}
			if a.state == Pending && now.Sub(a.since) >= wait {
				a.state, a.fired = Firing, now
			}
			continue
		}
		if a == nil {
			continue
		}
		if a.over.IsZero() {
			a.over = now
		}
		if a.state == Pending || now.Sub(a.over) >= keep {
			o.end(name, a)
		}
	}
	o.last = now
}

func (o *oracle) end(name string, a *oracleAlert) {
	if a.state == Firing {
		o.resolved = append(o.resolved, name)
	}
	delete(o.alerts, name)
}

// believed is whether both windows are above a factor: spread over the whole of
// them to start, by what was observed to go on. The long one must prove that it is no chance. Of a page over five
// minutes, that lasts for half an hour, and so does the short one where the half hour has too few events. Half an hour
// with too few is read as the hour, which lasts for a quarter. Nothing is known of a firing one while its short window
// was not observed.
func (o *oracle) believed(name string, r *sla.SLOReport, long, short int, factor float64, now time.Time) *bool {
	a := o.alerts[name]
	firing := a != nil && a.state == Firing
	above := func(i int) bool {
		b := r.Burns[i]
		c := b.Observed
		if firing {
			c = 1
		}
		return b.HasData && float64(b.Counts.Bad)/float64(b.Counts.Valid())*c > factor*0.001+1e-12
	}
	n, k := float64(r.Burns[long].Counts.Valid()), float64(r.Burns[long].Counts.Bad)
	proof, shortHolds := k >= 3 && k*(math.Log(k/(n*0.001))-1)+n*0.001 > slo.EvidenceNeeded(1), above(short)
	lately := func(holds bool, what string, within time.Duration) bool {
		if key := (metKey{name, what}); holds {
			o.met[key] = now
		} else {
			holds = !o.met[key].IsZero() && now.Sub(o.met[key]) <= within
		}
		return holds
	}
	few := func(inShort, shorts float64) bool { // at that pace
		half := r.Burns[1]
		return !half.HasData || float64(half.Counts.Valid()) < math.Ceil(inShort*shorts)*half.Observed
	}
	wide, within, shorts := 2, 15*time.Minute, 1.0
	if slo.BurnWindows[short] < 30*time.Minute {
		proof = lately(proof, "proof", 30*time.Minute)
		wide, within, shorts = 0, 30*time.Minute, 6
	}
	if held := lately(above(wide), "short", within); few(10/(factor*0.001), shorts) {
		shortHolds = held
	} else if !shortHolds {
		delete(o.met, metKey{name, "short"})
	}
	holds := above(long) && proof && shortHolds
	if !holds && firing && r.Burns[short].Observed < 0.9 {
		return nil
	}
	return &holds
}

func TestModel(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9", "product")
	s.Alerting.Ticket.Disabled, s.Alerting.Page.For = true, time.Minute
	rapid.Check(t, func(rt *rapid.T) {
		m, err := New(Options{MaxResolved: 1 << 20, KeepResolved: 1000 * time.Hour})
		require.NoError(rt, err)
		o := oracle{alerts: map[string]*oracleAlert{}, met: map[metKey]time.Time{}}
		now := start
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{10 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
				2 * time.Minute, 5 * time.Minute}).Draw(rt, "gap"))
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				again, err := New(Options{MaxResolved: 1 << 20, KeepResolved: 1000 * time.Hour})
				require.NoError(rt, err)
				require.NoError(rt, again.Restore(m.Snapshot()))
				m = again // which remembers everything
			}
			rep := &sla.Report{Time: now}
			known := map[string]*bool{}
			groups := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B", "C", slo.OtherGroup}), 0, 4,
				rapid.ID[string]).Draw(rt, "groups")
			slices.Sort(groups)
			for _, g := range groups {
				r := sla.SLOReport{SLO: s, Group: slo.Group{g}, Informative: g == slo.OtherGroup, Coverage: 1}
				for _, w := range slo.BurnWindows {
					valid := rapid.SampledFrom([]uint64{0, 10, 1000, 100_000}).Draw(rt, "valid")
					bad := uint64(float64(valid) * rapid.SampledFrom([]float64{0, 0.002, 0.02, 1}).Draw(rt, "bad"))
					b := slo.NewBurn(w, slo.NewBudget(s.Objective, slo.Counts{Good: valid - bad, Bad: bad}))
					b.Observed = rapid.SampledFrom([]float64{1, 1, 1, 0.9, 0.89, 0.5, 0.01, 0}).Draw(rt, "observed")
					b.Coverage = rapid.Float64Range(0, b.Observed).Draw(rt, "coverage") // of drops alerts know nothing
					r.Burns = append(r.Burns, b)
				}
				r.RawBurns = rawBurns(1)
				rep.SLOs = append(rep.SLOs, r)
				if !r.Informative {
					for _, tier := range []struct {
						name        string
						long, short int
						factor      float64
					}{{"page-1h " + g, 2, 0, 14.4}, {"page-6h " + g, 4, 1, 6}} {
						known[tier.name] = o.believed(tier.name, &r, tier.long, tier.short, tier.factor, now)
					}
				}
			}
			before := len(m.View().Resolved)
			m.Step(rep)
			o.resolved = nil
			o.step(now, time.Minute, 0, known)

			var got, want, over []string
			for _, a := range m.View().Active {
				if tier := a.Label("slo_tier"); tier != "" {
					got = append(got, fmt.Sprint(tier, " ", a.Group[0], " ", a.State, " ", a.ActiveSince.Sub(start), " ",
						a.FiredAt.IsZero() || a.FiredAt.Equal(o.alerts[tier+" "+a.Group[0]].fired)))
					require.False(rt, a.FirstBad.After(a.ActiveSince))
				}
			}
			for name, a := range o.alerts {
				want = append(want, fmt.Sprint(name, " ", a.state, " ", a.since.Sub(start), " ", true))
			}
			for _, a := range m.View().Resolved[before:] {
				over = append(over, a.Label("slo_tier")+" "+a.Group[0])
			}
			for _, list := range [][]string{got, want, over, o.resolved} {
				slices.Sort(list)
			}
			require.Equal(rt, strings.Join(want, "\n"), strings.Join(got, "\n"))
			require.Equal(rt, strings.Join(o.resolved, "\n"), strings.Join(over, "\n"))
			require.Len(rt, m.View().Active, m.active)
		}
	})
}

// TestRulesSayTheSame holds the live alerts against the text of the rules.
func TestRulesSayTheSame(t *testing.T) {
	in := testSpec(t)
	groups := alerts.Rules(in, alerts.Options{})
	live := alerts.LiveAlerts(in, alerts.Options{})
	require.Greater(t, len(live), 20)
	seen := map[string]bool{}
	for _, l := range live {
		found := false
		for _, g := range groups {
			for _, r := range g.Rules {
				if r.Alert != l.Alert || r.Labels["slo_tier"] != l.Labels["slo_tier"] || r.Labels["slo_id"] != l.Labels["slo_id"] ||
					r.Labels["slo_agreement"] != l.Labels["slo_agreement"] || r.Labels["service"] != l.Labels["service"] {
					continue
				}
				found = true
				seen[r.Alert] = true
				require.Equal(t, r.Labels, l.Labels, r.Alert)
				require.Equal(t, r.For, l.For, r.Alert)
				require.Equal(t, r.KeepFiringFor, l.KeepFiringFor, r.Alert)
				switch l.Kind {
				case alerts.LiveBurn:
					require.Contains(t, r.Expr, "> "+slo.FormatRatio(l.Tier.Threshold), r.Alert)
				case alerts.LiveRatio, alerts.LiveLimit:
					require.Contains(t, r.Expr, "> "+slo.FormatRatio(l.Above), r.Alert)
					require.Contains(t, r.Expr, slo.FormatDuration(l.Window), r.Alert)
					if l.UpTo > 0 {
						require.Contains(t, r.Expr, "<= "+slo.FormatRatio(l.UpTo), r.Alert)
					}
				case alerts.LiveScore:
					require.Contains(t, r.Expr, "< "+slo.FormatRatio(l.Below), r.Alert)
				}
			}
		}
		require.True(t, found, "%s has no rule", l.Alert)
	}
	for _, name := range []string{"ErrorBudgetBurnPage", "CompositeSLACritical", "SenderSilent", "LatencySLAWarning",
		"ThroughputSLAViolation", "LatencySLACriticalViolation"} {
		require.True(t, seen[name], name)
	}
}
