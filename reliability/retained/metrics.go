package retained

import (
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the figures of a Store.
type Metrics struct {
	bytes, files, ratio, oldest, from *metrics.Gauge
	rawBytes, written                 *metrics.Counter
	failures, damaged, givenUp        *metrics.Counter
	removed                           map[string]*metrics.Counter
	erasing                           *metrics.Gauge
	erased                            *metrics.Counter
}

// NewMetrics adds the figures to a set. One Store per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		bytes:    metric.HistoryBytes.Gauge(set),
		files:    metric.HistoryFiles.Gauge(set),
		ratio:    metric.HistoryRatio.Gauge(set),
		oldest:   metric.HistoryOldest.Gauge(set),
		from:     metric.HistoryFrom.Gauge(set),
		rawBytes: metric.HistoryReadBytes.Counter(set),
		written:  metric.HistoryWrittenBytes.Counter(set),
		failures: metric.HistoryFailures.Counter(set),
		damaged:  metric.HistoryDamaged.Counter(set),
		givenUp:  metric.HistoryGivenUp.Counter(set),
		removed:  map[string]*metrics.Counter{},
		erasing:  metric.HistoryErasing.Gauge(set),
		erased:   metric.HistoryErased.Counter(set),
	}
	for _, reason := range []string{"age", "bytes", "disk"} {
		m.removed[reason] = metric.HistoryRemoved.Counter(set, reason)
	}
	return m
}

// Stats say what is retained.
type Stats struct {
	Files   int
	Bytes   int64
	Raw     int64 // of the same records before they were compressed
	Records uint64
	Events  uint64
	First   uint64    // the oldest record, 0 if there is none
	From    time.Time // its receive time
	Damaged int       // files whose index cannot be read
}

// Stats of the moment. Before the indexes are read, they are zero.
func (s *Store) Stats() Stats { return stats(s.snapshot()) }

func stats(files []*file) (st Stats) {
	for _, f := range files {
		st.Files++
		st.Bytes += f.size
		if f.err != nil {
			st.Damaged++
			continue
		}
		if st.First == 0 {
			st.First, st.From = f.First, time.Unix(0, f.From).UTC()
		}
		st.Raw, st.Records, st.Events = st.Raw+int64(f.Raw), st.Records+f.Records, st.Events+f.Events
	}
	return st
}

// measure publishes the figures after they changed.
func (s *Store) measure() {
	st := s.Stats()
	s.o.Metrics.bytes.Set(float64(st.Bytes))
	s.o.Metrics.files.Set(float64(st.Files))
	s.o.Metrics.oldest.Set(float64(st.First))
	ratio := 0.0
	if st.Bytes > 0 {
		ratio = float64(st.Raw) / float64(st.Bytes)
	}
	s.o.Metrics.ratio.Set(ratio)
	from := 0.0
	if !st.From.IsZero() {
		from = float64(st.From.UnixNano()) / 1e9
	}
	s.o.Metrics.from.Set(from)
}
