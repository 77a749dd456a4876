package v1

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// Report is the evaluation that an answer is made from.
type Report struct {
	Version   uint64     `json:"version"` // 0: no report yet
	Time      *time.Time `json:"time"`
	Watermark *time.Time `json:"watermark"`
	Stale     bool       `json:"stale"`
	State     string     `json:"state"` // of the engine, such as ready
}

// Counts are events, or slices where these are judged.
type Counts struct {
	Good  uint64 `json:"good"`
	Bad   uint64 `json:"bad"`
	Valid uint64 `json:"valid"`
}

// Budget is an error budget. Remaining is below 0 if more was spent than there was.
type Budget struct {
	HasData   bool     `json:"has_data"`
	SLI       *float64 `json:"sli"`
	Consumed  *float64 `json:"consumed"`
	Remaining *float64 `json:"remaining"`
	Counts    Counts   `json:"counts"`
}

// Burn is how fast a budget was spent over a window. At a rate of 1 it is empty when the window of the SLO ends.
type Burn struct {
	Window  string   `json:"window"` // such as 5m, or period
	Seconds float64  `json:"seconds"`
	Rate    *float64 `json:"rate"`
	Counts  Counts   `json:"counts"`
}

// Source is where in the spec an SLO was written.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// SLO is one group of an SLO.
type SLO struct {
	ID          slo.ID            `json:"id"`
	Service     string            `json:"service"`
	SLO         string            `json:"slo"`
	Group       map[string]string `json:"group"`
	Informative bool              `json:"informative"`
	Description string            `json:"description"`
	Labels      map[string]string `json:"labels"`
	Links       map[string]string `json:"links,omitempty"`
	Kind        slo.IndicatorKind `json:"kind"`
	Objective   float64           `json:"objective"`
	Percent     string            `json:"objective_percent"`
	Window      string            `json:"window"`
	Budgeting   slo.BudgetMethod  `json:"budgeting"`
	Source      *Source           `json:"source"`

	State      slo.State  `json:"state"`
	Paging     bool       `json:"paging"`     // a page fires on the group, whatever is left of its budget
	Waiting    bool       `json:"waiting"`    // ok by old counts only: no event yet since the engine started
	Budget     Budget     `json:"budget"`     // planned maintenance taken out: what counts
	Raw        Budget     `json:"raw_budget"` // everything
	Burns      []Burn     `json:"burn_rates"`
	RawBurns   []Burn     `json:"raw_burn_rates"`
	PeriodFrom *time.Time `json:"period_from"`
	PeriodTo   *time.Time `json:"period_to"`
	Corrected  float64    `json:"corrected_seconds"`
	Coverage   *float64   `json:"coverage"`
	Generation uint32     `json:"generation"`
	Since      *time.Time `json:"since"`
	LastEvent  *time.Time `json:"last_event"`
	Total      Counts     `json:"total"`
	Backfilled Counts     `json:"backfilled"`
	Events     Counts     `json:"events"`
	Rate       *float64   `json:"events_per_second"`
	Slice      float64    `json:"slice_seconds"` // 0: events are judged
	Unmeasured uint64     `json:"unmeasured"`

	// of a ratio or an apdex: events of the period that its counts are made of
	Parts  map[string]uint64 `json:"parts,omitempty"`
	Volume *Volume           `json:"volume,omitempty"` // of a volume

	// Understated: in a view, some engine counted events of this group in its "other" group.
	Understated bool `json:"understated,omitempty"`

	// Cost of violations in the period, if the spec states one. Of one group of several it is compared with nothing.
	Cost     *sla.SLOCost `json:"cost,omitempty"`
	Forecast *Forecast    `json:"forecast"` // null if the group has none
	Capacity *Capacity    `json:"capacity"` // null without a capacity in the spec
}

// Volume is how far the present day, week or month has come.
type Volume struct {
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	Events   uint64     `json:"events"`
	Target   uint64     `json:"target"`
	Expected float64    `json:"expected"` // by now, to reach the target if the rest is as usual
	Usual    int        `json:"usual"`    // periods that tell what is usual; 0: the time that is over does
	Missed   *time.Time `json:"last_missed"`
}

// SLOList answers /api/v1/slos.
type SLOList struct {
	Report  Report   `json:"report"`
	Failing *Failing `json:"failing,omitempty"` // what fails now, whatever the request selects; absent if nothing does
	Total   int      `json:"total"`
	Items   []SLO    `json:"items"`
	Next    string   `json:"next_cursor,omitempty"` // absent on the last page
}

// SLOAnswer answers /api/v1/slos/{service}/{slo}.
type SLOAnswer struct {
	Report  Report         `json:"report"`
	SLO     SLO            `json:"slo"`
	Work    *Work          `json:"in_flight,omitempty"` // of an SLO of completion, in the group
	Costs   *sla.Costs     `json:"costs,omitempty"`     // of all groups of the SLO, if the spec states a cost
	Engines []EngineCounts `json:"engines,omitempty"`   // of a view

	Traces []Trace `json:"failing_traces"` // of the last bad events of the group, the newest first

	UsualWeek *forecast.Week `json:"usual_week,omitempty"` // valid events of each hour, from Monday 00:00 UTC on
}

// Trace is a trace with an event that counted as bad.
type Trace struct {
	ID       string    `json:"trace_id"`
	Time     time.Time `json:"time"` // of the event, as are the following
	Type     string    `json:"type"`
	Outcome  string    `json:"outcome"`
	Duration *float64  `json:"duration_seconds"` // null if it had none
	URL      string    `json:"url,omitempty"`    // absent without web.trace_url
}

// EngineCounts is what one engine of a view counted over the period, planned maintenance included.
type EngineCounts struct {
	Engine   string     `json:"engine"`
	Stale    bool       `json:"stale"`       // not in the numbers: the counts are those of its last answer
	Answered *time.Time `json:"answered_at"` // when that came
	Counts   *Counts    `json:"counts"`      // null if it does not have the group
	Other    bool       `json:"in_other"`    // it may have counted the group's events in its "other" group
}

// HistoryPoint is one step of a history.
type HistoryPoint struct {
	Start time.Time `json:"start"`
	Good  uint64    `json:"good"`
	Bad   uint64    `json:"bad"`
	Ratio *float64  `json:"ratio"`
}

// History answers /api/v1/slos/{service}/{slo}/history.
type History struct {
	ID          slo.ID            `json:"id"`
	Group       map[string]string `json:"group"`
	From        time.Time         `json:"from"`
	To          time.Time         `json:"to"`
	StepSeconds float64           `json:"step_seconds"`
	Points      []HistoryPoint    `json:"points"` // raw counts
}

// Component is an SLO in the score of an agreement.
type Component struct {
	Name       string   `json:"name"`
	SLO        slo.ID   `json:"slo_id"`
	Weight     float64  `json:"weight"`
	HasData    bool     `json:"has_data"`
	Indicator  *float64 `json:"indicator"`
	Objective  float64  `json:"objective"`
	Attainment *float64 `json:"attainment"`
	Points     *float64 `json:"points"`
	Lost       *float64 `json:"lost"`
	Counts     Counts   `json:"counts"`
	Coverage   *float64 `json:"coverage"`
	Note       string   `json:"note"`
}

// SLA is one group of an agreement.
type SLA struct {
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
	Components  []Component       `json:"components"`
	Costs       *sla.Costs        `json:"costs,omitempty"` // of its components, if one has a cost
}

// SLAList answers /api/v1/slas.
type SLAList struct {
	Report Report `json:"report"`
	Items  []SLA  `json:"items"`
}

// Violations count events by the level of a threshold that they exceed.
type Violations struct {
	Within   uint64 `json:"within"`
	Warning  uint64 `json:"warning"`
	Critical uint64 `json:"critical"`
}

// ThresholdDefinition is what a spec says of an event threshold.
type ThresholdDefinition struct {
	Service  string   `json:"service"`
	Name     string   `json:"name"`
	Match    string   `json:"match"`
	Warning  *float64 `json:"warning_seconds"`
	Critical *float64 `json:"critical_seconds"`
	Each     string   `json:"each,omitempty"`
	GroupBy  []string `json:"group_by,omitempty"`
}

// Threshold is an event threshold.
type Threshold struct {
	ThresholdDefinition
	Total     Violations `json:"total"`
	Day       Violations `json:"last_24h"`
	Month     Violations `json:"last_30d"`
	LastEvent *time.Time `json:"last_event"`

	Groups []ThresholdGroup `json:"groups,omitempty"` // with group_by
}

// ThresholdGroup is one group of an event threshold.
type ThresholdGroup struct {
	Group     map[string]string `json:"group"`
	Total     Violations        `json:"total"`
	Day       Violations        `json:"last_24h"`
	Month     Violations        `json:"last_30d"`
	LastEvent *time.Time        `json:"last_event"`
}

// ThresholdList answers /api/v1/thresholds.
type ThresholdList struct {
	Report Report      `json:"report"`
	Items  []Threshold `json:"items"`
}
