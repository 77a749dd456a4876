package fold

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file counts what is independent of indicators: the traffic and the durations of each service, as exported
// counters.

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
	return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.typ, b.typ), cmp.Compare(a.outcome, b.outcome), slices.Compare(a.dims, b.dims))
}

// seriesOf finds or makes the duration histogram for the labels, or that of the others of the outcome beyond maxSeries.
func (f *Fold) seriesOf(svc *service, get func(string) string) *durationSeries {
	d := &durationSeries{service: svc.spec.Name, typ: get(labelType), outcome: get(labelOutcome), dims: svc.dimensions(get), edges: svc.buckets}
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
