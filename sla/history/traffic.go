package history

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/sla"
)

// Bounds of a TrafficLog. Its memory is at most the product of the two, eight
// bytes each, and that of the labels.
const (
	maxTrafficSeries  = 2000
	maxTrafficSamples = 1000
)

// TrafficLog remembers how the reports' traffic counters grew, so that the page
// of an SLO can say which attribute values the bad events of some hours had. It
// lives in memory only and begins with the process. It is safe for concurrent use.
type TrafficLog struct {
	mu      sync.Mutex
	index   map[string]int
	series  []TrafficSeries
	samples []trafficSample
}

// TrafficSeries is one counter of events, by the attributes that it is split by.
type TrafficSeries struct {
	Service, Type, Outcome, Severity string
	Names, Values                    []string // of the other attributes
}

type trafficSample struct {
	at     time.Time
	counts []uint64 // by series; those that came later are missing
}

// NewTrafficLog makes an empty log.
func NewTrafficLog() *TrafficLog { return &TrafficLog{index: map[string]int{}} }

// spacing is how far apart samples of an age are kept.
func spacing(age time.Duration) time.Duration {
	switch {
	case age < 90*time.Minute:
		return time.Minute
	case age < 26*time.Hour:
		return 10 * time.Minute
	case age < 8*24*time.Hour:
		return time.Hour
	}
	return 6 * time.Hour
}

// Observe takes note of a report's counters, once a minute at most. Series beyond
// the first 2,000 are left out.
func (l *TrafficLog) Observe(rep *sla.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 0 {
		last := l.samples[n-1].at
		if d := rep.Time.Sub(last); d >= 0 && d < time.Minute {
			return
		} else if d < 0 {
			l.samples = nil // the clock was set back
		}
	}
	s := trafficSample{at: rep.Time, counts: make([]uint64, len(l.series), len(l.series)+len(rep.Traffic))}
	var key []byte
	for i := range rep.Traffic {
		t := &rep.Traffic[i]
		key = key[:0]
		for _, part := range [][]string{{t.Service, t.Type, t.Outcome, t.Severity}, t.DimensionNames, t.DimensionValues} {
			for _, x := range part {
				key = append(binary.AppendUvarint(key, uint64(len(x))), x...)
			}
		}
		at, ok := l.index[string(key)]
		if !ok {
			if len(l.series) >= maxTrafficSeries {
				continue
			}
			at = len(l.series)
			l.index[string(key)] = at
			l.series = append(l.series, TrafficSeries{t.Service, t.Type, t.Outcome, t.Severity, slices.Clone(t.DimensionNames),
				slices.Clone(t.DimensionValues)})
			s.counts = append(s.counts, 0)
		}
		s.counts[at] = t.Count
	}
	l.samples = append(l.samples, s)
	l.thin(rep.Time)
}

// thin drops samples whose neighbours are close enough for their age.
func (l *TrafficLog) thin(now time.Time) {
	kept := l.samples[:0]
	for i, s := range l.samples {
		first, last := i == 0, i == len(l.samples)-1
		if !first && !last && l.samples[i+1].at.Sub(kept[len(kept)-1].at) <= spacing(now.Sub(s.at)) {
			continue
		}
		kept = append(kept, s)
	}
	if over := len(kept) - maxTrafficSamples; over > 0 {
		kept = append(kept[:0], kept[over:]...)
	}
	clear(l.samples[len(kept):])
	l.samples = kept
}

// Growth is how many events of a series were received in some time.
type Growth struct {
	TrafficSeries
	Count uint64
}

// Between gives what the counters of a service grew by between two times, as near
// as there are samples, and the times that it is of.
func (l *TrafficLog) Between(service string, from, to time.Time) (out []Growth, at time.Time, until time.Time) {
	if l == nil {
		return nil, at, until
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	find := func(t time.Time) int {
		i, found := slices.BinarySearchFunc(l.samples, t, func(s trafficSample, t time.Time) int { return s.at.Compare(t) })
		if !found {
			i--
		}
		return i
	}
	a, b := max(0, find(from)), find(to)
	if b <= a {
		return nil, at, until
	}
	old, last := l.samples[a], l.samples[b]
	for i, n := range last.counts {
		if l.series[i].Service != service {
			continue
		}
		if i < len(old.counts) && old.counts[i] <= n {
			n -= old.counts[i] // a counter that fell was reset
		}
		if n > 0 {
			out = append(out, Growth{l.series[i], n})
		}
	}
	return out, old.at, last.at
}

// Get is the value of an attribute; "" if the counter is not split by it.
func (s *TrafficSeries) Get(name string) string {
	switch name {
	case "service":
		return s.Service
	case "type":
		return s.Type
	case "outcome":
		return s.Outcome
	case "severity":
		return s.Severity
	}
	if i := slices.Index(s.Names, name); i >= 0 && i < len(s.Values) {
		return s.Values[i]
	}
	return ""
}
