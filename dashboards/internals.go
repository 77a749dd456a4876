package dashboards

import (
	"strings"

	"github.com/sloengine/sloengine/reliability/metric"
)

// internalsBoard shows the parts of the engine that neither ingest nor deliver: alerts and incidents, log, checkpoints,
// counting, pages, and a view of several engines.
func (g *generator) internalsBoard() *board {
	b := g.board(UIDInternals, "Engine internals", "The engine's own parts: live alerts and incidents, log, checkpoints, deduplication, counting, connections, pages, and views of several engines.")
	b.Templating.List = g.engineVariables()
	const none = "no engine is scraped"
	s := sheet{b, 8}
	failed := above(good, from(0.001, bad))

	b.row("Alerts and incidents")
	s.levels(view{title: "Alerts by state", about: "Alerts that the engine evaluates itself, by state.", unit: unitShort, none: none, steps: plain()}, metric.Alerts)
	s.rates(view{title: "Alert transitions", about: "State changes of alerts per second, by the new state.", none: none, steps: plain()}, metric.AlertTransitions)
	s.took(view{title: "Detection by alerts", about: "95th percentile of the time from the first bad event to the alert that fired for it.", none: "no alert has fired"}, metric.AlertDetectionSeconds)
	s.rates(view{title: "Trouble of evaluation", about: "Per second: gaps that made pending alerts wait again, failed evaluations of alerts on the engine, failures to derive incidents, and reports refused because the clock jumped ahead.", none: none, steps: failed}, metric.AlertGaps, metric.EngineAlertFailures, metric.IncidentFailures, metric.EvaluateClockRefused)
	s.levels(view{title: "Open incidents", about: "Incidents that are not resolved, by severity and state.", unit: unitShort, none: none, steps: above(good, from(1, warning))}, metric.OpenIncidents)
	s.levels(view{title: "Automated detection", about: "Share of the incidents of each period that an alert opened.", unit: unitRatio, none: "no incidents in the period", steps: plain(), max: number(1)}, metric.AutomatedDetection)

	b.row("Log and checkpoints")
	s.rates(view{title: "Writes to the log", about: "Writes and records per second. Each write is synced once.", none: none, steps: plain()}, metric.WALAppendedBatches, metric.WALAppendedRecords)
	s.levels(view{title: "Log segments", about: "Number of files that the log consists of.", unit: unitShort, none: none, steps: plain()}, metric.WALSegments)
	s.rates(view{title: "Turnover of segments", about: "Segments per second that were created, and that were removed after the checkpoint and all sinks had passed them.", none: none, steps: plain()}, metric.WALSegmentsCreated, metric.WALSegmentsRemoved)
	s.rates(view{title: "Checkpoints", about: "Checkpoints per second, and the share of time spent on writing them.", none: none, steps: plain()}, metric.CheckpointWritten, metric.CheckpointDurationSeconds)
	s.levels(view{title: "Size of checkpoints", about: "Bytes that the newest checkpoint wrote, which is what had changed, and bytes of all files that it refers to.", unit: unitBytes, none: none, steps: plain()}, metric.CheckpointLastWrittenSize, metric.CheckpointStateBytes)
	s.levels(view{title: "Losses at start", about: "What damaged files cost at the last start: parts of the state, deduplication ids, checkpoints that were skipped, and failed writes of the marker of the log's end.", unit: unitShort, none: none, steps: above(good, from(1, bad))}, metric.CheckpointLostParts, metric.DedupeLostIDs, metric.CheckpointFallbacks, metric.WALMarkerErrors)

	b.row("Counting")
	s.rates(view{title: "Counted records", about: "Log records per second that were counted, and events of them that were backfilled.", none: none, steps: plain()}, metric.FoldRecords, metric.FoldBackfilledEvents)
	s.rates(view{title: "Plan cache", about: "Lookups per second in the cache from labels to counters, by result. Many misses mean that labels have very many values.", none: none, steps: plain()}, metric.FoldPlanLookups)
	s.levels(view{title: "Full SLOs", about: "SLOs that have reached max_groups. Their new values share the group __other__, which never alerts.", unit: unitShort, none: none, steps: above(good, from(1, warning))}, metric.FoldFullSLOs)
	s.rates(view{title: "Work that is not tracked", about: "Start events per second of work beyond max_in_flight. Nobody learns whether it finishes in time.", none: none, steps: above(good, from(0.0001, warning))}, metric.FoldUntracked)
	s.rates(view{title: "Evictions", about: "Groups, parked generations and generations of ids per second that were evicted.", none: none, steps: plain()}, metric.FoldEvictedGroups, metric.FoldParkedEvicted, metric.DedupeGenerations)
	s.levels(view{title: "Memory of parked generations", about: "Memory of the counts of former definitions, and its maximum.", unit: unitBytes, none: none, steps: plain()}, metric.FoldParkedBytes, metric.FoldParkedLimitBytes)
	s.levels(view{title: "Parked generations", about: "Counts of definitions that have left the spec, retained in case they return.", unit: unitShort, none: none, steps: plain()}, metric.FoldParkedGenerations)

	b.row("Connections and pages")
	s.levels(view{title: "Connections", about: "Open client connections, and their maximum.", unit: unitShort, none: none, steps: plain()}, metric.HTTPConnections, metric.HTTPConnectionsLimit)
	s.rates(view{title: "New connections", about: "Connections per second, by what became of them.", none: none, steps: plain()}, metric.HTTPConnectionsTotal)
	s.rates(view{title: "Request bodies", about: "Bytes per second of request bodies after decompression.", unit: unitByteRate, none: none, steps: plain()}, metric.IngestBodyBytes)
	s.rates(view{title: "Responses of pages", about: "Responses per second, by how they came about.", none: none, steps: plain()}, metric.WebResponses)
	s.levels(view{title: "Memory of responses", about: "Memory of responses that are rendered, sent or cached, and its maximum.", unit: unitBytes, none: none, steps: plain()}, metric.WebResponseBytes, metric.WebResponseLimitBytes)
	s.levels(view{title: "Event streams", about: "Open event streams that refresh pages.", unit: unitShort, none: none, steps: plain()}, metric.WebStreams)
	s.rates(view{title: "New event streams", about: "Event streams per second, by result.", none: none, steps: plain()}, metric.WebStreamsTotal)
	s.rates(view{title: "Requests by token", about: "Requests per second by token and key, expired or not. Remove an old key from the tokens file when nothing uses it any more.", none: "no tokens are configured", steps: plain()}, metric.TokenRequests)
	s.levels(view{title: "Expiry and last use of keys", about: "Times at which keys expire, and at which requests last carried them.", unit: unitNone, none: "no tokens are configured", steps: plain()}, metric.TokenExpirySeconds, metric.TokenLastUsedSeconds)
	s.rates(view{title: "Audit log", about: "Actions of people per second, and failed attempts to record them on disk.", none: none, steps: plain()}, metric.AuditEntries, metric.AuditFailures)
	s.levels(view{title: "Waiting audit entries", about: "Actions that are not recorded on disk yet.", unit: unitShort, none: none, steps: above(good, from(1, bad))}, metric.AuditPending)
	s.rates(view{title: "Redaction", about: "Events per second from which a value was removed or masked, and values by action.", none: "no redaction is configured", steps: plain()}, metric.RedactEvents, metric.RedactValues)
	s.levels(view{title: "Parts in trouble", about: "1 while a part of the engine fails and keeps retrying.", unit: unitNone, none: none, steps: above(good, from(1, bad)), max: number(1)}, metric.IngestTrouble)

	// A view and clients run in other jobs than the engines that were picked.
	b.row("Views and clients")
	b.add(8, sheetHeight, lines(view{
		title: "Engines of a view", about: "1 if the counts of an engine are in the last report of the view. 0 if it did not answer, or runs another spec.",
		unit: unitNone, none: "no view is scraped", steps: above(bad, from(1, good)), max: number(1), queries: []query{{metric.FleetEngineUp.Name, "{{engine}}"}},
	}, lineStyle{}))
	b.add(8, sheetHeight, lines(view{
		title: "Answers for a view", about: "95th percentile of the time in which an engine answered the view, by engine.",
		unit: unitSeconds, none: "no view is scraped", steps: plain(),
		queries: []query{{"histogram_quantile(0.95, sum by (engine, le) (rate(" + metric.FleetFetchSeconds.Name + "_bucket" + interval + "))) >= 0", "{{engine}}"}},
	}, lineStyle{}))
	b.add(8, sheetHeight, lines(view{
		title: "Missing engines", about: "Reports per second of a view without the counts of an engine, by reason.",
		unit: unitRate, none: "no view is scraped", steps: failed,
		queries: []query{{"sum by (engine, reason) (rate(" + metric.FleetFailures.Name + interval + "))", "{{engine}}: {{reason}}"}},
	}, lineStyle{}))
	b.add(8, sheetHeight, lines(view{
		title: "Events of clients", about: "Events per second that clients in applications sent or spooled, by the engine's decision.",
		unit: unitRate, none: "no client is scraped", steps: plain(),
		queries: []query{{"sum by (" + strings.Join(metric.ClientEvents.LabelNames(), ", ") + ") (rate(" + metric.ClientEvents.Name + interval + "))", braces(metric.ClientEvents.LabelNames())}},
	}, lineStyle{stacked: true}))
	b.add(8, sheetHeight, lines(view{
		title: "Requests of clients", about: "95th percentile of the duration of a request from a client to the engine.",
		unit: unitSeconds, none: "no client is scraped", steps: plain(),
		queries: []query{{"histogram_quantile(0.95, sum by (job, le) (rate(" + metric.ClientRequestSeconds.Name + "_bucket" + interval + "))) >= 0", "{{job}}"}},
	}, lineStyle{}))
	b.add(8, sheetHeight, lines(view{
		title: "Queues of clients", about: "Bytes of events in the memory of clients that have not been sent.",
		unit: unitBytes, none: "no client is scraped", steps: plain(), queries: []query{{metric.ClientQueueBytes.Name, "{{job}}, {{instance}}"}},
	}, lineStyle{}))
	return b
}
