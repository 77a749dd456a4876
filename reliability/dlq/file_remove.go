package dlq

import (
	"context"
	"math"
	"slices"
	"time"
)

// maxRemoval is how many entries one line removes.
const maxRemoval = 4096

// Discard implements Store.
func (f *File) Discard(ctx context.Context, ids []string) (int, error) {
	return f.remove(ctx, ids, discarded)
}

// Replayed implements Store.
func (f *File) Replayed(ctx context.Context, ids []string) (int, error) {
	return f.remove(ctx, ids, replayed)
}

func (f *File) remove(ctx context.Context, ids []string, why removal) (n int, err error) {
	if err := f.own(ctx); err != nil {
		return 0, err
	}
	defer func() { <-f.turn }()
	for chunk := range slices.Chunk(ids, maxRemoval) {
		p := &pending{}
		f.mu.RLock()
		err := f.search(ctx, chunk, p.killer(f), p.measure)
		f.mu.RUnlock()
		if err != nil {
			return n, err
		}
		if len(p.kills) == 0 {
			continue
		}
		p.remove(why, f.o.Now())
		if err := f.commit([]*pending{p}); err != nil {
			return n, err
		}
		n += len(p.kills)
		f.o.Metrics.removed[why].Add(len(p.kills))
	}
	return n, nil
}

// killer notes a line that is going to be removed.
func (p *pending) killer(f *File) func(*segment, *line) error {
	return func(s *segment, l *line) error {
		key, err := encodedKey(l.body)
		if err != nil {
			return err
		}
		p.kills = append(p.kills, kill{s, l.n, int64(l.size), f.admit(key), s.oldest, s.latest})
		return nil
	}
}

// measure computes how old the oldest and the newest entry of a segment are without those to be removed.
func (p *pending) measure(s *segment, data []byte) error {
	gone := map[uint64]bool{}
	for _, k := range p.kills {
		gone[k.n] = true
	}
	oldest, latest := int64(math.MaxInt64), int64(math.MinInt64)
	eachLine(data, s.number, s.gaps == 0, func(l *line) bool {
		if l.isEntry() && !s.isDead(l.n) && !gone[l.n] {
			oldest, latest = min(oldest, l.saved), max(latest, l.saved)
		}
		return true
	})
	for i := range p.kills {
		if p.kills[i].segment == s {
			p.kills[i].oldest, p.kills[i].latest = oldest, latest
		}
	}
	return nil
}

// remove adds the line that does away with the kills.
func (p *pending) remove(why removal, now time.Time) {
	numbers := make([]uint64, len(p.kills))
	for i := range p.kills {
		numbers[i] = p.kills[i].n
	}
	slices.Sort(numbers)
	body := appendSpans(nil, spansOf(numbers))
	p.lines = append(p.lines, draft{line: line{kind: byte(why), saved: now.UnixMilli(), body: body}})
	p.bytes += lineHead + len(body) + 1
}

// Failed implements Store. The new form of an entry and the removal of the old one are one
// line.
func (f *File) Failed(ctx context.Context, failures []Failure) (n int, err error) {
	if err := f.own(ctx); err != nil {
		return 0, err
	}
	defer func() { <-f.turn }()
	for chunk := range slices.Chunk(failures, 256) {
		byID := make(map[string]Failure, len(chunk))
		ids := make([]string, len(chunk))
		for i, failure := range chunk {
			byID[failure.ID], ids[i] = failure, failure.ID
		}
		p := &pending{}
		note := p.killer(f)
		f.mu.RLock()
		err := f.search(ctx, ids, func(s *segment, l *line) error {
			if err := note(s, l); err != nil {
				return err
			}
			e, err := decodeEntry(l.body)
			if err != nil {
				return err
			}
			e = e.failed(byID[e.ID])
			body, err := e.encode()
			if err != nil {
				return err
			}
			p.lines = append(p.lines, draft{entry: &e, hash: hashID(e.ID),
				line: line{kind: lineAgain, saved: l.saved, replaces: l.n, body: body}})
			p.bytes += lineHead + againHead + len(body) + 1
			return nil
		}, p.measure)
		f.mu.RUnlock()
		if err != nil {
			return n, err
		}
		if len(p.kills) == 0 {
			continue
		}
		if err := f.commit([]*pending{p}); err != nil {
			return n, err
		}
		n += len(p.kills)
	}
	return n, nil
}
