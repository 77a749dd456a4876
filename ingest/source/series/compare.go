package series

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// Comparison says which counters are read, and where, to compare two ways to count them: that of increase(), and that
// of a Source or, with Events, of an engine that received the events themselves.
type Comparison struct {
	URL         string // of the Prometheus, without /api
	Client      *http.Client
	Total, Part string // selectors of counters; as of a Unit
	From, To    time.Time
	Step        time.Duration // of Added
	// Scrape is the longest time between two scrapes; 0: as the samples lie.
	Scrape time.Duration
	// Events: those that the counters count were counted when they happened, also what a counter lost.
	Events bool

	MaxSeries, MaxSamples int
	Progress              func(at time.Time, samples int) // nil: none
}

// Compared is what the samples say.
type Compared struct {
	Series, Samples int
	Scrape          time.Duration // of Comparison, or what it is instead
	Total, Part     Side
}

// Side is what the counters of one selector added.
type Side struct {
	Series  int
	Counted float64 // as a Source counts it, or what happened; the sum of Added
	Added   []float64
	// Versions are what increase() says: that of Prometheus 3, and that of Prometheus 2.
	Versions [2]Increase

	NewSeries int     // began in the window beside others of their targets or, with Events, with their targets
	First     float64 // their first values, which are in Counted and not in increase()
	LastNew   time.Time

	Beginnings   int // of targets, whose first values no Source counts
	AtBeginnings float64

	Resets     int
	AfterReset float64 // what the counters that fell said then, which both have
	Lost       float64 // about what they had added before they fell, which only Events have
	LastReset  time.Time

	Gaps       int     // longer than three scrapes
	InGaps     float64 // what was added in them, which both have if they lie inside the window
	LongestGap time.Duration
	GapAt      time.Time // when the longest one began
}

// Increase is what increase() says of the counters of one selector, and where that differs from Side.Counted.
type Increase struct {
	Value float64 // the sum of all series
	Raw   float64 // of it what lies between the samples of the window: the rest is extrapolated
	// Edges is Counted without Raw, First, Lost and GapEdges: what counters added across the ends of the window.
	Edges float64
	// GapEdges is likewise what they added in gaps across its ends.
	GapEdges float64
}

const (
	// margin is how far around the window samples are looked for.
	margin = time.Hour
	// fewSamples in an answer mean that the next one may be of a longer time.
	fewSamples = 200_000
	// gapScrapes is how many scrapes are missing in a gap.
	gapScrapes = 3
)

// ErrTooMany is what a comparison ends with at its limits.
var ErrTooMany = errors.New("too much to compare")

// follower follows one series through the window.
type follower struct {
	target counter.Key
	sides  [2]bool // total, part
	at     int64
	n      float64
	rate   float64     // before at, per nanosecond
	window [2]inWindow // Versions: Prometheus 3 leaves a sample at the very start of the window out
	edge   [2]float64  // GapEdges
}

type inWindow struct {
	points        int
	first, last   int64
	firstN, added float64
}

// comparing is a Comparison under way.
type comparing struct {
	*Comparison
	plan    *plan
	out     Compared
	series  map[counter.Key]*follower
	began   map[counter.Key]int64 // targets
	client  client
	hash    xxh3.Hasher
	firsts  []delta
	from    int64
	to      int64
	samples int
}

// delta is what one series added between two samples.
type delta struct {
	of      *follower
	a, b    int64 // a is 0 for a first value
	n, lost float64
	reset   bool
	inside  [2]bool // the window, of Versions
}

// Compare reads the samples in pieces. It keeps one entry for each series, and one for each first value.
func Compare(ctx context.Context, c *Comparison) (*Compared, error) {
	p, err := newPlan(Unit{Total: c.Total, Part: c.Part}, 0, nil)
	if err != nil {
		return nil, err
	}
	r := &comparing{Comparison: c, plan: p, series: map[counter.Key]*follower{}, began: map[counter.Key]int64{},
		from: c.From.UnixNano(), to: c.To.UnixNano(), client: client{url: strings.TrimSuffix(c.URL, "/"), http: c.Client}}
	if r.out.Scrape = c.Scrape; c.Scrape == 0 {
		if r.out.Scrape, err = r.usualScrape(ctx); err != nil {
			return nil, err
		}
	}
	steps := int((c.To.Sub(c.From) + c.Step - 1) / c.Step)
	r.out.Total.Added, r.out.Part.Added = make([]float64, steps), make([]float64, steps)
	at, end := c.From.Add(-margin), c.To.Add(margin)
	for length, retries := oldSlice, 3; at.Before(end); {
		to := at.Add(min(length, end.Sub(at)))
		before := r.samples
		err := r.piece(ctx, at, to)
		var refused *queryError
		if tooMuch := errors.Is(err, errTooLarge) || errors.As(err, &refused) &&
			(refused.status == http.StatusUnprocessableEntity || refused.status == http.StatusServiceUnavailable); tooMuch &&
			length > time.Minute {
			length /= 2 // a series takes a sample once, so that what was read may be read again
			continue
		}
		if retries > 0 && errors.Is(err, io.ErrUnexpectedEOF) { // the connection broke
			retries--
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.samples-before < fewSamples {
			length = min(2*length, 24*time.Hour)
		}
		if at = to; c.Progress != nil {
			c.Progress(at, r.samples)
		}
	}
	r.out.Series, r.out.Samples = len(r.series), r.samples
	r.sum()
	return &r.out, nil
}

// Add adds what another server says of the same steps.
func (c *Compared) Add(o *Compared) {
	c.Series, c.Samples, c.Scrape = c.Series+o.Series, c.Samples+o.Samples, max(c.Scrape, o.Scrape)
	c.Total.add(&o.Total)
	c.Part.add(&o.Part)
}

func (s *Side) add(o *Side) {
	s.Series, s.Counted = s.Series+o.Series, s.Counted+o.Counted
	for i, n := range o.Added {
		s.Added[i] += n
	}
	for i := range o.Versions {
		v, w := &s.Versions[i], &o.Versions[i]
		v.Value, v.Raw = v.Value+w.Value, v.Raw+w.Raw
		v.Edges, v.GapEdges = v.Edges+w.Edges, v.GapEdges+w.GapEdges
	}
	s.NewSeries, s.First = s.NewSeries+o.NewSeries, s.First+o.First
	s.Beginnings, s.AtBeginnings = s.Beginnings+o.Beginnings, s.AtBeginnings+o.AtBeginnings
	s.Resets, s.AfterReset, s.Lost = s.Resets+o.Resets, s.AfterReset+o.AfterReset, s.Lost+o.Lost
	s.Gaps, s.InGaps = s.Gaps+o.Gaps, s.InGaps+o.InGaps
	if o.LastNew.After(s.LastNew) {
		s.LastNew = o.LastNew
	}
	if o.LastReset.After(s.LastReset) {
		s.LastReset = o.LastReset
	}
	if o.LongestGap > s.LongestGap {
		s.LongestGap, s.GapAt = o.LongestGap, o.GapAt
	}
}

// usualScrape is the median time between two samples of a series, at the ends of the window.
func (r *comparing) usualScrape(ctx context.Context) (time.Duration, error) {
	var apart []int64
	for _, end := range []time.Time{r.From.Add(10 * time.Minute), r.To} {
		_, err := r.client.samples(ctx, r.Total, end.Add(-10*time.Minute), end, func(one *oneSeries) {
			for i := 1; i < len(one.points) && len(apart) < 100_000; i++ {
				apart = append(apart, one.points[i].at-one.points[i-1].at)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	if len(apart) == 0 {
		return time.Minute, nil
	}
	slices.Sort(apart)
	return time.Duration(apart[len(apart)/2]).Round(time.Second), nil
}

// piece reads the samples of one time.
func (r *comparing) piece(ctx context.Context, from, to time.Time) error {
	var over error
	take := func(partToo, isPart bool) func(*oneSeries) {
		return func(one *oneSeries) {
			if over == nil {
				over = r.take(one, [2]bool{!isPart, isPart || partToo && r.plan.part.matches(one.labels)})
			}
		}
	}
	_, err := r.client.samples(ctx, r.Total, from, to, take(r.plan.inside, false))
	if err == nil && !r.plan.inside {
		_, err = r.client.samples(ctx, r.Part, from, to, take(false, true))
	}
	if err == nil {
		err = over
	}
	return err
}

func (r *comparing) take(one *oneSeries, sides [2]bool) error {
	id, target := one.labels.hash(&r.hash)
	key := counter.Key{Lo: id, Hi: target.Lo}
	if sides[1] && !sides[0] {
		key.Lo ^= r.plan.part.key.Lo
	}
	f := r.series[key]
	if f == nil {
		if len(r.series) == r.MaxSeries {
			return fmt.Errorf("%w: more than %d series", ErrTooMany, r.MaxSeries)
		}
		f = &follower{target: target, sides: sides}
		r.series[key] = f
	}
	for _, p := range one.points {
		if !p.isCount() || p.at <= f.at {
			continue
		}
		if r.samples++; r.samples > r.MaxSamples {
			return fmt.Errorf("%w: more than %d samples", ErrTooMany, r.MaxSamples)
		}
		r.next(f, p)
	}
	return nil
}

// next takes the next sample of a series.
func (r *comparing) next(f *follower, p point) {
	if at, known := r.began[f.target]; !known || p.at < at {
		r.began[f.target] = p.at
	}
	d := delta{of: f, a: f.at, b: p.at, n: p.n}
	switch {
	case f.at == 0:
	case p.n < f.n:
		d.reset, d.lost = true, max(0, math.Round(f.rate*float64(p.at-f.at)-p.n))
	default:
		d.n = p.n - f.n
		f.rate = d.n / float64(p.at-f.at)
	}
	for version := range f.window {
		if p.at > r.to || p.at < r.from || version == 0 && p.at == r.from {
			continue
		}
		w := &f.window[version]
		if w.points == 0 {
			w.first, w.firstN = p.at, p.n
		} else {
			w.added += d.n
			d.inside[version] = true
		}
		w.points++
		w.last = p.at
	}
	f.at, f.n = p.at, p.n
	if d.a != 0 {
		r.place(&d)
	} else if d.b >= r.from && d.b < r.to {
		r.firsts = append(r.firsts, d) // until it is known when their targets began
	}
}

// place counts a delta where it counts.
func (r *comparing) place(d *delta) {
	gap := d.b-d.a > gapScrapes*int64(r.out.Scrape)
	at, share := d.b, 1.0
	if gap {
		at -= (d.b - d.a) / 2
	}
	switch {
	case r.Events:
		share = max(0, float64(min(d.b, r.to)-max(d.a, r.from))/float64(d.b-d.a))
		at = min(max(at, r.from), r.to-1)
	case at < r.from || at >= r.to:
		share = 0
	}
	if share == 0 && !d.inside[0] && !d.inside[1] {
		return
	}
	counted := d.n * share
	if gap {
		for version, inside := range d.inside {
			if d.of.edge[version] += counted; inside {
				d.of.edge[version] -= d.n
			}
		}
	}
	if r.Events {
		counted += d.lost * share
	}
	for i, of := range d.of.sides {
		if !of {
			continue
		}
		side := r.side(i)
		if share > 0 {
			side.Counted += counted
			side.Added[(at-r.from)/int64(r.Step)] += counted
		}
		if d.reset {
			side.Resets++
			side.AfterReset += d.n
			side.Lost += d.lost * share
			side.LastReset = latest(side.LastReset, d.b)
		}
		if gap {
			side.Gaps++
			side.InGaps += d.n
			if long := time.Duration(d.b - d.a); long > side.LongestGap {
				side.LongestGap, side.GapAt = long, time.Unix(0, d.a)
			}
		}
	}
}

func latest(t time.Time, at int64) time.Time {
	if other := time.Unix(0, at); other.After(t) {
		return other
	}
	return t
}

func (r *comparing) side(i int) *Side {
	if i == 0 {
		return &r.out.Total
	}
	return &r.out.Part
}

// sum adds up the series.
func (r *comparing) sum() {
	begun := r.begun()
	for i := range r.firsts {
		d := &r.firsts[i]
		counts := r.began[d.of.target] < d.b || begun[d.of.target]
		for k, of := range d.of.sides {
			side := r.side(k)
			switch {
			case !of:
			case counts:
				side.NewSeries++
				side.First += d.n
				side.Counted += d.n
				side.Added[(d.b-r.from)/int64(r.Step)] += d.n
				side.LastNew = latest(side.LastNew, d.b)
			default:
				side.Beginnings++
				side.AtBeginnings += d.n
			}
		}
	}
	for _, f := range r.series {
		for k, of := range f.sides {
			if !of {
				continue
			}
			side := r.side(k)
			side.Series++
			for version := range f.window {
				v := &side.Versions[version]
				v.Value += f.window[version].increase(r.from, r.to, version == 1)
				v.Raw += f.window[version].added
				v.GapEdges += f.edge[version]
			}
		}
	}
	for k := range 2 {
		side := r.side(k)
		lost := 0.0
		if r.Events {
			lost = side.Lost
		}
		for i := range side.Versions {
			v := &side.Versions[i]
			v.Edges = side.Counted - side.First - lost - v.GapEdges - v.Raw
		}
	}
}

// begun are the targets that began in the window, by what their counters say first: no more than they add in a gap.
// Those whose events are counted elsewhere were counted since.
func (r *comparing) begun() map[counter.Key]bool {
	if !r.Events {
		return nil
	}
	type sum struct{ first, rate float64 }
	sums := map[counter.Key]sum{}
	for i := range r.firsts {
		if of := r.firsts[i].of; of.sides[0] && r.firsts[i].b == r.began[of.target] {
			x := sums[of.target]
			x.first += r.firsts[i].n
			if w := &of.window[1]; w.last > w.first {
				x.rate += w.added / float64(w.last-w.first)
			}
			sums[of.target] = x
		}
	}
	out := map[counter.Key]bool{}
	for target, x := range sums {
		out[target] = x.first <= x.rate*gapScrapes*float64(r.out.Scrape)
	}
	return out
}

// increase is what increase() says of the samples of one series. Prometheus 2 compares with the zero of a counter
// before it asks whether the first sample is far from the start.
func (w *inWindow) increase(from, to int64, old bool) float64 {
	if w.points < 2 {
		return 0
	}
	start, end, sampled := float64(w.first-from), float64(to-w.last), float64(w.last-w.first)
	average := sampled / float64(w.points-1)
	zero := math.Inf(1)
	if w.added > 0 && w.firstN >= 0 {
		zero = sampled * w.firstN / w.added
	}
	if old {
		start = min(start, zero)
	}
	if start >= 1.1*average {
		start = average / 2
	}
	if !old {
		start = min(start, zero)
	}
	if end >= 1.1*average {
		end = average / 2
	}
	return w.added * (sampled + start + end) / sampled
}
