package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// Ids that come again on another partition are counted apart from those that stay, and the rest of their number is that
// of one in 64.
func TestIDsOnOtherPartitions(t *testing.T) {
	brokers := fake(t)
	p := newProducer(t, brokers...)
	p.create(t, "orders", 4)
	e := sourcetest.Start(t, t.TempDir())
	s := startSource(t, e, plain(brokers...), settings("orders"), nil)
	sent := uint64(0)
	put := func(turn int, ids []string) {
		t.Helper()
		var records []*kgo.Record
		for i, id := range ids {
			records = append(records, &kgo.Record{Topic: "orders", Partition: int32((i + turn) % 4), Value: []byte(valueOf(id))})
		}
		require.NoError(t, p.ProduceSync(t.Context(), records...).FirstErr())
		sent += uint64(len(ids))
		testkit.Eventually(t, "the messages", func() bool {
			return s.intake.Totals().Accepted+s.intake.Totals().Duplicates == sent
		})
	}
	list := ids("a", 6400)
	put(0, list)
	first := s.ids.first.Get()
	require.InDelta(t, 100, first, 50, "one of 64")
	put(4, list)
	require.Equal(
		t, []uint64{first, first, 0}, []uint64{s.ids.first.Get(), s.ids.samePartition.Get(), s.ids.elsewhere.Get()})
	put(1, list)
	require.Equal(
		t, []uint64{first, first, first}, []uint64{s.ids.first.Get(), s.ids.samePartition.Get(), s.ids.elsewhere.Get()})
	e.RequireOnce(t, 6400)

	// Events without an id have one of their place, which is unique.
	var records []*kgo.Record
	for i := range 1000 {
		records = append(
			records, &kgo.Record{Topic: "orders", Partition: int32(i % 4), Value: []byte(`{"service":"shop","type":"order"}`)})
	}
	require.NoError(t, p.ProduceSync(t.Context(), records...).FirstErr())
	e.RequireOnce(t, 7400)
	require.Equal(t, first, s.ids.first.Get())
}

// sampled is a batch of n events with ids, as a session holds it when it samples them.
func sampled(t testing.TB, n int) (*Source, *source.Batch, *claim) {
	e := sourcetest.Start(t, t.TempDir())
	s := startSource(t, e, plain("127.0.0.1:1"), settings("orders"), nil)
	b := s.intake.Batch(false)
	c := &claim{batch: b}
	stream := c.of(newPart(position.Stream{Name: "orders"}))
	for i := range n {
		b.Add(&source.Message{Topic: "orders", Offset: int64(i), Stream: stream, Value: []byte(valueOf(fmt.Sprint(i)))})
	}
	return s.Source, b, c
}

func TestSamplingAllocatesNothing(t *testing.T) {
	s, b, c := sampled(t, 1000)
	defer b.Release()
	s.ids.look(b, c)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.ids.look(b, c) }))
}

// BenchmarkSampling is the cost of one batch of 10,000 events.
func BenchmarkSampling(b *testing.B) {
	s, batch, c := sampled(b, 10_000)
	defer batch.Release()
	for b.Loop() {
		s.ids.look(batch, c)
	}
}
