package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// EngineThresholds are the limits of the alerts on the engine itself. Zero
// fields get the default named beside them.
type EngineThresholds struct {
	DiskFreeBytes   uint64        `yaml:"disk_free" above:"0" is:"size"`    // 1 GiB; the engine itself refuses events below 256 MiB
	DeadLetters     uint64        `yaml:"dead_letters" above:"0"`           // 10,000 retained
	DeadLetterGrow  uint64        `yaml:"dead_letters_growth" above:"0"`    // 100 more within half an hour
	RetriesPerSec   float64       `yaml:"retries" above:"0"`                // 50 events of one target; retry.rate_limit lets 100 through by default
	LimitHits       float64       `yaml:"limit_hits" above:"0"`             // 10 per second over all layers
	LimitDrops      float64       `yaml:"limit_drops" above:"0"`            // 100 per second
	TypeHits        float64       `yaml:"type_hits" above:"0"`              // 50 per minute for one event type
	ContextHits     float64       `yaml:"context_hits" above:"0"`           // 100 per minute over all callers' own limits
	ClientFailures  float64       `yaml:"client_failures" above:"0"`        // 10 per second
	RejectedShare   float64       `yaml:"rejected_share" above:"0" max:"1"` // 0.05 of all events
	SinkLag         time.Duration `yaml:"sink_lag" above:"0"`               // 5m: age of the oldest event that a sink lacks
	FoldLagRecords  uint64        `yaml:"fold_lag" above:"0"`               // 100,000
	CriticalLimited float64       `yaml:"critical_limited" min:"0"`         // 0 per second: one is too many

	DeadLetteredRate  float64 `yaml:"dead_lettered_rate" above:"0"`          // 10 messages per minute from RabbitMQ's dead-letter queue
	DeadLetteredShare float64 `yaml:"dead_lettered_share" above:"0" max:"1"` // 0.05 of all events that are counted
	DeadLetterDepth   uint64  `yaml:"dead_letter_queue_depth" above:"0"`     // 100 messages in RabbitMQ's dead-letter queue

	OutboxPending  uint64        `yaml:"outbox_pending" above:"0"`  // 1000 rows that are not published
	OutboxFailures float64       `yaml:"outbox_failures" above:"0"` // 0.1 rows per second that are given up
	OutboxLatency  time.Duration `yaml:"outbox_latency" above:"0"`  // 5m: 95th percentile of the time until a row is published
}

// WithDefaults fills in what is not set.
func (t EngineThresholds) WithDefaults() EngineThresholds {
	set(&t.DiskFreeBytes, 1<<30)
	set(&t.DeadLetters, 10_000)
	set(&t.DeadLetterGrow, 100)
	set(&t.RetriesPerSec, 50)
	set(&t.LimitHits, 10)
	set(&t.LimitDrops, 100)
	set(&t.TypeHits, 50)
	set(&t.ContextHits, 100)
	set(&t.ClientFailures, 10)
	set(&t.RejectedShare, 0.05)
	set(&t.SinkLag, 5*time.Minute)
	set(&t.FoldLagRecords, 100_000)
	set(&t.DeadLetteredRate, 10)
	set(&t.DeadLetteredShare, 0.05)
	set(&t.DeadLetterDepth, 100)
	set(&t.OutboxPending, 1000)
	set(&t.OutboxFailures, 0.1)
	set(&t.OutboxLatency, 5*time.Minute)
	return t
}

func set[T comparable](p *T, d T) {
	var zero T
	if *p == zero {
		*p = d
	}
}

// engineAlert is one alert on the engine.
type engineAlert struct {
	name, severity, impact string
	expr                   string
	wait                   time.Duration
	summary, description   string
}

// perInstance sums rates per engine, so that a sick replica is not hidden by
// healthy ones.
func perInstance(by, expr string) string {
	if by != "" {
		by = ", " + by
	}
	return "sum by (job, instance" + by + ") (" + expr + ")"
}

// ProcessStart is the series, of Prometheus' client libraries, with the time at which a process began.
const ProcessStart = "process_start_time_seconds"

// increase is how much counters have grown in the last minutes. Unlike PromQL's increase(), it counts what a counter has at its
// first sample, such as the dead letters that arrived before the first scrape of a new engine: if the process is newer
// than that, or was scraped that long ago without the counter. A counter that is only new to Prometheus counts nothing.
func increase(metric string, minutes int) string {
	ago := fmt.Sprintf(" offset %dm", minutes)
	return metric + " unless " + metric + ago +
		" and on (job, instance) (" + ProcessStart + ago + fmt.Sprintf(" or time() - %s < %d)", ProcessStart, 60*minutes) +
		fmt.Sprintf(" or increase(%s[%dm])", metric, minutes)
}

func engineAlerts(t EngineThresholds) []engineAlert {
	rate := func(metric string) string { return "rate(" + metric + "[5m])" }
	over := func(expr string, limit float64) string { return expr + " > " + number(limit) }
	const at = "{{ $labels.instance }}"
	return append([]engineAlert{
		{NameIngestUnavailable, SeverityPage, ImpactHigh,
			over(perInstance("reason", rate(metric.IngestUnavailable.Name)), 0), 2 * time.Minute,
			"Engine " + at + " refuses requests: {{ $labels.reason }}",
			"{{ $value | humanize }} requests per second are refused with reason {{ $labels.reason }}. Senders retry, and lose the events that they cannot buffer until then."},
		{NameIngestRejecting, SeverityTicket, ImpactMedium,
			perInstance("", rate(metric.IngestEvents.Name+`{result="rejected"}`)) + " / " + perInstance("", rate(metric.IngestEvents.Name)) + " > " + number(t.RejectedShare), 5 * time.Minute,
			"Engine " + at + " rejects events as invalid",
			"{{ $value | humanizePercentage }} of events were rejected as invalid over the last 5m (threshold " + percent(t.RejectedShare) + "). Rejected events are not counted."},
		{NameEngineNotReady, SeverityPage, ImpactHigh,
			metric.IngestReady.Name + " == 0", 10 * time.Minute,
			"Engine " + at + " is not ready",
			"The engine has been recovering or stopped for 10m. Until it is ready, it counts no events and makes no reports."},
		{NameDiskLow, SeverityPage, ImpactHigh,
			metric.IngestDiskFreeBytes.Name + " < " + fmt.Sprint(t.DiskFreeBytes), 5 * time.Minute,
			"Engine " + at + " is low on disk space",
			"{{ $value | humanize1024 }}B of disk space are free (threshold " + bytes(t.DiskFreeBytes) + "). On a full disk, the engine refuses all events."},
		{NameDiskFilling, SeverityTicket, ImpactMedium,
			"predict_linear(" + metric.IngestDiskFreeBytes.Name + "[1h], 4 * 3600) < 0 and " + metric.IngestDiskFreeBytes.Name + " offset 15m", 15 * time.Minute,
			"Disk of engine " + at + " will be full within 4h",
			"At the rate of the last hour, the disk will be full within 4h (predicted free space: {{ $value | humanize1024 }}B). On a full disk, the engine refuses all events."},
		{NameLogPoisoned, SeverityPage, ImpactHigh,
			metric.WALPoisoned.Name + " > 0", 0,
			"Engine " + at + " failed to write to its write-ahead log",
			"A write or fsync of the write-ahead log failed, so the state on disk is unknown. The engine refuses all events until it is restarted."},
		{NameFoldLagging, SeverityTicket, ImpactMedium,
			metric.FoldLagRecords.Name + " > " + fmt.Sprint(t.FoldLagRecords), 5 * time.Minute,
			"Engine " + at + " is behind with counting",
			"{{ $value | humanize }} stored records are not counted yet (threshold " + fmt.Sprint(t.FoldLagRecords) + "). No events are lost, but all figures are out of date."},
		{NameGroupsFull, SeverityTicket, ImpactHigh,
			metric.FoldFullSLOs.Name + " > 0", 5 * time.Minute,
			"Engine " + at + " has SLOs that reached max_groups",
			"{{ $value }} SLOs have reached max_groups. New values share the group __other__, which never alerts. The page /engine lists these SLOs."},
		{NameWorkUntracked, SeverityTicket, ImpactHigh,
			over(perInstance("", increase(metric.FoldUntracked.Name, 10)), 0), time.Minute,
			"Engine " + at + " does not track all work in flight",
			"{{ $value | humanize }} start events of the last 10m came while max_in_flight was reached. Their work is not tracked, and nobody learns whether it finishes in time. The page /engine names the SLOs."},
		{NameEvaluatorLate, SeverityTicket, ImpactMedium,
			"increase(" + metric.EvaluateLate.Name + "[10m]) / increase(" + metric.EvaluateTicks.Name + "[10m]) > 0.5", 5 * time.Minute,
			"Evaluator of engine " + at + " is late",
			"{{ $value | humanizePercentage }} of evaluations took longer than the evaluation interval over the last 10m. Live alerts and the page are out of date."},
		{NameEvaluatorStopped, SeverityPage, ImpactHigh,
			"increase(" + metric.EvaluateTicks.Name + "[5m]) == 0", 5 * time.Minute,
			"Evaluator of engine " + at + " has stopped",
			"{{ $value }} evaluations completed over the last 5m. States, scores and the page are frozen, and no live alert on an SLO or agreement can fire."},

		{NameBreakerOpen, SeverityTicket, ImpactMedium,
			metric.BreakerState.Name + " == 2", time.Minute,
			"Breaker {{ $labels.breaker }} of engine " + at + " is open",
			"Calls through {{ $labels.breaker }} failed too often and are no longer attempted (state {{ $value }}: 0 closed, 1 half-open, 2 open)."},
		{NameDeadLettersMany, SeverityTicket, ImpactHigh,
			perInstance("", metric.DLQEntries.Name) + " > " + fmt.Sprint(t.DeadLetters), 5 * time.Minute,
			"Engine " + at + " stores too many dead letters",
			"{{ $value | humanize }} dead letters are stored (threshold " + fmt.Sprint(t.DeadLetters) + "). Their events are not counted until they are replayed."},
		{NameDeadLettersGrowing, SeverityTicket, ImpactMedium,
			perInstance("origin", "delta("+metric.DLQEntries.Name+"[30m])") + " > " + fmt.Sprint(t.DeadLetterGrow) +
				" or " + perInstance("", "increase("+metric.FoldDeadLetters.Name+"[30m])") + " > " + fmt.Sprint(t.DeadLetterGrow), 5 * time.Minute,
			"Dead letters of engine " + at + " are growing",
			"{{ $value | humanize }} dead letters were added over the last 30m{{ with $labels.origin }}, with origin {{ . }}{{ end }} (threshold " + fmt.Sprint(t.DeadLetterGrow) + ")."},
		{NameDeadLettersLimited, SeverityTicket, ImpactMedium,
			over(perInstance("", rate(metric.DLQSaved.Name+`{reason="rate_limited"}`)), 50), 5 * time.Minute,
			"Rate limits of engine " + at + " fill the dead-letter queue",
			"{{ $value | humanize }} rate-limited events per second are stored as dead letters (threshold 50)."},
		{NameRetryRateHigh, SeverityTicket, ImpactMedium,
			over(perInstance("target", rate(metric.RetryAttemptedItems.Name)), t.RetriesPerSec), 2 * time.Minute,
			"Engine " + at + " retries {{ $labels.target }} at a high rate",
			"{{ $value | humanize }} events per second are retried (threshold " + number(t.RetriesPerSec) + "). The target is failing, and retries add to its load."},

		{NameRateLimitHit, SeverityTicket, ImpactLow,
			over(perInstance("", rate(metric.RateLimitHits.Name)), t.LimitHits), 2 * time.Minute,
			"Rate limits of engine " + at + " are exceeded often",
			"{{ $value | humanize }} events per second exceed a rate limit (threshold " + number(t.LimitHits) + "). Possible causes are a retry storm, an attack, or a limit that is too low."},
		{NameRateLimitDropping, SeverityTicket, ImpactHigh,
			over(perInstance("", rate(metric.RateLimitDropped.Name)), t.LimitDrops), time.Minute,
			"Rate limits of engine " + at + " drop events at a high rate",
			"{{ $value | humanize }} events per second are dropped (threshold " + number(t.LimitDrops) + "). Drops lower coverage, and indicators are based on the remaining events."},
		{NameRateLimitType, SeverityTicket, ImpactLow,
			over(perInstance("type", rate(metric.RateLimitHits.Name+`{layer="type"}`))+" * 60", t.TypeHits), 2 * time.Minute,
			"Engine " + at + " receives too many events of type {{ $labels.type }}",
			"{{ $value | humanize }} events per minute exceed the rate limit of their type (threshold " + number(t.TypeHits) + "). The type (default) stands for all types without a limit of their own."},
		{NameRateLimitContext, SeverityTicket, ImpactLow,
			over(perInstance("", rate(metric.RateLimitHits.Name+`{layer="context"}`))+" * 60", t.ContextHits), 2 * time.Minute,
			"Callers of engine " + at + " exceed their rate limit",
			"{{ $value | humanize }} events per minute exceed the rate limit of their caller (threshold " + number(t.ContextHits) + "). The page /engine lists the callers."},
		{NameRateLimitNear, SeverityTicket, ImpactLow,
			utilisation() + " > 0.8", time.Minute,
			"Rate limit {{ $labels.layer }} of engine " + at + " is nearly exhausted",
			"{{ $value | humanizePercentage }} of the rate limit is used (threshold 80 %)."},
		{NameRateLimitReached, SeverityTicket, ImpactMedium,
			utilisation() + " > 0.95", time.Minute,
			"Rate limit {{ $labels.layer }} of engine " + at + " is exhausted",
			"{{ $value | humanizePercentage }} of the rate limit is used (threshold 95 %). Events above the limit are throttled, sampled or dropped."},
		{NameCriticalLimited, SeverityTicket, ImpactHigh,
			over(perInstance("type", increase(metric.RateLimitCritical.Name, 5))+" / 300", t.CriticalLimited), 2 * time.Minute,
			"Engine " + at + " rate-limits critical events",
			"{{ $value | humanize }} critical events per second exceed a rate limit (limit of type {{ $labels.type }}). They are stored as dead letters and are not counted until they are replayed."},
		{NameRedisFallback, SeverityTicket, ImpactMedium,
			metric.RateLimitFallback.Name + " == 1", time.Minute,
			"Engine " + at + " has fallen back to local rate limits",
			"Redis is not reachable (fallback {{ $value }}), so each replica applies the rate limits on its own. With N replicas, up to N times each limit is admitted."},

		{NameClientFailing, SeverityTicket, ImpactHigh,
			over(perInstance("context", rate(metric.ClientFailures.Name)), t.ClientFailures), 5 * time.Minute,
			"Client library in " + at + " fails to deliver events",
			"{{ $value | humanize }} events per second could not be delivered{{ with $labels.context }} in context {{ . }}{{ end }} (threshold " + number(t.ClientFailures) + "). The client fails open, so the application does not notice."},
		{NameClientSpool, SeverityTicket, ImpactMedium,
			metric.ClientSpoolBytes.Name + " / " + metric.ClientSpoolLimitBytes.Name + " > 0.8", 5 * time.Minute,
			"Spool of the client library in " + at + " is nearly full",
			"{{ $value | humanizePercentage }} of the spool is used by events that wait for the engine (threshold 80 %). When the spool is full, events are lost."},
		{NameClientBlocked, SeverityTicket, ImpactMedium,
			over(perInstance("context", rate(metric.ClientFailures.Name+`{reason="breaker_open"}`)), 5), 2 * time.Minute,
			"Breaker of the client library in " + at + " blocks events",
			"{{ $value | humanize }} events per second are not sent because the breaker is open after failed requests to the engine (threshold 5)."},
		{NameSinkLagging, SeverityTicket, ImpactMedium,
			metric.SinkLagSeconds.Name + " > " + number(t.SinkLag.Seconds()), 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " is lagging",
			"The oldest event that has not been delivered to the sink is {{ $value | humanizeDuration }} old (threshold " + slo.FormatDuration(t.SinkLag) + ")."},
		{NameSinkOverflowing, SeverityTicket, ImpactHigh,
			metric.SinkLagBytes.Name + " / " + metric.SinkMaxLagBytes.Name + " > 0.8", 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " is close to max_lag_bytes",
			"The undelivered part of the log has reached {{ $value | humanizePercentage }} of the sink's max_lag_bytes (threshold 80 %). Beyond max_lag_bytes, the oldest undelivered events become dead letters."},
		{NameSinkFailing, SeverityTicket, ImpactHigh,
			"max by (job, instance, sink) (" + metric.SinkFailing.Name + ") == 1", 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " is failing",
			"No delivery to the sink has succeeded for 5m (failing: {{ $value }}). Undelivered events stay in the log and become dead letters beyond max_lag_bytes. The page /engine shows the cause."},
		{NameSinkRateLimited, SeverityTicket, ImpactMedium,
			over(perInstance("sink", "increase("+metric.SinkRateLimited.Name+"[5m])"), 0), 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " is throttled by its rate limit",
			"{{ $value | humanize }} calls to the sink were postponed over the last 5m because its rate_limit had no capacity in time. The sink receives less than arrives, and its lag grows."},
		{NameSourceFailing, SeverityTicket, ImpactHigh,
			"max by (job, instance, source) (" + metric.SourceTrouble.Name + ") == 1", 5 * time.Minute,
			"Source {{ $labels.source }} of engine " + at + " is failing",
			"The source has not been able to read from its broker, or to store what it read, for 5m (failing: {{ $value }}). Messages wait in the broker until its retention deletes them. The page /engine shows the cause."},
		{NameSourceSaturated, SeverityTicket, ImpactMedium,
			"min_over_time(" + metric.KafkaSourceLag.Name + "[10m]) > 10000 and on (job, instance, source) " + perInstance("source", "rate("+metric.SourceBusySeconds.Name+"[10m])") + " > 0.8", 10 * time.Minute,
			"Source {{ $labels.source }} of engine " + at + " cannot keep up (partition {{ $labels.partition }} of {{ $labels.topic }})",
			"{{ $value | humanize }} messages of the partition are not counted yet, and the source has been busy for more than 80 % of the time. The pages and the alerts lag behind. Add an engine, or give this one more CPU."},
		{NameRabbitRate, SeverityTicket, ImpactMedium,
			over(perInstance("source", increase(metric.RabbitDeadLetterHandled.Name, 5))+" / 5", t.DeadLetteredRate), time.Minute,
			"Many messages are dead-lettered: {{ $labels.source }} of engine " + at,
			"{{ $value | humanize }} messages per minute arrived in RabbitMQ's dead-letter queue over the last 5m (threshold " + number(t.DeadLetteredRate) + "). Workers are down or slow, or the TTL of their queues is too short."},
		{NameRabbitDepth, SeverityTicket, ImpactHigh,
			metric.RabbitDeadLetterDepth.Name + " > " + fmt.Sprint(t.DeadLetterDepth), 5 * time.Minute,
			"Dead-letter queue of {{ $labels.source }} on engine " + at + " is growing",
			"{{ $value | humanize }} messages wait in RabbitMQ's dead-letter queue (threshold " + fmt.Sprint(t.DeadLetterDepth) + "). The dead-letter handler is behind. Their failures are not counted yet, and messages older than the queue's retention are lost."},
		{NameRabbitStopped, SeverityTicket, ImpactHigh,
			metric.RabbitDeadLetterDepth.Name + " > 0 and increase(" + metric.RabbitDeadLetterHandled.Name + "[2m]) == 0", 5 * time.Minute,
			"Dead-letter handler {{ $labels.source }} of engine " + at + " handles nothing",
			"{{ $value | humanize }} messages have waited in RabbitMQ's dead-letter queue for 5m, and none was handled. Messages that reach the queue's retention are lost, and their failures are never counted."},
		{NameRabbitOverdue, SeverityTicket, ImpactHigh,
			metric.RabbitDeadLettersOverdue.Name + " > 0", 5 * time.Minute,
			"Messages of {{ $labels.queue }} do not reach the dead-letter handler {{ $labels.source }} of engine " + at,
			"The queue has had messages and no consumer for longer than its TTL, and for {{ $value | humanizeDuration }} its messages should have arrived in RabbitMQ's dead-letter queue. None did. Executions fail, and their failures are not counted."},
		{NameRabbitTopology, SeverityTicket, ImpactHigh,
			metric.RabbitTopologyProblems.Name + " > 0", 2 * time.Minute,
			"Queues of {{ $labels.source }} on engine " + at + " differ from the settings",
			"{{ $value }} queues, exchanges or arguments are missing in RabbitMQ or differ from the settings. Messages may be lost instead of reaching the dead-letter queue. The page /engine names each difference."},
		{NameRabbitShare, SeverityTicket, ImpactHigh,
			perInstance("", rate(metric.RabbitDeadLetters.Name+`{outcome="failure"}`)) + " / " + perInstance("", rate(metric.FoldEvents.Name)) + " > " + number(t.DeadLetteredShare), 5 * time.Minute,
			"Too many executions are dead-lettered on engine " + at,
			"{{ $value | humanizePercentage }} of the events of the last 5m are failures of messages that RabbitMQ dead-lettered (threshold " + percent(t.DeadLetteredShare) + "). Workers are systematically unavailable."},
		{NameNotificationsFailing, SeverityPage, ImpactHigh,
			"max by (job, instance, target) (" + metric.NotifyFailing.Name + ") == 1", 5 * time.Minute,
			"Engine " + at + " cannot deliver alerts to {{ $labels.target }}",
			"Alerts have not been delivered to this Alertmanager or receiver for 5m (failing: {{ $value }}). At an Alertmanager, alerts that were delivered before expire. The page /engine shows the cause."},
		{NameReportsFailing, SeverityTicket, ImpactMedium,
			"max by (job, instance, report) (" + metric.ReportsFailing.Name + ") > 0 and max by (job, instance, report) (" + metric.ReportsPending.Name + ") > 0", 15 * time.Minute,
			"Engine " + at + " cannot send the report {{ $labels.report }}",
			"The report has not been delivered to {{ $value }} of its mail addresses, webhooks and folders for 15m. The engine retries for 24 hours and then gives the report up. The page /engine shows the cause."},
		{NameTokenExpiring, SeverityTicket, ImpactHigh,
			metric.TokenExpirySeconds.Name + " - time() < 604800 and on (job, instance, token, key) time() - " + metric.TokenLastUsedSeconds.Name + " < 86400", 5 * time.Minute,
			"Token {{ $labels.token }} of engine " + at + " expires or has expired, and is in use",
			"The key {{ $labels.key }} of the token expires in {{ $value | humanizeDuration }} (a negative time has passed), and requests carried it within the last 24h. From then on the engine refuses them with status 401."},
	}, outboxAlerts(t)...)
}

func utilisation() string {
	return metric.RateLimitCurrent.Name + " / " + metric.RateLimitThreshold.Name
}

// Names of the alerts on the engine itself.
const (
	NameIngestUnavailable  = "IngestUnavailable"
	NameIngestRejecting    = "IngestRejectingEvents"
	NameEngineNotReady     = "EngineNotReady"
	NameDiskLow            = "IngestDiskLow"
	NameDiskFilling        = "IngestDiskFilling"
	NameEvaluatorStopped   = "EvaluatorStopped"
	NameClientSpool        = "ClientSpoolNearlyFull"
	NameSinkOverflowing    = "SinkOverflowing"
	NameLogPoisoned        = "WriteAheadLogPoisoned"
	NameFoldLagging        = "FoldLagging"
	NameGroupsFull         = "GroupsFull"
	NameWorkUntracked      = "WorkNotTracked"
	NameEvaluatorLate      = "EvaluatorLate"
	NameBreakerOpen        = "BreakerOpen"
	NameDeadLettersMany    = "DeadLettersTooMany"
	NameDeadLettersGrowing = "DeadLettersGrowing"
	NameDeadLettersLimited = "DeadLettersFromRateLimit"
	NameRetryRateHigh      = "RetryRateHigh"
	NameRateLimitHit       = "RateLimitHit"
	NameRateLimitDropping  = "RateLimitDropping"
	NameRateLimitType      = "RateLimitTypeFlood"
	NameRateLimitContext   = "RateLimitCallerFlood"
	NameRateLimitNear      = "RateLimitUtilisationHigh"
	NameRateLimitReached   = "RateLimitUtilisationCritical"
	NameCriticalLimited    = "CriticalEventsRateLimited"
	NameRedisFallback      = "RedisFallbackActive"
	NameClientFailing      = "ClientFailingSilently"
	NameClientBlocked      = "ClientBreakerBlocking"
	NameSinkLagging        = "SinkLagging"
	NameSinkFailing        = "SinkFailing"
	NameSinkRateLimited    = "SinkRateLimited"

	NameSourceFailing   = "SourceFailing"
	NameSourceSaturated = "SourceSaturated"

	NameRabbitRate     = "RabbitMQDeadLetterRateHigh"
	NameRabbitDepth    = "RabbitMQDeadLetterQueueDeep"
	NameRabbitStopped  = "RabbitMQDeadLetterHandlerStopped"
	NameRabbitOverdue  = "RabbitMQDeadLettersOverdue"
	NameRabbitTopology = "RabbitMQTopologyDiffers"
	NameRabbitShare    = "RabbitMQDeadLetterShareHigh"

	NameNotificationsFailing = "NotificationsFailing"
	NameReportsFailing       = "ReportsFailing"
	NameTokenExpiring        = "TokenExpiring"
)

// dashboard is the UID of the dashboard that shows what the alert reads.
func (a *engineAlert) dashboard() string {
	switch a.name {
	case NameSourceFailing, NameSourceSaturated, NameRabbitRate, NameRabbitDepth, NameRabbitStopped, NameRabbitOverdue, NameRabbitTopology, NameRabbitShare:
		return DashboardBrokers
	case NameOutboxNotReady, NameOutboxStuck, NameOutboxFailing, NameOutboxLagging:
		return DashboardOutbox
	}
	return DashboardReliability
}

// engineGroup makes the rules on the engine itself.
func (g *generator) engineGroup() rules.Group {
	out := rules.Group{Name: "sloengine-alerts-engine", Rules: []rules.Rule{g.watchdog()}}
	for _, a := range engineAlerts(g.o.Engine.WithDefaults()) {
		out.Rules = append(out.Rules, rules.Rule{
			Alert: a.name, Expr: a.expr, For: a.wait,
			Labels: map[string]string{labelSeverity: a.severity, series.LabelKind: "engine", series.LabelImpact: a.impact},
			Annotations: g.annotations(a.name, note{
				summary: a.summary, description: a.description, dashboard: a.dashboard(), page: "/engine",
			}),
		})
	}
	return out
}

// watchdog always fires. Its label sla keeps it apart from the alerts of this name that other rule files have.
func (g *generator) watchdog() rules.Rule {
	return rules.Rule{
		Alert: NameWatchdog, Expr: "vector(1)",
		Labels: map[string]string{labelSeverity: SeverityNone, series.LabelKind: "engine"},
		Annotations: g.annotations(NameWatchdog, note{
			summary:     "Alerting works",
			description: "This alert always fires. Route it to a dead man's switch, which notifies you when the alert stops arriving.",
			dashboard:   DashboardReliability, page: "/engine",
		}),
	}
}

// Watchdog is the rule that always fires, as an engine sends it without Prometheus.
func Watchdog(o Options) Live {
	r := newGenerator(rules.Spec{}, o).watchdog()
	return Live{Alert: r.Alert, Labels: r.Labels, Texts: newTexts(r.Annotations)}
}

// EngineAlerts lists the alerts on the engine that it can evaluate from its own metrics, in the order of the rules. The
// alerts on the client library and on relays read the metrics of other processes, so only Prometheus can evaluate them.
func EngineAlerts(o Options) []Live {
	var out []Live
	for _, r := range newGenerator(rules.Spec{}, o).engineGroup().Rules {
		switch r.Alert {
		case NameWatchdog, NameClientFailing, NameClientSpool, NameClientBlocked, NameOutboxNotReady, NameOutboxStuck, NameOutboxFailing, NameOutboxLagging:
		default:
			out = append(out, Live{Kind: LiveEngine, Expr: r.Expr}.of(r))
		}
	}
	return out
}

func bytes(n uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(uint64(1)<<u.shift)), ".0") + " " + u.name
		}
	}
	return fmt.Sprint(n) + " B"
}

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
