package kafka

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the series of Kafka sources besides those of every source.
type Metrics struct{ sources *source.Metrics }

// NewMetrics makes them leave with those of their source.
func NewMetrics(m *source.Metrics) *Metrics { return &Metrics{m} }

// maxSeries is how many partitions of a source have a series of their own. The others share one.
const maxSeries = 500

// noteFor is how long it is shown that messages were lost.
const noteFor = time.Hour

// shown is the published state of a source. It is safe for concurrent use.
type shown struct {
	metrics *Metrics
	in      *source.Intake

	rebalances, lost *metrics.Counter
	committed        map[bool]*metrics.Counter

	mu    sync.Mutex
	lags  map[place]*metrics.Gauge
	other *metrics.Gauge
	list  []source.Topic
	notes map[string]time.Time // of lost messages, by partition
}

func (s *shown) init(m *Metrics, in *source.Intake) {
	s.metrics, s.in = m, in
	s.lags, s.notes = map[place]*metrics.Gauge{}, map[string]time.Time{}
	s.committed = map[bool]*metrics.Counter{}
	name := in.Name()
	m.sources.Add(name, func(g *metric.Group) {
		s.rebalances = g.Counter(metric.KafkaSourceRebalances, name)
		s.lost = g.Counter(metric.KafkaSourceLost, name)
		s.committed[true] = g.Counter(metric.KafkaSourceCommits, name, "ok")
		s.committed[false] = g.Counter(metric.KafkaSourceCommits, name, "failed")
	})
}

func (s *shown) commits(ok bool) { s.committed[ok].Inc() }

// end sets the lag of a stopped source to 0, since it is no longer measured.
func (s *shown) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.lags {
		g.Set(0)
	}
	if s.other != nil {
		s.other.Set(0)
	}
}

// topics publishes how far the source is.
func (s *shown) topics(x *session, found kadm.TopicDetails) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string]*source.Topic{}
	for name, t := range found {
		by[name] = &source.Topic{Name: name, Partitions: len(t.Partitions)}
	}
	seen := map[place]bool{}
	rest := int64(0)
	for at, p := range x.parts {
		done, _ := x.s.book.done(at)
		if x.s.set.Ownership == Group {
			done = p.claimed
		}
		lag := max(0, p.end-done)
		if t := by[at.topic]; t != nil {
			t.Owned++
			t.Lag += lag
		}
		g := s.lags[at]
		if g == nil && len(s.lags) < maxSeries {
			s.metrics.sources.Add(s.in.Name(), func(group *metric.Group) {
				g = group.Gauge(metric.KafkaSourceLag, s.in.Name(), at.topic, strconv.Itoa(int(at.partition)))
			})
			s.lags[at] = g
		}
		seen[at] = true
		if g == nil {
			rest += lag
			continue
		}
		g.Set(float64(lag))
	}
	for at, g := range s.lags {
		if !seen[at] {
			g.Set(0)
		}
	}
	if rest > 0 || s.other != nil {
		if s.other == nil {
			s.metrics.sources.Add(s.in.Name(), func(group *metric.Group) {
				s.other = group.Gauge(metric.KafkaSourceLag, s.in.Name(), "other", "other")
			})
		}
		s.other.Set(float64(rest))
	}
	s.list = s.list[:0]
	for _, t := range by {
		s.list = append(s.list, *t)
	}
	order.By(s.list, func(a, b *source.Topic) int { return cmp.Compare(a.Name, b.Name) })
	for name, at := range s.notes {
		if x.s.o.Now().Sub(at) > noteFor {
			delete(s.notes, name)
			s.in.Works(source.TroublePosition, name)
		}
	}
}

// gap shows that messages were deleted before they were read.
func (s *shown) gap(p *part, n int64, lost position.Range) {
	at := place{p.stream.Name, p.stream.Partition}
	s.lost.Add(int(n))
	s.in.Fails(source.TroublePosition, at.String(),
		fmt.Sprintf("%d messages were deleted by retention before they were read; coverage is lower for it", n),
		fmt.Sprintf("offsets %d to %d", lost.From, lost.To-1))
	s.noted(at, s.in.Now())
}

func (s *shown) noted(at place, now time.Time) {
	s.mu.Lock()
	s.notes[at.String()] = now
	s.mu.Unlock()
}

// recreated shows that a topic was deleted and created again.
func (s *shown) recreated(topic string) {
	now := s.in.Now()
	s.mu.Lock()
	_, told := s.notes[topic]
	s.notes[topic] = now
	s.mu.Unlock()
	if !told {
		s.in.Fails(source.TroublePosition, topic,
			"the topic was deleted and created again; the new one is read from its beginning", "its ID changed")
	}
}

// Topics lists how far the source is in each topic, by name.
func (s *Source) Topics() []source.Topic {
	s.show.mu.Lock()
	defer s.show.mu.Unlock()
	return slices.Clone(s.show.list)
}

// Lag is how many messages of the partitions of this engine are not durable here.
func (s *Source) Lag() (n int64) {
	for _, t := range s.Topics() {
		n += t.Lag
	}
	return n
}
