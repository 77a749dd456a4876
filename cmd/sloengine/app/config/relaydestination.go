package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/outbox/relay"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// What rows are published to.
const (
	toKafka    = "kafka"
	toRabbitMQ = "rabbitmq"
	toHTTP     = "http"
)

// relayKafka is a cluster that rows are published to. The producer is idempotent and waits for all replicas in sync.
type relayKafka struct {
	kafkaclient.Options `yaml:",inline"`
	TLS                 *tlsConfig    `yaml:"tls"`
	Compression         string        `yaml:"compression" one:"none gzip snappy lz4 zstd"`
	MaxMessageBytes     int64         `yaml:"max_message_bytes" min:"1KiB" max:"64MiB" is:"size"`
	Linger              time.Duration `yaml:"linger" max:"1s"`
	DeliveryTimeout     time.Duration `yaml:"delivery_timeout" min:"1s" max:"30m"`
}

// relayRabbitMQ is a broker that rows are published to, with confirmations.
type relayRabbitMQ struct {
	rabbitBroker          `yaml:",inline"`
	relay.RabbitMQOptions `yaml:",inline"`
	Mandatory             bool          `yaml:"mandatory"`
	Persistent            bool          `yaml:"persistent"`
	ConfirmTimeout        time.Duration `yaml:"confirm_timeout" min:"1s" max:"10m"`
}

// relayHTTP is a web service that rows are posted to.
type relayHTTP struct {
	relay.HTTPOptions `yaml:",inline"`
	TLS               *tlsConfig  `yaml:"tls"`
	RateLimit         *relayLimit `yaml:"rate_limit"`
}

// relayLimit bounds the requests of one relay.
type relayLimit struct {
	Limit  int           `yaml:"limit" is:"required" min:"1" max:"1000000"`
	Window time.Duration `yaml:"window" min:"100ms" max:"1h"`
}

func (l *relayLimit) prefill(*Config) { l.Window = time.Second }

// relayDeadLetter is where messages about rows go that are given up. Which keys there are depends on the destination.
type relayDeadLetter struct {
	Topic      string `yaml:"topic"` // of Kafka
	Key        string `yaml:"key"`
	Exchange   string `yaml:"exchange"` // of RabbitMQ
	RoutingKey string `yaml:"routing_key"`
	URL        string `yaml:"url"` // of HTTP
}

// Defaults of publishers that differ from those of a sink.
const (
	relayDeliveryTimeout = 45 * time.Second
	relayConfirmTimeout  = 30 * time.Second
	relayRequestTimeout  = 10 * time.Second
	relayRequests        = 10
	relayLinger          = 5 * time.Millisecond
	// relayGrace is what the send time-out has to have beyond the time-out of the client, which is to end first.
	relayGrace = time.Second
)

func (k *relayKafka) prefill(*Config) {
	k.ClientID, k.RequestTimeout, k.Backoff = kafkaclient.DefaultClientID, kafkaclient.DefaultRequestTimeout,
		250*time.Millisecond
	k.Compression, k.MaxMessageBytes = kafkaclient.DefaultCompression, kafkaclient.DefaultMaxMessageBytes
	k.Linger, k.DeliveryTimeout = relayLinger, relayDeliveryTimeout
}

func (r *relayRabbitMQ) prefill(c *Config) {
	r.rabbitBroker.prefill(c)
	r.TopicIs, r.Mandatory, r.Persistent = relay.TopicIsRoutingKey, true, true
	r.MaxMessageBytes, r.ConfirmTimeout = kafkaclient.DefaultMaxMessageBytes, relayConfirmTimeout
}

func (h *relayHTTP) prefill(*Config) {
	h.Body, h.MaxConnections, h.RequestTimeout = relay.BodyPayload, relayRequests, relayRequestTimeout
	h.MaxMessageBytes = kafkaclient.DefaultMaxMessageBytes
}

// Destination is what rows are published to: kafka, rabbitmq or http.
func (c *Relay) Destination() string {
	switch {
	case c.RabbitMQ != nil:
		return toRabbitMQ
	case c.HTTP != nil:
		return toHTTP
	}
	return toKafka
}

// deadLetterTopic is what the publisher takes as the topic of dead-letter messages.
func (c *Relay) deadLetterTopic() string {
	switch d := &c.DeadLetter; c.Destination() {
	case toRabbitMQ:
		return d.RoutingKey
	case toHTTP:
		if d.URL != "" {
			return "dead_letter.url"
		}
		return ""
	default:
		return d.Topic
	}
}

// checkDestination checks that there is one, and the rest by making the publisher.
func (c *Relay) checkDestination(f *yamldoc.Decoder) {
	n := 0
	for path, there := range map[string]bool{toKafka: c.Kafka != nil, toRabbitMQ: c.RabbitMQ != nil,
		toHTTP: c.HTTP != nil} {
		if there || f.Broken(path) {
			n++
		}
	}
	switch {
	case n == 0:
		f.Errorf(toKafka, "set kafka, rabbitmq or http", "missing, and so are rabbitmq and http")
		return
	case n > 1:
		for _, path := range []string{toRabbitMQ, toHTTP} {
			if path == toRabbitMQ && c.RabbitMQ != nil || path == toHTTP && c.HTTP != nil {
				f.Errorf(path, "remove all but one, and start a relay for each destination with a table of its own",
					"only one of kafka, rabbitmq and http can be set")
				return
			}
		}
		return
	}
	to := c.Destination()
	c.checkDeadLetter(f, to)
	if f.Broken(to) {
		return
	}
	var tls *tlsConfig
	name, least := "delivery_timeout", time.Duration(0)
	switch to {
	case toKafka:
		tls, least = c.Kafka.TLS, c.Kafka.DeliveryTimeout
	case toRabbitMQ:
		tls, name, least = c.RabbitMQ.TLS, "confirm_timeout", c.RabbitMQ.ConfirmTimeout
	case toHTTP:
		tls, name, least = c.HTTP.TLS, "request_timeout", c.HTTP.RequestTimeout
	}
	if tls.check(f, to+".tls"); f.Broken(to + ".tls") {
		return
	}
	p, err := c.Publisher(nil)
	tried(f, to, "", p, err)
	if least += relayGrace; c.SendTimeout < least && !f.Broken("send_timeout") {
		f.Errorf("send_timeout", "raise it, or lower "+to+"."+name,
			"must be at least %s: %s.%s and %s, or rows that are still being sent are sent again", least, to, name, relayGrace)
	}
}

// checkDeadLetter refuses keys of another destination.
func (c *Relay) checkDeadLetter(f *yamldoc.Decoder, to string) {
	d := &c.DeadLetter
	for _, k := range []struct{ name, value, of string }{
		{"topic", d.Topic, toKafka}, {"key", d.Key, toKafka},
		{"exchange", d.Exchange, toRabbitMQ}, {"routing_key", d.RoutingKey, toRabbitMQ}, {"url", d.URL, toHTTP},
	} {
		if k.value != "" && k.of != to {
			f.Errorf("dead_letter."+k.name,
				"set "+map[string]string{toKafka: "topic", toRabbitMQ: "routing_key, and exchange unless it is the name of a queue",
					toHTTP: "url"}[to], "is for %s, and the rows go to %s", k.of, to)
		}
	}
	if to == toRabbitMQ && d.Exchange != "" && d.RoutingKey == "" {
		f.Errorf("dead_letter.exchange", "set dead_letter.routing_key", "needs a routing key")
	}
	if to == toKafka && d.Key != "" && d.Topic == "" {
		f.Errorf("dead_letter.key", "set dead_letter.topic", "has no effect without a topic")
	}
}

func (k *relayKafka) options(name string, m *kafkaclient.Metrics) (o kafkaclient.ProducerOptions, err error) {
	o = kafkaclient.ProducerOptions{
		Options: k.Options, Compression: k.Compression, BatchBytes: k.MaxMessageBytes, MaxMessageBytes: k.MaxMessageBytes,
		Linger: k.Linger, DeliveryTimeout: k.DeliveryTimeout,
	}
	o.Name, o.Metrics = name, m
	if o.Linger == 0 {
		o.Linger = -1 // that is how the option says none
	}
	if o.TLS, err = k.TLS.enabled(); err != nil {
		return o, fmt.Errorf("tls: %w", err)
	}
	return o, nil
}

// ClientOfRelay is what the metrics of brokers call the client of a relay.
const ClientOfRelay = "relay"

// Publisher makes the publisher, which the caller closes. set is nil if its metrics are not exported.
func (c *Relay) Publisher(set *metrics.Set) (relay.Publisher, error) {
	switch c.Destination() {
	case toRabbitMQ:
		return c.rabbitMQPublisher(set)
	case toHTTP:
		return c.httpPublisher(set)
	}
	if c.Kafka == nil {
		return nil, errors.New("kafka: missing")
	}
	var m *kafkaclient.Metrics
	if set != nil {
		m = kafkaclient.NewMetrics(set)
	}
	o, err := c.Kafka.options(ClientOfRelay, m)
	if err != nil {
		return nil, err
	}
	return relay.NewKafka(o)
}

func (c *Relay) rabbitMQPublisher(set *metrics.Set) (relay.Publisher, error) {
	r := c.RabbitMQ
	var m *amqpclient.Metrics
	if set != nil {
		m = amqpclient.NewMetrics(set)
	}
	o := r.RabbitMQOptions
	var err error
	if o.Options, err = r.options(ClientOfRelay, m); err != nil {
		return nil, err
	}
	o.ConfirmTimeout, o.NotMandatory, o.Transient = r.ConfirmTimeout, !r.Mandatory, !r.Persistent
	o.DeadLetterExchange = c.DeadLetter.Exchange
	return relay.NewRabbitMQ(o)
}

func (c *Relay) httpPublisher(set *metrics.Set) (relay.Publisher, error) {
	h, o := c.HTTP, c.HTTP.HTTPOptions
	var err error
	if o.TLS, err = h.TLS.enabled(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	if l := h.RateLimit; l != nil {
		if o.Limit, err = dispatch.NewLocalLimit(float64(l.Limit)/l.Window.Seconds(), l.Limit, c.SendTimeout); err != nil {
			return nil, fmt.Errorf("rate_limit: %w", err)
		}
	}
	o.DeadLetterURL, o.Metrics = c.DeadLetter.URL, set
	return relay.NewHTTP(o)
}
