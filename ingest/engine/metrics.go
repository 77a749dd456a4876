package engine

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Metrics are the counters of the Engine. They are made once and cost one
// atomic addition each.
//
// Each counter is moved by the goroutine that does the work. The gauges are computed from Health at each scrape.
type Metrics struct {
	set *metrics.Set

	log                     *wal.Metrics
	history                 *retained.Metrics
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
		set:           set,
		log:           wal.NewMetrics(set),
		history:       retained.NewMetrics(set),
		groups:        metric.IngestGroups.Counter(set),
		events:        metric.IngestStoredEvents.Counter(set),
		duplicates:    metric.DedupeDuplicates.Counter(set),
		generations:   metric.DedupeGenerations.Counter(set),
		unavailable:   map[*UnavailableError]*metrics.Counter{},
		appendSeconds: metric.IngestAppendDurationSeconds.Histogram(set),

		folded:              metric.FoldRecords.Counter(set),
		deadLetters:         metric.FoldDeadLetters.Counter(set),
		checkpoints:         metric.CheckpointWritten.Counter(set),
		checkpointFailures:  metric.CheckpointFailures.Counter(set),
		partsLost:           metric.CheckpointLostParts.Counter(set),
		idsLost:             metric.DedupeLostIDs.Counter(set),
		checkpointFallbacks: metric.CheckpointFallbacks.Counter(set),
		checkpointBytes:     metric.CheckpointWrittenBytes.Counter(set),
		checkpointSeconds:   set.NewFloatCounter(metric.CheckpointDurationSeconds.Series()),
	}
	for _, reason := range Unavailable {
		m.unavailable[reason] = metric.IngestUnavailable.Counter(set, reason.Code)
	}
	return m
}

// gauges adds the gauges that are read from the engine at every scrape.
func (m *Metrics) gauges(e *Engine) {
	for family, value := range map[*metric.Family]func(h Health) float64{
		metric.IngestReady:          func(h Health) float64 { return boolValue(h.Status == StatusReady) },
		metric.IngestRecoveryRatio:  func(h Health) float64 { return h.Progress },
		metric.IngestQueueBytes:     func(h Health) float64 { return float64(h.Queue.Bytes) },
		metric.IngestQueueRequests:  func(h Health) float64 { return float64(h.Queue.Requests) },
		metric.IngestDiskFreeBytes:  func(h Health) float64 { return float64(h.Disk.Free) },
		metric.FoldLagRecords:       func(h Health) float64 { return float64(h.Log.Lag) },
		metric.CheckpointAgeSeconds: func(h Health) float64 { return h.Checkpoint.Age.Seconds() },
		metric.CheckpointStateBytes: func(h Health) float64 { return float64(h.Checkpoint.State) },
		metric.DedupeIDs:            func(h Health) float64 { return float64(h.IDs.Count) },
		metric.DedupeBytes:          func(h Health) float64 { return float64(h.IDs.Bytes) },
		metric.DedupeWindowSeconds:  func(h Health) float64 { return h.IDs.Window.Seconds() },
		metric.IngestWatermarkSeconds: func(h Health) float64 {
			if h.Watermark.IsZero() {
				return 0
			}
			return float64(h.Watermark.UnixNano()) / 1e9
		},
		metric.CheckpointLastWrittenSize: func(h Health) float64 { return float64(h.Checkpoint.Written) },
	} {
		family.Read(m.set, func() float64 { return value(e.Health()) })
	}
}

// troubles adds a gauge for each part that may fail.
func (m *Metrics) troubles(e *Engine) {
	for i := range e.troubles {
		metric.IngestTrouble.Read(m.set, func() float64 { return boolValue(e.troubles[i].Failing()) }, troubleNames[i])
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
