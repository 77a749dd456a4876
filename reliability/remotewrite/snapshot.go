package remotewrite

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/s2"
	dto "github.com/prometheus/client_model/go"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/internal/order"
)

// chunk is one request: a message of version 2, compressed.
type chunk struct {
	samples int
	body    []byte
}

// staleMarker is the value that ends a series in Prometheus.
var staleMarker = math.Float64frombits(0x7ff0000000000002)

// shots makes chunks of families, and knows those of the time before, so that series that are gone get an end.
type shots struct {
	labels []pair // that series get unless they have them, sorted

	last   []chunk
	series map[uint64]bool // hashes of the labels of last

	request *request
	chunks  []chunk
	hashes  map[uint64]bool
	ms      int64
	key     []byte
	all     []pair
}

// take returns the values of all series, as of one time stamp in milliseconds.
func (s *shots) take(families []*dto.MetricFamily, ms int64) []chunk {
	s.request, s.chunks, s.ms = newRequest(), nil, ms
	s.hashes = make(map[uint64]bool, len(s.series))
	for _, f := range families {
		for _, m := range f.Metric {
			s.metric(f, m)
		}
	}
	s.flush()
	out, last := s.chunks, s.last
	s.last = out
	gone := false
	for h := range s.series {
		if !s.hashes[h] {
			gone = true
			break
		}
	}
	s.series = s.hashes
	if !gone {
		return out
	}
	s.request, s.chunks = newRequest(), nil
	for _, c := range last {
		raw, err := s2.Decode(nil, c.body)
		if err != nil {
			continue // made in this process
		}
		_ = read(raw, func(labels []pair, value float64, _ int64) {
			if s.all = append(s.all[:0], labels...); !s.hashes[s.hash()] {
				s.request.add(s.all, staleMarker, ms, kindUnknown, "")
				s.flushFull()
			}
		})
	}
	s.flush()
	return append(slices.Clone(out), s.chunks...)
}

func (s *shots) flushFull() {
	if s.request.full() {
		s.flush()
	}
}

func (s *shots) flush() {
	if s.request.samples > 0 {
		s.chunks = append(s.chunks, chunk{s.request.samples, s2.EncodeSnappy(nil, s.request.bytes())})
		s.request = newRequest()
	}
}

func (s *shots) metric(f *dto.MetricFamily, m *dto.Metric) {
	name, help := f.GetName(), f.GetHelp()
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		s.sample(name, m, pair{}, m.GetCounter().GetValue(), kindCounter, help)
	case dto.MetricType_GAUGE:
		s.sample(name, m, pair{}, m.GetGauge().GetValue(), kindGauge, help)
	case dto.MetricType_UNTYPED:
		s.sample(name, m, pair{}, m.GetUntyped().GetValue(), kindUnknown, help)
	case dto.MetricType_SUMMARY:
		for _, q := range m.GetSummary().GetQuantile() {
			s.sample(name, m, pair{"quantile", number(q.GetQuantile())}, q.GetValue(), kindSummary, help)
		}
		s.sample(name+"_sum", m, pair{}, m.GetSummary().GetSampleSum(), kindSummary, help)
		s.sample(name+"_count", m, pair{}, float64(m.GetSummary().GetSampleCount()), kindSummary, help)
	case dto.MetricType_HISTOGRAM:
		h := m.GetHistogram()
		infinite := false
		for _, b := range h.GetBucket() {
			infinite = infinite || math.IsInf(b.GetUpperBound(), 1)
			s.sample(name+"_bucket", m, pair{"le", number(b.GetUpperBound())}, float64(b.GetCumulativeCount()),
				kindHistogram, help)
		}
		if !infinite {
			s.sample(name+"_bucket", m, pair{"le", "+Inf"}, float64(h.GetSampleCount()), kindHistogram, help)
		}
		s.sample(name+"_sum", m, pair{}, h.GetSampleSum(), kindHistogram, help)
		s.sample(name+"_count", m, pair{}, float64(h.GetSampleCount()), kindHistogram, help)
	}
}

// number writes a bound as OpenMetrics and Prometheus do.
func number(x float64) string {
	if math.IsInf(x, 1) {
		return "+Inf"
	}
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func (s *shots) sample(name string, m *dto.Metric, more pair, value float64, k kind, help string) {
	s.all = append(s.all[:0], pair{"__name__", name})
	for _, l := range m.Label {
		if l.GetValue() != "" { // the protocol knows no empty ones
			s.all = append(s.all, pair{l.GetName(), l.GetValue()})
		}
	}
	if more.name != "" {
		s.all = append(s.all, more)
	}
	own := len(s.all)
	for _, l := range s.labels {
		if !slices.ContainsFunc(s.all[:own], func(has pair) bool { return has.name == l.name }) {
			s.all = append(s.all, l)
		}
	}
	order.By(s.all, func(a, b *pair) int { return cmp.Compare(a.name, b.name) })
	h := s.hash()
	if s.hashes[h] {
		return // a server refuses the same series twice
	}
	s.hashes[h] = true
	s.request.add(s.all, value, s.ms, k, help)
	s.flushFull()
}

func (s *shots) hash() uint64 {
	s.key = s.key[:0]
	for _, l := range s.all {
		s.key = append(append(append(append(s.key, l.name...), 0xff), l.value...), 0xff)
	}
	return xxh3.Hash(s.key)
}

func sorted(labels map[string]string) (out []pair) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, pair{name, labels[name]})
	}
	return out
}
