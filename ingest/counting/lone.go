package counting

import (
	"context"
	"crypto/sha256"
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
func (l *loneFold) catchUp(source *retained.Source, to uint64) error {
	if l.next >= to {
		return nil
	}
	for rec, err := range source.Records(context.Background(), retained.Query{From: l.next, To: to}) {
		if err != nil {
			return err
		}
		l.apply(rec)
	}
	if l.next < to {
		l.lone.Fold.Gap()
		l.next = to
	}
	return nil
}

// ErrOtherCounts means that the log does not give the counts that took over.
var ErrOtherCounts = errors.New("the log gives other counts than those that took over")

// Remake counts again what took over at a record, from the log alone, and calls use with it as often as it asks for.
// services are those at the first record that was read, and cfg is in force at the takeover. The error wraps
// retained.ErrNotRetained if the log no longer has that record, and ErrOtherCounts if the hash of the takeover differs.
func Remake(ctx context.Context, source *retained.Source, b *record.Rebuilt, seq uint64, services,
	cfg *fold.Config) (again func() (*fold.Lone, error), err error) {
	lone, err := fold.NewLone(cfg, b.Indicators)
	if err != nil {
		return nil, err
	}
	l := newLoneFold(lone, 0)
	for rec, err := range source.Records(ctx, retained.Query{To: b.Next}) {
		if err != nil {
			return nil, err
		}
		if l.next == 0 {
			if rec.Seq > b.First {
				return nil, fmt.Errorf("%w: they were read from record %d on, and %d is the oldest", retained.ErrNotRetained,
					b.First, rec.Seq)
			}
			if err := lone.Configure(servicesOf(services), rec.Time); err != nil {
				return nil, fmt.Errorf("services at record %d: %w", rec.Seq, err)
			}
		}
		l.apply(rec)
	}
	if sha256.Sum256(lone.Append(nil)) != b.Hash {
		return nil, ErrOtherCounts
	}
	if err := l.catchUp(source, seq); err != nil {
		return nil, err
	}
	data := lone.Append(nil)
	return func() (*fold.Lone, error) { return fold.RestoreLone(data) }, nil
}
