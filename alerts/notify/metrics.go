package notify

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Metrics are the counters of all peers, by name.
type Metrics struct {
	*metric.PerName[*series]

	Inhibited *metrics.Gauge // alerts, at the engine's own receivers
}

// series are those of one peer.
type series struct {
	sent                         *metrics.Counter
	refused, expired             *metrics.Counter
	failures                     [retry.Classes]*metrics.Counter // nil for classes that no request has
	failing, pending             *metrics.Gauge
	lastSuccess, lastSuccessTook *metrics.Gauge
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	targets := metric.NewPerName(set, func(g *metric.Group, name string) *series {
		s := &series{
			sent:    g.Counter(metric.NotifySent, name),
			refused: g.Counter(metric.NotifyDropped, name, "refused"), expired: g.Counter(metric.NotifyDropped, name, "expired"),
			failing: g.Gauge(metric.NotifyFailing, name), pending: g.Gauge(metric.NotifyPending, name),
			lastSuccess: g.Gauge(metric.NotifyLastSuccess, name), lastSuccessTook: g.Gauge(metric.NotifyLastSuccessTook, name),
		}
		for c := range s.failures {
			if class := retry.Class(c); class != retry.ClassBreakerOpen {
				s.failures[c] = g.Counter(metric.NotifyFailures, name, class.String())
			}
		}
		return s
	})
	return &Metrics{targets, metric.NotifyInhibited.Gauge(set)}
}
