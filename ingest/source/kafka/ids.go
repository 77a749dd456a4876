package kafka

import (
	"github.com/VictoriaMetrics/metrics"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/metric"
)

// idSample finds ids that come again on another partition: two engines would count them twice. It looks at one of 64
// ids, chosen by hash, so that every partition has the same ones, and remembers the partition of the last 65,536 of
// these. One that hashes to the place of another takes it, so the memory is fixed. The goroutine of the session owns
// it.
type idSample struct {
	homes                           []home // by hash; nil before the first id
	first, samePartition, elsewhere *metrics.Counter
}

// home is where an id was last.
type home struct {
	id        uint32 // another part of its hash; 0 if absent
	partition int32
}

// One of 2^sampleBits ids is looked at, and sampleSize of them are remembered: 512 KiB.
const (
	sampleBits = 6
	sampleSize = 1 << 16
)

func (s *idSample) init(m *Metrics, name string) {
	m.sources.Add(name, func(g *metric.Group) {
		s.first = g.Counter(metric.KafkaSourceSampledIDs, name, "first")
		s.samePartition = g.Counter(metric.KafkaSourceSampledIDs, name, "same_partition")
		s.elsewhere = g.Counter(metric.KafkaSourceSampledIDs, name, "other_partition")
	})
}

// look samples the ids of a batch.
func (s *idSample) look(b *source.Batch, c *claim) {
	if s.homes == nil {
		s.homes = make([]home, sampleSize)
	}
	b.EachKey(1<<sampleBits-1, func(stream int, key xxh3.Uint128) {
		h := &s.homes[key.Lo>>sampleBits%sampleSize]
		id, partition := uint32(key.Hi)|1, c.parts[stream].part.stream.Partition
		switch {
		case h.id != id:
			s.first.Inc()
		case h.partition == partition:
			s.samePartition.Inc()
		default:
			s.elsewhere.Inc()
		}
		*h = home{id, partition}
	})
}
