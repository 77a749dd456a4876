package engine

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/wal"
)

// Metrics are the counters of the Engine. They are made once and cost one
// atomic addition each.
type Metrics struct {
	set *metrics.Set

	log                     *wal.Metrics
	groups, events          *metrics.Counter
	duplicates, generations *metrics.Counter
	unavailable             map[*UnavailableError]*metrics.Counter
	appendSeconds           *metrics.PrometheusHistogram

	folded, deadLetters *metrics.Counter
	checkpoints         *metrics.Counter
	checkpointFailures  *metrics.Counter
	checkpointFallbacks *metrics.Counter
	partsLost, idsLost  *metrics.Counter
	checkpointBytes     *metrics.Counter
	checkpointSeconds   *metrics.FloatCounter
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		set:         set,
		log:         wal.NewMetrics(set),
		groups:      set.NewCounter("sloengine_ingest_groups_total"),
		events:      set.NewCounter("sloengine_ingest_stored_events_total"),
		duplicates:  set.NewCounter("sloengine_dedupe_duplicates_total"),
		generations: set.NewCounter("sloengine_dedupe_generations_total"),
		unavailable: map[*UnavailableError]*metrics.Counter{},
		appendSeconds: set.NewPrometheusHistogramExt("sloengine_ingest_append_duration_seconds",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5}),

		folded:              set.NewCounter("sloengine_fold_records_total"),
		deadLetters:         set.NewCounter("sloengine_fold_dead_letters_total"),
		checkpoints:         set.NewCounter("sloengine_checkpoint_written_total"),
		checkpointFailures:  set.NewCounter("sloengine_checkpoint_failures_total"),
		partsLost:           set.NewCounter("sloengine_checkpoint_lost_parts_total"),
		idsLost:             set.NewCounter("sloengine_dedupe_lost_ids_total"),
		checkpointFallbacks: set.NewCounter("sloengine_checkpoint_fallbacks_total"),
		checkpointBytes:     set.NewCounter("sloengine_checkpoint_written_bytes_total"),
		checkpointSeconds:   set.NewFloatCounter("sloengine_checkpoint_duration_seconds_total"),
	}
	for _, reason := range []*UnavailableError{
		ErrOverloaded, ErrDiskFull, ErrWriteFailed, ErrNoFiles, ErrNotReady, ErrPoisoned, ErrClockJump, ErrStopping,
	} {
		m.unavailable[reason] = set.NewCounter(`sloengine_ingest_unavailable_total{reason="` + reason.Code + `"}`)
	}
	return m
}

// gauges adds what is read from the engine at every scrape.
func (m *Metrics) gauges(e *Engine) {
	for name, value := range map[string]func(h Health) float64{
		"sloengine_ingest_ready":           func(h Health) float64 { return boolValue(h.Status == StatusReady) },
		"sloengine_ingest_recovery_ratio":  func(h Health) float64 { return h.Progress },
		"sloengine_ingest_queue_bytes":     func(h Health) float64 { return float64(h.Queue.Bytes) },
		"sloengine_ingest_queue_requests":  func(h Health) float64 { return float64(h.Queue.Requests) },
		"sloengine_ingest_disk_free_bytes": func(h Health) float64 { return float64(h.Disk.Free) },
		"sloengine_fold_lag_records":       func(h Health) float64 { return float64(h.Log.Lag) },
		"sloengine_checkpoint_age_seconds": func(h Health) float64 { return h.Checkpoint.Age.Seconds() },
		"sloengine_checkpoint_state_bytes": func(h Health) float64 { return float64(h.Checkpoint.State) },
		"sloengine_dedupe_ids":             func(h Health) float64 { return float64(h.IDs.Count) },
		"sloengine_dedupe_bytes":           func(h Health) float64 { return float64(h.IDs.Bytes) },
		"sloengine_dedupe_horizon_seconds": func(h Health) float64 { return h.IDs.Horizon.Seconds() },
		"sloengine_ingest_watermark_seconds": func(h Health) float64 {
			if h.Watermark.IsZero() {
				return 0
			}
			return float64(h.Watermark.UnixNano()) / 1e9
		},
		"sloengine_checkpoint_last_written_size": func(h Health) float64 { return float64(h.Checkpoint.Written) },
	} {
		m.set.GetOrCreateGauge(name, func() float64 { return value(e.Health()) })
	}
}

// troubles adds a gauge for each part that may be in trouble.
func (m *Metrics) troubles(e *Engine) {
	for i := range e.troubles {
		t := &e.troubles[i]
		m.set.GetOrCreateGauge(`sloengine_ingest_trouble{part="`+t.part+`"}`, func() float64 { return boolValue(t.at.Load() != nil) })
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
