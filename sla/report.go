package sla

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Report is everything the engine knows at one tick. It is made once, never
// changed, and is what page, API, metrics and notifier all read.
type Report struct {
	Version   uint64        // grows by one with every report of a process
	Time      time.Time     // the tick: the right edge of every window
	Watermark time.Time     // receive time of the last record that is counted
	Took      time.Duration // how long it took to make

	SLOs      []SLOReport // by ID, then group, the "other" group last
	SLAs      []SLAReport // by service, name, then group
	Limits    []LimitReport
	Traffic   []TrafficReport
	Durations []DurationReport
	Warnings  []string // of the spec, such as weights that were normalised
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
	Period    slo.Span      // the window, from its start to the tick
	Corrected time.Duration // time that corrections took out of Period

	Coverage   float64       // of Period, in [0,1]: share of it that was observed
	Generation uint32        // of its counts
	Since      time.Time     // start of the generation
	LastEvent  time.Time     // latest valid event; zero if none
	Total      slo.Counts    // events (or closed slices) since the generation began
	Events     slo.Counts    // over Period, raw, in events even where slices are judged; zero for throughput bad
	Rate       float64       // valid events per second over the last 5 minutes
	Slice      time.Duration // > 0 when slices are judged
	Unmeasured uint64        // matching events without the duration they needed
}

// SLAReport is one agreement in one group.
type SLAReport struct {
	SLA   *Agreement
	Group slo.Group

	Period     slo.Span
	HasData    bool    // some component has data, or the no-data policy decided
	Score      float64 // 0 to 100
	Low, High  float64 // what the score would be if the missing components were worst or best; equal to Score if none is missing
	Breached   bool    // some component attains less than 1, whatever the score
	Level      Level   // of Score against the agreement's alert thresholds
	Components []ComponentReport
	Worst      int // index into Components of the one that lost most; -1 if nothing was lost
	Missing    int // components without data
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
	Coverage   float64
	Note       string // such as "p95 within 15m" for a band
}

// LimitReport is one per-event agreement with its violations.
type LimitReport struct {
	Limit *slo.Limit
	// Total since its generation began, and over the last 24 hours and 30 days.
	Total, Day, Month Violations
	LastEvent         time.Time
}

// Violations by severity; Within are matching events that kept the limit.
type Violations struct {
	Within, Warning, Critical uint64
}

// TrafficReport is the cumulative number of events of one kind.
type TrafficReport struct {
	Service, Type, Outcome, Severity string
	DimensionNames, DimensionValues  []string
	Count                            uint64
	LastEvent                        time.Time
}

// DurationReport is the cumulative duration histogram of one service and type.
type DurationReport struct {
	Service, Type string
	Buckets       []time.Duration // upper bounds
	Counts        []uint64        // per bucket, one more for +Inf, not cumulative over buckets
	Sum           time.Duration   // stays at the longest Duration, 292 years
	SumSeconds    float64         // the same without that bound
}
