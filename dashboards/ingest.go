package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// ingestBoard shows how events come in, what is turned away, and whether the
// engine keeps up.
func (g *generator) ingestBoard() *board {
	b := g.board(UIDIngest, "Ingest and rate limiting", "What is sent to the engine, what it takes and what it turns away, and whether log, counts and evaluation keep up.")
	b.Templating.List = g.engineVariables()
	yesNo := func(yes, no string) []mapping {
		return []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: no, Color: bad, Index: 0}, "1": {Text: yes, Color: good, Index: 1},
		}}}
	}
	const silent = "no engine is scraped"

	b.row("State")
	b.add(4, 4, stat(view{
		title: "Ready", about: "Whether the engine takes events: it has recovered, the disk has room, and the log can be written.",
		unit: unitNone, none: silent, steps: above(bad, from(1, good)), maps: yesNo("ready", "not ready"),
		queries: []query{{gauge(metric.IngestReady.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Behind the clock", about: "Age of the last durable record. An idle engine writes a sign of life every ten seconds, so this stays small as long as it runs.",
		unit: unitSeconds, none: silent, steps: above(good, from(60, warning), from(300, bad)),
		queries: []query{{"time() - " + gauge(metric.IngestWatermarkSeconds.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Dedup window", about: "How far back a duplicate is recognised by its id at the present rate, within the memory of the deduplication table. A sender that retries for longer than this can count an event twice.",
		unit: unitSeconds, none: silent, steps: above(bad, from(3600, warning), from(86400, good)),
		queries: []query{{gauge(metric.DedupeWindowSeconds.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Free disk", about: "Room on the disk of the data folder. Below the low-water mark the engine takes no more events.",
		unit: unitBytes, none: silent, steps: above(bad, from(512<<20, warning), from(2<<30, good)),
		queries: []query{{gauge(metric.IngestDiskFreeBytes.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Last checkpoint", about: "Age of the last checkpoint. The log since then is counted again at the next start.",
		unit: unitSeconds, none: silent, steps: above(good, from(300, warning), from(1800, bad)),
		queries: []query{{gauge(metric.CheckpointAgeSeconds.Name), "{{instance}}"}},
	}))
	b.add(4, 4, stat(view{
		title: "Last reload", about: "Whether the last reload of spec and tokens worked. After a failed one the old spec stays in force.",
		unit: unitNone, none: silent, steps: above(bad, from(1, good)), maps: yesNo("in force", "failed"),
		queries: []query{{gauge(metric.ReloadLastOK.Name), "{{instance}}"}},
	}))

	b.row("Events")
	b.add(12, 8, lines(view{
		title: "Events by result", about: "Events per second by what became of them: accepted, known already (duplicate), or rejected as invalid.",
		unit: unitRate, none: silent, steps: plain(),
		queries: []query{{sumRate("result", metric.IngestEvents.Name), "{{result}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 8, lines(view{
		title: "Rejected events by reason", about: "Invalid events per second by the code that the sender was given. \"unlisted\" are those beyond the first hundred of a request.",
		unit: unitRate, none: "nothing was rejected", steps: plain(),
		queries: []query{{sumRate("code", metric.IngestRejected.Name) + " > 0", "{{code}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Requests by status", about: "Answers per second by HTTP status.",
		unit: unitRate, none: "no requests", steps: plain(),
		queries: []query{{sumRate("code", metric.IngestRequests.Name) + " > 0", "{{code}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Time to answer", about: "How long requests with events take, from the first byte to the answer, with the wait for the disk. Interpolated within the histogram's buckets.",
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

	b.row("Limits and overload")
	b.add(8, 8, lines(view{
		title: "Turned away", about: "Answers per second that ask the sender to come again later: 429 quota used up, 503 overload, full disk or recovery, 504 deadline passed.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("code", metric.IngestRequests.Name, `code=~"429|503|504"`), "{{code}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Why unavailable", about: "Requests per second that could not be made durable, by reason.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("reason", metric.IngestUnavailable.Name), "{{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(8, 8, lines(view{
		title: "Refused senders", about: "Requests per second without a token, with an unknown one, or without the permission they need.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{{sumRate("reason", metric.IngestAuthFailures.Name), "{{reason}}"}},
	}, lineStyle{stacked: true}))
	b.add(12, 7, lines(view{
		title: "Memory of requests", about: "Bytes held by bodies that are being read and decoded, and by batches that wait for the disk. At their limits, new requests are answered with 503.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{
			{gauge(metric.IngestInFlightBytes.Name), "bodies, {{instance}}"},
			{gauge(metric.IngestQueueBytes.Name), "waiting, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(12, 7, lines(view{
		title: "Requests under way", about: "Requests being read or decoded, and requests that wait for the disk.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{
			{gauge(metric.IngestInFlightRequests.Name), "under way, {{instance}}"},
			{gauge(metric.IngestQueueRequests.Name), "waiting, {{instance}}"},
		},
	}, lineStyle{}))

	b.row("Counted once")
	b.add(8, 7, lines(view{
		title: "Repeats", about: "Events per second that were known already. They are answered as duplicates and not counted again.",
		unit: unitRate, none: silent, steps: plain(),
		queries: []query{
			{sumRate("instance", metric.DedupeDuplicates.Name), "repeats, {{instance}}"},
			{sumRate("instance", metric.IngestStoredEvents.Name), "new, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Deduplication table: ids", about: "Event ids in memory, by which duplicates are recognised.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{{gauge(metric.DedupeIDs.Name), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Deduplication table: memory", about: "Memory of the deduplication table. At its limit the oldest ids are evicted, and their duplicates count again.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{{gauge(metric.DedupeBytes.Name), "{{instance}}"}},
	}, lineStyle{}))

	b.row("Log and counts")
	b.add(8, 7, lines(view{
		title: "Time to make durable", about: "How long it takes to append a group of waiting requests to the log, and on average to sync it to disk.",
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
		title: "Records not yet counted", about: "Durable records that are not in the counts yet. Stays near 0 while the fold keeps up.",
		unit: unitShort, none: silent, steps: above(good, from(10_000, warning), from(100_000, bad)),
		queries: []query{{gauge(metric.FoldLagRecords.Name), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Late and refused events", about: "Events per second that came more than a minute after their time, that were older than every window, or that could not be counted and became dead letters.",
		unit: unitRate, none: silent, steps: plain(),
		queries: []query{
			{sumRate("", metric.FoldLateEvents.Name), "late"},
			{sumRate("", metric.FoldTooOldEvents.Name), "older than every window"},
			{sumRate("", metric.FoldRefusedEvents.Name), "refused"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Requests per sync", about: "Requests that share one write and one sync of the log; more under load.",
		unit: unitShort, none: "no requests", steps: plain(),
		queries: []query{{sumRate("instance", metric.IngestRequests.Name, `code="202"`) + " / (" + sumRate("instance", metric.IngestGroups.Name) + " > 0)", "{{instance}}"}},
	}, lineStyle{}))
	b.add(6, 5, stat(view{
		title: "Failed writes", about: "Log writes per second that failed, for lack of room or otherwise. Anything but 0 needs a look.",
		unit: unitRate, none: silent, steps: above(good, from(1e-9, bad)),
		queries: []query{{sumRate("reason", metric.WALAppendErrors.Name), "{{reason}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Log is poisoned", about: "After a failed sync nothing more can be promised about what is written: the engine refuses events until it is started again.",
		unit: unitNone, none: silent, steps: above(good, from(1, bad)),
		maps: []mapping{{Type: "value", Options: map[string]mappedValue{
			"0": {Text: "no", Color: good, Index: 0}, "1": {Text: "poisoned", Color: bad, Index: 1},
		}}},
		queries: []query{{gauge(metric.WALPoisoned.Name), "{{instance}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Damage found", about: "Damaged places that were found in the log since the engine started.",
		unit: unitShort, none: silent, steps: above(good, from(1, bad)),
		queries: []query{{gauge(metric.WALCorruptions.Name), "{{instance}}"}},
	}))
	b.add(6, 5, stat(view{
		title: "Failed checkpoints", about: "Checkpoints that failed since the engine started. The log is kept for longer until one works.",
		unit: unitShort, none: silent, steps: above(good, from(1, warning)),
		queries: []query{{gauge(metric.CheckpointFailures.Name), "{{instance}}"}},
	}))

	b.row("Evaluation and process")
	b.add(8, 7, lines(view{
		title: "Time to evaluate", about: "How long it takes to make a report out of the counts. It must stay below the interval of ten seconds.",
		unit: unitSeconds, none: silent, steps: above(good, from(5, warning), from(10, bad)),
		queries: []query{
			{quantile("0.5", metric.EvaluateSeconds.Name), "median"},
			{quantile("0.99", metric.EvaluateSeconds.Name), "99th percentile"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Evaluations that failed or were late", about: "Reports per second that could not be made, or took longer than the interval.",
		unit: unitRate, none: silent, steps: above(good, from(0.001, bad)),
		queries: []query{
			{sumRate("", metric.EvaluateErrors.Name), "failed"},
			{sumRate("", metric.EvaluateLate.Name), "late"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Groups", about: "Groups that are counted, and groups in the latest report. Growth without end means a label with unbounded values.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{
			{gauge(metric.FoldGroups.Name), "counted, {{instance}}"},
			{gauge(metric.EvaluateGroups.Name), "in the report, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Processor time", about: "Seconds of processor time per second, of the whole process.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{{sumRate("instance", "process_cpu_seconds_total"), "{{instance}}"}},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Memory", about: "Resident memory of the process, and what the counts take up of it.",
		unit: unitBytes, none: silent, steps: plain(),
		queries: []query{
			{gauge("process_resident_memory_bytes"), "process, {{instance}}"},
			{gauge(metric.FoldBytes.Name), "counts, {{instance}}"},
		},
	}, lineStyle{}))
	b.add(8, 7, lines(view{
		title: "Goroutines", about: "Goroutines of the process. Growth without end is a leak.",
		unit: unitShort, none: silent, steps: plain(),
		queries: []query{{gauge("go_goroutines"), "{{instance}}"}},
	}, lineStyle{}))
	return b
}
