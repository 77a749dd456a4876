package fold

import (
	"errors"
	"fmt"
	"time"
)

// partSpan is the time that a part of a snapshot holds, for the indicators of one store.
type partSpan struct {
	name     string
	slices   bool
	keep     int64 // as the store has it
	per      int64 // of a slice
	from, to int64 // Unix nanoseconds
}

// partSpanOf reads the name of a part with counts.
func partSpanOf(name string) (s partSpan, ok bool) {
	const second = int64(time.Second)
	s.name = name
	var width, start int64
	if n, _ := fmt.Sscanf(name, "events-%d-%d-%d", &s.keep, &width, &start); n == 3 {
		for i, w := range widths {
			if w == width {
				s.from, s.to = start*second, (start+segments[i])*second
				return s, true
			}
		}
	}
	if n, _ := fmt.Sscanf(name, "hours-%d-%d", &s.keep, &start); n == 2 {
		s.from, s.to = start*second, (start+dayWidth)*second
		return s, true
	}
	s.slices = true
	if n, _ := fmt.Sscanf(name, "slices-%d-%d-%d", &s.keep, &s.per, &start); n == 3 && s.per > 0 {
		s.from, s.to = start*s.per, (start+runFor(s.per))*s.per
		return s, true
	}
	if n, _ := fmt.Sscanf(name, "judged-%d-%d-%d", &s.keep, &s.per, &start); n == 3 && s.per > 0 {
		s.from, s.to = start*s.per, start*s.per+newPast(runFor(s.per), (int64(24*time.Hour)+s.per-1)/s.per).part*s.per
		return s, true
	}
	return s, false
}

// PartLoss says, for people, what it costs to go on without a part that cannot be read.
// ok is false if the other parts are worth nothing without it.
func PartLoss(name string) (what string, ok bool) {
	var number uint64
	if n, _ := fmt.Sscanf(name, "parked-%d", &number); n == 1 {
		return fmt.Sprintf("the counts of parked generation %d", number), true
	}
	s, ok := partSpanOf(name)
	if !ok {
		return "", false
	}
	keep := s.keep * int64(time.Second)
	if s.slices {
		keep = s.keep
	}
	return fmt.Sprintf("the counts from %s to %s of the SLOs whose counts are retained for %s",
		unix(s.from).Format(time.RFC3339), unix(s.to).Format(time.RFC3339), time.Duration(keep)), true
}

// RestoreLost says, instead of RestorePart, that a part cannot be read. The time that it
// held counts as not observed for the indicators of its store; totals are not touched.
func (f *Fold) RestoreLost(name string) error {
	if f.clock != 0 {
		return fmt.Errorf("restore without part %s: the fold is not new", name)
	}
	if f.restored == nil {
		f.restored = new(restoring)
	}
	var number uint64
	if n, _ := fmt.Sscanf(name, "parked-%d", &number); n == 1 {
		if f.restored.lostParked == nil {
			f.restored.lostParked = map[uint64]bool{}
		}
		f.restored.lostParked[number] = true
		return nil
	}
	s, ok := partSpanOf(name)
	if !ok {
		return fmt.Errorf("restore without part %s: %w", name, errors.New("nothing can be restored without it"))
	}
	f.restored.lost = append(f.restored.lost, s)
	return nil
}

// Gap says that records right before the next one are lost: the engine does not count as
// up between the last record and the next.
func (f *Fold) Gap() { f.up.open = false }

// unobserve takes lost parts out of what the indicators of their stores observed.
// Indicators that shared an era go on sharing one where they lost the same.
func (f *Fold) unobserve(lost []partSpan) {
	for _, l := range lost {
		cut := map[*era]*era{}
		for _, ind := range f.inds {
			if s := ind.slices; s != nil && (!l.slices || s.keep != l.keep || s.per != l.per) {
				continue
			}
			if s := ind.events; s != nil && (l.slices || s.keep != l.keep) {
				continue
			}
			if cut[ind.era] == nil {
				cut[ind.era] = ind.era.without(l.from, min(l.to, f.rec), f.up.spans)
			}
			ind.era = cut[ind.era]
		}
	}
}

// without is the era that did not observe [from, to): what it observed up to its end is
// told span by span.
func (e *era) without(from, to int64, up []upSpan) *era {
	if from >= to {
		return e
	}
	cut := &era{since: max(e.since, to), older: cutOut(e.older, from, to)}
	spans := append([]upSpan(nil), e.spans...)
	for _, s := range up {
		spans = append(spans, upSpan{max(s.from, e.since), min(s.to, cut.since)})
	}
	cut.spans = cutOut(merged(spans), from, to)
	return cut
}

// cutOut takes [from, to) out of rising spans.
func cutOut(spans []upSpan, from, to int64) []upSpan {
	var out []upSpan
	for _, s := range spans {
		if s.from < min(s.to, from) {
			out = append(out, upSpan{s.from, min(s.to, from)})
		}
		if max(s.from, to) < s.to {
			out = append(out, upSpan{max(s.from, to), s.to})
		}
	}
	return out
}
