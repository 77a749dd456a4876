package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
)

// foreignNames are the metric names of reliability libraries and of hand-written agreements that docs/metrics.md must
// say something about: where their data is here, or why it is not.
var foreignNames = strings.Fields(`
	retry_attempts_total circuit_breaker_state circuit_breaker_calls_total bulkhead_active_calls
	bulkhead_rejected_calls_total
	timeout_exceeded_total call_duration_ms
	e11y_retry_attempt e11y_retry_success e11y_retry_exhausted e11y_retry_permanent_failure e11y_retry_rate_limited
	e11y_retry_rate_limiter_allowed e11y_retry_rate_limiter_limited e11y_retry_queue_size e11y_retry_delay_seconds
	e11y_circuit_breaker_state e11y_circuit_breaker_opened e11y_circuit_breaker_closed e11y_circuit_breaker_rejected
	e11y_health_check_success e11y_health_check_failure e11y_dispatch_success_rate e11y_dlq_saved
	e11y_dlq_entries_by_reason
	e11y_dlq_size e11y_dlq_filtered_out e11y_dlq_replayed e11y_dlq_replay_failed e11y_event_tracking_failed_silent
	e11y_events_tracked_total e11y_rate_limiter_dlq_saved e11y_rate_limit_hits_total e11y_rate_limit_dropped_events_total
	e11y_rate_limit_sampled_events_total e11y_rate_limit_current e11y_rate_limit_threshold e11y_rate_limit_bypass_total
	outbox_events_total outbox_processing_duration_seconds outbox_retry_attempts_total
	outbox_optimistic_lock_failures_total
	resilience4j_ratelimiter_calls_total rate_limiter_exceeded_total rate_limiter_fallback_used_total
	rate_limiter_success_total
	external_api_calls_total external_api_errors_total external_api_response_time_seconds
	external_api_rate_limit_errors_total
	redis_response_time_seconds
	unpaid_requests_total unpaid_errors_total unpaid_connections_total unpaid_conversion_total unpaid_conversion_rate_total
	unpaid_application_status_total unpaid_digital_sign_total unpaid_digital_sign_duration_seconds unpaid_stage_count
	unpaid_stage_duration_seconds unpaid_processing_duration_seconds unpaid_active_applications_total
	unpaid_channel_success_rate
	unpaid_sla_availability_ratio unpaid_sla_processing_compliance_ratio unpaid_sla_compliance_ratio
	unpaid_avg_processing_time
	unpaid_error_rate_by_stage unpaid_critical_error_rate unpaid_business_error_rate unpaid_throughput_per_minute
	unpaid_throughput_per_hour unpaid_throughput_compliance_ratio unpaid_daily_volume_sla unpaid_current_daily_volume
	unpaid_peak_throughput_sla unpaid_current_peak_throughput unpaid_capacity_utilization unpaid_max_capacity_per_minute
	unpaid_composite_sla_score
	unpaid_product_sla_score unpaid_quality_score unpaid_sla_violations_total
	camunda_process_instances_total camunda_task_duration_seconds camunda_task_failures_total
	http_client_requests_total http_client_errors_total http_client_duration_seconds
	rabbit_message_processed_total rabbit_message_errors_total
	incident_detection_time_seconds incident_response_time_seconds
	camunda_process_instances_active camunda_process_instances_completed ins.queue.*.ok ins.queue.*.error
	resilience4j_ratelimiter_available_permissions resilience4j_ratelimiter_waiting_threads rate_limiter.retry_count
	rate_limiter.wait_time
	outbox.queue.size outbox.failed.size outbox.events.published outbox.events.processed outbox.events.sent.success
	outbox.events.sent.failure
	outbox.processing.latency.avg outbox.processing.latency.p95 outbox.batch.processing.time
	e11y.event.tracked_in_job e11y.event.dlq_from_job
	jvm_gc_duration_seconds hikaricp_connection_acquire_seconds hikaricp_connection_usage_seconds cache_hits_total
	cache_misses_total
`)

// TestForeignNames holds the table of docs/metrics.md against the definitions: each of our names exists with the labels
// that the table says, and no name of elsewhere is missing.
func TestForeignNames(t *testing.T) {
	text, err := os.ReadFile("testdata/metrics.md.tmpl")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## If you know them by other names")
	require.True(t, found)
	families := map[string]*metric.Family{}
	for _, f := range series.All() {
		families[f.Name] = f
	}
	for _, p := range metric.Parts() {
		for _, f := range p.Families {
			families[f.Name] = f
		}
	}
	code := regexp.MustCompile("`([^`]+)`")
	ours := regexp.MustCompile(`^(slo|sla|sloengine|incident)_[a-z_]+(\{[a-z_,]+\})?$`)
	known, checked := map[string]bool{}, 0
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 2 {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[0], -1) {
			known[m[1]] = true
		}
		for _, m := range code.FindAllStringSubmatch(strings.Join(cells[1:], " | "), -1) {
			if !ours.MatchString(m[1]) {
				continue
			}
			name, labels, _ := strings.Cut(strings.TrimSuffix(m[1], "}"), "{")
			f := families[name]
			if f == nil {
				t.Errorf("there is no %s, which the table names for %s", name, cells[0])
				continue
			}
			checked++
			for _, l := range strings.FieldsFunc(labels, func(r rune) bool { return r == ',' }) {
				if !slices.Contains(f.LabelNames(), l) {
					t.Errorf("%s has no label %s: it has %v", name, l, f.LabelNames())
				}
			}
		}
	}
	require.Greater(t, checked, 60)
	for _, n := range foreignNames {
		require.True(t, known[n], "docs/metrics.md says nothing about %s", n)
	}
}
