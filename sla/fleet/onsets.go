package fleet

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// MaxOnsets is how many onsets an engine tells of a span.
const MaxOnsets = 100_000

// Onset is when an incident of an engine began.
type Onset struct {
	Incident string // its ID
	At       time.Time
	Affected []Affected
}

// Affected is an SLO or an agreement in one group that an incident was about. No group stands for all groups.
type Affected struct {
	ID    slo.ID
	Group slo.Group
}

// Onsets are those of the incidents of all engines in a span. They are not known if an engine does not know its own or
// does not answer. IDs begin with the name of the engine, since each has incidents of its own.
func (f *Fleet) Onsets(ctx context.Context, sp slo.Span) (all []Onset, known bool) {
	f.mu.Lock()
	q, joined := &CountsQuery{Spec: f.spec, Onsets: true, Span: [2]int64{sp.From.UnixNano(), sp.To.UnixNano()}}, f.joined
	f.mu.Unlock()
	parts, err := f.ask(ctx, q, joined)
	if err != nil {
		return nil, false
	}
	for i, p := range parts {
		if p == nil || !p.OnsetsKnown {
			return nil, false
		}
		for _, o := range p.Onsets {
			o.Incident = nameOf(f.opt.Engines[i]) + " " + o.Incident
			all = append(all, o)
		}
	}
	return all, true
}
