package kafka

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// poisons are records that a producer could write by mistake or on purpose.
func poisons(rnd *rand.Rand) (out []*kgo.Record) {
	plain := []byte(`{"service":"shop","type":"order"}`)
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 / 2, 1 << 53, 253402300800000, 9223372036855, -1, 0} {
		out = append(out, &kgo.Record{Timestamp: time.UnixMilli(ms), Value: plain},
			&kgo.Record{Timestamp: time.UnixMilli(ms), Value: []byte("{")})
	}
	texts := []string{"", "\x00", "\xff\xfe", "ce_specversion", "ce_id", "content-type", "application/x-ndjson", "1.0",
		strings.Repeat("x", 100_000), "a\nb", `"`}
	values := []string{
		"", "null", "[]", "[[]]", "{", "\xff", `{"service":"shop","type":"order","time":"99999-01-01T00:00:00Z"}`,
		strings.Repeat("[", 100_000), `{"specversion":"1.0"}`,
		`{"service":"shop","type":"order","duration_ms":1e308}`, strings.Repeat(`{"service":"x"}`+"\n", 30),
		strings.Repeat("\x7f", 300_000), string(plain),
	}
	for len(out) < 200 {
		r := &kgo.Record{Timestamp: time.UnixMilli(rnd.Int64()), Key: []byte(texts[rnd.IntN(len(texts))])}
		if v := rnd.IntN(len(values) + 2); v < len(values) { // otherwise a tombstone
			r.Value = []byte(values[v])
		}
		for range rnd.IntN(6) {
			r.Headers = append(
				r.Headers, kgo.RecordHeader{Key: texts[rnd.IntN(len(texts))], Value: []byte(texts[rnd.IntN(len(texts))])})
		}
		out = append(out, r)
	}
	return out
}

// No record stops those behind it, with any content. Between them are the control records of transactions.
func TestPoison(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	onBoth(t, func(t *testing.T, brokers []string, topic string) {
		list := poisons(rand.New(rand.NewPCG(seed, 0)))
		p := newProducer(t, brokers...)
		p.create(t, topic, 1)
		tx, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID(topic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		t.Cleanup(tx.Close)
		end := func(commit kgo.TransactionEndTry, id string) {
			require.NoError(t, tx.BeginTransaction())
			value := fmt.Appendf(nil, `{"id":%q,"service":"shop","type":"order"}`, id)
			require.NoError(t, tx.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: value}).FirstErr())
			require.NoError(t, tx.EndTransaction(t.Context(), commit))
		}
		taken := 0
		for i, r := range list {
			r.Topic = topic
			if p.ProduceSync(t.Context(), r).FirstErr() == nil { // the broker refuses some itself
				taken++
			}
			if i%20 == 0 {
				end(kgo.TryAbort, "aborted")
				end(kgo.TryCommit, fmt.Sprintf("good-tx-%d", i))
			}
			p.put(t, topic, 1, fmt.Sprintf("good-%d", i))
		}
		require.Greater(t, taken, len(list)*9/10)
		store, err := dlq.NewMemory(dlq.MemoryOptions{})
		require.NoError(t, err)
		e := sourcetest.Start(t, t.TempDir())
		r := startSource(t, e, plain(brokers...), settings(topic), func(o *source.Options, _ *Options) {
			o.Settings.MaxMessage = 128 << 10
			o.Settings.Headers = map[string]string{"h": "a\nb"}
			o.Save = store.Save
		})
		testkit.Eventually(t, "every good record", func() bool {
			good := 0
			for id := range e.State.All() {
				if strings.HasPrefix(id, "good-") {
					good++
				}
			}
			return good == len(list)+len(list)/20
		})
		require.NotContains(t, e.State.All(), "aborted")
		require.Empty(t, r.intake.Troubles())
		stats, err := store.Stats(t.Context())
		require.NoError(t, err)
		require.Positive(t, stats.Count)
	})
}
