package evaluator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Inputs is the spec as far as the engine measures it.
type Inputs struct {
	SLOs       []*slo.SLO
	Thresholds []*slo.Threshold
	Agreements []*sla.Agreement

	// Services are those that may send events. Compile adds the services that
	// are only named by SLOs, and the buckets of every duration histogram.
	Services []fold.Service

	Warnings []string // of the spec; they go into every report
}

// Windows of limits, and the time that is kept beyond the longest window so
// that its left edge never falls off.
const (
	thresholdDay    = 24 * time.Hour
	thresholdMonth  = 30 * 24 * time.Hour
	retentionMargin = 10 * time.Minute
)

// Compile turns the spec into what the fold counts. The result depends on the
// inputs' content only, not on their order. SLOs on Prometheus series are left
// out. All problems are returned at once, joined.
func Compile(in Inputs) (*fold.Config, error) {
	c := compiler{
		indicators: map[string]*fold.Indicator{},
		services:   map[string]*fold.Service{},
		slos:       map[slo.ID]*slo.SLO{},
	}
	for _, s := range in.Services {
		c.service(s.Name, s)
	}
	for _, s := range in.SLOs {
		c.slo(s)
	}
	for _, l := range in.Thresholds {
		c.threshold(l)
	}
	for _, a := range in.Agreements {
		c.agreement(a)
	}
	if len(c.problems) > 0 {
		return nil, fmt.Errorf("compile spec: %w", errors.Join(c.problems...))
	}
	cfg := &fold.Config{Version: fold.ConfigVersion}
	for _, id := range slices.Sorted(maps.Keys(c.indicators)) {
		cfg.Indicators = append(cfg.Indicators, *c.indicators[id])
	}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		s := *c.services[name]
		s.Buckets = sortedSet(s.Buckets)
		cfg.Services = append(cfg.Services, s)
	}
	return cfg, nil
}

type compiler struct {
	indicators map[string]*fold.Indicator
	services   map[string]*fold.Service
	slos       map[slo.ID]*slo.SLO
	problems   []error
}

func (c *compiler) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// service adds what is known of a service to what is known already.
func (c *compiler) service(name string, s fold.Service) {
	have, ok := c.services[name]
	if !ok {
		have = &fold.Service{Name: name, Types: slices.Clone(s.Types), Dimensions: slices.Clone(s.Dimensions),
			AdmitUnknown: s.AdmitUnknown}
		c.services[name] = have
	}
	have.Buckets = append(have.Buckets, s.Buckets...)
}

func (c *compiler) add(ind *fold.Indicator) bool {
	if _, taken := c.indicators[ind.ID]; taken {
		c.problem("%s is there twice", ind.ID)
		return false
	}
	c.indicators[ind.ID] = ind
	c.service(ind.Service, fold.Service{Buckets: ind.Edges})
	return true
}

func (c *compiler) slo(s *slo.SLO) {
	if _, taken := c.slos[s.ID]; taken {
		c.problem("SLO %s is there twice", s.ID)
		return
	}
	c.slos[s.ID] = s
	if s.Indicator.RulesOnly() {
		return
	}
	ind, err := indicator(s)
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	ind.Retention = retention(append(slices.Clone(slo.BurnWindows), s.Window.Longest())...)
	if s.Indicator.Kind == slo.KindVolume { // a period that begins in the window, and those that tell its usual course
		ind.Retention = max(ind.Retention, retention(volumeReach(s)))
	}
	if !c.add(ind) || ind.Slice == nil {
		return
	}
	// Slices say nothing of how many events there were.
	events := *ind
	events.ID, events.Was, events.Slice = sla.EventsID(s.ID), "", nil
	if s.Was != "" {
		events.Was = sla.EventsID(s.Was)
	}
	events.Retention = retention(s.Window.Longest(), rateWindow)
	c.add(&events)
}

// indicator is what is counted for an SLO, without its retention.
func indicator(s *slo.SLO) (*fold.Indicator, error) {
	ind := &fold.Indicator{
		ID: string(s.ID), Was: string(s.Was), Service: s.ID.Service(), Kind: fold.Events,
		Valid: matchers(s.Indicator.Valid), GroupBy: s.GroupBy, MaxGroups: s.MaxGroups,
	}
	for _, g := range s.Expect {
		ind.Expect = append(ind.Expect, g)
	}
	switch s.Indicator.Kind {
	case slo.KindEvents:
		ind.Bad = matchers(s.Indicator.Bad)
	case slo.KindPrometheus:
		ind.Service, ind.Source, ind.GroupBy = slo.PromService(s.ID), s.PromStream(), nil
		for _, label := range s.GroupBy {
			ind.GroupBy = append(ind.GroupBy, slo.PromAttribute(label))
		}
		ind.Valid = []fold.Matcher{{Name: "type", Op: slo.OpEqual, Value: s.PromType()}}
		ind.Bad = []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}}
	case slo.KindLatency:
		if s.Indicator.Threshold <= 0 {
			return nil, fmt.Errorf("SLO %s: a latency threshold must be above zero", s.ID)
		}
		ind.Kind, ind.Edges = fold.Latency, []time.Duration{s.Indicator.Threshold}
	case slo.KindRatio:
		ind.Kind, ind.Numerator = fold.Ratio, matchers(s.Indicator.Numerator)
	case slo.KindApdex:
		if s.Indicator.Satisfied <= 0 || s.Indicator.Tolerating <= s.Indicator.Satisfied {
			return nil, fmt.Errorf("SLO %s: the thresholds of an apdex must be above zero and rise", s.ID)
		}
		ind.Kind, ind.Edges = fold.Latency, []time.Duration{s.Indicator.Satisfied, s.Indicator.Tolerating}
	case slo.KindVolume:
		if s.Indicator.AtLeast == 0 || s.Indicator.Calendar == "" || s.Indicator.Location == nil {
			return nil, fmt.Errorf("SLO %s: a volume needs a number of events above zero and a calendar", s.ID)
		}
	case slo.KindThroughput:
		if s.Indicator.Per <= 0 || s.Indicator.AtLeast == 0 {
			return nil, fmt.Errorf("SLO %s: throughput needs a number of events and a time above zero", s.ID)
		}
		ind.Slice = &fold.Slice{Per: s.Indicator.Per, AtLeast: s.Indicator.AtLeast, During: s.Indicator.During.String()}
		return ind, nil
	case slo.KindCompletion:
		c := &s.Indicator.Completion
		if c.Within <= 0 || c.Key == "" {
			return nil, fmt.Errorf("SLO %s: completion needs a key and a time above zero", s.ID)
		}
		ind.Kind = fold.Completion
		ind.Work = &fold.Work{
			Started: matchers(c.Started), Finished: matchers(c.Finished), Failed: matchers(c.Failed),
			Key: c.Key, Stage: c.Stage, Within: c.Within, MaxInFlight: c.MaxInFlight,
		}
	default:
		return nil, fmt.Errorf("SLO %s: unknown kind of indicator %q", s.ID, s.Indicator.Kind)
	}
	switch s.Budgeting.Method {
	case slo.Occurrences, "":
		return ind, nil
	}
	if k := s.Indicator.Kind; k == slo.KindRatio || k == slo.KindApdex || k == slo.KindVolume {
		return nil, fmt.Errorf("SLO %s: an indicator of kind %s has no slices", s.ID, k)
	}
	switch s.Budgeting.Method {
	case slo.Timeslices:
		// The slice's own target is part of what is counted; the objective is not.
		ind.Slice = &fold.Slice{Per: s.Budgeting.Slice, Target: s.Budgeting.Target.Ratio()}
	case slo.RatioTimeslices:
		ind.Slice = &fold.Slice{Per: s.Budgeting.Slice}
	default:
		return nil, fmt.Errorf("SLO %s: unknown budgeting method %q", s.ID, s.Budgeting.Method)
	}
	if s.Budgeting.Slice <= 0 {
		return nil, fmt.Errorf("SLO %s: a slice must be longer than zero", s.ID)
	}
	return ind, nil
}

func (c *compiler) threshold(l *slo.Threshold) {
	ind := &fold.Indicator{
		ID: sla.ThresholdID(l.Service, l.Name), Service: l.Service, Kind: fold.Latency,
		Valid: matchers(l.Match), Retention: retention(thresholdMonth), GroupBy: l.GroupBy, MaxGroups: l.MaxGroups,
	}
	levels, err := thresholdLevels(l)
	if err != nil {
		c.problems = append(c.problems, err)
		return
	}
	if l.Each != "" {
		// Whatever matches is bad. A matcher on the service keeps the list from
		// being empty, which would say something else.
		ind.Kind = fold.Events
		ind.Bad = append(slices.Clone(ind.Valid), fold.Matcher{Name: "service", Op: slo.OpEqual, Value: l.Service})
	}
	for _, lv := range levels {
		if lv.edge > 0 {
			ind.Edges = append(ind.Edges, lv.edge)
		}
	}
	c.add(ind)
}

// agreement adds the counters of bands and makes the components' counts last
// for the agreement's window.
func (c *compiler) agreement(a *sla.Agreement) {
	if len(a.Components) == 0 {
		c.problem("SLA %s/%s has no components", a.Service, a.Name)
	}
	keep := retention(a.Window.Longest())
	for _, comp := range a.Components {
		s, ok := c.slos[comp.SLO]
		if !ok {
			c.problem("SLA %s/%s: component %s: there is no SLO %s", a.Service, a.Name, comp.Name, comp.SLO)
			continue
		}
		if comp.Weight <= 0 {
			c.problem("SLA %s/%s: component %s: the weight must be above zero", a.Service, a.Name, comp.Name)
		}
		for _, label := range a.GroupBy {
			if !slices.Contains(s.GroupBy, label) {
				c.problem("SLA %s/%s: component %s: SLO %s is not grouped by %s", a.Service, a.Name, comp.Name, comp.SLO, label)
			}
		}
		ind, ok := c.indicators[string(comp.SLO)]
		if !ok {
			continue // on Prometheus series, or refused above
		}
		ind.Retention = max(ind.Retention, keep)
		if a.Method == sla.Bands && len(comp.Bands) > 0 {
			c.bands(a, comp, s, keep)
		}
	}
}

func (c *compiler) bands(a *sla.Agreement, comp sla.Component, s *slo.SLO, keep time.Duration) {
	if s.Indicator.Kind != slo.KindLatency {
		c.problem("SLA %s/%s: component %s: bands need a latency SLO, and %s is none", a.Service, a.Name, comp.Name, s.ID)
		return
	}
	edges := thresholds(comp.Bands)
	if len(edges) == 0 {
		c.problem("SLA %s/%s: component %s: no band has a threshold", a.Service, a.Name, comp.Name)
		return
	}
	id := sla.BandsID(s.ID, a.Name)
	if have, ok := c.indicators[id]; ok { // another component of the same SLO
		have.Edges = sortedSet(append(have.Edges, edges...))
		have.Retention = max(have.Retention, keep)
		c.service(have.Service, fold.Service{Buckets: edges})
		return
	}
	ind := *c.indicators[string(s.ID)]
	ind.ID, ind.Was, ind.Slice, ind.Edges, ind.Retention = id, "", nil, edges, keep
	if s.Was != "" {
		ind.Was = sla.BandsID(s.Was, a.Name)
	}
	c.add(&ind)
}

// thresholds are the edges that a component's bands need, rising.
func thresholds(bands []sla.Band) []time.Duration {
	var out []time.Duration
	for _, b := range bands {
		if b.Threshold > 0 {
			out = append(out, b.Threshold)
		}
	}
	return sortedSet(out)
}

func matchers(sel slo.Selector) []fold.Matcher {
	var out []fold.Matcher
	for _, m := range sel {
		out = append(out, fold.Matcher{Name: m.Name, Op: m.Op, Value: m.Value})
	}
	return out
}

func retention(windows ...time.Duration) time.Duration {
	return slices.Max(windows) + retentionMargin
}

func sortedSet(ds []time.Duration) []time.Duration {
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return slices.Compact(ds)
}

// level is one severity of a limit: events slower than edge, or every event
// where edge is 0.
type level struct {
	severity string
	edge     time.Duration
}

// Severities of a violation.
const (
	warning  = "warning"
	critical = "critical"
)

// thresholdLevels are the severities of the bins of a limit after the first, which
// holds what kept the limit. A warning that is no shorter than the critical
// limit can never be given and has no bin.
func thresholdLevels(l *slo.Threshold) ([]level, error) {
	switch l.Each {
	case warning, critical:
		return []level{{severity: l.Each}}, nil
	case "":
	default:
		return nil, fmt.Errorf("threshold %s: unknown severity %q; want %s", sla.ThresholdID(l.Service, l.Name), l.Each,
			strings.Join([]string{warning, critical}, " or "))
	}
	var out []level
	if l.Warning > 0 && (l.Critical <= 0 || l.Warning < l.Critical) {
		out = append(out, level{warning, l.Warning})
	}
	if l.Critical > 0 {
		out = append(out, level{critical, l.Critical})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("threshold %s has neither a warning nor a critical duration",
			sla.ThresholdID(l.Service, l.Name))
	}
	return out, nil
}
