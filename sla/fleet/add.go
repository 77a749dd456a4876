package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// adder makes the sums of several engines one.
type adder struct {
	cfg    *fold.Config
	req    *fold.Request
	parts  []*fold.Sums // one for each engine; nil if it gave no answer
	joined *fold.Joined

	cover []*evaluator.Coverage // of parts
	out   *fold.Sums
}

// add adds up the parts, at least one of which is not nil. Its cost is that of the groups of all parts.
//
// An engine without an answer adds nothing, and what it would have observed counts as unobserved. Only its slices stay:
// those that were closed when it last answered do not change any more.
func add(cfg *fold.Config, req *fold.Request, parts []*fold.Sums, joined *fold.Joined) (*fold.Sums, error) {
	a := &adder{cfg: cfg, req: req, parts: parts, joined: joined, cover: make([]*evaluator.Coverage, len(parts)),
		out: &fold.Sums{Now: req.Now}}
	a.figures()
	sliced, err := joined.Groups(*req)
	if err != nil {
		return nil, err
	}
	heads := make([][]fold.Group, len(parts)) // what is left of the groups of each part
	for i, p := range parts {
		if p != nil {
			a.cover[i], heads[i] = evaluator.NewCoverage(p.Up, req.Now), p.Groups
		}
	}
	for k := range cfg.Indicators {
		ind := &cfg.Indicators[k]
		mine := make([][]fold.Group, len(parts))
		for i := range heads {
			n := 0
			for n < len(heads[i]) && heads[i][n].Indicator == ind {
				n++
			}
			mine[i], heads[i] = heads[i][:n], heads[i][n:]
		}
		counting := a.counting(k)
		for i := range mine {
			if !slices.Contains(counting, i) {
				mine[i] = nil
			}
		}
		first, all := len(a.out.Groups), slices.Clone(mine)
		if ind.Slice == nil {
			a.events(k, mine)
		} else {
			n := 0
			for n < len(sliced) && sliced[n].Indicator.ID == ind.ID {
				n++
			}
			a.slices(k, mine, sliced[:n])
			sliced = sliced[n:]
		}
		understated(a.out.Groups[first:], all)
		if ind.Kind == fold.Completion {
			a.inFlight(ind)
		}
	}
	return a.out, nil
}

// events adds up the groups of an indicator of events.
func (a *adder) events(k int, mine [][]fold.Group) {
	ind := &a.cfg.Indicators[k]
	first := len(a.out.Groups)
	shares, live := a.shares(k, false), a.shares(k, true)
	spans, bins := len(a.req.Spans)+len(a.req.Extra[ind.ID]), binsOf(ind)
	for next := lowest(mine); next != nil; next = lowest(mine) {
		g := fold.Group{Indicator: ind, Values: next.Values, Observed: shares, Live: live, Total: make([]uint64, bins),
			Spans: make([][]uint64, spans)}
		flat := make([]uint64, spans*bins)
		for i := range g.Spans {
			g.Spans[i] = flat[i*bins : (i+1)*bins : (i+1)*bins]
		}
		take(mine, next.Values, func(x *fold.Group) {
			head(&g, x)
			addCounts(g.Total, x.Total)
			if x.Old != nil {
				if g.Old == nil {
					g.Old = make([]uint64, bins)
				}
				addCounts(g.Old, x.Old)
			}
			for i, s := range x.Spans {
				addCounts(g.Spans[i], s)
			}
			if x.Excess != nil {
				if g.Excess == nil {
					g.Excess = make([]uint64, spans)
				}
				addCounts(g.Excess, x.Excess)
			}
			addMoved(&g, x)
		})
		a.out.Groups = append(a.out.Groups, g)
	}
	if loss := a.loss(k, a.out.Groups[first:]); loss != nil {
		for i := first; i < len(a.out.Groups); i++ {
			a.out.Groups[i].Loss = loss
		}
	}
}

// slices completes the groups of an indicator of slices, which were judged by the counts of all engines.
func (a *adder) slices(k int, mine [][]fold.Group, judged []fold.Group) {
	ind := &a.cfg.Indicators[k]
	all := evaluator.NewCoverage(a.joined.Observed(ind.ID), a.req.Now)
	shares := all.Shares(&fold.Era{}, a.asked(k))
	for i := range judged {
		g := judged[i]
		g.Indicator, g.Observed, g.Backfilled, g.Since = ind, shares, nil, time.Time{}
		take(mine, g.Values, func(x *fold.Group) { head(&g, x) })
		if g.Since.IsZero() { // only an engine without an answer has it
			g.Generation, g.Since = a.since(k)
		}
		a.out.Groups = append(a.out.Groups, g)
	}
}

// head takes over what a part says of a group beside its counts.
func head(g, x *fold.Group) {
	g.Generation = max(g.Generation, x.Generation)
	if g.Since.IsZero() || x.Since.Before(g.Since) {
		g.Since = x.Since
	}
	if x.LastEvent.After(g.LastEvent) {
		g.LastEvent = x.LastEvent
	}
}

func (a *adder) since(k int) (generation uint32, at time.Time) {
	for _, p := range a.parts {
		if p == nil {
			continue
		}
		e := &p.Eras[k]
		generation = max(generation, e.Generation)
		if at.IsZero() || e.Since.Before(at) {
			at = e.Since
		}
	}
	return generation, at
}

// lowest is the next group of all parts; nil after the last.
func lowest(mine [][]fold.Group) *fold.Group {
	var out *fold.Group
	for _, gs := range mine {
		if len(gs) > 0 && (out == nil || compareValues(gs[0].Values, out.Values) < 0) {
			out = &gs[0]
		}
	}
	return out
}

// take hands over the groups of these values and takes them, and those before them, off the lists.
func take(mine [][]fold.Group, values slo.Group, each func(*fold.Group)) {
	for i := range mine {
		for len(mine[i]) > 0 {
			order := compareValues(mine[i][0].Values, values)
			if order > 0 {
				break
			}
			if order == 0 {
				each(&mine[i][0])
			}
			mine[i] = mine[i][1:]
		}
	}
}

// addMoved adds what alert conditions count at another time in a part.
func addMoved(g, x *fold.Group) {
	if g.Moved == nil && x.Moved != nil {
		g.Moved = make([]fold.Shift, len(x.Moved))
	}
	for set, m := range x.Moved {
		sum := &g.Moved[set]
		if m.Spans != nil && sum.Spans == nil {
			sum.Spans = make([][]uint64, len(m.Spans))
		}
		for i, bins := range m.Spans {
			if sum.Spans[i] == nil && bins != nil {
				sum.Spans[i] = make([]uint64, len(bins))
			}
			addCounts(sum.Spans[i], bins)
		}
		if m.Excess != nil && sum.Excess == nil {
			sum.Excess = make([]uint64, len(m.Excess))
		}
		addCounts(sum.Excess, m.Excess)
	}
}

func addCounts(sum, n []uint64) {
	for i := range n {
		sum[i] += n[i]
	}
}

// counting are the engines whose counts of an indicator are added: all, or of those with the same source of counters,
// which count the same, the one that observed most.
func (a *adder) counting(k int) (out []int) {
	if ind := &a.cfg.Indicators[k]; ind.Source != "" && ind.Slice == nil {
		best, most := 0, -1.0
		for i, p := range a.parts {
			if p == nil {
				continue
			}
			sum := 0.0
			for _, share := range a.cover[i].Shares(&p.Eras[k], a.asked(k)) {
				sum += share
			}
			if sum > most {
				best, most = i, sum
			}
		}
		return []int{best}
	}
	for i := range a.parts {
		out = append(out, i)
	}
	return out
}

// asked are the spans that are asked of an indicator, its own among them.
func (a *adder) asked(k int) []slo.Span {
	return slices.Concat(a.req.Spans, a.req.Extra[a.cfg.Indicators[k].ID])
}

// shares are the parts of the asked spans that were observed of an indicator of events: the mean over the engines that
// count. Live ones leave out what was backfilled, and are nil if nothing was.
func (a *adder) shares(k int, live bool) []float64 {
	from := a.counting(k)
	if live && !slices.ContainsFunc(from, func(i int) bool {
		return a.parts[i] != nil && len(a.parts[i].Eras[k].Backfilled) > 0
	}) {
		return nil
	}
	asked := a.asked(k)
	out := make([]float64, len(asked))
	all := make([][]float64, 0, len(from))
	for _, i := range from {
		if p := a.parts[i]; p != nil {
			e := p.Eras[k]
			if live {
				e.Backfilled = nil
			}
			all = append(all, a.cover[i].Shares(&e, asked))
		}
	}
	for s := range out {
		low, high, sum := math.Inf(1), 0.0, 0.0
		for _, shares := range all {
			low, high, sum = min(low, shares[s]), max(high, shares[s]), sum+shares[s]
		}
		if out[s] = sum / float64(len(from)); low == high && len(all) == len(from) {
			out[s] = low // to the last bit
		}
	}
	return out
}

// loss is what limits dropped of an indicator of events; nil if nothing in the asked spans. Offered are the dropped
// ones and the valid ones of all groups of all engines, also of those that dropped nothing.
func (a *adder) loss(k int, groups []fold.Group) *fold.Loss {
	l := &fold.Loss{Dropped: make([]uint64, len(a.req.Spans)), Offered: make([]uint64, len(a.req.Spans))}
	lost := false
	for _, p := range a.parts {
		if p != nil && p.Eras[k].Loss != nil {
			addCounts(l.Dropped, p.Eras[k].Loss.Dropped)
		}
	}
	for i, n := range l.Dropped {
		if n == 0 {
			continue
		}
		lost = true
		l.Offered[i] = n
		for g := range groups {
			for _, m := range groups[g].Spans[i] {
				l.Offered[i] += m
			}
		}
	}
	if !lost {
		return nil
	}
	return l
}

// understated marks the groups with a name that some engine may have counted in its "other" group: it has one, and does
// not know the name.
func understated(groups []fold.Group, parts [][]fold.Group) {
	for _, p := range parts {
		if n := len(p); n == 0 || !p[n-1].Values.IsOther() {
			continue
		}
		at := 0
		for i := range groups {
			g := &groups[i]
			for at < len(p) && compareValues(p[at].Values, g.Values) < 0 {
				at++
			}
			if at == len(p) || compareValues(p[at].Values, g.Values) != 0 {
				g.Understated = true
			}
		}
	}
}

// figures adds up what is not by indicator.
func (a *adder) figures() {
	traffic, durations := map[string]int{}, map[string]int{}
	st := &a.out.Stats
	st.Unmeasured, st.Dropped = map[string]uint64{}, map[string]uint64{}
	for _, p := range a.parts {
		if p == nil {
			continue
		}
		if a.out.Watermark.IsZero() || p.Watermark.Before(a.out.Watermark) {
			a.out.Watermark = p.Watermark // up to here everything is counted
		}
		st.Events += p.Stats.Events
		st.Late += p.Stats.Late
		st.TooOld += p.Stats.TooOld
		st.Refused += p.Stats.Refused
		st.Backfilled += p.Stats.Backfilled
		for k, n := range p.Stats.Unmeasured {
			st.Unmeasured[k] += n
		}
		for k, n := range p.Stats.Dropped {
			st.Dropped[k] += n
		}
		for i := range p.Traffic {
			t := &p.Traffic[i]
			key := strings.Join(append([]string{t.Service, t.Type, t.Outcome, t.Severity}, t.Dimensions...), "\xff")
			at, ok := traffic[key]
			if !ok {
				traffic[key] = len(a.out.Traffic)
				a.out.Traffic = append(a.out.Traffic, *t)
				continue
			}
			sum := &a.out.Traffic[at]
			sum.Count += t.Count
			if t.LastEvent.After(sum.LastEvent) {
				sum.LastEvent = t.LastEvent
			}
		}
		for i := range p.Durations {
			a.addDurations(durations, &p.Durations[i])
		}
	}
	order.By(a.out.Traffic, func(x, y *fold.Traffic) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Outcome, y.Outcome),
			cmp.Compare(x.Severity, y.Severity), slices.Compare(x.Dimensions, y.Dimensions))
	})
}

func (a *adder) addDurations(index map[string]int, d *fold.Durations) {
	key := strings.Join(append([]string{d.Service, d.Type, d.Outcome}, d.Dimensions...), "\xff")
	at, ok := index[key]
	if !ok {
		index[key] = len(a.out.Durations)
		first := *d
		first.Counts = slices.Clone(d.Counts) // the part's own are still shown if it goes missing
		a.out.Durations = append(a.out.Durations, first)
		return
	}
	sum := &a.out.Durations[at]
	if !slices.Equal(sum.Buckets, d.Buckets) {
		return // one spec has one list of buckets
	}
	addCounts(sum.Counts, d.Counts)
	sum.SumSeconds += d.SumSeconds
	if sum.Sum += d.Sum; sum.Sum < d.Sum {
		sum.Sum = math.MaxInt64
	}
}
