package metric

// noRelay is when families of the relay are missing.
const noRelay = "outside of `sloengine relay`"

var outboxPart = NewPart("Outbox relay",
	"Rows that `sloengine relay` publishes from an outbox table. Only that command has them. Counts of rows in the "+
		"table are those of the whole table, so take their maximum over relays, not their sum.")

var (
	outboxTo    = OneOf("destination", "kafka rabbitmq http")
	outboxTopic = Named("topic", "topic of the row, or `other` beyond 200 pairs of topic and event type")
	outboxType  = Named("event_type", "event type of the row, or `other` likewise")
	outboxClass = OneOf("error_class", "unknown transient permanent overload timeout breaker_open blocked")

	// The alerts of the outbox judge 300 seconds, so that is a bucket.
	outboxSeconds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
)

var (
	OutboxPublished = outboxPart.Counter("sloengine_outbox_published_total", "rows",
		"Rows whose first attempt has ended, whatever its outcome.", outboxTo, outboxTopic, outboxType, Absent(noRelay))
	OutboxSent = outboxPart.Counter("sloengine_outbox_sent_total", "rows",
		"Rows that the broker has accepted. A row that is published again counts again.", outboxTo, outboxTopic,
		outboxType, Absent(noRelay))
	OutboxSendFailures = outboxPart.Counter("sloengine_outbox_send_failures_total", "attempts",
		"Failed attempts to publish a row. Attempts that failed because the broker was not reachable count here and not as "+
			"attempts of the row.", outboxTo, outboxTopic, outboxType, outboxClass, Absent("until an attempt fails"))
	OutboxFailed = outboxPart.Counter("sloengine_outbox_failed_total", "rows",
		"Rows that were given up and have the status FAILED, after their dead-letter message was accepted.", outboxTo,
		outboxTopic, outboxType, Absent("until a row is given up"))
	OutboxRetries = outboxPart.Counter("sloengine_outbox_retries_total", "attempts",
		"Attempts to publish a row after its first one.", Absent(noRelay))

	OutboxPendingRows = outboxPart.Gauge("sloengine_outbox_pending_rows", "rows",
		"Rows of the table that are not published yet.", Absent(noRelay))
	OutboxFailedRows = outboxPart.Gauge("sloengine_outbox_failed_rows", "rows",
		"Rows of the table that were given up.", Absent(noRelay))
	OutboxOldestPending = outboxPart.Gauge("sloengine_outbox_oldest_pending_seconds", unitSeconds,
		"Age of the oldest row that is not published yet, 0 without any. Rows that are published again have none.",
		Absent(noRelay))

	OutboxLatency = outboxPart.Histogram("sloengine_outbox_latency_seconds",
		"Time from the creation of a row, as its transaction began, until the broker accepted it. Without rows that are "+
			"published again.",
		outboxSeconds, Absent(noRelay))
	OutboxBatchSeconds = outboxPart.Histogram("sloengine_outbox_batch_seconds",
		"Time to publish a batch and to write its results.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, Absent(noRelay))

	OutboxLostClaims = outboxPart.Counter("sloengine_outbox_lost_claims_total", "rows",
		"Rows that another relay had meanwhile: `lease` as the lease had ended when the result was to be written, "+
			"`optimistic` as the version had changed when the row was to be claimed or its result was to be written.",
		OneOf("way", "lease optimistic"), Absent(noRelay))
	OutboxDuplicates = outboxPart.Counter("sloengine_outbox_duplicates_total", "rows",
		"Rows that the broker has accepted and whose result could not be written, so that they are published again.",
		Absent(noRelay))
	OutboxBuckets = outboxPart.Gauge("sloengine_outbox_buckets", "buckets",
		"Hash buckets that this relay has leased, of 64.", Absent(noRelay))
	OutboxStale = outboxPart.Counter("sloengine_outbox_stale_leases_total", "leases",
		"Leases of other relays, or with `claim: optimistic` claims of rows, that had ended without being renewed and were "+
			"released by this relay.", Absent(noRelay))

	OutboxHTTPRequests = outboxPart.Counter("sloengine_outbox_http_requests_total", "requests",
		"Requests to the receiver by the first digit of the status, `none` without an answer.",
		OneOf("code", "none 1xx 2xx 3xx 4xx 5xx"), Absent("unless relay.yaml has `http`"))

	OutboxReady = outboxPart.Gauge("sloengine_outbox_ready", unitYesNo,
		"1 while the part works, 0 while it fails. The log and `/-/ready` have the reason.",
		OneOf("part", "database broker"), Absent(noRelay))
	OutboxDeletedRows = outboxPart.Counter("sloengine_outbox_deleted_rows_total", "rows",
		"Rows that this relay deleted after their retention, without those of dropped partitions.", Absent(noRelay))
)
