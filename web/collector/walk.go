package collector

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// encoder takes the series of a report one family after another. L is how it writes labels.
type encoder[L any] interface {
	// family begins a family. One without samples is not written.
	family(f *metric.Family)
	// labels joins names and values. A missing value is "".
	labels(names []string, values ...string) L
	// sample adds a series with the labels of both lists.
	sample(labels, more L, value float64, e *exemplar)
	// histogram adds a histogram with cumulative buckets, of which the last is +Inf.
	histogram(labels L, buckets []bucket, sum float64)
}

type bucket struct {
	le       float64
	count    uint64 // cumulative
	exemplar *exemplar
}

// walker hands a report to an encoder.
type walker[L any] struct {
	encoder[L]
	rep   *sla.Report
	ex    *exemplars
	none  L                   // no labels
	names map[string][]string // label names by family and extra labels: the groups of an SLO share them
}

// walk hands every series of a report to an encoder. Values that are not finite are left out.
func walk[L any](rep *sla.Report, ex *exemplars, x encoder[L]) {
	w := &walker[L]{encoder: x, rep: rep, ex: ex, names: map[string][]string{}}
	w.slos()
	w.info()
	w.slas()
	w.traffic()
}

func (w *walker[L]) add(labels, more L, value float64) { w.addWith(labels, more, value, nil) }

func (w *walker[L]) addWith(labels, more L, value float64, e *exemplar) {
	if format.Finite(value) {
		w.sample(labels, more, value, e)
	}
}

// labelsOf joins the labels of a family, those of a group among them, with values.
func (w *walker[L]) labelsOf(f *metric.Family, extra []string, values ...string) L {
	if len(extra) == 0 {
		return w.labels(f.LabelNames(), values...)
	}
	key := f.Name + "\xff" + strings.Join(extra, "\xff")
	names, ok := w.names[key]
	if !ok {
		names = slices.Concat(f.LabelNames(), series.GroupLabels(extra))
		w.names[key] = names
	}
	return w.labels(names, values...)
}

func (w *walker[L]) slos() {
	// The labels of a group are the same in all families.
	groups := make([]L, len(w.rep.SLOs))
	values := make([]string, 0, 8)
	for i := range w.rep.SLOs {
		r := &w.rep.SLOs[i]
		values = append(append(values[:0], string(r.SLO.ID), r.SLO.ID.Service(), r.SLO.ID.Name()), r.Group...)
		groups[i] = w.labelsOf(series.SLIRatio, r.SLO.GroupBy, values...)
	}
	each := func(f *metric.Family, add func(r *sla.SLOReport, labels L)) {
		w.family(f)
		for i := range w.rep.SLOs {
			add(&w.rep.SLOs[i], groups[i])
		}
	}
	good, bad := w.labels([]string{series.LabelResult}, series.ResultGood),
		w.labels([]string{series.LabelResult}, series.ResultBad)
	counts := func(labels L, c slo.Counts) {
		w.add(labels, good, float64(c.Good))
		w.add(labels, bad, float64(c.Bad))
	}
	each(series.Events, func(r *sla.SLOReport, labels L) {
		if r.SLO.Indicator.Kind == slo.KindRatio { // its bad events may become fewer
			return
		}
		unit := float64(r.SLO.Indicator.Kind.Unit())
		w.add(labels, good, float64(r.Total.Good)/unit)
		w.addWith(labels, bad, float64(r.Total.Bad)/unit, w.ex.bad(r.SLO.ID, r.Group))
	})
	w.parts(each)
	each(series.BackfilledEvents, func(r *sla.SLOReport, labels L) {
		if r.Backfilled.Valid() > 0 {
			counts(labels, r.Backfilled)
		}
	})
	each(series.SliceRatio, func(r *sla.SLOReport, labels L) {
		if r.SLO.ByRatio() {
			w.add(labels, w.none, r.Slices.Ratio)
		}
	})
	each(series.SliceAchieved, func(r *sla.SLOReport, labels L) {
		if r.SLO.Indicator.Kind == slo.KindThroughput {
			w.add(labels, w.none, float64(r.Slices.Achieved))
		}
	})
	each(series.SliceTarget, func(r *sla.SLOReport, labels L) {
		if r.SLO.Indicator.Kind == slo.KindThroughput {
			w.add(labels, w.none, float64(r.Slices.Target))
		}
	})
	each(series.PeakMinute, func(r *sla.SLOReport, labels L) {
		if r.SLO.Indicator.Kind == slo.KindThroughput {
			w.add(labels, w.none, float64(r.PeakMinute))
		}
	})
	each(series.Cost, func(r *sla.SLOReport, _ L) {
		if c := r.SLO.Cost; c != nil {
			values = append(
				append(values[:0], string(r.SLO.ID), r.SLO.ID.Service(), r.SLO.ID.Name(), c.Currency, c.Basis()), r.Group...)
			w.add(w.labelsOf(series.Cost, r.SLO.GroupBy, values...), w.none, r.SLO.UnitCost().Times(r.Total.Bad).Float())
		}
	})
	each(series.SLIRatio, func(r *sla.SLOReport, labels L) {
		if r.Budget.HasData {
			w.add(labels, w.none, r.Budget.SLI)
		}
	})
	each(series.Up, func(r *sla.SLOReport, labels L) {
		if len(r.Burns) > 0 && r.Burns[0].HasData {
			up := 0.0
			if r.Burns[0].Rate <= 1 {
				up = 1
			}
			w.add(labels, w.none, up)
		}
	})
	each(series.BudgetRemaining, func(r *sla.SLOReport, labels L) {
		if r.Budget.HasData {
			w.add(labels, w.none, r.Budget.Remaining)
		}
	})
	windows := map[int64]L{}
	for _, d := range slo.BurnWindows {
		windows[int64(d)] = w.labels([]string{series.LabelWindow}, slo.FormatDuration(d))
	}
	period := w.labels([]string{series.LabelWindow}, series.WindowPeriod)
	each(series.BurnRate, func(r *sla.SLOReport, labels L) {
		for _, b := range r.Burns {
			window, known := period, true
			if !b.Period {
				window, known = windows[int64(b.Window)]
			}
			if b.HasData && known {
				w.add(labels, window, b.Rate)
			}
		}
	})
	w.outlooks(each)
	each(series.Coverage, func(r *sla.SLOReport, labels L) { w.add(labels, w.none, r.Coverage) })
	w.inFlight()
}

// inFlight adds the series of work.
func (w *walker[L]) inFlight() {
	stages := func(f *metric.Family, n func(s *slo.InFlightStage) uint64) {
		w.family(f)
		for i := range w.rep.InFlight {
			x := &w.rep.InFlight[i]
			for _, g := range x.Groups {
				for j := range g.Stages {
					values := append([]string{string(x.SLO), x.SLO.Service(), x.SLO.Name(), g.Stages[j].Stage}, g.Group...)
					w.add(w.labelsOf(f, x.GroupBy, values...), w.none, float64(n(&g.Stages[j])))
				}
			}
		}
	}
	stages(series.InFlight, func(s *slo.InFlightStage) uint64 { return s.Open + s.Overdue })
	stages(series.InFlightOverdue, func(s *slo.InFlightStage) uint64 { return s.Overdue })
	each := func(f *metric.Family, value func(x *slo.InFlight) float64) {
		w.family(f)
		for i := range w.rep.InFlight {
			x := &w.rep.InFlight[i]
			w.add(w.labelsOf(f, nil, string(x.SLO), x.SLO.Service(), x.SLO.Name()), w.none, value(x))
		}
	}
	each(series.InFlightOldest, func(x *slo.InFlight) float64 {
		if x.Oldest.IsZero() {
			return 0
		}
		return max(0, w.rep.Time.Sub(x.Oldest).Seconds())
	})
	each(series.InFlightUntracked, func(x *slo.InFlight) float64 { return float64(x.Untracked) })
}

// parts adds what ratios, apdexes and volumes have of their own.
func (w *walker[L]) parts(each func(*metric.Family, func(*sla.SLOReport, L))) {
	each(series.PartEvents, func(r *sla.SLOReport, labels L) {
		if r.Parts == nil {
			return
		}
		for i, name := range r.SLO.Indicator.Kind.PartNames() {
			if i < len(r.Parts.Total) {
				w.add(labels, w.labels([]string{series.LabelPart}, name), float64(r.Parts.Total[i]))
			}
		}
	})
	volume := func(f *metric.Family, value func(*sla.VolumeReport) float64) {
		each(f, func(r *sla.SLOReport, labels L) {
			if r.Volume != nil {
				w.add(labels, w.none, value(r.Volume))
			}
		})
	}
	volume(series.VolumeEvents, func(v *sla.VolumeReport) float64 { return float64(v.Events) })
	volume(series.VolumeTarget, func(v *sla.VolumeReport) float64 { return float64(v.Target) })
	volume(series.VolumeExpected, func(v *sla.VolumeReport) float64 { return v.Expected })
}

func (w *walker[L]) info() {
	w.family(series.Info)
	var last *slo.SLO
	for i := range w.rep.SLOs {
		s := w.rep.SLOs[i].SLO
		if s == last {
			continue
		}
		last = s
		own := slices.Sorted(maps.Keys(s.Labels))
		values := []string{string(s.ID), s.ID.Service(), s.ID.Name(), s.Objective.Percent(), s.Window.String()}
		for _, k := range own {
			values = append(values, s.Labels[k])
		}
		if s.Earlier {
			own, values = append(own, series.LabelDefinition), append(values, series.DefinitionEarlier)
		}
		w.add(w.labels(slices.Concat(series.Info.LabelNames(), own), values...), w.none, 1)
	}
}

func (w *walker[L]) slas() {
	// each calls add for every agreement. The function that it gets adds a series of the agreement, whose family has
	// the labels values besides those of the agreement and its group.
	each := func(f *metric.Family, add func(r *sla.SLAReport, series func(value float64, values ...string))) {
		w.family(f)
		for i := range w.rep.SLAs {
			r := &w.rep.SLAs[i]
			add(r, func(value float64, values ...string) {
				w.add(w.labelsOf(f, r.SLA.GroupBy, slices.Concat([]string{r.SLA.Service, r.SLA.Name}, values, r.Group)...),
					w.none, value)
			})
		}
	}
	each(series.CompositeScore, func(r *sla.SLAReport, add func(float64, ...string)) {
		if r.HasData {
			add(r.Score)
		}
	})
	each(series.ComponentScore, func(r *sla.SLAReport, add func(float64, ...string)) {
		for _, c := range r.Components {
			if c.HasData {
				add(100*c.Points, c.Name)
			}
		}
	})
	each(series.BandEvents, func(r *sla.SLAReport, add func(float64, ...string)) {
		for _, c := range r.Components {
			for _, b := range c.Bands {
				le := "+Inf"
				if b.Threshold > 0 {
					le = slo.FormatRatio(b.Threshold.Seconds())
				}
				add(float64(b.Count), c.Name, le)
			}
		}
	})
	w.violations(series.Violations, func(g *sla.ThresholdGroup) sla.Violations { return g.Total })
	w.violations(series.ViolationsDay, func(g *sla.ThresholdGroup) sla.Violations { return g.Day })
}

// violations are those of every event threshold and group.
func (w *walker[L]) violations(f *metric.Family, of func(*sla.ThresholdGroup) sla.Violations) {
	w.family(f)
	for _, r := range w.rep.Thresholds {
		t, groups := r.Threshold, r.Groups
		if len(t.GroupBy) == 0 {
			groups = []sla.ThresholdGroup{{Total: r.Total, Day: r.Day}}
		}
		for i := range groups {
			g, n := &groups[i], of(&groups[i])
			// A severity that the threshold lacks has no series, rather than one that is always 0.
			add := func(severity string, above bool, n uint64) {
				if above || t.Each == severity {
					w.add(w.labelsOf(f, t.GroupBy, slices.Concat([]string{t.Name, severity, t.Service}, g.Group)...),
						w.none, float64(n))
				}
			}
			add("warning", t.Warning > 0, n.Warning)
			add("critical", t.Critical > 0, n.Critical)
		}
	}
}

func (w *walker[L]) traffic() {
	w.family(series.EngineEvents)
	for _, t := range w.rep.Traffic {
		w.addWith(w.labelsOf(series.EngineEvents, t.DimensionNames,
			slices.Concat([]string{t.Service, t.Type, t.Outcome, t.Severity}, t.DimensionValues)...), w.none, float64(t.Count),
			w.ex.of(t.DimensionValues, t.Service, t.Type, t.Outcome, t.Severity))
	}
	w.family(series.EventDuration)
	for _, d := range w.rep.Durations {
		buckets := make([]bucket, len(d.Buckets)+1)
		slowest := &buckets[len(d.Buckets)]
		slowest.le = math.Inf(1)
		for i, n := range d.Counts {
			slowest.count += n
			if i < len(d.Buckets) {
				buckets[i].le, buckets[i].count = d.Buckets[i].Seconds(), slowest.count
			}
		}
		for i, e := range w.ex.observed(d.Buckets, d.DimensionValues, d.Service, d.Type, d.Outcome) {
			buckets[i].exemplar = e
		}
		w.histogram(w.labelsOf(series.EventDuration, d.DimensionNames,
			slices.Concat([]string{d.Service, d.Type, d.Outcome}, d.DimensionValues)...), buckets, d.SumSeconds)
	}
}
