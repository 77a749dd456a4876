package shared

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of a Link and of all that use it.
type Metrics struct {
	up        *metrics.Gauge
	fallback  *metrics.Gauge
	fallbacks *metrics.Counter
	lost      *metrics.Counter
	roundTrip *metrics.PrometheusHistogram
	errors    [reasons]*metrics.Counter
	outbound  *metric.PerName[outboundSeries]
}

type outboundSeries struct {
	allowed, refused, fallback *metrics.Counter
	wait                       *metrics.PrometheusHistogram
}

// NewMetrics makes the counters in set. One Link per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		up:        metric.RedisUp.Gauge(set),
		fallback:  metric.RateLimitFallback.Gauge(set),
		fallbacks: metric.RateLimitFallbacks.Counter(set),
		lost:      metric.RateLimitFallbackErrors.Counter(set),
		roundTrip: metric.RedisRoundTripSeconds.Histogram(set),
		outbound: metric.NewPerName(set, func(g *metric.Group, name string) outboundSeries {
			return outboundSeries{
				g.Counter(metric.RateLimitOutboundAllowed, name), g.Counter(metric.RateLimitOutboundRefused, name),
				g.Counter(metric.RateLimitOutboundFallback, name), g.Histogram(metric.RateLimitOutboundWaitSeconds, name),
			}
		}),
	}
	for r := range m.errors {
		m.errors[r] = metric.RedisErrors.Counter(set, reason(r).String())
	}
	return m
}
