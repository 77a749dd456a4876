// Package kafkasink writes events to a Kafka topic, one record for each event: the value is the event's JSON, as the HTTP
// sink sends it, and the key is made of its service and id, so that all that is about one event stays in order and a
// consumer can deduplicate.
//
// A batch is delivered once the brokers have acknowledged every record. The producer is idempotent, so its own retries
// make no duplicates. A crash, or a delivery that took too long, can make some.
//
// It does not retry, batch or limit by itself beyond what the client does: reliability/dispatch does.
package kafkasink

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
)

// Options of a Sink. A zero field takes the default given with it.
type Options struct {
	kafkaclient.Options `yaml:",inline"`
	Topic               string `yaml:"topic" is:"required"` // it has to exist
	// Key is that of the records, with placeholders; "{service}/{id}". An event without one of them has no key.
	Key string `yaml:"key"`
	// Acks are the replicas that confirm a record: all in sync, or the leader alone, which may lose it.
	Acks string `yaml:"acks" one:"all leader"` // all
	// NotIdempotent lets retries of the client make duplicates, for brokers that refuse idempotent producers.
	NotIdempotent bool
	Compression   string `yaml:"compression" one:"none gzip snappy lz4 zstd"` // snappy

	BatchBytes      int64         `yaml:"batch_bytes" min:"1KiB" max:"64MiB" is:"size"`       // of one partition; 64 KiB
	MaxMessageBytes int64         `yaml:"max_message_bytes" min:"1KiB" max:"64MiB" is:"size"` // of one event; 1 MiB
	Linger          time.Duration `yaml:"linger" max:"10s"`                                   // wait for more of a batch; 20 ms, negative: none
	BufferBytes     int64         `yaml:"buffer_bytes" min:"1MiB" max:"16GiB" is:"size"`      // that wait for the brokers; 128 MiB
	// DeliveryTimeout bounds a delivery with all retries of the client; 120 s.
	DeliveryTimeout time.Duration `yaml:"delivery_timeout" min:"1s" max:"1h"`
}

// Defaults of Options.
const (
	DefaultKey             = "{service}/{id}"
	DefaultAcks            = "all"
	DefaultCompression     = "snappy"
	DefaultBatchBytes      = 64 << 10
	DefaultMaxMessageBytes = 1 << 20
	DefaultLinger          = 20 * time.Millisecond
	DefaultBufferBytes     = 128 << 20
	DefaultDeliveryTimeout = 2 * time.Minute
)

func (o *Options) applyDefaults() {
	o.Key = cmp.Or(o.Key, DefaultKey)
	o.Acks = cmp.Or(o.Acks, DefaultAcks)
	o.Compression = cmp.Or(o.Compression, DefaultCompression)
	o.BatchBytes = cmp.Or(o.BatchBytes, DefaultBatchBytes)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, DefaultMaxMessageBytes)
	o.Linger = max(cmp.Or(o.Linger, DefaultLinger), 0)
	o.BufferBytes = cmp.Or(o.BufferBytes, DefaultBufferBytes)
	o.DeliveryTimeout = cmp.Or(o.DeliveryTimeout, DefaultDeliveryTimeout)
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// validate reports everything that is wrong, and reads the password.
func (o *Options) validate() (key *placeholder.Text, err error) {
	errs := []error{o.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Topic == "" {
		bad("topic: missing")
	}
	key, kerr := placeholder.Parse(o.Key)
	if kerr != nil {
		bad("key: %w", kerr)
	}
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
	if o.DeliveryTimeout < cmp.Or(o.RequestTimeout, kafkaclient.DefaultRequestTimeout)+o.Linger {
		bad("delivery_timeout: %s is less than request_timeout and linger together", o.DeliveryTimeout)
	}
	return key, errors.Join(errs...)
}

// producer are the options of the client.
func (o *Options) producer(batchBytes int64, linger time.Duration) []kgo.Opt {
	settings := []kgo.Opt{
		kgo.DefaultProduceTopicAlways(), kgo.DefaultProduceTopic(o.Topic),
		kgo.ProduceRequestTimeout(cmp.Or(o.RequestTimeout, kafkaclient.DefaultRequestTimeout)), kgo.RecordDeliveryTimeout(o.DeliveryTimeout),
		kgo.ProducerBatchMaxBytes(int32(batchBytes)), kgo.ProducerLinger(linger), kgo.ProducerBatchCompression(codecs[o.Compression]),
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
