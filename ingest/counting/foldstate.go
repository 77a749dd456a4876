package counting

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// FoldState is the fold, the book of incidents, the positions of sources and the last points of counters as the log's
// reader sees them: records in, parts out.
type FoldState struct {
	Fold      *fold.Fold
	Incidents *incident.Book
	Positions *position.Book
	Counters  *counter.Table // nil: a part of the log is read, and no source goes on from it
	Tracing   *Tracing       // nil: no traces are remembered
	Rebuilds  *Rebuilds      // nil: counts stay those of their own time

	Uncounted *Uncounted // nil: events of types that services admit and do not count are not noted

	// Wants selects the events that are folded; nil selects all. An engine folds all.
	Wants func(*event.View) bool
}

// PositionsPart is the part of a checkpoint that holds the positions of sources, and CountersPart that of counters.
const (
	PositionsPart = "positions"
	CountersPart  = "counters"
)

// Apply folds one record. Events of a record are refused one by one.
func (s FoldState) Apply(rec wal.Record, refuse engine.Refuse) error {
	if rec.Lost > 0 {
		s.Fold.Gap()
		if s.Counters != nil {
			s.Counters.Lose()
		}
	}
	at := time.Unix(0, rec.Time)
	s.Tracing.begin(rec.Seq, rec.Time)
	s.Incidents.Advance(at)
	switch rec.Type {
	case record.TypeEvents:
		s.Fold.Advance(rec.Time, fold.Tick)
		events, err := s.ApplyPosition(rec.Payload)
		if err != nil {
			return err
		}
		if events.Backfill {
			s.Fold.Covers(spans(events.Covers), events.Whole)
		}
		defer s.Uncounted.end(rec.Seq, rec.Time)
		return engine.EachEvent(rec.Payload, func(backfill bool, v *event.View) error {
			if s.Wants != nil && !s.Wants(v) {
				return nil
			}
			mode := fold.Live
			if backfill {
				mode = fold.Backfill
			}
			return s.apply(rec.Time, mode, v)
		}, refuse)
	case record.TypeReplay:
		s.Fold.Advance(rec.Time, fold.Tick)
		defer s.Uncounted.end(rec.Seq, rec.Time)
		return engine.EachEvent(rec.Payload, func(_ bool, v *event.View) error {
			if s.Wants != nil && !s.Wants(v) {
				return nil
			}
			return s.apply(rec.Time, fold.Replay, v)
		}, refuse)
	case record.TypeDropped:
		s.Fold.Advance(rec.Time, fold.Tick)
		return record.ParseDropped(rec.Payload, func(d *record.Dropped) {
			s.Fold.Dropped(rec.Time, d.Service, d.Type, d.Time, d.N, string(d.Reason))
		})
	case record.TypeRebuilt:
		b, err := record.ParseRebuilt(rec.Payload)
		if err != nil {
			return err
		}
		s.Fold.Advance(rec.Time, fold.Tick)
		if s.Rebuilds == nil {
			return nil
		}
		return s.Rebuilds.apply(&rec, &b, s.Fold)
	case record.TypeTicks: // they say that the engine was up
		s.Fold.Advance(rec.Time, fold.Tick)
		return nil
	case record.TypeIncident:
		s.Fold.Advance(rec.Time, fold.Tick)
		return s.Incidents.Apply(at, rec.Payload)
	case record.TypeForget:
		f, err := record.ParseForget(rec.Payload)
		if err != nil {
			return err
		}
		s.Fold.Advance(rec.Time, fold.Tick)
		if len(f.Generations)+len(f.Services) > 0 {
			s.Fold.Forget(f.Generations, f.Services)
			s.Tracing.forget(f.Services)
		}
		for _, k := range f.Keys {
			s.Fold.EraseKey(k.Attribute, k.Hash)
		}
		return nil
	case record.TypeConfig:
		var cfg fold.Config
		if err := json.Unmarshal(rec.Payload, &cfg); err != nil {
			return fmt.Errorf("config record: %w", err)
		}
		s.Fold.Advance(rec.Time, fold.Tick)
		before := s.Fold.Config()
		err := s.Fold.SetConfig(&cfg, rec.Time)
		if err == nil && s.Rebuilds != nil {
			s.Rebuilds.configured(&rec, before, s.Fold)
		}
		return err
	case record.TypeHeartbeat:
		beat, err := record.ParseBeat(rec.Payload)
		if err != nil {
			return err
		}
		switch beat {
		case record.BeatStart:
			s.Fold.Advance(rec.Time, fold.Start)
		case record.BeatStop:
			s.Fold.Advance(rec.Time, fold.Stop)
		default:
			s.Fold.Advance(rec.Time, fold.Tick)
		}
		return nil
	}
	return fmt.Errorf("record type %d was written by a newer version", rec.Type)
}

func (s FoldState) apply(at int64, mode fold.Mode, v *event.View) error {
	err := s.Fold.Apply(at, mode, v)
	if err == fold.ErrUncounted { //nolint:errorlint // it is never wrapped, and this is asked for every event
		s.Uncounted.note(v)
		return nil
	}
	return err
}

// Uncounted notes the events that nothing counts because their service admits unknown types.
type Uncounted struct {
	record event.Batch
	stored func(seq uint64, received time.Time, list []event.Unknown)
}

// NewUncounted tells stored of the events of each record that has some. The list is valid during the call.
func NewUncounted(stored func(seq uint64, received time.Time, list []event.Unknown)) *Uncounted {
	return &Uncounted{stored: stored}
}

func (u *Uncounted) note(v *event.View) {
	if u != nil {
		u.record.Refuse(v.Service, v.Type, rejects.Uncounted, uint64(v.Count)*uint64(v.Weight))
	}
}

// end is called after the events of a record.
func (u *Uncounted) end(seq uint64, received int64) {
	if u != nil && len(u.record.Unknown) > 0 {
		u.stored(seq, time.Unix(0, received).UTC(), u.record.Unknown)
		u.record.Reset()
	}
}

// ApplyPosition comes before the events: regardless of their outcome, their messages are in the
// log.
func (s FoldState) ApplyPosition(payload []byte) (record.Events, error) {
	events, err := record.ParseEvents(payload)
	if err != nil || events.Position == nil {
		return events, err
	}
	if counter.IsPosition(events.Position) {
		apply := counter.Observed
		if s.Counters != nil {
			apply = s.Counters.Apply
		}
		seen, err := apply(events.Position)
		for _, o := range seen {
			s.Fold.Observe(o.Source, o.From, o.To)
		}
		return events, err
	}
	return events, s.Positions.Apply(events.Position)
}

func spans(list []event.Span) (out []slo.Span) {
	for _, sp := range list {
		out = append(out, slo.Span{From: time.Unix(0, sp.From), To: time.Unix(0, sp.To)})
	}
	return out
}

// Parts are those of the fold, of the incidents and of the positions.
func (s FoldState) Parts() []engine.Part {
	parts, incidents := s.Fold.Parts(), s.Incidents.Parts()
	out := make([]engine.Part, 0, len(parts)+len(incidents))
	for _, p := range parts {
		out = append(out, engine.Part{Name: p.Name, Version: p.Version, Encode: p.Encode, Vital: p.Vital})
	}
	for _, p := range incidents {
		out = append(out, engine.Part{Name: p.Name, Version: p.Version, Encode: p.Encode})
	}
	if len(s.Positions.Sources()) > 0 {
		out = append(
			out, engine.Part{Name: PositionsPart, Version: s.Positions.Version(), Encode: s.Positions.Encode, Vital: true})
	}
	if s.Counters != nil && !s.Counters.Empty() {
		out = append(out, engine.Part{Name: CountersPart, Version: s.Counters.Version(), Encode: s.Counters.Encode})
	}
	if s.Rebuilds != nil {
		if p, ok := s.Rebuilds.part(); ok {
			out = append(out, p)
		}
	}
	return out
}

// Restore gives one part back, or continues without it.
func (s FoldState) Restore(name string, data []byte) error {
	switch {
	case incident.IsPart(name):
		if data == nil {
			return nil // the others are whole without it
		}
		return s.Incidents.RestorePart(name, data)
	case name == PositionsPart:
		return s.Positions.Restore(data)
	case name == CountersPart:
		if data == nil {
			s.Counters.Lose()
			return nil
		}
		return s.Counters.Restore(data)
	case name == RebuildsPart:
		if data == nil || s.Rebuilds == nil {
			return nil
		}
		return s.Rebuilds.restore(data)
	case data == nil:
		return s.Fold.RestoreLost(name)
	}
	return s.Fold.RestorePart(name, data)
}

// Loss describes the cost of losing a part.
func (s FoldState) Loss(name string) (string, bool) {
	if incident.IsPart(name) {
		return incident.PartLoss(name), true
	}
	if name == PositionsPart {
		return "", false // without it sources would count messages twice
	}
	if name == CountersPart {
		return "what counters of OpenTelemetry and Prometheus added since their last points does not count", true
	}
	if name == RebuildsPart {
		return "which SLOs wait to be rebuilt from the retained log", true
	}
	return fold.PartLoss(name)
}

// FinishRestore says that all parts were given.
func (s FoldState) FinishRestore() error {
	err := errors.Join(s.Fold.FinishRestore(), s.Incidents.FinishRestore())
	if err == nil && s.Rebuilds != nil {
		s.Rebuilds.begin(s.Fold.Config())
	}
	return err
}

// configRecord is the payload of a config record: what is counted, and for those who read the log later the whole
// spec. The fold does not know the latter, so that it is neither in its snapshots nor compared.
type configRecord struct {
	*fold.Config
	Spec string `json:"spec,omitempty"` // in the own format; "" in those of version 0.2.0 and earlier
}

// EncodeConfig is the payload of a config record.
func EncodeConfig(cfg *fold.Config, whole []byte) ([]byte, error) {
	if cfg == nil {
		return nil, errors.New("no config")
	}
	return json.Marshal(configRecord{cfg, string(whole)})
}

// SpecOf is the whole spec in the payload of a config record; "" if the record lacks it.
func SpecOf(payload []byte) (string, error) {
	var r configRecord
	if err := json.Unmarshal(payload, &r); err != nil {
		return "", fmt.Errorf("config record: %w", err)
	}
	return r.Spec, nil
}
