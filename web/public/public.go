package public

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/site"
)

// Labels of an SLO that choose what the public view and the badges show, unless
// Options.Public says otherwise. An agreement is public if all SLOs that it is made
// of are.
const (
	// PublicLabel with the value "true" makes an SLO public: its service, name,
	// description, objective, window, indicator and days.
	PublicLabel = "public"
	// PublicGroupsLabel with the value "true" shows a public SLO group by group, with
	// the values of the groups. Without it all groups are added up.
	PublicGroupsLabel = "public_groups"
)

// PublicState is how a service does, in plain words.
type PublicState string

const (
	Operational PublicState = "operational"
	DegradedNow PublicState = "degraded"
	Outage      PublicState = "outage"
	UnknownNow  PublicState = "no data"
)

func (s PublicState) mark() chart.Mark {
	shape := map[PublicState]string{Operational: "ok", DegradedNow: "risk", Outage: "bad"}[s]
	return chart.Mark{Shape: cmp.Or(shape, "none"), Word: string(s)}
}

// worse is the worse of two states. No data is told only where there is nothing else.
func (s PublicState) worse(t PublicState) PublicState {
	rank := map[PublicState]int{Operational: 1, DegradedNow: 2, Outage: 3}
	if rank[t] > rank[s] {
		return t
	}
	return s
}

const (
	// outageShare is the share of bad events from which on a short window is an outage.
	outageShare = 0.5
	// outageBad is the least number of bad ones in an hour: one failure at night is none.
	outageBad = 3
	// quietest is the longest window that says how things are now.
	quietest = 24 * time.Hour
)

// combined is one SLO, over one group or several of them.
type combined struct {
	slo      *slo.SLO
	rows     []*sla.SLOReport
	budget   slo.Budget
	burns    []slo.Burn
	coverage float64 // the least of its groups
}

// combine adds groups of one SLO up, each by its number of events.
func combine(rows []*sla.SLOReport) combined {
	x := combined{slo: rows[0].SLO, rows: rows, budget: rows[0].Budget, burns: rows[0].Burns, coverage: rows[0].Coverage}
	if len(rows) == 1 {
		return x
	}
	budgets := make([]slo.Budget, len(rows))
	x.burns = slices.Clone(x.burns)
	for i, r := range rows {
		budgets[i] = r.Budget
		x.coverage = min(x.coverage, r.Coverage)
	}
	x.budget = addBudgets(x.slo.Objective, budgets)
	for k := range x.burns {
		b := slo.Burn{Window: x.burns[k].Window, Period: x.burns[k].Period, Observed: 1}
		rate := 0.0
		for _, r := range rows {
			if k < len(r.Burns) && r.Burns[k].HasData {
				b.HasData, b.Counts = true, b.Counts.Add(r.Burns[k].Counts)
				b.Effective += r.Burns[k].Effective
				b.Observed = min(b.Observed, r.Burns[k].Observed)
				rate += r.Burns[k].Rate * float64(r.Burns[k].Counts.Valid())
			}
		}
		if n := b.Counts.Valid(); n > 0 {
			b.Rate = rate / float64(n)
		}
		x.burns[k] = b
	}
	return x
}

func addBudgets(o slo.Objective, budgets []slo.Budget) slo.Budget {
	var total slo.Counts
	sum := 0.0
	for _, b := range budgets {
		if b.HasData {
			total = total.Add(b.Counts)
			sum += b.SLI * float64(b.Counts.Valid())
		}
	}
	if n := total.Valid(); n > 0 {
		return slo.NewRatioBudget(o, total, sum/float64(n), true)
	}
	return slo.Budget{}
}

func (x *combined) burn(d time.Duration) slo.Burn {
	for _, b := range x.burns {
		if b.Window == d && !b.Period {
			return b
		}
	}
	return slo.Burn{}
}

// state is how the SLO does now, whatever is left of its budget: an outage if at least
// half of what came recently was bad, degraded if it burns fast enough for an alert, or
// a group of it does.
func (x *combined) state() PublicState {
	var latest slo.Burn
	for _, d := range slo.BurnWindows {
		if latest = x.burn(d); latest.HasData || d >= quietest {
			break
		}
	}
	if !latest.HasData || x.waiting() {
		return UnknownNow
	}
	hour := x.burn(time.Hour)
	if latest.Rate*x.slo.Objective.Budget() >= outageShare && max(hour.Counts.Bad, latest.Counts.Bad) >= outageBad {
		return Outage
	}
	full := slo.Budget{HasData: true, Remaining: 1}
	if slo.Judge(x.rows[0].Period.Duration(), full, x.burns) == slo.StateAtRisk {
		return DegradedNow
	}
	if len(x.rows) > 1 {
		for _, r := range x.rows {
			if !r.Informative {
				one := combine([]*sla.SLOReport{r})
				if s := one.state(); s == DegradedNow || s == Outage {
					return DegradedNow
				}
			}
		}
	}
	return Operational
}

// waiting reports whether all groups with data are ok by old counts only.
func (x *combined) waiting() (some bool) {
	for _, r := range x.rows {
		if !r.Waiting() && r.State != slo.StateNoData {
			return false
		}
		some = some || r.Waiting()
	}
	return some
}

// isPublic reports whether anybody may see an SLO.
func (pub *Handler) isPublic(s *slo.SLO) bool {
	if pub.Opt.Public != nil {
		return pub.Opt.Public(s.ID, s.Labels)
	}
	return s.Labels[PublicLabel] == "true"
}

// isPublicSLA reports whether anybody may see an agreement, and its groups.
func (pub *Handler) isPublicSLA(rep *sla.Report, a *sla.Agreement) (public, groups bool) {
	public, groups = len(a.Components) > 0, len(a.Components) > 0
	for _, c := range a.Components {
		s := site.SLOOf(rep, c.SLO)
		known := s != nil && pub.isPublic(s)
		public = public && known
		groups = groups && known && publicGroups(s)
	}
	if pub.Opt.PublicSLA != nil {
		public = pub.Opt.PublicSLA(a)
	}
	return public, public && groups
}

func publicGroups(s *slo.SLO) bool { return s.Labels[PublicGroupsLabel] == "true" }

// publicRows are the rows of the public SLOs, one SLO and, where they may be shown,
// one group each, in the order of the report.
func (pub *Handler) publicRows(rep *sla.Report) (out [][]*sla.SLOReport) {
	for i := 0; i < len(rep.SLOs); {
		j := i + 1
		for j < len(rep.SLOs) && rep.SLOs[j].SLO.ID == rep.SLOs[i].SLO.ID {
			j++
		}
		if pub.isPublic(rep.SLOs[i].SLO) {
			var rows []*sla.SLOReport
			for k := i; k < j; k++ {
				rows = append(rows, &rep.SLOs[k])
			}
			if publicGroups(rows[0].SLO) {
				for _, r := range rows {
					out = append(out, []*sla.SLOReport{r})
				}
			} else {
				out = append(out, rows)
			}
		}
		i = j
	}
	return out
}
