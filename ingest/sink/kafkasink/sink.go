package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/retry"
)

// batchOverhead is what a batch of one record needs beside its key and value, in bytes, generously.
const batchOverhead = 512

// giveUp is how long Send waits for records to be given up after its context has ended. The dispatcher abandons a sink
// that takes longer than a second.
const giveUp = 500 * time.Millisecond

// Sink is a dispatch.Sink and a dispatch.Checker. It is safe for concurrent use.
type Sink struct {
	o       Options
	key     *placeholder.Text
	batched *kafkaclient.Client

	// single sends one record at a time: those too large for a batch, and those of a batch that the broker calls too
	// large, which says nothing about each of them. It is made when it is first needed.
	turn   chan struct{} // holds a value while a record is sent
	mu     sync.Mutex    // guards the fields below
	single *kafkaclient.Client
	closed bool
}

var (
	_ dispatch.Sink    = (*Sink)(nil)
	_ dispatch.Checker = (*Sink)(nil)
)

// New checks the options and reads the password. It connects to nothing.
func New(o Options) (*Sink, error) {
	o.applyDefaults()
	key, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	s := &Sink{o: o, key: key, turn: make(chan struct{}, 1)}
	if s.batched, err = kafkaclient.New(o.Options, o.producer(o.BatchBytes, o.Linger)...); err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	return s, nil
}

// Close ends the connections. Records that are under way are given up.
func (s *Sink) Close() error {
	s.batched.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.single != nil {
		s.single.Close()
	}
	return nil
}

// Send writes a batch and waits for the acknowledgements. An event that is too large fails alone.
func (s *Sink) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		// The client would try on with a wrong password until the delivery times out.
		if err := s.batched.Blocked(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-watched }()

	acks := newAcks(len(batch))
	var alone []int
	records := make([]*kgo.Record, len(batch))
	for i := range batch {
		r, err := s.record(&batch[i])
		switch {
		case err != nil:
			acks.done(i, retry.Permanent(err))
		case int64(len(r.Key)+len(r.Value)+batchOverhead) > s.o.BatchBytes:
			records[i], alone = r, append(alone, i)
		default:
			records[i] = r
			s.batched.Produce(ctx, r, func(_ *kgo.Record, err error) { acks.done(i, err) })
		}
	}
	acks.wait(ctx, len(alone))
	for i, err := range acks.list() {
		if errors.Is(err, kerr.MessageTooLarge) {
			alone = append(alone, i)
		}
	}
	for _, i := range alone {
		acks.done(i, s.sendAlone(ctx, records[i]))
	}
	return s.result(ctx, acks.list())
}

// record is that of an event.
func (s *Sink) record(it *dispatch.Item) (*kgo.Record, error) {
	value, err := event.AppendBinaryAsJSON(make([]byte, 0, 2*len(it.Payload)+64), it.Payload)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{Value: value, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}}
	if key, missing := s.key.Of(it); key != "" && missing == "" {
		r.Key = []byte(key)
	}
	return r, nil
}

// sendAlone writes one record in a request of its own.
func (s *Sink) sendAlone(ctx context.Context, r *kgo.Record) error {
	if int64(len(r.Key)+len(r.Value)+batchOverhead) > s.o.MaxMessageBytes {
		return retry.Permanent(fmt.Errorf("the event has %d bytes as a record, more than max_message_bytes (%d)", len(r.Key)+len(r.Value), s.o.MaxMessageBytes))
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	client, err := s.alone()
	if err != nil {
		return err
	}
	r.Topic, r.Partition = "", 0 // as it was before the first attempt
	acks := newAcks(1)
	client.Produce(ctx, r, func(_ *kgo.Record, err error) { acks.done(0, err) })
	acks.wait(ctx, 0)
	return acks.list()[0]
}

// alone is the client that sends one record at a time.
func (s *Sink) alone() (*kafkaclient.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, kgo.ErrClientClosed
	}
	if s.single == nil {
		o := s.o.Options
		o.Name = "" // the series are those of the other client
		client, err := kafkaclient.New(o, s.o.producer(s.o.MaxMessageBytes, 0)...)
		if err != nil {
			return nil, err
		}
		s.single = client
	}
	return s.single, nil
}

// result sorts the outcomes. When no event was taken for a reason that is about none of them, the batch has failed as a
// whole, which the breaker should know.
func (s *Sink) result(ctx context.Context, errs []error) (r dispatch.Result) {
	whole := len(errs) > 0
	for i, err := range errs {
		if err == nil {
			whole = false
			continue
		}
		if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			err = cause
		}
		err = kafkaclient.Explain(err)
		switch retry.ClassOf(err) {
		case retry.ClassPermanent:
			whole = false
		case retry.ClassTimeout:
			if why := s.batched.Failure(); why != nil {
				err = retry.WithClass(fmt.Errorf("%w: %w", err, why), retry.ClassTimeout)
			}
		}
		r.Failed = append(r.Failed, dispatch.Failure{Index: i, Err: err})
	}
	if whole {
		return dispatch.Result{Err: r.Failed[0].Err}
	}
	return r
}

// Check asks the brokers for the topic.
func (s *Sink) Check(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := s.batched.Blocked(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-watched }()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &s.o.Topic
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, s.batched.Client)
	if err == nil && len(answer.Topics) == 1 {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return kafkaclient.Explain(err)
}
