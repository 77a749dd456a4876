package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// reliabilityBoard shows what keeps events from being lost when something
// around the engine fails.
func (g *generator) reliabilityBoard() *board {
	b := g.board(UIDReliability, "Reliability", "Breakers, retries, dead letters, rate limits and sinks: what happens to events when something around the engine fails.")
	b.Templating.List = g.engineVariables()
	const (
		noBreaker = "no breakers"
		noDead    = "no dead letters are kept"
		noLimit   = "no rate limits are set"
		noSink    = "no sinks are set up"
		noNotify  = "no Alertmanager is configured"
		noRetry   = "no retries"
		noClient  = "no client is scraped"
	)

	b.row("Dead letters")
	b.add(6, 6, stat(view{
		title: "Refused by the fold", about: "Stored events that could not be counted since the engine started. Each is kept as a dead letter with its reason.",
		unit: unitShort, none: "no engine is scraped", steps: above(good, from(1, warning), from(100, bad)),
		queries: []query{{"sum by (instance) (" + gauge(metric.FoldDeadLetters.Name) + ")", "{{instance}}"}},
	}))
	b.add(6, 6, stat(view{
		title: "Dead letters kept", about: "Events that wait to be replayed or discarded, by where they failed. None of them counts until it is replayed.",
		unit: unitShort, none: noDead, steps: above(good, from(1, warning), from(10_000, bad)),
		queries: []query{{"sum by (origin) (" + gauge(metric.DLQEntries.Name) + ")", "{{origin}}"}},
	}))
	b.add(12, 6, lines(view{
		title: "New dead letters", about: "Events per second that became dead letters, by where and why.",
		unit: unitRate, none: noDead, steps: above(good, from(0.001, bad)),
		queries: []query{
			{sumRate("origin, reason", metric.DLQSaved.Name), "{{origin}}: {{reason}}"},
			{sumRate("", metric.FoldDeadLetters.Name), "refused by the fold"},
		},
	}, lineStyle{stacked: true}))

	b.row("Breakers and retries")
	b.add(12, 8, timeline(view{
		title: "Breakers", about: "State of each breaker. Open means that its calls are not tried, since they failed too often.",
		unit: unitNone, none: noBreaker, steps: above(good, from(1, warning), from(2, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "closed", Color: good, Index: 0}, "1": {Text: "half-open", Color: warning, Index: 1}, "2": {Text: "open", Color: bad, Index: 2},
		}}},
		queries: []query{{gauge(metric.BreakerState.Name), "{{breaker}}, {{instance}}"}},
	}))
	b.add(12, 8, lines(view{
		title: "Retries", about: "Events per second in attempts after a first one, by target. They add to the load of a target that is failing already.",
		unit: unitRate, none: noRetry, steps: above(good, from(50, bad)),
		queries: []query{{sumRate("target", metric.RetryAttemptedItems.Name), "{{target}}"}},
	}, lineStyle{thresholds: true}))

	b.row("Rate limits")
	b.add(8, 8, lines(view{
		title: "Use of the limits", about: "Share that is used of the fullest limit of each layer. From 80 % on a warning fires, from 95 % on events are about to be refused.",
		unit: unitRatio, none: noLimit, steps: above(good, from(0.8, warning), from(0.95, bad)), min: number(0),
		queries: []query{{"max by (layer, instance) (" + gauge(metric.RateLimitCurrent.Name) + " / " + gauge(metric.RateLimitThreshold.Name) + ")", "{{layer}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Events over a limit", about: "Events per second beyond a limit: of all events, of their type, or of their caller.",
		unit: unitRate, none: noLimit, steps: above(good, from(10, bad)),
		queries: []query{{sumRate("layer", metric.RateLimitHits.Name), "{{layer}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Event types over their limit", about: "Events per second beyond the limit of their type, by the rule. The rule (default) is that of types without one of their own.",
		unit: unitRate, none: noLimit, steps: above(good, from(1, bad)),
		queries: []query{{sumRate("type", metric.RateLimitHits.Name, `layer="type"`), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Dropped events", about: "Events per second that were dropped over a limit, by the rule of their type. They lower the coverage of every window that they belong to.",
		unit: unitRate, none: noLimit, steps: above(good, from(0.001, warning), from(100, bad)),
		queries: []query{{sumRate("type", metric.RateLimitDropped.Name), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Critical events over a limit", about: "Critical events per second that were over a limit, by the rule of their type. They are kept as dead letters and count once they are replayed.",
		unit: unitRate, none: noLimit, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("type", metric.RateLimitCritical.Name), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, timeline(view{
		title: "Where rate limits are counted", about: "Whether the replicas share their rate limits through Redis, or each applies its own because Redis is unreachable.",
		unit: unitNone, none: noLimit, steps: above(good, from(1, warning)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "shared", Color: good, Index: 0}, "1": {Text: "each its own", Color: warning, Index: 1},
		}}},
		queries: []query{{gauge(metric.RateLimitFallback.Name), "{{instance}}"}},
	}))

	b.row("Sinks, clients and notifications")
	b.add(8, 8, lines(view{
		title: "Age of what sinks lack", about: "Age of the oldest event that a sink has not got.",
		unit: unitSeconds, none: noSink, steps: above(good, from(300, bad)),
		queries: []query{{gauge(metric.SinkLagSeconds.Name), "{{sink}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Log kept for sinks", about: "Bytes of log that a sink has not got, and as dashes how many are kept for it at most. Beyond, its events become dead letters.",
		unit: unitBytes, none: noSink, steps: plain(),
		queries: []query{
			{gauge(metric.SinkLagBytes.Name), "{{sink}}, {{instance}}"},
			{gauge(metric.SinkMaxLagBytes.Name), "limit of {{sink}}, {{instance}}"},
		},
		overrides: []override{dashed(1, bad)},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Alerts that wait for Alertmanager", about: "Alerts whose present state an Alertmanager does not know yet. More than none for longer than a few seconds means that the engine cannot deliver them.",
		unit: unitShort, none: noNotify, steps: above(good, from(1, bad)),
		queries: []query{{gauge(metric.NotifyPending.Name), "{{alertmanager}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	// Clients run in other jobs than the engines that were picked.
	b.add(12, 8, lines(view{
		title: "Events that clients lost", about: "Events per second that an application's client could not hand over and that the application was not told of, by reason.",
		unit: unitRate, none: noClient, steps: above(good, from(0.001, bad)),
		queries: []query{{"sum by (context, reason) (rate(" + metric.ClientFailures.Name + interval + "))", "{{context}}: {{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 8, lines(view{
		title: "Events that clients hold back", about: "Share of its spool that a client has filled with events which it could not send yet.",
		unit: unitRatio, none: noClient, steps: above(good, from(0.8, bad)), min: number(0), max: number(1),
		queries: []query{{metric.ClientSpoolBytes.Name + " / " + metric.ClientSpoolLimitBytes.Name, "{{job}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	return b
}
