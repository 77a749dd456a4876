package delivery

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of all reports, by name.
type Metrics struct{ *metric.PerName[*series] }

// series are those of one report.
type series struct {
	sent         map[Kind]*metrics.Counter
	failures     *metrics.Counter
	failed, late *metrics.Counter
	failing      *metrics.Gauge
	pending      *metrics.Gauge
	lastSuccess  *metrics.Gauge
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{metric.NewPerName(set, func(g *metric.Group, name string) *series {
		s := &series{
			sent: map[Kind]*metrics.Counter{}, failures: g.Counter(metric.ReportsFailures, name),
			failed: g.Counter(metric.ReportsAbandoned, name, "failed"), late: g.Counter(metric.ReportsAbandoned, name, "late"),
			failing: g.Gauge(metric.ReportsFailing, name), pending: g.Gauge(metric.ReportsPending, name),
			lastSuccess: g.Gauge(metric.ReportsLastSuccess, name),
		}
		for _, k := range []Kind{ToFolder, ToWebhook, ToMail} {
			s.sent[k] = g.Counter(metric.ReportsSent, name, string(k))
		}
		return s
	})}
}
