package series

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/order"
)

// tally makes events of samples, whether they were read or received. From begin until the engine has the batch in its
// table, no other tally of the same units may be in use.
type tally struct {
	counters *counter.Table
	batch    *counter.Batch
	decoder  event.Decoder
	events   event.Batch
	hash     xxh3.Hasher
	sums     map[cell]*sum
	scrape   time.Duration
	warmup   time.Duration // counter.Point.Warmup
	ahead    []gap         // series that may be behind the end of the past
	later    []gap         // series that nothing was known of, which say more after the others
	id       uint64
	found    map[*plan]*Found
	old      bool // what is read is history
	apart    bool // what is added in gaps is left in gaps, for addGaps
	gaps     []gap
	inGaps   bool  // what is counted was added in gaps
	oldest   int64 // Unix nanoseconds; what is older is known and does not count
	first    *past // to be noted with what is first stored of a unit
	meeting  *meeting
	left     string // why a part of what was read is not counted; "": all is
}

// cell is where events of one SLO are counted.
type cell struct {
	plan  *plan
	slo   int
	at    int64 // Unix nanoseconds, a multiple of step
	group string
	inGap bool // see unresolved
}

type sum struct {
	values      []string
	total, part uint64
}

const (
	// step is the resolution in which events are counted, that of the finest windows, and oldStep that of history.
	step, oldStep = int64(10 * time.Second), int64(5 * time.Minute)
	// maxBatchBytes bounds what one reading writes: it must fit one record.
	maxBatchBytes = 4 << 20
	// maxAdded is how much a counter may add between two samples: an event stands for 2^32 at most.
	maxAdded = 1 << 40
)

func newTally(counters *counter.Table, scrape time.Duration) tally {
	return tally{counters: counters, batch: counter.NewBatch(counters), sums: map[cell]*sum{}, found: map[*plan]*Found{},
		scrape: scrape, apart: true}
}

func (t *tally) begin() {
	t.batch.Begin()
	t.inGaps = false
	clear(t.sums)
	clear(t.found)
	t.ahead, t.later, t.gaps = t.ahead[:0], t.later[:0], nil
	if t.meeting != nil {
		clear(t.meeting.firsts)
	}
}

// unresolved is the verdict on a sample after a gap: nobody knows when what it adds happened, so that it counts in a
// batch of its own, as history does: budgets have it, and no alert goes by it.
const unresolved = counter.Full + 1

// gap is a series with samples, such as those from the first one after a gap on.
type gap struct {
	of      routed
	points  []point
	lenient time.Duration // see tally.sample
	whole   bool          // it has no gap, but others of its target have, and what it says depends on them
}

// addGaps counts what was added in gaps, in a batch of its own, and addBehind the samples behind them.
func (t *tally) addGaps(gaps []gap) {
	t.begin()
	t.apart, t.inGaps = false, true
	for i := range gaps {
		if !gaps[i].whole {
			t.sample(&gaps[i].of, gaps[i].points[0], gaps[i].lenient)
		}
	}
	t.apart = true
}

func (t *tally) addBehind(gaps []gap) {
	t.begin()
	for i := range gaps {
		points := gaps[i].points
		if !gaps[i].whole {
			points = points[1:]
		}
		t.run(&gaps[i].of, points, gaps[i].lenient)
	}
}

// routed is a series of a unit.
type routed struct {
	plan         *plan
	series       uint64
	target       counter.Key
	both, isPart bool
	groups       []group // of the SLOs of the unit
}

type group struct {
	values []string
	key    string
}

// route makes the way of a series to a unit. Targets of two clusters may have one name.
func route(p *plan, of seriesLabels, h *xxh3.Hasher, cluster string, both, isPart bool) routed {
	r := routed{plan: p, both: both, isPart: isPart, groups: make([]group, len(p.SLOs))}
	r.series, r.target = of.hash(h)
	if cluster != "" {
		r.target.Lo ^= xxh3.HashString(cluster)
	}
	if isPart { // also where a series is one of the total
		r.series ^= p.part.key.Lo
	}
	for i := range p.SLOs {
		g := &r.groups[i]
		for _, name := range p.SLOs[i].GroupBy {
			g.values = append(g.values, of.get(name))
		}
		g.key = strings.Join(g.values, "\xff")
	}
	return r
}

func (r *routed) point(at point) counter.Point {
	return counter.Point{Class: r.plan.class, Metric: r.plan.total.key, Source: r.target, Series: r.series, Time: at.at,
		Counts: counter.Counts{Count: uint64(at.n)}, Began: at.began, Scraped: true}
}

// count adds what the samples of one series say to the sums. rest must follow after the last series.
func (t *tally) count(p *plan, one *oneSeries, both, isPart bool) {
	r := route(p, one.labels, &t.hash, "", both, isPart)
	if t.meeting.meets(r.target, one.points) {
		t.ahead = append(t.ahead, gap{of: r, points: slices.Clone(one.points)})
		return
	}
	t.known(&r, one.points, true)
}

// known adds what the samples of a series say that the table has, and leaves others for later.
func (t *tally) known(r *routed, points []point, shared bool) {
	x := r.point(point{})
	switch {
	case len(points) == 0:
	case t.batch.Knows(&x):
		t.run(r, points, 0)
	case shared:
		t.later = append(t.later, gap{of: *r, points: slices.Clone(points)})
	default:
		t.later = append(t.later, gap{of: *r, points: points})
	}
}

func (t *tally) rest() {
	for i := range t.ahead {
		one := &t.ahead[i]
		t.known(&one.of, t.meeting.upTo(t.counters, &one.of, one.points), false)
	}
	// The first series of a target begins the counting, whatever its labels are.
	order.By(t.later, func(a, b *gap) int { return cmp.Compare(a.points[0].at, b.points[0].at) })
	for _, one := range t.later {
		if one.whole = slices.ContainsFunc(t.gaps, func(g gap) bool { return g.of.target == one.of.target }); one.whole {
			t.gaps = append(t.gaps, one)
			continue
		}
		t.run(&one.of, one.points, 0)
	}
}

// run adds samples up to a gap.
func (t *tally) run(r *routed, points []point, lenient time.Duration) {
	for i, at := range points {
		if t.sample(r, at, lenient) == unresolved {
			t.gaps = append(t.gaps, gap{of: *r, points: slices.Clone(points[i:]), lenient: lenient})
			return
		}
	}
}

// sample adds what a sample says to the sums. A counter that falls within lenient did not begin again.
func (t *tally) sample(r *routed, at point, lenient time.Duration) counter.Verdict {
	x := r.point(at)
	x.Warmup, x.Lenient = int64(t.warmup), int64(lenient)
	var native *nativePoint
	if at.native != nil {
		native = &nativePoint{at.native, at.native}
		x.Counts, x.Since = put(at.native), native.since
	}
	x.Always = t.meeting != nil && at.at > t.meeting.Meet // so that it is known what has met
	why := t.batch.Observe(&x)
	gap := why == counter.Adds && x.Before > 0 && at.at-x.Before > gapScrapes*int64(t.scrape)
	if gap && x.Count > 0 && t.apart && !t.old {
		return unresolved
	}
	t.of(r.plan).note(&x, why, gap)
	switch why {
	case counter.Adds:
		t.batch.Keep()
	case counter.Baseline:
		t.batch.Keep()
		return why
	case counter.Full:
		t.left = fmt.Sprintf("the last samples of all series take %d MiB, and more are not counted: select fewer",
			counter.MaxBytes>>20)
		return why
	default:
		return why
	}
	if x.Count > maxAdded {
		t.left = fmt.Sprintf("a counter adds %d between two samples, and more than %d are not counted", x.Count,
			uint64(maxAdded))
		return why
	}
	if n := x.Count; n > 0 && x.Time > r.plan.since {
		at := at.at
		if gap {
			at -= (at - x.Before) / 2
		}
		if at < t.oldest && !t.inGaps {
			return why
		}
		t.add(r, at, n, t.part(r, native, at, n))
	}
	return why
}

// of is what was found of a unit.
func (t *tally) of(p *plan) *Found {
	f := t.found[p]
	if f == nil {
		f = &Found{}
		t.found[p] = f
	}
	return f
}

// part is how many of the events of a series are of the part. A fraction of an event is one in as many cases as it is.
func (t *tally) part(r *routed, native *nativePoint, at int64, n uint64) uint64 {
	switch {
	case native != nil:
		u := float64(xxh3.HashStringSeed("native", r.series^uint64(at))>>11) / (1 << 53)
		return min(uint64(r.plan.native.within(native.added)+u), n)
	case r.isPart || r.both:
		return n
	}
	return 0
}

// add counts n events of a series for all SLOs of the unit.
func (t *tally) add(r *routed, at int64, n, part uint64) {
	for i := range r.groups {
		c := cell{r.plan, i, t.border(at, r.plan.SLOs[i].Slice), r.groups[i].key, t.inGaps}
		to := t.sums[c]
		if to == nil {
			to = &sum{values: r.groups[i].values}
			t.sums[c] = to
		}
		if !r.isPart {
			to.total += n
		}
		to.part += part
	}
}

// border is the begin of what is counted together with a time.
func (t *tally) border(at int64, slice time.Duration) int64 {
	if t.old {
		return at - at%width(oldStep, slice)
	}
	return at - at%width(step, slice)
}

// write makes events of the sums.
func (t *tally) write(now time.Time, limits event.SizeLimits, longest time.Duration) error {
	limits.MaxBackfill = longest + 2*oldSlice
	t.decoder.Begin(event.DecodeOptions{Now: now, SizeLimits: limits, AppendID: t.appendID,
		Backfill: t.old || t.inGaps}, &t.events)
	for _, c := range slices.SortedFunc(maps.Keys(t.sums), func(a, b cell) int {
		return cmp.Or(strings.Compare(a.plan.Stream, b.plan.Stream), cmp.Compare(a.at, b.at), cmp.Compare(a.slo, b.slo),
			strings.Compare(a.group, b.group))
	}) {
		x := t.sums[c]
		bad := min(x.part, x.total)
		t.of(c.plan).cut(c.at, c.plan.SLOs[c.slo].GroupBy, x.values, x.part-bad)
		if c.plan.Good {
			bad = x.total - bad
		}
		t.draft(&c.plan.SLOs[c.slo], x, c.at, event.Failure, bad)
		t.draft(&c.plan.SLOs[c.slo], x, c.at, event.Success, x.total-bad)
	}
	t.decoder.End()
	if len(t.events.Buf) > maxBatchBytes {
		return errTooLarge
	}
	return nil
}

func (t *tally) draft(of *SLO, x *sum, at int64, outcome event.Outcome, n uint64) {
	d := event.Draft{Service: []byte(of.Service), Type: []byte(of.Type), Outcome: outcome, Time: at, Weight: 1,
		Duration: event.NoDuration, Own: true, Once: true}
	for i, name := range of.Attributes {
		d.Attributes = append(d.Attributes, event.Attribute{Name: []byte(name), Value: []byte(x.values[i])})
	}
	slices.SortFunc(d.Attributes, func(a, b event.Attribute) int { return bytes.Compare(a.Name, b.Name) })
	for ; n > 0 && len(t.events.Buf) <= maxBatchBytes; n -= uint64(d.Count) {
		d.Count = uint32(min(n, math.MaxUint32))
		if code := t.decoder.Add(&d); code != "" {
			t.left = "events are rejected with the code " + string(code)
		}
	}
}

// appendID names an event, which has no identity: what is known of its series tells that it is new.
func (t *tally) appendID(dst []byte, _ int) []byte {
	t.id++
	return strconv.AppendUint(append(dst, "prometheus-"...), t.id, 36)
}
