package kafkaclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/reliability/retry"
)

// ProducerOptions of a Producer. A zero field takes the default given with it.
type ProducerOptions struct {
	Options `yaml:",inline"`
	// Acks are the replicas that confirm a record: all in sync, or the leader alone, which may lose it.
	Acks string `yaml:"acks" one:"all leader"` // all
	// NotIdempotent lets retries of the client make duplicates, for brokers that refuse idempotent producers.
	NotIdempotent bool
	Compression   string `yaml:"compression" one:"none gzip snappy lz4 zstd"` // snappy

	BatchBytes      int64 `yaml:"batch_bytes" min:"1KiB" max:"64MiB" is:"size"`       // of one partition; 64 KiB
	MaxMessageBytes int64 `yaml:"max_message_bytes" min:"1KiB" max:"64MiB" is:"size"` // of one event; 1 MiB
	// wait for more of a batch; 20 ms, negative: none
	Linger time.Duration `yaml:"linger" max:"10s"`
	// that wait for the brokers; 128 MiB
	BufferBytes int64 `yaml:"buffer_bytes" min:"1MiB" max:"16GiB" is:"size"`
	// DeliveryTimeout bounds a delivery with all retries of the client; 120 s.
	DeliveryTimeout time.Duration `yaml:"delivery_timeout" min:"1s" max:"1h"`
}

// Defaults of ProducerOptions.
const (
	DefaultAcks            = "all"
	DefaultCompression     = "snappy"
	DefaultBatchBytes      = 64 << 10
	DefaultMaxMessageBytes = 1 << 20
	DefaultLinger          = 20 * time.Millisecond
	DefaultBufferBytes     = 128 << 20
	DefaultDeliveryTimeout = 2 * time.Minute
)

// applyDefaults fills in the options that only a producer has.
func (o *ProducerOptions) applyDefaults() {
	o.Acks = cmp.Or(o.Acks, DefaultAcks)
	o.Compression = cmp.Or(o.Compression, DefaultCompression)
	o.BatchBytes = cmp.Or(o.BatchBytes, DefaultBatchBytes)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, DefaultMaxMessageBytes)
	o.Linger = max(cmp.Or(o.Linger, DefaultLinger), 0)
	o.BufferBytes = cmp.Or(o.BufferBytes, DefaultBufferBytes)
	o.DeliveryTimeout = cmp.Or(o.DeliveryTimeout, DefaultDeliveryTimeout)
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// Validate reports everything that is wrong, and reads the password. It connects to nothing.
func (o ProducerOptions) Validate() error {
	o.applyDefaults()
	errs := []error{o.Options.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Acks != "all" && o.Acks != "leader" {
		bad("acks: unknown value %q (want all or leader)", o.Acks)
	}
	if o.Acks == "leader" && !o.NotIdempotent {
		bad("acks: leader requires idempotent: false")
	}
	if _, ok := codecs[o.Compression]; !ok {
		bad("compression: unknown codec %q (want none, gzip, snappy, lz4 or zstd)", o.Compression)
	}
	if o.MaxMessageBytes < o.BatchBytes {
		bad("max_message_bytes: %d is less than batch_bytes (%d)", o.MaxMessageBytes, o.BatchBytes)
	}
	if o.DeliveryTimeout < cmp.Or(o.RequestTimeout, DefaultRequestTimeout)+o.Linger {
		bad("delivery_timeout: %s is less than request_timeout and linger together", o.DeliveryTimeout)
	}
	return errors.Join(errs...)
}

func (o *ProducerOptions) client(batchBytes int64, linger time.Duration) []kgo.Opt {
	settings := []kgo.Opt{
		kgo.ProduceRequestTimeout(cmp.Or(o.RequestTimeout, DefaultRequestTimeout)),
		kgo.RecordDeliveryTimeout(o.DeliveryTimeout),
		kgo.ProducerBatchMaxBytes(int32(batchBytes)), kgo.ProducerLinger(linger),
		kgo.ProducerBatchCompression(codecs[o.Compression]),
		kgo.MaxBufferedBytes(int(o.BufferBytes)), kgo.MaxBufferedRecords(1 << 30), // bytes are the bound
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // as Kafka's own clients choose the partition of a key
		kgo.BrokerMaxWriteBytes(int32(max(100<<20, o.MaxMessageBytes+1<<20))),
	}
	if o.Acks == "leader" {
		settings = append(settings, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if o.NotIdempotent {
		settings = append(settings, kgo.DisableIdempotentWrite())
	}
	return settings
}

// batchOverhead is the size of a batch of one record beside its key, value and headers, in bytes,
// generously.
const batchOverhead = 512

// giveUp is how long Send waits for records to be given up after its context has ended. The dispatcher abandons a sink
// that takes longer than a second.
const giveUp = 500 * time.Millisecond

// Producer writes records and waits until the brokers have acknowledged them. It is safe for concurrent use.
type Producer struct {
	o       ProducerOptions
	batched *Client

	// single sends one record at a time: those too large for a batch, and those of a batch that the broker calls too
	// large, which says nothing about each of them. It is made when it is first needed.
	turn   chan struct{} // holds a value while a record is sent
	mu     sync.Mutex    // guards the fields below
	single *Client
	closed bool
}

// NewProducer checks the options and reads the password. It connects to nothing.
func NewProducer(o ProducerOptions) (*Producer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.applyDefaults()
	batched, err := New(o.Options, o.client(o.BatchBytes, o.Linger)...)
	if err != nil {
		return nil, err
	}
	return &Producer{o: o, batched: batched, turn: make(chan struct{}, 1)}, nil
}

// Failure is that of the client.
func (p *Producer) Failure() error { return p.batched.Failure() }

// Close ends the connections. Records that are under way are given up.
func (p *Producer) Close() error {
	p.batched.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.single != nil {
		p.single.Close()
	}
	return nil
}

// Send writes records, those that are not nil, and returns the outcome of each: nil once all replicas that Acks asks
// for have it, or an *remote.BrokerError. A record that is too large fails alone. Those that do not fit into a batch
// are written after the others.
func (p *Producer) Send(ctx context.Context, records []*kgo.Record) []error {
	ctx, stop := p.batched.Watch(ctx)
	defer stop()

	acks := newAcks(len(records))
	var alone []int
	for i, r := range records {
		switch {
		case r == nil:
			acks.done(i, nil)
		case size(r)+batchOverhead > float64(p.o.BatchBytes):
			alone = append(alone, i)
		default:
			p.batched.Produce(ctx, r, func(_ *kgo.Record, err error) { acks.done(i, err) })
		}
	}
	acks.wait(ctx, len(alone))
	for i, err := range acks.list() {
		if errors.Is(err, kerr.MessageTooLarge) {
			alone = append(alone, i)
		}
	}
	for _, i := range alone {
		acks.done(i, p.sendAlone(ctx, records[i]))
	}
	errs := acks.list()
	for i, err := range errs {
		errs[i] = p.explain(ctx, err)
	}
	return errs
}

// explain says why a record was not written.
func (p *Producer) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = cause
	}
	err = Explain(err)
	if retry.ClassOf(err) == retry.ClassTimeout {
		if why := p.batched.Failure(); why != nil {
			return retry.WithClass(fmt.Errorf("%w: %w", err, why), retry.ClassTimeout)
		}
	}
	return err
}

// sendAlone writes one record in a request of its own.
func (p *Producer) sendAlone(ctx context.Context, r *kgo.Record) error {
	if n := int64(size(r)); n+batchOverhead > p.o.MaxMessageBytes {
		return retry.Permanent(
			fmt.Errorf("the event has %d bytes as a record, more than max_message_bytes (%d)", n, p.o.MaxMessageBytes))
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	client, err := p.alone()
	if err != nil {
		return err
	}
	// as it was before the first attempt
	again := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	acks := newAcks(1)
	client.Produce(ctx, again, func(_ *kgo.Record, err error) { acks.done(0, err) })
	acks.wait(ctx, 0)
	return acks.list()[0]
}

// alone is the client that sends one record at a time.
func (p *Producer) alone() (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, kgo.ErrClientClosed
	}
	if p.single == nil {
		o := p.o.Options
		o.Name = "" // the series are those of the other client
		client, err := New(o, p.o.client(p.o.MaxMessageBytes, 0)...)
		if err != nil {
			return nil, err
		}
		p.single = client
	}
	return p.single, nil
}

// Check asks the brokers for topics; without any, whether they answer.
func (p *Producer) Check(ctx context.Context, topics ...string) error {
	ctx, stop := p.batched.Watch(ctx)
	defer stop()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // nil would be all topics
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	answer, err := request.RequestWith(ctx, p.batched.Client)
	if err == nil {
		for i := range answer.Topics {
			err = cmp.Or(err, kerr.ErrorForCode(answer.Topics[i].ErrorCode))
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return Explain(err)
}
