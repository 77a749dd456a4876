package kafka

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
)

// A source that starts in front of many messages that are durable already, as after an import of positions, passes over
// them instead of reading them all, and counts those in front and behind once.
func TestJumpOverDurableMessages(t *testing.T) {
	const first, behind, all = 10, 25_010, 25_030
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	p := newProducer(t, cluster.ListenAddrs()...)
	p.create(t, "orders", 1)
	random := rand.NewChaCha8([32]byte{1})
	padding := make([]byte, 500) // that cannot be compressed below half of its hexadecimal form
	var records []*kgo.Record
	for i := range all {
		_, _ = random.Read(padding)
		value := fmt.Appendf(nil, `{"id":"%d","service":"shop","type":"order","attributes":{"x":"%x"}}`, i, padding)
		records = append(records, &kgo.Record{Topic: "orders", Value: value})
	}
	require.NoError(t, p.ProduceSync(t.Context(), records...).FirstErr())
	topics, err := p.admin.ListTopics(t.Context(), "orders")
	require.NoError(t, err)

	dir := t.TempDir()
	e := sourcetest.Start(t, dir)
	known := position.Progress{Stream: position.Stream{Name: "orders", ID: topics["orders"].ID}, Epoch: position.NoEpoch,
		Ranges: []position.Range{{From: first, To: behind}}}
	_, err = e.AdmitAt(t.Context(), &event.Batch{}, nil, nil, whole{"orders", known})
	require.NoError(t, err)
	e.Stop()

	var mu sync.Mutex
	inside := map[int64]bool{} // offsets among the durable ones that were asked for
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			for _, part := range topic.Partitions {
				if part.FetchOffset > first && part.FetchOffset < behind {
					mu.Lock()
					inside[part.FetchOffset] = true
					mu.Unlock()
				}
			}
		}
		return nil, nil, false
	})
	e = sourcetest.Start(t, dir)
	set := settings("orders")
	set.Buffer = minFetch
	s := startSource(t, e, plain(cluster.ListenAddrs()...), set, nil)
	e.RequireOnce(t, first+all-behind)
	require.EqualValues(t, first+all-behind, s.intake.Totals().Messages)
	for i := range all {
		_, counted := e.State.All()[fmt.Sprint(i)]
		require.Equal(t, i < first || i >= behind, counted, i)
	}
	s.stop()
	mu.Lock()
	defer mu.Unlock()
	require.Less(t, len(inside), 8, "of the megabytes that are durable, those that were on their way")
	require.Equal(t, []position.Range{{From: 0, To: all}}, e.State.Book.Of("orders")[0].Ranges)
}
