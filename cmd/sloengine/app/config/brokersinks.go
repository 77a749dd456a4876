package config

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/ingest/sink"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// ClientOfSink is what the metrics of brokers put before the name of a sink.
const ClientOfSink = "sink:"

// kafkaGrace is added to the delivery time-out of the client, which is to end first: a call that is cut off may be sent
// again while the client still holds its events.
const kafkaGrace = 5 * time.Second

type kafkaSinkConfig struct {
	sink.KafkaOptions `yaml:",inline"`
	TLS               *tlsConfig `yaml:"tls"` // {}: with the authorities of the system
	Idempotent        bool       `yaml:"idempotent"`
}

func (k *kafkaSinkConfig) prefill(*Config) {
	k.ClientID, k.RequestTimeout, k.Backoff = kafkaclient.DefaultClientID, kafkaclient.DefaultRequestTimeout,
		kafkaclient.DefaultBackoff
	k.Key, k.Acks, k.Compression, k.Idempotent = sink.DefaultKafkaKey, kafkaclient.DefaultAcks,
		kafkaclient.DefaultCompression, true
	k.BatchBytes, k.MaxMessageBytes, k.BufferBytes = kafkaclient.DefaultBatchBytes, kafkaclient.DefaultMaxMessageBytes,
		kafkaclient.DefaultBufferBytes
	k.Linger, k.DeliveryTimeout = kafkaclient.DefaultLinger, kafkaclient.DefaultDeliveryTimeout
}

func (k *kafkaSinkConfig) check(f *yamldoc.Decoder, path string) {
	k.TLS.check(f, path+".tls")
	if f.Broken(path) || f.Broken(path+".tls") {
		return
	}
	// The sink knows the rest, and reads the password.
	s, err := k.sink("", nil)
	tried(f, path, "kafka sink: ", s, err)
}

func (k *kafkaSinkConfig) sink(name string, m *kafkaclient.Metrics) (*sink.Kafka, error) {
	o := k.KafkaOptions
	o.Name, o.Metrics, o.NotIdempotent = name, m, !k.Idempotent
	if o.Linger == 0 {
		o.Linger = -1 // that is how the option says none
	}
	var err error
	if o.TLS, err = k.TLS.enabled(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return sink.NewKafka(o)
}

type rabbitMQSinkConfig struct {
	rabbitBroker         `yaml:",inline"`
	sink.RabbitMQOptions `yaml:",inline"`
	Mandatory            bool `yaml:"mandatory"`
	Persistent           bool `yaml:"persistent"`
}

func (r *rabbitMQSinkConfig) prefill(c *Config) {
	r.rabbitBroker.prefill(c)
	r.RoutingKey, r.Mandatory, r.Persistent = sink.DefaultRoutingKey, true, true
}

func (r *rabbitMQSinkConfig) check(f *yamldoc.Decoder, path string) {
	r.TLS.check(f, path+".tls")
	if f.Broken(path) || f.Broken(path+".tls") {
		return
	}
	s, err := r.sink("", nil)
	tried(f, path, "rabbitmq sink: ", s, err)
}

func (r *rabbitMQSinkConfig) sink(name string, m *amqpclient.Metrics) (*sink.RabbitMQ, error) {
	o := r.RabbitMQOptions
	o.NotMandatory, o.Transient = !r.Mandatory, !r.Persistent
	var err error
	if o.Broker, err = r.options(name, m); err != nil {
		return nil, err
	}
	return sink.NewRabbitMQ(o)
}

// enabled is the configuration of a section whose presence switches TLS on, nil without it.
func (t *tlsConfig) enabled() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	o, err := t.client()
	if err == nil && o == nil {
		o = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, err
}
