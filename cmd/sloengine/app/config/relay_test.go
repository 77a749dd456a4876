package config

import (
	"os"
	"path/filepath"
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
	o, err := c.Settings()
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

const relayDatabase = "database: {dsn: postgres://relay@db/shop}\n"

func TestRabbitMQAndHTTPOfARelay(t *testing.T) {
	c, err := ReadRelay("relay.yaml", []byte(relayDatabase+`
rabbitmq: {url: "amqp://mq/shop"}
dead_letter: {routing_key: dead}
`))
	require.NoError(t, err)
	require.Equal(t, "rabbitmq", c.Destination())
	r := c.RabbitMQ
	require.Equal(t, "amqp://mq/shop", r.URL)
	require.Equal(t, relayRabbitMQ{
		rabbitBroker:    r.rabbitBroker,
		RabbitMQOptions: relay.RabbitMQOptions{TopicIs: relay.TopicIsRoutingKey, MaxMessageBytes: 1 << 20},
		Mandatory:       true, Persistent: true, ConfirmTimeout: 30 * time.Second,
	}, *r)
	o, err := c.Settings()
	require.NoError(t, err)
	require.Equal(t, "dead", o.DeadLetterTopic)
	p, err := c.Publisher(metrics.NewSet())
	require.NoError(t, err)
	require.Equal(t, 1<<20, p.MaxBytes())
	require.NoError(t, p.Close())

	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("t"), 0o600))
	c, err = ReadRelay("relay.yaml", []byte(relayDatabase+`
send_timeout: 10s
http: {url: "https://h/in", body: cloudevents, source: shop, headers: {X-Tenant: a}, token_file: "`+token+`", `+
		`health_url: "https://h/ok", tls: {server_name: x}, max_connections: 3, request_timeout: 4s, `+
		`max_message_bytes: 2MiB, rate_limit: {limit: 5}}
dead_letter: {url: "https://h/dead"}
`))
	require.NoError(t, err)
	require.Equal(t, relayHTTP{
		HTTPOptions: relay.HTTPOptions{
			URL: "https://h/in", Body: relay.BodyCloudEvents, Source: "shop", Headers: map[string]string{"X-Tenant": "a"},
			TokenFile: token, HealthURL: "https://h/ok",
			MaxConnections: 3, RequestTimeout: 4 * time.Second, MaxMessageBytes: 2 << 20,
		},
		TLS: &tlsConfig{ServerName: "x"}, RateLimit: &relayLimit{Limit: 5, Window: time.Second},
	}, *c.HTTP)
	o, err = c.Settings()
	require.NoError(t, err)
	require.NotEmpty(t, o.DeadLetterTopic)
	p, err = c.Publisher(nil)
	require.NoError(t, err)
	require.Equal(t, 2<<20, p.MaxBytes())
	require.NoError(t, p.Close())
	c.HTTP, c.DeadLetter.URL = &relayHTTP{}, ""
	require.Empty(t, c.deadLetterTopic())
}

// TestEveryKeyOfARelayArrives sets each key to another value than its default.
func TestEveryKeyOfARelayArrives(t *testing.T) {
	c, err := ReadRelay("relay.yaml", []byte(`
database: {dsn: "postgres://relay@db/shop", max_connections: 3, connect_timeout: 2s, application_name: me,
    transaction_pooling: true}
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
kafka: {brokers: ["k:9092"], client_id: me, request_timeout: 2s, backoff: 70ms, compression: zstd,
    max_message_bytes: 2MiB, linger: 0s, delivery_timeout: 7s}
retention: {age: 2d, ahead: 5, source: claim}
web: {max_connections: 9}
`))
	require.NoError(t, err)
	require.Equal(t, postgres.Options{DSN: "postgres://relay@db/shop", MaxConnections: 3, ConnectTimeout: 2 * time.Second,
		ApplicationName: "me", TransactionPooling: true}, c.Database)
	require.Equal(t, "postgres://relay@direct/shop", c.Listen.DSN)
	require.Equal(t, "rows", c.Listen.Channel)
	require.Equal(t, 9, c.Web.MaxConnections)
	require.Contains(t, c.Notes()[0], "no particular order")
	o, err := c.Settings()
	require.NoError(t, err)
	require.Equal(t, "billing.events", o.Table.Name.Text())
	require.EqualValues(t, "k", o.Table.Columns.Key)
	o.Table = nil
	require.Equal(t, relay.Options{
		Claim: relay.Optimistic, Batch: 7, Workers: 3, Memory: 2 << 20, Lease: 40 * time.Second, SendTimeout: 9 * time.Second,
		Poll:  300 * time.Millisecond,
		Retry: retry.Options{Base: 3 * time.Second, Cap: 4 * time.Second, Jitter: retry.None}, MaxAttempts: 5,
		OnFailed:        relay.Block,
		DeadLetterTopic: "dead", DeadLetterKey: "k",
		Retention: &outbox.Retention{Age: 48 * time.Hour, Ahead: 5, Source: outbox.SourceClaim},
		Breaker: breaker.Options{
			Consecutive: breaker.Consecutive{Failures: 9, Open: 9 * time.Second, Probes: 2},
			Rate: breaker.Rate{Off: true, Threshold: 0.5, MinCalls: 10, Window: time.Minute, Open: 10 * time.Second,
				Probes: 2, Successes: 1},
			ProbeTimeout: 3 * time.Second, HealthInterval: 4 * time.Second,
		},
	}, o)
	k, err := c.Kafka.options("n", nil)
	require.NoError(t, err)
	require.Equal(t, kafkaclient.ProducerOptions{
		Options: kafkaclient.Options{Brokers: []string{"k:9092"}, ClientID: "me", RequestTimeout: 2 * time.Second,
			Backoff: 70 * time.Millisecond, Name: "n"},
		Compression: "zstd", BatchBytes: 2 << 20, MaxMessageBytes: 2 << 20, Linger: -1, DeliveryTimeout: 7 * time.Second,
	}, k)
}

func TestProblemsOfARelayHaveTheirPlace(t *testing.T) {
	for text, wants := range map[string][]string{
		"":                               {"empty"},
		"kafka: {brokers: [\"k:9092\"]}": {"database: dsn: missing"},
		"database: {dsn: postgres://relay@db/shop}": {
			"kafka: missing, and so are rabbitmq and http (set kafka, rabbitmq or http)"},
		shortRelay + "rabbitmq: {url: amqp://mq}": {
			"relay.yaml:3:11: rabbitmq: only one of kafka, rabbitmq and http can be set"},
		relayDatabase + "rabbitmq: {url: amqp://mq, exchnge: x}": {"relay.yaml:2",
			`did you mean "exchange"`},
		relayDatabase + "rabbitmq: {url: amqp://mq, topic_is: exchange, exchange: x}": {"relay.yaml:2",
			"must not be set with topic_is: exchange"},
		relayDatabase + "rabbitmq: {url: \"amqp://u:geheim@mq\"}": {"relay.yaml:2",
			"contains credentials"},
		relayDatabase + "rabbitmq: {url: amqp://mq}\ndead_letter: {topic: dead}": {"relay.yaml:3",
			"dead_letter.topic: is for kafka, and the rows go to rabbitmq (set routing_key"},
		relayDatabase + "rabbitmq: {url: amqp://mq}\ndead_letter: {exchange: dead}": {"relay.yaml:3",
			"needs a routing key"},
		relayDatabase + "rabbitmq: {url: amqp://mq, confirm_timeout: 1m}": {
			"must be at least 1m1s: rabbitmq.confirm_timeout"},
		relayDatabase + "http: {body: payload}": {"relay.yaml:2", "url"},
		relayDatabase + "http: {url: \"http://h\", token_file: there-is-none}": {
			"relay.yaml:2", "token_file"},
		relayDatabase + "http: {url: \"http://h\"}\ndead_letter: {url: \"ftp://h\"}": {
			"dead letter url: must begin with http"},
		relayDatabase + "http: {url: \"http://h\", request_timeout: 1m}": {
			"must be at least 1m1s: http.request_timeout"},
		relayDatabase + "http: {url: \"http://h\", tls: {cert_file: c}}": {"relay.yaml:2",
			"cert_file and key_file must be set together"},
		shortRelay + "dead_letter: {key: k}": {"relay.yaml:3",
			"has no effect without a topic"},
		shortRelay + "lease: 1m\nsend_timeout: 50s": {"relay.yaml:4",
			"send_timeout: must be at most half of lease (1m0s)"},
		shortRelay + "send_timeout: 10s": {"relay.yaml:3",
			"must be at least 46s"},
		shortRelay + "claim: luck": {"relay.yaml:3",
			"claim", "optimistic"},
		shortRelay + "claim: optimistic": {"relay.yaml:3",
			"claim: optimistic needs columns that table does not name: version, processing_instance, locked_at",
			"set table.preset: outbox_events"},
		shortRelay + "on_failed: stop": {
			"relay.yaml:3", "on_failed"},
		shortRelay + "worker: 3": {"relay.yaml:3",
			`did you mean "workers"`},
		shortRelay + "retry: {base: 2s, cap: 1s}": {"relay.yaml:3",
			"must be at least retry.base"},
		shortRelay + "table: {columns: {kee: k}}": {"relay.yaml:3",
			`unknown column "kee"`},
		shortRelay + "breaker: {consecutive: off, rate: off}": {
			"the breaker would never open"},
		shortRelay + "listen: {dsn: postgres://relay@db/shop, transaction_pooling: true}": {
			"a pooler does not pass on notifications"},
		"database: {dsn: \"postgres://relay:geheim@db/shop\"}\nkafka: {brokers: [\"k\"]}": {"contains a password",
			"invalid address"},
		"database: {dsn: postgres://relay@db/shop}\nkafka: {brokers: [\"k:9092\"], acks: leader}": {"acks"},
	} {
		_, err := ReadRelay("relay.yaml", []byte(text))
		for _, want := range wants {
			require.ErrorContains(t, err, want, text)
		}
		require.NotContains(t, err.Error(), "geheim")
	}
}
