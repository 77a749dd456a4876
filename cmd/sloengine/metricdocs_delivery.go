package main

import (
	"github.com/sloengine/sloengine/rules/series"
)

// needsSinks is why families of the sinks may be missing.
const needsSinks = "without `sinks` in engine.yaml"

func outboundDocs() metricPart {
	by := with(named("name", "the sink"))
	const unset = "unless a sink has a `rate_limit` that is `shared`"
	return metricPart{
		title: "Shared limits of sinks",
		about: "One limit for the calls of all instances to a sink, kept in Redis. What a limit of one instance alone puts off is counted by `sloengine_sink_rate_limited_total`.",
		docs: []metricDoc{
			{"sloengine_ratelimit_outbound_allowed_total", series.Counter, "calls", by, "", "Calls that got a turn.", unset},
			{"sloengine_ratelimit_outbound_refused_total", series.Counter, "calls", by, "", "Calls that got no turn in time and were put off.", unset},
			{"sloengine_ratelimit_outbound_fallback_total", series.Counter, "calls", by, "", "Turns that this instance gave out by itself while Redis was away.", unset},
			{"sloengine_ratelimit_outbound_wait_seconds", series.Histogram, unitSeconds, by, "", "Wait for a turn of the calls that got one.", unset},
		},
	}
}

func redisDocs() metricPart {
	return metricPart{
		title: "Redis",
		about: "Of the limits that instances share. Without `redis` in engine.yaml they say nothing.",
		docs: []metricDoc{
			{"sloengine_redis_up", series.Gauge, unitYesNo, nil, "", "1 while Redis answers.", ""},
			{"sloengine_redis_errors_total", series.Counter, "calls",
				with(oneOf("reason", "other timeout connection read_only out_of_memory unavailable denied bad_answer crowded")), "", "Calls to Redis that failed.", ""},
			{"sloengine_redis_round_trip_seconds", series.Histogram, unitSeconds, nil, "", "Time of a call to Redis.", ""},
			{"sloengine_ratelimit_fallback", series.Gauge, unitYesNo, nil, "", "1 while each instance limits by itself because Redis is away.", ""},
			{"sloengine_ratelimit_fallback_total", series.Counter, unitTimes, nil, "", "Times that this instance went over to limits of its own.", ""},
			{"sloengine_ratelimit_fallback_errors_total", series.Counter, "decisions", nil, "", "Decisions that were asked of Redis in vain and made with the limits of this instance.", ""},
		},
	}
}

func sinkDocs() metricPart {
	by := with(named("sink", "name of the sink"))
	return metricPart{
		title: "Sinks",
		about: "Delivery of every event to each sink.",
		docs: []metricDoc{
			{"sloengine_sinks", series.Gauge, "sinks", nil, "", "Sinks that are set up.", ""},
			{"sloengine_sink_lowest_cursor", series.Gauge, "record", nil, "", "Number of the oldest record of the log that some sink still lacks.", ""},
			{"sloengine_sink_delivered_items_total", series.Counter, unitEvents, by, "", "Events that the sink took.", needsSinks},
			{"sloengine_sink_calls_succeeded_total", series.Counter, "calls", by, "", "Calls that succeeded.", needsSinks},
			{"sloengine_sink_calls_failed_total", series.Counter, "calls",
				with(named("sink", "name of the sink"), oneOf("class", "unknown transient permanent overload timeout breaker_open blocked")), "", "Calls that failed, by class of error.", needsSinks},
			{"sloengine_sink_answers_total", series.Counter, "answers",
				with(named("sink", "name of the sink"), named("code", "status code; `other` beyond 24 codes of a sink")), "", "Answers of HTTP sinks, by status code.", "until the first answer"},
			{"sloengine_sink_failing", series.Gauge, unitYesNo,
				with(named("sink", "name of the sink"), oneOf("what", "delivery flush log dead_letters cursor lag")), "", "1 from the first failure until it works again: calls to the sink, making durable what it took, reading the log, saving its dead letters, saving its cursor, keeping what it skips.", needsSinks},
			{"sloengine_sink_call_seconds", series.Histogram, unitSeconds, by, "", "Time of a call, whether it succeeded or not.", needsSinks},
			{"sloengine_sink_abandoned_calls_total", series.Counter, "calls", by, "", "Calls that went on after their time was over and were left behind.", needsSinks},
			{"sloengine_sink_rate_limited_total", series.Counter, unitTimes, by, "", "Times that no turn of the `rate_limit` of the sink came in time, so that the call was put off.", needsSinks},
			{"sloengine_sink_dead_letters_total", series.Counter, unitEvents,
				with(named("sink", "name of the sink"), oneOf("reason", "permanent retry_exhausted expired retry_rate_limited unreadable")), "",
				"Events that the sink did not get and that were given to the dead letters, whose filter decides.", needsSinks},
			{"sloengine_sink_dead_letter_errors_total", series.Counter, unitTimes, by, "", "Dead letters that could not be saved. They are tried again, and the sink waits.", needsSinks},
			{"sloengine_sink_dropped_items_total", series.Counter, unitEvents, by, "", "Events that were dropped for the rate limit of retries, whose policy is `drop`.", needsSinks},
			{"sloengine_sink_skipped_records_total", series.Counter, "records", by, "", "Records beyond `max_lag_bytes`, put aside as a dead letter of their own.", needsSinks},
			{"sloengine_sink_missed_records_total", series.Counter, "records", by, "", "Records that had left the log before the sink got them.", needsSinks},
			{"sloengine_sink_cursor_errors_total", series.Counter, unitTimes, by, "", "Failures to note how far the sink is; after a restart it sees some events again.", needsSinks},
			{"sloengine_sink_flush_errors_total", series.Counter, unitTimes, by, "", "Failures to make durable what the sink took.", needsSinks},
			{"sloengine_sink_lag_records", series.Gauge, "records", by, "", "Records of the log that the sink has not got.", needsSinks},
			{"sloengine_sink_lag_bytes", series.Gauge, unitBytes, by, "", "Bytes of the log that the sink has not got.", needsSinks},
			{"sloengine_sink_lag_seconds", series.Gauge, unitSeconds, by, "", "Age of the oldest event that the sink has not got.", needsSinks},
			{"sloengine_sink_max_lag_bytes", series.Gauge, unitBytes, by, "", "Bytes of the log that are kept for the sink at most.", "unless the sink has `max_lag_bytes`"},
			{"sloengine_sink_in_flight_batches", series.Gauge, "batches", by, "", "Batches that are under way or wait for a retry.", needsSinks},
		},
	}
}

func retryDocs() metricPart {
	by := with(named("target", "name of the sink"))
	return metricPart{
		title: "Retries",
		about: "Attempts after a first one.",
		docs: []metricDoc{
			{"sloengine_retry_attempts_total", series.Counter, "calls", by, "", "Attempts after a first one.", needsSinks},
			{"sloengine_retry_attempted_items_total", series.Counter, unitEvents, by, "", "Events in those attempts, which `retry.rate_limit` bounds.", needsSinks},
			{"sloengine_retry_success_items_total", series.Counter, unitEvents, by, "", "Events that were delivered by a retry.", needsSinks},
			{"sloengine_retry_exhausted_items_total", series.Counter, unitEvents, by, "", "Events whose last retry failed too.", needsSinks},
			{"sloengine_retry_permanent_failure_items_total", series.Counter, unitEvents, by, "", "Events that were refused for good, so that no retry would help.", needsSinks},
			{"sloengine_retry_budget_exhausted_total", series.Counter, unitTimes, by, "", "Retries that had to wait because retries had their share of the traffic.", needsSinks},
			{"sloengine_retry_rate_limited_total", series.Counter, unitTimes, by, "", "Retries over the rate limit of retries: delayed, dropped, or made dead letters.", needsSinks},
			{"sloengine_retry_delay_seconds", series.Histogram, unitSeconds, by, "", "Delay before a retry, jitter and all.", needsSinks},
			{"sloengine_retry_overhead_seconds", series.Histogram, unitSeconds, by, "", "What the policies around a call to a sink added to it: breaker, bulkhead and time-out, without the sink's own time and without waits before the call.", needsSinks},
			{"sloengine_retry_staged", series.Gauge, unitYesNo, by, "", "1 while a target that came back is given its backlog in stages.", needsSinks},
		},
	}
}

func breakerDocs() metricPart {
	const none = "without `sinks` and `redis` in engine.yaml"
	name := named("breaker", "name of the sink, or `redis`")
	return metricPart{
		title: "Breakers",
		about: "One for each sink, and one for Redis if it is set up.",
		docs: []metricDoc{
			{"sloengine_breaker_state", series.Gauge, "0, 1 or 2", with(name), "", "0 closed, 1 half-open, 2 open.", none},
			{"sloengine_breaker_transitions_total", series.Counter, unitTimes, with(name, oneOf("to", "closed half_open open")), "", "Changes of state, by the state that followed.", none},
			{"sloengine_breaker_rejected_total", series.Counter, "calls", with(name), "", "Calls that were not made because the breaker was open.", none},
			{"sloengine_breaker_failures_total", series.Counter, "calls", with(name), "", "Calls that failed in a way that counts towards opening.", none},
			{"sloengine_breaker_health_checks_total", series.Counter, "checks", with(name, oneOf("result", "success failure")), "", "Checks in the background while the breaker was open.", none},
		},
	}
}

func bulkheadDocs() metricPart {
	by := with(named("bulkhead", "name of the sink"))
	return metricPart{
		title: "Bulkheads",
		about: "The calls to a sink at once.",
		docs: []metricDoc{
			{"sloengine_bulkhead_active", series.Gauge, "calls", by, "", "Calls under way.", needsSinks},
			{"sloengine_bulkhead_queued", series.Gauge, "calls", by, "", "Calls that wait for a place.", needsSinks},
			{"sloengine_bulkhead_rejected_total", series.Counter, "calls", by, "", "Calls that got no place.", needsSinks},
		},
	}
}

func deadlineDocs() metricPart {
	return metricPart{
		title: "Deadlines",
		about: "Work that was not begun, since nobody waited for it any more.",
		docs: []metricDoc{
			{"sloengine_deadline_expired_total", series.Counter, unitTimes, with(oneOf("where", "ingest sink")), "", "Work that was not begun, since its deadline had passed.", ""},
		},
	}
}

func dlqDocs() metricPart {
	origin := oneOf("origin", "admission fold sink")
	return metricPart{
		title: "Dead letters",
		about: "What could not be admitted, counted or delivered.",
		docs: []metricDoc{
			{"sloengine_dlq_entries", series.Gauge, "letters", with(origin), "", "Dead letters that are kept, by where they failed.", ""},
			{"sloengine_dlq_bytes", series.Gauge, unitBytes, nil, "", "Bytes of the dead letters that are kept.", ""},
			{"sloengine_dlq_disk_bytes", series.Gauge, unitBytes, nil, "", "Bytes of their files; 0 where there are none.", ""},
			{"sloengine_dlq_oldest_seconds", series.Gauge, unitSeconds, nil, "", "Age of the oldest dead letter.", ""},
			{"sloengine_dlq_saved_total", series.Counter, "letters",
				with(origin, named("reason", "refused, panic, rate_limited, permanent, retry_exhausted, expired, retry_rate_limited, unreadable, lagging; or other")), "",
				"Events that became dead letters.", "until the first one of its kind"},
			{"sloengine_dlq_dropped_total", series.Counter, "letters",
				with(oneOf("why", "never_save save_if rate_limited default expression_error full error")), "", "What was not kept: by the rule of the filter, or because the store was full or failed.", ""},
			{"sloengine_dlq_replayed_total", series.Counter, "letters", with(oneOf("result", "ok failed too_old no_target held_back")), "", "Dead letters that a replay took up.", ""},
			{"sloengine_dlq_replay_runs_total", series.Counter, unitTimes, with(oneOf("result", "ok error")), "", "Replays.", ""},
			{"sloengine_dlq_removed_total", series.Counter, "letters", with(oneOf("why", "discarded replayed purged")), "", "Dead letters that are no longer kept: discarded by somebody, replayed, or past their retention.", ""},
			{"sloengine_dlq_commit_seconds", series.Histogram, unitSeconds, nil, "", "Time to make a batch of dead letters durable.", ""},
			{"sloengine_dlq_damaged_total", series.Counter, "places", nil, "", "Places in the files that could not be read.", ""},
			{"sloengine_dlq_damaged_bytes_total", series.Counter, unitBytes, nil, "", "Size of those places.", ""},
			{"sloengine_dlq_damaged_entries_total", series.Counter, "letters", nil, "", "Dead letters that were in those places, at most.", ""},
			{"sloengine_dlq_torn_bytes_total", series.Counter, unitBytes, nil, "", "Bytes of unfinished writes that a start found. They were never acknowledged and are left as they are.", ""},
			{"sloengine_dlq_poisoned", series.Gauge, unitYesNo, nil, "", "1 after a failed write or sync of the files, until a restart.", ""},
		},
	}
}

func clientDocs() metricPart {
	return metricPart{
		title: "The Go client",
		about: "In the metrics of the applications that use package `client` with `client.NewMetrics`, not in those of the engine.",
		docs: []metricDoc{
			{"sloengine_client_events_total", series.Counter, unitEvents, with(oneOf("result", "accepted duplicate limited sampled dead_lettered rejected spooled")), "",
				"Events by what the engine decided; spooled ones were put on disk first and are counted again once they are sent.", ""},
			{"sloengine_client_failures_total", series.Counter, unitEvents, with(
				oneOf("context", "send async middleware spool"),
				oneOf("reason", "permanent breaker_open queue_full spool_full spool_failed spool_timeout refused overloaded timeout unavailable closed")), "",
				"Events that were lost while the application was told nothing, by the way they came and by reason.", ""},
			{"sloengine_client_request_seconds", series.Histogram, unitSeconds, nil, "", "Time of a request to the engine.", ""},
			{"sloengine_client_queue_bytes", series.Gauge, unitBytes, nil, "", "Bytes of events in memory that are not sent yet.", ""},
			{"sloengine_client_spool_bytes", series.Gauge, unitBytes, nil, "", "Bytes of events on disk that are not sent yet.", ""},
			{"sloengine_client_spool_limit_bytes", series.Gauge, unitBytes, nil, "", "Bytes that may be on disk.", ""},
			{"sloengine_client_spool_open_errors_total", series.Counter, unitTimes, nil, "", "Times that the spool could not be opened.", ""},
			{"sloengine_client_spool_corruptions_total", series.Counter, unitTimes, nil, "", "Damage found in the spool.", ""},
		},
	}
}
