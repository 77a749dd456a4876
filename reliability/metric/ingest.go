package metric

var ingestPart = NewPart("Ingest",
	"The `POST` requests that send events, until their events are durable.")

var (
	tokenName = Named("token", "name of the token")
	tokenKey  = Named("key", "first 8 hexadecimal digits of the key's SHA-256")
)

var (
	IngestRequests = ingestPart.Counter("sloengine_ingest_requests_total", "requests",
		"Requests with events, by the HTTP status of the answer. 499 is a sender that closed the connection before its "+
			"events were stored, 504 a deadline that passed.",
		OneOf("code", "200 202 204 400 401 403 404 408 413 415 422 429 499 500 503 504"))
	IngestEvents = ingestPart.Counter("sloengine_ingest_events_total", unitEvents,
		"Events by the result that the sender received. Limited, sampled and dead-lettered events exceeded a rate limit.",
		OneOf("result", "accepted duplicate rejected limited sampled dead_lettered"))
	IngestRejected = ingestPart.Counter("sloengine_ingest_rejected_total", unitEvents,
		"Invalid events that were rejected, by error code.",
		Named("code", "error code in the response, or `unlisted` beyond the errors and ranges that a response lists"))
	UncountedEvents = ingestPart.Counter("sloengine_uncounted_events_total", unitEvents,
		"Events in the log of types that no SLO counts, of services with `admit_unknown_types`. The engine page lists the "+
			"types.",
		Named("service", "name of the service"), Absent("without such events"))
	RejectsSaveFailures = ingestPart.Counter("sloengine_rejects_save_failures_total", unitTimes,
		"Failed writes of the numbers of rejected events, which a restart continues.")
	OTLPIgnored = ingestPart.Counter("sloengine_otlp_ignored_total", "items",
		"Spans, log records and points of metrics that do not count, by reason. Spans of an unknown service or type are "+
			"listed on the engine page.",
		OneOf("signal", "traces logs metrics"),
		OneOf("reason", "kind local_parent operation rule unknown_service unknown_type no_rule first_point nothing_new "+
			"decreased"))
	OTLPCounters = ingestPart.Gauge("sloengine_otlp_counters", "counters",
		"Counters and histograms of OpenTelemetry whose last points are known.")
	OTLPCounterBytes = ingestPart.Gauge("sloengine_otlp_counters_bytes", "bytes",
		"Memory of these points. Beyond 64 MiB, new counters are rejected.")
	OTLPFindings = ingestPart.Gauge("sloengine_otlp_findings", "findings",
		"Services, and types of some, whose numbers are wrong by what their senders did in the last hour. "+
			"`sampled_work` is work that is followed by trace over sampled spans, `sampled_by_outcome` a tail sampler before "+
			"the engine, `two_signals` an operation that two of spans, log records and metrics feed, `no_boundary` a "+
			"histogram without a bucket that ends at a threshold.",
		OneOf("reason", "sampled_work sampled_by_outcome two_signals no_boundary"))
	OTLPCut = ingestPart.Counter("sloengine_otlp_cut_values_total", "values",
		"Values of spans, log records and points that were shortened, left out or repaired.")
	IngestStoredEvents = ingestPart.Counter("sloengine_ingest_stored_events_total", unitEvents,
		"Events written to the log.")
	IngestReceivedBytes = ingestPart.Counter("sloengine_ingest_received_bytes_total", unitBytes,
		"Bytes of request bodies as received, before decompression.")
	IngestBodyBytes = ingestPart.Counter("sloengine_ingest_body_bytes_total", unitBytes,
		"Bytes of request bodies after decompression.")
	IngestRequestDurationSeconds = ingestPart.Histogram("sloengine_ingest_request_duration_seconds",
		"Time from the headers of a request to its response.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30})
	IngestAppendDurationSeconds = ingestPart.Histogram("sloengine_ingest_append_duration_seconds",
		"Time to write and sync one group of requests.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5})
	IngestGroups = ingestPart.Counter("sloengine_ingest_groups_total", "groups",
		"Groups of requests that shared one sync.")
	IngestInFlightRequests = ingestPart.Gauge("sloengine_ingest_in_flight_requests", "requests",
		"Requests that are being read and decoded.")
	IngestInFlightBytes = ingestPart.Gauge("sloengine_ingest_in_flight_bytes", unitBytes,
		"Memory of the bodies that are being read and decoded.")
	IngestQueueRequests = ingestPart.Gauge("sloengine_ingest_queue_requests", "requests",
		"Requests that wait for a write to the log, or to be merged with others.")
	IngestQueueBytes = ingestPart.Gauge("sloengine_ingest_queue_bytes", unitBytes,
		"Bytes of events that wait for a write to the log.")
	IngestUnavailable = ingestPart.Counter("sloengine_ingest_unavailable_total", "requests",
		"Requests refused because the engine could not make their events durable.",
		Named("reason", "code of the problem in the response"))
	IngestAuthFailures = ingestPart.Counter("sloengine_ingest_auth_failures_total", "requests",
		"Requests without a token, with an unknown or an expired token, without the required permission, or for a host "+
			"name that is not allowed.", OneOf("reason", "missing unknown expired permission host"))
	IngestTokenReloads = ingestPart.Counter("sloengine_ingest_token_reloads_total", unitTimes,
		"Reads of the token file.", OneOf("result", "ok failed"))
	TokenRequests = ingestPart.Counter("sloengine_token_requests_total", "requests",
		"Requests that carried a key of a token, expired or not.", tokenName, tokenKey, Absent("without tokens"))
	TokenExpirySeconds = ingestPart.Gauge("sloengine_token_expiry_seconds", "Unix seconds",
		"Time at which a key of a token expires.", tokenName, tokenKey, Absent("for a key that does not expire"))
	TokenLastUsedSeconds = ingestPart.Gauge("sloengine_token_last_used_seconds", "Unix seconds",
		"Time of the last request that carried a key of a token. 0 if there was none since the start.", tokenName, tokenKey,
		Absent("without tokens"))
	IngestTrouble = ingestPart.Gauge("sloengine_ingest_trouble", unitYesNo,
		"1 while a part of the engine fails, for example for lack of file descriptors or disk space. The engine keeps "+
			"retrying.", OneOf("part", "log log_marker fold checkpoint dead_letters clock"))
	HTTPConnections      = ingestPart.Gauge("sloengine_http_connections", "connections", "Open client connections.")
	HTTPConnectionsLimit = ingestPart.Gauge("sloengine_http_connections_limit", "connections",
		"Maximum number of open connections: `web.max_connections`, or less if the limit of open files is low.")
	HTTPConnectionsTotal = ingestPart.Counter("sloengine_http_connections_total", "connections",
		"Connections that were accepted, that were closed at the limit in favour of a new one (evicted), and that were "+
			"refused at the limit.", OneOf("result", "accepted evicted refused"))
	IngestReady = ingestPart.Gauge("sloengine_ingest_ready", unitYesNo,
		"1 once the engine has recovered and accepts events.")
	IngestRecoveryRatio = ingestPart.Gauge("sloengine_ingest_recovery_ratio", "0 to 1",
		"Share of the log that recovery has read. 1 once recovery is complete.")
	IngestWatermarkSeconds = ingestPart.Gauge("sloengine_ingest_watermark_seconds", "Unix seconds",
		"Receive time of the last durable record.")
	IngestDiskFreeBytes = ingestPart.Gauge("sloengine_ingest_disk_free_bytes", unitBytes,
		"Free space on the disk of the data folder.")
)

var dedupePart = NewPart("Deduplication table",
	"The table of recent event ids, by which the engine recognises duplicates.")

var (
	DedupeIDs           = dedupePart.Gauge("sloengine_dedupe_ids", "ids", "Ids in the deduplication table.")
	DedupeBytes         = dedupePart.Gauge("sloengine_dedupe_bytes", unitBytes, "Memory of the deduplication table.")
	DedupeWindowSeconds = dedupePart.Gauge("sloengine_dedupe_horizon_seconds", unitSeconds,
		"The dedup window: how far back a duplicate is recognised at the current event rate.")
	DedupeDuplicates = dedupePart.Counter("sloengine_dedupe_duplicates_total", unitEvents,
		"Duplicates that were recognised.")
	DedupeLostIDs = dedupePart.Counter("sloengine_dedupe_lost_ids_total", "ids",
		"Ids that a damaged data folder lost at this start. A duplicate of one of them is counted again.")
	DedupeGenerations = dedupePart.Counter("sloengine_dedupe_generations_total", unitTimes,
		"Evictions of the earliest ids because the table was full.")
)

var walPart = NewPart("Write-ahead log",
	"The durable log in which events are stored before they are acknowledged.")

var (
	WALAppendedBatches = walPart.Counter("sloengine_wal_appended_batches_total", "writes",
		"Writes to the log. Each is synced once.")
	WALAppendedRecords = walPart.Counter("sloengine_wal_appended_records_total", "records", "Records written.")
	WALAppendedBytes   = walPart.Counter("sloengine_wal_appended_bytes_total", unitBytes, "Bytes written.")
	WALAppendErrors    = walPart.Counter("sloengine_wal_append_errors_total", "writes", "Writes that failed.",
		OneOf("reason", "write no_space no_descriptors"))
	WALSyncSeconds = walPart.Histogram("sloengine_wal_sync_seconds", "Duration of an fdatasync.",
		[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5})
	WALBytes           = walPart.Gauge("sloengine_wal_bytes", unitBytes, "Size of the log on disk.")
	WALSegments        = walPart.Gauge("sloengine_wal_segments", "files", "Number of log segments.")
	WALSegmentsCreated = walPart.Counter("sloengine_wal_segments_created_total", "files", "Segments created.")
	WALSegmentsRemoved = walPart.Counter("sloengine_wal_segments_removed_total", "files",
		"Segments removed after the checkpoint and all sinks had passed them.")
	WALPoisoned = walPart.Gauge("sloengine_wal_poisoned", unitYesNo,
		"1 after a failed sync, until a restart, because the content of the disk is unknown.")
	WALCorruptions  = walPart.Counter("sloengine_wal_corruptions_total", unitTimes, "Corruptions found in the log.")
	WALMarkerErrors = walPart.Counter("sloengine_wal_marker_errors_total", unitTimes,
		"Failed writes of the marker that records the durable end of the log. While they fail, the next start cannot "+
			"detect a loss at the end of the log.")
	WALTornBytes = walPart.Counter("sloengine_wal_torn_bytes_total", unitBytes,
		"Bytes of unfinished writes that were truncated at start. None of them was acknowledged.")
)

var historyPart = NewPart("Retained log",
	"The log behind the last checkpoint, compressed, as far back as `log.retain` says.")

var (
	HistoryBytes = historyPart.Gauge("sloengine_history_bytes", unitBytes, "Size of the retained log on disk.")
	HistoryFiles = historyPart.Gauge("sloengine_history_files", "files", "Files of the retained log.")
	HistoryRatio = historyPart.Gauge("sloengine_history_compression_ratio", "ratio",
		"Bytes of the retained records before compression, divided by their size on disk.")
	HistoryOldest = historyPart.Gauge("sloengine_history_oldest_record", "records",
		"Number of the oldest retained record, 0 without one.")
	HistoryFrom = historyPart.Gauge("sloengine_history_from_seconds", unitSeconds,
		"Unix time at which the oldest retained record was received, 0 without one.")
	HistoryReach = historyPart.Gauge("sloengine_history_reach_seconds", unitSeconds,
		"How far back the retained log can reach within `log.retain`, `log.retain_bytes` and the disk, at the rate so far. "+
			"0 in the first day, unless the space is used up earlier.")
	HistoryNeeded = historyPart.Gauge("sloengine_history_needed_seconds", unitSeconds, "Longest window of the specs.")
	HistoryLeft   = historyPart.Gauge("sloengine_history_left_seconds", unitSeconds,
		"Time until the oldest retained records are deleted, at the rate so far. 0 if they are, or in the first day.")
	HistoryReadBytes = historyPart.Counter("sloengine_history_read_bytes_total", unitBytes,
		"Bytes of records that were compressed.")
	HistoryWrittenBytes = historyPart.Counter("sloengine_history_written_bytes_total", unitBytes,
		"Bytes that were written for them.")
	HistoryFailures = historyPart.Counter("sloengine_history_failures_total", unitTimes,
		"Failed attempts to retain or delete records. The engine retries.")
	HistoryDamaged = historyPart.Counter("sloengine_history_damaged_files_total", "files",
		"Files whose index could not be read at this start. Their records are missing from the history.")
	HistoryGivenUp = historyPart.Counter("sloengine_history_skipped_records_total", "records",
		"Records that were not retained because the disk was full or refused to write.")
	HistoryErasing = historyPart.Gauge("sloengine_history_erasures", "erasures",
		"Erasures at work in the retained log.")
	HistoryErased = historyPart.Counter("sloengine_history_erased_events_total", unitEvents,
		"Events of the retained log that erasures changed.")
	HistoryRemoved = historyPart.Counter("sloengine_history_removed_total", "files",
		"Files deleted because of their age, `log.retain_bytes` or a nearly full disk.", OneOf("reason", "age bytes disk"))
)

var checkpointPart = NewPart("Checkpoints",
	"The saved state that a restart loads before it reads the rest of the log.")

var (
	CheckpointWritten = checkpointPart.Counter("sloengine_checkpoint_written_total", "checkpoints",
		"Checkpoints written.")
	CheckpointFailures = checkpointPart.Counter("sloengine_checkpoint_failures_total", "checkpoints",
		"Checkpoints that could not be written.")
	CheckpointLostParts = checkpointPart.Counter("sloengine_checkpoint_lost_parts_total", "parts",
		"Parts of the state that a damaged data folder lost at this start. Their time counts as not observed.")
	CheckpointFallbacks = checkpointPart.Counter("sloengine_checkpoint_fallbacks_total", "checkpoints",
		"Damaged checkpoints that were skipped at start in favour of an older one.")
	CheckpointWrittenBytes = checkpointPart.Counter("sloengine_checkpoint_written_bytes_total", unitBytes,
		"Bytes written for checkpoints.")
	CheckpointDurationSeconds = checkpointPart.Counter("sloengine_checkpoint_duration_seconds_total", unitSeconds,
		"Time spent writing checkpoints.")
	CheckpointAgeSeconds = checkpointPart.Gauge("sloengine_checkpoint_age_seconds", unitSeconds,
		"Age of the newest checkpoint. The next start replays the log from there.")
	CheckpointLastWrittenSize = checkpointPart.Gauge("sloengine_checkpoint_last_written_size", unitBytes,
		"Bytes that the newest checkpoint wrote, which is what had changed.")
	CheckpointStateBytes = checkpointPart.Gauge("sloengine_checkpoint_state_bytes", unitBytes,
		"Bytes of all files that the newest checkpoint refers to.")
)

var redactPart = NewPart("Redaction",
	"Personal data that is taken out of events. Zero without `redact` in engine.yaml.")

var (
	RedactEvents = redactPart.Counter("sloengine_redact_events_total", unitEvents,
		"Events from which a value was removed or masked.")
	RedactValues = redactPart.Counter("sloengine_redact_values_total", "values", "Values that were redacted.",
		OneOf("action", "remove mask hash truncate_ip"))
)

var auditPart = NewPart("Audit log",
	"The record of what people changed.")

var (
	AuditEntries  = auditPart.Counter("sloengine_audit_entries_total", "entries", "Actions that were recorded.")
	AuditFailures = auditPart.Counter("sloengine_audit_failures_total", unitTimes,
		"Failed attempts to make entries durable. The entries wait in memory, up to 1000, and the engine retries.")
	AuditPending = auditPart.Gauge("sloengine_audit_pending_entries", "entries", "Entries that are not durable yet.")
)

var budgetPart = NewPart("Budgets of services",
	"What single services may send. Absent without `budgets` in engine.yaml, and for a service until its first event.")

var (
	budgetService = Named("service", "service, `(other)` beyond 1000")
	noBudget      = "without `budgets` in engine.yaml"
	ServiceBytes  = budgetPart.Counter("sloengine_service_bytes_total", unitBytes,
		"Bytes of events that were taken out of the budget of a service.", budgetService, Absent(noBudget))
	ServiceRefused = budgetPart.Counter("sloengine_service_refused_total", "requests",
		"Requests that were refused because a service exceeded a budget.", budgetService,
		OneOf("budget", "bytes queue"), Absent(noBudget))
)
