package dashboards

import "github.com/sloengine/sloengine/reliability/metric"

// Texts for what only some engines have.
const (
	noSinks   = "no sinks are configured"
	noTargets = "no Alertmanager and no receiver is configured"
	noReports = "no scheduled reports are configured"
)

// deliveryBoard shows everything between the log and a receiver: calls, retries, breakers, bulkheads, dead letters and
// their replays, notifications and reports.
func (g *generator) deliveryBoard() *board {
	b := g.board(UIDDelivery, "Delivery", "From the log to receivers: calls and their latency, retries, breakers, bulkheads, dead letters and their replays, notifications and reports.")
	b.Templating.List = g.engineVariables()
	s := sheet{b, 8}
	failed := above(good, from(0.001, bad))

	b.row("Deliveries")
	s.rates(view{title: "Delivered events", about: "Events per second that each sink received.", none: noSinks, steps: plain()}, metric.SinkDeliveredItems)
	s.took(view{title: "Call latency", about: "95th percentile of the duration of a call to each sink, successful or not.", none: noSinks}, metric.SinkCallSeconds)
	s.rates(view{title: "Calls", about: "Calls per second, by sink and outcome. Failures have the class of the error.", none: noSinks, steps: plain()}, metric.SinkCallsSucceeded, metric.SinkCallsFailed)
	s.rates(view{title: "Responses of HTTP sinks", about: "Responses per second, by sink and status code.", none: "no HTTP sink has answered", steps: plain()}, metric.SinkAnswers)
	s.levels(view{title: "Failing sinks", about: "1 from the first failure until the next success, by what fails: calls, flush, reading the log, dead letters, cursor or lag.", unit: unitNone, none: noSinks, steps: above(good, from(1, bad)), max: number(1)}, metric.SinkFailing)
	s.levels(view{title: "Sink lag (records)", about: "Log records that each sink has not received, and the batches in flight.", unit: unitShort, none: noSinks, steps: plain()}, metric.SinkLagRecords, metric.SinkInFlightBatches)
	s.rates(view{title: "Undelivered events", about: "Events per second that a sink did not get: dead letters by reason, drops by the rate limit of retries, records beyond max_lag_bytes, and records that had left the log.", none: noSinks, steps: failed}, metric.SinkDeadLetters, metric.SinkDroppedItems, metric.SinkSkippedRecords, metric.SinkMissedRecords)
	s.rates(view{title: "Errors of delivery", about: "Failures per second to save dead letters, to save the cursor and to make delivered events durable, and calls that did not return.", none: noSinks, steps: failed}, metric.SinkDeadLetterErrors, metric.SinkCursorErrors, metric.SinkFlushErrors, metric.SinkAbandonedCalls)
	s.rates(view{title: "Work past its deadline", about: "Requests and deliveries per second that were not started because their deadline had passed.", none: "no engine is scraped", steps: failed}, metric.DeadlineExpired)

	b.row("Retries")
	s.rates(view{title: "Retry attempts", about: "Attempts per second after a first one, by target.", none: noSinks, steps: plain()}, metric.RetryAttempts)
	s.took(view{title: "Retry delay", about: "95th percentile of the delay before a retry, including jitter.", none: noSinks}, metric.RetryDelaySeconds)
	s.rates(view{title: "Results of retries", about: "Events per second that a retry delivered, whose last retry failed, or that were rejected permanently.", none: noSinks, steps: plain()}, metric.RetrySuccessItems, metric.RetryExhaustedItems, metric.RetryPermanentFailureItems)
	s.rates(view{title: "Limits of retries", about: "Retries per second that waited for the retry budget, or were over the rate limit of retries.", none: noSinks, steps: above(good, from(0.001, warning))}, metric.RetryBudgetExhausted, metric.RetryRateLimited)
	s.levels(view{title: "Staged recovery", about: "1 while a recovered target receives its backlog in stages.", unit: unitNone, none: noSinks, steps: plain(), max: number(1)}, metric.RetryStaged)
	s.took(view{title: "Overhead of policies", about: "95th percentile of the time that breaker, bulkhead and time-out added to a call.", none: noSinks}, metric.RetryOverheadSeconds)

	b.row("Breakers and bulkheads")
	s.rates(view{title: "Breaker transitions", about: "State changes per second, by breaker and new state.", none: "no breakers", steps: plain()}, metric.BreakerTransitions)
	s.rates(view{title: "Calls at breakers", about: "Failures per second that count towards opening a breaker, and calls that an open breaker rejected.", none: "no breakers", steps: failed}, metric.BreakerFailures, metric.BreakerRejected)
	s.rates(view{title: "Health checks", about: "Background health checks per second while a breaker is open, by result.", none: "no breakers", steps: plain()}, metric.BreakerHealthChecks)
	s.levels(view{title: "Bulkheads", about: "Calls in flight and calls that wait for a slot, by bulkhead.", unit: unitShort, none: noSinks, steps: plain()}, metric.BulkheadActive, metric.BulkheadQueued)
	s.rates(view{title: "Calls rejected by bulkheads", about: "Calls per second that were rejected because no slot was free.", none: noSinks, steps: failed}, metric.BulkheadRejected)

	b.row("Dead letters")
	s.rates(view{title: "Replays", about: "Dead letters per second that were replayed, by result, and replays that were started.", none: "no dead letters", steps: plain()}, metric.DLQReplayed, metric.DLQReplayRuns)
	s.rates(view{title: "Removed dead letters", about: "Dead letters per second that left the queue: discarded, replayed, or past their retention.", none: "no dead letters", steps: plain()}, metric.DLQRemoved)
	s.rates(view{title: "Events that became no dead letter", about: "Events per second that a rule of the filter kept out, or that could not be saved, by reason.", none: "no dead letters", steps: failed}, metric.DLQDropped)
	s.levels(view{title: "Age of dead letters", about: "Age of the oldest dead letter.", unit: unitSeconds, none: "no dead letters", steps: plain()}, metric.DLQOldestSeconds)
	s.levels(view{title: "Size of dead letters", about: "Bytes of the dead letters, and of their files.", unit: unitBytes, none: "no dead letters", steps: plain()}, metric.DLQBytes, metric.DLQDiskBytes)
	s.took(view{title: "Saving dead letters", about: "95th percentile of the time to make a batch of dead letters durable.", none: "no dead letters"}, metric.DLQCommitSeconds)
	s.levels(view{title: "Damaged dead letters", about: "Damaged places in the files of the dead-letter queue and the dead letters that they can have held, and whether a write failed so that the engine must be restarted.", unit: unitShort, none: "no engine is scraped", steps: above(good, from(1, bad))}, metric.DLQDamaged, metric.DLQDamagedEntries, metric.DLQPoisoned)

	b.row("Notifications and reports")
	s.rates(view{title: "Sent alerts", about: "Alerts per second that each Alertmanager and receiver accepted, repetitions included.", none: noTargets, steps: plain()}, metric.NotifySent)
	s.rates(view{title: "Failed notifications", about: "Requests per second that failed, by class of error, and alerts that the engine gave up on.", none: noTargets, steps: failed}, metric.NotifyFailures, metric.NotifyDropped)
	s.levels(view{title: "Failing targets", about: "1 from the first failure of an Alertmanager or receiver until its next success.", unit: unitNone, none: noTargets, steps: above(good, from(1, bad)), max: number(1)}, metric.NotifyFailing)
	s.levels(view{title: "Notification latency", about: "Duration of the last request that succeeded.", unit: unitSeconds, none: noTargets, steps: plain()}, metric.NotifyLastSuccessTook)
	s.rates(view{title: "Sent reports", about: "Scheduled reports per second that were delivered, by report and kind of target.", none: noReports, steps: plain()}, metric.ReportsSent)
	s.levels(view{title: "Undelivered reports", about: "Targets to which a report is due, and those to which it could not be delivered.", unit: unitShort, none: noReports, steps: above(good, from(1, warning))}, metric.ReportsPending, metric.ReportsFailing)
	s.rates(view{title: "Failed reports", about: "Attempts per second that failed, and reports that were abandoned.", none: noReports, steps: failed}, metric.ReportsFailures, metric.ReportsAbandoned)
	return b
}
