package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// reliabilityBoard shows what keeps events from being lost when something
// around the engine fails.
func (g *generator) reliabilityBoard() *board {
	b := g.board(UIDReliability, "Reliability", "Breakers, retries, dead letters, rate limits and sinks: what happens to events when something around the engine fails.")
	b.Templating.List = g.engineVariables()
	const (
		noBreaker = "no breakers"
		noDead    = "no dead letters"
		noLimit   = "no rate limits are configured"
		noSink    = "no sinks are configured"
		noNotify  = "no Alertmanager is configured"
		noRetry   = "no retries"
		noClient  = "no client is scraped"
	)

	b.row("Dead letters")
	b.add(6, 6, stat(view{
		title: "Refused by the fold", about: "Accepted events that could not be counted, since the engine started. Each is retained as a dead letter with its reason.",
		unit: unitShort, none: "no engine is scraped", steps: above(good, from(1, warning), from(100, bad)),
		queries: []query{{"sum by (instance) (" + gauge(metric.FoldDeadLetters.Name) + ")", "{{instance}}"}},
	}))
	b.add(6, 6, stat(view{
		title: "Dead letters", about: "Events that wait to be replayed or discarded, by origin. Those of the origins admission and fold do not count until they are replayed.",
		unit: unitShort, none: noDead, steps: above(good, from(1, warning), from(10_000, bad)),
		queries: []query{{"sum by (origin) (" + gauge(metric.DLQEntries.Name) + ")", "{{origin}}"}},
	}))
	b.add(12, 6, lines(view{
		title: "New dead letters", about: "Events per second that became dead letters, by origin and reason.",
		unit: unitRate, none: noDead, steps: above(good, from(0.001, bad)),
		queries: []query{
			{sumRate("origin, reason", metric.DLQSaved.Name), "{{origin}}: {{reason}}"},
			{sumRate("", metric.FoldDeadLetters.Name), "refused by the fold"},
		},
	}, lineStyle{stacked: true}))

	b.row("Breakers and retries")
	b.add(12, 8, timeline(view{
		title: "Breakers", about: "State of each breaker. While a breaker is open, calls are not tried, because too many have failed.",
		unit: unitNone, none: noBreaker, steps: above(good, from(1, warning), from(2, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "closed", Color: good, Index: 0}, "1": {Text: "half-open", Color: warning, Index: 1}, "2": {Text: "open", Color: bad, Index: 2},
		}}},
		queries: []query{{gauge(metric.BreakerState.Name), "{{breaker}}, {{instance}}"}},
	}))
	b.add(12, 8, lines(view{
		title: "Retries", about: "Retried events per second, by target. Retries add to the load of a target that is already failing.",
		unit: unitRate, none: noRetry, steps: above(good, from(50, bad)),
		queries: []query{{sumRate("target", metric.RetryAttemptedItems.Name), "{{target}}"}},
	}, lineStyle{thresholds: true}))

	b.row("Rate limits")
	b.add(8, 8, lines(view{
		title: "Rate limit utilisation", about: "Highest utilisation of a rate limit in each layer. Above 80 % a warning fires, above 95 % events are about to be limited.",
		unit: unitRatio, none: noLimit, steps: limitSteps(), min: number(0),
		queries: []query{{"max by (layer, instance) (" + limitUse() + ")", "{{layer}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Events over a rate limit", about: "Events per second over a rate limit, by layer: global, type or context.",
		unit: unitRate, none: noLimit, steps: above(good, from(10, bad)),
		queries: []query{{sumRate("layer", metric.RateLimitHits.Name), "{{layer}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Event types over their rate limit", about: "Events per second over the rate limit of their type, by rule. (default) is the rule of types that have no rule.",
		unit: unitRate, none: noLimit, steps: above(good, from(1, bad)),
		queries: []query{{sumRate("type", metric.RateLimitHits.Name, `layer="type"`), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Dropped events", about: "Events per second that a rate limit dropped, by the rule of their type. Drops lower the coverage of every window that they belong to.",
		unit: unitRate, none: noLimit, steps: above(good, from(0.001, warning), from(100, bad)),
		queries: []query{{sumRate("type", metric.RateLimitDropped.Name), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Critical events over a rate limit", about: "Critical events per second over a rate limit, by the rule of their type. They are retained as dead letters and count once they are replayed.",
		unit: unitRate, none: noLimit, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("type", metric.RateLimitCritical.Name), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, timeline(view{
		title: "Where rate limits are counted", about: "Whether engines share their rate limits through Redis, or each applies its own because Redis is not reachable.",
		unit: unitNone, none: noLimit, steps: above(good, from(1, warning)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "shared", Color: good, Index: 0}, "1": {Text: "local", Color: warning, Index: 1},
		}}},
		queries: []query{{gauge(metric.RateLimitFallback.Name), "{{instance}}"}},
	}))

	b.row("Sinks, clients and notifications")
	b.add(8, 8, lines(view{
		title: "Sink lag (time)", about: "Age of the oldest event that a sink has not received.",
		unit: unitSeconds, none: noSink, steps: above(good, from(300, bad)),
		queries: []query{{gauge(metric.SinkLagSeconds.Name), "{{sink}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Sink lag (bytes)", about: "Bytes of log that a sink has not received. Dashed lines are max_lag_bytes: beyond it, the oldest log range becomes a dead letter.",
		unit: unitBytes, none: noSink, steps: plain(),
		queries: []query{
			{gauge(metric.SinkLagBytes.Name), "{{sink}}, {{instance}}"},
			{gauge(metric.SinkMaxLagBytes.Name), "limit of {{sink}}, {{instance}}"},
		},
		overrides: []override{dashed(1, bad)},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Alerts pending delivery", about: "Alerts whose current state is not delivered to an Alertmanager yet. A value above 0 for more than a few seconds means that the engine cannot deliver them.",
		unit: unitShort, none: noNotify, steps: above(good, from(1, bad)),
		queries: []query{{gauge(metric.NotifyPending.Name), "{{alertmanager}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	// Clients run in other jobs than the engines that were picked.
	b.add(12, 8, lines(view{
		title: "Events that clients did not deliver", about: "Events per second that the client in an application could not deliver and did not report as an error, by reason.",
		unit: unitRate, none: noClient, steps: above(good, from(0.001, bad)),
		queries: []query{{"sum by (context, reason) (rate(" + metric.ClientFailures.Name + interval + "))", "{{context}}: {{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 8, lines(view{
		title: "Client spool utilisation", about: "Share of the client's spool that is filled with unsent events.",
		unit: unitRatio, none: noClient, steps: above(good, from(0.8, bad)), min: number(0), max: number(1),
		queries: []query{{metric.ClientSpoolBytes.Name + " / " + metric.ClientSpoolLimitBytes.Name, "{{job}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	return b
}

// limitUse is the share of rate limits that is used, which limitSteps colours as the alerts see it.
func limitUse(matchers ...string) string {
	return gauge(metric.RateLimitCurrent.Name, matchers...) + " / " + gauge(metric.RateLimitThreshold.Name, matchers...)
}

func limitSteps() []step { return above(good, from(0.8, warning), from(0.95, bad)) }
