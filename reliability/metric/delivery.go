package metric

// noSinks is when families of the sinks are missing.
const noSinks = "without `sinks` in engine.yaml"

var rateLimitPart = NewPart("Rate limits",
	"Admission control before the log. Without `limits` in engine.yaml, the counters that have no rule in their labels "+
		"stay at zero.")

var (
	limitRule  = Named("type", "the `match` of the rule for the event type, or `(default)`, never the type itself")
	limitLayer = OneOf("layer", "global type context")
	noLimits   = "without `limits` in engine.yaml"
)

var (
	RateLimitHits = rateLimitPart.Counter("sloengine_ratelimit_hits_total", unitEvents,
		"Events over a rate limit, whatever happened to them. An event counts once for each rate limit that it exceeds.",
		limitLayer, Named("type", "the `match` of the rule or `(default)` in the layer `type`, no value in the others"),
		Absent(noLimits))
	RateLimitDropped = rateLimitPart.Counter("sloengine_ratelimit_dropped_total", unitEvents,
		"Events over a rate limit that were dropped. Drops lower the coverage of the SLOs that they would have counted for.",
		limitRule, Absent(noLimits))
	RateLimitCritical = rateLimitPart.Counter("sloengine_ratelimit_critical_total", unitEvents,
		"Events over a rate limit that became dead letters, because the dead-letter filter always saves them.",
		limitRule, Absent(noLimits))
	RateLimitSampled = rateLimitPart.Counter("sloengine_ratelimit_sampled_total", unitEvents,
		"Events over a rate limit that samples. The events that were kept are reweighted to stand for the others.",
		OneOf("kept", "true false"))
	RateLimitAggregated = rateLimitPart.Counter("sloengine_ratelimit_aggregated_total", unitEvents,
		"Events over a rate limit that were merged into one event with their count and durations.")
	RateLimitExpressionErrors = rateLimitPart.Counter("sloengine_ratelimit_expression_errors_total", unitEvents,
		"Events for which `bypass_if` or an `extractor` could not be evaluated. They are limited as if the expression did "+
			"not exist.")
	RateLimitThrottled = rateLimitPart.Counter("sloengine_ratelimit_throttled_total", unitEvents,
		"Events over a rate limit that were throttled, whether they were admitted after a delay or answered with a 429.")
	RateLimitBypass = rateLimitPart.Counter("sloengine_ratelimit_bypass_total", unitEvents,
		"Events that were exempt from rate limits: audit types, and events of authenticated callers that match `bypass`.",
		OneOf("reason", "audit bypass"))
	RateLimitCurrent = rateLimitPart.Gauge("sloengine_ratelimit_current", "events a second",
		"Recently admitted rate of the most heavily used rate limit of the layer.", limitLayer, Absent(noLimits))
	RateLimitThreshold = rateLimitPart.Gauge("sloengine_ratelimit_threshold", "events a second",
		"Maximum rate of the same rate limit.", limitLayer, Absent(noLimits))
	RateLimitContexts = rateLimitPart.Gauge("sloengine_ratelimit_contexts", "counters",
		"Counters in memory: those of the layers, and one for each context value that was seen recently.")
	RateLimitEvictions = rateLimitPart.Counter("sloengine_ratelimit_evictions_total", "counters",
		"Counters that were evicted because `max_contexts` was reached. Their contexts started again from zero.")
)

var outboundPart = NewPart("Shared rate limits of sinks",
	"One rate limit in Redis for the calls of all instances to a sink. Calls that wait for a rate limit of this "+
		"instance alone are counted by `sloengine_sink_rate_limited_total`.")

var (
	outboundName  = Named("name", "the sink")
	noSharedLimit = "unless a sink has a `rate_limit` with `shared: true`"
)

var (
	RateLimitOutboundAllowed = outboundPart.Counter("sloengine_ratelimit_outbound_allowed_total", "calls",
		"Calls that were admitted.", outboundName, Absent(noSharedLimit))
	RateLimitOutboundRefused = outboundPart.Counter("sloengine_ratelimit_outbound_refused_total", "calls",
		"Calls that were not admitted in time and were postponed.", outboundName, Absent(noSharedLimit))
	RateLimitOutboundFallback = outboundPart.Counter("sloengine_ratelimit_outbound_fallback_total", "calls",
		"Calls that this instance admitted by its local rate limit while Redis was not reachable.",
		outboundName, Absent(noSharedLimit))
	RateLimitOutboundWaitSeconds = outboundPart.Histogram("sloengine_ratelimit_outbound_wait_seconds",
		"Time that admitted calls waited for admission.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60}, outboundName, Absent(noSharedLimit))
)

var redisPart = NewPart("Redis",
	"The connection over which instances share rate limits. Without `redis` in engine.yaml the values have no meaning.")

var (
	RedisUp     = redisPart.Gauge("sloengine_redis_up", unitYesNo, "1 while Redis answers.")
	RedisErrors = redisPart.Counter("sloengine_redis_errors_total", "calls", "Calls to Redis that failed.",
		OneOf("reason", "other timeout connection read_only out_of_memory unavailable denied bad_answer"))
	RedisRoundTripSeconds = redisPart.Histogram("sloengine_redis_round_trip_seconds", "Duration of a call to Redis.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1})
	RateLimitFallback = redisPart.Gauge("sloengine_ratelimit_fallback", unitYesNo,
		"1 while rate limits are local because Redis is not reachable.")
	RateLimitFallbacks = redisPart.Counter("sloengine_ratelimit_fallback_total", unitTimes,
		"Times that this instance fell back to local rate limits.")
	RateLimitFallbackErrors = redisPart.Counter("sloengine_ratelimit_fallback_errors_total", "decisions",
		"Decisions that Redis did not answer and that were made with local rate limits.")
)

var sinkPart = NewPart("Sinks",
	"Delivery of events from the log to each sink.")

var (
	sinkName = Named("sink", "name of the sink")
)

var (
	Sinks            = sinkPart.Gauge("sloengine_sinks", "sinks", "Configured sinks.")
	SinkLowestCursor = sinkPart.Gauge("sloengine_sink_lowest_cursor", "record",
		"Number of the oldest log record that some sink has not received.")
	SinkDeliveredItems = sinkPart.Counter("sloengine_sink_delivered_items_total", unitEvents,
		"Events that were delivered.", sinkName, Absent(noSinks))
	SinkCallsSucceeded = sinkPart.Counter("sloengine_sink_calls_succeeded_total", "calls", "Calls that succeeded.",
		sinkName, Absent(noSinks))
	SinkCallsFailed = sinkPart.Counter("sloengine_sink_calls_failed_total", "calls",
		"Calls that failed, by class of error.", Named("sink", "name of the sink"),
		OneOf("class", "unknown transient permanent overload timeout breaker_open blocked"), Absent(noSinks))
	SinkAnswers = sinkPart.Counter("sloengine_sink_answers_total", "answers",
		"Responses of HTTP sinks, by status code.", Named("sink", "name of the sink"),
		Named("code", "status code, or `other` beyond 24 codes of a sink"), Absent("until the first response"))
	SinkFailing = sinkPart.Gauge("sloengine_sink_failing", unitYesNo,
		"1 from the first failure until the next success: of calls to the sink, of making delivered events durable "+
			"(flush), of reading the log, of saving dead letters, of saving the cursor, and of retaining the log range that "+
			"the sink skips (lag). Of calls, also until two minutes after the last failure if nothing waits.",
		Named("sink", "name of the sink"), OneOf("what", "delivery flush log dead_letters cursor lag"), Absent(noSinks))
	SinkCallSeconds = sinkPart.Histogram("sloengine_sink_call_seconds", "Duration of a call, successful or not.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, sinkName, Absent(noSinks))
	SinkAbandonedCalls = sinkPart.Counter("sloengine_sink_abandoned_calls_total", "calls",
		"Calls that did not return after their time-out and were abandoned.", sinkName, Absent(noSinks))
	SinkRateLimited = sinkPart.Counter("sloengine_sink_rate_limited_total", unitTimes,
		"Calls that were postponed because the sink's `rate_limit` had no capacity in time.", sinkName, Absent(noSinks))
	SinkDeadLetters = sinkPart.Counter("sloengine_sink_dead_letters_total", unitEvents,
		"Events that could not be delivered and were offered to the dead-letter queue, whose filter decides.",
		Named("sink", "name of the sink"), OneOf("reason", "permanent retry_exhausted expired retry_rate_limited unreadable"),
		Absent(noSinks))
	SinkDeadLetterErrors = sinkPart.Counter("sloengine_sink_dead_letter_errors_total", unitTimes,
		"Dead letters that could not be saved. The engine retries, and the sink waits.", sinkName, Absent(noSinks))
	SinkDroppedItems = sinkPart.Counter("sloengine_sink_dropped_items_total", unitEvents,
		"Events that were dropped because retries exceeded their rate limit, whose policy is `drop`.",
		sinkName, Absent(noSinks))
	SinkSkippedRecords = sinkPart.Counter("sloengine_sink_skipped_records_total", "records",
		"Records beyond `max_lag_bytes` that were retained as a dead letter of their own.", sinkName, Absent(noSinks))
	SinkMissedRecords = sinkPart.Counter("sloengine_sink_missed_records_total", "records",
		"Records that had left the log before the sink received them.", sinkName, Absent(noSinks))
	SinkCursorErrors = sinkPart.Counter("sloengine_sink_cursor_errors_total", unitTimes,
		"Failures to save the cursor of the sink. After a restart the sink receives some events again.",
		sinkName, Absent(noSinks))
	SinkFlushErrors = sinkPart.Counter("sloengine_sink_flush_errors_total", unitTimes,
		"Failures to make delivered events durable.", sinkName, Absent(noSinks))
	SinkLagRecords = sinkPart.Gauge("sloengine_sink_lag_records", "records",
		"Log records that the sink has not received.", sinkName, Absent(noSinks))
	SinkLagBytes = sinkPart.Gauge("sloengine_sink_lag_bytes", unitBytes,
		"Bytes of log that the sink has not received.", sinkName, Absent(noSinks))
	SinkLagSeconds = sinkPart.Gauge("sloengine_sink_lag_seconds", unitSeconds,
		"Age of the oldest event that the sink has not received.", sinkName, Absent(noSinks))
	SinkMaxLagBytes = sinkPart.Gauge("sloengine_sink_max_lag_bytes", unitBytes,
		"Maximum bytes of log that are retained for the sink.", sinkName, Absent("unless the sink has `max_lag_bytes`"))
	SinkInFlightBatches = sinkPart.Gauge("sloengine_sink_in_flight_batches", "batches",
		"Batches that are in flight or wait for a retry.", sinkName, Absent(noSinks))
)

var remoteWritePart = NewPart("Remote write",
	"If nothing can scrape the engine, [`remote_write`](reference/engine.md#remote_write) sends what `/metrics` serves "+
		"to Prometheus, Mimir or VictoriaMetrics: all series with one time stamp, every `interval`. It speaks version 2 of "+
		"the "+
		"protocol, and version 1 with a server that knows no other. Samples wait on disk until the server has them, also "+
		"over a restart, for at most `max_age` and `max_bytes`, and arrive in order. A server may refuse samples older than "+
		"an hour, unless it accepts samples out of order. A change of `remote_write` takes effect after a restart.")

var (
	remoteWriteTarget = Named("target", "name of the server")
	noRemoteWrite     = Absent("without `remote_write` in engine.yaml")
)

var (
	RemoteWriteSamples = remoteWritePart.Counter("sloengine_remote_write_samples_total", "samples",
		"Samples that were sent.", remoteWriteTarget, noRemoteWrite)
	RemoteWriteDropped = remoteWritePart.Counter("sloengine_remote_write_dropped_samples_total", "samples",
		"Samples that were given up: refused by the server, older than `max_age`, beyond `max_bytes`, or lost on disk.",
		remoteWriteTarget, OneOf("reason", "refused too_old queue_full not_saved damaged"), noRemoteWrite)
	RemoteWriteFailures = remoteWritePart.Counter("sloengine_remote_write_failures_total", "requests",
		"Requests that failed and are made again.", remoteWriteTarget, noRemoteWrite)
	RemoteWriteFailing = remoteWritePart.Gauge("sloengine_remote_write_failing", unitYesNo,
		"1 from the first failed request until the next that succeeds.", remoteWriteTarget, noRemoteWrite)
	RemoteWriteLag = remoteWritePart.Gauge("sloengine_remote_write_lag_seconds", unitSeconds,
		"Age of the oldest samples that were not sent.", remoteWriteTarget, noRemoteWrite)
	RemoteWriteBytes = remoteWritePart.Gauge("sloengine_remote_write_queue_bytes", unitBytes,
		"Bytes of the samples on disk that were not sent.", remoteWriteTarget, noRemoteWrite)
)

var notifyPart = NewPart("Notifications",
	"Delivery of the live alerts to each Alertmanager, and to each integration of each receiver.")

var (
	notifyTarget = Named("target",
		"`name` of the Alertmanager, by default the host of its `url`, or an integration of a receiver such as "+
			"`oncall/webhook[0]`")
	noTargets = Absent(
		"without `notifications.alertmanagers` and `notifications.receivers` in engine.yaml, or with `send: false`")
)

var (
	NotifySent = notifyPart.Counter("sloengine_notify_sent_total", "alerts",
		"Alerts that the target accepted, repetitions included.", notifyTarget, noTargets)
	NotifyFailures = notifyPart.Counter("sloengine_notify_failures_total", "requests",
		"Requests that failed, by class of error. The engine retries, for receivers not after `permanent` and `blocked` "+
			"until the next group interval.", notifyTarget,
		OneOf("reason", "unknown transient permanent overload timeout blocked"), noTargets)
	NotifyDropped = notifyPart.Counter("sloengine_notify_dropped_total", "alerts",
		"Alerts that the engine gave up on: the target refused them (refused), or it was not reachable for a day after "+
			"they resolved (expired).", notifyTarget, OneOf("reason", "refused expired"), noTargets)
	NotifyFailing = notifyPart.Gauge("sloengine_notify_failing", unitYesNo,
		"1 from the first failure until the next success, or until no notification is waiting.", notifyTarget, noTargets)
	NotifyPending = notifyPart.Gauge("sloengine_notify_pending", "alerts",
		"Alerts that fire or have resolved and that the Alertmanager does not know yet, or groups of alerts that wait for "+
			"the receiver.", notifyTarget, noTargets)
	NotifyInhibited = notifyPart.Gauge("sloengine_notify_inhibited_alerts", "alerts",
		"Firing alerts of which the engine's own receivers are not notified, because another alert inhibits them.")
	NotifyLastSuccess = notifyPart.Gauge("sloengine_notify_last_success_timestamp_seconds", unitSeconds,
		"Unix time of the last request that succeeded, 0 before the first.", notifyTarget, noTargets)
	NotifyLastSuccessTook = notifyPart.Gauge("sloengine_notify_last_success_seconds", unitSeconds,
		"Duration of the last request that succeeded.", notifyTarget, noTargets)
)

var reportsPart = NewPart("Scheduled reports",
	"Delivery of each report that engine.yaml schedules.")

var (
	reportName = Named("report", "`name` of the report")
	noReports  = Absent("without `reports` in engine.yaml")
)

var (
	ReportsSent = reportsPart.Counter("sloengine_reports_sent_total", "reports",
		"Reports delivered, one for each mail address, webhook and folder.", reportName,
		OneOf("kind", "email webhook folder"), noReports)
	ReportsFailures = reportsPart.Counter("sloengine_reports_failures_total", "attempts",
		"Attempts that failed. The engine retries for a day.", reportName, noReports)
	ReportsAbandoned = reportsPart.Counter("sloengine_reports_abandoned_total", "reports",
		"Reports that were not delivered: every attempt of a day failed (failed), or the engine was down for more than a "+
			"week after the report was due (late).", reportName, OneOf("reason", "failed late"), noReports)
	ReportsFailing = reportsPart.Gauge("sloengine_reports_failing", "targets",
		"Mail addresses, webhooks and folders to which the report could not be delivered.", reportName, noReports)
	ReportsPending = reportsPart.Gauge("sloengine_reports_pending", "targets",
		"Mail addresses, webhooks and folders to which the report is due and not delivered yet.", reportName, noReports)
	ReportsLastSuccess = reportsPart.Gauge("sloengine_reports_last_success_timestamp_seconds", unitSeconds,
		"Unix time of the last delivery since the start of the engine, 0 before the first.", reportName, noReports)
)

var subscriptionPart = NewPart("Subscriptions",
	"Webhooks that subscribed to the public page, with `public.subscriptions` in engine.yaml.")

var noSubscriptions = Absent("without `public.subscriptions` in engine.yaml")

var (
	Subscriptions = subscriptionPart.Gauge("sloengine_subscriptions", "webhooks",
		"Webhooks that are subscribed to the public page, at most 1000.", noSubscriptions)
	SubscriptionsFailing = subscriptionPart.Gauge("sloengine_subscriptions_failing", "webhooks",
		"Subscribed webhooks whose last attempt failed.", noSubscriptions)
	SubscriptionsRemoved = subscriptionPart.Counter("sloengine_subscriptions_removed_total", "webhooks",
		"Subscriptions that ended: by their token (unsubscribed), by status 410 (gone), or after a week of failures "+
			"(failing).",
		OneOf("reason", "unsubscribed gone failing"), noSubscriptions)
	SubscriptionRequests = subscriptionPart.Counter("sloengine_subscription_requests_total", "requests",
		"Requests for a subscription: confirmed, not confirmed by the address, or refused because of a limit.",
		OneOf("result", "confirmed unconfirmed refused"), noSubscriptions)
	SubscriptionDeliveries = subscriptionPart.Counter("sloengine_subscription_deliveries_total", "attempts",
		"Attempts to send an incident to a subscribed webhook.", OneOf("result", "sent failed"), noSubscriptions)
)

var retryPart = NewPart("Retries",
	"Attempts after a first one.")

var (
	targetName = Named("target", "name of the sink")
)

var (
	RetryAttempts = retryPart.Counter("sloengine_retry_attempts_total", "calls",
		"Attempts after a first one.", targetName, Absent(noSinks))
	RetryAttemptedItems = retryPart.Counter("sloengine_retry_attempted_items_total", unitEvents,
		"Events in attempts after the first one. `retry.rate_limit` bounds them.", targetName, Absent(noSinks))
	RetrySuccessItems = retryPart.Counter("sloengine_retry_success_items_total", unitEvents,
		"Events that were delivered by a retry.", targetName, Absent(noSinks))
	RetryExhaustedItems = retryPart.Counter("sloengine_retry_exhausted_items_total", unitEvents,
		"Events whose last retry failed.", targetName, Absent(noSinks))
	RetryPermanentFailureItems = retryPart.Counter("sloengine_retry_permanent_failure_items_total", unitEvents,
		"Events that were rejected permanently, so that no retry would help.", targetName, Absent(noSinks))
	RetryBudgetExhausted = retryPart.Counter("sloengine_retry_budget_exhausted_total", unitTimes,
		"Retries that waited because the retry budget was used up.", targetName, Absent(noSinks))
	RetryRateLimited = retryPart.Counter("sloengine_retry_rate_limited_total", unitTimes,
		"Retries over the rate limit of retries. They are delayed, dropped, or become dead letters.",
		targetName, Absent(noSinks))
	RetryDelaySeconds = retryPart.Histogram("sloengine_retry_delay_seconds",
		"Delay before a retry, including jitter.",
		[]float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, targetName, Absent(noSinks))
	RetryOverheadSeconds = retryPart.Histogram("sloengine_retry_overhead_seconds",
		"Time that breaker, bulkhead and time-out added to a call, without the sink's own time and without waits before "+
			"the call.",
		[]float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1}, targetName, Absent(noSinks))
	RetryStaged = retryPart.Gauge("sloengine_retry_staged", unitYesNo,
		"1 while a recovered target receives its backlog in stages.", targetName, Absent(noSinks))
)

var breakerPart = NewPart("Breakers",
	"Circuit breakers: one for each sink, and one for Redis if it is configured.")

var (
	breakerName = Named("breaker", "name of the sink, or `redis`")
	noBreakers  = "without `sinks` and `redis` in engine.yaml"
)

var (
	BreakerState = breakerPart.Gauge("sloengine_breaker_state", "0, 1 or 2", "0 closed, 1 half-open, 2 open.",
		breakerName, Absent(noBreakers))
	BreakerTransitions = breakerPart.Counter("sloengine_breaker_transitions_total", unitTimes,
		"State changes, by the new state.", breakerName, OneOf("to", "closed half_open open"), Absent(noBreakers))
	BreakerRejected = breakerPart.Counter("sloengine_breaker_rejected_total", "calls",
		"Calls that were rejected because the breaker was open.", breakerName, Absent(noBreakers))
	BreakerFailures = breakerPart.Counter("sloengine_breaker_failures_total", "calls",
		"Failed calls that count towards opening the breaker.", breakerName, Absent(noBreakers))
	BreakerHealthChecks = breakerPart.Counter("sloengine_breaker_health_checks_total", "checks",
		"Background health checks while the breaker was open.", breakerName, OneOf("result", "success failure"),
		Absent(noBreakers))
)

var bulkheadPart = NewPart("Bulkheads",
	"The bound on concurrent calls to a sink.")

var (
	bulkheadName = Named("bulkhead", "name of the sink")
)

var (
	BulkheadActive = bulkheadPart.Gauge("sloengine_bulkhead_active", "calls", "Calls in flight.",
		bulkheadName, Absent(noSinks))
	BulkheadQueued = bulkheadPart.Gauge("sloengine_bulkhead_queued", "calls", "Calls that wait for a slot.",
		bulkheadName, Absent(noSinks))
	BulkheadRejected = bulkheadPart.Counter("sloengine_bulkhead_rejected_total", "calls",
		"Calls that were rejected because no slot was free.", bulkheadName, Absent(noSinks))
)

var deadlinePart = NewPart("Deadlines",
	"Work that was skipped because its caller had stopped waiting.")

var (
	DeadlineExpired = deadlinePart.Counter("sloengine_deadline_expired_total", unitTimes,
		"Work that was not started because its deadline had passed.", OneOf("where", "ingest sink"))
)

var dlqPart = NewPart("Dead letters",
	"Events that could not be admitted, counted or delivered.")

var (
	dlqOrigin = OneOf("origin", "admission fold sink")
)

var (
	DLQEntries = dlqPart.Gauge("sloengine_dlq_entries", "dead letters",
		"Dead letters in the queue, by where they failed.", dlqOrigin)
	DLQBytes     = dlqPart.Gauge("sloengine_dlq_bytes", unitBytes, "Bytes of the dead letters in the queue.")
	DLQDiskBytes = dlqPart.Gauge("sloengine_dlq_disk_bytes", unitBytes,
		"Bytes of the files of the dead-letter queue. 0 if it has no files.")
	DLQOldestSeconds = dlqPart.Gauge("sloengine_dlq_oldest_seconds", unitSeconds, "Age of the oldest dead letter.")
	DLQSaved         = dlqPart.Counter("sloengine_dlq_saved_total", "dead letters", "Events that became dead letters.",
		dlqOrigin,
		Named("reason",
			"refused, panic, rate_limited, permanent, retry_exhausted, expired, retry_rate_limited, unreadable, "+
				"lagging or other"), Absent("until the first dead letter with these labels"))
	DLQDropped = dlqPart.Counter("sloengine_dlq_dropped_total", "dead letters",
		"Events that did not become dead letters: by a rule of the filter, because the store was full or failed, or "+
			"because they are invalid.", OneOf(
			"why", "never_save save_if rate_limited default expression_error invalid full error"))
	DLQReplayed = dlqPart.Counter("sloengine_dlq_replayed_total", "dead letters",
		"Dead letters that were replayed, by result.", OneOf("result", "ok failed too_old no_target held_back"))
	DLQReplayRuns = dlqPart.Counter("sloengine_dlq_replay_runs_total", unitTimes, "Replays.",
		OneOf("result", "ok error"))
	DLQRemoved = dlqPart.Counter("sloengine_dlq_removed_total", "dead letters",
		"Dead letters that left the queue: discarded by an operator, replayed, or past their retention (purged).",
		OneOf("why", "discarded replayed purged"))
	DLQCommitSeconds = dlqPart.Histogram("sloengine_dlq_commit_seconds", "Time to make a batch of dead letters durable.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5})
	DLQDamaged = dlqPart.Counter("sloengine_dlq_damaged_total", "places",
		"Damaged places in the files of the dead-letter queue.")
	DLQDamagedBytes   = dlqPart.Counter("sloengine_dlq_damaged_bytes_total", unitBytes, "Size of the damaged places.")
	DLQDamagedEntries = dlqPart.Counter("sloengine_dlq_damaged_entries_total", "dead letters",
		"Dead letters that the damaged places can have held, at most.")
	DLQTornBytes = dlqPart.Counter("sloengine_dlq_torn_bytes_total", unitBytes,
		"Bytes of unfinished writes that were found at start. They were never acknowledged and are ignored.")
	DLQPoisoned = dlqPart.Gauge("sloengine_dlq_poisoned", unitYesNo,
		"1 after a failed write or sync of the files, until a restart.")
)

var clientPart = NewPart("The Go client",
	"Exported by applications that use package `client` with `client.NewMetrics`, not by the engine.")

var (
	ClientEvents = clientPart.Counter("sloengine_client_events_total", unitEvents,
		"Events by the engine's decision. Spooled events were first written to disk, and are counted again when they are "+
			"sent.", OneOf("result", "accepted duplicate limited sampled dead_lettered rejected spooled"))
	ClientFailures = clientPart.Counter("sloengine_client_failures_total", unitEvents,
		"Events that were lost without an error to the application, by context and reason.",
		OneOf("context", "send async middleware spool"),
		OneOf("reason",
			"permanent breaker_open queue_full spool_full spool_failed spool_timeout refused overloaded timeout unavailable "+
				"closed"))
	ClientRequestSeconds = clientPart.Histogram("sloengine_client_request_seconds", "Duration of a request to the engine.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10})
	ClientQueueBytes = clientPart.Gauge("sloengine_client_queue_bytes", unitBytes,
		"Bytes of events in memory that have not been sent.")
	ClientSpoolBytes = clientPart.Gauge("sloengine_client_spool_bytes", unitBytes,
		"Bytes of events in the spool that have not been sent.")
	ClientSpoolLimitBytes = clientPart.Gauge("sloengine_client_spool_limit_bytes", unitBytes,
		"Maximum bytes of the spool.")
	ClientSpoolOpenErrors = clientPart.Counter("sloengine_client_spool_open_errors_total", unitTimes,
		"Failures to open the spool.")
	ClientSpoolCorruptions = clientPart.Counter("sloengine_client_spool_corruptions_total", unitTimes,
		"Corruptions found in the spool.")
)
