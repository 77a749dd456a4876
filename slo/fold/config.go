package fold

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Config says what is counted. It is written into the log as JSON at start and
// at every change, so that a replay counts with the config of its time; its
// JSON form is therefore a file format and only ever grows.
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
	return attributes(spec, inds), step
}

// attributes are those that some indicator or dimension of a service looks at, rising.
func attributes(spec *Service, inds []*Indicator) []string {
	out := slices.Clone(spec.Dimensions)
	for _, ind := range inds {
		for _, m := range slices.Concat(ind.Valid, ind.Bad) {
			out = append(out, m.Name)
		}
		out = append(out, ind.GroupBy...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), isField)
}

// Indicator is one thing that is counted, per group.
type Indicator struct {
	// ID is unique: "service/slo" for an SLO, "service/slo#bands:sla" for the
	// extra thresholds of an SLA's component, "service/limit:name" for a limit.
	ID      string `json:"id"`
	Was     string `json:"was,omitempty"` // the ID whose counts it takes over
	Service string `json:"service"`
	Kind    Kind   `json:"kind"`

	Valid []Matcher `json:"valid,omitempty"`
	Bad   []Matcher `json:"bad,omitempty"`

	Edges []time.Duration `json:"edges,omitempty"` // Latency: rising

	GroupBy   []string   `json:"group_by,omitempty"`
	MaxGroups int        `json:"max_groups,omitempty"` // 0 = DefaultMaxGroups
	Expect    [][]string `json:"expect,omitempty"`

	Slice *Slice `json:"slice,omitempty"` // nil: events are counted, not slices

	Retention time.Duration `json:"retention"` // the longest window asked of it
}

// DefaultMaxGroups is the number of groups an indicator may have before the
// rest fold into slo.OtherGroup.
const DefaultMaxGroups = 1000

// Slice says how closed slices of time are judged. Slices are Per long and
// aligned to the Unix epoch.
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
	// Dimensions are attribute names that the per-service counters are split by,
	// besides type, outcome and severity (such as error_type).
	Dimensions []string `json:"dimensions,omitempty"`
	// Buckets are the upper bounds of the service's duration histogram, rising.
	Buckets []time.Duration `json:"buckets,omitempty"`
}
