package otlp

import (
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// The bounds of histograms.
const (
	maxBuckets = 1000
	// maxDurations is how many buckets of exponential histograms an event keeps: the finest that fit.
	maxDurations       = 320
	minScale, maxScale = -10, 20 // OpenTelemetry, metrics data model
)

// unitNanos are the units of histograms that hold durations (UCUM).
var unitNanos = map[string]float64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1, "min": 60e9}

// Counters begins a request of metrics, whose points are compared with the earlier ones in the batch's table. Those of
// a service that is not allowed are left for the decoder to reject.
func (m *Mapper) Counters(b *counter.Batch, thresholds func(service, typ string) []time.Duration,
	allow func(service []byte) bool) {
	b.Begin()
	m.counters, m.thresholds, m.allow = b, thresholds, allow
}

// Point returns the event of what a point adds to its counter, as many as were added. KeepPoint must follow if the
// event is stored, or refused for good.
func (m *Mapper) Point(p *otlpwire.Point) (*event.Draft, Reason) {
	m.observed = false
	if m.counters == nil || len(m.metrics) == 0 {
		return nil, NoRule
	}
	m.gather(&p.Origin, p.Attrs)
	rule := m.metricRule(p)
	switch {
	case rule == nil:
		return nil, NoRule
	case !m.takes(rule.typ):
		return nil, m.refuse()
	case p.NoRecordedValue():
		return nil, NothingNew
	}
	e := &m.draft
	*e = event.Draft{Service: m.plan.service, Type: rule.typ, Weight: 1, Count: 1, Duration: event.NoDuration,
		Time: int64(min(p.Time, math.MaxInt64)), Attributes: e.Attributes[:0], Durations: e.Durations[:0]}
	if rule.failure != nil && m.meets(rule.failure, &p.Origin, p.Attrs) ||
		rule.failure == nil && outcome(0, m.http, m.rpc) == event.Failure {
		e.Outcome = event.Failure
	}
	m.collect(e)
	m.identify(p, rule)
	if e.Detail = m.counts(p); e.Detail != "" {
		e.Problem = event.CodeBadMetric
		return e, Counts
	}
	if p.Time == 0 || p.Time > math.MaxInt64 {
		e.Problem, e.Detail = event.CodeBadTime, "The point has no time, or one after the year 2261."
		return e, Counts
	}
	if m.allow != nil && !m.allow(e.Service) {
		return e, Counts
	}
	if p.Temporality == cumulative {
		e.Once = true
		why := m.counters.Observe(&m.point)
		m.observed = why == counter.Adds || why == counter.Baseline
		switch why {
		case counter.Baseline:
			m.KeepPoint()
			return nil, FirstPoint
		case counter.Stale:
			return nil, NothingNew
		case counter.Decreased:
			return nil, Decreased
		case counter.Full:
			e.Problem = event.CodeBadMetric
			e.Detail = fmt.Sprintf("The engine follows no more counters: those that it has take %d MiB. Send fewer "+
				"attributes, or make the rule for metrics narrower.", counter.MaxBytes>>20)
			return e, Counts
		}
	}
	total := m.point.Total()
	switch {
	case total == 0:
		m.KeepPoint()
		return nil, NothingNew
	case total > math.MaxUint32:
		e.Problem, e.Detail = event.CodeBadCount, fmt.Sprintf("The point adds %d, but the maximum is %d. Export more often.",
			total, uint32(math.MaxUint32))
		return e, Counts
	}
	e.Count = uint32(total)
	m.find(rule.typ, signalMetrics, 1)
	m.durations(p, rule, e)
	m.find(rule.typ, signalMetrics, e.Weight)
	return e, Counts
}

// KeepPoint makes what the last point said known, so that only what comes after it counts.
func (m *Mapper) KeepPoint() {
	if m.observed {
		m.counters.Keep()
	}
}

// The temporalities of a metric.
const (
	delta      = 1
	cumulative = 2
)

func (m *Mapper) metricRule(p *otlpwire.Point) *metricRule {
	for _, r := range m.plan.metrics {
		if r.metric.match(string(p.Name)) && m.meets(r.match, &p.Origin, p.Attrs) {
			return r
		}
	}
	return nil
}

// identify fills in who counts what, and since when, and the id of the event.
func (m *Mapper) identify(p *otlpwire.Point, rule *metricRule) {
	c, h := &m.point, &m.hash
	*c = counter.Point{Class: rule.class, Start: int64(min(p.Start, math.MaxInt64)),
		Time: int64(min(p.Time, math.MaxInt64)), Counts: counter.Counts{Buckets: c.Buckets[:0]}}
	c.Source = m.hashAttrs(p.Resource)
	c.Series = m.hashAttrs(p.Attrs).Lo
	h.Reset()
	m.hashText(p.ScopeName)
	m.hashText(p.Name)
	c.Metric = h.Sum128()
	for _, n := range [...]uint64{c.Source.Hi, c.Source.Lo, c.Series, p.Start, p.Time} {
		m.hashNumber(n)
	}
	sum := h.Sum128().Bytes()
	hex.Encode(m.id[:], sum[:])
	m.draft.ID = m.id[:2*len(sum)]
}

// hashAttrs is the same for attributes in any order.
func (m *Mapper) hashAttrs(attrs []otlpwire.Attr) (sum counter.Key) {
	for i := range attrs {
		m.hash.Reset()
		m.hashAttr(&attrs[i])
		one := m.hash.Sum128()
		sum.Lo += one.Lo
		sum.Hi += one.Hi
	}
	return sum
}

// counts reads what the point says, or returns what is wrong.
func (m *Mapper) counts(p *otlpwire.Point) string {
	c := &m.point.Counts
	switch {
	case p.Kind == otlpwire.Gauge, p.Kind == otlpwire.Sum && !p.Monotonic:
		return fmt.Sprintf("Metric %.100q is a gauge, or a sum that can fall. Only counters and histograms count.", p.Name)
	case p.Kind == otlpwire.Summary:
		return fmt.Sprintf("Metric %.100q is a summary, whose quantiles cannot be added up. Send a histogram.", p.Name)
	case p.Temporality != delta && p.Temporality != cumulative:
		return fmt.Sprintf("Metric %.100q does not say whether it is cumulative or delta.", p.Name)
	case p.Kind == otlpwire.Sum:
		v := float64(p.Value.Int)
		if p.Value.Kind == otlpwire.Float {
			v = p.Value.Float
		}
		if !(v >= 0 && v < 1<<63) {
			return fmt.Sprintf("Metric %.100q has the value %v. A counter is a number of 0 or more.", p.Name, v)
		}
		if c.Count = uint64(p.Value.Int); p.Value.Kind == otlpwire.Float {
			c.Count = uint64(v) // what is counted is whole, whatever the type of the number
		}
		return ""
	case len(p.Buckets) > maxBuckets:
		return fmt.Sprintf("Metric %.100q has %d buckets, but the maximum is %d.", p.Name, len(p.Buckets), maxBuckets)
	case p.Scale < minScale || p.Scale > maxScale:
		return fmt.Sprintf("Metric %.100q has the scale %d (want %d to %d).", p.Name, p.Scale, minScale, maxScale)
	case p.Negative:
		return fmt.Sprintf("Metric %.100q has values below 0, which are no durations.", p.Name)
	case p.Kind == otlpwire.Histogram && len(p.Buckets) > 0 && len(p.Buckets) != len(p.Bounds)+1:
		return fmt.Sprintf("Metric %.100q has %d buckets and %d bounds. There must be one bound less.", p.Name,
			len(p.Buckets),
			len(p.Bounds))
	}
	if c.Count = p.Zero; p.Kind == otlpwire.ExponentialHistogram {
		c.Scale, c.Offset = p.Scale, p.Offset
	} else if len(p.Buckets) == 0 {
		c.Count = p.Count
	}
	c.Buckets = append(c.Buckets, p.Buckets...)
	if total := c.Total(); total != p.Count {
		return fmt.Sprintf("Metric %.100q has %d values in its buckets and a count of %d. They must be equal.", p.Name, total,
			p.Count)
	}
	if len(p.Bounds) > 0 {
		m.hash.Reset()
		for i, b := range p.Bounds {
			if math.IsNaN(b) || i > 0 && b <= p.Bounds[i-1] {
				return fmt.Sprintf("Metric %.100q has bounds that do not rise, at %v.", p.Name, b)
			}
			m.hashNumber(math.Float64bits(b))
		}
		c.Layout = uint32(m.hash.Sum64())
	}
	return ""
}

// durations gives the event the upper bounds of the buckets as durations, where the metric has a unit of time. Of a
// histogram that has no bucket ending at a threshold, it gives none: which events are good would be a guess.
func (m *Mapper) durations(p *otlpwire.Point, rule *metricRule, e *event.Draft) {
	unit, c := unitNanos[string(p.Unit)], &m.point.Counts
	if unit == 0 || len(c.Buckets) == 0 && p.Kind != otlpwire.ExponentialHistogram || p.Kind == otlpwire.Sum {
		return
	}
	if p.Kind == otlpwire.Histogram {
		if at, ok := m.boundary(p, rule, unit); !ok {
			m.noBoundary(p, rule, at, unit)
			return
		}
	} else {
		c.Shrink(maxDurations)
	}
	add := func(ns float64, n uint64) {
		if n > 0 {
			e.Durations = append(e.Durations, event.DurationCount{
				Duration: min(time.Duration(min(math.Round(ns), math.MaxInt64/2)), event.MaxDuration), Count: uint32(n)})
		}
	}
	add(0, c.Count)
	for i, n := range c.Buckets {
		switch {
		case p.Kind == otlpwire.ExponentialHistogram:
			add(unit*math.Exp2(float64(int(c.Offset)+i+1)*math.Exp2(-float64(c.Scale))), n)
		case i < len(p.Bounds):
			add(max(unit*p.Bounds[i], 0), n)
		default: // longer than all bounds, which is all that is known
			add(unit*p.Bounds[i-1]+1, n)
		}
	}
}

// boundary reports whether all thresholds of the rule's events are bounds of the buckets, or else one that is not.
func (m *Mapper) boundary(p *otlpwire.Point, rule *metricRule, unit float64) (time.Duration, bool) {
	if rule.thresholds == nil && m.thresholds != nil {
		rule.thresholds = m.thresholds(string(m.plan.service), string(rule.typ))
	}
next:
	for _, at := range rule.thresholds {
		for _, b := range p.Bounds {
			if math.Round(b*unit) == float64(at) {
				continue next
			}
		}
		return at, false
	}
	return 0, true
}

// noBoundary notes a histogram whose durations do not count, once a minute and rule.
func (m *Mapper) noBoundary(p *otlpwire.Point, rule *metricRule, at time.Duration, unit float64) {
	if m.findings == nil || rule.noted == m.minute {
		return
	}
	rule.noted = m.minute
	near := "it has none"
	for i, b := range p.Bounds {
		b := time.Duration(min(b*unit, math.MaxInt64/2))
		if near = fmt.Sprintf("the last one ends at %v", b); b > at {
			if near = fmt.Sprintf("the nearest end at %v", b); i > 0 {
				near = fmt.Sprintf("the nearest end at %v and %v", time.Duration(p.Bounds[i-1]*unit), b)
			}
			break
		}
	}
	m.findings.note(Finding{Reason: NoBoundary, Service: string(m.plan.service), Type: string(rule.typ),
		Detail: fmt.Sprintf("no bucket of %.100q ends at %v (%s)", p.Name, at, near)})
}

// metricRule is a compiled MetricRule, for one service.
type metricRule struct {
	service    string
	metric     pattern
	match      []condition
	failure    []condition // nil: by the status of HTTP or gRPC
	typ        []byte
	identity   string // what decides what counts
	class      counter.Key
	thresholds []time.Duration // of the spec; nil: not asked for
	noted      int64           // minute in which a finding was noted
}

func newMetricRule(r *MetricRule) *metricRule {
	return &metricRule{service: r.Service, metric: newPattern(r.Metric), match: conditions(r.Match),
		failure: conditions(r.Failure), typ: []byte(r.Type), identity: fmt.Sprintf("%q %q %q", r.Metric, r.Match, r.Type)}
}

// of is the rule for one service. Its class changes with whatever decides what counts.
func (r *metricRule) of(service string) *metricRule {
	out := *r
	out.class = xxh3.HashString128(fmt.Sprintf("%q %s", service, r.identity))
	return &out
}
