package admission

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/redact"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Redaction takes personal data out of events, by the rules in force. It is an ingest.Redactor.
type Redaction struct {
	metrics *redact.Metrics
	rules   atomic.Pointer[redact.Redactor]
	any     atomic.Bool // there are rules
	salt    maphash.Seed
}

// NewRedaction puts the rules of the settings in force.
func NewRedaction(c *config.Config, set *metrics.Set) (*Redaction, error) {
	r := &Redaction{metrics: redact.NewMetrics(set), salt: maphash.MakeSeed()}
	apply, err := r.Prepare(c)
	if err != nil {
		return nil, err
	}
	apply()
	return r, nil
}

// Prepare checks the rules of other settings and returns what puts them in force.
func (r *Redaction) Prepare(next *config.Config) (apply func(), err error) {
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
func (r *Redaction) Apply(b *event.Batch) error { return r.rules.Load().Apply(b) }

// Append appends the redacted form of one event.
func (r *Redaction) Append(dst, raw []byte) ([]byte, error) { return r.rules.Load().Append(dst, raw) }

// Concerns reports whether a rule is about an attribute.
func (r *Redaction) Concerns(name string) bool { return r.rules.Load().Concerns(name) }

// ItemError is part of ingest.Redactor.
func (r *Redaction) ItemError(e *event.ItemError) { r.rules.Load().ItemError(e) }

// BodyError is part of ingest.Redactor.
func (r *Redaction) BodyError(e *event.BodyError) { r.rules.Load().BodyError(e) }

// Active is part of source.Redactor.
func (r *Redaction) Active() bool { return r.any.Load() }

// Shown is the value of a rate-limit context as it may be shown. Rate limits see events before
// they are redacted, so where there are rules, the page gets a name that only this process knows.
func (r *Redaction) Shown(value string) string {
	if !r.any.Load() {
		return value
	}
	return fmt.Sprintf("(redacted) %08x", uint32(maphash.String(r.salt, value)))
}

// ShowOffenders replaces the values in place, as Shown does.
func (r *Redaction) ShowOffenders(all []ratelimit.Offender) []ratelimit.Offender {
	for i := range all {
		all[i].Value = r.Shown(all[i].Value)
	}
	return all
}
