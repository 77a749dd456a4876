package fold

import (
	"encoding/binary"
	"slices"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// This file holds services: which labels of their events matter, and how these are projected into the key of a
// plan.

// The labels that are fields of every event rather than attributes.
const (
	labelService  = "service"
	labelType     = "type"
	labelOutcome  = "outcome"
	labelSeverity = "severity"
)

// isField reports whether a label is a field of the event.
func isField(label string) bool {
	return label == labelService || label == labelType || label == labelOutcome || label == labelSeverity
}

// service is a Service and what is looked at in its events.
//
// It is made again with each configuration. traffic and series are carried over while they are split in the same
// way.
type service struct {
	spec    *Service
	inds    []*indicator // by ID
	attrs   []string     // attributes that some indicator or dimension looks at, rising
	buckets []int64      // Service.Buckets in nanoseconds

	traffic map[string]*traffic        // by traffic.key; the same as in Fold.traffic
	series  map[string]*durationSeries // by durationSeries.key; the same as in Fold.series

	eras     []*era      // of the indicators, each once
	backfill backfilling // of the record at hand, or the last that backfilled the service

	drops map[string][]*indicator // by type: whose events those of the type may be
}

// dimensions are the values of the service's dimensions.
func (s *service) dimensions(get func(string) string) []string {
	var out []string
	for _, name := range s.spec.Dimensions {
		out = append(out, get(name))
	}
	return out
}

// newService prepares a service for matching. Its counters are empty.
func newService(spec *Service, inds []*indicator) *service {
	s := &service{
		spec: spec, inds: inds,
		traffic: map[string]*traffic{}, series: map[string]*durationSeries{}, drops: map[string][]*indicator{},
	}
	specs := make([]*Indicator, len(inds))
	for i, ind := range inds {
		specs[i] = ind.spec
	}
	s.attrs = attributes(spec, specs)
	for _, b := range spec.Buckets {
		s.buckets = append(s.buckets, int64(b))
	}
	return s
}

// knows reports whether the service may send events of the type. Others are refused, so that a misspelt type is noticed.
func (s *service) knows(typ string) bool {
	return len(s.spec.Types) == 0 || slices.Contains(s.spec.Types, typ)
}

// project appends the values of all labels that matter, in a fixed order. Events
// with the same bytes are treated alike. A missing attribute is an empty one.
//
// It is the first thing that happens to every event, so it allocates nothing. Unused attributes are not in the
// key.
func (s *service) project(key []byte, v *event.View) []byte {
	key = append(key, byte(v.Outcome))
	key = appendText(key, v.Type)
	key = appendText(key, v.Severity)
	wanted := s.attrs
	if len(wanted) == 0 {
		return key
	}
	// Both lists rise by name, so one pass over both is enough.
	for name, value := range v.Attrs {
		if wanted[0] != string(name) {
			for wanted[0] < string(name) {
				key = append(key, 0)
				if wanted = wanted[1:]; len(wanted) == 0 {
					return key
				}
			}
			if wanted[0] != string(name) {
				continue
			}
		}
		key = appendText(key, value)
		if wanted = wanted[1:]; len(wanted) == 0 {
			return key
		}
	}
	for range wanted {
		key = append(key, 0)
	}
	return key
}

// appendText appends one label value so that no two lists of values have the same bytes.
func appendText(b, text []byte) []byte {
	if len(text) < 0x80 {
		b = append(b, byte(len(text)))
	} else {
		b = binary.AppendUvarint(b, uint64(len(text)))
	}
	return append(b, text...)
}

// labels gives the event's value of each label that matters, "" if it has none.
//
// It allocates, and is only for making a plan.
func (s *service) labels(v *event.View) func(name string) string {
	values := map[string]string{
		labelService: s.spec.Name, labelType: string(v.Type), labelOutcome: v.Outcome.String(), labelSeverity: string(v.Severity),
	}
	for name, value := range v.Attrs {
		if _, ok := slices.BinarySearch(s.attrs, string(name)); ok {
			values[string(name)] = string(value)
		}
	}
	return func(name string) string { return values[name] }
}

// matchers compiles stored matchers.
func matchers(ms []Matcher) (slo.Selector, error) {
	out := make(slo.Selector, len(ms))
	for i, m := range ms {
		var err error
		if out[i], err = slo.NewMatcher(m.Name, m.Op, m.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}
