package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/sink"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// TestBrokerSinks: every setting arrives where it has its effect, which the tests of the sinks show.
func TestBrokerSinks(t *testing.T) {
	dir := t.TempDir()
	cert, key := nettest.SelfSigned(t)
	for name, data := range map[string][]byte{"password": []byte("hush\n"), "cert.pem": cert, "key.pem": key} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	tls := "tls: {ca_file: cert.pem, cert_file: cert.pem, key_file: key.pem, server_name: other}"
	c, err := load(t, dir, `
sinks:
  - name: stream
    kafka:
      brokers: ["k:9092"]
      client_id: me
      version: "2.8"
      sasl: {mechanism: PLAIN, username: ann, password_file: password}
      request_timeout: 3s
      backoff: 2s
      topic: events
      key: "{type}"
      acks: leader
      idempotent: false
      compression: zstd
      batch_bytes: 32KiB
      max_message_bytes: 2MiB
      linger: 5ms
      buffer_bytes: 4MiB
      delivery_timeout: 9s
      `+tls+`
  - name: bus
    rabbitmq:
      url: amqps://r/v
      username: ann
      password_file: password
      heartbeat: 3s
      connect_timeout: 4s
      client_name: me
      exchange: x
      routing_key: "{service}"
      mandatory: false
      persistent: false
      `+tls+`
  - name: insecure
    kafka: {brokers: ["k:9092"], topic: t, linger: 0s, tls: {insecure_skip_verify: true}}
  - name: plain
    rabbitmq: {url: "amqps://r", tls: {insecure_skip_verify: true}}
`)
	require.NoError(t, err)
	password := filepath.Join(dir, "password")
	require.Equal(t, sink.KafkaOptions{
		ProducerOptions: kafkaclient.ProducerOptions{
			Options: kafkaclient.Options{
				Brokers: []string{"k:9092"}, ClientID: "me", Version: "2.8", RequestTimeout: 3 * time.Second,
				Backoff: 2 * time.Second,
				SASL:    &kafkaclient.SASLOptions{Mechanism: "PLAIN", Username: "ann", PasswordFile: password},
			},
			Acks: "leader", Compression: "zstd", BatchBytes: 32 << 10, MaxMessageBytes: 2 << 20,
			Linger: 5 * time.Millisecond, BufferBytes: 4 << 20, DeliveryTimeout: 9 * time.Second,
		},
		Topic: "events", Key: "{type}",
	}, c.Sinks[0].Kafka.KafkaOptions)
	require.False(t, c.Sinks[0].Kafka.Idempotent)
	require.Equal(t, amqpclient.Options{
		URL: "amqps://r/v", Username: "ann", PasswordFile: password, Heartbeat: 3 * time.Second,
		ConnectTimeout: 4 * time.Second, ClientName: "me",
	}, c.Sinks[1].RabbitMQ.Options)
	require.Equal(t, sink.RabbitMQOptions{Exchange: "x", RoutingKey: "{service}"}, c.Sinks[1].RabbitMQ.RabbitMQOptions)
	require.False(t, c.Sinks[1].RabbitMQ.Mandatory)
	require.False(t, c.Sinks[1].RabbitMQ.Persistent)
	for _, section := range []*tlsConfig{c.Sinks[0].Kafka.TLS, c.Sinks[1].RabbitMQ.TLS} {
		o, err := section.enabled()
		require.NoError(t, err)
		require.Equal(t, "other", o.ServerName)
		require.Len(t, o.Certificates, 1)
		require.NotNil(t, o.RootCAs)
	}
	require.True(t, c.Sinks[2].Kafka.TLS.Insecure)
	require.True(t, c.Sinks[3].RabbitMQ.TLS.Insecure)
	for i, timeout := range []time.Duration{9*time.Second + kafkaGrace, 5 * time.Second,
		kafkaclient.DefaultDeliveryTimeout + kafkaGrace, 5 * time.Second} {
		o, err := c.Sinks[i].Options(SinkParts{})
		require.NoError(t, err)
		require.Equal(t, timeout, o.Timeout)
		require.Equal(t, []string{"kafka", "rabbitmq"}[i%2], c.Sinks[i].Kind())
		require.NoError(t, o.Sink.(interface{ Close() error }).Close())
	}
}
