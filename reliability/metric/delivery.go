package metric

// noSinks is when families of the sinks are missing.
const noSinks = "without `sinks` in engine.yaml"

var rateLimitPart = NewPart("Rate limits",
	"Of the limits in front of the log. Without `limits` in engine.yaml the counters without a rule stay at zero.")

var (
	limitRule  = Named("type", "match of the rule for the event's type, or `(default)`: never the type itself")
	limitLayer = OneOf("layer", "global type context")
	noLimits   = "without `limits` in engine.yaml"
)

var (
	RateLimitHits             = rateLimitPart.Counter("sloengine_ratelimit_hits_total", unitEvents, "Events over a limit, for each limit that they exceed, whatever became of them.", limitLayer, Named("type", "match of the rule or `(default)` in the layer `type`; empty in the others"), Absent(noLimits))
	RateLimitDropped          = rateLimitPart.Counter("sloengine_ratelimit_dropped_total", unitEvents, "Events over a limit that were dropped. They lower the coverage of what they would have counted for.", limitRule, Absent(noLimits))
	RateLimitCritical         = rateLimitPart.Counter("sloengine_ratelimit_critical_total", unitEvents, "Events over a limit that the filter of the dead letters wants, and that were kept there.", limitRule, Absent(noLimits))
	RateLimitSampled          = rateLimitPart.Counter("sloengine_ratelimit_sampled_total", unitEvents, "Events over a limit that is sampled: kept ones weigh for those that were not.", OneOf("kept", "true false"))
	RateLimitAggregated       = rateLimitPart.Counter("sloengine_ratelimit_aggregated_total", unitEvents, "Events over a rate limit that were stored together with others, as one event with their count and durations.")
	RateLimitExpressionErrors = rateLimitPart.Counter("sloengine_ratelimit_expression_errors_total", unitEvents, "Events for which `bypass_if` or an `extractor` could not be computed. They are judged as if the expression were not there.")
	RateLimitThrottled        = rateLimitPart.Counter("sloengine_ratelimit_throttled_total", unitEvents, "Events over a limit that were held back, whether they got in then or their sender was told to try again.")
	RateLimitBypass           = rateLimitPart.Counter("sloengine_ratelimit_bypass_total", unitEvents, "Events that no limit applied to: audit types, and what `bypass` lets authenticated callers do.", OneOf("reason", "audit bypass"))
	RateLimitCurrent          = rateLimitPart.Gauge("sloengine_ratelimit_current", "events a second", "Rate that was admitted of late by the limit of the layer that is used up most.", limitLayer, Absent(noLimits))
	RateLimitThreshold        = rateLimitPart.Gauge("sloengine_ratelimit_threshold", "events a second", "Rate that the same limit admits.", limitLayer, Absent(noLimits))
	RateLimitContexts         = rateLimitPart.Gauge("sloengine_ratelimit_contexts", "counters", "Counters in memory: of the layers, and of each context value that was seen of late.")
	RateLimitEvictions        = rateLimitPart.Counter("sloengine_ratelimit_evictions_total", "counters", "Counters that were given up because `max_contexts` was reached; their contexts began anew.")
)

var outboundPart = NewPart("Shared limits of sinks",
	"One limit for the calls of all instances to a sink, kept in Redis. What a limit of one instance alone puts off is counted by `sloengine_sink_rate_limited_total`.")

var (
	outboundName  = Named("name", "the sink")
	noSharedLimit = "unless a sink has a `rate_limit` that is `shared`"
)

var (
	RateLimitOutboundAllowed     = outboundPart.Counter("sloengine_ratelimit_outbound_allowed_total", "calls", "Calls that got a turn.", outboundName, Absent(noSharedLimit))
	RateLimitOutboundRefused     = outboundPart.Counter("sloengine_ratelimit_outbound_refused_total", "calls", "Calls that got no turn in time and were put off.", outboundName, Absent(noSharedLimit))
	RateLimitOutboundFallback    = outboundPart.Counter("sloengine_ratelimit_outbound_fallback_total", "calls", "Turns that this instance gave out by itself while Redis was away.", outboundName, Absent(noSharedLimit))
	RateLimitOutboundWaitSeconds = outboundPart.Histogram("sloengine_ratelimit_outbound_wait_seconds", "Wait for a turn of the calls that got one.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60}, outboundName, Absent(noSharedLimit))
)

var redisPart = NewPart("Redis",
	"Of the limits that instances share. Without `redis` in engine.yaml they say nothing.")

var (
	RedisUp               = redisPart.Gauge("sloengine_redis_up", unitYesNo, "1 while Redis answers.")
	RedisErrors           = redisPart.Counter("sloengine_redis_errors_total", "calls", "Calls to Redis that failed.", OneOf("reason", "other timeout connection read_only out_of_memory unavailable denied bad_answer crowded"))
	RedisRoundTripSeconds = redisPart.Histogram("sloengine_redis_round_trip_seconds", "Time of a call to Redis.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1})
	RateLimitFallback       = redisPart.Gauge("sloengine_ratelimit_fallback", unitYesNo, "1 while each instance limits by itself because Redis is away.")
	RateLimitFallbacks      = redisPart.Counter("sloengine_ratelimit_fallback_total", unitTimes, "Times that this instance went over to limits of its own.")
	RateLimitFallbackErrors = redisPart.Counter("sloengine_ratelimit_fallback_errors_total", "decisions", "Decisions that were asked of Redis in vain and made with the limits of this instance.")
)

var sinkPart = NewPart("Sinks",
	"Delivery of every event to each sink.")

var (
	sinkName = Named("sink", "name of the sink")
)

var (
	Sinks              = sinkPart.Gauge("sloengine_sinks", "sinks", "Sinks that are set up.")
	SinkLowestCursor   = sinkPart.Gauge("sloengine_sink_lowest_cursor", "record", "Number of the oldest record of the log that some sink still lacks.")
	SinkDeliveredItems = sinkPart.Counter("sloengine_sink_delivered_items_total", unitEvents, "Events that the sink took.", sinkName, Absent(noSinks))
	SinkCallsSucceeded = sinkPart.Counter("sloengine_sink_calls_succeeded_total", "calls", "Calls that succeeded.", sinkName, Absent(noSinks))
	SinkCallsFailed    = sinkPart.Counter("sloengine_sink_calls_failed_total", "calls", "Calls that failed, by class of error.", Named("sink", "name of the sink"), OneOf("class", "unknown transient permanent overload timeout breaker_open blocked"), Absent(noSinks))
	SinkAnswers        = sinkPart.Counter("sloengine_sink_answers_total", "answers", "Answers of HTTP sinks, by status code.", Named("sink", "name of the sink"), Named("code", "status code; `other` beyond 24 codes of a sink"), Absent("until the first answer"))
	SinkFailing        = sinkPart.Gauge("sloengine_sink_failing", unitYesNo, "1 from the first failure until it works again: calls to the sink, making durable what it took, reading the log, saving its dead letters, saving its cursor, keeping what it skips.", Named("sink", "name of the sink"), OneOf("what", "delivery flush log dead_letters cursor lag"), Absent(noSinks))
	SinkCallSeconds    = sinkPart.Histogram("sloengine_sink_call_seconds", "Time of a call, whether it succeeded or not.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, sinkName, Absent(noSinks))
	SinkAbandonedCalls   = sinkPart.Counter("sloengine_sink_abandoned_calls_total", "calls", "Calls that went on after their time was over and were left behind.", sinkName, Absent(noSinks))
	SinkRateLimited      = sinkPart.Counter("sloengine_sink_rate_limited_total", unitTimes, "Times that no turn of the `rate_limit` of the sink came in time, so that the call was put off.", sinkName, Absent(noSinks))
	SinkDeadLetters      = sinkPart.Counter("sloengine_sink_dead_letters_total", unitEvents, "Events that the sink did not get and that were given to the dead letters, whose filter decides.", Named("sink", "name of the sink"), OneOf("reason", "permanent retry_exhausted expired retry_rate_limited unreadable"), Absent(noSinks))
	SinkDeadLetterErrors = sinkPart.Counter("sloengine_sink_dead_letter_errors_total", unitTimes, "Dead letters that could not be saved. They are tried again, and the sink waits.", sinkName, Absent(noSinks))
	SinkDroppedItems     = sinkPart.Counter("sloengine_sink_dropped_items_total", unitEvents, "Events that were dropped for the rate limit of retries, whose policy is `drop`.", sinkName, Absent(noSinks))
	SinkSkippedRecords   = sinkPart.Counter("sloengine_sink_skipped_records_total", "records", "Records beyond `max_lag_bytes`, put aside as a dead letter of their own.", sinkName, Absent(noSinks))
	SinkMissedRecords    = sinkPart.Counter("sloengine_sink_missed_records_total", "records", "Records that had left the log before the sink got them.", sinkName, Absent(noSinks))
	SinkCursorErrors     = sinkPart.Counter("sloengine_sink_cursor_errors_total", unitTimes, "Failures to note how far the sink is; after a restart it sees some events again.", sinkName, Absent(noSinks))
	SinkFlushErrors      = sinkPart.Counter("sloengine_sink_flush_errors_total", unitTimes, "Failures to make durable what the sink took.", sinkName, Absent(noSinks))
	SinkLagRecords       = sinkPart.Gauge("sloengine_sink_lag_records", "records", "Records of the log that the sink has not got.", sinkName, Absent(noSinks))
	SinkLagBytes         = sinkPart.Gauge("sloengine_sink_lag_bytes", unitBytes, "Bytes of the log that the sink has not got.", sinkName, Absent(noSinks))
	SinkLagSeconds       = sinkPart.Gauge("sloengine_sink_lag_seconds", unitSeconds, "Age of the oldest event that the sink has not got.", sinkName, Absent(noSinks))
	SinkMaxLagBytes      = sinkPart.Gauge("sloengine_sink_max_lag_bytes", unitBytes, "Bytes of the log that are kept for the sink at most.", sinkName, Absent("unless the sink has `max_lag_bytes`"))
	SinkInFlightBatches  = sinkPart.Gauge("sloengine_sink_in_flight_batches", "batches", "Batches that are under way or wait for a retry.", sinkName, Absent(noSinks))
)

var retryPart = NewPart("Retries",
	"Attempts after a first one.")

var (
	targetName = Named("target", "name of the sink")
)

var (
	RetryAttempts              = retryPart.Counter("sloengine_retry_attempts_total", "calls", "Attempts after a first one.", targetName, Absent(noSinks))
	RetryAttemptedItems        = retryPart.Counter("sloengine_retry_attempted_items_total", unitEvents, "Events in those attempts, which `retry.rate_limit` bounds.", targetName, Absent(noSinks))
	RetrySuccessItems          = retryPart.Counter("sloengine_retry_success_items_total", unitEvents, "Events that were delivered by a retry.", targetName, Absent(noSinks))
	RetryExhaustedItems        = retryPart.Counter("sloengine_retry_exhausted_items_total", unitEvents, "Events whose last retry failed too.", targetName, Absent(noSinks))
	RetryPermanentFailureItems = retryPart.Counter("sloengine_retry_permanent_failure_items_total", unitEvents, "Events that were refused for good, so that no retry would help.", targetName, Absent(noSinks))
	RetryBudgetExhausted       = retryPart.Counter("sloengine_retry_budget_exhausted_total", unitTimes, "Retries that had to wait because retries had their share of the traffic.", targetName, Absent(noSinks))
	RetryRateLimited           = retryPart.Counter("sloengine_retry_rate_limited_total", unitTimes, "Retries over the rate limit of retries: delayed, dropped, or made dead letters.", targetName, Absent(noSinks))
	RetryDelaySeconds          = retryPart.Histogram("sloengine_retry_delay_seconds", "Delay before a retry, jitter and all.",
		[]float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, targetName, Absent(noSinks))
	RetryOverheadSeconds = retryPart.Histogram("sloengine_retry_overhead_seconds", "What the policies around a call to a sink added to it: breaker, bulkhead and time-out, without the sink's own time and without waits before the call.",
		[]float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1}, targetName, Absent(noSinks))
	RetryStaged = retryPart.Gauge("sloengine_retry_staged", unitYesNo, "1 while a target that came back is given its backlog in stages.", targetName, Absent(noSinks))
)

var breakerPart = NewPart("Breakers",
	"One for each sink, and one for Redis if it is set up.")

var (
	breakerName = Named("breaker", "name of the sink, or `redis`")
	noBreakers  = "without `sinks` and `redis` in engine.yaml"
)

var (
	BreakerState        = breakerPart.Gauge("sloengine_breaker_state", "0, 1 or 2", "0 closed, 1 half-open, 2 open.", breakerName, Absent(noBreakers))
	BreakerTransitions  = breakerPart.Counter("sloengine_breaker_transitions_total", unitTimes, "Changes of state, by the state that followed.", breakerName, OneOf("to", "closed half_open open"), Absent(noBreakers))
	BreakerRejected     = breakerPart.Counter("sloengine_breaker_rejected_total", "calls", "Calls that were not made because the breaker was open.", breakerName, Absent(noBreakers))
	BreakerFailures     = breakerPart.Counter("sloengine_breaker_failures_total", "calls", "Calls that failed in a way that counts towards opening.", breakerName, Absent(noBreakers))
	BreakerHealthChecks = breakerPart.Counter("sloengine_breaker_health_checks_total", "checks", "Checks in the background while the breaker was open.", breakerName, OneOf("result", "success failure"), Absent(noBreakers))
)

var bulkheadPart = NewPart("Bulkheads",
	"The calls to a sink at once.")

var (
	bulkheadName = Named("bulkhead", "name of the sink")
)

var (
	BulkheadActive   = bulkheadPart.Gauge("sloengine_bulkhead_active", "calls", "Calls under way.", bulkheadName, Absent(noSinks))
	BulkheadQueued   = bulkheadPart.Gauge("sloengine_bulkhead_queued", "calls", "Calls that wait for a place.", bulkheadName, Absent(noSinks))
	BulkheadRejected = bulkheadPart.Counter("sloengine_bulkhead_rejected_total", "calls", "Calls that got no place.", bulkheadName, Absent(noSinks))
)

var deadlinePart = NewPart("Deadlines",
	"Work that was not begun, since nobody waited for it any more.")

var (
	DeadlineExpired = deadlinePart.Counter("sloengine_deadline_expired_total", unitTimes, "Work that was not begun, since its deadline had passed.", OneOf("where", "ingest sink"))
)

var dlqPart = NewPart("Dead letters",
	"What could not be admitted, counted or delivered.")

var (
	dlqOrigin = OneOf("origin", "admission fold sink")
)

var (
	DLQEntries       = dlqPart.Gauge("sloengine_dlq_entries", "letters", "Dead letters that are kept, by where they failed.", dlqOrigin)
	DLQBytes         = dlqPart.Gauge("sloengine_dlq_bytes", unitBytes, "Bytes of the dead letters that are kept.")
	DLQDiskBytes     = dlqPart.Gauge("sloengine_dlq_disk_bytes", unitBytes, "Bytes of their files; 0 where there are none.")
	DLQOldestSeconds = dlqPart.Gauge("sloengine_dlq_oldest_seconds", unitSeconds, "Age of the oldest dead letter.")
	DLQSaved         = dlqPart.Counter("sloengine_dlq_saved_total", "letters", "Events that became dead letters.", dlqOrigin, Named("reason", "refused, panic, rate_limited, permanent, retry_exhausted, expired, retry_rate_limited, unreadable, lagging; or other"), Absent("until the first one of its kind"))
	DLQDropped       = dlqPart.Counter("sloengine_dlq_dropped_total", "letters", "What was not kept: by the rule of the filter, or because the store was full or failed.", OneOf("why", "never_save save_if rate_limited default expression_error full error"))
	DLQReplayed      = dlqPart.Counter("sloengine_dlq_replayed_total", "letters", "Dead letters that a replay took up.", OneOf("result", "ok failed too_old no_target held_back"))
	DLQReplayRuns    = dlqPart.Counter("sloengine_dlq_replay_runs_total", unitTimes, "Replays.", OneOf("result", "ok error"))
	DLQRemoved       = dlqPart.Counter("sloengine_dlq_removed_total", "letters", "Dead letters that are no longer kept: discarded by somebody, replayed, or past their retention.", OneOf("why", "discarded replayed purged"))
	DLQCommitSeconds = dlqPart.Histogram("sloengine_dlq_commit_seconds", "Time to make a batch of dead letters durable.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5})
	DLQDamaged        = dlqPart.Counter("sloengine_dlq_damaged_total", "places", "Places in the files that could not be read.")
	DLQDamagedBytes   = dlqPart.Counter("sloengine_dlq_damaged_bytes_total", unitBytes, "Size of those places.")
	DLQDamagedEntries = dlqPart.Counter("sloengine_dlq_damaged_entries_total", "letters", "Dead letters that were in those places, at most.")
	DLQTornBytes      = dlqPart.Counter("sloengine_dlq_torn_bytes_total", unitBytes, "Bytes of unfinished writes that a start found. They were never acknowledged and are left as they are.")
	DLQPoisoned       = dlqPart.Gauge("sloengine_dlq_poisoned", unitYesNo, "1 after a failed write or sync of the files, until a restart.")
)

var clientPart = NewPart("The Go client",
	"In the metrics of the applications that use package `client` with `client.NewMetrics`, not in those of the engine.")

var (
	ClientEvents         = clientPart.Counter("sloengine_client_events_total", unitEvents, "Events by what the engine decided; spooled ones were put on disk first and are counted again once they are sent.", OneOf("result", "accepted duplicate limited sampled dead_lettered rejected spooled"))
	ClientFailures       = clientPart.Counter("sloengine_client_failures_total", unitEvents, "Events that were lost while the application was told nothing, by the way they came and by reason.", OneOf("context", "send async middleware spool"), OneOf("reason", "permanent breaker_open queue_full spool_full spool_failed spool_timeout refused overloaded timeout unavailable closed"))
	ClientRequestSeconds = clientPart.Histogram("sloengine_client_request_seconds", "Time of a request to the engine.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10})
	ClientQueueBytes       = clientPart.Gauge("sloengine_client_queue_bytes", unitBytes, "Bytes of events in memory that are not sent yet.")
	ClientSpoolBytes       = clientPart.Gauge("sloengine_client_spool_bytes", unitBytes, "Bytes of events on disk that are not sent yet.")
	ClientSpoolLimitBytes  = clientPart.Gauge("sloengine_client_spool_limit_bytes", unitBytes, "Bytes that may be on disk.")
	ClientSpoolOpenErrors  = clientPart.Counter("sloengine_client_spool_open_errors_total", unitTimes, "Times that the spool could not be opened.")
	ClientSpoolCorruptions = clientPart.Counter("sloengine_client_spool_corruptions_total", unitTimes, "Damage found in the spool.")
)
