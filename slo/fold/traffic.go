package fold

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// This file holds services: the traffic and the durations of each, as exported counters, which are independent of
// indicators, and which labels of its events matter and how they are projected into the key of a plan.

// The most traffic and duration series that a service may have. Labels beyond
// that become slo.OtherGroup, so that hostile values cost bounded memory.
const (
	maxTraffic = 2000
	maxSeries  = 500 // each with two dozen buckets
)

// traffic counts a service's events of one type, outcome, severity and so on.
//
// count never falls while the service exists with the same dimensions. Pending events are added by plan.flush.
type traffic struct {
	service, typ, outcome, severity string
	dims                            []string

	count uint64
	last  int64 // nanoseconds
}

// key tells the traffic of a service apart. Lengths stand before the values, so that hostile ones cannot collide.
func (t *traffic) key() string {
	return countersKey(append([]string{t.typ, t.outcome, t.severity}, t.dims...))
}

func countersKey(values []string) string {
	var k []byte
	for _, s := range values {
		k = binary.AppendUvarint(k, uint64(len(s)))
		k = append(k, s...)
	}
	return string(k)
}

// compareTraffic is the order of Sums.
func compareTraffic(a, b *traffic) int {
	return cmp.Or(
		cmp.Compare(a.service, b.service), cmp.Compare(a.typ, b.typ), cmp.Compare(a.outcome, b.outcome),
		cmp.Compare(a.severity, b.severity), slices.Compare(a.dims, b.dims),
	)
}

// trafficOf finds or makes the traffic counter for the labels.
func (f *Fold) trafficOf(svc *service, get func(string) string) *traffic {
	t := &traffic{service: svc.spec.Name, typ: get(labelType), outcome: get(labelOutcome), severity: get(labelSeverity)}
	t.dims = svc.dimensions(get)
	if old := svc.traffic[t.key()]; old != nil {
		return old
	}
	if len(svc.traffic) >= maxTraffic {
		t.typ, t.severity = slo.OtherGroup, slo.OtherGroup
		t.dims = slices.Repeat([]string{slo.OtherGroup}, len(t.dims))
		if old := svc.traffic[t.key()]; old != nil {
			return old
		}
	}
	f.addTraffic(svc, t)
	return t
}

// addTraffic adds a counter to the service and to the list in the order of Sums.
func (f *Fold) addTraffic(svc *service, t *traffic) {
	svc.traffic[t.key()] = t
	i, _ := slices.BinarySearchFunc(f.traffic, t, compareTraffic)
	f.traffic = slices.Insert(f.traffic, i, t)
}

// durationSeries is the duration histogram of a service's events of one type, outcome and so on.
//
// The sum of the durations is sec seconds and ns nanoseconds, because nanoseconds alone would overflow 64 bits
// after 584 years of summed durations, which a busy service reaches soon.
type durationSeries struct {
	service, typ, outcome string
	dims                  []string

	edges   []int64  // nanoseconds
	counts  []uint64 // one more than edges: the last are slower than all
	sec, ns uint64   // the sum, with ns below a second only after normal
}

// key tells the histograms of a service apart, as that of traffic does.
func (s *durationSeries) key() string {
	return countersKey(append([]string{s.typ, s.outcome}, s.dims...))
}

// compareSeries is the order of Sums.
func compareSeries(a, b *durationSeries) int {
	return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.typ, b.typ), cmp.Compare(a.outcome, b.outcome),
		slices.Compare(a.dims, b.dims))
}

// seriesOf finds or makes the duration histogram for the labels, or that of the others of the outcome beyond maxSeries.
func (f *Fold) seriesOf(svc *service, get func(string) string) *durationSeries {
	d := &durationSeries{service: svc.spec.Name, typ: get(labelType), outcome: get(labelOutcome),
		dims: svc.dimensions(get), edges: svc.buckets}
	if old := svc.series[d.key()]; old != nil {
		return old
	}
	if len(svc.series) >= maxSeries {
		d.typ, d.dims = slo.OtherGroup, slices.Repeat([]string{slo.OtherGroup}, len(d.dims))
		if old := svc.series[d.key()]; old != nil {
			return old
		}
	}
	d.counts = make([]uint64, len(svc.buckets)+1)
	f.addSeries(svc, d)
	return d
}

// addSeries adds a histogram to the service and to the list in the order of Sums.
func (f *Fold) addSeries(svc *service, d *durationSeries) {
	svc.series[d.key()] = d
	i, _ := slices.BinarySearchFunc(f.series, d, compareSeries)
	f.series = slices.Insert(f.series, i, d)
}

// observe counts n durations of d nanoseconds.
func (s *durationSeries) observe(d int64, n uint64) {
	s.counts[bucketOf(s.edges, d)] += n
	if n == 1 {
		s.ns += uint64(d)
	} else if hi, lo := bits.Mul64(uint64(d), n); hi < uint64(time.Second) {
		sec, ns := bits.Div64(hi, lo, uint64(time.Second))
		s.addSeconds(sec)
		s.ns += ns
	} else { // a year, very many times
		s.sec = math.MaxUint64
	}
	if s.ns >= 1<<62 {
		s.normal()
	}
}

// bucketOf is binOf for the two dozen edges of a histogram, by halves.
func bucketOf(edges []int64, d int64) int {
	from, n := 0, len(edges)
	for n > 0 {
		half := n / 2
		if d > edges[from+half] {
			from += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return from
}

// normal moves whole seconds out of ns.
func (s *durationSeries) normal() {
	s.addSeconds(s.ns / uint64(time.Second))
	s.ns %= uint64(time.Second)
}

// addSeconds stays at the most seconds that 64 bits hold.
func (s *durationSeries) addSeconds(sec uint64) {
	if s.sec += sec; s.sec < sec {
		s.sec = math.MaxUint64
	}
}

// sum is the sum as a Duration, which ends at 292 years, and in seconds.
func (s *durationSeries) sum() (time.Duration, float64) {
	s.normal()
	seconds := float64(s.sec) + float64(s.ns)/float64(time.Second)
	if s.sec >= math.MaxInt64/uint64(time.Second) {
		return math.MaxInt64, seconds
	}
	return time.Duration(s.sec)*time.Second + time.Duration(s.ns), seconds
}

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

// knows reports whether the service may send events of the type. Others are refused, so that a misspelt type is
// noticed.
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
		labelService: s.spec.Name, labelType: string(v.Type), labelOutcome: v.Outcome.String(),
		labelSeverity: string(v.Severity),
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
