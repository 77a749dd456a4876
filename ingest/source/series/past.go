package series

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/counter"
)

// This file reads the time before a unit was first read, so that it does not matter what is read first. The past of
// counters has a class of its own in the table. It ends with the sample of each target with which counting began, and
// that is forgotten when all of it is read.

// past is what was and is to be read of a unit, in Unix nanoseconds. It is noted in the log with the counts.
type past struct {
	Round   int   // how often a past was read
	From    int64 // the time from which on everything is read, or will be
	Since   int64 // the time after which the first samples were
	Reached int64 // how far the round at hand has come; 0: there is none
	End     int64 // From before the round
	Meet    int64 // Since before the round
}

// meeting bounds the past of a target by the sample with which counting began.
type meeting struct {
	past
	noted  counter.Key           // class of the note
	before counter.Key           // class of the samples that were counted before
	class  counter.Key           // class of those of the past
	firsts map[counter.Key]int64 // of the targets of the reading at hand: their first samples after Meet
}

const (
	pastFormat = "%d %d %d %d %d %d"
	// meetWithin is how long after the end of the past a target may come back and meet what was counted before.
	meetWithin = int64(25 * time.Hour)
)

// noteAt is the key of the note.
var noteAt = counter.Key{Lo: 1}

func (p *past) text() string {
	return fmt.Sprintf(pastFormat, p.Round, p.From, p.Since, p.Reached, p.End, p.Meet)
}

// pastOf is what is known of the past of a unit. ok is false if nothing is.
func (t *tally) pastOf(class counter.Key) (of past, ok bool) {
	_, err := fmt.Sscanf(t.counters.Note(class, noteAt), pastFormat, &of.Round, &of.From, &of.Since, &of.Reached,
		&of.End, &of.Meet)
	return of, err == nil
}

// classOf is that of the samples of a round.
func classOf(class counter.Key, round int) counter.Key {
	class.Hi += uint64(round)
	return class
}

// wantsPast prepares to read what is missing before a unit. nil: nothing is.
func (s *Source) wantsPast(p *plan, now time.Time) *meeting {
	of, ok := s.pastOf(p.class)
	if !ok || s.o.History == 0 {
		return nil
	}
	if of.Reached == 0 {
		from := p.align(now.Add(-min(s.o.History, s.o.Longest())))
		if time.Duration(of.From-from.UnixNano()) < 2*s.o.Scrape {
			return nil
		}
		of = past{Round: of.Round + 1, From: from.UnixNano(), Since: from.Add(-s.o.Scrape).UnixNano(),
			Reached: from.UnixNano(), End: of.From, Meet: of.Since}
	}
	return &meeting{past: of, noted: p.class, before: classOf(p.class, of.Round-1), class: classOf(p.class, of.Round),
		firsts: map[counter.Key]int64{}}
}

// readPast reads the time before a unit until a time limit.
func (s *Source) readPast(ctx context.Context, p *plan, m *meeting, now, limit time.Time) error {
	before := *p
	before.class = m.class
	s.meeting = m
	defer func() { s.meeting = nil }()
	s.old = true
	for length := max(oldSlice, p.Every); s.o.Intake.Now().Before(limit); {
		end := m.End
		if m.Reached >= end {
			if end = min(m.End+meetWithin, now.UnixNano()); m.Reached >= end || p.Form != Counters ||
				!s.o.Counters.Behind(m.class, m.before, m.Meet, m.End+meetWithin) {
				return s.endPast(ctx, p, m)
			}
		}
		from := time.Unix(0, m.Reached)
		to := p.align(time.Unix(0, min(end, m.Reached+int64(length))))
		if !to.After(from) {
			to = time.Unix(0, end) // less than a slice
		}
		_, err := s.read(ctx, &before, from, to)
		if errors.Is(err, errNoSeries) {
			err = s.skip(ctx, &before, to)
		}
		switch {
		case err == nil:
			s.pastReached(p.Stream, m)
		case errors.Is(err, errTooLarge) && length > 2*max(s.o.Scrape, p.Every):
			length /= 2
		default:
			return err
		}
	}
	return nil
}

// endPast forgets the samples of the past.
func (s *Source) endPast(ctx context.Context, p *plan, m *meeting) error {
	s.begin()
	s.events.Reset()
	m.Reached, m.End, m.Meet = 0, 0, 0
	s.batch.Note(m.noted, noteAt, m.text())
	s.batch.Forget(m.class)
	_, err := s.o.Engine.AdmitAt(ctx, &s.events, nil, nil, s.batch)
	if err == nil {
		err = s.o.Engine.CatchUp(ctx)
	}
	if err == nil {
		s.pastReached(p.Stream, m)
	}
	return err
}

// note notes how far a unit is read with what is stored next.
func (t *tally) note(p *plan, to int64) {
	switch m := t.meeting; {
	case m != nil:
		next := m.past
		next.Reached = to
		t.batch.Note(m.noted, noteAt, next.text())
	case t.first != nil:
		t.batch.Note(p.class, noteAt, t.first.text())
	}
}

// noted is when that is stored.
func (t *tally) noted(to int64) {
	if t.first = nil; t.meeting != nil {
		t.meeting.Reached = to
	}
}

// meets remembers the samples of a series that may be behind the end of the past.
func (m *meeting) meets(target counter.Key, points []point) bool {
	if m == nil || points[len(points)-1].at <= m.Meet {
		return false
	}
	i := slices.IndexFunc(points, func(p point) bool { return p.at > m.Meet })
	if first, had := m.firsts[target]; !had || points[i].at < first {
		m.firsts[target] = points[i].at
	}
	return true
}

// upTo are the samples of a series that are of the past. The last of them is the one with which counting began.
func (m *meeting) upTo(counters *counter.Table, r *routed, points []point) []point {
	end, _, known := counters.Target(m.before, r.plan.total.key, r.target)
	if !known || end > m.End+meetWithin { // the table has forgotten when it was first seen
		end = m.firsts[r.target]
		if _, last, _ := counters.Target(m.class, r.plan.total.key, r.target); last > m.Meet {
			end = m.Meet
		}
	}
	i := slices.IndexFunc(points, func(p point) bool { return p.at > end })
	if i >= 0 {
		return points[:i]
	}
	return points
}
