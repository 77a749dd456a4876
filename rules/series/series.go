package series

import "slices"

// Type is the Prometheus type of a series.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Label names that more than one series carries, or whose values are fixed.
const (
	LabelSLOID     = "slo_id" // "service/slo"
	LabelService   = "service"
	LabelSLO       = "slo"
	LabelSLA       = "sla"
	LabelResult    = "result" // ResultGood or ResultBad
	LabelWindow    = "window" // such as 5m, or WindowPeriod
	LabelObjective = "objective"
	LabelComponent = "component"
	LabelSLAType   = "sla_type" // the name of an event threshold
	LabelType      = "type"
	LabelOutcome   = "outcome"
	LabelSeverity  = "severity"
)

// Values of LabelResult.
const (
	ResultGood = "good"
	ResultBad  = "bad"
)

// WindowPeriod is the value of LabelWindow for the SLO's own window; the others
// are durations such as 5m.
const WindowPeriod = "period"

// Series is one exported metric family.
type Series struct {
	Name   string
	Help   string
	Type   Type
	Labels []string // the fixed ones, in order; those that the spec adds follow

	// Extra says which labels the spec adds after the fixed ones.
	Extra Extra
}

// Extra is where the labels come from that a series has besides its fixed ones.
type Extra string

// The sources of further labels.
const (
	ExtraNone       Extra = ""
	ExtraGroups     Extra = "groups"     // the group_by labels of the SLO or SLA
	ExtraLabels     Extra = "labels"     // the user's own labels of the SLO
	ExtraDimensions Extra = "dimensions" // attributes that the service's counters are split by
)

// The series of SLOs, one per SLO and group.
var (
	Events = Series{
		Name: "slo_events_total", Type: Counter, Extra: ExtraGroups,
		Help:   "Valid events of the SLO by result, or closed slices of time where slices are judged, since its counts began. Without backfills and late replays.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO, LabelResult},
	}
	// BackfilledEvents is exported for groups that have some. Nobody takes a rate of
	// it: thirty days of it come within seconds.
	BackfilledEvents = Series{
		Name: "slo_backfilled_events_total", Type: Counter, Extra: ExtraGroups,
		Help:   "Valid events of the SLO by result that were backfilled, or replayed more than a minute after their time, since its counts began; events even where slices are judged.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO, LabelResult},
	}
	SLIRatio = Series{
		Name: "slo_sli_ratio", Type: Gauge, Extra: ExtraGroups,
		Help:   "Share of good among valid events over the SLO's window, 0 to 1, planned maintenance taken out. Absent without data.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO},
	}
	BudgetRemaining = Series{
		Name: "slo_error_budget_remaining_ratio", Type: Gauge, Extra: ExtraGroups,
		Help:   "Share of the error budget that is left in the SLO's window: 1 is untouched, below 0 is overspent. Absent without data.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO},
	}
	BurnRate = Series{
		Name: "slo_burn_rate", Type: Gauge, Extra: ExtraGroups,
		Help:   "Speed at which the error budget is spent over a window: 1 spends all of it in exactly one period. Absent without data.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO, LabelWindow},
	}
	Coverage = Series{
		Name: "slo_coverage_ratio", Type: Gauge, Extra: ExtraGroups,
		Help:   "Share of the SLO's window, 0 to 1, in which events were observed.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO},
	}
	Info = Series{
		Name: "slo_info", Type: Gauge, Extra: ExtraLabels,
		Help:   "Always 1. Carries the objective in percent, the window, and the SLO's own labels.",
		Labels: []string{LabelSLOID, LabelService, LabelSLO, LabelObjective, LabelWindow},
	}
)

// The series of agreements, one per agreement and group.
var (
	CompositeScore = Series{
		Name: "sla_composite_score", Type: Gauge, Extra: ExtraGroups,
		Help:   "Composite score of the agreement, 0 to 100. Absent without data.",
		Labels: []string{LabelService, LabelSLA},
	}
	ComponentScore = Series{
		Name: "sla_component_score", Type: Gauge, Extra: ExtraGroups,
		Help:   "Points of one component of the agreement before weighting, 0 to 100. Absent without data.",
		Labels: []string{LabelService, LabelSLA, LabelComponent},
	}
	Violations = Series{
		Name: "sla_violations_total", Type: Counter,
		Help:   "Events that exceeded an event threshold, by its name and the severity of the violation. Without backfills and late replays.",
		Labels: []string{LabelSLAType, LabelSeverity, LabelService},
	}
)

// The series of whole services, independent of any SLO.
var (
	EngineEvents = Series{
		Name: "sloengine_events_total", Type: Counter, Extra: ExtraDimensions,
		Help:   "Events counted, by service, type, outcome and severity. Without backfills and late replays.",
		Labels: []string{LabelService, LabelType, LabelOutcome, LabelSeverity},
	}
	EventDuration = Series{
		Name: "sloengine_event_duration_seconds", Type: Histogram,
		Help:   "Durations of events, with buckets at the thresholds that the specs use. Without backfills and late replays.",
		Labels: []string{LabelService, LabelType},
	}
)

// All lists every series of this package, in the order of the documentation.
func All() []Series {
	return []Series{
		Events, BackfilledEvents, SliceRatio, SliceAchieved, SliceTarget, SLIRatio, BudgetRemaining, BurnRate, Coverage, Info,
		CompositeScore, ComponentScore, BandEvents, Violations,
		EngineEvents, EventDuration, AlertState,
	}
}

// LabelNames is the full list of label names of the series: its fixed labels,
// then one for each of extra. An extra name is made a valid Prometheus label
// name (anything outside [a-zA-Z0-9_] becomes "_"); one that is taken, or that
// Prometheus keeps for itself (le, quantile, a leading "__"), gets the prefix
// "exported_", as a scrape would give it.
func (s Series) LabelNames(extra ...string) []string {
	names := make([]string, 0, len(s.Labels)+len(extra))
	names = append(names, s.Labels...)
	for _, e := range extra {
		n := sanitise(e)
		for reserved(n) || slices.Contains(names, n) {
			n = "exported_" + n
		}
		names = append(names, n)
	}
	return names
}

func reserved(n string) bool {
	return n == "le" || n == "quantile" || len(n) > 1 && n[:2] == "__"
}

func sanitise(name string) string {
	b := []byte(name)
	for i, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c >= '0' && c <= '9':
		default:
			b[i] = '_'
		}
	}
	if len(b) == 0 || b[0] >= '0' && b[0] <= '9' {
		b = append([]byte{'_'}, b...)
	}
	return string(b)
}
