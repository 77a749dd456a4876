package series

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// This file is for a source that goes from one server to several, or back. Both know counters by classes of their own,
// and what one of them remembers is old as soon as the other one counts. So whoever stores something first forgets what
// the other one knew, in the same record, and begins again behind all that is counted. Each of several servers has a
// note for that, which one server removes.

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
		s.o.Counters.Notes(readers(p.Stream), func(class counter.Key, stream string) {
			p.former = append(p.former, former{class, stream})
		})
		slices.SortFunc(p.former, func(a, b former) int { return strings.Compare(a.stream, b.stream) })
		p.final = len(p.former) == 0
	}
	if len(p.former) == 0 {
		return from, nil
	}
	for _, f := range p.former {
		until, err := s.o.Until(ctx, f.stream)
		if err != nil {
			return from, err
		}
		if until.After(from) {
			from = until
		}
	}
	if from.IsZero() {
		return from, nil
	}
	if p.since = from.UnixNano(); back && !s.told {
		s.told = true
		s.o.Logger.Warn("the source was changed between one server and several, so its counters begin again",
			"source", s.o.Intake.Name(), "server", s.o.URL, "from", from.UTC())
	}
	return from, nil
}

// handOver adds to what is stored that the former ones are forgotten, with the past that they were to read.
func (s *Source) handOver(p *plan) {
	for _, f := range p.former {
		s.batch.Forget(f.class)
		if of, ok := s.pastOf(f.class); ok {
			s.batch.Note(f.class, noteAt, "")
			s.batch.Forget(classOf(f.class, of.Round))
		}
		if s.all == nil {
			s.batch.Note(readers(p.Stream), f.class, "")
		} else {
			s.batch.Note(readers(p.base), p.class, p.Stream)
		}
	}
}
