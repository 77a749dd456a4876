package series

import (
	"slices"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Values of LabelResult.
const (
	ResultGood = "good"
	ResultBad  = "bad"
)

// WindowPeriod is the value of LabelWindow for the SLO's own window; the others
// are durations such as 5m.
const WindowPeriod = "period"

// Values of AlertState.
const (
	AlertPending = 1
	AlertFiring  = 2
)

const (
	unitEvents = "events"
	ratio      = "0 to 1"
	points     = "0 to 100"
)

var (
	noData     = metric.Absent("without data")
	noCapacity = metric.Absent("unless the throughput has a `capacity`")
	noForecast = metric.Absent("without a forecast of the group")
	throughput = metric.Absent("unless the indicator is of throughput")
	volume     = metric.Absent("unless the indicator is a volume")
	work       = metric.Absent("unless the indicator is of completion")
	stage      = metric.Named(LabelStage, "value of the stage attribute")
	bySpec     = metric.Extra("group_by of the spec")
	result     = metric.OneOf(LabelResult, "good bad")
	component  = metric.Named(LabelComponent, "component")
)

// ofSLO are the labels of every series of an SLO, and more.
func ofSLO(more ...metric.Option) []metric.Option {
	return append([]metric.Option{
		metric.Named(LabelSLOID, "service/slo"), metric.Named(LabelService, "service"),
		metric.Named(LabelSLO, "name of the SLO"),
	}, more...)
}

func ofSLA(more ...metric.Option) []metric.Option {
	return append(
		[]metric.Option{metric.Named(LabelService, "service"), metric.Named(LabelSLA, "name of the agreement")}, more...)
}

// Levels are the series of every SLO and agreement in the specs.
var Levels = metric.NewPart("Service levels and agreements",
	"One set of series for each SLO and agreement in the specs. Absent from /metrics while the engine recovers, because "+
		"a partial count would look like a reset.")

// The series of SLOs, one per SLO and group.
var (
	Events = Levels.Counter("slo_events_total", "events or slices",
		"Valid events of the SLO by result, or closed slices of time where slices are judged, since its counts began. "+
			"Without backfills and late replays. Half of a tolerated event of an apdex is good, and all events of a volume are.",
		ofSLO(result, bySpec, metric.Absent("if the indicator is a ratio, which has slo_part_events_total"))...)
	// BackfilledEvents is exported for groups that have some. No rule takes a rate of it: a backfill of thirty days
	// arrives within seconds.
	BackfilledEvents = Levels.Counter("slo_backfilled_events_total", unitEvents,
		"Valid events of the SLO by result that were backfilled, or replayed more than a minute after their time, since "+
			"its counts began. These are events even where slices are judged.",
		ofSLO(result, bySpec, metric.Absent("until something is backfilled"))...)
	Cost = Levels.Counter("slo_cost_total", "units of the currency",
		"Cost of the bad events of the SLO, or of its bad slices of time, since its counts began: as slo_events_total "+
			"counts them, times the price of the spec. It survives restarts as these counts do, and a new price is a new basis.",
		ofSLO(metric.Named(LabelCurrency, "such as EUR"), metric.Named(LabelBasis, "such as 12.50 EUR per bad event"), bySpec,
			metric.Absent("without cost in the spec"))...)
	SLIRatio = Levels.Gauge("slo_sli_ratio", ratio,
		"Share of good events among valid events over the SLO's window, 0 to 1, without planned maintenance. Absent "+
			"without data.", ofSLO(bySpec, noData)...)
	BudgetRemaining = Levels.Gauge("slo_error_budget_remaining_ratio", "1 and less",
		"Share of the error budget that is left in the SLO's window: 1 is untouched, below 0 is overspent. Absent without "+
			"data.", ofSLO(bySpec, noData)...)
	BurnRate = Levels.Gauge("slo_burn_rate", "multiple of the rate that spends the budget in one period",
		"Rate at which the error budget is spent over a window: 1 spends all of it in exactly one period. Absent without "+
			"data.",
		ofSLO(metric.OneOf(LabelWindow, "5m 30m 1h 2h 6h 1d 3d period"), bySpec, noData)...)
	Coverage = Levels.Gauge("slo_coverage_ratio", ratio,
		"Share of the SLO's window, 0 to 1, in which events were observed.", ofSLO(bySpec)...)
	// The forecasts are of the groups that the engine forecasts. What is Beyond has no sample.
	ForecastRemaining = Levels.Gauge("slo_forecast_budget_remaining_ratio", "1 and less",
		"Budget that will remain at a time ahead, as slo_error_budget_remaining_ratio says it. 90 % of the futures lie "+
			"between the quantiles 0.05 and 0.95.",
		ofSLO(metric.OneOf(LabelAhead, "1h 1d 3d 7d window_end"), metric.OneOf(LabelQuantile, "0.05 0.5 0.95"),
			bySpec, noForecast)...)
	ForecastExhausted = Levels.Gauge("slo_forecast_exhausted_probability", ratio,
		"Probability that the budget is exhausted at some time up to the lead time. 1 if it is exhausted already. An "+
			"SLO with `exhausted_soon` also has the time of its alert as a lead time.",
		ofSLO(metric.Named(LabelAhead, "1h, 1d, 3d, 7d, window_end, or the time of the alert"), bySpec, noForecast)...)
	ForecastExhaustion = Levels.Gauge("slo_forecast_exhaustion_seconds", "seconds",
		"Time until the budget is exhausted. 0 if it is exhausted already. A quantile that lies beyond the forecast, a "+
			"week or the end of a calendar window, is absent.",
		ofSLO(metric.OneOf(LabelQuantile, "0.05 0.5 0.95"), bySpec, noForecast)...)
	Info = Levels.Gauge(
		"slo_info", "1", "Always 1. Carries the objective in percent, the window, and the SLO's own labels.",
		ofSLO(metric.Named(LabelObjective, "percent"), metric.Named(LabelWindow, "such as 30d"),
			metric.Extra("labels of the spec"))...)
)

// The series of work in flight. Work that has no group of its own is in the "other" group, and a stage without work has
// no series.
var (
	InFlight = Levels.Gauge("slo_in_flight", "work",
		"Work that has started and not finished, by stage, including overdue work. The stage is empty for work without one.",
		ofSLO(stage, bySpec, work)...)
	InFlightOverdue = Levels.Gauge("slo_in_flight_overdue", "work",
		"Work that has not finished and whose deadline passed, by stage. It counts as bad.", ofSLO(stage, bySpec, work)...)
	InFlightOldest = Levels.Gauge("slo_in_flight_oldest_age_seconds", "seconds",
		"Time since the start of the oldest work that has not finished. 0 if nothing is in flight.", ofSLO(work)...)
	InFlightUntracked = Levels.Counter("slo_in_flight_untracked_total", unitEvents,
		"Start events that were not tracked, because max_in_flight was reached. They lower coverage.", ofSLO(work)...)
)

// The series that the engine exports for slices of time. Rules need them where the counts of good and bad are not
// enough.
var (
	SliceRatio = Levels.Counter("slo_slice_ratio_total", "slices",
		"Sum of the shares of good events, 0 to 1 each, of closed slices since the SLO's counts began.",
		ofSLO(bySpec, metric.Absent("unless the method is ratio_timeslices"))...)
	SliceAchieved = Levels.Counter("slo_slice_achieved_events_total", unitEvents,
		"Events of closed slices, each slice up to its target, since the SLO's counts began.", ofSLO(bySpec, throughput)...)
	// CapacityEvents is what rules compute a utilization from, of all engines together.
	CapacityEvents = Levels.Counter("slo_capacity_events_total", unitEvents,
		"Valid events of a throughput with a capacity, at any time of day, since its counts began. Without backfills and "+
			"late replays.", ofSLO(bySpec, noCapacity)...)
	PeakMinute = Levels.Gauge("slo_peak_minute_events", unitEvents,
		"Valid events of the busiest whole minute of the last hour, also outside open hours.", ofSLO(bySpec, throughput)...)
	CapacityUtilization = Levels.Gauge("slo_capacity_utilization_ratio", ratio,
		"Valid events of the last five minutes as a share of the capacity in the spec. More than 1 is possible.",
		ofSLO(bySpec, noCapacity)...)
	CapacityHeadroom = Levels.Gauge("slo_capacity_headroom_events_per_second", "events per second",
		"Capacity in the spec less the valid events per second of the last five minutes. Negative beyond the capacity.",
		ofSLO(bySpec, noCapacity)...)
	CapacityPeak = Levels.Gauge("slo_capacity_peak_utilization_ratio", ratio,
		"Share of the capacity that the busiest hour of the week uses, by the last five weeks and their growth.",
		ofSLO(bySpec, noCapacity)...)
	CapacityReached = Levels.Gauge("slo_capacity_reached_seconds", "seconds",
		"Time until the busiest hour of the week is at the capacity, if traffic keeps growing as in the last weeks. 0 if "+
			"it is there. Absent if that is not within twelve weeks.",
		ofSLO(metric.OneOf(LabelBound, "earliest latest"), bySpec, noCapacity)...)
	SliceTarget = Levels.Counter("slo_slice_target_events_total", unitEvents,
		"Events that closed slices should have had, since the SLO's counts began.", ofSLO(bySpec, throughput)...)
)

// The series of indicators that count by other arithmetic than good and bad events.
var (
	// PartEvents is what rules compute a ratio from: numerator and denominator only grow, what one is short of the other
	// does not.
	PartEvents = Levels.Counter("slo_part_events_total", unitEvents,
		"Events that the counts of a ratio or an apdex are made of, since the SLO's counts began. Without backfills and "+
			"late replays. An event may be in both parts of a ratio.",
		ofSLO(metric.OneOf(LabelPart, "numerator denominator satisfied tolerated frustrated"), bySpec,
			metric.Absent("unless the indicator is a ratio or an apdex"))...)
	VolumeEvents = Levels.Gauge("slo_volume_events", unitEvents,
		"Valid events of the present day, week or month of a volume so far. Outside its open hours those of the last ones.",
		ofSLO(bySpec, volume)...)
	VolumeTarget = Levels.Gauge("slo_volume_target_events", unitEvents,
		"Events that a day, week or month of a volume needs to be good.", ofSLO(bySpec, volume)...)
	VolumeExpected = Levels.Gauge("slo_volume_expected_events", unitEvents,
		"Events that reach the target of a volume if the rest of its present day, week or month is as usual: the target "+
			"times the share that came by this time in the last four, or times the share of the time that is over if there "+
			"are none.", ofSLO(bySpec, volume)...)
)

// The series of agreements, one per agreement and group.
var (
	CompositeScore = Levels.Gauge("sla_composite_score", points,
		"Composite score of the agreement, 0 to 100. Absent without data.", ofSLA(bySpec, noData)...)
	ComponentScore = Levels.Gauge("sla_component_score", points,
		"Points of one component of the agreement before weighting, 0 to 100. Absent without data.",
		ofSLA(component, bySpec, noData)...)
	// BandEvents is exported for components with bands, for each group of the agreement.
	BandEvents = Levels.Counter("sla_band_events_total", unitEvents,
		"Events with a duration of at most le seconds, cumulative over le, of a component with bands, since its counts "+
			"began. Without backfills and late replays.",
		ofSLA(component, metric.Named(LabelLE, "seconds"), bySpec, metric.Absent("unless the score is of bands"))...)
	Violations = Levels.Counter("sla_violations_total", unitEvents,
		"Events that exceeded an event threshold, by its name and the severity of the violation. Without backfills and "+
			"late replays.",
		ofThreshold()...)
	ViolationsDay = Levels.Gauge("sla_violations_last_day", unitEvents,
		"Events of the last 24 hours that exceeded an event threshold, by their own time, with backfills and late replays.",
		ofThreshold()...)
	Up = Levels.Gauge("slo_up", "0 or 1",
		"1 if the share of good events of the last 5 minutes is at least the objective, 0 if it is below. Absent without "+
			"valid events in them.",
		ofSLO(bySpec, noData)...)
)

func ofThreshold() []metric.Option {
	return []metric.Option{
		metric.Named(LabelSLAType, "name of the event threshold"), metric.OneOf(LabelSeverity, "warning critical"),
		metric.Named(LabelService, "service"),
		metric.Extra("group_by of the threshold"), metric.Absent("without event thresholds in the spec"),
	}
}

// The series of whole services and of alerts, which package metric defines beside the engine's other families.
var (
	EngineEvents  = metric.Events
	EventDuration = metric.EventDurationSeconds
	AlertState    = metric.AlertState
)

// All lists every exported series of this package, in the order of the documentation.
func All() []*metric.Family {
	return append(slices.Clone(Levels.Families), EngineEvents, EventDuration, AlertState)
}
