package relay

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Kafka publishes rows as records: the topic is that of the row, the key is its key, and the value its payload.
type Kafka struct {
	producer *kafkaclient.Producer
	max      int
}

var _ Publisher = (*Kafka)(nil)

// NewKafka checks the options and reads the password. It connects to nothing. BatchBytes has to be MaxMessageBytes, so
// that no row overtakes another one of its key.
func NewKafka(o kafkaclient.ProducerOptions) (*Kafka, error) {
	p, err := kafkaclient.NewProducer(o)
	if err != nil {
		return nil, err
	}
	return &Kafka{p, int(o.MaxMessageBytes)}, nil
}

// Publish writes records. All records of a key are on one partition, which gets them in order.
func (k *Kafka) Publish(ctx context.Context, batch []*Message) []Outcome {
	records := make([]*kgo.Record, len(batch))
	for i, m := range batch {
		r := &kgo.Record{Topic: m.Topic, Value: m.Payload, Headers: make([]kgo.RecordHeader, len(m.Headers))}
		if m.Key != "" {
			r.Key = []byte(m.Key)
		}
		for n, h := range m.Headers {
			r.Headers[n] = kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)}
		}
		records[i] = r
	}
	outcomes := make([]Outcome, len(batch))
	for i, err := range k.producer.Send(ctx, records) {
		outcomes[i] = Outcome{Err: err, Away: err != nil && kafkaAway(err)}
	}
	return outcomes
}

// kafkaAway reports whether an error is about the cluster. One about the topic, or the permission for it, is about its
// rows, and must not hold up those of other topics.
func kafkaAway(err error) bool {
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return false
	}
	var b *remote.BrokerError
	if errors.As(err, &b) {
		return b.Kind == remote.KindConnection && retry.ClassOf(err) != retry.ClassPermanent ||
			b.Kind == remote.KindCredentials || b.Kind == remote.KindTLS
	}
	return retry.ClassOf(err) != retry.ClassPermanent // the context ended, or the client was closed
}

// Check asks the brokers whether they answer.
func (k *Kafka) Check(ctx context.Context) error { return k.producer.Check(ctx) }

// MaxBytes is max_message_bytes.
func (k *Kafka) MaxBytes() int { return k.max }

// Close ends the connections.
func (k *Kafka) Close() error { return k.producer.Close() }
