package fleet

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/sloengine/sloengine/ingest/binread"
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

// appendOnsets writes onsets; known is false if those of that time are not retained any more.
func appendOnsets(b []byte, known bool, all []Onset) []byte {
	b = binary.AppendUvarint(binread.AppendBool(b, known), uint64(len(all)))
	for _, o := range all {
		b = appendTime(binread.AppendText(b, o.Incident), o.At)
		b = binary.AppendUvarint(b, uint64(len(o.Affected)))
		for _, a := range o.Affected {
			b = binread.AppendTexts(binread.AppendText(b, string(a.ID)), a.Group)
		}
	}
	return b
}

func (r *reader) onsets() (known bool, all []Onset) {
	known = r.Bool()
	for range min(r.Count(3), MaxOnsets) {
		o := Onset{Incident: r.Text(), At: r.time()}
		for range r.Count(2) {
			o.Affected = append(o.Affected, Affected{slo.ID(r.Text()), r.texts()})
		}
		all = append(all, o)
	}
	return known, all
}

// Onsets are those of the incidents of all engines in a span. They are not known if an engine does not know its own or does
// not answer. IDs begin with the name of the engine, since each has incidents of its own.
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
