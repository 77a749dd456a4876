package slo

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ID names an SLO everywhere: "service/slo". Both halves match [a-z0-9._-]+.
type ID string

// NewID joins a service and the name of one of its SLOs.
func NewID(service, name string) ID { return ID(service + "/" + name) }

// Service is the half before the slash.
func (id ID) Service() string { s, _, _ := strings.Cut(string(id), "/"); return s }

// Name is the half after the slash.
func (id ID) Name() string { _, n, _ := strings.Cut(string(id), "/"); return n }

// OtherGroup is the value that every group label takes in the group that
// collects what came after MaxGroups was reached. It informs and never alerts.
const OtherGroup = "__other__"

// None is how a missing attribute, which matches as "", is shown to people.
const None = "(none)"

// Group is one combination of values of an SLO's GroupBy labels, in that order.
// It is empty for an SLO without grouping. The values are untrusted text.
type Group []string

// Key is a map key for the group; different groups of one SLO have different keys.
func (g Group) Key() string { return strings.Join(g, "\xff") }

// IsOther reports whether the group is the one beyond MaxGroups.
func (g Group) IsOther() bool { return len(g) > 0 && g[0] == OtherGroup }

// SLO is one objective on one indicator of one service, after the spec has been
// read and checked. With GroupBy it stands for one SLO per group.
type SLO struct {
	ID          ID
	Was         ID // the ID before a rename, whose counts are kept; "" if none
	Description string
	Labels      map[string]string // the team's own
	Links       map[string]string // URLs by name, for those who are on call

	Objective Objective
	Window    Window
	Budgeting Budgeting
	Indicator Indicator

	GroupBy   []string // attribute or event field names
	MaxGroups int      // groups beyond fold into OtherGroup
	Expect    []Group  // groups that exist before their first event

	Corrections []Correction // those that name this SLO, or all SLOs
	CausedBy    []Cause      // SLOs whose faults this one suffers from
	Alerting    Alerting
	Cost        *Cost // of violations; nil if none is stated

	// Earlier says that this is not the definition that the spec files have: it stays in force until the counts of that
	// one are rebuilt.
	Earlier bool
}

// IndicatorKind says how events become good, bad or not counted.
type IndicatorKind string

// The kinds of indicator that a spec can name.
const (
	KindEvents     IndicatorKind = "events"     // bad if the Bad selector matches
	KindLatency    IndicatorKind = "latency"    // bad if slower than Threshold
	KindThroughput IndicatorKind = "throughput" // slices of time with too few events are bad
	KindRatio      IndicatorKind = "ratio"      // one count of events over another, such as connected over applied
	KindApdex      IndicatorKind = "apdex"      // half bad if slower than Satisfied, bad if slower than Tolerating
	KindVolume     IndicatorKind = "volume"     // days, weeks or months with too few events are bad
	KindCompletion IndicatorKind = "completion" // work that starts must finish in time
	KindPrometheus IndicatorKind = "prometheus" // existing series: in rules, and counted if a source reads them
)

// Indicator (SLI) says which events count and which of them are good.
type Indicator struct {
	Kind  IndicatorKind
	Valid Selector // which events count; empty matches every event of the service
	Bad   Selector // KindEvents: which valid events are bad (bad = valid and bad)

	Threshold time.Duration // KindLatency: an event is good if its duration is <= Threshold

	// KindRatio: Valid selects the denominator, Numerator what is counted over it. An event may be in both, in one, or
	// in neither. See RatioCounts.
	Numerator Selector

	// KindApdex: an event is satisfied if its duration is <= Satisfied, else tolerated if it is <= Tolerating, else
	// frustrated. See ApdexCounts.
	Satisfied, Tolerating time.Duration

	// KindVolume: a period of Calendar, which is Day, Week or Month in the zone Location, is good if at least AtLeast
	// valid events have their time in it. Only days on which During is open count.
	Calendar CalendarUnit
	Location *time.Location

	// KindThroughput: a slice of length Per inside During is good if at least
	// AtLeast valid events have their time in it.
	AtLeast uint64
	Per     time.Duration
	During  Schedule
	// Capacity is how much traffic the service can take; zero if the spec does not say.
	Capacity Capacity

	Completion Completion // KindCompletion, which has no Valid

	// KindPrometheus says what is counted in one of four forms, which PromForm
	// tells apart. The fields of the other forms are empty.

	// PromCounters: selectors of counters, without range, offset or function. One
	// of PromBad and PromGood is set; bad is total - good where only the good are
	// counted, such as the bucket of a histogram (le="0.4") of its _count. A query
	// that is no more than sum(rate(selector[$window])) was made into this form by
	// the reader, since everything longer can be had from two recorded rates.
	PromBad, PromGood, PromTotal string

	// PromSource is the source of the engine that reads the counters; "": none does, and the indicator is in rules only.
	// It is not part of the spec.
	PromSource string
	PromAlerts AlertsBy      // with PromSource: who alerts; "": rules if that Prometheus has them, else the engine
	PromEvery  time.Duration // with PromSource: how often queries are evaluated, as slices of time; 0: counters are read

	// PromQueries: PromQL with PromWindow for the window, at least once in each.
	// One of PromBadQuery and PromGoodQuery is set. A query gives a number of
	// events, or a rate, of the window: only the ratio of two queries with the same
	// window means something. An absent result stands for 0 bad (or 0 good), and
	// for no data where the total is absent. A query gives one sample for each
	// group, with the labels of GroupBy; wrap it in sum by (GroupBy) to be sure.
	PromBadQuery, PromGoodQuery, PromTotalQuery string

	// PromRatio: PromQL that gives the error ratio of the window, 0 to 1, with
	// PromWindow at least once, one sample for each group. How many events it
	// stands for is unknown, so a longer window is the mean over time of shorter
	// ones, or the query with the longer window.
	PromErrorRatioQuery string

	// PromThreshold: PromQL without a window whose samples are good if
	// "query PromOp PromValue" holds, one sample for each group. The indicator is
	// the share of good samples: an evaluation that gives a sample is a valid event,
	// so the error ratio is 1 - avg_over_time((query <=bool 5)[w:]). Absent samples
	// are no data.
	PromQuery string
	PromOp    Comparison
	PromValue float64
}

// Capacity is an amount of traffic: so many events per time.
type Capacity struct {
	Events uint64
	Per    time.Duration
}

// IsZero reports whether no capacity is known.
func (c Capacity) IsZero() bool { return c.Events == 0 }

// PerSecond is the capacity in events per second.
func (c Capacity) PerSecond() float64 { return float64(c.Events) / c.Per.Seconds() }

// String is the capacity as in a spec, such as "120 per 1m".
func (c Capacity) String() string {
	return strconv.FormatUint(c.Events, 10) + " per " + FormatDuration(c.Per)
}

// Completion says which events start work and which end it. Work is told apart by the attribute Key. It is good if it
// finishes within Within of its start, in the minute of the finish, and else bad, in the minute of its deadline or of
// the event that says that it failed.
type Completion struct {
	Started, Finished Selector
	Failed            Selector // empty: only the deadline fails work
	Key               string   // attribute
	Stage             string   // attribute that says how far work is; "" if there is none
	Within            time.Duration
	MaxInFlight       int // work beyond it is not tracked
}

// PromWindow is the placeholder for the window in queries of an indicator; it
// stands for a Prometheus duration such as 5m. See PromAt.
const PromWindow = "$window"

// PromAt is the query of an indicator for one window, which is printed as by
// FormatDuration.
func PromAt(query string, window time.Duration) string {
	return strings.ReplaceAll(query, PromWindow, FormatDuration(window))
}

// PromForm is how an indicator on Prometheus series says what it counts.
type PromForm string

// The forms of KindPrometheus; PromNone is that of all other kinds.
const (
	PromNone      PromForm = ""
	PromCounters  PromForm = "counters"
	PromQueries   PromForm = "queries"
	PromRatio     PromForm = "ratio"
	PromThreshold PromForm = "threshold"
)

// PromForm tells the form of an indicator of KindPrometheus.
func (i *Indicator) PromForm() PromForm {
	switch {
	case i.Kind != KindPrometheus:
		return PromNone
	case i.PromTotal != "":
		return PromCounters
	case i.PromTotalQuery != "":
		return PromQueries
	case i.PromErrorRatioQuery != "":
		return PromRatio
	}
	return PromThreshold
}

// RulesOnly reports whether nothing is counted for the indicator by the engine.
func (i *Indicator) RulesOnly() bool { return i.Kind == KindPrometheus && i.PromSource == "" }

// PromStream names what the source of the indicator observes for the SLO: a pair of counters, or queries for slices of
// one length. SLOs on the same counters have a stream each, since each of them may begin with its history.
func (s *SLO) PromStream() string {
	i := &s.Indicator
	text := string(s.promID()) + "\n" + i.PromTotal + "\n" + i.PromBad + "\n" + i.PromGood
	if i.PromForm() != PromCounters {
		text = fmt.Sprintf("%s %q %q %q %q %q %s %v %s", s.promID(), i.PromTotalQuery, i.PromBadQuery, i.PromGoodQuery,
			i.PromErrorRatioQuery, i.PromQuery, i.PromOp, i.PromValue, s.JudgedSlice())
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s %x", i.PromSource, sum[:8])
}

// promID is the ID under which a source counts the SLO: after a rename the one before, whose positions are in the log.
func (s *SLO) promID() ID {
	if s.Was != "" {
		return s.Was
	}
	return s.ID
}

// PromType is the type of the events that a source of counters makes for the SLO.
func (s *SLO) PromType() string { return s.promID().Name() }

// PromServerStream names what one of several servers of a source observes for an SLO, by the stream of the SLO.
func PromServerStream(stream, server string) string { return stream + "\n#" + server }

// PromGroupStream names what is observed of the groups of an SLO with these values of attributes: from one of several
// servers, say, each of which has its region.
func PromGroupStream(stream string, values map[string]string) string {
	text := strings.Builder{}
	text.WriteString(stream + "\n")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text.WriteString(strconv.Quote(name) + strconv.Quote(values[name]))
	}
	return text.String()
}

// PromStreamOf takes the name of a stream apart. Values are nil of others than those of PromGroupStream.
func PromStreamOf(name string) (stream string, values map[string]string) {
	stream, part, _ := strings.Cut(name, "\n")
	for part != "" {
		var pair [2]string
		for i := range pair {
			quoted, err := strconv.QuotedPrefix(part)
			if err == nil {
				part = part[len(quoted):]
				pair[i], err = strconv.Unquote(quoted)
			}
			if err != nil {
				return stream, nil
			}
		}
		if values == nil {
			values = map[string]string{}
		}
		values[pair[0]] = pair[1]
	}
	return stream, values
}

// PromService is the service of the events that a source of counters makes for an SLO, whose type is PromType. No event
// from elsewhere can have it, and no selector of events finds it.
func PromService(id ID) string { return id.Service() + "~prometheus" }

// PromAttribute is the attribute of these events that has the value of a label: its name, unless events have a field of
// that name.
func PromAttribute(label string) string {
	switch label {
	case "service", "type", "outcome", "severity":
		return "label_" + label
	}
	if strings.HasPrefix(label, "label_") {
		return "label_" + label
	}
	return label
}

// Counted selects the events that begin what is counted: valid ones, or those that start work.
func (i *Indicator) Counted() Selector {
	if i.Kind == KindCompletion {
		return i.Completion.Started
	}
	return i.Valid
}

// Comparison compares a sample with a value.
type Comparison string

// The comparisons, spelt as in PromQL.
const (
	Less     Comparison = "<"
	NotAbove Comparison = "<="
	Greater  Comparison = ">"
	NotBelow Comparison = ">="
)

// Holds compares a sample with a value.
func (c Comparison) Holds(x, value float64) bool {
	switch c {
	case Less:
		return x < value
	case NotAbove:
		return x <= value
	case Greater:
		return x > value
	}
	return x >= value
}

// BudgetMethod says what is counted against the budget.
type BudgetMethod string

// The budgeting methods; the names are OpenSLO's.
const (
	Occurrences     BudgetMethod = "occurrences"      // good events / valid events
	Timeslices      BudgetMethod = "timeslices"       // good slices / slices with events
	RatioTimeslices BudgetMethod = "ratio_timeslices" // mean of the slices' own ratios
)

// Budgeting is a method and, for the timeslice methods, its parameters.
type Budgeting struct {
	Method BudgetMethod
	Slice  time.Duration // length of a slice, aligned to the epoch
	Target Objective     // Timeslices: a slice is good if its own ratio is >= Target
}

// Alerting is the part of an SLO's spec that the rule generators read.
type Alerting struct {
	// By is who alerts on counters of a Prometheus that the engine reads; "": as its source says. The engine knows the
	// alerts in any case, and has incidents.
	By        AlertsBy
	Name      string // alert name that the user wants to keep, such as that of a Sloth spec; "" = the generators' own
	Tiers     []Tier // own burn-rate tiers; empty means Tiers, the usual four
	MinEvents uint64 // do not page on fewer events in the long window

	NoSpecLabels bool // alerts have none of the SLO's Labels
	// FalsePages is how many pages a year chance may cause in one group; 0 = DefaultFalsePages.
	FalsePages float64
	Page       AlertSettings // burns that need a person now
	Ticket     AlertSettings // burns that need a person this week
	NoData     AlertSettings // nothing valid arrives any more
	Soon       SoonAlert     // the budget will probably be empty soon
	Left       []LeftAlert   // little of the budget is left
}

// AlertsBy is who sends the alerts on counters of a Prometheus.
type AlertsBy string

// Senders of alerts. With AlertsBoth, Alertmanager deduplicates what it gets from both.
const (
	AlertsRules AlertsBy = "rules" // in the Prometheus
	AlertsLive  AlertsBy = "live"  // the engine
	AlertsBoth  AlertsBy = "both"
)

// SoonAlert is the alert on a forecast: the budget is empty within a time, with a probability.
type SoonAlert struct {
	Within      time.Duration // at most a week; 0: there is no such alert
	Probability float64       // in (0,1)
	AlertSettings
}

// LeftAlert is an alert on a budget of which at most a share is left.
type LeftAlert struct {
	Share float64 // in (0,1)
	Page  bool
}

// AlertSettings are what a user may change of one kind of alert.
type AlertSettings struct {
	Disabled    bool
	For         time.Duration
	Labels      map[string]string
	Annotations map[string]string // may hold templates of Prometheus; they win over the generators' own
}

// Threshold is an agreement about single events: a matching event that exceeds it is a violation.
type Threshold struct {
	Service  string
	Name     string
	Match    Selector
	Warning  time.Duration // an event slower than this is a warning; 0 = no such level
	Critical time.Duration // an event slower than this is critical; 0 = no such level
	// Each, if not empty, makes every matching event a violation of that
	// severity ("warning" or "critical") whatever its duration.
	Each string

	// GroupBy are attributes whose values violations are counted by; beyond
	// MaxGroups combinations, values share OtherGroup.
	GroupBy   []string
	MaxGroups int // 0 without GroupBy
}
