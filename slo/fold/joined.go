package fold

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file adds up the slices of several folds, each of which counted a part of the events, and judges the sums.

// Joined holds the raw counts of slices of several folds with the same configuration. A slice is judged once it is
// closed in all of them and all observed it, since a threshold says nothing of a part of the events. Joined has no
// clock, keeps nothing on disk, and is not safe for concurrent use.
type Joined struct {
	cfg   *Config // sliced indicators only
	parts []joinedPart

	// f judges. Its slices are the sums of those of parts, its clock counts changes, and nothing else in it is used.
	f     *Fold
	whole bool // f must be made again: a part lost slices, groups or its counts
	wider bool // there are columns that f has no group for, or groups that exist from earlier on
	dirty map[storeKey]map[int64]bool
}

// storeKey names a store of slices.
type storeKey struct{ per, keep time.Duration }

// joinedPart is what is known of one fold.
type joinedPart struct {
	stores   map[storeKey]*joinedStore
	observed map[string][]upSpan // by indicator
}

// joinedStore are the slices of one store of one fold.
type joinedStore struct {
	first, next int64
	columns     []RawColumn
	blocks      map[int64][]byte // RawBlock.Data by number; those without counts are missing
}

// NewJoined joins a number of folds of which nothing is known yet.
func NewJoined(cfg *Config, parts int) (*Joined, error) {
	j := &Joined{cfg: &Config{Version: cfg.Version, Services: cfg.Services}, parts: make([]joinedPart, parts), whole: true,
		dirty: map[storeKey]map[int64]bool{}}
	for i := range cfg.Indicators {
		if cfg.Indicators[i].Slice != nil {
			j.cfg.Indicators = append(j.cfg.Indicators, cfg.Indicators[i])
		}
	}
	for i := range j.parts {
		j.Reset(i)
	}
	return j, j.begin()
}

// begin makes an empty f.
func (j *Joined) begin() error {
	f, err := New(Options{})
	if err != nil {
		return err
	}
	if err := f.SetConfig(j.cfg, 1); err != nil {
		return fmt.Errorf("join slices: %w", err)
	}
	j.f = f
	return nil
}

// Reset forgets everything of a fold.
func (j *Joined) Reset(part int) {
	j.parts[part] = joinedPart{stores: map[storeKey]*joinedStore{}, observed: map[string][]upSpan{}}
	j.whole = true
}

// Update takes an answer of a fold to a RawRequest. Nothing of it is kept but copies. It fails, and changes nothing, if
// the answer does not fit: it is no answer of a fold, or of one that has gone back, which wants a Reset.
func (j *Joined) Update(part int, r *RawSlices) error {
	p := &j.parts[part]
	for i := range r.Stores {
		if err := j.check(p, &r.Stores[i]); err != nil {
			return err
		}
	}
	for i := range r.Stores {
		raw := &r.Stores[i]
		key := storeKey{raw.Per, raw.Keep}
		if j.store(key) == nil {
			continue
		}
		s := p.stores[key]
		if s == nil {
			s = &joinedStore{blocks: map[int64][]byte{}}
			p.stores[key] = s
		}
		if !slices.EqualFunc(s.columns, raw.Columns, sameColumn) {
			j.whole = j.whole || loses(s.columns, raw.Columns)
			j.wider = true
			s.columns = slices.Clone(raw.Columns)
		}
		s.first, s.next = raw.First, raw.Next
		for number := range s.blocks {
			if number < s.first {
				delete(s.blocks, number)
			}
		}
		for _, b := range raw.Blocks {
			j.touch(key, b.Number)
			if len(b.Data) == 0 {
				delete(s.blocks, b.Number)
				continue
			}
			s.blocks[b.Number] = slices.Clone(b.Data)
		}
	}
	return nil
}

// check refuses slices that no fold has: their number decides how much memory they take.
func (j *Joined) check(p *joinedPart, raw *RawStore) error {
	key := storeKey{raw.Per, raw.Keep}
	s := j.store(key)
	if s == nil {
		return nil // it is left out
	}
	most := (s.keep+int64(2*24*time.Hour))/s.per + 4*s.runLen
	last := p.stores[key]
	bad := raw.First < 0 || raw.First%s.runLen != 0 || raw.Next < raw.First || raw.Next-raw.First > most ||
		last != nil && raw.First < last.first
	for _, b := range raw.Blocks {
		bad = bad || b.Number < raw.First || b.Number > raw.First+2*most
	}
	for _, c := range raw.Columns {
		bad = bad || c.At > maxColumns
	}
	if bad {
		return fmt.Errorf("slices of %s from %d to %d do not fit", raw.Per, raw.First, raw.Next)
	}
	return nil
}

// store is the store of f; nil if there is none of that length and retention.
func (j *Joined) store(key storeKey) *sliceStore {
	for _, s := range j.f.slices {
		if s.per == int64(key.per) && s.keep == int64(key.keep) {
			return s
		}
	}
	return nil
}

func sameColumn(a, b RawColumn) bool {
	return a.At == b.At && a.Indicator == b.Indicator && a.From == b.From && a.Dropped == b.Dropped &&
		slices.Equal(a.Values, b.Values)
}

// loses reports whether a column of old is gone or belongs to another group.
func loses(old, now []RawColumn) bool {
	return slices.ContainsFunc(old, func(c RawColumn) bool {
		i, ok := slices.BinarySearchFunc(now, c.At, func(x RawColumn, at uint32) int { return cmp.Compare(x.At, at) })
		if !ok {
			return true
		}
		c.From = now[i].From
		return !sameColumn(c, now[i])
	})
}

// touch notes that a slice must be added up again.
func (j *Joined) touch(key storeKey, number int64) {
	if j.dirty[key] == nil {
		j.dirty[key] = map[int64]bool{}
	}
	j.dirty[key][number] = true
}

// Observe says which times a fold observed, by indicator. Indicators that it leaves out were not observed.
func (j *Joined) Observe(part int, observed map[string][]slo.Span) {
	p := &j.parts[part]
	p.observed = make(map[string][]upSpan, len(observed))
	for id, spans := range observed {
		list := make([]upSpan, 0, len(spans))
		for _, s := range spans {
			list = append(list, upSpan{s.From.UnixNano(), s.To.UnixNano()})
		}
		p.observed[id] = merged(list)
	}
}

// Observed are the times that all folds observed of an indicator, oldest first, none touching.
func (j *Joined) Observed(id string) []slo.Span {
	return spanList(j.common(id))
}

func (j *Joined) common(id string) []upSpan {
	if len(j.parts) == 0 {
		return nil
	}
	all := slices.Clone(j.parts[0].observed[id])
	for i := range j.parts[1:] {
		all = intersect(all, j.parts[i+1].observed[id])
	}
	return all
}

// Groups are the groups of all sliced indicators, by indicator ID, then by values, the "other" group last. Of each
// only Indicator, Values, Total, Spans and Loss are set. Total are the slices that are still kept and could be judged.
func (j *Joined) Groups(r Request) ([]Group, error) {
	if err := j.flush(); err != nil {
		return nil, err
	}
	n := len(r.Spans)
	r.Spans = append(slices.Clone(r.Spans), slo.Span{From: time.Unix(0, 0), To: r.Now})
	out, _ := j.f.groupSums(r)
	lost := map[*Loss]*Loss{}
	for i := range out {
		g := &out[i]
		g.Total = g.Spans[n]
		g.Spans = slices.Concat(g.Spans[:n], g.Spans[n+1:])
		if l := g.Loss; l != nil {
			if lost[l] == nil {
				lost[l] = &Loss{l.Dropped[:n], l.Offered[:n]}
			}
			g.Loss = lost[l]
		}
	}
	return out, nil
}

// Read answers as Fold.Read does, for sliced indicators and as far back as their windows: what is older is kept as
// judgements of each fold, which cannot be added.
func (j *Joined) Read(requests []ReadRequest) ([]ReadResult, error) {
	if err := j.flush(); err != nil {
		return nil, err
	}
	out := j.f.Read(requests)
	for i := range out {
		out[i].Oldest = out[i].Hourly
	}
	return out, nil
}

// Offers is Fold.Offers for sliced indicators.
func (j *Joined) Offers(ids []string, sp slo.Span) ([]Offer, error) {
	if err := j.flush(); err != nil {
		return nil, err
	}
	return j.f.Offers(ids, sp), nil
}

// flush brings f up to date.
func (j *Joined) flush() error {
	if j.whole {
		if err := j.begin(); err != nil {
			return err
		}
		clear(j.dirty)
		for i := range j.parts {
			for key, s := range j.parts[i].stores {
				for number := range s.blocks {
					j.touch(key, number)
				}
			}
		}
		j.wider = true
	}
	j.whole = false
	j.f.clock++
	for _, s := range j.f.slices {
		j.move(s)
	}
	if j.wider {
		for i := range j.parts {
			for _, s := range j.parts[i].stores {
				j.addColumns(s)
			}
		}
		j.wider = false
	}
	for _, ind := range j.f.inds {
		j.observe(ind)
	}
	for _, s := range j.f.slices {
		j.addUp(s)
	}
	clear(j.dirty)
	return nil
}

// move lets the slices of f begin where those of all parts have begun, and close where all have closed.
func (j *Joined) move(s *sliceStore) {
	key := storeKey{time.Duration(s.per), time.Duration(s.keep)}
	first, next := int64(0), int64(math.MaxInt64)
	for i := range j.parts {
		p := j.parts[i].stores[key]
		if p == nil {
			next = 0
			continue
		}
		first, next = max(first, p.first), min(next, p.next)
	}
	if n := first - s.first; n > 0 && len(s.blocks) > 0 {
		s.blocks = dropFront(s.blocks, n)
		s.runs = dropFront(s.runs, n/s.runLen)
	}
	s.first, s.next = first, max(first, next)
}

// addColumns makes the groups that a part has.
func (j *Joined) addColumns(p *joinedStore) {
	for _, c := range p.columns {
		ind := j.indicator(c.Indicator)
		if ind == nil || !c.Dropped && len(c.Values) != len(ind.spec.GroupBy) {
			continue
		}
		if c.Dropped {
			if ind.dropped == nil {
				ind.dropped = &group{ind: ind, from: always, col: ind.slices.cols.take(sliceColumns)}
			}
			continue
		}
		g := ind.groups[c.Values.Key()]
		if g == nil {
			g = j.f.newGroup(ind, c.Values, never)
		}
		if c.From < g.from {
			g.from = c.From
			ind.slices.stale(max(c.From/ind.slices.per, ind.slices.first), math.MaxInt64)
		}
	}
}

func (j *Joined) indicator(id string) *indicator {
	i, ok := slices.BinarySearchFunc(j.f.inds, id, func(ind *indicator, id string) int {
		return cmp.Compare(ind.spec.ID, id)
	})
	if !ok {
		return nil
	}
	return j.f.inds[i]
}

// observe makes the times that all parts observed those of an indicator of f.
func (j *Joined) observe(ind *indicator) {
	all := j.common(ind.spec.ID)
	old := ind.era.spans
	ind.era = &era{since: math.MaxInt64, spans: all}
	if lo, differ := firstDifference(old, all); differ {
		s := ind.slices
		s.stale(max(lo/s.per, s.first), math.MaxInt64)
	}
}

// intersect is the time that lies in both of two rising lists.
func intersect(a, b []upSpan) []upSpan {
	var out []upSpan
	for len(a) > 0 && len(b) > 0 {
		from, to := max(a[0].from, b[0].from), min(a[0].to, b[0].to)
		if from < to {
			out = append(out, upSpan{from, to})
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// firstDifference is the first moment that lies in one of two rising lists only.
func firstDifference(a, b []upSpan) (int64, bool) {
	for i := 0; i < len(a) || i < len(b); i++ {
		switch {
		case i >= len(a):
			return b[i].from, true
		case i >= len(b):
			return a[i].from, true
		case a[i].from != b[i].from:
			return min(a[i].from, b[i].from), true
		case a[i].to != b[i].to:
			return min(a[i].to, b[i].to), true
		}
	}
	return 0, false
}

// addUp adds up the slices that changed.
func (j *Joined) addUp(s *sliceStore) {
	key := storeKey{time.Duration(s.per), time.Duration(s.keep)}
	dirty := j.dirty[key]
	if len(dirty) == 0 {
		return
	}
	columns := make([]map[uint32]uint32, len(j.parts)) // of f by those of the part
	for i := range j.parts {
		columns[i] = map[uint32]uint32{}
		p := j.parts[i].stores[key]
		if p == nil {
			continue
		}
		for _, c := range p.columns {
			ind := j.indicator(c.Indicator)
			if ind == nil {
				continue
			}
			g := ind.dropped
			if !c.Dropped {
				g = ind.groups[c.Values.Key()]
			}
			if g != nil {
				columns[i][c.At] = g.col
			}
		}
	}
	for number := range dirty {
		b := s.slice(number)
		if b == nil {
			continue
		}
		*b = block[uint16]{ver: j.f.clock}
		for i := range j.parts {
			if p := j.parts[i].stores[key]; p != nil {
				readRaw(p.blocks[number], func(at uint32, good, bad uint64) {
					col, ok := columns[i][at]
					if !ok {
						return
					}
					b.touch(col+sliceColumns, s.cols.room(), j.f.clock)
					b.bump1(col, good)
					b.bump1(col+1, bad)
				})
			}
		}
	}
}
