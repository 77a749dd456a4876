package config

import (
	"time"

	"github.com/sloengine/sloengine/alerts"
)

// alertsConfig are the thresholds of the generated alerts on the engine itself.
type alertsConfig struct {
	DiskFree        Size     `yaml:"disk_free" above:"0"`              // below it
	DeadLetters     int64    `yaml:"dead_letters" above:"0"`           // kept
	DeadLetterGrow  int64    `yaml:"dead_letters_growth" above:"0"`    // more within half an hour
	Retries         float64  `yaml:"retries" above:"0"`                // events sent again a second, to one target
	LimitHits       float64  `yaml:"limit_hits" above:"0"`             // events a second over any rate limit
	LimitDrops      float64  `yaml:"limit_drops" above:"0"`            // events a second
	TypeHits        float64  `yaml:"type_hits" above:"0"`              // events a minute over the limit of a type
	ContextHits     float64  `yaml:"context_hits" above:"0"`           // events a minute over the limits of contexts
	CriticalLimited float64  `yaml:"critical_limited" min:"0"`         // events a second
	ClientFailures  float64  `yaml:"client_failures" above:"0"`        // events a second
	RejectedShare   float64  `yaml:"rejected_share" above:"0" max:"1"` // of all events
	SinkLag         Duration `yaml:"sink_lag" above:"0"`               // age of the oldest event that a sink lacks
	FoldLag         int64    `yaml:"fold_lag" above:"0"`               // records
}

func defaultAlerts() alertsConfig {
	d := alerts.EngineThresholds{}.WithDefaults()
	return alertsConfig{
		DiskFree: Size(d.DiskFreeBytes), DeadLetters: int64(d.DeadLetters), DeadLetterGrow: int64(d.DeadLetterGrow), Retries: d.RetriesPerSec,
		LimitHits: d.LimitHits, LimitDrops: d.LimitDrops, TypeHits: d.TypeHits, ContextHits: d.ContextHits, CriticalLimited: d.CriticalLimited,
		ClientFailures: d.ClientFailures, RejectedShare: d.RejectedShare, SinkLag: Duration(d.SinkLag), FoldLag: int64(d.FoldLagRecords),
	}
}

// Thresholds are what the alerts are generated with.
func (a *alertsConfig) Thresholds() alerts.EngineThresholds {
	return alerts.EngineThresholds{
		DiskFreeBytes: uint64(a.DiskFree), DeadLetters: uint64(a.DeadLetters), DeadLetterGrow: uint64(a.DeadLetterGrow), RetriesPerSec: a.Retries,
		LimitHits: a.LimitHits, LimitDrops: a.LimitDrops, TypeHits: a.TypeHits, ContextHits: a.ContextHits, CriticalLimited: a.CriticalLimited,
		ClientFailures: a.ClientFailures, RejectedShare: a.RejectedShare, SinkLag: time.Duration(a.SinkLag), FoldLagRecords: uint64(a.FoldLag),
	}
}
