package dashboards_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/dashboards"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// offBoards are the families that no board shows, with the reason. A new family goes on a board, or in here.
var offBoards = map[string]string{
	"slo_part_events_total":                 "boards show the ratio that the rules record of the two counts",
	"sloengine_otlp_findings":               "the pages of the engine and of each SLO name them",
	"sloengine_notify_inhibited_alerts":     "the page of each alert shows what inhibits it",
	"slo_volume_events":                     "the page shows it against its target",
	"slo_volume_target_events":              "the page shows it against its target",
	"slo_volume_expected_events":            "the page shows it against its target",
	"slo_backfilled_events_total":           "it says what rates leave out, and the page shows it",
	"slo_cost_total":                        "boards show what the rules record of it",
	"slo_sli_ratio":                         "boards show what the rules record of it",
	"slo_burn_rate":                         "boards show what the rules record of it",
	"sloengine_rebuild_slos":                "the pages of the engine and of the SLO show the progress of a rebuild",
	"sloengine_rebuilds_total":              "the page of the engine says what fails",
	"sloengine_rebuild_records_total":       "the pages of the engine and of the SLO show the progress of a rebuild",
	"slo_info":                              "a join for rules, without a value of its own",
	"slo_slice_ratio_total":                 "boards show what the rules record of it",
	"slo_slice_achieved_events_total":       "boards show what the rules record of it",
	"slo_slice_target_events_total":         "boards show what the rules record of it",
	"sla_composite_score":                   "boards show what the rules record of it",
	"sla_component_score":                   "boards show what the rules record of it",
	"sla_band_events_total":                 "boards show what the rules record of it",
	"slo_alert_state":                       "boards show ALERTS, which Prometheus has for the same alerts",
	"sloengine_engine_alert_series":         "a memory figure of a bounded table",
	"sloengine_engine_alert_skipped_series": "an alert reads it",
	"incident_detection_time_seconds":       "the page /incidents shows it against its baselines",
	"incident_response_time_seconds":        "the page /incidents shows it against its baselines",
	"sloengine_ingest_token_reloads_total":  "an event of minutes ago that the log names",
	"sloengine_ingest_recovery_ratio": "it moves while Prometheus has no ratios to show, " +
		"and /-/ready says it",
	"sloengine_wal_torn_bytes_total":                   "set once at start, and normal after a crash",
	"sloengine_evaluate_ticks_total":                   "sloengine_evaluate_seconds has its rate",
	"sloengine_fleet_fetched_bytes_total":              "for sizing a network, once",
	"sloengine_sinks":                                  "a constant of the settings",
	"sloengine_sink_lowest_cursor":                     "a record number; boards show the lag",
	"sloengine_notify_last_success_timestamp_seconds":  "boards show failing targets and the latency",
	"sloengine_reports_last_success_timestamp_seconds": "boards show undelivered and failed reports",
	"sloengine_dlq_damaged_bytes_total":                "boards show damaged places and dead letters",
	"sloengine_dlq_torn_bytes_total":                   "set once at start, and normal after a crash",
	"sloengine_forecasts_made_total":                   "the page of the engine has the score of the forecasts",
	"sloengine_forecasts_checked_total":                "the page of the engine has the score of the forecasts",
	"sloengine_forecasts_inside_total":                 "the page of the engine has the score of the forecasts",
	"sloengine_forecasts_missed_total":                 "the page of the engine has the score of the forecasts",
	"sloengine_forecast_groups":                        "a bound of the settings",
	"sloengine_forecast_seconds":                       "no report waits for it",
	"sloengine_forecast_failures_total":                "the page of the SLO says why it has no forecast",
	"slo_capacity_events_total":                        "boards show what the rules record of it",
	"slo_capacity_utilization_ratio":                   "boards show what the rules record of all engines together",
	"slo_capacity_headroom_events_per_second":          "boards show what the rules record of all engines together",
	"sloengine_build_info":                             "labels without a value",
	"sloengine_spec_info":                              "its hash is a label, to compare engines by a query",
	"sloengine_reload_failures_total":                  "boards show sloengine_reload_last_ok",
	"sloengine_uncounted_events_total":                 "the page of the engine names their types",
	"sloengine_rejects_save_failures_total":            "it costs figures of the last seconds, and the log names it",
	"sloengine_client_spool_open_errors_total":         "lost events are on a board, with the reason",
	"sloengine_client_spool_corruptions_total":         "lost events are on a board, with the reason",
}

// TestEveryFamilyIsOnABoard names the families that no board shows. Rules read many of the indicator series: these are
// on boards as what the rules record.
func TestEveryFamilyIsOnABoard(t *testing.T) {
	shown := map[string]bool{}
	in := spectest.Rules(insurance(t))
	work := *in.SLOs[0]
	work.ID, work.Indicator = "shop/fulfilment",
		slo.Indicator{Kind: slo.KindCompletion, Completion: slo.Completion{Key: "order_id", Within: time.Minute}}
	in.SLOs = append(in.SLOs, &work)
	withCapacity(in)
	for _, d := range all(t, in, dashboards.Options{Dimensions: []string{"error_type", "stage", "task", "integration"}}) {
		for _, p := range read(t, d).Panels {
			for _, q := range p.Targets {
				for _, n := range names(parse(t, q.Expr)) {
					shown[n] = true
					if f := metric.Lookup(n); f != nil {
						shown[f.Name] = true
					}
				}
			}
		}
	}
	families := slices.Clone(series.All())
	for _, p := range metric.Parts() {
		families = append(families, p.Families...)
	}
	require.Greater(t, len(families), 200)
	left := maps.Clone(offBoards)
	for _, f := range families {
		reason, off := offBoards[f.Name]
		delete(left, f.Name)
		switch {
		case shown[f.Name]:
			require.False(t, off, "%s is on a board, so take it off the list", f.Name)
		case reason == "":
			t.Errorf("no board shows %s: add a panel, or say why not in offBoards", f.Name)
		}
	}
	require.Empty(t, left, "offBoards has names that do not exist")
}
