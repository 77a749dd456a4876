package dashboards

import "slices"

// Metrics that only some engines have, or have from some moment on: of breakers,
// retries, new dead letters, rate limits, sinks, notifications, and of clients.
// Package alerts refers to the same names.
var optionalMetrics = []string{
	"sloengine_breaker_state",
	"sloengine_client_failures_total",
	"sloengine_client_spool_bytes",
	"sloengine_client_spool_limit_bytes",
	"sloengine_dlq_saved_total",
	"sloengine_notify_failures_total",
	"sloengine_ratelimit_critical_total",
	"sloengine_ratelimit_current",
	"sloengine_ratelimit_dropped_total",
	"sloengine_ratelimit_fallback",
	"sloengine_ratelimit_hits_total",
	"sloengine_ratelimit_threshold",
	"sloengine_retry_attempted_items_total",
	"sloengine_sink_lag_bytes",
	"sloengine_sink_lag_seconds",
	"sloengine_sink_max_lag_bytes",
}

// OptionalMetrics lists the engine's own metrics that only some engines have,
// sorted. They appear on the reliability dashboard and nowhere else.
func OptionalMetrics() []string { return slices.Clone(optionalMetrics) }

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
		noRetry   = "no retries"
		noClient  = "no client is scraped"
	)

	b.row("Dead letters")
	b.add(6, 6, stat(view{
		title: "Refused by the fold", about: "Stored events that could not be counted since the engine started. Each is kept as a dead letter with its reason.",
		unit: unitShort, none: "no engine is scraped", steps: above(good, from(1, warning), from(100, bad)),
		queries: []query{{"sum by (instance) (" + gauge("sloengine_fold_dead_letters_total") + ")", "{{instance}}"}},
	}))
	b.add(6, 6, stat(view{
		title: "Dead letters kept", about: "Events that wait to be replayed or discarded, by where they failed. None of them counts until it is replayed.",
		unit: unitShort, none: noDead, steps: above(good, from(1, warning), from(10_000, bad)),
		queries: []query{{"sum by (origin) (" + gauge("sloengine_dlq_entries") + ")", "{{origin}}"}},
	}))
	b.add(12, 6, lines(view{
		title: "New dead letters", about: "Events per second that became dead letters, by where and why.",
		unit: unitRate, none: noDead, steps: above(good, from(0.001, bad)),
		queries: []query{
			{sumRate("origin, reason", "sloengine_dlq_saved_total"), "{{origin}}: {{reason}}"},
			{sumRate("", "sloengine_fold_dead_letters_total"), "refused by the fold"},
		},
	}, lineStyle{stacked: true}))

	b.row("Breakers and retries")
	b.add(12, 8, timeline(view{
		title: "Breakers", about: "State of each breaker. Open means that its calls are not tried, since they failed too often.",
		unit: unitNone, none: noBreaker, steps: above(good, from(1, warning), from(2, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "closed", Color: good, Index: 0}, "1": {Text: "half-open", Color: warning, Index: 1}, "2": {Text: "open", Color: bad, Index: 2},
		}}},
		queries: []query{{gauge("sloengine_breaker_state"), "{{breaker}}, {{instance}}"}},
	}))
	b.add(12, 8, lines(view{
		title: "Retries", about: "Events per second in attempts after a first one, by target. They add to the load of a target that is failing already.",
		unit: unitRate, none: noRetry, steps: above(good, from(50, bad)),
		queries: []query{{sumRate("target", "sloengine_retry_attempted_items_total"), "{{target}}"}},
	}, lineStyle{thresholds: true}))

	b.row("Rate limits")
	b.add(8, 8, lines(view{
		title: "Use of the limits", about: "Share that is used of the fullest limit of each layer. From 80 % on a warning fires, from 95 % on events are about to be refused.",
		unit: unitRatio, none: noLimit, steps: above(good, from(0.8, warning), from(0.95, bad)), min: number(0),
		queries: []query{{"max by (layer, instance) (" + gauge("sloengine_ratelimit_current") + " / " + gauge("sloengine_ratelimit_threshold") + ")", "{{layer}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Events over a limit", about: "Events per second beyond a limit: of all events, of their type, or of their caller.",
		unit: unitRate, none: noLimit, steps: above(good, from(10, bad)),
		queries: []query{{sumRate("layer", "sloengine_ratelimit_hits_total"), "{{layer}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Event types over their limit", about: "Events per second beyond the limit of their type, by the rule. The rule (default) is that of types without one of their own.",
		unit: unitRate, none: noLimit, steps: above(good, from(1, bad)),
		queries: []query{{sumRate("type", "sloengine_ratelimit_hits_total", `layer="type"`), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Dropped events", about: "Events per second that were dropped over a limit, by the rule of their type. They lower the coverage of every window that they belong to.",
		unit: unitRate, none: noLimit, steps: above(good, from(0.001, warning), from(100, bad)),
		queries: []query{{sumRate("type", "sloengine_ratelimit_dropped_total"), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Critical events over a limit", about: "Critical events per second that were over a limit, by the rule of their type. They are kept as dead letters and count once they are replayed.",
		unit: unitRate, none: noLimit, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("type", "sloengine_ratelimit_critical_total"), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, timeline(view{
		title: "Where limits are kept", about: "Whether the replicas share their limits through Redis, or each applies its own since Redis is away.",
		unit: unitNone, none: noLimit, steps: above(good, from(1, warning)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "shared", Color: good, Index: 0}, "1": {Text: "each its own", Color: warning, Index: 1},
		}}},
		queries: []query{{gauge("sloengine_ratelimit_fallback"), "{{instance}}"}},
	}))

	b.row("Sinks, clients and notifications")
	b.add(8, 8, lines(view{
		title: "Age of what sinks lack", about: "Age of the oldest event that a sink has not got.",
		unit: unitSeconds, none: noSink, steps: above(good, from(300, bad)),
		queries: []query{{gauge("sloengine_sink_lag_seconds"), "{{sink}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Log kept for sinks", about: "Bytes of log that a sink has not got, and as dashes how many are kept for it at most. Beyond, its events become dead letters.",
		unit: unitBytes, none: noSink, steps: plain(),
		queries: []query{
			{gauge("sloengine_sink_lag_bytes"), "{{sink}}, {{instance}}"},
			{gauge("sloengine_sink_max_lag_bytes"), "limit of {{sink}}, {{instance}}"},
		},
		overrides: []override{dashed(1, bad)},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Failed notifications", about: "Notifications per second that were given up, by receiver.",
		unit: unitRate, none: "no notifications are sent", steps: above(good, from(1e-9, bad)),
		queries: []query{{sumRate("receiver", "sloengine_notify_failures_total"), "{{receiver}}"}},
	}, lineStyle{stacked: true}))
	// Clients run in other jobs than the engines that were picked.
	b.add(12, 8, lines(view{
		title: "Events that clients lost", about: "Events per second that an application's client could not hand over and that the application was not told of, by reason.",
		unit: unitRate, none: noClient, steps: above(good, from(0.001, bad)),
		queries: []query{{"sum by (context, reason) (rate(sloengine_client_failures_total" + interval + "))", "{{context}}: {{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 8, lines(view{
		title: "Events that clients hold back", about: "Share of its spool that a client has filled with events which it could not send yet.",
		unit: unitRatio, none: noClient, steps: above(good, from(0.8, bad)), min: number(0), max: number(1),
		queries: []query{{"sloengine_client_spool_bytes / sloengine_client_spool_limit_bytes", "{{job}}, {{instance}}"}},
	}, lineStyle{thresholds: true}))
	return b
}
