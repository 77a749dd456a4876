package series

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/internal/order"
)

// This file is for a source that goes from one server, or from receiving, to several, or back. Both know counters by
// classes of their own, and what one of them remembers is old as soon as the other one counts. So whoever stores
// something first forgets what the other one knew, in the same record, and begins again behind all that is counted.
// Each of several servers has a note for that, which one server or a Receiver removes.

// former is who counted a unit before.
type former struct {
	class  counter.Key
	stream string
}

// readers is the class of the notes of those of several servers that read a unit. Their keys are classes, and their
// texts are streams.
func readers(stream string) counter.Key { return xxh3.HashString128("readers " + stream) }

// takeOver finds who counted a unit before, and from when on it is read.
func (s *Source) takeOver(ctx context.Context, p *plan, from time.Time) (time.Time, error) {
	p.former = p.former[:0]
	back := true
	switch {
	case s.all != nil:
		if back = !from.IsZero(); s.o.Counters.Note(readers(p.base), p.class) == "" {
			p.former = append(p.former, former{xxh3.HashString128(p.base), p.base})
		}
	case !p.final:
		s.severalBefore(p)
		p.final = len(p.former) == 0
	}
	if len(p.former) == 0 {
		return from, nil
	}
	from, err := s.o.behind(ctx, p, from)
	if err != nil || from.IsZero() {
		return from, err
	}
	if p.since = from.UnixNano(); back && !s.told {
		s.told = true
		s.o.Logger.Warn("the source was changed between one server and several, so its counters begin again",
			"source", s.o.Intake.Name(), "server", s.o.URL, "from", from.UTC())
	}
	return from, nil
}

// severalBefore finds the servers that counted a unit before.
func (t *tally) severalBefore(p *plan) {
	t.counters.Notes(readers(p.Stream), func(class counter.Key, stream string) {
		p.former = append(p.former, former{class, stream})
	})
	order.By(p.former, func(a, b *former) int { return strings.Compare(a.stream, b.stream) })
}

// behind is the end of what those before counted, or from if that is later. A Receiver counts samples before it says
// that their time was observed, and the first of several servers that hands over notes when that was.
func (o *Options) behind(ctx context.Context, p *plan, from time.Time) (time.Time, error) {
	later := func(nanos int64) {
		if at := time.Unix(0, nanos); nanos > 0 && at.After(from) {
			from = at
		}
	}
	for _, f := range p.former {
		until, err := o.Until(ctx, f.stream)
		if err != nil {
			return from, err
		}
		if !until.IsZero() {
			later(until.UnixNano())
		}
		later(o.Counters.Newest(f.class))
	}
	if noted := o.Counters.Note(countedBefore(p), counter.Key{}); noted != "" {
		nanos, _ := strconv.ParseInt(noted, 10, 64) // handOver wrote it
		later(nanos)
	}
	return from, nil
}

// countedBefore is the class of the note on the time up to which another kind of reader counted a unit.
func countedBefore(p *plan) counter.Key {
	return xxh3.HashString128("counted before " + cmp.Or(p.base, p.Stream))
}

// handOver adds to what is stored that the former ones are forgotten, with the past that they were to read.
func (t *tally) handOver(p *plan) {
	for _, f := range p.former {
		t.batch.Forget(f.class)
		if of, ok := t.pastOf(f.class); ok {
			t.batch.Note(f.class, noteAt, "")
			t.batch.Forget(classOf(f.class, of.Round))
		}
		if p.base == "" {
			t.batch.Note(readers(p.Stream), f.class, "")
		} else {
			t.batch.Note(readers(p.base), p.class, p.Stream)
		}
	}
	if len(p.former) > 0 && p.since > 0 {
		t.batch.Note(countedBefore(p), counter.Key{}, strconv.FormatInt(p.since, 10))
	}
}

// takeOver finds up to when several servers counted a unit, now or before an earlier start. What is received of that
// time does not count again.
func (r *Receiver) takeOver(ctx context.Context, p *plan) error {
	r.severalBefore(p)
	until, err := r.o.behind(ctx, p, time.Time{})
	if err != nil || until.IsZero() {
		return err
	}
	if p.since = until.UnixNano(); len(p.former) > 0 {
		r.o.Logger.Warn("the source was changed from several servers to receiving, so its counters begin again",
			"source", r.o.Intake.Name(), "slos", p.pair(), "from", until.UTC())
	}
	return nil
}
