package alerts

// Metric is one of the engine's own metric families that alerts refer to.
type Metric struct {
	Name   string
	Type   string // counter or gauge
	Labels []string
	Help   string

	// Assumed is true for a family of a part that the engine may be built or run
	// without. Its alerts stay silent where the family does not exist.
	Assumed bool
}

// Families that exist in every engine.
const (
	metricReady        = "sloengine_ingest_ready"
	metricIngestEvents = "sloengine_ingest_events_total"
	metricUnavailable  = "sloengine_ingest_unavailable_total"
	metricDiskFree     = "sloengine_ingest_disk_free_bytes"
	metricFoldLag      = "sloengine_fold_lag_records"
	metricFoldDead     = "sloengine_fold_dead_letters_total"
	metricFullSLOs     = "sloengine_fold_full_slos"
	metricPoisoned     = "sloengine_wal_poisoned"
	metricTicks        = "sloengine_evaluate_ticks_total"
	metricLate         = "sloengine_evaluate_late_total"
	metricDLQEntries   = "sloengine_dlq_entries"
)

// Families of parts that may be missing.
const (
	metricBreakerState    = "sloengine_breaker_state"
	metricDLQSaved        = "sloengine_dlq_saved_total"
	metricRetries         = "sloengine_retry_attempted_items_total"
	metricLimitHits       = "sloengine_ratelimit_hits_total"
	metricLimitDropped    = "sloengine_ratelimit_dropped_total"
	metricLimitCritical   = "sloengine_ratelimit_critical_total"
	metricLimitCurrent    = "sloengine_ratelimit_current"
	metricLimitThreshold  = "sloengine_ratelimit_threshold"
	metricLimitFallback   = "sloengine_ratelimit_fallback"
	metricClientFailures  = "sloengine_client_failures_total"
	metricClientSpool     = "sloengine_client_spool_bytes"
	metricClientSpoolRoom = "sloengine_client_spool_limit_bytes"
	metricSinkFailing     = "sloengine_sink_failing"
	metricSinkLimited     = "sloengine_sink_rate_limited_total"
	metricSinkLagSeconds  = "sloengine_sink_lag_seconds"
	metricSinkLagBytes    = "sloengine_sink_lag_bytes"
	metricSinkLagLimit    = "sloengine_sink_max_lag_bytes"
	metricNotifyFailures  = "sloengine_notify_failures_total"
)

// EngineMetrics lists every family of the engine that alerts refer to, so that
// whoever builds the part behind an assumed one can follow its name and labels.
func EngineMetrics() []Metric {
	return []Metric{
		{metricReady, "gauge", nil, "1 once the engine has recovered and takes events.", false},
		{metricIngestEvents, "counter", []string{"result"}, "Events answered: accepted, duplicate, rejected; limited, sampled and dead_lettered over a rate limit.", false},
		{metricUnavailable, "counter", []string{"reason"}, "Requests that were turned away, by reason.", false},
		{metricDiskFree, "gauge", nil, "Free bytes where the log is.", false},
		{metricFoldLag, "gauge", nil, "Durable records that are not counted yet.", false},
		{metricFoldDead, "counter", nil, "Stored events that could not be counted.", false},
		{metricFullSLOs, "gauge", nil, "SLOs that have max_groups groups, so that new values share __other__.", false},
		{metricPoisoned, "gauge", nil, "1 after a failed write or fsync, until a restart.", false},
		{metricTicks, "counter", nil, "Reports made.", false},
		{metricLate, "counter", nil, "Reports that took longer than their interval.", false},
		{metricDLQEntries, "gauge", []string{"origin"}, "Dead letters kept, by origin (admission, fold, sink).", false},

		{metricBreakerState, "gauge", []string{"breaker"}, "0 closed, 1 half-open, 2 open: one series per breaker, none per state. Sinks have one each, and Redis.", true},
		{metricDLQSaved, "counter", []string{"origin", "reason"}, "Events that became dead letters; a reason is there from its first one on.", true},
		{metricRetries, "counter", []string{"target"}, "Events sent again after a first attempt, by sink.", true},
		{metricLimitHits, "counter", []string{"layer", "type"}, "Events over a limit, by layer (global, type, context). In the layer type, type is the match of the rule, or (default); in the others it is empty.", true},
		{metricLimitDropped, "counter", []string{"type"}, "Events over a limit that were dropped, by the rule of their type, or (default).", true},
		{metricLimitCritical, "counter", []string{"type"}, "Events over a limit that the filter of the dead letters wants, kept there, by the rule of their type.", true},
		{metricLimitCurrent, "gauge", []string{"layer"}, "Events per second admitted of late by the limit of the layer that is used up most.", true},
		{metricLimitThreshold, "gauge", []string{"layer"}, "Events per second that the same limit admits.", true},
		{metricLimitFallback, "gauge", nil, "1 while limits are local because Redis is away.", true},
		{metricClientFailures, "counter", []string{"context", "reason"}, "Events that a client could not hand over and that its caller was not told of; reason breaker_open among them.", true},
		{metricClientSpool, "gauge", nil, "Bytes that a client holds back on disk.", true},
		{metricClientSpoolRoom, "gauge", nil, "Bytes that a client may hold back.", true},
		{metricSinkFailing, "gauge", []string{"sink", "what"}, "1 from the first failure of a sink until it works again, by what fails.", true},
		{metricSinkLimited, "counter", []string{"sink"}, "Times that no turn of the rate limit of the sink came in time.", true},
		{metricSinkLagSeconds, "gauge", []string{"sink"}, "Age of the oldest event that the sink has not got.", true},
		{metricSinkLagBytes, "gauge", []string{"sink"}, "Bytes of log that the sink has not got.", true},
		{metricSinkLagLimit, "gauge", []string{"sink"}, "Bytes of log that are kept for the sink at most; absent without a bound.", true},
		{metricNotifyFailures, "counter", []string{"receiver"}, "Notifications that were given up.", true},
	}
}
