package metric

var trafficPart = NewPart("Events of whole services",
	"Counted per service and event type, independent of SLOs. Absent from /metrics while the engine recovers.")

var (
	Events = trafficPart.Counter("sloengine_events_total", unitEvents,
		"Events counted, by service, type, outcome and severity. Without backfills and late replays.",
		Named("service", "service"), Named("type", "type"), OneOf("outcome", "success failure"),
		Named("severity", "severity"), Extra("dimensions of the service"))
	EventDurationSeconds = trafficPart.Histogram("sloengine_event_duration_seconds",
		"Durations of events, with the buckets of the service and one at each threshold in use. Without backfills and late "+
			"replays.", nil,
		Named("service", "service"), Named("type", "type"), OneOf("outcome", "success failure"),
		Extra("dimensions of the service"), Absent("until an event has a duration"))
)

var alertPart = NewPart("Live alerts",
	"The alerts that the engine evaluates itself.")

var (
	AlertState = alertPart.Gauge("slo_alert_state", "1 or 2",
		"State of an alert that the engine evaluates: 1 is pending, 2 is firing. Absent while inactive and once resolved.",
		Named("alertname", "name of the alert"), Named("service", "service"), Named("severity", "severity"),
		Extra("labels of the alert"), Absent("unless an alert is pending or firing"))
	Alerts = alertPart.Gauge("sloengine_alerts", "alerts",
		"Alerts by state. Resolved alerts are counted as long as they are shown.", OneOf("state", "pending firing resolved"))
	AlertTransitions = alertPart.Counter("sloengine_alert_transitions_total", unitTimes,
		"State changes of alerts, by the new state.", OneOf("to", "inactive pending firing resolved"))
	AlertGaps = alertPart.Counter("sloengine_alert_gaps_total", "reports",
		"Reports that came too late for pending alerts to continue. Their waiting time started again.")
	EngineAlertSeries = alertPart.Gauge("sloengine_engine_alert_series", "series",
		"Series of the engine's own metrics that are in memory for the alerts on the engine.")
	EngineAlertSkipped = alertPart.Gauge("sloengine_engine_alert_skipped_series", "series",
		"Series that the alerts on the engine do not see, because the maximum of series in memory is reached.")
	EngineAlertFailures = alertPart.Counter("sloengine_engine_alert_failures_total", unitTimes,
		"Evaluations of an alert on the engine that failed. The alert keeps its state meanwhile.")
	AlertDetectionSeconds = alertPart.Histogram("sloengine_alert_detection_seconds",
		"Time from the first bad event to the alert that fired for it.",
		[]float64{15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400})
)

var incidentPart = NewPart("Incidents",
	"How quickly incidents are detected and answered, computed from the incidents that are retained. Absent from "+
		"/metrics while the engine recovers.")

var (
	IncidentDetection = incidentPart.Histogram("incident_detection_time_seconds",
		"Time from the onset of an incident to its detection, by the severity of the incident.",
		incidentBuckets, OneOf("severity", "critical warning"))
	IncidentResponse = incidentPart.Histogram("incident_response_time_seconds",
		"Time from the detection of an incident to its acknowledgement, by the team that acknowledged it.",
		incidentBuckets, Named("team", "team, empty if none is known, `__other__` beyond 50 teams"),
		Absent("until an incident is acknowledged"))
	AutomatedDetection = incidentPart.Gauge("automated_detection_ratio", "0 to 1",
		"Share of the incidents detected in the period that an alert opened.",
		OneOf("period", "24h 7d 30d"), Absent("without incidents in the period"))
	OpenIncidents = incidentPart.Gauge("sloengine_open_incidents", "incidents", "Incidents that are not resolved.",
		OneOf("severity", "critical warning"), OneOf("state", "open acknowledged"))
	IncidentFailures = incidentPart.Counter("sloengine_incident_failures_total", unitTimes,
		"Failed attempts to derive incidents from the alerts and to store them. The next evaluation tries again.")
)

// incidentBuckets hold the targets and baselines that are common: minutes for the detection, half hours for the
// response.
var incidentBuckets = []float64{60, 120, 300, 600, 900, 1800, 2700, 3600, 5400, 7200, 14400}

var foldPart = NewPart("Counting (fold)",
	"The component that turns stored events into the counts of SLOs.")

var (
	FoldRecords = foldPart.Counter("sloengine_fold_records_total", "records",
		"Log records counted since the process started, including those read by recovery.")
	FoldEvents = foldPart.Counter("sloengine_fold_events_total", unitEvents,
		"Events counted since the counts began. The value survives restarts.")
	FoldLateEvents = foldPart.Counter("sloengine_fold_late_events_total", unitEvents,
		"Events that were counted after their minute had ended.")
	FoldBackfilledEvents = foldPart.Counter("sloengine_fold_backfilled_events_total", unitEvents,
		"Events that were backfilled, or replayed more than a minute after their time. They are left out of all counters "+
			"that rules take a rate of.")
	FoldTooOldEvents = foldPart.Counter("sloengine_fold_too_old_events_total", unitEvents,
		"Events older than every window. They are in the totals and in no window.")
	FoldRefusedEvents = foldPart.Counter("sloengine_fold_refused_events_total", unitEvents,
		"Stored events that could not be counted, such as those of a type that a reload removed.")
	FoldDeadLetters = foldPart.Counter("sloengine_fold_dead_letters_total", unitEvents,
		"Refused events that became dead letters since the process started.")
	FoldPlanLookups = foldPart.Counter("sloengine_fold_plan_lookups_total", unitEvents,
		"Lookups in the cache that maps a combination of labels to its counters.", OneOf("result", "hit miss"))
	FoldGroups   = foldPart.Gauge("sloengine_fold_groups", "groups", "Groups of all SLOs that have counts.")
	FoldFullSLOs = foldPart.Gauge("sloengine_fold_full_slos", "SLOs",
		"SLOs that have reached `max_groups`. New values share the group `__other__`, which never alerts.")
	FoldEvictedGroups = foldPart.Counter("sloengine_fold_evicted_groups_total", "groups",
		"Groups that were evicted in favour of new ones, because they had no events in the whole window.")
	FoldUntracked = foldPart.Counter("sloengine_fold_untracked_starts_total", unitEvents,
		"Events that start work of a completion while `max_in_flight` is reached, since the counts began. Their work is "+
			"not tracked, which lowers coverage.")
	FoldBytes             = foldPart.Gauge("sloengine_fold_bytes", unitBytes, "Memory of the counts.")
	FoldParkedGenerations = foldPart.Gauge("sloengine_fold_parked_generations", "generations",
		"Parked generations: counts of definitions that have left the spec, retained in case they return.")
	FoldParkedBytes      = foldPart.Gauge("sloengine_fold_parked_bytes", unitBytes, "Memory of the parked generations.")
	FoldParkedLimitBytes = foldPart.Gauge("sloengine_fold_parked_limit_bytes", unitBytes,
		"The setting `parked.memory` of engine.yaml. Beyond it the oldest parked generations are evicted.")
	FoldParkedEvicted = foldPart.Counter("sloengine_fold_parked_evicted_total", "generations",
		"Parked generations evicted since the process started: expired, over the budget `parked.memory`, or forgotten on "+
			"request.", OneOf("reason", "expired budget forgotten"))
	RebuildSLOs = foldPart.Gauge("sloengine_rebuild_slos", "SLOs",
		"SLOs that have no counts of the retained log yet, although they are to be rebuilt from it.",
		OneOf("state", "waiting running"))
	Rebuilds = foldPart.Counter("sloengine_rebuilds_total", "SLOs",
		"SLOs that were rebuilt from the retained log, or failed to be, since the process started. Failures are tried again.",
		OneOf("result", "done failed"))
	RebuildRecords = foldPart.Counter("sloengine_rebuild_records_total", "records",
		"Records of the log that rebuilds have read since the process started.")
	FoldLagRecords = foldPart.Gauge("sloengine_fold_lag_records", "records",
		"Durable records that are not counted yet.")
)

var evaluatePart = NewPart("Evaluation",
	"The reports behind the page, the API and the live alerts.")

var (
	EvaluateTicks  = evaluatePart.Counter("sloengine_evaluate_ticks_total", "reports", "Reports completed.")
	EvaluateErrors = evaluatePart.Counter("sloengine_evaluate_errors_total", "reports", "Reports that failed.")
	EvaluateLate   = evaluatePart.Counter("sloengine_evaluate_late_total", "reports",
		"Reports that took longer than the evaluation interval.")
	EvaluateClockRefused = evaluatePart.Counter("sloengine_evaluate_clock_refused_total", "reports",
		"Reports refused because the clock jumped ahead.")
	EvaluateSeconds = evaluatePart.Histogram("sloengine_evaluate_seconds", "Time to make a report.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10})
	EvaluateGroups = evaluatePart.Gauge("sloengine_evaluate_groups", "groups", "Groups of all SLOs in the last report.")
)

// noFleet is when families of a view are missing.
const noFleet = "outside of `sloengine view`"

var forecastPart = NewPart("Forecasts",
	"How well the forecasts of error budgets hold, and what they cost. The forecasts themselves are `slo_forecast_*`. "+
		"The counters survive restarts and fall when an SLO with forecasts is removed from the spec.")

// leadTime is the lead time of a forecast.
var leadTime = OneOf("ahead", "1h 1d 3d 7d window_end")

var (
	ForecastsMade = forecastPart.Counter("sloengine_forecasts_made_total", "forecasts",
		"Forecasts that were noted, to be checked when their time comes. One of a group and lead time is open at a time.",
		leadTime)
	ForecastsChecked = forecastPart.Counter("sloengine_forecasts_checked_total", "forecasts",
		"Forecasts whose time came and whose range was compared with the budget that truly remained.", leadTime)
	ForecastsInside = forecastPart.Counter("sloengine_forecasts_inside_total", "forecasts",
		"Checked forecasts whose 90 % range held the budget that truly remained.", leadTime)
	ForecastsMissed = forecastPart.Counter("sloengine_forecasts_missed_total", "forecasts",
		"Forecasts that could not be checked: the engine was down at their time, or the SLO had changed.", leadTime)
	ForecastGroups = forecastPart.Gauge("sloengine_forecast_groups", "groups",
		"Groups that are forecast. `forecast.groups` bounds them.")
	ForecastSeconds = forecastPart.Histogram("sloengine_forecast_seconds",
		"Time to read the counts and to compute the forecasts that are due after a report. No report waits for it.",
		[]float64{0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1, 5, 30})
	ForecastFailures = forecastPart.Counter("sloengine_forecast_failures_total", unitTimes,
		"Failed attempts to read the counts for forecasts, and to save the score of the forecasts.", OneOf("of", "read save"))
)

var fleetPart = NewPart("View of several engines",
	"The requests of `sloengine view` to its engines. Only that command has them, and it exports no `slo_*` and `sla_*` "+
		"families: those come from the engines.")

var fleetEngine = Named("engine", "the host, port and path of its address")

var (
	FleetEngineUp = fleetPart.Gauge("sloengine_fleet_engine_up", unitYesNo,
		"1 if the counts of the engine are in the last report. 0 if it did not answer, or runs another spec.",
		fleetEngine, Absent(noFleet))
	FleetFailures = fleetPart.Counter("sloengine_fleet_failures_total", unitTimes,
		"Reports without the counts of the engine.", fleetEngine, OneOf("reason", "missing other_spec"), Absent(noFleet))
	FleetFetchedBytes = fleetPart.Counter("sloengine_fleet_fetched_bytes_total", unitBytes,
		"Decompressed answers of the engine.", fleetEngine, Absent(noFleet))
	FleetFetchSeconds = fleetPart.Histogram("sloengine_fleet_fetch_seconds",
		"Time in which the engine answered for one report.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, fleetEngine, Absent(noFleet))
)

var webPart = NewPart("Pages",
	"Responses to readers of pages and API, and the event streams that refresh open pages.")

var (
	WebStreams      = webPart.Gauge("sloengine_web_streams", "streams", "Open event streams.")
	WebStreamsTotal = webPart.Counter("sloengine_web_streams_total", "streams",
		"Event streams that were opened, that were refused at the limit, and that were dropped because the reader was too "+
			"slow. Pages without a stream poll.", OneOf("result", "opened refused dropped"))
	WebResponseBytes = webPart.Gauge("sloengine_web_response_bytes", unitBytes,
		"Memory of responses that are being rendered or sent, or are cached for the next reader.")
	WebResponseLimitBytes = webPart.Gauge("sloengine_web_response_limit_bytes", unitBytes,
		"Maximum memory of responses: `web.responses_memory`.")
	WebResponses = webPart.Counter("sloengine_web_responses_total", "responses",
		"Responses that were rendered (made), taken from the cache (shared), refused for lack of memory, or cut off "+
			"because the reader received nothing for a minute.", OneOf("result", "made shared refused cut"))
)

var processPart = NewPart("Process",
	"The process itself. The families `go_*` and `process_*` of the Prometheus client library for Go are exported, too.")

var (
	BuildInfo = processPart.Gauge("sloengine_build_info", "1", "Always 1. The labels identify the build.",
		Named("version", "of the program"), Named("revision", "of its source"), Named("goversion", "of Go"))
	SpecInfo = processPart.Gauge("sloengine_spec_info", "1",
		"Always 1. The label is the hash of the spec in force, which page, API and `/-/reload` show, too: engines with the "+
			"same hash count and alert the same way.", Named("hash", "of everything that the spec files say"))
	ReloadLastOK = processPart.Gauge("sloengine_reload_last_ok", unitYesNo,
		"1 if the last reload succeeded or there was none. After a failed reload the old spec and settings stay in force.")
	ReloadFailures = processPart.Counter("sloengine_reload_failures_total", unitTimes,
		"Reloads that failed and changed nothing.")
)
