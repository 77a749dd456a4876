// Package brokers has the end-to-end tests of sources, sinks and the relay with Kafka, RabbitMQ and PostgreSQL.
package brokers

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

var (
	kafkaCycles = flag.Int("kafka.cycles", 8, "faults of the set checker of the Kafka source")
	kafkaNodes  = flag.Int("kafka.nodes", 1, "nodes of its cluster")
)

// TestKafkaSetChecker reads a topic while the engine is killed, the broker is killed, and the network is cut, at random
// moments. Whatever is in the topic in the end is counted exactly once, by id and also without ids. The topic itself is
// the oracle, and each message is a group, so one that is lost and another one that is counted twice do not make up for
// each other.
func TestKafkaSetChecker(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Start(t, kafkatest.Options{Proxied: true, Brokers: *kafkaNodes})
	cluster.CreateTopic(t, "orders", 5, nil)

	produced := produceUntil(t, cluster)
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	settings := e2etest.CrashSettings +
		fmt.Sprintf(`sources: [{name: orders, backfill: never, kafka: {brokers: ["%s"], topics: [orders], refresh: 200ms,
		    backoff: 50ms, fetch: {min_bytes: 1, max_wait: 20ms}}}]
`, strings.Join(cluster.ProxiedBrokers(), `", "`))
	p, faults := disturbSource(t, *kafkaCycles, e2etest.ServeArgs(t, dir, spec, settings), func(rnd *rand.Rand) origin {
		node := rnd.IntN(*kafkaNodes) // with three, the others lead what it led
		return origin{name: "broker", cut: cluster.Proxies[node].Cut, restore: cluster.Proxies[node].Restore,
			kill: func() { cluster.Kill(node) }, restart: func() { cluster.Restart(t, node) }}
	})
	produced.stop()
	p.WaitReady(t)

	want := map[string]int{}
	withoutID := 0
	for _, r := range cluster.Records(t, "orders") {
		var e struct {
			ID         string
			Attributes struct{ UID string }
		}
		require.NoError(t, json.Unmarshal(r.Value, &e))
		want[e.Attributes.UID]++
		if e.ID == "" {
			withoutID++
		}
	}
	// The producer is idempotent, so the topic has each message once.
	require.GreaterOrEqual(t, len(want), produced.acked)
	require.Eventually(t, func() bool {
		return len(e2etest.CountsByID(t, p)) >= len(want)
	}, testkit.Patience, 250*time.Millisecond, p.Log.String())
	t.Logf("nodes %d, faults %v, without id %d", *kafkaNodes, faults, withoutID)
	requireCountedAsSent(t, p, want)
}

// producing writes to a topic until stop.
type producing struct {
	stop  func()
	acked int // after stop
}

// produceUntil writes events, every other one without an id. It goes around the proxies.
func produceUntil(t *testing.T, c *kafkatest.Cluster) *producing {
	client := c.Client(t, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	p := &producing{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil && n < e2etest.CrashIDs; n += 10 {
			var records []*kgo.Record
			for i := range 10 {
				id := fmt.Sprintf(`"id":"e-%d",`, n+i)
				if i%2 == 0 {
					id = ""
				}
				records = append(
					records, kgo.StringRecord(fmt.Sprintf(`{%s"service":"crash","type":"t","attributes":{"uid":"u-%d"}}`, id, n+i)))
			}
			if client.ProduceSync(context.Background(), records...).FirstErr() == nil { // through every restart
				p.acked += len(records)
			}
			testkit.Pause(5 * time.Millisecond)
		}
	})
	p.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); client.Close() })
	t.Cleanup(p.stop)
	return p
}
