package slo

import (
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
	Labels      map[string]string // the team's own; on the info series only

	Objective Objective
	Window    Window
	Budgeting Budgeting
	Indicator Indicator

	GroupBy   []string // attribute or event field names
	MaxGroups int      // groups beyond fold into OtherGroup
	Expect    []Group  // groups that exist before their first event

	Corrections []Correction // those that name this SLO, or all SLOs
	Alerting    Alerting
}

// IndicatorKind says how events become good, bad or not counted.
type IndicatorKind string

// The kinds of indicator that a spec can name.
const (
	KindEvents     IndicatorKind = "events"     // bad if the Bad selector matches
	KindLatency    IndicatorKind = "latency"    // bad if slower than Threshold
	KindThroughput IndicatorKind = "throughput" // slices of time with too few events are bad
	KindPrometheus IndicatorKind = "prometheus" // existing series: rules only, never folded
)

// Indicator (SLI) says which events count and which of them are good.
type Indicator struct {
	Kind  IndicatorKind
	Valid Selector // which events count; empty matches every event of the service
	Bad   Selector // KindEvents: which valid events are bad (bad = valid and bad)

	Threshold time.Duration // KindLatency: an event is good if its duration is <= Threshold

	// KindThroughput: a slice of length Per inside During is good if at least
	// AtLeast valid events have their time in it.
	AtLeast uint64
	Per     time.Duration
	During  Schedule

	// KindPrometheus: selectors of counters, as written. One of PromBad and
	// PromGood is set; bad is total - good where only the good are counted.
	PromBad, PromGood, PromTotal string
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
	MinEvents uint64        // do not page on fewer events in the long window
	Page      AlertSettings // burns that need a person now
	Ticket    AlertSettings // burns that need a person this week
}

// AlertSettings are what a user may change of one alert severity.
type AlertSettings struct {
	Disabled bool
	For      time.Duration
	Labels   map[string]string
}

// Limit is a per-event agreement: a matching event that breaks it is a violation.
type Limit struct {
	Service  string
	Name     string
	Match    Selector
	Warning  time.Duration // an event slower than this is a warning; 0 = no such level
	Critical time.Duration // an event slower than this is critical; 0 = no such level
	// Each, if not empty, makes every matching event a violation of that
	// severity ("warning" or "critical") whatever its duration.
	Each string
}
