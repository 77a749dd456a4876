package web

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// exposition writes a report in one of the two text formats, Prometheus 0.0.4 or
// OpenMetrics. It exists beside Collector because a scrape of 10,000 groups is
// 130,000 series, which cost several times as much as values of client_golang;
// a test holds both against each other.
type exposition struct {
	w    io.Writer
	om   bool // OpenMetrics
	buf  []byte
	err  error
	done bool // the head of the current family is written
	s    *metric.Family
}

const flushAt = 64 << 10

func (x *exposition) family(s *metric.Family) { x.s, x.done = s, false }

// head announces the family before its first sample, so that a family without
// samples is not there at all.
func (x *exposition) head() {
	if x.done {
		return
	}
	x.done = true
	name := x.s.Name
	if x.om && x.s.Type == metric.Counter {
		name = strings.TrimSuffix(name, "_total")
	}
	x.buf = append(append(append(append(x.buf, "# HELP "...), name...), ' '), x.s.Help...)
	x.buf = append(append(append(append(append(x.buf, "\n# TYPE "...), name...), ' '), x.s.Type...), '\n')
}

// sample writes one line. labels and more are label pairs without braces.
func (x *exposition) sample(suffix string, labels, more []byte, v float64) {
	if !format.Finite(v) {
		return
	}
	x.head()
	b := append(append(append(append(x.buf, x.s.Name...), suffix...), '{'), labels...)
	if len(more) > 0 {
		b = append(append(b, ','), more...)
	}
	b = append(b, "} "...)
	if suffix == "_bucket" || suffix == "_count" {
		b = strconv.AppendUint(b, uint64(v), 10) // counts are whole numbers in both formats
	} else {
		b = x.number(b, v)
	}
	x.buf = append(b, '\n')
	if len(x.buf) >= flushAt {
		x.flush()
	}
}

func (x *exposition) number(b []byte, v float64) []byte {
	from := len(b)
	if v == float64(int64(v)) && v > -1e15 && v < 1e15 {
		b = strconv.AppendInt(b, int64(v), 10)
	} else {
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	if x.om && !slices.ContainsFunc(b[from:], func(c byte) bool { return c == '.' || c == 'e' }) {
		b = append(b, ".0"...) // OpenMetrics wants floats to look like floats
	}
	return b
}

func (x *exposition) flush() {
	if x.err == nil {
		_, x.err = x.w.Write(x.buf)
	}
	x.buf = x.buf[:0]
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// appendLabels appends name="value" pairs. Missing values are "".
func appendLabels(b []byte, names []string, values ...string) []byte {
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, name...), `="`...)
		if i < len(values) {
			v := labelValue(values[i])
			if strings.ContainsAny(v, "\\\n\"") {
				v = labelEscapes.Replace(v)
			}
			b = append(b, v...)
		}
		b = append(b, '"')
	}
	return b
}

func oneLabel(name, value string) []byte { return appendLabels(nil, []string{name}, value) }

// writeReport writes every series of a report to w.
func writeReport(w io.Writer, rep *sla.Report, openMetrics bool) error {
	x := &exposition{w: w, om: openMetrics, buf: make([]byte, 0, flushAt+4096)}
	known := names{}
	x.slos(rep, known)
	x.slas(rep, known)
	x.traffic(rep, known)
	x.flush()
	return x.err
}

func (x *exposition) slos(rep *sla.Report, known names) {
	// The labels of a group are the same in all families: write them once.
	all := make([]byte, 0, 128*len(rep.SLOs))
	ends := make([]int, len(rep.SLOs))
	values := make([]string, 0, 8)
	for i := range rep.SLOs {
		id := rep.SLOs[i].SLO.ID
		values = append(append(values[:0], string(id), id.Service(), id.Name()), rep.SLOs[i].Group...)
		all = appendLabels(all, known.of(series.SLIRatio, rep.SLOs[i].SLO.GroupBy), values...)
		ends[i] = len(all)
	}
	each := func(s *metric.Family, f func(r *sla.SLOReport, labels []byte)) {
		x.family(s)
		from := 0
		for i, to := range ends {
			f(&rep.SLOs[i], all[from:to])
			from = to
		}
	}
	good, bad := oneLabel(series.LabelResult, series.ResultGood), oneLabel(series.LabelResult, series.ResultBad)
	each(series.Events, func(r *sla.SLOReport, labels []byte) {
		x.sample("", labels, good, float64(r.Total.Good))
		x.sample("", labels, bad, float64(r.Total.Bad))
	})
	each(series.BackfilledEvents, func(r *sla.SLOReport, labels []byte) {
		if r.Backfilled.Valid() > 0 {
			x.sample("", labels, good, float64(r.Backfilled.Good))
			x.sample("", labels, bad, float64(r.Backfilled.Bad))
		}
	})
	each(series.SliceRatio, func(r *sla.SLOReport, labels []byte) {
		if meanOfSlices(r) {
			x.sample("", labels, nil, r.Slices.Ratio)
		}
	})
	each(series.SliceAchieved, func(r *sla.SLOReport, labels []byte) {
		if r.SLO.Indicator.Kind == slo.KindThroughput {
			x.sample("", labels, nil, float64(r.Slices.Achieved))
		}
	})
	each(series.SliceTarget, func(r *sla.SLOReport, labels []byte) {
		if r.SLO.Indicator.Kind == slo.KindThroughput {
			x.sample("", labels, nil, float64(r.Slices.Target))
		}
	})
	each(series.SLIRatio, func(r *sla.SLOReport, labels []byte) {
		if r.Budget.HasData {
			x.sample("", labels, nil, r.Budget.SLI)
		}
	})
	each(series.BudgetRemaining, func(r *sla.SLOReport, labels []byte) {
		if r.Budget.HasData {
			x.sample("", labels, nil, r.Budget.Remaining)
		}
	})
	windows := map[int64][]byte{}
	for _, d := range slo.BurnWindows {
		windows[int64(d)] = oneLabel(series.LabelWindow, slo.FormatDuration(d))
	}
	period := oneLabel(series.LabelWindow, series.WindowPeriod)
	each(series.BurnRate, func(r *sla.SLOReport, labels []byte) {
		for _, b := range r.Burns {
			window := period
			if !b.Period {
				window = windows[int64(b.Window)]
			}
			if b.HasData && window != nil {
				x.sample("", labels, window, b.Rate)
			}
		}
	})
	each(series.Coverage, func(r *sla.SLOReport, labels []byte) { x.sample("", labels, nil, r.Coverage) })

	x.family(series.Info)
	var last *slo.SLO
	for i := range rep.SLOs {
		s := rep.SLOs[i].SLO
		if s == last {
			continue
		}
		last = s
		own := slices.Sorted(maps.Keys(s.Labels))
		values := []string{string(s.ID), s.ID.Service(), s.ID.Name(), s.Objective.Percent(), s.Window.String()}
		for _, k := range own {
			values = append(values, s.Labels[k])
		}
		x.sample("", appendLabels(nil, known.of(series.Info, own), values...), nil, 1)
	}
}

func (x *exposition) slas(rep *sla.Report, known names) {
	x.family(series.CompositeScore)
	for i := range rep.SLAs {
		if r := &rep.SLAs[i]; r.HasData {
			x.sample("", appendLabels(nil, known.of(series.CompositeScore, r.SLA.GroupBy), slices.Concat([]string{r.SLA.Service, r.SLA.Name}, r.Group)...), nil, r.Score)
		}
	}
	x.family(series.ComponentScore)
	for i := range rep.SLAs {
		r := &rep.SLAs[i]
		for _, c := range r.Components {
			if c.HasData {
				x.sample("", appendLabels(nil, known.of(series.ComponentScore, r.SLA.GroupBy), slices.Concat([]string{r.SLA.Service, r.SLA.Name, c.Name}, r.Group)...), nil, 100*c.Points)
			}
		}
	}
	x.family(series.BandEvents)
	for i := range rep.SLAs {
		r := &rep.SLAs[i]
		for _, c := range r.Components {
			for _, b := range c.Bands {
				x.sample("", appendLabels(nil, known.of(series.BandEvents, r.SLA.GroupBy), slices.Concat([]string{r.SLA.Service, r.SLA.Name, c.Name, bandLE(b)}, r.Group)...), nil, float64(b.Count))
			}
		}
	}
	x.family(series.Violations)
	for _, l := range rep.Thresholds {
		for _, v := range levels(l) {
			x.sample("", appendLabels(nil, series.Violations.LabelNames(), l.Threshold.Name, v.severity, l.Threshold.Service), nil, float64(v.n))
		}
	}
}

type violation struct {
	severity string
	n        uint64
}

// levels are a threshold's own levels with their violations: one that it does not
// have is no series, rather than one that is always 0.
func levels(l sla.ThresholdReport) []violation {
	var out []violation
	if l.Threshold.Warning > 0 || l.Threshold.Each == "warning" {
		out = append(out, violation{"warning", l.Total.Warning})
	}
	if l.Threshold.Critical > 0 || l.Threshold.Each == "critical" {
		out = append(out, violation{"critical", l.Total.Critical})
	}
	return out
}

func (x *exposition) traffic(rep *sla.Report, known names) {
	x.family(series.EngineEvents)
	for _, t := range rep.Traffic {
		labels := appendLabels(nil, known.of(series.EngineEvents, t.DimensionNames), slices.Concat([]string{t.Service, t.Type, t.Outcome, t.Severity}, t.DimensionValues)...)
		x.sample("", labels, nil, float64(t.Count))
	}
	x.family(series.EventDuration)
	for _, d := range rep.Durations {
		labels := appendLabels(nil, series.EventDuration.LabelNames(), d.Service, d.Type)
		var total uint64
		for i, n := range d.Counts {
			total += n
			if i < len(d.Buckets) {
				le := append(x.number([]byte(`le="`), d.Buckets[i].Seconds()), '"')
				x.sample("_bucket", labels, le, float64(total))
			}
		}
		x.sample("_bucket", labels, []byte(`le="+Inf"`), float64(total))
		x.sample("_sum", labels, nil, d.SumSeconds)
		x.sample("_count", labels, nil, float64(total))
	}
}
