package config

import (
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/outbox/relay"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
)

const shortRelay = "database: {dsn: postgres://relay@db/shop}\nkafka: {brokers: [\"k:9092\"]}\n"

func TestAShortRelayHasDefaults(t *testing.T) {
	c, err := ReadRelay("relay.yaml", []byte(shortRelay))
	require.NoError(t, err)
	o, err := c.Options()
	require.NoError(t, err)
	require.Equal(t, "outbox", o.Table.Name.Text())
	require.Equal(t, relay.Lease, o.Claim)
	require.Empty(t, c.Notes())
	require.Equal(t, 100, o.Batch)
	require.Equal(t, 10, o.Workers)
	require.Equal(t, 5*time.Minute, o.Lease)
	require.Equal(t, time.Minute, o.SendTimeout)
	require.Equal(t, time.Second, o.Poll)
	require.Equal(t, relay.DefaultMaxAttempts, o.MaxAttempts)
	require.Equal(t, relay.Continue, o.OnFailed)
	require.Empty(t, o.DeadLetterTopic)
	require.Equal(t, &outbox.Retention{Age: 7 * 24 * time.Hour, Ahead: outbox.DefaultAhead}, o.Retention)
	require.Nil(t, c.Listen)
	p, err := c.Publisher(metrics.NewSet())
	require.NoError(t, err)
	require.Equal(t, 1<<20, p.MaxBytes())
	require.NoError(t, p.Close())
}

// TestEveryKeyOfARelayArrives sets each key to another value than its default.
func TestEveryKeyOfARelayArrives(t *testing.T) {
	c, err := ReadRelay("relay.yaml", []byte(`
database: {dsn: "postgres://relay@db/shop", max_connections: 3, connect_timeout: 2s, application_name: me, transaction_pooling: true}
listen: {dsn: "postgres://relay@direct/shop", channel: rows}
table: {name: billing.events, columns: {key: k, version: v, processing_instance: i, locked_at: l}, topic: t}
claim: optimistic
batch: 7
workers: 3
memory: 2MiB
lease: 40s
send_timeout: 9s
poll: 300ms
retry: {base: 3s, cap: 4s, jitter: none}
max_attempts: 5
on_failed: block
dead_letter: {topic: dead, key: k}
breaker: {consecutive: {failures: 9, open: 9s, probes: 2}, rate: off, probe_timeout: 3s, health_interval: 4s}
kafka: {brokers: ["k:9092"], client_id: me, request_timeout: 2s, backoff: 70ms, compression: zstd, max_message_bytes: 2MiB, linger: 0s, delivery_timeout: 7s}
retention: {age: 2d, ahead: 5, source: claim}
web: {max_connections: 9}
`))
	require.NoError(t, err)
	require.Equal(t, postgres.Options{DSN: "postgres://relay@db/shop", MaxConnections: 3, ConnectTimeout: 2 * time.Second, ApplicationName: "me", TransactionPooling: true}, c.Database)
	require.Equal(t, "postgres://relay@direct/shop", c.Listen.DSN)
	require.Equal(t, "rows", c.Listen.Channel)
	require.Equal(t, 9, c.Web.MaxConnections)
	require.Contains(t, c.Notes()[0], "no particular order")
	o, err := c.Options()
	require.NoError(t, err)
	require.Equal(t, "billing.events", o.Table.Name.Text())
	require.EqualValues(t, "k", o.Table.Columns.Key)
	o.Table = nil
	require.Equal(t, relay.Options{
		Claim: relay.Optimistic, Batch: 7, Workers: 3, Memory: 2 << 20, Lease: 40 * time.Second, SendTimeout: 9 * time.Second, Poll: 300 * time.Millisecond,
		Retry: retry.Options{Base: 3 * time.Second, Cap: 4 * time.Second, Jitter: retry.None}, MaxAttempts: 5, OnFailed: relay.Block,
		DeadLetterTopic: "dead", DeadLetterKey: "k",
		Retention: &outbox.Retention{Age: 48 * time.Hour, Ahead: 5, Source: outbox.SourceClaim},
		Breaker: breaker.Options{
			Consecutive:  breaker.Consecutive{Failures: 9, Open: 9 * time.Second, Probes: 2},
			Rate:         breaker.Rate{Off: true, Threshold: 0.5, MinCalls: 10, Window: time.Minute, Open: 10 * time.Second, Probes: 2, Successes: 1},
			ProbeTimeout: 3 * time.Second, HealthInterval: 4 * time.Second,
		},
	}, o)
	k, err := c.Kafka.options("n", nil)
	require.NoError(t, err)
	require.Equal(t, kafkaclient.ProducerOptions{
		Options:     kafkaclient.Options{Brokers: []string{"k:9092"}, ClientID: "me", RequestTimeout: 2 * time.Second, Backoff: 70 * time.Millisecond, Name: "n"},
		Compression: "zstd", BatchBytes: 2 << 20, MaxMessageBytes: 2 << 20, Linger: -1, DeliveryTimeout: 7 * time.Second,
	}, k)
}

func TestProblemsOfARelayHaveTheirPlace(t *testing.T) {
	for text, wants := range map[string][]string{
		"":                               {"empty"},
		"kafka: {brokers: [\"k:9092\"]}": {"database: dsn: missing"},
		"database: {dsn: postgres://relay@db/shop}":                                               {"kafka: missing"},
		shortRelay + "lease: 1m\nsend_timeout: 50s":                                               {"relay.yaml:4", "send_timeout: must be at most half of lease (1m0s)"},
		shortRelay + "send_timeout: 10s":                                                          {"relay.yaml:3", "must be at least 46s"},
		shortRelay + "claim: luck":                                                                {"relay.yaml:3", "claim", "optimistic"},
		shortRelay + "claim: optimistic":                                                          {"relay.yaml:3", "claim: optimistic needs columns that table does not name: version, processing_instance, locked_at", "set table.preset: outbox_events"},
		shortRelay + "on_failed: stop":                                                            {"relay.yaml:3", "on_failed"},
		shortRelay + "worker: 3":                                                                  {"relay.yaml:3", `did you mean "workers"`},
		shortRelay + "retry: {base: 2s, cap: 1s}":                                                 {"relay.yaml:3", "must be at least retry.base"},
		shortRelay + "table: {columns: {kee: k}}":                                                 {"relay.yaml:3", `unknown column "kee"`},
		shortRelay + "breaker: {consecutive: off, rate: off}":                                     {"the breaker would never open"},
		shortRelay + "listen: {dsn: postgres://relay@db/shop, transaction_pooling: true}":         {"a pooler does not pass on notifications"},
		"database: {dsn: \"postgres://relay:geheim@db/shop\"}\nkafka: {brokers: [\"k\"]}":         {"contains a password", "invalid address"},
		"database: {dsn: postgres://relay@db/shop}\nkafka: {brokers: [\"k:9092\"], acks: leader}": {"acks"},
	} {
		_, err := ReadRelay("relay.yaml", []byte(text))
		for _, want := range wants {
			require.ErrorContains(t, err, want, text)
		}
		require.NotContains(t, err.Error(), "geheim")
	}
}
