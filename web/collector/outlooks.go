package collector

import (
	"time"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// quantiles are those of the ends and the middle of a range.
var quantiles = []string{"0.05", "0.5", "0.95"}

// outlooks are the forecasts and capacities. each calls its function for every group of an SLO, with the group's
// labels.
func (w *walker[L]) outlooks(each func(*metric.Family, func(r *sla.SLOReport, labels L))) {
	var single []L
	for _, q := range quantiles {
		single = append(single, w.labels([]string{series.LabelQuantile}, q))
	}
	leads, pairs := map[string]L{}, map[string][]L{} // most groups have the same
	for _, h := range forecast.LeadNames {
		leads[h] = w.labels([]string{series.LabelAhead}, h)
		for _, q := range quantiles {
			pairs[h] = append(pairs[h], w.labels([]string{series.LabelAhead, series.LabelQuantile}, h, q))
		}
	}
	forecasts := func(f *metric.Family, add func(r *sla.SLOReport, f *forecast.Forecast, labels L)) {
		each(f, func(r *sla.SLOReport, labels L) {
			if r.Outlook != nil && r.Outlook.Forecast.TooLittle == "" {
				add(r, &r.Outlook.Forecast, labels)
			}
		})
	}
	forecasts(series.ForecastRemaining, func(_ *sla.SLOReport, f *forecast.Forecast, labels L) {
		for i := range f.Points {
			p := &f.Points[i]
			for k, v := range []float64{p.Low, p.Median, p.High} {
				w.add(labels, pairs[p.LeadName()][k], v)
			}
		}
	})
	forecasts(series.ForecastExhausted, func(r *sla.SLOReport, f *forecast.Forecast, labels L) {
		soon := r.SLO.Alerting.Soon.Within
		for i := range f.Points {
			p := &f.Points[i]
			if p.Ahead == soon && !p.WindowEnd {
				soon = 0
			}
			v := p.Exhausted
			if f.Exhaustion.Already {
				v = 1
			}
			w.add(labels, leads[p.LeadName()], v)
		}
		if soon > 0 {
			w.add(labels, w.labels([]string{series.LabelAhead}, slo.FormatDuration(soon)), f.Exhaustion.Soon)
		}
	})
	forecasts(series.ForecastExhaustion, func(_ *sla.SLOReport, f *forecast.Forecast, labels L) {
		e := &f.Exhaustion
		for k, d := range []time.Duration{e.Low, e.Median, e.High} {
			w.within(labels, single[k], d)
		}
	})
	capacities := func(f *metric.Family, add func(r *sla.SLOReport, perSecond float64, labels L)) {
		each(f, func(r *sla.SLOReport, labels L) {
			if c := r.SLO.Indicator.Capacity; !c.IsZero() {
				add(r, c.PerSecond(), labels)
			}
		})
	}
	capacities(series.CapacityEvents, func(r *sla.SLOReport, _ float64, labels L) {
		w.add(labels, w.none, float64(r.EventsTotal))
	})
	capacities(series.CapacityUtilization, func(r *sla.SLOReport, perSecond float64, labels L) {
		w.add(labels, w.none, r.Rate/perSecond)
	})
	capacities(series.CapacityHeadroom, func(r *sla.SLOReport, perSecond float64, labels L) {
		w.add(labels, w.none, perSecond-r.Rate)
	})
	capacities(series.CapacityPeak, func(r *sla.SLOReport, _ float64, labels L) {
		if r.Outlook != nil && r.Outlook.Capacity != nil && r.Outlook.Capacity.HasPeak {
			w.add(labels, w.none, r.Outlook.Capacity.Utilization())
		}
	})
	capacities(series.CapacityReached, func(r *sla.SLOReport, _ float64, labels L) {
		if r.Outlook == nil || r.Outlook.Capacity == nil {
			return
		}
		c := r.Outlook.Capacity
		if c.Reached == forecast.ReachedWithin || c.Reached == forecast.ReachedAlready {
			w.within(labels, w.labels([]string{series.LabelBound}, "earliest"), c.Low)
			w.within(labels, w.labels([]string{series.LabelBound}, "latest"), c.High)
		}
	})
}

// within adds a time ahead, unless it is further away than was looked.
func (w *walker[L]) within(labels, more L, d time.Duration) {
	if d != forecast.Beyond {
		w.add(labels, more, d.Seconds())
	}
}
