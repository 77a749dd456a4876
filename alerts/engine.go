package alerts

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// EngineThresholds are the limits of the alerts on the engine itself. Zero fields get the defaults of WithDefaults.
type EngineThresholds struct {
	// the engine itself refuses events below disk.low_water
	DiskFreeBytes  uint64 `yaml:"disk_free" above:"0" is:"size"`
	DeadLetters    uint64 `yaml:"dead_letters" above:"0"`        // retained
	DeadLetterGrow uint64 `yaml:"dead_letters_growth" above:"0"` // more within half an hour
	// events of one target; retry.rate_limit bounds them
	RetriesPerSec   float64       `yaml:"retries" above:"0"`
	LimitHits       float64       `yaml:"limit_hits" above:"0"`             // per second over all layers
	LimitDrops      float64       `yaml:"limit_drops" above:"0"`            // per second
	TypeHits        float64       `yaml:"type_hits" above:"0"`              // per minute for one event type
	ContextHits     float64       `yaml:"context_hits" above:"0"`           // per minute over all callers' own limits
	ClientFailures  float64       `yaml:"client_failures" above:"0"`        // per second
	RejectedShare   float64       `yaml:"rejected_share" above:"0" max:"1"` // of all events
	SinkLag         time.Duration `yaml:"sink_lag" above:"0"`               // age of the oldest event that a sink lacks
	FoldLagRecords  uint64        `yaml:"fold_lag" above:"0"`               // records
	CriticalLimited float64       `yaml:"critical_limited" min:"0"`         // per second; zero, as one is too many

	// messages per minute from RabbitMQ's dead-letter queue
	DeadLetteredRate  float64 `yaml:"dead_lettered_rate" above:"0"`
	DeadLetteredShare float64 `yaml:"dead_lettered_share" above:"0" max:"1"` // of all events that are counted
	DeadLetterDepth   uint64  `yaml:"dead_letter_queue_depth" above:"0"`     // messages in RabbitMQ's dead-letter queue

	OutboxPending  uint64        `yaml:"outbox_pending" above:"0"`  // rows that are not published
	OutboxFailures float64       `yaml:"outbox_failures" above:"0"` // rows per second that are given up
	OutboxLatency  time.Duration `yaml:"outbox_latency" above:"0"`  // 95th percentile of the time until a row is published
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

// engineAlert is one alert on engines or relays.
type engineAlert struct {
	Alert, Severity, Impact string
	Expr                    string
	For                     time.Duration
	Summary, Description    string
	Dashboard               string // the UID of the one that shows what the alert reads; "" is DashboardReliability
	Foreign                 bool   // it reads metrics of other processes than the engine
}

// ProcessStart is the series, of Prometheus' client libraries, with the time at which a process began.
const ProcessStart = "process_start_time_seconds"

// increase is how much counters have grown in the last minutes. Unlike PromQL's increase(), it counts what a counter
// has at its first sample, such as the dead letters that arrived before the first scrape of a new engine: if the
// process is newer than that, or was scraped that long ago without the counter. A counter that is only new to
// Prometheus counts nothing.
func increase(metric string, minutes int) string {
	ago := fmt.Sprintf(" offset %dm", minutes)
	return metric + " unless " + metric + ago +
		" and on (job, instance) (" + ProcessStart + ago + fmt.Sprintf(" or time() - %s < %d)", ProcessStart, 60*minutes) +
		fmt.Sprintf(" or increase(%s[%dm])", metric, minutes)
}

//go:embed engine.yaml
var engineText string

var engineTemplate = template.Must(template.New("engine.yaml").Delims("<<", ">>").Funcs(template.FuncMap{
	"increase": increase, "number": number, "percent": percent, "size": size, "duration": slo.FormatDuration,
	"seconds": func(d time.Duration) string { return number(d.Seconds()) },
}).Parse(engineText))

// engineAlerts reads engine.yaml, which is a part of the program: it panics if the file is wrong.
func engineAlerts(t EngineThresholds) []engineAlert {
	var text bytes.Buffer
	if err := engineTemplate.Execute(&text, t); err != nil {
		panic(err)
	}
	var out []engineAlert
	dec := yaml.NewDecoder(&text)
	dec.KnownFields(true)
	if err := dec.Decode(&out); err != nil {
		panic(fmt.Sprintf("read engine.yaml: %v", err))
	}
	return out
}

func (g *generator) engineRule(a engineAlert) rules.Rule {
	return rules.Rule{
		Alert: a.Alert, Expr: a.Expr, For: a.For,
		Labels: map[string]string{labelSeverity: a.Severity, series.LabelKind: "engine", series.LabelImpact: a.Impact},
		Annotations: g.annotations(a.Alert, note{
			summary: a.Summary, description: a.Description,
			dashboard: cmp.Or(a.Dashboard, DashboardReliability), page: "/engine",
		}),
	}
}

// engineGroup makes the rules on the engine itself.
func (g *generator) engineGroup() rules.Group {
	out := rules.Group{Name: "sloengine-alerts-engine", Rules: []rules.Rule{g.watchdog()}}
	for _, a := range engineAlerts(g.o.Engine.WithDefaults()) {
		out.Rules = append(out.Rules, g.engineRule(a))
	}
	return out
}

// watchdog always fires. Its label sla keeps it apart from the alerts of this name that other rule files have.
func (g *generator) watchdog() rules.Rule {
	return rules.Rule{
		Alert: NameWatchdog, Expr: "vector(1)",
		Labels: map[string]string{labelSeverity: SeverityNone, series.LabelKind: "engine"},
		Annotations: g.annotations(NameWatchdog, note{
			summary: "Alerting works",
			description: "This alert always fires. Route it to a dead man's switch, which notifies you when the alert stops " +
				"arriving.",
			dashboard: DashboardReliability, page: "/engine",
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
	g := newGenerator(rules.Spec{}, o)
	var out []Live
	for _, a := range engineAlerts(g.o.Engine.WithDefaults()) {
		if r := g.engineRule(a); !a.Foreign {
			out = append(out, g.define(Live{Kind: LiveEngine, Expr: r.Expr}, r).live())
		}
	}
	return out
}

func size(n uint64) string {
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
