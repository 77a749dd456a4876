package app

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/redact"
)

// redaction takes personal data out of events, by the rules in force. It is an ingest.Redactor.
type redaction struct {
	metrics *redact.Metrics
	rules   atomic.Pointer[redact.Redactor]
	any     atomic.Bool // there are rules
	salt    maphash.Seed
}

func newRedaction(c *config.Config, set *metrics.Set) (*redaction, error) {
	r := &redaction{metrics: redact.NewMetrics(set), salt: maphash.MakeSeed()}
	apply, err := r.prepare(c)
	if err != nil {
		return nil, err
	}
	apply()
	return r, nil
}

// prepare checks the rules of other settings and returns what puts them in force.
func (r *redaction) prepare(next *config.Config) (apply func(), err error) {
	rules, err := next.Redactor(r.metrics)
	if err != nil {
		return nil, err
	}
	return func() {
		r.rules.Store(rules)
		r.any.Store(len(next.Redact) > 0)
	}, nil
}

// Apply is part of ingest.Redactor.
func (r *redaction) Apply(b *event.Batch) error { return r.rules.Load().Apply(b) }

// ItemError is part of ingest.Redactor.
func (r *redaction) ItemError(e *event.ItemError) { r.rules.Load().ItemError(e) }

// BodyError is part of ingest.Redactor.
func (r *redaction) BodyError(e *event.BodyError) { r.rules.Load().BodyError(e) }

// Active is part of source.Redactor.
func (r *redaction) Active() bool { return r.any.Load() }

// shown is the value of a rate-limit context as it may be shown. Rate limits see events before
// they are redacted, so where there are rules, the page gets a name that only this process knows.
func (r *redaction) shown(value string) string {
	if !r.any.Load() {
		return value
	}
	return fmt.Sprintf("(redacted) %08x", uint32(maphash.String(r.salt, value)))
}
