package metric

var trafficPart = NewPart("Events of whole services",
	"Independent of any SLO. Left out while the engine recovers.")

var (
	Events = trafficPart.Counter("sloengine_events_total", unitEvents, "Events counted, by service, type, outcome and severity. Without backfills and late replays.",
		Named("service", "service"), Named("type", "type"), OneOf("outcome", "success failure"), Named("severity", "severity"), Extra("dimensions of the service"))
	EventDurationSeconds = trafficPart.Histogram("sloengine_event_duration_seconds", "Durations of events, with buckets at the thresholds that the specs use. Without backfills and late replays.", nil,
		Named("service", "service"), Named("type", "type"), Absent("until an event has a duration"))
)

var alertPart = NewPart("Live alerts",
	"Of the alerts that the engine evaluates itself.")

var (
	AlertState = alertPart.Gauge("slo_alert_state", "1 or 2", "State of an alert that the engine evaluates: 1 is pending, 2 is firing. Absent while inactive and once resolved.",
		Named("alertname", "name of the alert"), Named("service", "service"), Named("severity", "severity"), Extra("labels of the alert"), Absent("unless an alert is pending or firing"))
	Alerts                = alertPart.Gauge("sloengine_alerts", "alerts", "Alerts by state. Resolved ones are counted as long as they are shown.", OneOf("state", "pending firing resolved"))
	AlertTransitions      = alertPart.Counter("sloengine_alert_transitions_total", unitTimes, "Changes of an alert's state, by the state that followed.", OneOf("to", "inactive pending firing resolved"))
	AlertGaps             = alertPart.Counter("sloengine_alert_gaps_total", "reports", "Reports that came too late for pending alerts to go on; their wait began anew.")
	AlertDetectionSeconds = alertPart.Histogram("sloengine_alert_detection_seconds", "Time from the first bad event to the alert that fired for it.",
		[]float64{15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400})
)

var foldPart = NewPart("Counting (fold)",
	"Stored events on their way into the counts.")

var (
	FoldRecords           = foldPart.Counter("sloengine_fold_records_total", "records", "Records of the log that were counted since the start of the process, those of the recovery among them.")
	FoldEvents            = foldPart.Counter("sloengine_fold_events_total", unitEvents, "Events counted since the counts began; it survives restarts.")
	FoldLateEvents        = foldPart.Counter("sloengine_fold_late_events_total", unitEvents, "Events that were counted after their minute had passed.")
	FoldBackfilledEvents  = foldPart.Counter("sloengine_fold_backfilled_events_total", unitEvents, "Events that were backfilled, or replayed more than a minute after their time: in no counter that a rate is taken of.")
	FoldTooOldEvents      = foldPart.Counter("sloengine_fold_too_old_events_total", unitEvents, "Events older than every window: in the totals, in no window.")
	FoldRefusedEvents     = foldPart.Counter("sloengine_fold_refused_events_total", unitEvents, "Stored events that could not be counted, such as those of a type that a reload removed meanwhile.")
	FoldDeadLetters       = foldPart.Counter("sloengine_fold_dead_letters_total", unitEvents, "Refused events that were kept as dead letters, since the start of the process.")
	FoldPlanLookups       = foldPart.Counter("sloengine_fold_plan_lookups_total", unitEvents, "Look-ups of a combination of labels in the cache of what it counts for.", OneOf("result", "hit miss"))
	FoldGroups            = foldPart.Gauge("sloengine_fold_groups", "groups", "Groups of all SLOs that have counts.")
	FoldFullSLOs          = foldPart.Gauge("sloengine_fold_full_slos", "SLOs", "SLOs without room for another group: all `max_groups` are taken, and new values share the group `__other__`, which never alerts.")
	FoldEvictedGroups     = foldPart.Counter("sloengine_fold_evicted_groups_total", "groups", "Groups that were evicted to make room, as they were silent for the whole window.")
	FoldBytes             = foldPart.Gauge("sloengine_fold_bytes", unitBytes, "Memory of the counts.")
	FoldParkedGenerations = foldPart.Gauge("sloengine_fold_parked_generations", "generations", "Parked generations: counts of what the spec does not have any more, retained in case it returns.")
	FoldParkedBytes       = foldPart.Gauge("sloengine_fold_parked_bytes", unitBytes, "Memory of the parked generations.")
	FoldParkedLimitBytes  = foldPart.Gauge("sloengine_fold_parked_limit_bytes", unitBytes, "The setting `parked.memory` of engine.yaml: beyond it the oldest parked generations are evicted.")
	FoldParkedEvicted     = foldPart.Counter("sloengine_fold_parked_evicted_total", "generations", "Parked generations that were evicted since the start of the process: their time was over, `parked.memory` was used up, or they were to be forgotten.", OneOf("reason", "expired budget forgotten"))
	FoldLagRecords        = foldPart.Gauge("sloengine_fold_lag_records", "records", "Durable records that are not counted yet.")
)

var evaluatePart = NewPart("Evaluation",
	"The reports that page, API and alerts are made of.")

var (
	EvaluateTicks        = evaluatePart.Counter("sloengine_evaluate_ticks_total", "reports", "Reports made.")
	EvaluateErrors       = evaluatePart.Counter("sloengine_evaluate_errors_total", "reports", "Reports that could not be made.")
	EvaluateLate         = evaluatePart.Counter("sloengine_evaluate_late_total", "reports", "Reports that took longer than their interval.")
	EvaluateClockRefused = evaluatePart.Counter("sloengine_evaluate_clock_refused_total", "reports", "Reports refused because the clock jumped ahead.")
	EvaluateSeconds      = evaluatePart.Histogram("sloengine_evaluate_seconds", "Time to make a report.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10})
	EvaluateGroups = evaluatePart.Gauge("sloengine_evaluate_groups", "groups", "Groups of all SLOs in the last report.")
)

var webPart = NewPart("Pages",
	"Open pages are told of new reports over a stream of events.")

var (
	WebStreams            = webPart.Gauge("sloengine_web_streams", "streams", "Streams that are open.")
	WebStreamsTotal       = webPart.Counter("sloengine_web_streams_total", "streams", "Streams by what became of them: dropped ones were too slow, refused ones too many. Their pages poll.", OneOf("result", "opened refused dropped"))
	WebResponseBytes      = webPart.Gauge("sloengine_web_response_bytes", unitBytes, "Memory of responses that are made, sent or kept for the next reader.")
	WebResponseLimitBytes = webPart.Gauge("sloengine_web_response_limit_bytes", unitBytes, "Bound on that memory: `web.responses_memory`.")
	WebResponses          = webPart.Counter("sloengine_web_responses_total", "responses", "Responses to readers: made for one; shared with a reader who asked the same; refused for lack of memory; cut off because the reader took nothing for a minute.", OneOf("result", "made shared refused cut"))
)

var processPart = NewPart("Process",
	"Besides these there are the families `go_*` and `process_*` of the Go client library of Prometheus.")

var (
	BuildInfo      = processPart.Gauge("sloengine_build_info", "1", "Always 1. Says which program this is.", Named("version", "of the program"), Named("revision", "of its source"), Named("goversion", "of Go"))
	ReloadLastOK   = processPart.Gauge("sloengine_reload_last_ok", unitYesNo, "1 if the last reload worked, or there was none; after a failed one the old spec and settings stay.")
	ReloadFailures = processPart.Counter("sloengine_reload_failures_total", unitTimes, "Reloads that changed nothing because something was wrong.")
)
