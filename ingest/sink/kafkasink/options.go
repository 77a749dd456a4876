// Package kafkasink writes events to a Kafka topic, one record for each event: the value is the event's JSON, as the
// HTTP sink sends it, and the key is made of its service and id, so that all that is about one event stays in order and
// a consumer can deduplicate.
//
// A batch is delivered once the brokers have acknowledged every record. The producer is idempotent, so its own retries
// make no duplicates. A crash, or a delivery that took too long, can make some.
//
// It does not retry, batch or limit by itself beyond the behaviour of the client:
// reliability/dispatch does.
package kafkasink

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
)

// Options of a Sink. A zero field takes the default given with it.
type Options struct {
	kafkaclient.ProducerOptions `yaml:",inline"`
	Topic                       string `yaml:"topic" is:"required"` // it has to exist
	// Key is that of the records, with placeholders; "{service}/{id}". An event without one of them has no key.
	Key string `yaml:"key"`
}

// DefaultKey is that of Options.
const DefaultKey = "{service}/{id}"

// validate reports everything that is wrong, and reads the password.
func (o *Options) validate() (key *placeholder.Text, err error) {
	o.Key = cmp.Or(o.Key, DefaultKey)
	errs := []error{o.Validate()}
	if o.Topic == "" {
		errs = append(errs, errors.New("topic: missing"))
	}
	key, kerr := placeholder.Parse(o.Key)
	if kerr != nil {
		errs = append(errs, fmt.Errorf("key: %w", kerr))
	}
	return key, errors.Join(errs...)
}
