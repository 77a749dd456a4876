package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Kafka writes events to a topic, one record for each event: the value is the event's JSON, as HTTP sends it, and the
// key is made of its service and id, so that all that is about one event stays in order and a consumer can
// deduplicate.
//
// A batch is delivered once the brokers have acknowledged every record. The producer is idempotent, so its own retries
// make no duplicates. A crash, or a delivery that took too long, can make some.
//
// It is a dispatch.Checker, and safe for concurrent use.
type Kafka struct {
	o        KafkaOptions
	key      *placeholders
	producer *kafkaclient.Producer
}

var (
	_ dispatch.Sink    = (*Kafka)(nil)
	_ dispatch.Checker = (*Kafka)(nil)
)

// NewKafka checks the options and reads the password. It connects to nothing.
func NewKafka(o KafkaOptions) (*Kafka, error) {
	key, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	s := &Kafka{o: o, key: key}
	if s.producer, err = kafkaclient.NewProducer(o.ProducerOptions); err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	return s, nil
}

// Close ends the connections. Records that are under way are given up.
func (s *Kafka) Close() error { return s.producer.Close() }

// Send writes a batch and waits for the acknowledgements. An event that is too large fails alone.
func (s *Kafka) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	unreadable := map[int]error{}
	records := make([]*kgo.Record, len(batch))
	for i := range batch {
		r, err := s.record(&batch[i])
		if err != nil {
			unreadable[i] = retry.Permanent(err)
			continue
		}
		records[i] = r
	}
	errs := s.producer.Send(ctx, records)
	for i, err := range unreadable {
		errs[i] = err
	}
	return kafkaResult(errs)
}

func (s *Kafka) record(it *dispatch.Item) (*kgo.Record, error) {
	value, err := event.AppendBinaryAsJSON(make([]byte, 0, 2*len(it.Payload)+64), it.Payload)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{
		Topic: s.o.Topic, Value: value, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}}
	if key, missing := s.key.of(it); key != "" && missing == "" {
		r.Key = []byte(key)
	}
	return r, nil
}

// kafkaResult sorts the outcomes. When no event was taken, for a reason that concerns no single event, the batch has
// failed as a whole, and the breaker should count it.
func kafkaResult(errs []error) dispatch.Result {
	aboutEvent := func(err error) bool { return err == nil || retry.ClassOf(err) == retry.ClassPermanent }
	if len(errs) > 0 && !slices.ContainsFunc(errs, aboutEvent) {
		return dispatch.Result{Err: errs[0]}
	}
	return dispatch.ResultOf(errs)
}

// Check asks the brokers for the topic.
func (s *Kafka) Check(ctx context.Context) error { return s.producer.Check(ctx, s.o.Topic) }

// KafkaOptions of a Sink. A zero field takes the default given with it.
type KafkaOptions struct {
	kafkaclient.ProducerOptions `yaml:",inline"`
	Topic                       string `yaml:"topic" is:"required"` // it has to exist
	// Key is that of the records, with placeholders; "{service}/{id}". An event without one of them has no key.
	Key string `yaml:"key"`
}

// DefaultKafkaKey is that of Options.
const DefaultKafkaKey = "{service}/{id}"

// validate reports everything that is wrong, and reads the password.
func (o *KafkaOptions) validate() (key *placeholders, err error) {
	o.Key = cmp.Or(o.Key, DefaultKafkaKey)
	errs := []error{o.Validate()}
	if o.Topic == "" {
		errs = append(errs, errors.New("topic: missing"))
	}
	key, kerr := parsePlaceholders(o.Key)
	if kerr != nil {
		errs = append(errs, fmt.Errorf("key: %w", kerr))
	}
	return key, errors.Join(errs...)
}
