// Package spec reads what users write: YAML files that describe services, their
// SLOs, event thresholds, corrections and agreements, as values of slo and sla.
//
// Besides the own format it reads Sloth's prometheus/v1 and Kubernetes resource,
// Pyrra's resource, the configuration of slo-generator, SLOs of Nobl9, and OpenSLO
// v1 and v1alpha.
// Every document says what it is, so files of all formats can be loaded together;
// Write writes any of them in the own format. A query that is no more than the rate
// of a counter is taken apart into the counter's selector.
//
// It is strict. Unknown keys, wrong types, doubtful units and references to
// what does not exist are problems, and all of them are reported at once, each
// with file, line, column and what to do about it. What another format says and
// this one cannot is an error too; what is taken in a way that the writer may not
// have meant is a warning. Nothing is dropped in silence.
//
// It knows nothing of how events are counted, stored or served, of the engine's
// own settings, and of the clock: the same files always give the same Spec.
package spec

import (
	"bytes"
	_ "embed"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Version is the version key of the own format.
const Version = "sloengine/v1"

// DefaultMaxGroups is the number of groups that an SLO with group_by may have
// when it does not say max_groups.
const DefaultMaxGroups = 1000

// DefaultDimensions are the attributes that a service's counters are split by
// when it does not say dimensions.
var DefaultDimensions = []string{"error_type"}

// DefaultBuckets are the upper bounds of the duration histogram of a service that
// does not say buckets.
var DefaultBuckets = []time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
}

// File is one file to read. Its name is only used in problems and sources.
type File struct {
	Name string
	Data []byte
}

// Spec is everything that the files say, checked. It must not be changed.
type Spec struct {
	SLOs       []*slo.SLO       // by ID
	Thresholds []*slo.Threshold // by service, in the order of the files within one
	Agreements []*sla.Agreement // by service, then name
	Baselines  []*slo.Baseline  // by service, in the order of the files within one
	Services   []Service        // by name
	Warnings   []string         // the warnings among the problems, as text
	Sources    []Source         // where each SLO, event threshold and agreement is written
}

// Service is a service that some file describes.
type Service struct {
	Name        string
	Description string
	// Types are the event types that the service sends, sorted; empty means any.
	// Unless a file lists them they are those that the selectors name.
	Types []string
	// AdmitUnknownTypes stores events of other types, which nothing counts.
	AdmitUnknownTypes bool
	// Dimensions are the attributes that the service's counters are split by.
	Dimensions []string

	// Buckets are upper bounds of the service's duration histogram, ascending. The
	// thresholds in use are added to them. Nil if not known.
	Buckets []time.Duration
	Labels  map[string]string
	Links   map[string]string
}

// Kind says what a Source is the source of.
type Kind string

// The kinds of source.
const (
	KindSLO       Kind = "slo"
	KindThreshold Kind = "threshold"
	KindSLA       Kind = "sla"
)

// Source is the place where something is written.
type Source struct {
	Kind    Kind
	Service string
	Name    string
	Position
}

// Source finds where something is written.
func (s *Spec) Source(k Kind, service, name string) (Source, bool) {
	for _, src := range s.Sources {
		if src.Kind == k && src.Service == service && src.Name == name {
			return src, true
		}
	}
	return Source{}, false
}

// The parts of a problem, as the reader reports them.
type (
	Position = yamldoc.Position
	Problem  = yamldoc.Problem
	Problems = yamldoc.Problems
	Severity = yamldoc.Severity
)

// The severities. Only errors keep a spec from being used.
const (
	Error   = yamldoc.SeverityError
	Warning = yamldoc.SeverityWarning
)

//go:embed starter.yaml
var starter []byte

// Starter is a commented spec to begin with, for the service of that name. It
// is valid if the name is.
func Starter(service string) []byte {
	return bytes.ReplaceAll(starter, []byte("SERVICE"), []byte(service))
}

// draft is one document, in no particular format, before it is checked against
// the others. What could not be read is missing from it and already reported.
type draft struct {
	service string
	at      Position

	description   string
	descriptionAt Position

	// perDocument says that the labels are those of this document, whatever others
	// of the service say; its SLOs have them already.
	perDocument bool

	labels     map[string]string
	labelAt    map[string]Position
	links      map[string]string
	linkAt     map[string]Position
	types      []string // as listed
	anyType    bool     // said to be any
	admits     bool     // unknown types
	admitsAt   Position
	dimensions []string
	hasDims    bool
	buckets    []time.Duration
	hasBuckets bool

	slos        []*sloDraft
	corrections []*correctionDraft
	thresholds  []*thresholdDraft
	slas        []*slaDraft
	baselines   []*baselineDraft
}

// named is text with its place.
type named struct {
	name string
	at   Position
}

type sloDraft struct {
	*slo.SLO
	service     string
	at          Position // of its name
	objectiveAt Position
	was         *named
	valid       *selector // nil if nothing says which events count
	numerator   *selector // of a ratio
	finished    *selector // of completion, beside valid, which is what starts work
	failed      *selector
	withinAt    Position // of completion
	causes      []causeDraft
	groupsKnown bool // group_by could be read
	kindKnown   bool
	ok          bool             // nothing is wrong with it by itself
	covered     []slo.Correction // that leave nothing of a window
}

type correctionDraft struct {
	slo.Correction
	at   Position
	slos []named
	lost bool // its time zone is unknown
}

type thresholdDraft struct {
	*slo.Threshold
	at    Position
	match *selector
}

type slaDraft struct {
	*sla.Agreement
	at         Position
	weightsAt  Position
	components []componentDraft
	groups     []named
	catalogue  []catalogueDraft
	ok         bool
}

// catalogueDraft is one chosen entry of the catalogue of alerts.
type catalogueDraft struct {
	name string
	slos []named
}

type componentDraft struct {
	sla.Component
	slo     named
	bandsAt Position
	ok      bool
}

// Windows and slices are bounded by what the engine keeps and resolves.
const (
	day       = 24 * time.Hour
	minWindow = time.Hour
	maxWindow = 366 * day
	minSlice  = 10 * time.Second
	maxSlice  = day

	defaultWindow = 30 * day
)

// feasible warns of what can be written but does not work: slices too long, and an
// objective that says how much may fail. Which alerts are left out is for the lint of
// package alerts, which makes them.
func (a *assembly) feasible(s *sloDraft) {
	if !s.ok {
		return
	}
	a.slices(s)
	a.completion(s)
	a.volumes(s)
	// The ratio of two counts, such as a conversion, has any objective.
	// zero: it was not understood
	if !s.Objective.IsZero() && s.Objective.Ratio() < 0.5 && s.Indicator.Kind != slo.KindRatio {
		a.Warnf(s.objectiveAt, "the objective is the good share, not the allowed failure share",
			"slo %s: an objective of %s lets most events fail", s.ID.Name(), s.Objective)
	}
}

func (a *assembly) slices(s *sloDraft) {
	slice := s.Budgeting.Slice
	if s.Indicator.Kind == slo.KindThroughput {
		slice = s.Indicator.Per
	}
	if slice == 0 {
		return
	}
	if period := s.Window.Nominal(); slice > period/2 {
		a.Errorf(s.at, "use shorter slices or a longer window", "slo %s: slices of %s are longer than half the window (%s)",
			s.ID.Name(), slo.FormatDuration(slice), s.Window)
		return
	}
	for _, t := range tiers(s.Alerting) {
		if t.Page && !s.Alerting.Page.Disabled && slice > t.Short {
			a.Warnf(s.at, "use shorter slices, or `alerting: {page: {disabled: true}}`",
				"slo %s: slices of %s are longer than %s, the short window of the page alert, which would rarely contain one",
				s.ID.Name(), slo.FormatDuration(slice), slo.FormatDuration(t.Short))
			return
		}
	}
}

// tiers are the burn-rate tiers of an SLO.
func tiers(a slo.Alerting) []slo.Tier {
	if len(a.Tiers) > 0 {
		return a.Tiers
	}
	return slo.Tiers
}

// covering warns of corrections that, alone or together, leave nothing of an SLO's window, so
// that it has no data: a maintenance that is written as daily and takes a day, for one. about
// are the names of the SLOs that c corrects.
func (a *assembly) covering(s *assembled, c *correctionDraft, about []string) {
	if c.Start.IsZero() || c.Duration == 0 {
		return
	}
	var covered []*sloDraft
	for _, name := range about {
		// Once for those that do it, and not again for others in the same time.
		if sd := s.slos[name]; sd.ok && leavesNothing(sd.Corrections, c.Correction, sd.Window) &&
			!leavesNothing(sd.covered, c.Correction, sd.Window) {
			sd.covered = append(sd.covered, c.Correction)
			covered = append(covered, sd)
		}
	}
	if len(covered) == 0 {
		return
	}
	first := covered[0]
	more := ""
	if n := len(covered) - 1; n > 0 {
		more = fmt.Sprintf(" (and of %d more)", n)
	}
	a.Warnf(c.at, "shorten it, make it recur less often, or list the affected SLOs in `slos`",
		"correction %s: starting at %s, corrections exclude the whole window (%s) of slo %q%s, which then has no data",
		yamldoc.Printable(c.Name), c.Start.Format("2006-01-02T15:04Z07:00"), first.Window, first.ID.Name(), more)
}

// leavesNothing reports whether the window that begins with c is taken out as a whole.
func leavesNothing(all []slo.Correction, c slo.Correction, w slo.Window) bool {
	whole := slo.Span{From: c.Start, To: c.Start.Add(w.Nominal())}
	// Mostly the time right after the first occurrence tells.
	near := slo.Span{From: c.Start, To: c.Start.Add(c.Duration + slo.CorrectionStep)}
	return takesOut(all, near.Intersect(whole)) && takesOut(all, whole)
}

func takesOut(all []slo.Correction, sp slo.Span) bool {
	out := slo.TakenOut(all, sp)
	return len(out) == 1 && out[0] == sp
}
