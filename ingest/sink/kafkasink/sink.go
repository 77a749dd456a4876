package kafkasink

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Sink is a dispatch.Sink and a dispatch.Checker. It is safe for concurrent use.
type Sink struct {
	o        Options
	key      *placeholder.Text
	producer *kafkaclient.Producer
}

var (
	_ dispatch.Sink    = (*Sink)(nil)
	_ dispatch.Checker = (*Sink)(nil)
)

// New checks the options and reads the password. It connects to nothing.
func New(o Options) (*Sink, error) {
	key, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	s := &Sink{o: o, key: key}
	if s.producer, err = kafkaclient.NewProducer(o.ProducerOptions); err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	return s, nil
}

// Close ends the connections. Records that are under way are given up.
func (s *Sink) Close() error { return s.producer.Close() }

// Send writes a batch and waits for the acknowledgements. An event that is too large fails alone.
func (s *Sink) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
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
	return result(errs)
}

// record is that of an event.
func (s *Sink) record(it *dispatch.Item) (*kgo.Record, error) {
	value, err := event.AppendBinaryAsJSON(make([]byte, 0, 2*len(it.Payload)+64), it.Payload)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{
		Topic: s.o.Topic, Value: value, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}}
	if key, missing := s.key.Of(it); key != "" && missing == "" {
		r.Key = []byte(key)
	}
	return r, nil
}

// result sorts the outcomes. When no event was taken, for a reason that concerns no single event, the batch has
// failed as a whole, and the breaker should count it.
func result(errs []error) dispatch.Result {
	aboutEvent := func(err error) bool { return err == nil || retry.ClassOf(err) == retry.ClassPermanent }
	if len(errs) > 0 && !slices.ContainsFunc(errs, aboutEvent) {
		return dispatch.Result{Err: errs[0]}
	}
	return dispatch.ResultOf(errs)
}

// Check asks the brokers for the topic.
func (s *Sink) Check(ctx context.Context) error { return s.producer.Check(ctx, s.o.Topic) }
