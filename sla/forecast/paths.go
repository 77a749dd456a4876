package forecast

import (
	"math"
	"math/bits"
	"time"
)

const (
	// paths is how many futures are drawn. Eight of them are beyond each end of a range.
	paths = 160

	// block is how many hours of the past are drawn in one piece, from the same time of a day. It is long enough for
	// most incidents to stay whole.
	block = 12

	// pool is how many of the past days one path draws from at most, and poolShare by how much fewer these are than the
	// days there are. Few days make paths differ by more than chance within the past does: five weeks do not
	// tell well how often incidents come, and one week still less.
	pool, poolShare = 8, 4

	// incidentSpread is that of the bad ratio of an incident from one hour to the next ones.
	incidentSpread = 0.35
)

// firstWeek are the times ahead, in hours, at which a path is looked at during the first week. Later it is once a day.
var firstWeek = []int{1, 2, 4, 6, 9, 12, 18, 24, 36, 48, 60, 72, 84, 96, 108, 120, 132, 144, 156, 168}

// step is a time ahead at which paths are looked at, and what all paths have in common there.
type step struct {
	from, to int // hours ahead: of the step before and of this one
	valid    float64
	pieces   int // of the past that may come in this step: their index in scratch.pieces
	newBlock bool

	keptValid, keptBad float64 // what of today's window is still in it
	renewed            bool    // a calendar window ended where this step begins
	points             uint8   // bit i is set if this step is point i
}

// piece is what some hours of the past brought.
type piece struct {
	valid float64 // against what was usual
	ratio float64
}

// piecesOf says which pieces are meant: those that begin at a time of the day and are so many hours long.
type piecesOf struct{ start, length int }

// scratch is memory that one forecast after another uses.
type scratch struct {
	week, ratios []float64
	runs         []run // incidents of the last weeks
	inWindow     []run // of the window
	traffic      traffic

	steps  []step
	pieces []piece // days of them for each of known
	known  []piecesOf

	came      []Hour       // of one path, up to each step
	remaining [5][]float64 // by point, of every path
	empty     []float64    // hours to exhaustion of every path; +Inf beyond
}

// plan fills in the steps. points are the hours ahead of the points; farthest is that of the last step.
func (p *Past) plan(q *Question, m *model, points []int, farthest int) {
	s := &p.scratch
	s.steps, s.pieces, s.known = s.steps[:0], s.pieces[:0], s.known[:0]
	calendar := q.Window.Calendar != ""
	renewal := math.MaxInt
	if calendar {
		renewal = hoursUntil(q.Now, q.Window.End(q.Now))
	}
	before := 0
	add := func(to int) {
		if to <= before {
			return
		}
		st := step{from: before, to: to, newBlock: before%block == 0 || len(s.steps) == 0, renewed: before == renewal}
		st.valid = s.traffic.between(m.x, before, to)
		st.pieces = p.piecesOf(m, piecesOf{before % hoursPerDay, to - before})
		if to <= renewal {
			st.keptValid, st.keptBad = p.kept(q, m.x, float64(to))
		}
		for i, ahead := range points {
			if ahead == to {
				st.points |= 1 << i
			}
		}
		s.steps = append(s.steps, st)
		before = to
	}
	for _, to := range firstWeek {
		if before < renewal && renewal < to {
			add(renewal)
		}
		add(to)
	}
	for before < farthest {
		add(min(before+hoursPerDay-before%hoursPerDay, farthest))
	}
}

// piecesOf is where the pieces of a kind are, one for each day of the past, the latest first.
func (p *Past) piecesOf(m *model, kind piecesOf) int {
	s := &p.scratch
	for i, k := range s.known {
		if k == kind {
			return i * m.days
		}
	}
	s.known = append(s.known, kind)
	for d := 1; d <= m.days; d++ {
		from := m.base - d*hoursPerDay + kind.start
		to := min(from+kind.length, m.base)
		seen := p.observed[to] - p.observed[from]
		valid, bad := p.valid[to]-p.valid[from], p.bad[to]-p.bad[from]
		c := piece{valid: 1, ratio: m.mean}
		if usual := s.traffic.was(from-m.base, to-from); usual > 0 && seen >= enough*float64(to-from) {
			c.valid = valid / usual * float64(to-from) / seen
			c.ratio = ratioOf(bad, valid)
		}
		s.pieces = append(s.pieces, c)
	}
	return (len(s.known) - 1) * m.days
}

// kept is what of the counts of the window is still in it some hours ahead.
func (p *Past) kept(q *Question, x, ahead float64) (valid, bad float64) {
	if q.Window.Calendar != "" {
		return q.Valid, q.Bad
	}
	from := x - q.Window.Rolling.Hours()
	v, b := p.between(from, min(from+ahead, x), x)
	return max(0, q.Valid-v), max(0, q.Bad-b)
}

// walk draws the paths. It notes what remains at each point, and when the budget is empty.
func (p *Past) walk(q *Question, m *model) {
	s := &p.scratch
	for i := range s.remaining {
		s.remaining[i] = s.remaining[i][:0]
	}
	s.empty = s.empty[:0]
	r := random(q.Seed ^ uint64(q.Now.Unix()/3600)*0x9e3779b97f4a7c15)
	drawn := make([]int, max(1, min(pool, m.days/poolShare)))
	for range paths {
		level := math.Exp(s.traffic.spread * r.normal())
		usual := m.usual.later(&r)
		for i := range drawn {
			drawn[i] = r.below(m.days)
		}
		var in incident
		if m.level != nil {
			usual, in = m.level.change(float64(m.base-m.level.first), &r)
		}
		if m.now != nil {
			in = incident{lasts: m.now.remaining(&r), ratio: min(1, m.now.ratio*math.Exp(incidentSpread*r.normal()))}
		}
		s.empty = append(s.empty, s.path(q, m, &r, drawn, level, usual, in))
	}
}

// incident is how the present incident goes on, on one path. It is zero if there is none.
type incident struct {
	lasts float64 // hours from now on
	ratio float64 // of bad events
}

// path is one future. It returns the hours until the budget is empty, +Inf if it never is.
//
// level is the factor of its traffic, usual how its usual bad ratio changes, and in how the present incident goes on.
func (s *scratch) path(q *Question, m *model, r *random, days []int, level float64, usual change,
	in incident) (empty float64) {
	empty = math.Inf(1)
	valid, bad := 0.0, 0.0      // that came
	day, today, gone := 0, 0, 0 // gone is the step in which began what leaves a short window
	s.came = s.came[:0]
	was := q.Bad - q.Budget*q.Valid // above zero if the budget is empty
	for i := range s.steps {
		st := &s.steps[i]
		if st.newBlock {
			day = days[r.below(len(days))]
			if usual.stays {
				if today = r.below(m.level.days); r.float() < 0.6 {
					today = day // few days say little of how hours differ
				}
			}
		}
		if st.renewed {
			valid, bad, was = 0, 0, math.Inf(-1)
		}
		c := s.pieces[st.pieces+day]
		ratio := c.ratio
		switch {
		case usual.stays: // as in the days since it changed, with the incidents of all days
			fresh := s.pieces[st.pieces+today].ratio
			if old := today >= m.level.days; old && fresh < m.threshold {
				fresh *= m.level.after / m.level.before
			}
			if fresh = min(1, fresh*usual.factor); ratio < max(m.threshold, fresh) {
				ratio = fresh
			}
		case ratio < m.threshold:
			ratio = min(m.threshold, ratio*usual.factor+usual.more)
		}
		length := float64(st.to - st.from)
		if left := in.lasts - float64(st.from); left > 0 && in.ratio > ratio {
			ratio += min(1, left/length) * (in.ratio - ratio)
		}
		v := st.valid * level * c.valid
		valid, bad = valid+v, bad+v*ratio

		inValid, inBad := st.keptValid+valid, st.keptBad+bad
		if m.short > 0 {
			s.came = append(s.came, Hour{Valid: valid, Bad: bad})
			if from := float64(st.to) - m.short; from > 0 {
				for float64(s.steps[gone].to) < from {
					gone++
				}
				out := s.cameBy(gone, from)
				inValid, inBad = max(0, inValid-out.Valid), max(0, inBad-out.Bad)
			}
		}
		over := inBad - q.Budget*inValid
		if over >= 0 && inBad > 0 && math.IsInf(empty, 1) {
			empty = float64(st.from)
			if was < 0 && over > was && !math.IsInf(was, -1) {
				empty += length * was / (was - over)
			}
		}
		was = over
		for set := st.points; set != 0; set &= set - 1 {
			i := bits.TrailingZeros8(set)
			s.remaining[i] = append(s.remaining[i], 1-ratioOf(inBad, inValid)/q.Budget)
		}
	}
	return empty
}

// cameBy is what a path brought up to some hours ahead, which lie within step i.
func (s *scratch) cameBy(i int, hours float64) Hour {
	var a Hour
	if i > 0 {
		a = s.came[i-1]
	}
	b, st := s.came[i], &s.steps[i]
	part := (hours - float64(st.from)) / float64(st.to-st.from)
	return Hour{Valid: a.Valid + part*(b.Valid-a.Valid), Bad: a.Bad + part*(b.Bad-a.Bad)}
}

func ratioOf(bad, valid float64) float64 {
	if valid <= 0 {
		return 0
	}
	return bad / valid
}

// hoursUntil rounds up, so that the hours reach the end.
func hoursUntil(now, end time.Time) int {
	return int((end.Sub(now) + time.Hour - 1) / time.Hour)
}
