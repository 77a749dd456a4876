package series

// The names that the profile minimal records besides error ratios, Objective and PeriodBudgetRemaining.
const (
	// events since the last evaluation; :5m of the last five minutes, :month of the calendar window
	ValidCount = "slo:valid_events"
	BadCount   = "slo:bad_events"

	// Maintenance is 1 while the counters may hold events that corrections take out, and absent otherwise.
	Maintenance = "slo:maintenance"
)

// Evidence is the name of the evidence of a window such as "1h" that more is bad than the objective allows.
func Evidence(window string) string { return "slo:evidence:" + window }

// CountedOver is the name of the events in the window of a ticket such as "3d", where the SLO has min_events.
func CountedOver(window string) string { return ValidCount + ":" + window }

// Held is the name of the bad share of a short window, which lasts at little traffic.
func Held(window string) string { return "slo:sli_error:held" + window }

// The names that the rules record for every SLO and group. Rates are per second.
const (
	BadEvents   = "slo:bad_events:rate5m"   // bad events, zero-filled
	ValidEvents = "slo:valid_events:rate5m" // events that count

	// Zero for every group that has a rate or had one within half an hour.
	ValidEventsZero = "slo:valid_events:zero30m"

	BadEvents30m   = "slo:bad_events:rate30m"
	ValidEvents30m = "slo:valid_events:rate30m"
	BadEvents1h    = "slo:bad_events:rate1h"
	ValidEvents1h  = "slo:valid_events:rate1h"

	// Events of the last five minutes, recorded every five minutes: their sum over
	// a longer window is the number of events in it.
	BadEventsIncrease   = "slo:bad_events:increase5m"
	ValidEventsIncrease = "slo:valid_events:increase5m"

	// How many engines count an SLO now, and which share of the time since the last
	// evaluation it was counted: by how many of the most engines that did at once
	// within the last hour. Absent while none does.
	Engines  = "slo:engines"
	Observed = "slo:observed"

	// Observed seconds of the last five minutes, recorded every five minutes: their
	// sum over a longer window is the time of it that was observed.
	ObservedIncrease = "slo:observed:increase5m"

	ObservedRatioPrefix = "slo:observed:ratio" // followed by the window; see ObservedRatio

	ErrorRatioPrefix = "slo:sli_error:ratio_rate" // followed by the window; see ErrorRatio

	CurrentBurnRate       = "slo:current_burn_rate:ratio"             // over 5m
	PeriodBurnRate        = "slo:period_burn_rate:ratio"              // over the SLO's window
	PeriodBudgetRemaining = "slo:period_error_budget_remaining:ratio" // 1 is untouched, below 0 is overspent

	// Cost of the last five minutes, recorded every five minutes for SLOs with a cost: its sum over a longer window is the
	// cost of it. Without planned maintenance.
	CostIncrease = "slo:cost:increase5m"

	// Traffic of a throughput as a share of its capacity, for SLOs with one.
	CapacityUsed5m   = "slo:capacity_utilization:ratio5m"
	CapacityUsed1h   = "slo:capacity_utilization:ratio1h"
	CapacityUsedPeak = "slo:capacity_utilization:ratio1h_max7d" // of the busiest hour of the last seven days

	SliceAchievedRate = "slo:slice_achieved_events:rate5m" // throughput: min(count, target) of closed slices
	SliceTargetRate   = "slo:slice_target_events:rate5m"   // throughput: target of closed slices
)

// The names that the rules record once for every SLO, whatever its groups.
const (
	Objective      = "slo:objective:ratio"
	ErrorBudget    = "slo:error_budget:ratio"
	TimePeriod     = "slo:time_period:days"
	Capacity       = "slo:capacity:per_second"        // events per second that the service can take
	CostBaseline   = "slo:cost_baseline:per_second"   // what violations cost before
	CostInvestment = "slo:cost_investment:per_second" // what is spent on keeping the SLO
	RecordedInfo   = "slo:info"                       // always 1; carries the labels of the team
	SlothInfo      = "sloth_slo_info"
)

// The names of the literal tables, which the rules record once per service, as
// Unix times in seconds.
const (
	PeriodStart     = "slo:period_start:seconds"     // start of the calendar window that contains now
	PeriodEnd       = "slo:period_end:seconds"       // its end
	CorrectionStart = "slo:correction_start:seconds" // of what corrections take out of the windows
	CorrectionEnd   = "slo:correction_end:seconds"   // where what they touched has left the 5m rates
	TablesEnd       = "slo:tables_end:seconds"       // nothing later is in the tables
)

// The names that the rules record for every agreement and group.
const (
	RecordedComponentScore = "sla:component_score:ratio" // points of one component, 0 to 1
	RecordedCompositeScore = "sla:composite_score:ratio" // 0 to 100
	RecordedCompositeLow   = "sla:composite_score_low:ratio"
	RecordedCompositeHigh  = "sla:composite_score_high:ratio"
	RecordedObservedScore  = "sla:observed_score:ratio"   // CompositeScore if the time that was not observed had been good
	ComponentWeight        = "sla:component_weight:ratio" // normalised, 0 to 1
	BandEventsRate         = "sla:band_events:rate5m"     // events within le seconds, cumulative over le
)

// ErrorRatio is the name of the recorded error ratio of a window such as "1h",
// or of a calendar unit such as "month".
func ErrorRatio(window string) string { return over(ErrorRatioPrefix, window) }

// ObservedRatio is the name of the recorded share, 0 to 1, of a window that was
// observed; it is 0 and not absent where nothing was.
func ObservedRatio(window string) string { return over(ObservedRatioPrefix, window) }

// ValidEventsOver is the name of the recorded rate of valid events over a window
// such as "6h".
func ValidEventsOver(window string) string { return "slo:valid_events:rate" + window }

func over(prefix, window string) string {
	if len(window) > 0 && (window[0] < '0' || window[0] > '9') {
		return prefix + "_" + window
	}
	return prefix + window
}

// CompositeScoreOver is the name of the recorded score over an agreement's alert window, such as "1h".
func CompositeScoreOver(window string) string { return RecordedCompositeScore + window }

// ObservedScoreOver is the name of the recorded observed score over such a window.
func ObservedScoreOver(window string) string { return RecordedObservedScore + window }
