package counting

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo/fold"
)

// loneFold counts some indicators from the log, in its order, as a FoldState counts all of them.
type loneFold struct {
	lone  *fold.Lone
	state FoldState
	next  uint64 // the first record that is not counted
}

func newLoneFold(l *fold.Lone, next uint64) *loneFold {
	return &loneFold{lone: l, next: next, state: FoldState{
		Fold: l.Fold, Incidents: incident.NewBook(), Positions: position.NewBook(),
		Wants: func(v *event.View) bool { return string(v.Service) == l.Service() },
	}}
}

// apply counts a record. What an engine refuses counts nowhere, as there.
func (l *loneFold) apply(rec *wal.Record) {
	defer func() { _ = recover() }() // an engine confines a panic to the record, too, and says so
	if l.next > 0 && rec.Seq > l.next && rec.Lost == 0 {
		rec.Lost = rec.Seq - l.next // the log lost them, and was retained without
	}
	l.next = rec.Seq + 1
	switch {
	case rec.Type == record.TypeConfig:
		var cfg fold.Config
		if rec.Lost > 0 {
			l.lone.Fold.Gap()
		}
		if json.Unmarshal(rec.Payload, &cfg) == nil {
			_ = l.lone.Configure(&cfg, rec.Time) // if it is refused, the one before stays in force
		}
	case rec.Type == record.TypeForget && l.lone.Absent():
		if f, err := record.ParseForget(rec.Payload); err == nil && slices.Contains(f.Services, l.lone.Service()) {
			l.lone.Fold.Advance(rec.Time, fold.Stop)
			l.lone.Fold.Forget(nil, f.Services)
		}
	case l.lone.Absent():
	case rec.Type == record.TypeIncident: // of a book that began earlier
		if rec.Lost > 0 {
			l.lone.Fold.Gap()
		}
		l.lone.Fold.Advance(rec.Time, fold.Tick)
	default:
		_ = l.state.Apply(*rec, func(int, []byte, string) {})
	}
}

// catchUp counts what there is in front of a record.
func (l *loneFold) catchUp(source *retained.Source, to uint64) (err error) {
	if l.next >= to {
		return nil
	}
	r, err := source.NewReader(retained.Query{From: l.next, To: to})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var rec wal.Record
	for {
		ok, err := r.Next(&rec)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if !ok {
			break
		}
		l.apply(&rec)
	}
	if l.next < to {
		l.lone.Fold.Gap()
		l.next = to
	}
	return nil
}
