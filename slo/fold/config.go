package fold

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file holds the configuration as it is written into the log, and its compilation into indicators. Whatever
// can be wrong with a configuration is found here, before anything changes.

// Config says what is counted. It is written into the log as JSON at start and
// at every change, so that a replay counts with the config of its time; its
// JSON form is therefore a file format and only ever grows.
//
// Fields are never renamed and never change their meaning: a log from years ago must be read alike.
type Config struct {
	Version    int         `json:"version"` // ConfigVersion
	Indicators []Indicator `json:"indicators"`
	Services   []Service   `json:"services"`
}

// ConfigVersion is the version of Config's JSON form.
const ConfigVersion = 1

// Kind says how a matching event picks its bin.
type Kind string

// The kinds of folded indicator.
const (
	// Events: bin 0 is good, bin 1 bad (the Bad selector matches too).
	Events Kind = "events"
	// Latency: bin i counts events with duration <= Edges[i] and above the edge
	// before; the last bin is everything slower. Events without a duration are
	// not valid and counted as unmeasured.
	Latency Kind = "latency"
	// Ratio: bin 0 counts the events that match Numerator, bin 1 those that match
	// Valid, the denominator. An event may be in both, and one that is in neither is
	// not counted.
	Ratio Kind = "ratio"
	// Completion: bin 0 counts work that finished in time, in the minute of the
	// finish. Bin 1 counts work that failed, in the minute of the failure, or did
	// not finish, in the minute of the deadline. Valid and Bad are not used. The
	// group is that of the start event.
	Completion Kind = "completion"
)

// Bins of a sliced indicator's sums, instead of the kind's own.
const (
	SliceGood     = iota // slices judged good
	SliceBad             // slices judged bad
	SliceAchieved        // throughput: sum over slices of min(count, AtLeast)
	SliceTarget          // throughput: sum over slices of AtLeast
	SliceRatio           // sum over slices of good/valid, in billionths
	SliceBins            // how many bins
)

// MergeBy says by what events of the service must be told apart, so that those
// that are merged count what they counted one by one: the attributes, rising, and
// the step of time, for event.MergeKey.
//
// Events that agree in these attributes and in this step of time fall into the same buckets, slices and groups,
// so one event with their number counts the same. An unknown service gives no attributes and the width of the
// finest bucket.
func (c *Config) MergeBy(service string) (attrs []string, step time.Duration) {
	step = time.Duration(fineWidth) * time.Second
	spec := &Service{}
	for i := range c.Services {
		if c.Services[i].Name == service {
			spec = &c.Services[i]
		}
	}
	var inds []*Indicator
	for i := range c.Indicators {
		ind := &c.Indicators[i]
		if ind.Service != service {
			continue
		}
		inds = append(inds, ind)
		if ind.Slice != nil {
			for per := ind.Slice.Per; per > 0; { // the greatest step that divides both
				step, per = per, step%per
			}
		}
	}
	attrs = attributes(spec, inds)
	for _, ind := range inds {
		if w := ind.Work; w != nil {
			attrs = append(attrs, w.Key)
			if w.Stage != "" {
				attrs = append(attrs, w.Stage)
			}
		}
	}
	slices.Sort(attrs)
	return slices.Compact(attrs), step
}

// Thresholds are the durations that latency indicators compare those of events of a type with, rising; not nil.
func (c *Config) Thresholds(service, typ string) []time.Duration {
	out := []time.Duration{}
	for i := range c.Indicators {
		ind := &c.Indicators[i]
		if ind.Service == service && len(ind.Edges) > 0 && takesType(ind.Valid, typ) {
			out = append(out, ind.Edges...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// MayCount reports whether an indicator may count events of a type.
func (c *Config) MayCount(id, typ string) bool {
	i := slices.IndexFunc(c.Indicators, func(x Indicator) bool { return x.ID == id })
	if i < 0 {
		return false
	}
	ind := &c.Indicators[i]
	for j := range c.Services {
		if s := &c.Services[j]; s.Name == ind.Service && len(s.Types) > 0 && !slices.Contains(s.Types, typ) {
			return false
		}
	}
	if w := ind.Work; w != nil {
		return takesType(w.Started, typ) || takesType(w.Finished, typ) || len(w.Failed) > 0 && takesType(w.Failed, typ)
	}
	return takesType(ind.Valid, typ) || ind.Kind == Ratio && takesType(ind.Numerator, typ)
}

// takesType reports whether matchers may match events of a type.
func takesType(list []Matcher, typ string) bool {
	for _, m := range list {
		if m.Name == "type" {
			if one, err := slo.NewMatcher(m.Name, m.Op, m.Value); err == nil && !one.Matches(typ) {
				return false
			}
		}
	}
	return true
}

// attributes are those that some indicator or dimension of a service looks at, rising.
func attributes(spec *Service, inds []*Indicator) []string {
	out := slices.Clone(spec.Dimensions)
	for _, ind := range inds {
		for _, m := range slices.Concat(ind.Valid, ind.Bad, ind.Numerator) {
			out = append(out, m.Name)
		}
		out = append(out, ind.GroupBy...)
		if w := ind.Work; w != nil {
			for _, m := range slices.Concat(w.Started, w.Finished, w.Failed) {
				out = append(out, m.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), isField)
}

// TellsApart names an indicator or a service whose counts would differ if an attribute had the value b in place of a:
// one that groups by it, or of which a matcher tells them apart. "": there is none. Keys of work only tell work apart,
// so they may be replaced.
func (c *Config) TellsApart(attribute, a, b string) string {
	for i := range c.Services {
		if slices.Contains(c.Services[i].Dimensions, attribute) {
			return c.Services[i].Name + " splits its counters by it"
		}
	}
	for i := range c.Indicators {
		ind := &c.Indicators[i]
		lists := [][]Matcher{ind.Valid, ind.Bad, ind.Numerator}
		if w := ind.Work; w != nil {
			lists = append(lists, w.Started, w.Finished, w.Failed)
			if w.Stage == attribute {
				return ind.ID + " has it as stage"
			}
		}
		if slices.Contains(ind.GroupBy, attribute) {
			return ind.ID + " groups by it"
		}
		for _, m := range slices.Concat(lists...) {
			one, err := slo.NewMatcher(m.Name, m.Op, m.Value)
			if m.Name == attribute && (err != nil || one.Matches(a) != one.Matches(b)) {
				return fmt.Sprintf("%s matches %s%s", ind.ID, m.Name, m.Op)
			}
		}
	}
	return ""
}

// Indicator is one thing that is counted, per group.
//
// A change of Service, Kind, Valid, Bad (of Events), Numerator, Edges, GroupBy, Slice, Source or Work begins a new
// generation. ID, MaxGroups, Expect and Retention may change without one, and so may Stage and MaxInFlight of Work.
type Indicator struct {
	// ID is unique: "service/slo" for an SLO, "service/slo#bands:sla" for the
	// extra thresholds of an SLA's component, "service/limit:name" for a limit.
	ID      string `json:"id"`
	Was     string `json:"was,omitempty"` // the ID whose counts it takes over
	Service string `json:"service"`
	Kind    Kind   `json:"kind"`

	Valid []Matcher `json:"valid,omitempty"`
	Bad   []Matcher `json:"bad,omitempty"`

	Numerator []Matcher `json:"numerator,omitempty"` // Ratio; empty matches every event

	Edges []time.Duration `json:"edges,omitempty"` // Latency: rising

	Work *Work `json:"work,omitempty"` // Completion

	GroupBy   []string   `json:"group_by,omitempty"`
	MaxGroups int        `json:"max_groups,omitempty"` // 0 = DefaultMaxGroups
	Expect    [][]string `json:"expect,omitempty"`

	Slice *Slice `json:"slice,omitempty"` // nil: events are counted, not slices

	// Source observes the indicator: see Fold.Observe. "": it is observed while the engine is up.
	Source string `json:"source,omitempty"`

	Retention time.Duration `json:"retention"` // the longest window asked of it
}

// DefaultMaxGroups is the number of groups an indicator may have before the
// rest fold into slo.OtherGroup.
const DefaultMaxGroups = 1000

// Slice says how closed slices of time are judged. Slices are Per long and
// aligned to the Unix epoch.
//
// Per is 1 s to 7 days. Target is a share in [0,1].
type Slice struct {
	Per time.Duration `json:"per"`

	// AtLeast > 0 judges throughput: good if at least that many valid events lie
	// in the slice; an empty slice is bad. Otherwise a slice is good if its own
	// share of good events is >= Target, and an empty slice is left out.
	AtLeast uint64  `json:"at_least,omitempty"`
	Target  float64 `json:"target,omitempty"`

	During string `json:"during,omitempty"` // slo.ParseSchedule; slices must lie wholly inside
}

// Matcher is a slo.Matcher in its stored form.
type Matcher struct {
	Name  string      `json:"name"`
	Op    slo.MatchOp `json:"op"`
	Value string      `json:"value"`
}

// Service is a service whose events are expected.
type Service struct {
	Name string `json:"name"`
	// Types lists the event types that exist; empty means any.
	Types []string `json:"types,omitempty"`
	// AdmitUnknown: events of other types are no error. Nothing counts them, see [ErrUncounted].
	AdmitUnknown bool `json:"admit_unknown_types,omitempty"`
	// Dimensions are attribute names that the per-service counters are split by,
	// besides type, outcome and severity (such as error_type).
	Dimensions []string `json:"dimensions,omitempty"`
	// Buckets are the upper bounds of the service's duration histogram, rising.
	Buckets []time.Duration `json:"buckets,omitempty"`
}

// Retentions are rounded up to whole days, so that indicators share stores, and
// are at least minKeep, the longest of the burn-rate windows.
const (
	keepUnit = 24 * time.Hour
	minKeep  = 3 * keepUnit
	maxKeep  = 1000 * keepUnit
	maxSlice = 7 * 24 * time.Hour
)

// compiled is a config that was found to be good, before it takes effect.
//
// It shares nothing with the Config that it was made from.
type compiled struct {
	cfg  *Config      // deep copy
	text []byte       // its JSON
	inds []*indicator // by ID, without groups or stores
}

// compile checks everything that can be wrong with a config. The error lists all
// that is.
//
// Going through JSON makes the copy deep, and makes sure that what takes effect is what the log has.
func compile(cfg *Config) (*compiled, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("copy config: %w", err)
	}
	return compileJSON(text)
}

// compileJSON is compile of a stored config. The text is kept: it goes into snapshots as it came, byte by byte.
func compileJSON(text []byte) (*compiled, error) {
	c := &compiled{cfg: new(Config), text: text}
	if err := json.Unmarshal(text, c.cfg); err != nil {
		return nil, fmt.Errorf("copy config: %w", err)
	}
	var errs []error
	if c.cfg.Version != ConfigVersion {
		errs = append(errs, fmt.Errorf("config version %d, want %d", c.cfg.Version, ConfigVersion))
	}
	services := map[string]bool{}
	for i := range c.cfg.Services {
		s := &c.cfg.Services[i]
		if s.Name == "" || services[s.Name] {
			errs = append(errs, fmt.Errorf("service %q: missing or repeated name", s.Name))
		}
		if !rising(s.Buckets) {
			errs = append(errs, fmt.Errorf("service %q: buckets must rise", s.Name))
		}
		services[s.Name] = true
	}
	ids := map[string]bool{}
	for i := range c.cfg.Indicators {
		spec := &c.cfg.Indicators[i]
		ind, err := compileIndicator(spec)
		switch {
		case spec.ID == "" || ids[spec.ID]:
			err = errors.New("missing or repeated ID")
		case err == nil && !services[spec.Service]:
			err = fmt.Errorf("unknown service %q", spec.Service)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("indicator %q: %w", spec.ID, err))
		}
		ids[spec.ID] = true
		c.inds = append(c.inds, ind)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(c.inds, func(a, b *indicator) int { return strings.Compare(a.spec.ID, b.spec.ID) })
	return c, nil
}

// rising reports whether durations are not negative and each is greater than the one before.
func rising(ds []time.Duration) bool {
	for i, d := range ds {
		if d < 0 || i > 0 && d <= ds[i-1] {
			return false
		}
	}
	return true
}

// compileIndicator checks one indicator and prepares what matching needs. It has no groups and no store yet: those
// depend on the generation that it goes on with.
//
// It stops at the first problem of the indicator. compile goes on with the next one.
func compileIndicator(spec *Indicator) (*indicator, error) {
	ind := &indicator{spec: spec, width: 2, groups: map[string]*group{}}
	var err error
	if ind.valid, err = matchers(spec.Valid); err != nil {
		return nil, fmt.Errorf("valid: %w", err)
	}
	if ind.bad, err = matchers(spec.Bad); err != nil {
		return nil, fmt.Errorf("bad: %w", err)
	}
	switch spec.Kind {
	case Events:
		if len(spec.Edges) > 0 {
			return nil, errors.New("an indicator of events has no edges")
		}
	case Latency:
		if len(spec.Edges) == 0 || !rising(spec.Edges) {
			return nil, errors.New("a latency indicator needs edges, and they must rise")
		}
		for _, e := range spec.Edges {
			ind.edges = append(ind.edges, int64(e))
		}
		ind.width = len(spec.Edges) + 1
	case Ratio:
		if len(spec.Edges) > 0 || len(spec.Bad) > 0 || spec.Slice != nil {
			return nil, errors.New("a ratio has no bad events, edges or slices")
		}
		if ind.numerator, err = matchers(spec.Numerator); err != nil {
			return nil, fmt.Errorf("numerator: %w", err)
		}
	case Completion:
		if ind.flight, err = newFlight(spec); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown kind %q", spec.Kind)
	}
	if spec.Retention < 0 || spec.Retention > maxKeep {
		return nil, fmt.Errorf("retention %s is not between 0 and %s", spec.Retention, maxKeep)
	}
	if spec.MaxGroups < 0 {
		return nil, errors.New("negative max_groups")
	}
	for _, e := range spec.Expect {
		if len(e) != len(spec.GroupBy) || len(e) == 0 {
			return nil, fmt.Errorf("expected group %q does not fit group_by %q", e, spec.GroupBy)
		}
	}
	ind.bins = ind.width
	if (spec.Kind == Completion) != (spec.Work != nil) || spec.Work != nil && spec.Slice != nil {
		return nil, errors.New("work is what an indicator of completion has, and it has no slices")
	}
	if spec.Source != "" && spec.Work != nil {
		return nil, errors.New("an indicator with a source has no work")
	}
	if sl := spec.Slice; sl != nil {
		ind.bins = SliceBins
		if sl.Per < time.Second || sl.Per > maxSlice {
			return nil, fmt.Errorf("slices of %s are not between 1s and %s", sl.Per, maxSlice)
		}
		if spec.Kind == Latency && len(spec.Edges) != 1 {
			return nil, errors.New("a sliced latency indicator has exactly one edge")
		}
		if sl.Target < 0 || sl.Target > 1 {
			return nil, fmt.Errorf("slice target %v is not between 0 and 1", sl.Target)
		}
		if sl.During != "" {
			if ind.sched, err = slo.ParseSchedule(sl.During); err != nil {
				return nil, fmt.Errorf("during: %w", err)
			}
		}
	}
	ind.key, err = generationKey(spec)
	return ind, err
}

// generationKey is equal for indicators that count the same things. Bad matters
// only where it is read, so that it may be left or dropped for latencies.
//
// It is not stored: a start computes it again from the configuration, and from that of each parked generation.
func generationKey(spec *Indicator) (string, error) {
	what := struct {
		Service    string
		Kind       Kind
		Valid, Bad []Matcher
		Edges      []time.Duration
		GroupBy    []string
		Slice      *Slice
		Numerator  []Matcher
		Work       *Work  `json:",omitempty"`
		Source     string `json:",omitempty"`
	}{spec.Service, spec.Kind, spec.Valid, spec.Bad, spec.Edges, spec.GroupBy, spec.Slice, spec.Numerator, spec.Work,
		spec.Source}
	if w := what.Work; w != nil {
		same := *w
		same.Stage, same.MaxInFlight = "", 0
		what.Work = &same
	}
	if spec.Kind == Latency {
		what.Bad = nil
	}
	text, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("compare indicator: %w", err)
	}
	return string(text), nil
}

// keepOf is how far back the buckets of an indicator reach.
//
// It is in whole days and at least minKeep.
func keepOf(spec *Indicator) time.Duration {
	return max(minKeep, (spec.Retention+keepUnit-1)/keepUnit*keepUnit)
}
