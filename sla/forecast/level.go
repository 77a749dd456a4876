package forecast

import (
	"math"
	"time"
)

// Level is a change of the level of failures that has lasted for a day or longer, as a release brings it.
type Level struct {
	Since         time.Time // to some hours
	Before, After float64   // bad ratios
}

const (
	// levelBlock is how many hours are looked at together. A level has lasted for leastLevel hours at least, and for
	// mostLevel at most: what is older is usual.
	levelBlock, leastLevel, mostLevel = 6, 24, 10 * hoursPerDay

	// levelFactor is by how much the bad ratio must have changed, and levelEvidence how great its likelihood ratio must
	// be.
	levelFactor, levelEvidence = 1.6, 5.0

	// levelSpread is the standard deviation of the logarithm of a new level within a week.
	levelSpread = 0.33

	// levelStays is the share of the paths on which a new level stays for good. On the others it ends as an incident does.
	levelStays = 0.85
)

// level is what a path needs of a Level.
type level struct {
	first         int // hour
	days          int // whole days since then
	before, after float64
	doubt         float64 // standard deviation of the logarithm of after, by the number of events
}

// changed finds the level that the last hours have, if it is another one than before. Each start is as likely as two
// Poisson rates, one before it and one since, explain the counts better than one (a likelihood ratio, divided by how
// much more the blocks before differ than chance). A level must be in every block, or nearly, which incidents are not.
func (p *Past) changed(m *model, first int) *level {
	from := m.base - mostLevel
	if from-first < leastDays*hoursPerDay {
		return nil
	}
	was := p.usualSum(m, first, from)
	before := ratioOf(was.Bad+1, was.Valid)
	if was.Valid == 0 {
		return nil
	}
	excess, blocks := 0.0, 0.0
	for at := first; at+levelBlock <= from; at += levelBlock {
		block := p.sum(at, at+levelBlock)
		if mean := before * block.Valid; mean > 0 && block.Bad <= m.threshold*block.Valid {
			excess, blocks = excess+(block.Bad-mean)*(block.Bad-mean)/mean, blocks+1
		}
	}
	excess = max(1, excess/max(1, blocks))
	var best level
	most := levelEvidence
	for begin := m.base - leastLevel; begin > from; begin -= levelBlock {
		is := p.sum(begin, m.base)
		between := p.usualSum(m, from, begin)
		old := Hour{Valid: was.Valid + between.Valid, Bad: was.Bad + between.Bad + 1}
		l := level{first: begin, days: (m.base - begin) / hoursPerDay, before: ratioOf(old.Bad, old.Valid),
			after: ratioOf(is.Bad, is.Valid), doubt: 1 / math.Sqrt(is.Bad+1)}
		both := ratioOf(old.Bad+is.Bad, old.Valid+is.Valid)
		evidence := (is.Bad*logRatio(l.after, both) + old.Bad*logRatio(l.before, both)) / excess
		if evidence > most && math.Abs(logRatio(max(l.after, l.before/100), l.before)) > math.Log(levelFactor) &&
			p.steady(l, m.base) {
			best, most = l, evidence
		}
	}
	if best.first == 0 {
		return nil
	}
	return &level{best.first, best.days, best.before, best.after, best.doubt}
}

// logRatio is 0 where nothing was bad.
func logRatio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return math.Log(a / b)
}

// steady reports whether the bad events since a level began are spread over its blocks: at least seven in ten blocks in
// which five are expected are nearer to the level than to the one before, and no part of a day has most of them.
func (p *Past) steady(l level, base int) bool {
	border := math.Sqrt(l.before * max(l.after, l.before/100))
	is := p.sum(l.first, base)
	most, n, near := 0.0, 0.0, 0.0
	for at := l.first; at+levelBlock <= base; at += levelBlock {
		block := p.sum(at, at+levelBlock)
		most = max(most, block.Bad)
		if max(l.after, l.before)*block.Valid >= 5 {
			if n++; (ratioOf(block.Bad, block.Valid) > border) == (l.after > l.before) {
				near++
			}
		}
	}
	return near >= 0.7*n && (l.after < l.before || most <= max(3, is.Bad/2))
}

// usualSum is sum without the hours of incidents.
func (p *Past) usualSum(m *model, from, to int) (sum Hour) {
	for i := from; i < to; i++ {
		if h := &p.hours[i]; !h.above(m.threshold) {
			sum.Valid, sum.Bad = sum.Valid+h.Valid, sum.Bad+h.Bad
		}
	}
	return sum
}

// sum is what was counted from one hour to another.
func (p *Past) sum(from, to int) Hour {
	return Hour{Valid: p.valid[to] - p.valid[from], Bad: p.bad[to] - p.bad[from]}
}

// change draws how a path goes on after a change of level: as the level is now, or after some hours as it was.
func (l *level) change(lasted float64, r *random) (change, incident) {
	spread := math.Exp((levelSpread + l.doubt) * r.normal())
	if r.float() >= levelStays {
		in := incident{lasts: (&present{lasted: lasted}).remaining(r), ratio: l.after * spread}
		return change{factor: math.Exp(usualSpread * r.normal())}, in
	}
	return change{factor: spread, stays: true}, incident{}
}
