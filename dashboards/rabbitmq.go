package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

const (
	noRabbitMQ       = "no sink or source uses RabbitMQ"
	noRabbitMQSource = "no RabbitMQ source is configured"
	noHandler        = "no dead-letter handler is configured"
	noDeadLettered   = "no message was dead-lettered"
)

// rabbitMQRow shows connections to RabbitMQ and the queues that sources consume.
func rabbitMQRow(b *board) {
	b.row("RabbitMQ")
	b.add(12, 7, timeline(view{
		title: "Connection", about: "Whether each client is connected. A broker blocks a client that publishes while the broker lacks memory or disk space. A sink connects when it has something to deliver.",
		unit: unitNone, none: noRabbitMQ, steps: above(warning, from(1, good), from(2, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "not connected", Color: warning, Index: 0}, "1": {Text: "connected", Color: good, Index: 1}, "2": {Text: "blocked", Color: bad, Index: 2},
		}}},
		queries: []query{{"clamp_max(" + gauge(metric.RabbitMQConnected.Name) + ", 1) + clamp_max(" + gauge(metric.RabbitMQBlocked.Name) + ", 1)", "{{client}}, {{instance}}"}},
	}))
	b.add(12, 7, timeline(view{
		title: "Topology", about: "Queues and exchanges that are missing or differ from the settings, by the last verification. The page /engine of the engine names each difference.",
		unit: unitShort, none: noRabbitMQSource, steps: above(good, from(1, bad)),
		maps:    []mapping{{Type: "value", Options: map[string]mappedValue{"0": {Text: "as configured", Color: good}}}},
		queries: []query{{gauge(metric.RabbitTopologyProblems.Name, pickedSource), "{{source}}, {{instance}}"}},
	}))
	b.add(8, 7, connections(noRabbitMQ, metric.RabbitMQConnects, metric.RabbitMQDisconnects))
	b.add(8, 7, lines(view{
		title: "Redelivered messages", about: "Messages per second that the broker had delivered before. Events with an id count once all the same. Cancelled are consumers that the broker ended, for example because a queue was deleted.",
		unit: unitRate, none: noRabbitMQSource, steps: above(good, from(1, warning)),
		queries: []query{
			{sumRate("source", metric.RabbitRedelivered.Name, pickedSource), "{{source}}"},
			{sumRate("source", metric.RabbitCancelled.Name, pickedSource), "{{source}}: cancelled"},
		},
	}, lineStyle{}))
	// Every engine asks the broker about the same queue.
	b.add(8, 7, lines(view{
		title: "Messages and consumers of queues", about: "Messages that are ready in each queue, and its consumers on the right axis. Messages that were delivered and not acknowledged are not included.",
		unit: unitShort, none: noRabbitMQSource, steps: plain(), min: number(0),
		queries: []query{
			{"max by (source, queue) (" + gauge(metric.RabbitQueueMessages.Name, pickedSource) + ")", "{{source}}: {{queue}}"},
			{"max by (source, queue) (" + gauge(metric.RabbitQueueConsumers.Name, pickedSource) + ")", "{{source}}: consumers of {{queue}}"},
		},
		overrides: []override{rightAxis(1, unitShort, "consumers")},
	}, lineStyle{}))
}

// deadLetterHandlerRows shows what becomes of messages that RabbitMQ dead-lettered.
func deadLetterHandlerRows(b *board) {
	outcomes := func(by string, matchers ...string) string {
		return sumRate(by, metric.RabbitDeadLetters.Name, append([]string{pickedSource}, matchers...)...)
	}
	b.row("RabbitMQ dead-letter handler")
	b.add(8, 8, lines(view{
		title: "Handled messages per minute", about: "Messages of the dead-letter queue that were handled and acknowledged per minute. The mark is the default of the alert on the rate, 10.",
		unit: unitMinutely, none: noHandler, steps: above(good, from(10, warning)),
		queries: []query{{"60 * " + sumRate("source", metric.RabbitDeadLetterHandled.Name, pickedSource), "{{source}}"}},
	}, lineStyle{thresholds: true}))
	// Every engine asks the broker about the same queue.
	b.add(8, 8, lines(view{
		title: "Depth of the dead-letter queue", about: "Messages that are ready in the dead-letter queue or wait in the handler. Beyond the retention of the queue they are lost. The mark is the default of the alert on the depth, 100.",
		unit: unitShort, none: noHandler, steps: above(good, from(1, warning), from(100, bad)), min: number(0),
		queries: []query{{"max by (source) (" + gauge(metric.RabbitDeadLetterDepth.Name, pickedSource) + ")", "{{source}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Time from dead-lettering to handling", about: "Time from dead-lettering, which RabbitMQ states in whole seconds, until the message was handled. Interpolated within the buckets of the histogram.",
		unit: unitSeconds, none: noHandler, steps: above(good, from(60, warning), from(3600, bad)),
		queries: []query{
			{quantileBy("0.5", "source", metric.RabbitDeadLetterAge.Name, pickedSource), "{{source}}: median"},
			{quantileBy("0.99", "source", metric.RabbitDeadLetterAge.Name, pickedSource), "{{source}}: 99th percentile"},
		},
	}, lineStyle{log: true}))
	b.add(8, 8, lines(view{
		title: "By queue and reason", about: "Dead-lettered messages per second, by the queue in which they died and the reason that RabbitMQ states.",
		unit: unitRate, none: noDeadLettered, steps: plain(),
		queries: []query{{outcomes("queue, reason"), "{{queue}}: {{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "By outcome", about: "Dead-lettered messages per second by outcome: counted as a failure, already counted by an event with the same id (duplicate), returned to their queue (retried), or saved as a dead letter of the engine (kept).",
		unit: unitRate, none: noDeadLettered, steps: plain(),
		queries: []query{{outcomes("outcome"), "{{outcome}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Failures by type", about: "Dead-lettered messages per second that counted as a failure, by the type of their event.",
		unit: unitRate, none: noDeadLettered, steps: plain(),
		queries: []query{{outcomes("type", `outcome="failure"`), "{{type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 7, lines(view{
		title: "Retried and requeued messages", about: "Messages per second that a retry rule returned to their queue, and messages that the handler returned to the dead-letter queue because the engine was busy.",
		unit: unitRate, none: noHandler, steps: plain(),
		queries: []query{
			{outcomes("queue, reason", `outcome="retried"`), "retried to {{queue}}: {{reason}}"},
			{sumRate("source", metric.RabbitRequeued.Name, pickedSource), "{{source}}: requeued"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Share of dead-lettered executions", about: "Failures of dead-lettered messages among all events that the engine counts. The mark is the default of the alert on the share, 5 %.",
		unit: unitRatio, none: noDeadLettered, steps: above(good, from(0.05, warning)), min: number(0),
		queries: []query{{outcomes("instance", `outcome="failure"`) + " / (" + sumRate("instance", metric.FoldEvents.Name) + " > 0)", "{{instance}}"}},
	}, lineStyle{thresholds: true}))
	b.add(8, 7, lines(view{
		title: "Overdue dead letters", about: "Time since the dead-letter queue should have received a message of a work queue that has a TTL, messages and no consumer. 0 while nothing is overdue.",
		unit: unitSeconds, none: noHandler, steps: above(good, from(1, bad)), min: number(0),
		queries: []query{{"max by (source, queue) (" + gauge(metric.RabbitDeadLettersOverdue.Name, pickedSource) + ")", "{{source}}: {{queue}}"}},
	}, lineStyle{}))
}
