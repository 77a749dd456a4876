package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq"
	"github.com/sloengine/sloengine/reliability/amqpclient"
)

// What engine.yaml says about RabbitMQ reaches the source, the handler and their connections.
func TestRabbitMQSettings(t *testing.T) {
	dir := t.TempDir()
	secretsIn(t, dir)
	const broker = `username: u, password_file: redis.password, heartbeat: 2s, connect_timeout: 3s, client_name: slo,
      tls: {ca_file: redis-ca.pem, cert_file: client.pem, key_file: client-key.pem, server_name: rabbit.internal}`
	c := mustLoad(t, dir, `
sources:
  - name: orders
    rabbitmq: {url: "amqps://rabbit:5671/shop", `+broker+`,
      queue: orders, prefetch: 5, declare: true, queue_type: classic, ttl: 1h, dead_letter_exchange: expired}
  - name: workers
    map: {service: executor, type: .kind}
    rabbitmq_dead_letters: {url: "amqps://rabbit:5671", `+broker+`,
      queue: dlq, exchange: dlx, exchange_type: fanout, retention: 2d, declare: true, queue_type: quorum, `+
		`prefetch: 7, severity: critical,
      work_queues: [{name: w1}, {name: w2, ttl: 10m, type: report, typical_duration: 4m, delivery_limit: 3}],
      retry: [{reason: expired, type: report, queue: w2, max_deaths: 2}]}
  - {name: few, rabbitmq: {url: "amqp://rabbit", queue: q}}
  - {name: least, rabbitmq_dead_letters: {url: "amqp://rabbit", queue: q, exchange: x}}
  - {name: insecure, rabbitmq: {url: "amqps://rabbit", queue: q, tls: {insecure_skip_verify: true}}}
`)
	require.Equal(t, []string{"rabbitmq", "rabbitmq_dead_letters"}, []string{c.Sources[0].Kind(), c.Sources[1].Kind()})
	one, err := c.Sources[0].RabbitMQ(nil)
	require.NoError(t, err)
	require.Equal(t, &rabbitmq.Options{
		Queue: "orders", Prefetch: 5, Declare: true, QueueType: rabbitmq.Classic, TTL: time.Hour,
		DeadLetterExchange: "expired",
	}, one.Source)
	require.Equal(t, "orders", one.Queue())
	require.Equal(t, []string{"amqps://rabbit:5671", "shop"}, []string{one.Client.Address(), one.Client.VHost()})
	b := c.Sources[0].RabbitMQQueue.rabbitBroker
	require.Equal(t, []any{"u", 2 * time.Second, 3 * time.Second, "slo"},
		[]any{b.Username, b.Heartbeat, b.ConnectTimeout, b.ClientName})
	conn, err := b.TLS.enabled()
	require.NoError(t, err)
	require.Equal(t, "rabbit.internal", conn.ServerName)
	require.Len(t, conn.Certificates, 1)

	two, err := c.Sources[1].RabbitMQ(nil)
	require.NoError(t, err)
	require.Equal(t, &rabbitmq.HandlerOptions{
		Queue: "dlq", Exchange: "dlx", ExchangeType: rabbitmq.Fanout, Retention: 48 * time.Hour, Declare: true,
		QueueType: rabbitmq.Quorum, Prefetch: 7,
		Severity: "critical", Retry: []rabbitmq.RetryRule{{Reason: "expired", Type: "report", Queue: "w2", MaxDeaths: 2}},
		WorkQueues: []rabbitmq.WorkQueue{
			{Name: "w1", TTL: rabbitmq.DefaultTTL},
			{Name: "w2", TTL: 10 * time.Minute, Type: "report", TypicalDuration: 4 * time.Minute, DeliveryLimit: 3},
		},
	}, two.Handler)
	require.Equal(t, "dlq", two.Queue())

	few, err := c.Sources[2].RabbitMQ(nil)
	require.NoError(t, err)
	require.Equal(t, &rabbitmq.Options{Queue: "q", Prefetch: 1000, QueueType: rabbitmq.Quorum}, few.Source)
	require.Equal(t, amqpclient.DefaultHeartbeat, c.Sources[2].RabbitMQQueue.Heartbeat)
	least, err := c.Sources[3].RabbitMQ(nil)
	require.NoError(t, err)
	require.Equal(t, &rabbitmq.HandlerOptions{
		Queue: "q", Exchange: "x", ExchangeType: rabbitmq.Topic, Retention: 24 * time.Hour, QueueType: rabbitmq.Quorum,
		Prefetch: 1000, Severity: "error",
	}, least.Handler)
	require.True(t, c.Sources[4].RabbitMQQueue.TLS.Insecure)
}

// check warns of a TTL by the threshold of the spec.
func TestAdviceOnRabbitMQ(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "engine.yaml")
	require.NoError(t, os.WriteFile(name, []byte(`sources:
  - {name: least, rabbitmq_dead_letters: {url: "amqp://rabbit", queue: q, exchange: x, retention: 1h,
      work_queues: [{name: w, type: report}]}}
  - {name: events, rabbitmq: {url: "amqp://rabbit", queue: q, ttl: 1h}}
`), 0o600))
	found, err := Check(name, &Known{Typical: map[string]time.Duration{"report": 4 * time.Minute}}, DataDir{})
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Contains(t, found[0].Message, "retention: messages that are not handled within 1h are lost")
	require.Contains(t, found[1].Message, "work_queues[0].ttl: 5m is less than twice the latency threshold of report, 4m")
	require.Contains(t, found[2].Message, "rabbitmq.ttl: events that wait longer than 1h are not counted")
	found, err = Check(name, nil, DataDir{})
	require.NoError(t, err)
	require.Len(t, found, 2)
}
