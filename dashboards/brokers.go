package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// pickedSource selects the sources that the reader picked.
const pickedSource = `source=~"$source"`

// Texts for what only some engines have.
const (
	noSource      = "no sources are configured"
	noKafkaSource = "no Kafka source is configured"
	noOutbox      = "no outbox source is configured"
	noKafka       = "no sink or source uses Kafka"
)

// brokersBoard shows sources and the clients of message brokers.
func (g *generator) brokersBoard() *board {
	b := g.board(UIDBrokers, "Brokers", "Events from Kafka, RabbitMQ and outbox tables: how far sources are behind and why, the clients of the brokers, and RabbitMQ's dead-letter queues.")
	b.Links = append(b.Links, link{
		Title: "Sinks", Type: "link", Icon: "external link", URL: "/d/" + UIDReliability, IncludeVars: true, KeepTime: true,
		Tooltip: "Lag of sinks to brokers, on the dashboard Reliability",
	})
	b.Templating.List = append(g.engineVariables(),
		several("source", "Source", "Sources of the engine. Clients of sinks are always shown.", "source", metric.SourceMessages.Name+`{job=~"$job",instance=~"$instance"}`))
	sourceState(b)
	sourceRows(b)
	kafkaSourceRow(b)
	outboxSourceRow(b)
	kafkaClientRow(b)
	rabbitMQRow(b)
	deadLetterHandlerRows(b)
	return b
}

// saturation is the share of time in which sources had messages at hand.
func saturation() query {
	return query{"max by (source, instance) (" + rate(metric.SourceBusySeconds.Name, pickedSource) + ")", "{{source}}, {{instance}}"}
}

// lag is how many messages sources have not stored, one line for each value of by.
func lag(by string) string {
	return "sum by (" + by + ") (" + gauge(metric.KafkaSourceLag.Name, pickedSource) + ")"
}

func sourceState(b *board) {
	b.row("State")
	b.add(6, 5, stat(view{
		title: "Troubles", about: "Kinds of trouble that each source has at this moment. The page /engine of the engine names each with its cause.",
		unit: unitShort, none: noSource, steps: above(good, from(1, bad)),
		maps:    []mapping{{Type: "value", Options: map[string]mappedValue{"0": {Text: "none", Color: good}}}},
		queries: []query{{"sum by (source, instance) (" + gauge(metric.SourceTrouble.Name, pickedSource) + ")", "{{source}}, {{instance}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Saturation", about: "Share of time in which each source had messages at hand and did not wait for the broker. At 1 it cannot read faster.",
		unit: unitRatio, none: noSource, steps: saturationSteps(), queries: []query{saturation()},
	}))
	b.add(6, 5, stat(view{
		title: "Lag", about: "Messages in Kafka that each source has not stored yet. Above 0 is normal. It must not grow for long.",
		unit: unitShort, none: noKafkaSource, steps: plain(), queries: []query{{lag("source"), "{{source}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Messages lost to retention", about: "Messages that the topic's retention deleted before they were read, since the engine started. They lower coverage.",
		unit: unitShort, none: noKafkaSource, steps: above(good, from(1, bad)),
		queries: []query{{"sum by (source) (" + gauge(metric.KafkaSourceLost.Name, pickedSource) + ")", "{{source}}"}},
	}))
	b.add(24, 7, timeline(view{
		title: "Troubles by kind", about: "Times in which a source had a trouble of each kind. With engine, rate_limit and dead_letters it is paused, and messages wait in the broker.",
		unit: unitNone, none: "no source has trouble", steps: above(good, from(1, bad)),
		maps:    []mapping{{Type: "value", Options: map[string]mappedValue{"1": {Text: "trouble", Color: bad}}}},
		queries: []query{{gauge(metric.SourceTrouble.Name, pickedSource) + " > 0", "{{source}}: {{kind}}, {{instance}}"}},
	}))
}

func saturationSteps() []step { return above(good, from(0.7, warning), from(0.9, bad)) }

func sourceRows(b *board) {
	b.row("Sources")
	b.add(8, 8, lines(view{
		title: "Messages", about: "Messages per second that each source read from its broker.",
		unit: unitRate, none: noSource, steps: plain(),
		queries: []query{{sumRate("source", metric.SourceMessages.Name, pickedSource), "{{source}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Bytes of messages", about: "Bytes per second of the values of these messages.",
		unit: unitByteRate, none: noSource, steps: plain(),
		queries: []query{{sumRate("source", metric.SourceBytes.Name, pickedSource), "{{source}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Events by result", about: "Events per second in these messages, by result. Rejected messages and events are dead letters. Expired ones are older than the longest window. Messages without a value hold no event.",
		unit: unitRate, none: noSource, steps: plain(),
		queries: []query{
			{sumRate("result", metric.SourceEvents.Name, pickedSource), "{{result}}"},
			{sumRate("", metric.SourceEmptyMessages.Name, pickedSource), "messages without a value"},
		},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Saturation of sources", about: "Share of time in which each source had messages at hand and did not wait for the broker, pauses included. Near 1 and with growing lag, add an engine.",
		unit: unitRatio, none: noSource, steps: saturationSteps(), min: number(0), queries: []query{saturation()},
	}, lineStyle{thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Pauses by kind", about: "Seconds per second that batches of messages waited because the engine was busy, a rate limit throttled, or dead letters could not be saved. Batches that wait at the same time add up.",
		unit: unitShort, none: noSource, steps: above(good, from(0.5, warning)),
		queries: []query{{sumRate("source, kind", metric.SourcePausedSeconds.Name, pickedSource), "{{source}}: {{kind}}"}},
	}, lineStyle{stacked: true}))
	// Other work of the engine is in the CPU time, so sources that were left out must be in the events.
	b.add(8, 8, lines(view{
		title: "CPU per event", about: "CPU seconds of the engine for each event of all its sources. Includes everything else that the engine does, so it is high while few events arrive.",
		unit: unitSeconds, none: noSource, steps: plain(),
		queries: []query{{sumRate("instance", "process_cpu_seconds_total") + " / (" + sumRate("instance", metric.SourceEvents.Name) + " > 0)", "{{instance}}"}},
	}, lineStyle{}))
	b.add(12, 8, lines(view{
		title: "Dead letters by reason", about: "Messages and events per second that could not be taken, by reason. They become dead letters and count once they are replayed. Discarded ones are excluded by the dead-letter filter and never count.",
		unit: unitRate, none: noSource, steps: above(good, from(0.001, bad)),
		queries: []query{
			{sumRate("source, reason", metric.SourceDeadLetters.Name, pickedSource), "{{source}}: {{reason}}"},
			{sumRate("source", metric.SourceDiscarded.Name, pickedSource), "{{source}}: discarded"},
		},
	}, lineStyle{stacked: true}))
	b.add(12, 8, lines(view{
		title: "Failures by kind", about: "Failures per second of each source, by kind of trouble. A source tries again and loses nothing.",
		unit: unitRate, none: "no source has failed", steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("source, kind", metric.SourceFailures.Name, pickedSource) + " > 0", "{{source}}: {{kind}}"}},
	}, lineStyle{stacked: true}))
}

func outboxSourceRow(b *board) {
	b.row("Outbox sources")
	b.add(8, 8, lines(view{
		title: "Rows behind", about: "Rows of each outbox table that the engine has not stored yet, up to 100000. Includes rows that an open transaction holds back.",
		unit: unitShort, none: noOutbox, steps: plain(), min: number(0),
		queries: []query{{"sum by (source) (" + gauge(metric.OutboxSourceBehind.Name, pickedSource) + ")", "{{source}}"}},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Age of the oldest row behind", about: "Age of the first row that is not stored. It grows while the source is down, paused, too slow, or held back.",
		unit: unitSeconds, none: noOutbox, steps: plain(), min: number(0),
		queries: []query{{"max by (source) (" + gauge(metric.OutboxSourceOldest.Name, pickedSource) + ")", "{{source}}"}},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Rows held back", about: "Committed rows that the way xid does not read because a transaction that began before is still open, and the age of the oldest. Above 60 s the source reports the trouble held_back, which names the session.",
		unit: unitShort, none: noOutbox, steps: plain(), min: number(0),
		queries: []query{
			{"sum by (source) (" + gauge(metric.OutboxSourceHeld.Name, pickedSource) + ")", "{{source}}: rows"},
			{"max by (source) (" + gauge(metric.OutboxSourceHeldSeconds.Name, pickedSource) + ")", "{{source}}: seconds"},
		},
	}, lineStyle{}))
}

func kafkaSourceRow(b *board) {
	b.row("Kafka sources")
	b.add(12, 8, lines(view{
		title: "Lag by topic", about: "Messages of each topic that the picked engines have not stored yet. The topic \"other\" adds up the partitions beyond the first 500 of a source.",
		unit: unitShort, none: noKafkaSource, steps: plain(), min: number(0),
		queries: []query{{lag("source, topic"), "{{source}}: {{topic}}"}},
	}, lineStyle{}))
	b.add(12, 8, lines(view{
		title: "Trend of the lag", about: "Messages per second by which the lag of each topic grows. Below 0 the source catches up. Above 0 for long, it never will.",
		unit: unitRate, none: noKafkaSource, steps: plain(),
		queries: []query{{"sum by (source, topic) (deriv(" + gauge(metric.KafkaSourceLag.Name, pickedSource) + interval + "))", "{{source}}: {{topic}}"}},
	}, lineStyle{}))
	b.add(6, 7, lines(view{
		title: "Lag by partition", about: "The ten partitions with the highest lag. A single one that stands out is a key with too many messages, or a message that cannot pass.",
		unit: unitShort, none: noKafkaSource, steps: plain(), min: number(0),
		queries: []query{{"topk(10, " + gauge(metric.KafkaSourceLag.Name, pickedSource) + ")", "{{source}}: {{topic}}/{{partition}}, {{instance}}"}},
	}, lineStyle{}))
	b.add(6, 7, lines(view{
		title: "Commits", about: "Commits to the brokers per second, by result. With static ownership they serve the monitoring of lag only, and failures lose nothing.",
		unit: unitRate, none: noKafkaSource, steps: plain(),
		queries: []query{{sumRate("source, result", metric.KafkaSourceCommits.Name, pickedSource), "{{source}}: {{result}}"}},
	}, lineStyle{}))
	b.add(6, 7, lines(view{
		title: "Rebalances", about: "Times per second that the consumer group assigned or revoked partitions. Constant rebalances are engines that restart or miss heartbeats.",
		unit: unitRate, none: noKafkaSource, steps: above(good, from(0.1, warning)),
		queries: []query{{sumRate("source, instance", metric.KafkaSourceRebalances.Name, pickedSource), "{{source}}, {{instance}}"}},
	}, lineStyle{}))
	b.add(6, 7, lines(view{
		title: "Ids seen again", about: "Times per second that an id came again, of one in 64 ids, and on which partition. Above 0 for other_partition, use the service and the id as the key of messages: two engines may count an event twice.",
		unit: unitRate, none: noKafkaSource, steps: plain(), min: number(0),
		queries: []query{{sumRate("source, result", metric.KafkaSourceSampledIDs.Name, pickedSource+`,result!="first"`), "{{source}}: {{result}}"}},
	}, lineStyle{}))
}

func kafkaClientRow(b *board) {
	b.row("Kafka clients")
	for _, q := range []struct{ share, name string }{{"0.5", "median"}, {"0.99", "99th percentile"}} {
		b.add(12, 8, lines(view{
			title: "Request duration, " + q.name, about: "Time from sending a request to the last byte of its answer, by client and kind. Fetches wait for data. Interpolated within the buckets of the histogram.",
			unit: unitSeconds, none: noKafka, steps: plain(),
			queries: []query{{quantileBy(q.share, "client, request", metric.KafkaRequestSeconds.Name), "{{client}}: {{request}}"}},
		}, lineStyle{log: true}))
	}
	b.add(8, 7, lines(view{
		title: "Failed requests", about: "Requests per second without an answer, by client and kind. The client tries again.",
		unit: unitRate, none: "no request has failed", steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("client, request", metric.KafkaRequestFailures.Name) + " > 0", "{{client}}: {{request}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 7, lines(view{
		title: "Throttled by quotas", about: "Seconds per second for which brokers asked each client to pause, because it exceeded a quota.",
		unit: unitShort, none: noKafka, steps: above(good, from(0.1, warning)),
		queries: []query{{sumRate("client", metric.KafkaThrottledSeconds.Name), "{{client}}"}},
	}, lineStyle{}))
	b.add(8, 7, connections(noKafka, metric.KafkaConnects, metric.KafkaDisconnects))
	b.add(12, 7, lines(view{
		title: "Buffered records", about: "Records of sinks that wait for the acknowledgement of the brokers.",
		unit: unitShort, none: noKafka, steps: plain(), min: number(0),
		queries: []query{{gauge(metric.KafkaBufferedRecords.Name), "{{client}}, {{instance}}"}},
	}, lineStyle{}))
	b.add(12, 7, lines(view{
		title: "Buffered bytes", about: "Bytes of these records. At buffer_bytes (128 MiB by default) a sink waits until brokers acknowledge some.",
		unit: unitBytes, none: noKafka, steps: plain(), min: number(0),
		queries: []query{{gauge(metric.KafkaBufferedBytes.Name), "{{client}}, {{instance}}"}},
	}, lineStyle{}))
}

// connections shows how often clients connect and disconnect.
func connections(none string, connects, disconnects *metric.Family) *panel {
	return lines(view{
		title: "Connects and disconnects", about: "Attempts to connect per second by result, logins included, and connections that ended.",
		unit: unitRate, none: none, steps: plain(),
		queries: []query{
			{sumRate("client, result", connects.Name), "{{client}}: {{result}}"},
			{sumRate("client", disconnects.Name), "{{client}}: disconnect"},
		},
	}, lineStyle{})
}
