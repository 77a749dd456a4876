package outlook

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/sla/forecast"
)

// Metrics are the figures of a Keeper.
type Metrics struct {
	groups   *metrics.Gauge
	seconds  *metrics.PrometheusHistogram
	failures *metrics.Counter
	unsaved  *metrics.Counter
	record   atomic.Pointer[forecast.Record]
}

// NewMetrics registers the sloengine_forecast_* metrics in a set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		groups: metric.ForecastGroups.Gauge(set), seconds: metric.ForecastSeconds.Histogram(set),
		failures: metric.ForecastFailures.Counter(set, "read"), unsaved: metric.ForecastFailures.Counter(set, "save"),
	}
	m.record.Store(&forecast.Record{})
	for i, lead := range forecast.LeadNames {
		score := func(family *metric.Family, of func(*forecast.Score) uint64) {
			family.Read(set, func() float64 { return float64(of(&m.record.Load()[i])) }, lead)
		}
		score(metric.ForecastsMade, func(s *forecast.Score) uint64 { return s.Made })
		score(metric.ForecastsChecked, func(s *forecast.Score) uint64 { return s.Checked })
		score(metric.ForecastsInside, func(s *forecast.Score) uint64 { return s.Inside })
		score(metric.ForecastsMissed, func(s *forecast.Score) uint64 { return s.Missed })
	}
	return m
}
