package alerts

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo"
)

// Names of the alerts on the relay of an outbox.
const (
	NameOutboxNotReady = "OutboxRelayNotReady"
	NameOutboxStuck    = "OutboxStuck"
	NameOutboxFailing  = "OutboxFailing"
	NameOutboxLagging  = "OutboxLagging"
)

// outboxAlerts are about `sloengine relay`. All relays of a job count the rows of one table.
func outboxAlerts(t EngineThresholds) []engineAlert {
	perJob := func(aggregate, by, expr string) string { return aggregate + " by (job" + by + ") (" + expr + ")" }
	const job = "{{ $labels.job }}"
	latency := number(t.OutboxLatency.Seconds())
	return []engineAlert{
		{NameOutboxNotReady, SeverityTicket, ImpactHigh,
			"max by (job, instance, part) (" + metric.OutboxReady.Name + ") == 0", 5 * time.Minute,
			"Relay {{ $labels.instance }} of {{ $labels.job }} cannot use its {{ $labels.part }}",
			"The {{ $labels.part }} has refused or not answered the relay for 5m (ready: {{ $value }}). Rows stay in the outbox and are published later. `/-/ready` of the relay shows the cause."},
		{NameOutboxStuck, SeverityTicket, ImpactHigh,
			perJob("max", "", metric.OutboxPendingRows.Name) + " > " + fmt.Sprint(t.OutboxPending), 5 * time.Minute,
			"Outbox of " + job + " has too many unpublished rows",
			"{{ $value | humanize }} rows wait to be published (threshold " + fmt.Sprint(t.OutboxPending) + "). Their events arrive late at everybody who reads the broker."},
		{NameOutboxFailing, SeverityTicket, ImpactHigh,
			perJob("sum", ", topic", increase(metric.OutboxFailed.Name, 5)) + " / 300 > " + number(t.OutboxFailures), 2 * time.Minute,
			"Outbox of " + job + " gives up rows for {{ $labels.topic }}",
			"{{ $value | humanize }} rows per second are given up after all their attempts (threshold " + number(t.OutboxFailures) + "). They have the status FAILED, and a message about each is in the Kafka topic, RabbitMQ queue or HTTP address of `dead_letter`, if the relay has one."},
		{NameOutboxLagging, SeverityTicket, ImpactMedium,
			"histogram_quantile(0.95, " + perJob("sum", ", le", "rate("+metric.OutboxLatency.Name+"_bucket[5m])") + ") > " + latency +
				" or " + perJob("max", "", metric.OutboxOldestPending.Name) + " > " + latency, 5 * time.Minute,
			"Outbox of " + job + " publishes late",
			"Rows are published {{ $value | humanizeDuration }} after they were written: 5 % of the last 5m, or the oldest that waits (threshold " + slo.FormatDuration(t.OutboxLatency) + ")."},
	}
}
