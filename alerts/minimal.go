package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// minimalBurn is the condition of a tier: both windows are above its threshold, and a page has evidence for it. It goes
// by what was counted, and a series newer than the long window by what it may grow to.
func (g *generator) minimalBurn(s *slo.SLO, t Tier) string {
	threshold := number(t.Threshold)
	guarded := t.Page && counted(s)
	few := !t.Page && s.Alerting.MinEvents > 0 && counted(s)
	o := g.q.o
	if !guarded && !few {
		o = o.Alertable(s) // evidence, and events counted for a ticket, know only groups that alert
	}
	all := []string{
		o.Series(s, series.ErrorRatio(slo.FormatDuration(t.Long))) + " > " + threshold + " / " + g.q.o.Covered(s, t.Long)}
	short := g.q.o.Series(s, series.ErrorRatio(slo.FormatDuration(t.Short)))
	if t.Quiet.For > 0 {
		short = g.q.o.HeldRatio(s, t.Short)
	}
	if guarded {
		evidence := g.q.o.EvidenceOf(s, t.Tier)
		if t.Short < slo.Hold {
			evidence = "max_over_time(" + evidence + "[" + slo.FormatDuration(slo.Hold-time.Second) + "])"
		}
		all = append(all, evidence+" > "+number(slo.EvidenceNeeded(s.Alerting.MaxFalsePages())))
	}
	all = append(all, short+" > "+threshold)
	if few {
		all = append(
			all, o.Series(s, series.CountedOver(slo.FormatDuration(t.Long)))+fmt.Sprintf(" >= %d", s.Alerting.MinEvents))
	}
	return strings.Join(all, "\nand ")
}

// minimalExhausted is the condition that at most a share of the budget is left. A series newer than the window has more
// as long as the rest of the window could be good.
func (g *generator) minimalExhausted(l *Live) string {
	s := l.SLO
	left := g.q.o.Alertable(s).Series(s, series.PeriodBudgetRemaining)
	if s.Window.Calendar != "" || s.Window.Rolling <= 24*time.Hour {
		return left + " <= " + number(l.Below)
	}
	out := left + " <= 1 - " + number((1-l.Below)*s.Window.Rolling.Hours()) + " / count_over_time(" +
		g.q.o.Series(s, series.ValidCount+":5m") + "[" + slo.FormatDuration(s.Window.Rolling) + ":1h])"
	if s.Alerting.MinEvents > 0 && counted(s) {
		out += "\nand " + g.q.o.EventsOver(s, s.Window.Rolling) + fmt.Sprintf(" >= %d", s.Alerting.MinEvents)
	}
	return out
}

// minimalNoData is the condition that the counters of an SLO are missing, or that they have not changed for a while
// though they were there before it.
func (g *generator) minimalNoData(s *slo.SLO, quiet time.Duration) string {
	counted := g.q.o.Counted(s)
	absent := "absent(" + counted + ")"
	if len(s.Corrections) > 0 {
		absent += " unless on () " + series.Maintenance + "{" + series.LabelService + "=" + quote(s.ID.Service()) + "}"
	}
	five := g.q.o.Series(s, series.ValidCount+":5m")
	return absent + "\nor sum(sum_over_time(" + five + "[" + slo.FormatDuration(quiet-time.Second) +
		"])) == 0 and on () " + five + " offset " + slo.FormatDuration(quiet)
}

// group is the name of the group of an alert on one SLO: that of what it reads.
func (g *generator) groupOf(s *slo.SLO, w time.Duration) string {
	if w <= 6*time.Hour {
		return rules.ShortGroup(s)
	}
	return rules.LongGroup(s)
}

// minimalGroups are the alerts of one SLO by the groups of what they read.
func (g *generator) minimalGroups(s *slo.SLO) []rules.Group {
	short := rules.Group{Name: rules.ShortGroup(s), Interval: g.o.Eval}
	long := rules.Group{Name: rules.LongGroup(s), Interval: g.o.LongEval}
	add := func(r rules.Rule, w time.Duration) {
		if g.groupOf(s, w) == short.Name {
			short.Rules = append(short.Rules, r)
		} else {
			long.Rules = append(long.Rules, r)
		}
	}
	all := g.sloGroup(s)
	tiers, _ := Tiers(s)
	for _, r := range all.Rules {
		w := time.Duration(0)
		for _, t := range tiers {
			if t.Name == r.Labels[series.LabelTier] {
				w = t.Long
			}
		}
		if r.Alert == NameBudgetExhausted || r.Alert == NameBudgetLow {
			w = s.Window.Longest()
		}
		add(r, w)
	}
	return []rules.Group{short, long}
}
