package sla

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

// Report is everything the engine knows at one tick. It is made once, never
// changed, and is what page, API, metrics and notifier all read.
type Report struct {
	Version   uint64        // grows by one with every report of a process
	Time      time.Time     // the tick: the right edge of every window
	Watermark time.Time     // receive time of the last record that is counted
	Took      time.Duration // how long it took to make

	SLOs       []SLOReport // by ID, then group, the "other" group last
	SLAs       []SLAReport // by service, name, then group; without those that have only SLOs on Prometheus series
	Thresholds []ThresholdReport
	Traffic    []TrafficReport
	Durations  []DurationReport
	InFlight   []slo.InFlight // of SLOs of completion, by ID
	Warnings   []string       // of the spec, such as weights that were normalised

	Outlooks *Outlooks // nil if nothing is forecast
}

// Work finds what is in flight of an SLO. It is nil if the SLO is not one of completion.
func (r *Report) Work(id slo.ID) *slo.InFlight {
	for i := range r.InFlight {
		if r.InFlight[i].SLO == id {
			return &r.InFlight[i]
		}
	}
	return nil
}

// Waiting reports whether the state is ok by old counts only: nothing was counted in the shortest burn window, of which
// the engine has not observed all. So it is for up to five minutes after a start, until a first event.
func (r *SLOReport) Waiting() bool {
	if r.State != slo.StateOK || len(r.Burns) == 0 {
		return false
	}
	b := &r.Burns[0]
	return !b.Period && !b.HasData && b.Observed < 1
}

// SLOReport is one SLO in one group.
type SLOReport struct {
	SLO         *slo.SLO
	Group       slo.Group
	Informative bool // the "other" group: shown, never alerted on

	State     slo.State
	Budget    slo.Budget // with corrections taken out: what counts
	Raw       slo.Budget // without corrections
	Burns     []slo.Burn // slo.BurnWindows in order, then the period; corrected
	RawBurns  []slo.Burn
	TierBurns []slo.Burn // over the windows of the SLO's own tiers that Burns lacks, shortest first; corrected
	// over the last ten minutes and the ten before, corrected; nil unless an agreement of the service alerts on their
	// difference
	Trend  []slo.Burn
	Period slo.Span // the window, from its start to the tick

	// Received are the burns that alert conditions go by if some events were received more than a minute off their time,
	// or were no new traffic, by lateness, as slo.Lateness has it; nil if conditions go by Burns, TierBurns and Trend.
	Received []ReceivedBurns

	// time that corrections took out of Period: rounded outward, as slo.TakenOut says, and to whole slices where these are
	// judged
	Corrected time.Duration

	Coverage float64 // of Period, in [0,1]: share of it that was observed

	// Understated says, of a report on several engines, that one of them counted events of this group in the "other"
	// group.
	Understated bool

	Generation uint32    // of its counts
	Since      time.Time // start of the generation
	LastEvent  time.Time // latest valid event; zero if none
	// events (half events, closed slices) since the generation began, without Backfilled; of a volume all are good
	Total      slo.Counts
	Backfilled slo.Counts    // events since the generation began that were no new traffic: backfills and late replays
	Events     slo.Counts    // over Period, raw, in events even where slices are judged; zero for throughput bad
	Rate       float64       // valid events per second over the last 5 minutes
	Arrivals   float64       // the same by receive time, whatever their lateness
	PeakMinute uint64        // of a throughput: valid events of the busiest whole minute of the last hour
	Slice      time.Duration // > 0 when slices are judged
	Slices     SliceTotals   // of closed slices, since the generation began
	Unmeasured uint64        // matching events without the duration, or the key of their work, that they needed

	// EventsTotal are the valid events since the generation began, without Backfilled, of a throughput with a capacity.
	// They are 0 for all others.
	EventsTotal uint64

	// Parts are what the counts of a ratio or an apdex are made of, in the order of slo.IndicatorKind.PartNames. They are
	// nil for all others.
	Parts *PartCounts

	// Volume is the present period of an SLO on a volume; nil for all others.
	Volume *VolumeReport

	Outlook *Outlook // nil if there is none yet, or none of this group
}

// ReceivedBurns are burns over windows of up to six hours that count events by the time at which they were received,
// without backfills and events that came later than the longest window of a condition.
type ReceivedBurns struct {
	Burns, Raw []slo.Burn // with corrections taken out, and without; burn windows first
	Trend      []slo.Burn // as SLOReport.Trend
	Later      uint64     // valid events of the last six hours that are left out for their lateness
}

// Condition is the burn over a window, with corrections taken out, as an alert condition whose longest window is long
// counts it; nil if the report lacks it.
func (r *SLOReport) Condition(w, long time.Duration) *slo.Burn {
	if r.Received != nil {
		if b := burnOver(r.Received[slo.LatenessOf(long)].Burns, w); b != nil {
			return b
		}
	}
	return r.Burn(w)
}

// Burn is the burn over a window by event time, with corrections taken out; nil if the report lacks it.
func (r *SLOReport) Burn(w time.Duration) *slo.Burn {
	if b := burnOver(r.Burns, w); b != nil {
		return b
	}
	return burnOver(r.TierBurns, w)
}

// RawCondition is Condition without corrections, for a burn window.
func (r *SLOReport) RawCondition(w, long time.Duration) *slo.Burn {
	if r.Received != nil {
		if b := burnOver(r.Received[slo.LatenessOf(long)].Raw, w); b != nil {
			return b
		}
	}
	return burnOver(r.RawBurns, w)
}

func burnOver(burns []slo.Burn, w time.Duration) *slo.Burn {
	for i := range burns {
		if burns[i].Window == w && !burns[i].Period {
			return &burns[i]
		}
	}
	return nil
}

// PartCounts are events by part. Backfills and late replays are in Backfilled alone.
type PartCounts struct {
	Period            []uint64 // over the period of the SLO, with corrections taken out
	Total, Backfilled []uint64 // since the generation began
}

// VolumeReport is how far the present day, week or month has come. Outside the open hours of a volume it is the last
// one.
type VolumeReport struct {
	slo.Span        // of the whole period
	Events   uint64 // valid ones in it so far
	Target   uint64

	// Expected is how many events reach the target if the rest of the period is as usual: the target times the share that
	// usually came by now, which Usual periods tell. Without any the share is that of the time that is over.
	Expected float64
	Usual    int

	// Missed is the last period that is over and was judged bad; zero if none in the window was.
	Missed       slo.Span
	MissedEvents uint64
}

// SliceTotals are what closed slices add up to, for counters.
type SliceTotals struct {
	Ratio            float64 // sum of their shares of good events
	Achieved, Target uint64  // throughput: events, no more than the target of each; the targets
}

// SLAReport is one agreement in one group.
type SLAReport struct {
	SLA         *Agreement
	Group       slo.Group
	Informative bool // the "other" group: shown, never alerted on

	Period  slo.Span
	HasData bool    // some component has data, or the no-data policy decided
	Score   float64 // 0 to 100
	// what the score would be if the missing components were worst or best; equal to Score if none is missing
	Low, High float64
	// some component attains less than 1, or has no data where that is declared bad, whatever the score; never if
	// Informative
	Breached   bool
	Level      Level // of Score against the agreement's alert thresholds; if Informative only LevelOK or LevelNoData
	Components []ComponentReport
	Worst      int // index into Components of the one that lost most; -1 if nothing was lost
	Missing    int // components without data

	// Alert is the same over the agreement's AlertWindow, which alerts go by; nil
	// if it has none. Its own Alert is nil.
	Alert *SLAReport
}

// SetGroup says which group the report is about. For the "other" group it removes
// the verdicts: a mix of groups without an agreement breaches nothing and
// alerts nobody. Scores and components stay.
func (r *SLAReport) SetGroup(g slo.Group) {
	r.Group, r.Informative = g, g.IsOther()
	if !r.Informative {
		return
	}
	r.Breached = false
	if r.Level != LevelNoData {
		r.Level = LevelOK
	}
}

// Level grades a score.
type Level string

// The levels of a score.
const (
	LevelOK       Level = "ok"
	LevelWarning  Level = "warning"
	LevelCritical Level = "critical"
	LevelNoData   Level = "no_data"
)

// ComponentReport is one part of a score.
type ComponentReport struct {
	Name       string
	SLO        slo.ID
	Weight     float64 // normalised, in [0,1]; of all components, also missing ones
	HasData    bool
	Indicator  float64 // over the agreement's window, corrected
	Objective  float64
	Attainment float64 // in [0,1]: min(1, (1-objective)/(1-indicator))
	Points     float64 // what it scored, in [0,1], by the agreement's scoring method
	Lost       float64 // score points (of 100) that it cost: 100 x weight x (1-points)
	Counts     slo.Counts
	// of the agreement's window, in [0,1]: share in which the engine was running and counting, the lowest of all groups
	Observed float64
	Coverage float64     // the same, times the share of events that no limit dropped
	Bands    []BandTotal // of a component with bands, rising; the last is everything measured
	Note     string      // such as "p95 within 15m" for a band
}

// BandTotal counts the events within a band's threshold since the counts began,
// without backfills and late replays.
type BandTotal struct {
	Threshold time.Duration // 0 in the last one, which counts every measured event
	Count     uint64
}

// ThresholdReport is one event threshold with its violations.
type ThresholdReport struct {
	Threshold *slo.Threshold
	// Total since its generation began, without backfills and late replays, and over the last 24 hours and 30 days.
	Total, Day, Month Violations
	LastEvent         time.Time

	// Groups are the same by the threshold's GroupBy, by values, the "other" group last; nil without. Their sums are
	// those above.
	Groups []ThresholdGroup
}

// ThresholdGroup is one group of an event threshold.
type ThresholdGroup struct {
	Group             slo.Group
	Total, Day, Month Violations
	LastEvent         time.Time
}

// Worst are the groups with most critical violations over the last 30 days, then
// most warnings; at most n, and none without violations.
func (r *ThresholdReport) Worst(n int) []ThresholdGroup {
	out := slices.DeleteFunc(slices.Clone(r.Groups), func(g ThresholdGroup) bool {
		return g.Month.Critical+g.Month.Warning == 0
	})
	order.By(out, func(x, y *ThresholdGroup) int {
		return cmp.Or(cmp.Compare(y.Month.Critical, x.Month.Critical), cmp.Compare(y.Month.Warning, x.Month.Warning))
	})
	return out[:min(n, len(out))]
}

// Add adds other violations.
func (v *Violations) Add(o Violations) {
	v.Within, v.Warning, v.Critical = v.Within+o.Within, v.Warning+o.Warning, v.Critical+o.Critical
}

// Violations by severity; Within are matching events that did not exceed the threshold.
type Violations struct {
	Within, Warning, Critical uint64
}

// TrafficReport is the cumulative number of events of one kind, without backfills
// and late replays.
type TrafficReport struct {
	Service, Type, Outcome, Severity string
	DimensionNames, DimensionValues  []string
	Count                            uint64
	LastEvent                        time.Time
}

// DurationReport is the cumulative duration histogram of one service, type, outcome
// and so on, without backfills and late replays.
type DurationReport struct {
	Service, Type, Outcome string
	DimensionNames         []string
	DimensionValues        []string
	Buckets                []time.Duration // upper bounds
	Counts                 []uint64        // per bucket, one more for +Inf, not cumulative over buckets
	Sum                    time.Duration   // stays at the longest Duration, 292 years
	SumSeconds             float64         // the same without that bound
}
