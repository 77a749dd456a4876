package api

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func newReportJSON(v site.View) v1.Report {
	r := v1.Report{Stale: v.Stale, State: string(v.Eng.State)}
	if v.Rep != nil {
		r.Version, r.Time, r.Watermark = v.Rep.Version, timeOrNil(v.Rep.Time), timeOrNil(v.Rep.Watermark)
	}
	return r
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func number(x float64, ok bool) *float64 {
	if !ok || !format.Finite(x) {
		return nil
	}
	return &x
}

func ratioOf(c slo.Counts) *float64 { return number(c.Ratio()) }

func groupJSON(names []string, g slo.Group) map[string]string {
	out := map[string]string{}
	for i, n := range names {
		if i < len(g) {
			out[n] = g[i]
		}
	}
	return out
}

func NewCounts(c slo.Counts) v1.Counts { return v1.Counts{Good: c.Good, Bad: c.Bad, Valid: c.Valid()} }

func newBudget(b slo.Budget) v1.Budget {
	return v1.Budget{
		HasData: b.HasData, SLI: number(b.SLI, b.HasData), Consumed: number(b.Consumed, b.HasData),
		Remaining: number(b.Remaining, b.HasData), Counts: NewCounts(b.Counts),
	}
}

func newBurns(bs []slo.Burn) []v1.Burn {
	out := make([]v1.Burn, len(bs))
	for i, b := range bs {
		name := slo.FormatDuration(b.Window)
		if b.Period {
			name = "period"
		}
		out[i] = v1.Burn{Window: name, Seconds: b.Window.Seconds(), Rate: number(b.Rate, b.HasData),
			Counts: NewCounts(b.Counts)}
	}
	return out
}

func (api *Handler) newSLO(r *sla.SLOReport, active site.ActiveAlerts) v1.SLO {
	s := r.SLO
	out := v1.SLO{
		ID: s.ID, Service: s.ID.Service(), SLO: s.ID.Name(), Group: groupJSON(s.GroupBy, r.Group), Informative: r.Informative,
		Description: s.Description, Labels: s.Labels, Links: s.Links, Kind: s.Indicator.Kind,
		Objective: s.Objective.Ratio(), Percent: s.Objective.Percent(), Window: s.Window.String(),
		Budgeting: s.Budgeting.Method,
		State:     r.State, Paging: active.Paging(r), Waiting: r.Waiting(),
		Budget: newBudget(r.Budget), Raw: newBudget(r.Raw),
		Burns: newBurns(r.Burns), RawBurns: newBurns(r.RawBurns),
		PeriodFrom: timeOrNil(r.Period.From), PeriodTo: timeOrNil(r.Period.To), Corrected: r.Corrected.Seconds(),
		Coverage: number(r.Coverage, true), Generation: r.Generation, Since: timeOrNil(r.Since),
		LastEvent: timeOrNil(r.LastEvent),
		Total:     NewCounts(r.Total), Backfilled: NewCounts(r.Backfilled), Events: NewCounts(r.Events),
		Rate: number(r.Rate, true), Slice: r.Slice.Seconds(), Unmeasured: r.Unmeasured, Understated: r.Understated,
		Forecast: newForecast(r, api.Onset(r)), Capacity: newCapacity(r),
	}
	out.Cost = r.Counted(len(s.GroupBy) == 0).Cost()
	if r.Parts != nil {
		out.Parts = map[string]uint64{}
		for i, name := range s.Indicator.Kind.PartNames() {
			if i < len(r.Parts.Period) {
				out.Parts[name] = r.Parts.Period[i]
			}
		}
	}
	out.Volume = newVolume(r.Volume)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if api.Opt.Source != nil {
		if src, ok := api.Opt.Source(s.ID); ok {
			out.Source = &v1.Source{File: src.File, Line: src.Line}
		}
	}
	return out
}

func newVolume(v *sla.VolumeReport) *v1.Volume {
	if v == nil {
		return nil
	}
	return &v1.Volume{
		From: v.From.UTC(), To: v.To.UTC(), Events: v.Events, Target: v.Target, Expected: v.Expected, Usual: v.Usual,
		Missed: timeOrNil(v.Missed.From),
	}
}

func (api *Handler) parts(r *sla.SLOReport) (out []v1.EngineCounts) {
	if api.Opt.Parts == nil {
		return nil
	}
	for _, p := range api.Opt.Parts(r) {
		x := v1.EngineCounts{Engine: p.Engine, Stale: p.Stale, Answered: timeOrNil(p.Answered), Other: p.Other}
		if p.Known {
			counts := NewCounts(p.Counts)
			x.Counts = &counts
		}
		out = append(out, x)
	}
	return out
}

func NewSLA(r *sla.SLAReport, costs *sla.Costs) v1.SLA {
	a := r.SLA
	out := v1.SLA{
		Service: a.Service, SLA: a.Name, Group: groupJSON(a.GroupBy, r.Group), Description: a.Description,
		Window: a.Window.String(),
		Method: a.Method, NoData: a.NoData, PeriodFrom: timeOrNil(r.Period.From),
		PeriodTo: timeOrNil(r.Period.To), HasData: r.HasData,
		Score: number(r.Score, r.HasData), Low: number(r.Low, true), High: number(r.High, true), Informative: r.Informative,
		Breached: r.Breached, Level: r.Level,
		Missing: r.Missing, Components: []v1.Component{}, Costs: costs,
	}
	if c := chart.WorstComponent(r); c != nil {
		out.Worst = &c.Name
	}
	for _, c := range r.Components {
		out.Components = append(out.Components, v1.Component{
			Name: c.Name, SLO: c.SLO, Weight: c.Weight, HasData: c.HasData, Indicator: number(c.Indicator, c.HasData),
			Objective:  c.Objective,
			Attainment: number(c.Attainment, c.HasData), Points: number(c.Points, c.HasData), Lost: number(c.Lost, c.HasData),
			Counts: NewCounts(c.Counts), Coverage: number(c.Coverage, true), Note: c.Note,
		})
	}
	return out
}

func newThresholdDefinition(t *slo.Threshold) v1.ThresholdDefinition {
	return v1.ThresholdDefinition{
		Service: t.Service, Name: t.Name, Match: t.Match.String(), Warning: number(t.Warning.Seconds(), t.Warning > 0),
		Critical: number(t.Critical.Seconds(), t.Critical > 0), Each: t.Each, GroupBy: t.GroupBy,
	}
}

func newThreshold(l sla.ThresholdReport) v1.Threshold {
	out := v1.Threshold{
		ThresholdDefinition: newThresholdDefinition(l.Threshold), Total: v1.Violations(l.Total), Day: v1.Violations(l.Day),
		Month:     v1.Violations(l.Month),
		LastEvent: timeOrNil(l.LastEvent),
	}
	for _, g := range l.Groups {
		out.Groups = append(out.Groups, v1.ThresholdGroup{
			Group: groupJSON(l.Threshold.GroupBy, g.Group), Total: v1.Violations(g.Total), Day: v1.Violations(g.Day),
			Month: v1.Violations(g.Month), LastEvent: timeOrNil(g.LastEvent),
		})
	}
	return out
}

type engineJSON struct {
	status.Engine
	Report        v1.Report    `json:"report"`
	Version       site.Version `json:"version"`
	UptimeSeconds float64      `json:"uptime_seconds"`
	Warnings      []string     `json:"warnings"` // of the spec
}
