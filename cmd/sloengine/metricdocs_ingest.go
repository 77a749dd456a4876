package main

import "github.com/sloengine/sloengine/rules/series"

func ingestDocs() metricPart {
	return metricPart{
		title: "Ingest",
		about: "Requests with events, until they are durable.",
		docs: []metricDoc{
			{"sloengine_ingest_requests_total", series.Counter, "requests", with(oneOf("code", "200 202 400 401 403 408 413 415 422 429 499 500 503 504")), "",
				"Requests with events, by the HTTP status of the answer. 499 is a sender that closed the connection before its events were stored, 504 a deadline that passed.", ""},
			{"sloengine_ingest_events_total", series.Counter, unitEvents, with(oneOf("result", "accepted duplicate rejected limited sampled dead_lettered")), "",
				"Events by what their sender was told. Limited, sampled and dead-lettered ones were over a rate limit.", ""},
			{"sloengine_ingest_rejected_total", series.Counter, unitEvents, with(named("code", "error code of the answer; `unlisted` beyond the errors that an answer lists")), "",
				"Events refused as wrong, by what is wrong with them.", ""},
			{"sloengine_ingest_stored_events_total", series.Counter, unitEvents, nil, "", "Events written to the log.", ""},
			{"sloengine_ingest_received_bytes_total", series.Counter, unitBytes, nil, "", "Bytes of request bodies as they were sent.", ""},
			{"sloengine_ingest_body_bytes_total", series.Counter, unitBytes, nil, "", "Bytes of request bodies once unpacked.", ""},
			{"sloengine_ingest_request_duration_seconds", series.Histogram, unitSeconds, nil, "", "Time from the headers of a request to its answer.", ""},
			{"sloengine_ingest_append_duration_seconds", series.Histogram, unitSeconds, nil, "", "Time to write and sync one group of requests.", ""},
			{"sloengine_ingest_groups_total", series.Counter, "groups", nil, "", "Groups of requests that shared one sync.", ""},
			{"sloengine_ingest_in_flight_requests", series.Gauge, "requests", nil, "", "Requests that are being read and decoded.", ""},
			{"sloengine_ingest_in_flight_bytes", series.Gauge, unitBytes, nil, "", "Memory of the bodies that are being read and decoded.", ""},
			{"sloengine_ingest_queue_requests", series.Gauge, "requests", nil, "", "Requests that wait for the log, or to be merged with others.", ""},
			{"sloengine_ingest_queue_bytes", series.Gauge, unitBytes, nil, "", "Bytes of events that wait for the log.", ""},
			{"sloengine_ingest_unavailable_total", series.Counter, "requests", with(named("reason", "code of the problem in the answer")), "",
				"Requests turned away because the engine could not make them durable.", ""},
			{"sloengine_ingest_auth_failures_total", series.Counter, "requests", with(oneOf("reason", "missing unknown permission host")), "",
				"Requests without a token, with an unknown one, without the permission that they need, or for a host name that is not the engine's.", ""},
			{"sloengine_ingest_token_reloads_total", series.Counter, unitTimes, with(oneOf("result", "ok failed")), "", "Times that the file of tokens was read.", ""},
			{"sloengine_ingest_trouble", series.Gauge, unitYesNo, with(oneOf("part", "log log_marker fold checkpoint dead_letters")), "",
				"1 while a part of the engine does not work, such as for lack of file descriptors or disk space. It is tried again.", ""},
			{"sloengine_http_connections", series.Gauge, "connections", nil, "", "Connections of clients that are open.", ""},
			{"sloengine_http_connections_limit", series.Gauge, "connections", nil, "", "Connections that may be open: `web.max_connections`, or less if the limit of open files is low.", ""},
			{"sloengine_http_connections_total", series.Counter, "connections", with(oneOf("result", "accepted evicted refused")), "",
				"Connections accepted; closed at the limit to make room for another one; and closed at once, as there was no room to make.", ""},
			{"sloengine_ingest_ready", series.Gauge, unitYesNo, nil, "", "1 once the engine has recovered and takes events.", ""},
			{"sloengine_ingest_recovery_ratio", series.Gauge, "0 to 1", nil, "", "Share of the log that the recovery has read; 1 when it is over.", ""},
			{"sloengine_ingest_watermark_seconds", series.Gauge, "Unix seconds", nil, "", "When the last durable record was received.", ""},
			{"sloengine_ingest_disk_free_bytes", series.Gauge, unitBytes, nil, "", "Room on the disk of the data folder.", ""},
		},
	}
}

func dedupeDocs() metricPart {
	return metricPart{
		title: "Known ids",
		about: "What tells a repeated event from a new one.",
		docs: []metricDoc{
			{"sloengine_dedupe_ids", series.Gauge, "ids", nil, "", "Ids that are known.", ""},
			{"sloengine_dedupe_bytes", series.Gauge, unitBytes, nil, "", "Memory of the known ids.", ""},
			{"sloengine_dedupe_horizon_seconds", series.Gauge, unitSeconds, nil, "", "How far back a repeat is recognised, at the present rate of events.", ""},
			{"sloengine_dedupe_duplicates_total", series.Counter, unitEvents, nil, "", "Repeats that were recognised.", ""},
			{"sloengine_dedupe_lost_ids_total", series.Counter, "ids", nil, "", "Known ids that a damaged data folder lost at this start. A resend of one is counted again.", ""},
			{"sloengine_dedupe_generations_total", series.Counter, unitTimes, nil, "", "Times that the oldest ids were forgotten, a generation at once.", ""},
		},
	}
}

func walDocs() metricPart {
	return metricPart{
		title: "Write-ahead log",
		about: "What a 2xx rests on.",
		docs: []metricDoc{
			{"sloengine_wal_appended_batches_total", series.Counter, "writes", nil, "", "Writes to the log, each with one sync.", ""},
			{"sloengine_wal_appended_records_total", series.Counter, "records", nil, "", "Records written.", ""},
			{"sloengine_wal_appended_bytes_total", series.Counter, unitBytes, nil, "", "Bytes written.", ""},
			{"sloengine_wal_append_errors_total", series.Counter, "writes", with(oneOf("reason", "write no_space no_descriptors")), "", "Writes that failed.", ""},
			{"sloengine_wal_sync_seconds", series.Histogram, unitSeconds, nil, "", "Time of an fdatasync.", ""},
			{"sloengine_wal_bytes", series.Gauge, unitBytes, nil, "", "Size of the log on disk.", ""},
			{"sloengine_wal_segments", series.Gauge, "files", nil, "", "Segments of the log.", ""},
			{"sloengine_wal_segments_created_total", series.Counter, "files", nil, "", "Segments begun.", ""},
			{"sloengine_wal_segments_removed_total", series.Counter, "files", nil, "", "Segments removed, since checkpoint and sinks are past them.", ""},
			{"sloengine_wal_poisoned", series.Gauge, unitYesNo, nil, "", "1 after a failed sync, until a restart: nobody knows what the disk holds.", ""},
			{"sloengine_wal_corruptions_total", series.Counter, unitTimes, nil, "", "Damage found in the log.", ""},
			{"sloengine_wal_marker_errors_total", series.Counter, unitTimes, nil, "", "Failed writes of the marker that names the durable end of the log. While it fails, a loss at the end of the log would not be noticed at the next start.", ""},
			{"sloengine_wal_torn_bytes_total", series.Counter, unitBytes, nil, "", "Bytes of unfinished writes that a start cut off. None of them was acknowledged.", ""},
		},
	}
}

func checkpointDocs() metricPart {
	return metricPart{
		title: "Checkpoints",
		about: "What a restart begins with.",
		docs: []metricDoc{
			{"sloengine_checkpoint_written_total", series.Counter, "checkpoints", nil, "", "Checkpoints written.", ""},
			{"sloengine_checkpoint_failures_total", series.Counter, "checkpoints", nil, "", "Checkpoints that could not be written.", ""},
			{"sloengine_checkpoint_lost_parts_total", series.Counter, "parts", nil, "", "Parts of the state that a damaged data folder lost at this start. The time of each counts as not observed.", ""},
			{"sloengine_checkpoint_fallbacks_total", series.Counter, "checkpoints", nil, "", "Damaged checkpoints that a start passed over for an older one.", ""},
			{"sloengine_checkpoint_written_bytes_total", series.Counter, unitBytes, nil, "", "Bytes written for checkpoints.", ""},
			{"sloengine_checkpoint_duration_seconds_total", series.Counter, unitSeconds, nil, "", "Time spent on writing checkpoints.", ""},
			{"sloengine_checkpoint_age_seconds", series.Gauge, unitSeconds, nil, "", "Age of the newest checkpoint. The log since then is counted again at the next start.", ""},
			{"sloengine_checkpoint_last_written_size", series.Gauge, unitBytes, nil, "", "Bytes that the newest checkpoint wrote: what had changed.", ""},
			{"sloengine_checkpoint_state_bytes", series.Gauge, unitBytes, nil, "", "Bytes of all that the newest checkpoint refers to.", ""},
		},
	}
}

func ratelimitDocs() metricPart {
	rule := named("type", "match of the rule for the event's type, or `(default)`: never the type itself")
	layer := oneOf("layer", "global type context")
	const unset = "without `limits` in engine.yaml"
	return metricPart{
		title: "Rate limits",
		about: "Of the limits in front of the log. Without `limits` in engine.yaml the counters without a rule stay at zero.",
		docs: []metricDoc{
			{"sloengine_ratelimit_hits_total", series.Counter, unitEvents, with(layer, named("type", "match of the rule or `(default)` in the layer `type`; empty in the others")), "",
				"Events over a limit, for each limit that they exceed, whatever became of them.", unset},
			{"sloengine_ratelimit_dropped_total", series.Counter, unitEvents, with(rule), "",
				"Events over a limit that were dropped. They lower the coverage of what they would have counted for.", unset},
			{"sloengine_ratelimit_critical_total", series.Counter, unitEvents, with(rule), "",
				"Events over a limit that the filter of the dead letters wants, and that were kept there.", unset},
			{"sloengine_ratelimit_sampled_total", series.Counter, unitEvents, with(oneOf("kept", "true false")), "",
				"Events over a limit that is sampled: kept ones weigh for those that were not.", ""},
			{"sloengine_ratelimit_aggregated_total", series.Counter, unitEvents, nil, "", "Events over a rate limit that were stored together with others, as one event with their count and durations.", ""},
			{"sloengine_ratelimit_expression_errors_total", series.Counter, unitEvents, nil, "", "Events for which `bypass_if` or an `extractor` could not be computed. They are judged as if the expression were not there.", ""},
			{"sloengine_ratelimit_throttled_total", series.Counter, unitEvents, nil, "", "Events over a limit that were held back, whether they got in then or their sender was told to try again.", ""},
			{"sloengine_ratelimit_bypass_total", series.Counter, unitEvents, with(oneOf("reason", "audit bypass")), "",
				"Events that no limit applied to: audit types, and what `bypass` lets authenticated callers do.", ""},
			{"sloengine_ratelimit_current", series.Gauge, "events a second", with(layer), "",
				"Rate that was admitted of late by the limit of the layer that is used up most.", unset},
			{"sloengine_ratelimit_threshold", series.Gauge, "events a second", with(layer), "", "Rate that the same limit admits.", unset},
			{"sloengine_ratelimit_contexts", series.Gauge, "counters", nil, "", "Counters in memory: of the layers, and of each context value that was seen of late.", ""},
			{"sloengine_ratelimit_evictions_total", series.Counter, "counters", nil, "", "Counters that were given up because `max_contexts` was reached; their contexts began anew.", ""},
		},
	}
}

func redactDocs() metricPart {
	return metricPart{
		title: "Redaction",
		about: "Zero without `redact` in engine.yaml.",
		docs: []metricDoc{
			{"sloengine_redact_events_total", series.Counter, unitEvents, nil, "", "Events from which something was taken out.", ""},
			{"sloengine_redact_values_total", series.Counter, "values", with(oneOf("action", "remove mask hash truncate_ip")), "", "Values that were redacted.", ""},
		},
	}
}
