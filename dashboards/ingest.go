package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// ingestBoard shows how events come in, what is turned away, and whether the
// engine keeps up.
func (g *generator) ingestBoard() *board {
	b := g.board(UIDIngest, "Ingest and rate limiting", "Events sent to the engine, accepted and refused, and whether log, fold and evaluation keep up.")
	b.Templating.List = g.engineVariables()
	yesNo := func(yes, no string) []mapping {
		return []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: no, Color: bad, Index: 0}, "1": {Text: yes, Color: good, Index: 1},
		}}}
	}
	const silent = "no engine is scraped"

	b.row("State")
	b.add(4, 4, stat(view{
		title: "Ready", about: "Whether the engine accepts events: it has recovered, the disk has space, and the log can be written.",
		unit: unitNone, none: silent, steps: above(bad, from(1, good)), maps: yesNo("ready", "not ready"),
		queries: []query{{gauge(metric.IngestReady.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Watermark age", about: "Age of the last durable record. An idle engine writes a heartbeat every ten seconds, so the age stays small while it runs.",
		unit: unitSeconds, none: silent, steps: above(good, from(60, warning), from(300, bad)),
		queries: []query{{"time() - " + gauge(metric.IngestWatermarkSeconds.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Dedup window", about: "How far back the engine recognises a duplicate id at the current event rate. An event that is resent after a longer time counts twice.",
		unit: unitSeconds, none: silent, steps: above(bad, from(3600, warning), from(86400, good)),
		queries: []query{{gauge(metric.DedupeWindowSeconds.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Free disk", about: "Free space on the disk of the data directory. Below the low-water mark the engine accepts no events.",
		unit: unitBytes, none: silent, steps: above(bad, from(512<<20, warning), from(2<<30, good)),
		queries: []query{{gauge(metric.IngestDiskFreeBytes.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Last checkpoint", about: "Age of the last checkpoint. The next start replays the log from there.",
		unit: unitSeconds, none: silent, steps: above(good, from(300, warning), from(1800, bad)),
		queries: []query{{gauge(metric.CheckpointAgeSeconds.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Last reload", about: "Whether the last reload of spec and tokens succeeded. After a failed reload the previous spec stays in use.",
		unit: unitNone, none: silent, steps: above(bad, from(1, good)), maps: yesNo("succeeded", "failed"),
		queries: []query{{gauge(metric.ReloadLastOK.Name), "{{instance}}"}},
	}))

	b.row("Events")
	b.add(12, 8, lines(view{
		title: "Events by result", about: "Events per second by result: accepted, duplicate, or rejected as invalid.",
		unit: unitRate, none: silent, steps: plain(),
		queries: []query{{sumRate("result", metric.IngestEvents.Name), "{{result}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 8, lines(view{
		title: "Rejected events by reason", about: "Rejected events per second by error code. \"unlisted\" are events beyond the errors and ranges that an answer lists.",
		unit: unitRate, none: "nothing was rejected", steps: plain(),
		queries: []query{{sumRate("code", metric.IngestRejected.Name) + " > 0", "{{code}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Requests by status", about: "Responses per second by HTTP status.",
		unit: unitRate, none: "no requests", steps: plain(),
		queries: []query{{sumRate("code", metric.IngestRequests.Name) + " > 0", "{{code}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Request duration", about: "Duration of requests with events, from the first byte to the response, including the wait for the disk. Interpolated within the buckets of the histogram.",
		unit: unitSeconds, none: "no requests", steps: above(good, from(1, bad)),
		queries: []query{
			{quantile("0.5", metric.IngestRequestDurationSeconds.Name), "median"},
			{quantile("0.99", metric.IngestRequestDurationSeconds.Name), "99th percentile"},
		},
	}, lineStyle{}))
	b.add(8, 8, lines(view{
		title: "Bytes received", about: "Bytes of event bodies per second, as sent.",
		unit: unitByteRate, none: silent, steps: plain(),
		queries: []query{{sumRate("instance", metric.IngestReceivedBytes.Name), "{{instance}}"}},
	}, lineStyle{}))

	b.row("Rate limits and overload")
	b.add(8, 8, lines(view{
		title: "Refused requests", about: "Responses per second that ask the sender to retry later: 429 rate limit exceeded, 503 overload, full disk or recovery, 504 deadline passed.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("code", metric.IngestRequests.Name, `code=~"429|503|504"`), "{{code}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Why unavailable", about: "Requests per second that could not be made durable, by reason.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("reason", metric.IngestUnavailable.Name), "{{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Refused senders", about: "Requests per second without a token, with an unknown or expired one, or without the permission they need.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("reason", metric.IngestAuthFailures.Name), "{{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 7, lines(view{
		title: "Memory of requests", about: "Bytes of request bodies that are being read and decoded, and of batches that wait for the disk. At the limit of either, new requests get a 503.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{
			{gauge(metric.IngestInFlightBytes.Name), "bodies, {{instance}}"},
			{gauge(metric.IngestQueueBytes.Name), "waiting, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(12, 7, lines(view{
		title: "Requests in flight", about: "Requests that are being read or decoded, and requests that wait for the disk.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{
			{gauge(metric.IngestInFlightRequests.Name), "in flight, {{instance}}"},
			{gauge(metric.IngestQueueRequests.Name), "waiting, {{instance}}"},
		},
	}, lineStyle{}))

	b.row("Deduplication")
	b.add(8, 7, lines(view{
		title: "Duplicates", about: "Events per second whose id was already accepted. They are not counted again.",
		unit: unitRate, none: silent, steps: plain(),
		queries: []query{
			{sumRate("instance", metric.DedupeDuplicates.Name), "repeats, {{instance}}"},
			{sumRate("instance", metric.IngestStoredEvents.Name), "new, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Deduplication table: ids", about: "Ids in the deduplication table.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{{gauge(metric.DedupeIDs.Name), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Deduplication table: memory", about: "Memory of the deduplication table. At its limit the oldest ids are evicted, and their duplicates count again.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{{gauge(metric.DedupeBytes.Name), "{{instance}}"}},
	}, lineStyle{}))

	b.row("Log and fold")
	b.add(8, 7, lines(view{
		title: "Append and sync duration", about: "Time to append a group of waiting requests to the log, and average time to sync it to disk.",
		unit: unitSeconds, none: silent, steps: above(good, from(0.1, warning), from(1, bad)),
		queries: []query{
			{quantile("0.99", metric.IngestAppendDurationSeconds.Name), "append, 99th percentile"},
			{mean(metric.WALSyncSeconds.Name), "sync, mean, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Size of the log", about: "Bytes of the write-ahead log. Segments that a checkpoint covers are removed.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{{gauge(metric.WALBytes.Name), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Written", about: "Bytes written per second to the log and in checkpoints.",
		unit: unitByteRate, none: silent, steps: plain(),
		queries: []query{
			{sumRate("instance", metric.WALAppendedBytes.Name), "log, {{instance}}"},
			{sumRate("instance", metric.CheckpointWrittenBytes.Name), "checkpoints, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Records not yet counted", about: "Durable records that the fold has not counted yet. Stays near 0 while the fold keeps up.",
		unit: unitShort, none: silent, steps: above(good, from(10_000, warning), from(100_000, bad)),
		queries: []query{{gauge(metric.FoldLagRecords.Name), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Late and refused events", about: "Events per second that arrived more than a minute late, that were older than every window, or that could not be counted and became dead letters.",
		unit: unitRate, none: silent, steps: plain(),
		queries: []query{
			{sumRate("", metric.FoldLateEvents.Name), "late"},
			{sumRate("", metric.FoldTooOldEvents.Name), "older than every window"},
			{sumRate("", metric.FoldRefusedEvents.Name), "refused"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Requests per sync", about: "Requests that share one write and one sync of the log. Increases under load.",
		unit: unitShort, none: "no requests", steps: plain(),
		queries: []query{{sumRate("instance", metric.IngestRequests.Name, `code="202"`) + " / (" + sumRate("instance", metric.IngestGroups.Name) + " > 0)", "{{instance}}"}},
	}, lineStyle{}))
	b.add(6, 5, stat(view{
		title: "Failed writes", about: "Failed log writes per second, because the disk is full or for another reason. Investigate any value above 0.",
		unit: unitRate, none: silent, steps: above(good, from(1e-9, bad)),
		queries: []query{{sumRate("reason", metric.WALAppendErrors.Name), "{{reason}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Log is poisoned", about: "After a failed sync the state of the disk is unknown, so the engine refuses events until it is restarted.",
		unit: unitNone, none: silent, steps: above(good, from(1, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "no", Color: good, Index: 0}, "1": {Text: "poisoned", Color: bad, Index: 1},
		}}},
		queries: []query{{gauge(metric.WALPoisoned.Name), "{{instance}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Damage found", about: "Damaged places found in the log since the engine started.",
		unit: unitShort, none: silent, steps: above(good, from(1, bad)),
		queries: []query{{gauge(metric.WALCorruptions.Name), "{{instance}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Failed checkpoints", about: "Failed checkpoints since the engine started. The engine retains the log until a checkpoint succeeds.",
		unit: unitShort, none: silent, steps: above(good, from(1, warning)),
		queries: []query{{gauge(metric.CheckpointFailures.Name), "{{instance}}"}},
	}))

	b.row("Evaluation and process")
	b.add(8, 7, lines(view{
		title: "Evaluation duration", about: "Time to make a report from the counts. It must stay below evaluator.interval, which is 10s by default.",
		unit: unitSeconds, none: silent, steps: above(good, from(5, warning), from(10, bad)),
		queries: []query{
			{quantile("0.5", metric.EvaluateSeconds.Name), "median"},
			{quantile("0.99", metric.EvaluateSeconds.Name), "99th percentile"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Failed and late evaluations", about: "Reports per second that failed, or took longer than the interval.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{
			{sumRate("", metric.EvaluateErrors.Name), "failed"},
			{sumRate("", metric.EvaluateLate.Name), "late"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Groups", about: "Counted groups, and groups in the latest report. Constant growth indicates an attribute with unbounded values.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{
			{gauge(metric.FoldGroups.Name), "counted, {{instance}}"},
			{gauge(metric.EvaluateGroups.Name), "in the report, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "CPU", about: "CPU seconds per second of the process.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{{sumRate("instance", "process_cpu_seconds_total"), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Memory", about: "Resident memory of the process, and the part that the counts use.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{
			{gauge("process_resident_memory_bytes"), "process, {{instance}}"},
			{gauge(metric.FoldBytes.Name), "counts, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Goroutines", about: "Goroutines of the process. Constant growth indicates a leak.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{{gauge("go_goroutines"), "{{instance}}"}},
	}, lineStyle{}))
	return b
}
