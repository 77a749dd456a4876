package metric

var ingestPart = NewPart("Ingest",
	"Requests with events, until they are durable.")

var (
	IngestRequests               = ingestPart.Counter("sloengine_ingest_requests_total", "requests", "Requests with events, by the HTTP status of the answer. 499 is a sender that closed the connection before its events were stored, 504 a deadline that passed.", OneOf("code", "200 202 400 401 403 408 413 415 422 429 499 500 503 504"))
	IngestEvents                 = ingestPart.Counter("sloengine_ingest_events_total", unitEvents, "Events by what their sender was told. Limited, sampled and dead-lettered ones were over a rate limit.", OneOf("result", "accepted duplicate rejected limited sampled dead_lettered"))
	IngestRejected               = ingestPart.Counter("sloengine_ingest_rejected_total", unitEvents, "Events refused as wrong, by what is wrong with them.", Named("code", "error code of the answer; `unlisted` beyond the errors that an answer lists"))
	IngestStoredEvents           = ingestPart.Counter("sloengine_ingest_stored_events_total", unitEvents, "Events written to the log.")
	IngestReceivedBytes          = ingestPart.Counter("sloengine_ingest_received_bytes_total", unitBytes, "Bytes of request bodies as they were sent.")
	IngestBodyBytes              = ingestPart.Counter("sloengine_ingest_body_bytes_total", unitBytes, "Bytes of request bodies once unpacked.")
	IngestRequestDurationSeconds = ingestPart.Histogram("sloengine_ingest_request_duration_seconds", "Time from the headers of a request to its answer.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30})
	IngestAppendDurationSeconds = ingestPart.Histogram("sloengine_ingest_append_duration_seconds", "Time to write and sync one group of requests.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5})
	IngestGroups           = ingestPart.Counter("sloengine_ingest_groups_total", "groups", "Groups of requests that shared one sync.")
	IngestInFlightRequests = ingestPart.Gauge("sloengine_ingest_in_flight_requests", "requests", "Requests that are being read and decoded.")
	IngestInFlightBytes    = ingestPart.Gauge("sloengine_ingest_in_flight_bytes", unitBytes, "Memory of the bodies that are being read and decoded.")
	IngestQueueRequests    = ingestPart.Gauge("sloengine_ingest_queue_requests", "requests", "Requests that wait for the log, or to be merged with others.")
	IngestQueueBytes       = ingestPart.Gauge("sloengine_ingest_queue_bytes", unitBytes, "Bytes of events that wait for the log.")
	IngestUnavailable      = ingestPart.Counter("sloengine_ingest_unavailable_total", "requests", "Requests turned away because the engine could not make them durable.", Named("reason", "code of the problem in the answer"))
	IngestAuthFailures     = ingestPart.Counter("sloengine_ingest_auth_failures_total", "requests", "Requests without a token, with an unknown one, without the permission that they need, or for a host name that is not the engine's.", OneOf("reason", "missing unknown permission host"))
	IngestTokenReloads     = ingestPart.Counter("sloengine_ingest_token_reloads_total", unitTimes, "Times that the file of tokens was read.", OneOf("result", "ok failed"))
	IngestTrouble          = ingestPart.Gauge("sloengine_ingest_trouble", unitYesNo, "1 while a part of the engine does not work, such as for lack of file descriptors or disk space. It is tried again.", OneOf("part", "log log_marker fold checkpoint dead_letters"))
	HTTPConnections        = ingestPart.Gauge("sloengine_http_connections", "connections", "Connections of clients that are open.")
	HTTPConnectionsLimit   = ingestPart.Gauge("sloengine_http_connections_limit", "connections", "Connections that may be open: `web.max_connections`, or less if the limit of open files is low.")
	HTTPConnectionsTotal   = ingestPart.Counter("sloengine_http_connections_total", "connections", "Connections accepted; closed at the limit to make room for another one; and closed at once, as there was no room to make.", OneOf("result", "accepted evicted refused"))
	IngestReady            = ingestPart.Gauge("sloengine_ingest_ready", unitYesNo, "1 once the engine has recovered and takes events.")
	IngestRecoveryRatio    = ingestPart.Gauge("sloengine_ingest_recovery_ratio", "0 to 1", "Share of the log that the recovery has read; 1 when it is over.")
	IngestWatermarkSeconds = ingestPart.Gauge("sloengine_ingest_watermark_seconds", "Unix seconds", "When the last durable record was received.")
	IngestDiskFreeBytes    = ingestPart.Gauge("sloengine_ingest_disk_free_bytes", unitBytes, "Room on the disk of the data folder.")
)

var dedupePart = NewPart("Known ids",
	"What tells a repeated event from a new one.")

var (
	DedupeIDs            = dedupePart.Gauge("sloengine_dedupe_ids", "ids", "Ids that are known.")
	DedupeBytes          = dedupePart.Gauge("sloengine_dedupe_bytes", unitBytes, "Memory of the known ids.")
	DedupeHorizonSeconds = dedupePart.Gauge("sloengine_dedupe_horizon_seconds", unitSeconds, "How far back a repeat is recognised, at the present rate of events.")
	DedupeDuplicates     = dedupePart.Counter("sloengine_dedupe_duplicates_total", unitEvents, "Repeats that were recognised.")
	DedupeLostIDs        = dedupePart.Counter("sloengine_dedupe_lost_ids_total", "ids", "Known ids that a damaged data folder lost at this start. A resend of one is counted again.")
	DedupeGenerations    = dedupePart.Counter("sloengine_dedupe_generations_total", unitTimes, "Times that the oldest ids were forgotten, a generation at once.")
)

var walPart = NewPart("Write-ahead log",
	"What a 2xx rests on.")

var (
	WALAppendedBatches = walPart.Counter("sloengine_wal_appended_batches_total", "writes", "Writes to the log, each with one sync.")
	WALAppendedRecords = walPart.Counter("sloengine_wal_appended_records_total", "records", "Records written.")
	WALAppendedBytes   = walPart.Counter("sloengine_wal_appended_bytes_total", unitBytes, "Bytes written.")
	WALAppendErrors    = walPart.Counter("sloengine_wal_append_errors_total", "writes", "Writes that failed.", OneOf("reason", "write no_space no_descriptors"))
	WALSyncSeconds     = walPart.Histogram("sloengine_wal_sync_seconds", "Time of an fdatasync.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5})
	WALBytes           = walPart.Gauge("sloengine_wal_bytes", unitBytes, "Size of the log on disk.")
	WALSegments        = walPart.Gauge("sloengine_wal_segments", "files", "Segments of the log.")
	WALSegmentsCreated = walPart.Counter("sloengine_wal_segments_created_total", "files", "Segments begun.")
	WALSegmentsRemoved = walPart.Counter("sloengine_wal_segments_removed_total", "files", "Segments removed, since checkpoint and sinks are past them.")
	WALPoisoned        = walPart.Gauge("sloengine_wal_poisoned", unitYesNo, "1 after a failed sync, until a restart: nobody knows what the disk holds.")
	WALCorruptions     = walPart.Counter("sloengine_wal_corruptions_total", unitTimes, "Damage found in the log.")
	WALMarkerErrors    = walPart.Counter("sloengine_wal_marker_errors_total", unitTimes, "Failed writes of the marker that names the durable end of the log. While it fails, a loss at the end of the log would not be noticed at the next start.")
	WALTornBytes       = walPart.Counter("sloengine_wal_torn_bytes_total", unitBytes, "Bytes of unfinished writes that a start cut off. None of them was acknowledged.")
)

var checkpointPart = NewPart("Checkpoints",
	"What a restart begins with.")

var (
	CheckpointWritten         = checkpointPart.Counter("sloengine_checkpoint_written_total", "checkpoints", "Checkpoints written.")
	CheckpointFailures        = checkpointPart.Counter("sloengine_checkpoint_failures_total", "checkpoints", "Checkpoints that could not be written.")
	CheckpointLostParts       = checkpointPart.Counter("sloengine_checkpoint_lost_parts_total", "parts", "Parts of the state that a damaged data folder lost at this start. The time of each counts as not observed.")
	CheckpointFallbacks       = checkpointPart.Counter("sloengine_checkpoint_fallbacks_total", "checkpoints", "Damaged checkpoints that a start passed over for an older one.")
	CheckpointWrittenBytes    = checkpointPart.Counter("sloengine_checkpoint_written_bytes_total", unitBytes, "Bytes written for checkpoints.")
	CheckpointDurationSeconds = checkpointPart.Counter("sloengine_checkpoint_duration_seconds_total", unitSeconds, "Time spent on writing checkpoints.")
	CheckpointAgeSeconds      = checkpointPart.Gauge("sloengine_checkpoint_age_seconds", unitSeconds, "Age of the newest checkpoint. The log since then is counted again at the next start.")
	CheckpointLastWrittenSize = checkpointPart.Gauge("sloengine_checkpoint_last_written_size", unitBytes, "Bytes that the newest checkpoint wrote: what had changed.")
	CheckpointStateBytes      = checkpointPart.Gauge("sloengine_checkpoint_state_bytes", unitBytes, "Bytes of all that the newest checkpoint refers to.")
)

var redactPart = NewPart("Redaction",
	"Zero without `redact` in engine.yaml.")

var (
	RedactEvents = redactPart.Counter("sloengine_redact_events_total", unitEvents, "Events from which something was taken out.")
	RedactValues = redactPart.Counter("sloengine_redact_values_total", "values", "Values that were redacted.", OneOf("action", "remove mask hash truncate_ip"))
)
