package report

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// DayRow is one day of one group, of an SLO or of an agreement.
type DayRow struct {
	Zone     *time.Location
	Span     slo.Span // of the day, up to now
	Running  bool     // the day is not over
	Kept     bool     // the counts reach back to its start
	Rounded  bool     // as in Covered
	Coverage float64  // of Span, in [0,1], as in Covered

	SLO       *sla.SLOReport // nil of an agreement
	Net, Raw  history.Tally  // of an SLO; net: without planned maintenance
	Agreement *sla.SLAReport // of that day; nil of an SLO

	Incidents int // that began on this day; -1: not known. Those of an agreement are its own and those of its SLOs
}

// Complete reports whether a row has all of its day: the day is over, the counts reach back to its start and are
// divided where it begins and ends, and some of it was observed.
func (d *DayRow) Complete() bool { return !d.Running && d.Kept && !d.Rounded && d.Coverage > 0 }

// Note says why the counts of a row are not those of its day; "" if they are.
func (d *DayRow) Note() string {
	switch {
	case !d.Kept:
		return "the counts do not reach back to the start of the day"
	case d.Coverage == 0:
		return "not observed"
	case d.Rounded:
		return "the day or planned maintenance is rounded to whole hours"
	}
	return ""
}

// EachDay calls yield for each day of a period and each group: first of the SLOs, then of the agreements, in the order
// of the report, the days of a group ascending. It reads a few hundred groups at a time and keeps nothing, so its
// memory does not grow with their number. The row is only valid during the call. An error of yield ends it.
func EachDay(ctx context.Context, from Source, rep *sla.Report, ask Query, yield func(*DayRow) error) error {
	if from.Counts == nil {
		return ErrNoHistory
	}
	b := newReporter(rep, ask)
	d := &dayReader{reporter: b, from: from, onsets: b.newOnsets(ctx, from),
		undropped: map[slo.Span]map[string]float64{}, yield: yield}
	for i := 0; i < len(rep.SLOs); {
		rows := Rows(rep, rep.SLOs[i].SLO.ID)
		i += max(1, len(rows))
		if len(rows) == 0 || !b.wantsSLO(rows[0].SLO.ID) {
			continue
		}
		if err := d.slo(ctx, rows); err != nil {
			return err
		}
	}
	for _, a := range Agreements(rep) {
		if !b.wantsAgreement(a) {
			continue
		}
		if err := d.agreement(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// dayReader reads the days of one query.
type dayReader struct {
	*reporter
	from      Source
	onsets    onsets
	undropped map[slo.Span]map[string]float64 // by day and counter
	yield     func(*DayRow) error
}

// bite is how many groups are read at a time.
func bite(steps int) int { return max(1, MaxBite/max(1, steps)) }

// MaxBite is how many days of groups EachDay holds at a time.
const MaxBite = history.MaxAsk / 4

func (d *dayReader) slo(ctx context.Context, rows []*sla.SLOReport) error {
	s, slice := rows[0].SLO, rows[0].Slice
	zone := d.zoneOf(s)
	steps := d.stepsOf(s)
	grid := history.GridOf(steps, func(sp slo.Span) []slo.Span { return history.Excluded(s, sp, slice) })
	for len(rows) > 0 && len(steps) > 0 {
		now := rows[:min(len(rows), bite(len(steps)))]
		rows = rows[len(now):]
		groups := make([]slo.Group, len(now))
		for i, r := range now {
			groups[i] = r.Group
		}
		var l history.Batch
		e := l.Add(string(s.ID), "days", grid, groups)
		if err := l.Run(ctx, d.from.Counts); err != nil {
			return err
		}
		rounded := make([]bool, len(steps))
		for k := range steps {
			rounded[k] = !e.Exact(steps[k], slice)
		}
		for i, r := range now {
			raw, net := e.Bins(i)
			began := d.onsets.group(s.ID, r.Group)
			read := history.NewReader(s, r.Group, &e.Answer)
			for k := range steps {
				row, err := d.day(ctx, zone, steps[k])
				if err != nil {
					return err
				}
				row.Incidents = d.onsets.within(began, steps[k])
				row.SLO, row.Kept, row.Rounded = r, !steps[k].From.Before(e.KeptFrom()), rounded[k]
				if row.Coverage, err = d.coverage(ctx, e, steps[k]); err != nil {
					return err
				}
				if k < len(raw) {
					row.Raw, row.Net = read.Tallies(steps[k], raw[k], net[k])
				}
				if err := d.yield(row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *dayReader) agreement(ctx context.Context, a *sla.Agreement) error {
	zone := d.zoneOfSLA(a)
	steps := d.steps(zone)
	var rows []*sla.SLAReport
	for i := range d.rep.SLAs {
		if r := &d.rep.SLAs[i]; r.SLA == a {
			rows = append(rows, r)
		}
	}
	for len(rows) > 0 && len(steps) > 0 {
		now := rows[:min(len(rows), max(1, bite(len(steps))/max(1, len(a.Components))))]
		rows = rows[len(now):]
		var l history.Batch
		book := NewPeriodScores(d.rep, a, steps, "days", now, &l)
		if err := l.Run(ctx, d.from.Counts); err != nil {
			return err
		}
		first, _ := book.whole()
		rounded := make([]bool, len(steps))
		for k := range steps {
			rounded[k] = !book.exact(steps[k])
		}
		for _, r := range now {
			began := d.onsets.agreement(a, r.Group)
			for k := range steps {
				row, err := d.day(ctx, zone, steps[k])
				if err != nil {
					return err
				}
				row.Incidents = d.onsets.within(began, steps[k])
				score := book.Score(r.Group, k, k+1)
				row.Agreement, row.Kept, row.Rounded, row.Coverage = &score, k >= first, rounded[k], 1
				for _, c := range book.components {
					if c.counts == nil {
						continue
					}
					seen, err := d.coverage(ctx, c.counts, steps[k])
					if err != nil {
						return err
					}
					row.Coverage = min(row.Coverage, seen)
				}
				if err := d.yield(row); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (d *dayReader) day(ctx context.Context, zone *time.Location, sp slo.Span) (*DayRow, error) {
	whole := slo.Window{Calendar: slo.Day, Location: zone}
	return &DayRow{Zone: zone, Span: sp, Running: sp.To.Before(whole.End(sp.From))}, ctx.Err()
}

// coverage is the share of a day that was observed, times the share of the counter's events that no limit dropped.
func (d *dayReader) coverage(ctx context.Context, e *history.Series, day slo.Span) (float64, error) {
	seen := e.Share(day)
	if d.from.Kept == nil {
		return seen, nil
	}
	sp := slo.Span{From: day.From.UTC(), To: day.To.UTC()}
	byCounter := d.undropped[sp]
	if byCounter == nil {
		byCounter = map[string]float64{}
		d.undropped[sp] = byCounter
	}
	share, known := byCounter[e.Counter]
	if !known {
		shares, err := d.from.Kept(ctx, []string{e.Counter}, sp)
		if err != nil {
			return 0, err
		}
		share = 1
		if len(shares) == 1 {
			share = shares[0]
		}
		byCounter[e.Counter] = share
	}
	return seen * share, nil
}
