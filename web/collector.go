package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Collector exports a report as the series of package rules/series. It is an
// unchecked collector: which labels there are depends on the spec.
//
// It gives out nothing before the first report and until the engine has
// recovered: a counter that is still being filled from the log would look like
// a reset. Ratios of what has no data are absent, never 0 or 1.
//
// The families are built once per report and shared by all scrapes.
type Collector struct {
	report    func() *sla.Report
	recovered func() bool

	mu       sync.Mutex
	built    *sla.Report
	families []*dto.MetricFamily
}

// NewCollector makes a collector over the latest report.
func NewCollector(report func() *sla.Report, recovered func() bool) *Collector {
	return &Collector{report: report, recovered: recovered}
}

// Describe sends nothing, which makes the collector unchecked.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every series of the latest report.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, f := range c.current() {
		desc := prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil)
		for _, m := range f.Metric {
			ch <- constMetric{desc, m}
		}
	}
}

// Gather returns the same families without the checks of a registry, which for
// 10,000 groups would take most of a scrape's time. The families are sorted by
// name, must not be changed, and are unique by construction.
func (c *Collector) Gather() ([]*dto.MetricFamily, error) { return c.current(), nil }

func (c *Collector) current() []*dto.MetricFamily {
	rep := c.report()
	if rep == nil || !c.recovered() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.built != rep {
		c.built, c.families = rep, families(rep)
	}
	return c.families
}

type constMetric struct {
	desc *prometheus.Desc
	m    *dto.Metric
}

func (m constMetric) Desc() *prometheus.Desc { return m.desc }

func (m constMetric) Write(out *dto.Metric) error {
	out.Label, out.Counter, out.Gauge, out.Histogram = m.m.Label, m.m.Counter, m.m.Gauge, m.m.Histogram
	return nil
}

// family is a metric family under construction.
type family struct {
	typ metric.Type
	dto *dto.MetricFamily
}

func newFamily(s *metric.Family, room int) *family {
	types := map[metric.Type]dto.MetricType{
		metric.Counter: dto.MetricType_COUNTER, metric.Gauge: dto.MetricType_GAUGE, metric.Histogram: dto.MetricType_HISTOGRAM,
	}
	return &family{s.Type, &dto.MetricFamily{
		Name: &s.Name, Help: &s.Help, Type: types[s.Type].Enum(), Metric: make([]*dto.Metric, 0, room),
	}}
}

// add appends one series; a value that is not a number is left out.
func (f *family) add(labels []*dto.LabelPair, value float64) {
	if !format.Finite(value) {
		return
	}
	m := &dto.Metric{Label: labels}
	if f.typ == metric.Counter {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	f.dto.Metric = append(f.dto.Metric, m)
}

// names remembers the valid label names per series and list of extra labels,
// since all groups of one SLO share them.
type names map[string][]string

func (n names) of(s *metric.Family, extra []string) []string {
	if len(extra) == 0 {
		return s.LabelNames()
	}
	key := s.Name + "\xff" + strings.Join(extra, "\xff")
	if got, ok := n[key]; ok {
		return got
	}
	n[key] = s.LabelNames(extra...)
	return n[key]
}

// pairs joins names and values to sorted label pairs. Missing values are "".
func pairs(names []string, values ...string) []*dto.LabelPair {
	ps := make([]dto.LabelPair, len(names))
	out := make([]*dto.LabelPair, len(names))
	for i := range names {
		v := ""
		if i < len(values) {
			v = labelValue(values[i])
		}
		ps[i].Name, ps[i].Value = &names[i], &v
		out[i] = &ps[i]
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	return out
}

// with returns sorted labels plus one more, sharing the pairs.
func with(labels []*dto.LabelPair, p *dto.LabelPair) []*dto.LabelPair {
	i, _ := slices.BinarySearchFunc(labels, p, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	out := make([]*dto.LabelPair, 0, len(labels)+1)
	return append(append(append(out, labels[:i]...), p), labels[i:]...)
}

// labelValue makes text valid UTF-8, as the exposition formats demand; broken
// bytes stay told apart as \xNN.
func labelValue(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// families renders a report. Families without series are left out.
func families(rep *sla.Report) []*dto.MetricFamily {
	known := names{}
	all := slices.Concat(sloFamilies(rep, known), slaFamilies(rep, known), trafficFamilies(rep, known))
	var out []*dto.MetricFamily
	for _, f := range all {
		if len(f.dto.Metric) > 0 {
			out = append(out, f.dto)
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(*a.Name, *b.Name) })
	return out
}

func sloFamilies(rep *sla.Report, known names) []*family {
	n := len(rep.SLOs)
	events, sli, left := newFamily(series.Events, 2*n), newFamily(series.SLIRatio, n), newFamily(series.BudgetRemaining, n)
	backfilled := newFamily(series.BackfilledEvents, 0)
	ratio, achieved, target := newFamily(series.SliceRatio, 0), newFamily(series.SliceAchieved, 0), newFamily(series.SliceTarget, 0)
	burn, coverage, info := newFamily(series.BurnRate, (len(slo.BurnWindows)+1)*n), newFamily(series.Coverage, n), newFamily(series.Info, 0)
	good, bad := pair(series.LabelResult, series.ResultGood), pair(series.LabelResult, series.ResultBad)
	period := pair(series.LabelWindow, series.WindowPeriod)
	windows := map[int64]*dto.LabelPair{}
	for _, w := range slo.BurnWindows {
		windows[int64(w)] = pair(series.LabelWindow, slo.FormatDuration(w))
	}

	var last *slo.SLO
	for i := range rep.SLOs {
		r := &rep.SLOs[i]
		id, values := string(r.SLO.ID), slices.Concat([]string{string(r.SLO.ID), r.SLO.ID.Service(), r.SLO.ID.Name()}, r.Group)
		labels := pairs(known.of(series.SLIRatio, r.SLO.GroupBy), values...)

		events.add(with(labels, good), float64(r.Total.Good))
		events.add(with(labels, bad), float64(r.Total.Bad))
		if r.Backfilled.Valid() > 0 {
			backfilled.add(with(labels, good), float64(r.Backfilled.Good))
			backfilled.add(with(labels, bad), float64(r.Backfilled.Bad))
		}
		if meanOfSlices(r) {
			ratio.add(labels, r.Slices.Ratio)
		}
		if r.SLO.Indicator.Kind == slo.KindThroughput {
			achieved.add(labels, float64(r.Slices.Achieved))
			target.add(labels, float64(r.Slices.Target))
		}
		coverage.add(labels, r.Coverage)
		if r.Budget.HasData {
			sli.add(labels, r.Budget.SLI)
			left.add(labels, r.Budget.Remaining)
		}
		for _, b := range r.Burns {
			w := period
			if !b.Period {
				w = windows[int64(b.Window)]
			}
			if b.HasData && w != nil {
				burn.add(with(labels, w), b.Rate)
			}
		}
		if r.SLO != last {
			last = r.SLO
			own := slices.Sorted(maps.Keys(r.SLO.Labels))
			values := []string{id, r.SLO.ID.Service(), r.SLO.ID.Name(), r.SLO.Objective.Percent(), r.SLO.Window.String()}
			for _, k := range own {
				values = append(values, r.SLO.Labels[k])
			}
			info.add(pairs(known.of(series.Info, own), values...), 1)
		}
	}
	return []*family{events, backfilled, ratio, achieved, target, sli, left, burn, coverage, info}
}

// meanOfSlices reports whether an SLO is judged by the mean of its slices' ratios.
func meanOfSlices(r *sla.SLOReport) bool {
	return r.SLO.Budgeting.Method == slo.RatioTimeslices && r.SLO.Indicator.Kind != slo.KindThroughput
}

// bandLE is the upper bound of a band as a label: seconds, or +Inf.
func bandLE(b sla.BandTotal) string {
	if b.Threshold == 0 {
		return "+Inf"
	}
	return slo.FormatRatio(b.Threshold.Seconds())
}

func slaFamilies(rep *sla.Report, known names) []*family {
	score, component, violations := newFamily(series.CompositeScore, 0), newFamily(series.ComponentScore, 0), newFamily(series.Violations, 0)
	bands := newFamily(series.BandEvents, 0)
	for i := range rep.SLAs {
		r := &rep.SLAs[i]
		if r.HasData {
			score.add(pairs(known.of(series.CompositeScore, r.SLA.GroupBy), slices.Concat([]string{r.SLA.Service, r.SLA.Name}, r.Group)...), r.Score)
		}
		for _, c := range r.Components {
			if c.HasData {
				component.add(pairs(known.of(series.ComponentScore, r.SLA.GroupBy), slices.Concat([]string{r.SLA.Service, r.SLA.Name, c.Name}, r.Group)...), 100*c.Points)
			}
			for _, b := range c.Bands {
				bands.add(pairs(known.of(series.BandEvents, r.SLA.GroupBy), slices.Concat([]string{r.SLA.Service, r.SLA.Name, c.Name, bandLE(b)}, r.Group)...), float64(b.Count))
			}
		}
	}
	for _, l := range rep.Thresholds {
		for _, v := range levels(l) {
			violations.add(pairs(series.Violations.LabelNames(), l.Threshold.Name, v.severity, l.Threshold.Service), float64(v.n))
		}
	}
	return []*family{score, component, bands, violations}
}

func trafficFamilies(rep *sla.Report, known names) []*family {
	events, durations := newFamily(series.EngineEvents, len(rep.Traffic)), newFamily(series.EventDuration, len(rep.Durations))
	for _, t := range rep.Traffic {
		labels := pairs(known.of(series.EngineEvents, t.DimensionNames), slices.Concat([]string{t.Service, t.Type, t.Outcome, t.Severity}, t.DimensionValues)...)
		events.add(labels, float64(t.Count))
	}
	for _, d := range rep.Durations {
		h := &dto.Histogram{}
		var total uint64
		for i, upper := range d.Buckets {
			if i >= len(d.Counts) {
				break
			}
			total += d.Counts[i]
			le, upTo := upper.Seconds(), total
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &le, CumulativeCount: &upTo})
		}
		for i := len(d.Buckets); i < len(d.Counts); i++ {
			total += d.Counts[i]
		}
		sum := d.SumSeconds
		h.SampleCount, h.SampleSum = &total, &sum
		durations.dto.Metric = append(durations.dto.Metric, &dto.Metric{Label: pairs(series.EventDuration.LabelNames(), d.Service, d.Type), Histogram: h})
	}
	return []*family{events, durations}
}
