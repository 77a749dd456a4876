package source

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of all sources, by name.
type Metrics struct{ sources *metric.PerName[*counts] }

// counts are those of one source.
type counts struct {
	messages, bytes, empty      *metrics.Counter
	accepted, duplicate         *metrics.Counter
	rejected, expired           *metrics.Counter
	sampled, dropped, discarded *metrics.Counter
	cut                         *metrics.Counter
	busy                        *metrics.FloatCounter
	dead                        map[string]*metrics.Counter // by reason
	paused                      map[Kind]*metrics.FloatCounter
	trouble                     map[Kind]*metrics.Gauge
	failures                    map[Kind]*metrics.Counter
}

// deadReasons are the reasons of dead letters.
var deadReasons = []string{ReasonUnreadable, ReasonRejected, ReasonOversized, dlq.ReasonRateLimited}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	sources := metric.NewPerName(set, func(g *metric.Group, name string) *counts {
		result := func(r string) *metrics.Counter { return g.Counter(metric.SourceEvents, name, r) }
		c := &counts{
			messages: g.Counter(metric.SourceMessages, name), bytes: g.Counter(metric.SourceBytes, name),
			empty: g.Counter(metric.SourceEmptyMessages, name), accepted: result("accepted"), duplicate: result("duplicate"),
			rejected: result("rejected"), expired: result("expired"), sampled: result("sampled"), dropped: result("dropped"),
			discarded: g.Counter(metric.SourceDiscarded, name), cut: g.Counter(metric.SourceCut, name),
			busy: g.FloatCounter(metric.SourceBusySeconds, name),
			dead: map[string]*metrics.Counter{}, paused: map[Kind]*metrics.FloatCounter{}, trouble: map[Kind]*metrics.Gauge{},
			failures: map[Kind]*metrics.Counter{},
		}
		for _, r := range deadReasons {
			c.dead[r] = g.Counter(metric.SourceDeadLetters, name, r)
		}
		for _, k := range Kinds {
			c.trouble[k] = g.Gauge(metric.SourceTrouble, name, string(k))
			c.failures[k] = g.Counter(metric.SourceFailures, name, string(k))
			if k.Pauses() {
				c.paused[k] = g.FloatCounter(metric.SourcePausedSeconds, name, string(k))
			}
		}
		return c
	})
	return &Metrics{sources}
}

// Add gives a source further series, which leave with it.
func (m *Metrics) Add(name string, more func(g *metric.Group)) {
	m.sources.Of(name)
	m.sources.Add(name, more)
}

// Forget removes the series of a source that is gone.
func (m *Metrics) Forget(name string) { m.sources.Forget(name) }
