package api

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// The answers of the read API. Their field names are a contract: they may grow,
// never change. Ratios are 0 to 1, scores 0 to 100, times RFC 3339 in UTC, and
// what has no data is null.

type reportJSON struct {
	Version   uint64       `json:"version"` // 0: no report yet
	Time      *time.Time   `json:"time"`
	Watermark *time.Time   `json:"watermark"`
	Stale     bool         `json:"stale"`
	State     status.State `json:"state"`
}

func newReportJSON(v site.View) reportJSON {
	r := reportJSON{Stale: v.Stale, State: v.Eng.State}
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

type CountsJSON struct {
	Good  uint64 `json:"good"`
	Bad   uint64 `json:"bad"`
	Valid uint64 `json:"valid"`
}

func NewCounts(c slo.Counts) CountsJSON { return CountsJSON{c.Good, c.Bad, c.Valid()} }

type budgetJSON struct {
	HasData   bool       `json:"has_data"`
	SLI       *float64   `json:"sli"`
	Consumed  *float64   `json:"consumed"`
	Remaining *float64   `json:"remaining"`
	Counts    CountsJSON `json:"counts"`
}

func newBudget(b slo.Budget) budgetJSON {
	return budgetJSON{b.HasData, number(b.SLI, b.HasData), number(b.Consumed, b.HasData), number(b.Remaining, b.HasData), NewCounts(b.Counts)}
}

type burnJSON struct {
	Window  string     `json:"window"` // such as 5m, or period
	Seconds float64    `json:"seconds"`
	Rate    *float64   `json:"rate"`
	Counts  CountsJSON `json:"counts"`
}

func newBurns(bs []slo.Burn) []burnJSON {
	out := make([]burnJSON, len(bs))
	for i, b := range bs {
		name := slo.FormatDuration(b.Window)
		if b.Period {
			name = "period"
		}
		out[i] = burnJSON{name, b.Window.Seconds(), number(b.Rate, b.HasData), NewCounts(b.Counts)}
	}
	return out
}

type sloJSON struct {
	ID          slo.ID            `json:"id"`
	Service     string            `json:"service"`
	SLO         string            `json:"slo"`
	Group       map[string]string `json:"group"`
	Informative bool              `json:"informative"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels"`
	Kind        slo.IndicatorKind `json:"kind"`
	Objective   float64           `json:"objective"`
	Percent     string            `json:"objective_percent"`
	Window      string            `json:"window"`
	Budgeting   slo.BudgetMethod  `json:"budgeting"`
	Source      *site.Source      `json:"source"`

	State      slo.State  `json:"state"`
	Budget     budgetJSON `json:"budget"`     // planned maintenance taken out: what counts
	Raw        budgetJSON `json:"raw_budget"` // everything
	Burns      []burnJSON `json:"burn_rates"`
	RawBurns   []burnJSON `json:"raw_burn_rates"`
	PeriodFrom *time.Time `json:"period_from"`
	PeriodTo   *time.Time `json:"period_to"`
	Corrected  float64    `json:"corrected_seconds"`
	Coverage   *float64   `json:"coverage"`
	Generation uint32     `json:"generation"`
	Since      *time.Time `json:"since"`
	LastEvent  *time.Time `json:"last_event"`
	Total      CountsJSON `json:"total"`
	Backfilled CountsJSON `json:"backfilled"`
	Events     CountsJSON `json:"events"`
	Rate       *float64   `json:"events_per_second"`
	Slice      float64    `json:"slice_seconds"` // 0: events are judged
	Unmeasured uint64     `json:"unmeasured"`

	Parts  map[string]uint64 `json:"parts,omitempty"`  // of a ratio or an apdex: events of the period that its counts are made of
	Volume *volumeJSON       `json:"volume,omitempty"` // of a volume

	// Understated: in a view, some engine counted events of this group in its "other" group.
	Understated bool `json:"understated,omitempty"`

	// Cost of violations in the period, if the spec states one. Of one group of several it is compared with nothing.
	Cost     *sla.SLOCost  `json:"cost,omitempty"`
	Forecast *forecastJSON `json:"forecast"` // null if the group has none
	Capacity *capacityJSON `json:"capacity"` // null without a capacity in the spec
}

func (api *Handler) newSLO(r *sla.SLOReport) sloJSON {
	s := r.SLO
	out := sloJSON{
		ID: s.ID, Service: s.ID.Service(), SLO: s.ID.Name(), Group: groupJSON(s.GroupBy, r.Group), Informative: r.Informative,
		Description: s.Description, Labels: s.Labels, Kind: s.Indicator.Kind,
		Objective: s.Objective.Ratio(), Percent: s.Objective.Percent(), Window: s.Window.String(), Budgeting: s.Budgeting.Method,
		State: r.State, Budget: newBudget(r.Budget), Raw: newBudget(r.Raw), Burns: newBurns(r.Burns), RawBurns: newBurns(r.RawBurns),
		PeriodFrom: timeOrNil(r.Period.From), PeriodTo: timeOrNil(r.Period.To), Corrected: r.Corrected.Seconds(),
		Coverage: number(r.Coverage, true), Generation: r.Generation, Since: timeOrNil(r.Since), LastEvent: timeOrNil(r.LastEvent),
		Total: NewCounts(r.Total), Backfilled: NewCounts(r.Backfilled), Events: NewCounts(r.Events), Rate: number(r.Rate, true), Slice: r.Slice.Seconds(), Unmeasured: r.Unmeasured, Understated: r.Understated,
		Forecast: newForecast(r), Capacity: newCapacity(r),
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
			out.Source = &src
		}
	}
	return out
}

// volumeJSON is how far the present day, week or month has come.
type volumeJSON struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	Events   uint64     `json:"events"`
	Target   uint64     `json:"target"`
	Expected float64    `json:"expected"` // by now, to reach the target if the rest is as usual
	Usual    int        `json:"usual"`    // periods that tell what is usual; 0: the time that is over does
	Missed   *time.Time `json:"last_missed"`
}

func newVolume(v *sla.VolumeReport) *volumeJSON {
	if v == nil {
		return nil
	}
	return &volumeJSON{v.From.UTC(), v.To.UTC(), v.Events, v.Target, v.Expected, v.Usual, timeOrNil(v.Missed.From)}
}

type SLOList struct {
	Report reportJSON `json:"report"`
	Total  int        `json:"total"`
	Items  []sloJSON  `json:"items"`
	Next   string     `json:"next_cursor,omitempty"` // absent on the last page
}

type SLOOne struct {
	Report  reportJSON `json:"report"`
	SLO     sloJSON    `json:"slo"`
	Work    *workJSON  `json:"in_flight,omitempty"` // of an SLO of completion, in the group
	Costs   *sla.Costs `json:"costs,omitempty"`     // of all groups of the SLO, if the spec states a cost
	Engines []partJSON `json:"engines,omitempty"`   // of a view

	UsualWeek *forecast.Week `json:"usual_week,omitempty"` // valid events of each hour, from Monday 00:00 UTC on
}

// partJSON is what one engine of a view counted over the period, planned maintenance included.
type partJSON struct {
	Engine   string      `json:"engine"`
	Stale    bool        `json:"stale"`       // not in the numbers: the counts are those of its last answer
	Answered *time.Time  `json:"answered_at"` // when that came
	Counts   *CountsJSON `json:"counts"`      // null if it does not have the group
	Other    bool        `json:"in_other"`    // it may have counted the group's events in its "other" group
}

func (api *Handler) parts(r *sla.SLOReport) (out []partJSON) {
	if api.Opt.Parts == nil {
		return nil
	}
	for _, p := range api.Opt.Parts(r) {
		x := partJSON{Engine: p.Engine, Stale: p.Stale, Answered: timeOrNil(p.Answered), Other: p.Other}
		if p.Known {
			counts := NewCounts(p.Counts)
			x.Counts = &counts
		}
		out = append(out, x)
	}
	return out
}

type pointJSON struct {
	Start time.Time `json:"start"`
	Good  uint64    `json:"good"`
	Bad   uint64    `json:"bad"`
	Ratio *float64  `json:"ratio"`
}

type HistoryJSON struct {
	ID          slo.ID            `json:"id"`
	Group       map[string]string `json:"group"`
	From        time.Time         `json:"from"`
	To          time.Time         `json:"to"`
	StepSeconds float64           `json:"step_seconds"`
	Points      []pointJSON       `json:"points"` // raw counts
}

type componentJSON struct {
	Name       string     `json:"name"`
	SLO        slo.ID     `json:"slo_id"`
	Weight     float64    `json:"weight"`
	HasData    bool       `json:"has_data"`
	Indicator  *float64   `json:"indicator"`
	Objective  float64    `json:"objective"`
	Attainment *float64   `json:"attainment"`
	Points     *float64   `json:"points"`
	Lost       *float64   `json:"lost"`
	Counts     CountsJSON `json:"counts"`
	Coverage   *float64   `json:"coverage"`
	Note       string     `json:"note"`
}

type slaJSON struct {
	Service     string            `json:"service"`
	SLA         string            `json:"sla"`
	Group       map[string]string `json:"group"`
	Description string            `json:"description"`
	Window      string            `json:"window"`
	Method      sla.Method        `json:"method"`
	NoData      sla.NoData        `json:"no_data"`
	PeriodFrom  *time.Time        `json:"period_from"`
	PeriodTo    *time.Time        `json:"period_to"`
	HasData     bool              `json:"has_data"`
	Score       *float64          `json:"score"`
	Low         *float64          `json:"low"`
	High        *float64          `json:"high"`
	Informative bool              `json:"informative"`
	Breached    bool              `json:"breached"`
	Level       sla.Level         `json:"level"`
	Worst       *string           `json:"worst"` // name of the component that lost most
	Missing     int               `json:"missing"`
	Components  []componentJSON   `json:"components"`
	Costs       *sla.Costs        `json:"costs,omitempty"` // of its components, if one has a cost
}

func NewSLA(r *sla.SLAReport, costs *sla.Costs) slaJSON {
	a := r.SLA
	out := slaJSON{
		Service: a.Service, SLA: a.Name, Group: groupJSON(a.GroupBy, r.Group), Description: a.Description, Window: a.Window.String(),
		Method: a.Method, NoData: a.NoData, PeriodFrom: timeOrNil(r.Period.From), PeriodTo: timeOrNil(r.Period.To), HasData: r.HasData,
		Score: number(r.Score, r.HasData), Low: number(r.Low, true), High: number(r.High, true), Informative: r.Informative, Breached: r.Breached, Level: r.Level,
		Missing: r.Missing, Components: []componentJSON{}, Costs: costs,
	}
	if c := chart.WorstComponent(r); c != nil {
		out.Worst = &c.Name
	}
	for _, c := range r.Components {
		out.Components = append(out.Components, componentJSON{
			Name: c.Name, SLO: c.SLO, Weight: c.Weight, HasData: c.HasData, Indicator: number(c.Indicator, c.HasData), Objective: c.Objective,
			Attainment: number(c.Attainment, c.HasData), Points: number(c.Points, c.HasData), Lost: number(c.Lost, c.HasData),
			Counts: NewCounts(c.Counts), Coverage: number(c.Coverage, true), Note: c.Note,
		})
	}
	return out
}

type SLAList struct {
	Report reportJSON `json:"report"`
	Items  []slaJSON  `json:"items"`
}

type ViolationsJSON struct {
	Within   uint64 `json:"within"`
	Warning  uint64 `json:"warning"`
	Critical uint64 `json:"critical"`
}

// thresholdDefinition is what a spec says of an event threshold.
type thresholdDefinition struct {
	Service  string   `json:"service"`
	Name     string   `json:"name"`
	Match    string   `json:"match"`
	Warning  *float64 `json:"warning_seconds"`
	Critical *float64 `json:"critical_seconds"`
	Each     string   `json:"each,omitempty"`
	GroupBy  []string `json:"group_by,omitempty"`
}

func newThresholdDefinition(t *slo.Threshold) thresholdDefinition {
	return thresholdDefinition{
		t.Service, t.Name, t.Match.String(), number(t.Warning.Seconds(), t.Warning > 0), number(t.Critical.Seconds(), t.Critical > 0), t.Each, t.GroupBy,
	}
}

type thresholdJSON struct {
	thresholdDefinition
	Total     ViolationsJSON `json:"total"`
	Day       ViolationsJSON `json:"last_24h"`
	Month     ViolationsJSON `json:"last_30d"`
	LastEvent *time.Time     `json:"last_event"`

	Groups []thresholdGroupJSON `json:"groups,omitempty"` // with group_by
}

type thresholdGroupJSON struct {
	Group     map[string]string `json:"group"`
	Total     ViolationsJSON    `json:"total"`
	Day       ViolationsJSON    `json:"last_24h"`
	Month     ViolationsJSON    `json:"last_30d"`
	LastEvent *time.Time        `json:"last_event"`
}

func newThreshold(l sla.ThresholdReport) thresholdJSON {
	out := thresholdJSON{
		thresholdDefinition: newThresholdDefinition(l.Threshold), Total: ViolationsJSON(l.Total), Day: ViolationsJSON(l.Day), Month: ViolationsJSON(l.Month),
		LastEvent: timeOrNil(l.LastEvent),
	}
	for _, g := range l.Groups {
		out.Groups = append(out.Groups, thresholdGroupJSON{
			groupJSON(l.Threshold.GroupBy, g.Group), ViolationsJSON(g.Total), ViolationsJSON(g.Day), ViolationsJSON(g.Month), timeOrNil(g.LastEvent),
		})
	}
	return out
}

type thresholdList struct {
	Report reportJSON      `json:"report"`
	Items  []thresholdJSON `json:"items"`
}

type engineJSON struct {
	status.Engine
	Report        reportJSON   `json:"report"`
	Version       site.Version `json:"version"`
	UptimeSeconds float64      `json:"uptime_seconds"`
	Warnings      []string     `json:"warnings"` // of the spec
}
