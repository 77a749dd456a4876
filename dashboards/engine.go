package dashboards

import (
	"slices"
	"strings"
)

// picked selects the engines that the reader picked.
const picked = `job=~"$job",instance=~"$instance"`

// interval is the only window over which raw counters are read: Grafana makes it
// long enough for four scrapes and short enough for the picture.
const interval = `[$__rate_interval]`

// gauge selects a metric of the picked engines; more matchers may follow.
func gauge(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{picked}, matchers...), ",") + "}"
}

// rate is the growth per second of a counter of the picked engines.
func rate(name string, matchers ...string) string {
	return "rate(" + gauge(name, matchers...) + interval + ")"
}

// sumRate adds the growth up, one line for each value of by; "" is one line.
func sumRate(by, name string, matchers ...string) string {
	if by == "" {
		return "sum(" + rate(name, matchers...) + ")"
	}
	return "sum by (" + by + ") (" + rate(name, matchers...) + ")"
}

// quantile is that of a duration histogram of the picked engines.
func quantile(q, name string, matchers ...string) string {
	return "histogram_quantile(" + q + ", " + sumRate("le", name+"_bucket", matchers...) + ")"
}

// mean is the mean of a histogram's or summary's observations.
func mean(name string) string {
	return sumRate("instance", name+"_sum") + " / (" + sumRate("instance", name+"_count") + " > 0)"
}

// engineMetrics are the engine's own metrics that the dashboards draw. The
// rooms that count them own the names.
var engineMetrics = []string{
	"go_goroutines",
	"process_cpu_seconds_total",
	"process_resident_memory_bytes",
	"sloengine_build_info",
	"sloengine_checkpoint_age_seconds",
	"sloengine_checkpoint_failures_total",
	"sloengine_checkpoint_written_bytes_total",
	"sloengine_dedupe_bytes",
	"sloengine_dedupe_duplicates_total",
	"sloengine_dedupe_horizon_seconds",
	"sloengine_dedupe_ids",
	"sloengine_dlq_entries",
	"sloengine_evaluate_errors_total",
	"sloengine_evaluate_groups",
	"sloengine_evaluate_late_total",
	"sloengine_evaluate_seconds_bucket",
	"sloengine_fold_bytes",
	"sloengine_fold_dead_letters_total",
	"sloengine_fold_groups",
	"sloengine_fold_lag_records",
	"sloengine_fold_late_events_total",
	"sloengine_fold_refused_events_total",
	"sloengine_fold_too_old_events_total",
	"sloengine_ingest_append_duration_seconds_bucket",
	"sloengine_ingest_auth_failures_total",
	"sloengine_ingest_disk_free_bytes",
	"sloengine_ingest_events_total",
	"sloengine_ingest_groups_total",
	"sloengine_ingest_in_flight_bytes",
	"sloengine_ingest_in_flight_requests",
	"sloengine_ingest_queue_bytes",
	"sloengine_ingest_queue_requests",
	"sloengine_ingest_ready",
	"sloengine_ingest_received_bytes_total",
	"sloengine_ingest_rejected_total",
	"sloengine_ingest_request_duration_seconds_bucket",
	"sloengine_ingest_requests_total",
	"sloengine_ingest_stored_events_total",
	"sloengine_ingest_unavailable_total",
	"sloengine_ingest_watermark_seconds",
	"sloengine_reload_last_ok",
	"sloengine_wal_append_errors_total",
	"sloengine_wal_appended_bytes_total",
	"sloengine_wal_bytes",
	"sloengine_wal_corruptions_total",
	"sloengine_wal_poisoned",
	"sloengine_wal_sync_seconds_count",
	"sloengine_wal_sync_seconds_sum",
}

// EngineMetrics lists the names on /metrics of the engine's own metrics that the
// dashboards draw, sorted, so that a test can hold them against a running engine.
func EngineMetrics() []string { return slices.Clone(engineMetrics) }
