package dlq

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of the dead letters. One store per Metrics; its filter,
// replayer and retention may share it.
type Metrics struct {
	set *metrics.Set

	mu      sync.Mutex
	reasons map[string]bool // as label values, at most maxReasons
	byKey   map[[2]string]*metrics.Counter
	drops   map[string]*metrics.Counter

	results map[string]*metrics.Counter
	removed map[removal]*metrics.Counter

	entries            map[string]*metrics.Gauge // by origin
	bytes, disk        *metrics.Gauge
	oldest             atomic.Int64 // ns since 1970, 0: none
	damaged, tornBytes *metrics.Counter
	damagedBytes       *metrics.Counter
	damagedLost        *metrics.Counter
	replayRuns         map[string]*metrics.Counter
	commitSeconds      *metrics.PrometheusHistogram
	poisoned           *metrics.Gauge
}

const maxReasons = 64

// Reasons of metric.DLQDropped.
const (
	DropNeverSave   = "never_save"
	DropSaveIf      = "save_if"
	DropRateLimited = "rate_limited"     // neither always_save nor save_if
	DropDefault     = "default"          // the filter stores only entries that match a rule
	DropExpression  = "expression_error" // rate-limited, and save_if could not be computed
	DropInvalid     = "invalid"          // no store takes it
	DropFull        = "full"
	DropError       = "error"
)

// NewMetrics adds the counters to a set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		set: set, reasons: map[string]bool{}, byKey: map[[2]string]*metrics.Counter{},
		drops: map[string]*metrics.Counter{}, results: map[string]*metrics.Counter{},
		removed: map[removal]*metrics.Counter{}, replayRuns: map[string]*metrics.Counter{},
		entries:       map[string]*metrics.Gauge{},
		bytes:         metric.DLQBytes.Gauge(set),
		disk:          metric.DLQDiskBytes.Gauge(set),
		damaged:       metric.DLQDamaged.Counter(set),
		damagedBytes:  metric.DLQDamagedBytes.Counter(set),
		damagedLost:   metric.DLQDamagedEntries.Counter(set),
		tornBytes:     metric.DLQTornBytes.Counter(set),
		commitSeconds: metric.DLQCommitSeconds.Histogram(set),
		poisoned:      metric.DLQPoisoned.Gauge(set),
	}
	metric.DLQOldestSeconds.Read(set, func() float64 {
		if ns := m.oldest.Load(); ns != 0 {
			return math.Max(0, time.Since(time.Unix(0, ns)).Seconds())
		}
		return 0
	})
	for _, origin := range []Origin{Admission, Fold, Sink} {
		m.entries[string(origin)] = metric.DLQEntries.Gauge(set, string(origin))
	}
	for _, why := range []string{DropNeverSave, DropSaveIf, DropRateLimited, DropDefault, DropExpression,
		DropInvalid, DropFull, DropError} {
		m.drops[why] = metric.DLQDropped.Counter(set, why)
	}
	for _, result := range []string{"ok", "failed", "too_old", "no_target", "held_back"} {
		m.results[result] = metric.DLQReplayed.Counter(set, result)
	}
	for why, name := range map[removal]string{discarded: "discarded", replayed: "replayed", purged: "purged"} {
		m.removed[why] = metric.DLQRemoved.Counter(set, name)
	}
	for _, result := range []string{"ok", "error"} {
		m.replayRuns[result] = metric.DLQReplayRuns.Counter(set, result)
	}
	return m
}

func (m *Metrics) orNew() *Metrics {
	if m == nil {
		return NewMetrics(metrics.NewSet())
	}
	return m
}

// saved counts entries. Reasons that are no plain words, and those beyond a bound, count
// as "other": reasons must not become labels without end.
func (m *Metrics) saved(origin Origin, reason string, n int) {
	m.mu.Lock()
	if !m.reasons[reason] {
		if len(m.reasons) < maxReasons && plainReason(reason) {
			m.reasons[reason] = true
		} else {
			reason = "other"
		}
	}
	key := [2]string{string(origin), reason}
	counter := m.byKey[key]
	if counter == nil {
		counter = metric.DLQSaved.Counter(m.set, string(origin), reason)
		m.byKey[key] = counter
	}
	m.mu.Unlock()
	counter.Add(n)
}

func plainReason(reason string) bool {
	for i := range len(reason) {
		if c := reason[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return len(reason) <= 64
}

// Dropped counts entries that were not kept. Callers count those that Save refused with
// DropFull or DropError once they give up.
func (m *Metrics) Dropped(why string, n int) {
	counter := m.drops[why]
	if counter == nil {
		counter = m.drops[DropError]
	}
	counter.Add(n)
}

// refused counts entries that no store takes, and returns err.
func (m *Metrics) refused(n int, err error) error {
	m.Dropped(DropInvalid, n)
	return err
}

func (m *Metrics) holds(byOrigin map[string]int64, bytes int64, oldest time.Time) {
	for origin, gauge := range m.entries {
		gauge.Set(float64(byOrigin[origin]))
	}
	m.bytes.Set(float64(bytes))
	if oldest.IsZero() {
		m.oldest.Store(0)
	} else {
		m.oldest.Store(oldest.UnixNano())
	}
}
