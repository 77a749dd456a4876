package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// admissionBoard shows what happens to events before the log: rate limits by strategy, Redis, and calls to sinks that
// engines share a rate limit for.
func (g *generator) admissionBoard() *board {
	b := g.board(UIDAdmission, "Rate limits", "What rate limits do to events: sampled, merged, throttled or dropped, by whom they are exceeded, what bypasses them, Redis, and shared rate limits of sinks.")
	b.Templating.List = g.engineVariables()
	const (
		noLimit  = "no rate limits are configured"
		noRedis  = "no Redis is configured"
		noShared = "no sink has a shared rate limit"
	)
	s := sheet{b, 8}
	changed := above(good, from(0.001, warning))

	b.row("What rate limits do")
	b.add(6, 8, dial(view{
		title: "Global limit", about: "Utilisation of the global rate limit, of the fullest engine. Above 80 % a warning fires, above 95 % events are about to be limited.",
		unit: unitRatio, none: noLimit, steps: limitSteps(), min: number(0), max: number(1),
		queries: []query{{"max(" + limitUse(`layer="global"`) + ")", "Global limit"}},
	}))
	b.add(10, 8, lines(view{
		title: "Hits by strategy", about: "Events per second over a rate limit, by what happened to them. Sampled and merged events keep their weight. Dropped ones lower coverage.",
		unit: unitRate, none: noLimit, steps: plain(),
		queries: []query{
			{sumRate("", metric.RateLimitSampled.Name), "sampled"}, {sumRate("", metric.RateLimitAggregated.Name), "merged"},
			{sumRate("", metric.RateLimitThrottled.Name), "throttled"}, {sumRate("", metric.RateLimitDropped.Name), "dropped"},
			{sumRate("", metric.RateLimitCritical.Name), "dead letters"},
		},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Sampling against dropping", about: "Of the events over a rate limit, the share whose weight is kept by sampling and merging, and the share that is dropped.",
		unit: unitRatio, none: noLimit, steps: plain(), min: number(0), max: number(1),
		queries: []query{
			{"(" + sumRate("", metric.RateLimitSampled.Name) + " + " + sumRate("", metric.RateLimitAggregated.Name) + ") / (" + sumRate("", metric.RateLimitHits.Name) + " > 0)", "sampled or merged"},
			{sumRate("", metric.RateLimitDropped.Name) + " / (" + sumRate("", metric.RateLimitHits.Name) + " > 0)", "dropped"},
		},
	}, lineStyle{}))
	b.add(8, 8, bars(view{
		title: "Top offenders", about: "The ten rules and layers that were exceeded most, in events per second averaged over the time range. Single users and addresses are on the page /engine of the engine, never in metrics.",
		unit: unitRate, decimals: 2, none: noLimit, steps: changed, min: number(0),
		queries: []query{{"topk(10, " + sumRate("layer, type", metric.RateLimitHits.Name) + ")", "{{layer}} {{type}}"}},
	}).averaged())
	s.rates(view{title: "Sampled events", about: "Events per second over a rate limit that samples, by whether they were kept. Kept ones stand for the others.", none: noLimit, steps: plain()}, metric.RateLimitSampled)
	s.rates(view{title: "Bypass by reason", about: "Events per second that are exempt from rate limits, by reason: audit types, or a bypass for authenticated callers.", none: noLimit, steps: plain()}, metric.RateLimitBypass)
	s.levels(view{title: "Contexts in memory", about: "Counters in memory: those of the layers, and one for each context value that was seen recently.", unit: unitShort, none: noLimit, steps: plain()}, metric.RateLimitContexts)
	s.rates(view{title: "Evictions and errors", about: "Counters per second that were evicted because max_contexts was reached, and events whose bypass or extractor could not be evaluated.", none: noLimit, steps: changed}, metric.RateLimitEvictions, metric.RateLimitExpressionErrors)

	b.row("Budgets of services")
	b.add(12, 7, lines(view{
		title: "Budgets of services", about: "Requests per second that were refused because a service exceeded its budget, by service and budget.",
		unit: unitRate, none: "no budget is configured or exceeded", steps: above(good, from(0.001, warning)),
		queries: []query{{sumRate("service, budget", metric.ServiceRefused.Name), "{{service}}: {{budget}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 7, lines(view{
		title: "Bytes of services", about: "Bytes of events per second that were taken out of the budgets of services.",
		unit: unitByteRate, none: "no budget is configured", steps: plain(),
		queries: []query{{sumRate("service", metric.ServiceBytes.Name), "{{service}}"}},
	}, lineStyle{}))

	b.row("Redis")
	s.levels(view{title: "Redis answers", about: "1 while Redis answers.", unit: unitNone, none: noRedis, steps: above(bad, from(1, good)), max: number(1)}, metric.RedisUp)
	s.took(view{title: "Redis latency", about: "95th percentile of the duration of a call to Redis.", none: noRedis}, metric.RedisRoundTripSeconds)
	s.rates(view{title: "Redis errors", about: "Calls to Redis per second that failed, by reason.", none: noRedis, steps: changed}, metric.RedisErrors)
	s.rates(view{title: "Fallbacks", about: "Falls per second to local rate limits, and decisions that Redis did not answer.", none: noRedis, steps: changed}, metric.RateLimitFallbacks, metric.RateLimitFallbackErrors)

	b.row("Shared rate limits of sinks")
	s.rates(view{title: "Outbound permits", about: "Calls per second that a shared rate limit admitted and refused, and those that the engine admitted on its own while Redis was not reachable.", none: noShared, steps: plain()}, metric.RateLimitOutboundAllowed, metric.RateLimitOutboundRefused, metric.RateLimitOutboundFallback)
	s.took(view{title: "Waiting for a permit", about: "95th percentile of the time that admitted calls waited for admission.", none: noShared}, metric.RateLimitOutboundWaitSeconds)
	s.rates(view{title: "Postponed calls", about: "Calls per second that were postponed because the rate limit of the sink had no capacity in time.", none: noSinks, steps: changed}, metric.SinkRateLimited)
	return b
}
