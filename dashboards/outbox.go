package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

const (
	noRelay    = "no relay is scraped"
	noRowFails = "no row has failed"
)

// outboxBoard shows relays and the outbox tables that they publish.
func (g *generator) outboxBoard() *board {
	b := g.board(UIDOutbox, "Outbox", "Rows of an outbox table on their way to the broker: how many wait and for how long, what fails, and how relays share the work.")
	b.Templating.List = []variable{
		sourceVariable(),
		several("job", "Job", "Scrape job of the relays. All relays of a job publish one table.", "job", metric.OutboxBuckets.Name),
		several("instance", "Relay", "One relay, or all.", "instance", metric.OutboxBuckets.Name+`{job=~"$job"}`),
	}
	outboxState(b)
	outboxThroughput(b)
	outboxFailures(b)
	outboxRelays(b)
	return b
}

// outboxTable is a count of rows in the table, which every relay of the job states.
func outboxTable(f *metric.Family) query {
	return query{"max by (job) (" + gauge(f.Name) + ")", "{{job}}"}
}

// outboxLatency is the time until rows were published.
func outboxLatency(share string) string { return quantileBy(share, "job", metric.OutboxLatency.Name) }

func outboxState(b *board) {
	b.row("State")
	b.add(6, 5, stat(view{
		title: "Pending rows", about: "Rows that are not published yet. The mark is the default of the alert OutboxStuck, 1000.",
		unit: unitShort, none: noRelay, steps: above(good, from(100, warning), from(1000, bad)), queries: []query{outboxTable(metric.OutboxPendingRows)},
	}))
	b.add(6, 5, stat(view{
		title: "Oldest pending row", about: "Age of the oldest row that is not published yet. The mark is the default of the alert OutboxLagging, 5 minutes.",
		unit: unitSeconds, none: noRelay, steps: above(good, from(60, warning), from(300, bad)), queries: []query{outboxTable(metric.OutboxOldestPending)},
	}))
	b.add(6, 5, stat(view{
		title: "Failed rows", about: "Rows that were given up and have the status FAILED. `sloengine outbox retry` publishes them again.",
		unit: unitShort, none: noRelay, steps: above(good, from(1, bad)), queries: []query{outboxTable(metric.OutboxFailedRows)},
	}))
	b.add(6, 5, stat(view{
		title: "Relays", about: "Relays that lease hash buckets. With none, nothing is published.",
		unit: unitShort, none: noRelay, steps: above(bad, from(1, good)), queries: []query{{"count by (job) (" + gauge(metric.OutboxBuckets.Name) + " > 0)", "{{job}}"}},
	}))
	b.add(24, 6, timeline(view{
		title: "Database and broker", about: "Whether each relay can use its database and its broker. `/-/ready` of the relay shows the cause.",
		unit: unitNone, none: noRelay, steps: above(bad, from(1, good)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "failing", Color: bad, Index: 0}, "1": {Text: "ready", Color: good, Index: 1},
		}}},
		queries: []query{{gauge(metric.OutboxReady.Name), "{{part}}, {{instance}}"}},
	}))
}

func outboxThroughput(b *board) {
	b.row("Publishing")
	b.add(12, 8, lines(view{
		title: "Rows taken up and sent", about: "Rows per second whose first attempt has ended, and rows per second that the broker accepted.",
		unit: unitRate, none: noRelay, steps: plain(),
		queries: []query{
			{sumRate("job", metric.OutboxPublished.Name), "{{job}}: taken up"},
			{sumRate("job", metric.OutboxSent.Name), "{{job}}: sent"},
		},
	}, lineStyle{}))
	b.add(12, 8, lines(view{
		title: "Time until a row is published", about: "Time from the creation of a row until the broker accepted it. Interpolated within the buckets of the histogram. The mark is the default of the alert OutboxLagging, 5 minutes.",
		unit: unitSeconds, none: "no row is published", steps: above(good, from(300, bad)),
		queries: []query{{outboxLatency("0.5"), "{{job}}: median"}, {outboxLatency("0.95"), "{{job}}: 95th percentile"}},
	}, lineStyle{log: true, thresholds: true}))
	b.add(8, 8, lines(view{
		title: "Sent by topic and type", about: "Rows per second that the broker accepted, by topic and event type.",
		unit: unitRate, none: noRelay, steps: plain(),
		queries: []query{{sumRate("topic, event_type", metric.OutboxSent.Name), "{{topic}}: {{event_type}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Pending rows over time", about: "Rows that are not published yet, and on the right axis the age of the oldest.",
		unit: unitShort, none: noRelay, steps: plain(), min: number(0),
		queries: []query{
			outboxTable(metric.OutboxPendingRows),
			{"max by (job) (" + gauge(metric.OutboxOldestPending.Name) + ")", "{{job}}: age of the oldest"},
		},
		overrides: []override{rightAxis(1, unitSeconds, "age")},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Time per batch", about: "Time to publish a batch and to write its results. Interpolated within the buckets of the histogram.",
		unit: unitSeconds, none: "no batch is published", steps: plain(),
		queries: []query{
			{quantileBy("0.5", "job", metric.OutboxBatchSeconds.Name), "{{job}}: median"},
			{quantileBy("0.99", "job", metric.OutboxBatchSeconds.Name), "{{job}}: 99th percentile"},
		},
	}, lineStyle{log: true}))
}

func outboxFailures(b *board) {
	b.row("Failures")
	b.add(6, 8, lines(view{
		title: "Failed attempts", about: "Attempts to publish a row that failed, per second, by topic and class of the error. Most are retried.",
		unit: unitRate, none: noRowFails, steps: above(good, from(0.001, warning)),
		queries: []query{{sumRate("topic, error_class", metric.OutboxSendFailures.Name), "{{topic}}: {{error_class}}"}},
	}, lineStyle{stacked: true}))
	b.add(6, 8, lines(view{
		title: "Rows given up", about: "Rows per second that were given up after all attempts, by topic and event type. The mark is the default of the alert OutboxFailing, 0.1 for a topic.",
		unit: unitRate, none: noRowFails, steps: above(good, from(0.1, bad)),
		queries: []query{{sumRate("topic, event_type", metric.OutboxFailed.Name), "{{topic}}: {{event_type}}"}},
	}, lineStyle{stacked: true, thresholds: true}))
	b.add(6, 8, lines(view{
		title: "Retries", about: "Attempts per second after the first one of a row.",
		unit: unitRate, none: noRelay, steps: plain(), queries: []query{{sumRate("job", metric.OutboxRetries.Name), "{{job}}"}},
	}, lineStyle{}))
	b.add(6, 8, lines(view{
		title: "Answers of a web service", about: "Requests per second by the first digit of the status, for relays that post rows over HTTP. Without an answer, it is none.",
		unit: unitRate, none: "no relay posts rows over HTTP", steps: plain(),
		queries: []query{{sumRate("job, code", metric.OutboxHTTPRequests.Name), "{{job}}: {{code}}"}},
	}, lineStyle{stacked: true}))
}

func outboxRelays(b *board) {
	b.row("Relays")
	b.add(8, 8, lines(view{
		title: "Leased buckets", about: "Hash buckets that each relay has leased. Relays of a job share 64. Below 64 in total, some keys are not published at the moment.",
		unit: unitShort, none: noRelay, steps: plain(), min: number(0),
		queries: []query{{gauge(metric.OutboxBuckets.Name), "{{instance}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Duplicates and lost claims", about: "Rows per second that the broker accepted and that are published again, rows whose lease had ended, and leases that ended without being renewed. Duplicates count once by their idempotency key.",
		unit: unitRate, none: noRelay, steps: above(good, from(0.001, warning)),
		queries: []query{
			{sumRate("job", metric.OutboxDuplicates.Name), "{{job}}: duplicates"},
			{sumRate("job, way", metric.OutboxLostClaims.Name), "{{job}}: lost claims, {{way}}"},
			{sumRate("job", metric.OutboxStale.Name), "{{job}}: stale leases"},
		},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Deleted rows", about: "Rows per second that were deleted after their retention.",
		unit: unitRate, none: noRelay, steps: plain(), queries: []query{{sumRate("job", metric.OutboxDeletedRows.Name), "{{job}}"}},
	}, lineStyle{}))
}
