package main

import "github.com/sloengine/sloengine/rules/series"

// documented adds to a series what its own description leaves out. The names of labels
// are those of the series, in order.
func documented(s series.Series, unit, when string, l ...metricLabel) metricDoc {
	more := map[series.Extra]string{
		series.ExtraGroups:     "group_by of the spec",
		series.ExtraLabels:     "labels of the spec",
		series.ExtraDimensions: "dimensions of the service",
		series.ExtraAlert:      "labels of the alert",
	}[s.Extra]
	return metricDoc{name: s.Name, kind: s.Type, unit: unit, labels: l, more: more, help: s.Help, when: when}
}

// sloLabels are those of every series of an SLO, and more.
func sloLabels(more ...metricLabel) []metricLabel {
	return append(with(
		named(series.LabelSLOID, "service/slo"), named(series.LabelService, "service"), named(series.LabelSLO, "name of the SLO"),
	), more...)
}

func slaLabels(more ...metricLabel) []metricLabel {
	return append(with(named(series.LabelService, "service"), named(series.LabelSLA, "name of the agreement")), more...)
}

func seriesDocs() metricPart {
	const (
		ratio  = "0 to 1"
		points = "0 to 100"
		noData = "without data"
	)
	return metricPart{
		title: "Service levels and agreements",
		about: "Of every SLO and agreement in the specs. Left out while the engine recovers: half a count is a wrong count.",
		docs: []metricDoc{
			documented(series.Events, "events or slices", "", sloLabels(oneOf(series.LabelResult, "good bad"))...),
			documented(series.BackfilledEvents, unitEvents, "until something is backfilled", sloLabels(oneOf(series.LabelResult, "good bad"))...),
			documented(series.SLIRatio, ratio, noData, sloLabels()...),
			documented(series.BudgetRemaining, "1 and less", noData, sloLabels()...),
			documented(series.BurnRate, "multiple of the pace that just lasts", noData,
				sloLabels(oneOf(series.LabelWindow, "5m 30m 1h 2h 6h 1d 3d period"))...),
			documented(series.Coverage, ratio, "", sloLabels()...),
			documented(series.Info, "1", "",
				sloLabels(named(series.LabelObjective, "percent"), named(series.LabelWindow, "such as 30d"))...),
			documented(series.SliceRatio, "slices", "unless the method is ratio_timeslices", sloLabels()...),
			documented(series.SliceAchieved, unitEvents, "unless the indicator is of throughput", sloLabels()...),
			documented(series.SliceTarget, unitEvents, "unless the indicator is of throughput", sloLabels()...),
			documented(series.CompositeScore, points, noData, slaLabels()...),
			documented(series.ComponentScore, points, noData, slaLabels(named(series.LabelComponent, "component"))...),
			documented(series.BandEvents, unitEvents, "unless the score is of bands",
				slaLabels(named(series.LabelComponent, "component"), named("le", "seconds"))...),
			documented(series.Violations, unitEvents, "without event thresholds in the spec", named(series.LabelSLAType, "name of the event threshold"),
				oneOf(series.LabelSeverity, "warning critical"), named(series.LabelService, "service")),
		},
	}
}

func trafficDocs() metricPart {
	return metricPart{
		title: "Events of whole services",
		about: "Independent of any SLO. Left out while the engine recovers.",
		docs: []metricDoc{
			documented(series.EngineEvents, unitEvents, "", named(series.LabelService, "service"), named(series.LabelType, "type"),
				oneOf(series.LabelOutcome, "success failure"), named(series.LabelSeverity, "severity")),
			documented(series.EventDuration, unitSeconds, "until an event has a duration",
				named(series.LabelService, "service"), named(series.LabelType, "type")),
		},
	}
}

func alertDocs() metricPart {
	return metricPart{
		title: "Live alerts",
		about: "Of the alerts that the engine evaluates itself.",
		docs: []metricDoc{
			documented(series.AlertState, "1 or 2", "unless an alert is pending or firing", named(series.LabelAlertName, "name of the alert"),
				named(series.LabelService, "service"), named(series.LabelSeverity, "severity")),
			{"sloengine_alerts", series.Gauge, "alerts", with(oneOf("state", "pending firing resolved")), "",
				"Alerts by state. Resolved ones are counted as long as they are shown.", ""},
			{"sloengine_alert_transitions_total", series.Counter, unitTimes, with(oneOf("to", "inactive pending firing resolved")), "",
				"Changes of an alert's state, by the state that followed.", ""},
			{"sloengine_alert_gaps_total", series.Counter, "reports", nil, "",
				"Reports that came too late for pending alerts to go on; their wait began anew.", ""},
			{"sloengine_alert_detection_seconds", series.Histogram, unitSeconds, nil, "",
				"Time from the first bad event to the alert that fired for it.", ""},
		},
	}
}

func foldDocs() metricPart {
	return metricPart{
		title: "Counting (fold)",
		about: "Stored events on their way into the counts.",
		docs: []metricDoc{
			{"sloengine_fold_records_total", series.Counter, "records", nil, "", "Records of the log that were counted since the start of the process, those of the recovery among them.", ""},
			{"sloengine_fold_events_total", series.Counter, unitEvents, nil, "", "Events counted since the counts began; it survives restarts.", ""},
			{"sloengine_fold_late_events_total", series.Counter, unitEvents, nil, "", "Events that were counted after their minute had passed.", ""},
			{"sloengine_fold_backfilled_events_total", series.Counter, unitEvents, nil, "", "Events that were backfilled, or replayed more than a minute after their time: in no counter that a rate is taken of.", ""},
			{"sloengine_fold_too_old_events_total", series.Counter, unitEvents, nil, "", "Events older than every window: in the totals, in no window.", ""},
			{"sloengine_fold_refused_events_total", series.Counter, unitEvents, nil, "", "Stored events that could not be counted, such as those of a type that a reload removed meanwhile.", ""},
			{"sloengine_fold_dead_letters_total", series.Counter, unitEvents, nil, "", "Refused events that were kept as dead letters, since the start of the process.", ""},
			{"sloengine_fold_plan_lookups_total", series.Counter, unitEvents, with(oneOf("result", "hit miss")), "", "Look-ups of a combination of labels in the cache of what it counts for.", ""},
			{"sloengine_fold_groups", series.Gauge, "groups", nil, "", "Groups of all SLOs that have counts.", ""},
			{"sloengine_fold_full_slos", series.Gauge, "SLOs", nil, "", "SLOs without room for another group: all `max_groups` are taken, and new values share the group `__other__`, which never alerts.", ""},
			{"sloengine_fold_evicted_groups_total", series.Counter, "groups", nil, "", "Groups that were evicted to make room, as they were silent for the whole window.", ""},
			{"sloengine_fold_bytes", series.Gauge, unitBytes, nil, "", "Memory of the counts.", ""},
			{"sloengine_fold_parked_generations", series.Gauge, "generations", nil, "", "Parked generations: counts of what the spec does not have any more, retained in case it returns.", ""},
			{"sloengine_fold_parked_bytes", series.Gauge, unitBytes, nil, "", "Memory of the parked generations.", ""},
			{"sloengine_fold_parked_limit_bytes", series.Gauge, unitBytes, nil, "", "The setting `parked.memory` of engine.yaml: beyond it the oldest parked generations are evicted.", ""},
			{"sloengine_fold_parked_evicted_total", series.Counter, "generations", with(oneOf("reason", "expired budget forgotten")), "", "Parked generations that were evicted since the start of the process: their time was over, `parked.memory` was used up, or they were to be forgotten.", ""},
			{"sloengine_fold_lag_records", series.Gauge, "records", nil, "", "Durable records that are not counted yet.", ""},
		},
	}
}

func evaluateDocs() metricPart {
	return metricPart{
		title: "Evaluation",
		about: "The reports that page, API and alerts are made of.",
		docs: []metricDoc{
			{"sloengine_evaluate_ticks_total", series.Counter, "reports", nil, "", "Reports made.", ""},
			{"sloengine_evaluate_errors_total", series.Counter, "reports", nil, "", "Reports that could not be made.", ""},
			{"sloengine_evaluate_late_total", series.Counter, "reports", nil, "", "Reports that took longer than their interval.", ""},
			{"sloengine_evaluate_clock_refused_total", series.Counter, "reports", nil, "", "Reports refused because the clock jumped ahead.", ""},
			{"sloengine_evaluate_seconds", series.Histogram, unitSeconds, nil, "", "Time to make a report.", ""},
			{"sloengine_evaluate_groups", series.Gauge, "groups", nil, "", "Groups of all SLOs in the last report.", ""},
		},
	}
}

func webDocs() metricPart {
	return metricPart{
		title: "Pages",
		about: "Open pages are told of new reports over a stream of events.",
		docs: []metricDoc{
			{"sloengine_web_streams", series.Gauge, "streams", nil, "", "Streams that are open.", ""},
			{"sloengine_web_streams_total", series.Counter, "streams", with(oneOf("result", "opened refused dropped")), "",
				"Streams by what became of them: dropped ones were too slow, refused ones too many. Their pages poll.", ""},
			{"sloengine_web_response_bytes", series.Gauge, unitBytes, nil, "", "Memory of responses that are made, sent or kept for the next reader.", ""},
			{"sloengine_web_response_limit_bytes", series.Gauge, unitBytes, nil, "", "Bound on that memory: `web.responses_memory`.", ""},
			{"sloengine_web_responses_total", series.Counter, "responses", with(oneOf("result", "made shared refused cut")), "",
				"Responses to readers: made for one; shared with a reader who asked the same; refused for lack of memory; cut off because the reader took nothing for a minute.", ""},
		},
	}
}

func processDocs() metricPart {
	return metricPart{
		title: "Process",
		about: "Besides these there are the families `go_*` and `process_*` of the Go client library of Prometheus.",
		docs: []metricDoc{
			{"sloengine_build_info", series.Gauge, "1", with(named("version", "of the program"), named("revision", "of its source"), named("goversion", "of Go")), "",
				"Always 1. Says which program this is.", ""},
			{"sloengine_reload_last_ok", series.Gauge, unitYesNo, nil, "", "1 if the last reload worked, or there was none; after a failed one the old spec and settings stay.", ""},
			{"sloengine_reload_failures_total", series.Counter, unitTimes, nil, "", "Reloads that changed nothing because something was wrong.", ""},
		},
	}
}
