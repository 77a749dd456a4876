package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules"
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

func engineAlerts(t EngineThresholds) []engineAlert {
	rate := func(metric string) string { return "rate(" + metric + "[5m])" }
	over := func(expr string, limit float64) string { return expr + " > " + number(limit) }
	const at = "{{ $labels.instance }}"
	return []engineAlert{
		{NameIngestUnavailable, SeverityCritical, ImpactHigh,
			over(perInstance("reason", rate(metric.IngestUnavailable.Name)), 0), 2 * time.Minute,
			"Engine " + at + " turns senders away: {{ $labels.reason }}",
			"{{ $value | humanize }} requests per second are refused for the reason {{ $labels.reason }}. Senders keep their events and try again; what they cannot keep is lost."},
		{NameIngestRejecting, SeverityWarning, ImpactMedium,
			perInstance("", rate(metric.IngestEvents.Name+`{result="rejected"}`)) + " / " + perInstance("", rate(metric.IngestEvents.Name)) + " > " + number(t.RejectedShare), 5 * time.Minute,
			"Engine " + at + " rejects events",
			"{{ $value | humanizePercentage }} of the events were refused as wrong over the last 5m, more than " + percent(t.RejectedShare) + "; they are counted nowhere."},
		{NameEngineNotReady, SeverityCritical, ImpactHigh,
			metric.IngestReady.Name + " == 0", 10 * time.Minute,
			"Engine " + at + " takes no events",
			"The engine has been recovering or stopped for 10m. Nothing is counted and no report is made meanwhile."},
		{NameDiskLow, SeverityCritical, ImpactHigh,
			metric.IngestDiskFreeBytes.Name + " < " + fmt.Sprint(t.DiskFreeBytes), 5 * time.Minute,
			"Disk of engine " + at + " is nearly full",
			"{{ $value | humanize1024 }}B are free, less than " + bytes(t.DiskFreeBytes) + ". When the disk is full every event is refused."},
		{NameDiskFilling, SeverityWarning, ImpactMedium,
			"predict_linear(" + metric.IngestDiskFreeBytes.Name + "[1h], 4 * 3600) < 0", 15 * time.Minute,
			"Disk of engine " + at + " fills up",
			"At the pace of the last hour the disk is full within 4h: {{ $value | humanize1024 }}B would be free then. When the disk is full every event is refused."},
		{NameLogPoisoned, SeverityCritical, ImpactHigh,
			metric.WALPoisoned.Name + " > 0", 0,
			"Write-ahead log of engine " + at + " failed to write",
			"A write or fsync of the log failed, so the content of the disk is unknown. The engine refuses all events until it is restarted."},
		{NameFoldLagging, SeverityWarning, ImpactMedium,
			metric.FoldLagRecords.Name + " > " + fmt.Sprint(t.FoldLagRecords), 5 * time.Minute,
			"Engine " + at + " counts behind",
			"{{ $value | humanize }} stored records are not counted yet, more than " + fmt.Sprint(t.FoldLagRecords) + ". Nothing is lost, but all numbers are late."},
		{NameGroupsFull, SeverityWarning, ImpactHigh,
			metric.FoldFullSLOs.Name + " > 0", 5 * time.Minute,
			"Engine " + at + " has SLOs without room for new groups",
			"{{ $value }} SLOs have max_groups groups. Values that are new share the group __other__, for which nothing alerts; the engine's page names the SLOs."},
		{NameEvaluatorLate, SeverityWarning, ImpactMedium,
			"increase(" + metric.EvaluateLate.Name + "[10m]) / increase(" + metric.EvaluateTicks.Name + "[10m]) > 0.5", 5 * time.Minute,
			"Evaluator of engine " + at + " is late",
			"{{ $value | humanizePercentage }} of the reports of the last 10m took longer than their interval. Live states and the page lag behind."},
		{NameEvaluatorStopped, SeverityCritical, ImpactHigh,
			"increase(" + metric.EvaluateTicks.Name + "[5m]) == 0", 5 * time.Minute,
			"Evaluator of engine " + at + " makes no reports",
			"{{ $value }} reports were made over the last 5m. States, scores and the page stand still, and no live alert can fire."},

		{NameBreakerOpen, SeverityWarning, ImpactMedium,
			metric.BreakerState.Name + " == 2", time.Minute,
			"Breaker {{ $labels.breaker }} of " + at + " is open",
			"Calls of {{ $labels.breaker }} are not tried (state {{ $value }}: 0 closed, 1 half-open, 2 open) since they failed too often."},
		{NameDeadLettersMany, SeverityCritical, ImpactHigh,
			perInstance("", metric.DLQEntries.Name) + " > " + fmt.Sprint(t.DeadLetters), 5 * time.Minute,
			"Engine " + at + " keeps too many dead letters",
			"{{ $value | humanize }} dead letters are kept, more than " + fmt.Sprint(t.DeadLetters) + ". None of these events counts until it is replayed."},
		{NameDeadLettersGrowing, SeverityWarning, ImpactMedium,
			perInstance("origin", "delta("+metric.DLQEntries.Name+"[30m])") + " > " + fmt.Sprint(t.DeadLetterGrow) +
				" or " + perInstance("", "increase("+metric.FoldDeadLetters.Name+"[30m])") + " > " + fmt.Sprint(t.DeadLetterGrow), 5 * time.Minute,
			"Dead letters of engine " + at + " grow",
			"{{ $value | humanize }} more dead letters than half an hour ago, above " + fmt.Sprint(t.DeadLetterGrow) + "{{ with $labels.origin }}, from {{ . }}{{ end }}."},
		{NameDeadLettersLimited, SeverityWarning, ImpactMedium,
			over(perInstance("", rate(metric.DLQSaved.Name+`{reason="rate_limited"}`)), 50), 5 * time.Minute,
			"Rate limits of engine " + at + " fill the dead letters",
			"{{ $value | humanize }} events per second over a limit are kept as dead letters, more than 50."},
		{NameRetryRateHigh, SeverityWarning, ImpactMedium,
			over(perInstance("target", rate(metric.RetryAttemptedItems.Name)), t.RetriesPerSec), 2 * time.Minute,
			"Many retries of {{ $labels.target }} by " + at,
			"{{ $value | humanize }} events per second are sent again, more than " + number(t.RetriesPerSec) + ". The target is failing, and the retries add to its load."},

		{NameRateLimitHit, SeverityWarning, ImpactLow,
			over(perInstance("", rate(metric.RateLimitHits.Name)), t.LimitHits), 2 * time.Minute,
			"Rate limits of engine " + at + " are hit often",
			"{{ $value | humanize }} events per second exceed a limit, more than " + number(t.LimitHits) + ": a retry storm, an attack, or a limit too low."},
		{NameRateLimitDropping, SeverityCritical, ImpactHigh,
			over(perInstance("", rate(metric.RateLimitDropped.Name)), t.LimitDrops), time.Minute,
			"Engine " + at + " drops many events over its limits",
			"{{ $value | humanize }} events per second are dropped, more than " + number(t.LimitDrops) + ". Coverage falls and indicators see only a part."},
		{NameRateLimitType, SeverityWarning, ImpactLow,
			over(perInstance("type", rate(metric.RateLimitHits.Name+`{layer="type"}`))+" * 60", t.TypeHits), 2 * time.Minute,
			"Events over the type limit {{ $labels.type }} flood engine " + at,
			"{{ $value | humanize }} events per minute exceed this limit of their type, more than " + number(t.TypeHits) + ". The limit (default) is that of types without one of their own."},
		{NameRateLimitContext, SeverityWarning, ImpactLow,
			over(perInstance("", rate(metric.RateLimitHits.Name+`{layer="context"}`))+" * 60", t.ContextHits), 2 * time.Minute,
			"A caller exceeds its limit at engine " + at,
			"{{ $value | humanize }} events per minute exceed the limit of their caller, more than " + number(t.ContextHits) + ". The engine's page names the caller."},
		{NameRateLimitNear, SeverityWarning, ImpactLow,
			utilisation() + " > 0.8", time.Minute,
			"Limit {{ $labels.layer }} of engine " + at + " is nearly used up",
			"{{ $value | humanizePercentage }} of the limit is used, more than 80 %."},
		{NameRateLimitReached, SeverityCritical, ImpactMedium,
			utilisation() + " > 0.95", time.Minute,
			"Limit {{ $labels.layer }} of engine " + at + " is used up",
			"{{ $value | humanizePercentage }} of the limit is used, more than 95 %. Events are about to be refused or sampled."},
		{NameCriticalLimited, SeverityCritical, ImpactHigh,
			over(perInstance("type", rate(metric.RateLimitCritical.Name)), t.CriticalLimited), 2 * time.Minute,
			"Critical events exceed the limits of engine " + at,
			"{{ $value | humanize }} critical events per second are over a limit (rule of their type: {{ $labels.type }}). They are kept as dead letters and count only once they are replayed."},
		{NameRedisFallback, SeverityWarning, ImpactMedium,
			metric.RateLimitFallback.Name + " == 1", time.Minute,
			"Engine " + at + " uses local rate limits because Redis is unreachable",
			"The shared rate limits are unreachable (value {{ $value }}), so every replica applies its own. Together they admit up to as many times the limit as there are replicas."},

		{NameClientFailing, SeverityWarning, ImpactHigh,
			over(perInstance("context", rate(metric.ClientFailures.Name)), t.ClientFailures), 5 * time.Minute,
			"The client in " + at + " fails silently",
			"{{ $value | humanize }} events per second were not handed over{{ with $labels.context }} in {{ . }}{{ end }}, more than " + number(t.ClientFailures) + ", while the application goes on as if they were."},
		{NameClientSpool, SeverityWarning, ImpactMedium,
			metric.ClientSpoolBytes.Name + " / " + metric.ClientSpoolLimitBytes.Name + " > 0.8", 5 * time.Minute,
			"The spool of the client in " + at + " is nearly full",
			"{{ $value | humanizePercentage }} of the room for events that wait for the engine is used, more than 80 %. Beyond that they are lost."},
		{NameClientBlocked, SeverityWarning, ImpactMedium,
			over(perInstance("context", rate(metric.ClientFailures.Name+`{reason="breaker_open"}`)), 5), 2 * time.Minute,
			"The breaker of the client in " + at + " holds back events",
			"{{ $value | humanize }} events per second are not even sent, more than 5, since the engine did not answer before."},
		{NameSinkLagging, SeverityWarning, ImpactMedium,
			metric.SinkLagSeconds.Name + " > " + number(t.SinkLag.Seconds()), 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " lags",
			"The oldest event that the sink has not got is {{ $value | humanizeDuration }} old, more than " + slo.FormatDuration(t.SinkLag) + "."},
		{NameSinkOverflowing, SeverityCritical, ImpactHigh,
			metric.SinkLagBytes.Name + " / " + metric.SinkMaxLagBytes.Name + " > 0.8", 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " is about to lose its place",
			"{{ $value | humanizePercentage }} of the log that is kept for the sink waits for it, more than 80 %. Beyond that its events become dead letters."},
		{NameSinkFailing, SeverityCritical, ImpactHigh,
			"max by (job, instance, sink) (" + metric.SinkFailing.Name + ") == 1", 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " fails",
			"Delivery to the sink has failed for 5m without a success in between (value {{ $value }}). Its events wait, and beyond max_lag_bytes become dead letters. The engine's page names the cause."},
		{NameSinkRateLimited, SeverityWarning, ImpactMedium,
			over(perInstance("sink", "increase("+metric.SinkRateLimited.Name+"[5m])"), 0), 5 * time.Minute,
			"Sink {{ $labels.sink }} of engine " + at + " is held back by its rate limit",
			"{{ $value | humanize }} times within 5m no turn of the sink's rate_limit came in time. The sink gets less than comes in, and its lag grows."},
		{NameNotificationsFailing, SeverityCritical, ImpactHigh,
			"max by (job, instance, alertmanager) (" + metric.NotifyFailing.Name + ") == 1", 5 * time.Minute,
			"Alertmanager {{ $labels.alertmanager }} gets no alerts from engine " + at,
			"The engine has not delivered its alerts to this Alertmanager for 5m (value {{ $value }}). They end there by themselves. The engine's page names the cause."},
	}
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

	NameNotificationsFailing = "NotificationsFailing"
)

// engineGroup makes the rules on the engine itself.
func (g *generator) engineGroup() rules.Group {
	out := rules.Group{Name: "sloengine-alerts-engine", Rules: []rules.Rule{g.watchdog()}}
	for _, a := range engineAlerts(g.o.Engine.WithDefaults()) {
		out.Rules = append(out.Rules, rules.Rule{
			Alert: a.name, Expr: a.expr, For: a.wait,
			Labels: map[string]string{labelSeverity: a.severity, LabelSLA: "engine", LabelImpact: a.impact},
			Annotations: g.annotations(a.name, note{
				summary: a.summary, description: a.description, dashboard: DashboardReliability, page: "/engine",
			}),
		})
	}
	return out
}

// watchdog always fires. Its label sla keeps it apart from the alerts of this name that other rule files have.
func (g *generator) watchdog() rules.Rule {
	return rules.Rule{
		Alert: NameWatchdog, Expr: "vector(1)",
		Labels: map[string]string{labelSeverity: SeverityNone, LabelSLA: "engine"},
		Annotations: g.annotations(NameWatchdog, note{
			summary:     "Alerts get through",
			description: "This alert always fires. Send it to a dead man's switch, which tells you when it stops coming.",
			dashboard:   DashboardReliability, page: "/engine",
		}),
	}
}

// Watchdog is the rule that always fires, as an engine sends it without Prometheus.
func Watchdog(o Options) Live {
	r := newGenerator(rules.Spec{}, o).watchdog()
	return Live{Alert: r.Alert, Labels: r.Labels, Texts: newTexts(r.Annotations)}
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
