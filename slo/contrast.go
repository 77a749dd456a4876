package slo

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Contrast finds attribute values that are more frequent among the bad events of an SLO than among the good ones of
// the same time. It holds a sample of a bounded number of events. It is for one goroutine.
type Contrast struct {
	attrs     map[string]*compared
	tokens    []token
	bad, good sampled
	scratch   []uint32
	seen      uint64
	leave     map[string]bool
}

// Bounds of a Contrast.
const (
	maxSampled    = 20_000 // of the bad events, and of the good ones
	maxAttributes = 100
	// MaxContrasted is how many values an attribute that can be a cause may have.
	MaxContrasted = 1000
	maxCauses     = 3
	// falseCause is how probable it is that chance names a cause, over all values that are compared.
	falseCause = 0.01
	// minLift is how many times as frequent among the bad events a value must be as expected.
	minLift = 1.3
	// perStratum is how many good events of the sample a part of the time should have.
	perStratum = 50
)

type compared struct {
	values map[string]uint32 // tokens
	events int               // of the sample that have it
	many   bool              // more than MaxContrasted
}

// token is an attribute with a value.
type token struct{ attribute, value string }

// sampled are events of one verdict: those whose hash has the low bits of mask clear.
type sampled struct {
	events []sample
	mask   uint64
	count  float64 // of all events, kept or not
}

type sample struct {
	at     int64 // Unix nanoseconds
	hash   uint64
	n      float64 // how much it counts
	weight float64
	tokens []uint32
}

// Difference is a value that is more frequent among bad events.
type Difference struct {
	Attribute string
	Value     string
	// Same are further attributes with values that the same events have, as "name=value".
	Same []string
	// OfBad and OfGood are the shares of the bad and of the good events that have it.
	OfBad  float64
	OfGood float64
	// Lift is how many times as frequent it is among the bad events as expected from all events of the same minutes.
	Lift float64
	// Without is the error ratio of the events that do not have it.
	Without float64
	// P bounds the probability that chance makes any of the compared values so frequent.
	P float64
}

// Name is the value with its attribute, and those that name the same events.
func (d *Difference) Name() string {
	if len(d.Same) == 0 {
		return d.Attribute + "=" + d.Value
	}
	return d.Attribute + "=" + d.Value + " (the same events as " + strings.Join(d.Same, ", ") + ")"
}

// NewContrast begins. leave names attributes that say by definition whether an event is bad.
func NewContrast(leave []string) *Contrast {
	c := &Contrast{attrs: map[string]*compared{}, leave: map[string]bool{}}
	for _, name := range leave {
		c.leave[name] = true
	}
	return c
}

// Add adds an event that counts n times weight. each yields its attributes, and is called only if the event
// becomes part of the sample.
func (c *Contrast) Add(at int64, bad bool, n, weight float64, each func(yield func(name, value []byte) bool)) {
	into := &c.good
	if bad {
		into = &c.bad
	}
	into.count += n * weight
	c.seen++
	hash := mix(c.seen)
	if hash&into.mask != 0 {
		return
	}
	c.scratch = c.scratch[:0]
	each(func(name, value []byte) bool {
		if t, ok := c.token(name, value); ok {
			c.scratch = append(c.scratch, t)
		}
		return true
	})
	into.events = append(into.events, sample{at, hash, n * weight, weight, slices.Clone(c.scratch)})
	if len(into.events) > maxSampled {
		into.mask = into.mask<<1 | 1
		into.events = slices.DeleteFunc(into.events, func(s sample) bool { return s.hash&into.mask != 0 })
	}
}

// mix makes numbers that follow each other look random, so that the sample does not follow a pattern of the traffic.
func mix(x uint64) uint64 { // splitmix64
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return bits.RotateLeft64(x^x>>31, 7)
}

func (c *Contrast) token(name, value []byte) (t uint32, ok bool) {
	a := c.attrs[string(name)]
	if a == nil {
		if len(c.attrs) == maxAttributes {
			return 0, false
		}
		a = &compared{values: map[string]uint32{}, many: c.leave[string(name)]}
		c.attrs[string(name)] = a
	}
	if a.many {
		return 0, false
	}
	a.events++
	if t, ok = a.values[string(value)]; ok {
		return t, true
	}
	if len(a.values) == MaxContrasted {
		a.many = true
		return 0, false
	}
	t = uint32(len(c.tokens))
	a.values[string(value)] = t
	c.tokens = append(c.tokens, token{string(name), string(value)})
	return t, true
}

// Ratio is the error ratio of all events.
func (c *Contrast) Ratio() float64 { return ratioOf(c.bad.count, c.good.count) }

// Counts are those of all events.
func (c *Contrast) Counts() (bad, good float64) { return c.bad.count, c.good.count }

func ratioOf(bad, good float64) float64 {
	if bad+good == 0 {
		return 0
	}
	return bad / (bad + good)
}

// mostLeft is the share of the error ratio that is left at most without a value that is named.
const mostLeft = 0.95

// Differences are the values that make events bad, the strongest first. A further one is named if it is frequent
// among the bad events that do not have those before it. None means that no attribute explains what is bad.
func (c *Contrast) Differences() (out []Difference) {
	usable, tests := c.usable()
	if tests == 0 || len(c.bad.events) < MinBad || len(c.good.events) == 0 {
		return nil
	}
	bad, good := slices.Clone(c.bad.events), slices.Clone(c.good.events)
	for len(out) < maxCauses {
		best, ok := c.strongest(bad, good, usable, tests)
		if !ok {
			break
		}
		has := func(s sample) bool { return slices.Contains(s.tokens, best.token) }
		x := Difference{Attribute: c.tokens[best.token].attribute, Value: c.tokens[best.token].value,
			Lift: best.lift, P: best.p, OfBad: share(c.bad.events, best.token), OfGood: share(c.good.events, best.token)}
		for _, t := range best.same {
			x.Same = append(x.Same, c.tokens[t].attribute+"="+c.tokens[t].value)
		}
		slices.Sort(x.Same)
		x.Without = ratioOf(c.bad.count*(1-x.OfBad), c.good.count*(1-x.OfGood))
		if x.Without > mostLeft*c.Ratio() {
			break // chance did not do it, but it explains next to nothing
		}
		out = append(out, x)
		bad, good = slices.DeleteFunc(bad, has), slices.DeleteFunc(good, has)
	}
	return out
}

func share(events []sample, t uint32) float64 {
	has, all := 0.0, 0.0
	for i := range events {
		all += events[i].n
		if slices.Contains(events[i].tokens, t) {
			has += events[i].n
		}
	}
	return has / all
}

// usable marks the tokens that can be a cause, and counts them: none of an attribute that has too many values, that is
// nearly unique for each event, or that good events do not have.
func (c *Contrast) usable() (out []bool, n int) {
	out = make([]bool, len(c.tokens))
	onGood := make([]bool, len(c.tokens))
	for i := range c.good.events {
		for _, t := range c.good.events[i].tokens {
			onGood[t] = true
		}
	}
	for _, a := range c.attrs {
		good := false
		for _, t := range a.values {
			good = good || onGood[t]
		}
		if a.many || !good || len(a.values) > 1 && 2*len(a.values) > a.events {
			continue
		}
		for _, t := range a.values {
			out[t] = true
			n++
		}
	}
	return out, n
}

type strongest struct {
	token uint32
	same  []uint32
	lift  float64
	p     float64
}

// tally is what a pass over the sample counts of a token.
type tally struct {
	bad, expected float64
	here          [2]float64 // bad and all, in the stratum at hand
	events        uint64     // sum of the hashes of its events: equal for tokens of the same events
	n             int        // of these events
}

// strongest is the value that speaks most against chance.
//
// Within each stratum of time, chance would spread the values alike over good and bad events. The number of bad events
// with a value is then a sum of hypergeometric ones, of which Hoeffding's bound exp(-B*KL(observed || expected)) holds
// for any number of strata, and for a sample that takes other shares of good and of bad events.
func (c *Contrast) strongest(bad, good []sample, usable []bool, tests int) (best strongest, ok bool) {
	if len(bad) < MinBad || len(good) == 0 {
		return best, false
	}
	byTime := func(a, b sample) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(bad, byTime)
	slices.SortStableFunc(good, byTime)
	width := strata(bad, good)
	counts := make([]tally, len(c.tokens))
	var touched []uint32
	sum, squares := 0.0, 0.0
	for b, g := 0, 0; b < len(bad); {
		stratum := bad[b].at / width
		all, ofBad := 0.0, 0.0
		touched = touched[:0]
		add := func(s *sample, isBad bool) {
			all += s.n
			if isBad {
				ofBad += s.n
				squares += s.n * s.weight
			}
			for _, t := range s.tokens {
				x := &counts[t]
				if x.here[1] == 0 {
					touched = append(touched, t)
				}
				x.events += mix(s.hash)
				x.n++
				x.here[1] += s.n
				if isBad {
					x.here[0] += s.n
				}
			}
		}
		for ; b < len(bad) && bad[b].at/width == stratum; b++ {
			add(&bad[b], true)
		}
		for ; g < len(good) && good[g].at/width <= stratum; g++ {
			if good[g].at/width == stratum {
				add(&good[g], false)
			}
		}
		for _, t := range touched {
			x := &counts[t]
			x.bad += x.here[0]
			x.expected += ofBad * x.here[1] / all
			x.here = [2]float64{}
		}
		sum += ofBad
	}
	effective := sum * sum / squares
	most := math.Log(float64(tests) / falseCause)
	for t := range counts {
		x := &counts[t]
		if !usable[t] || x.bad < MinBad || x.bad < minLift*x.expected {
			continue
		}
		if e := effective * divergence(x.bad/sum, x.expected/sum); e > most {
			most, ok = e, true
			best = strongest{token: uint32(t), lift: x.bad / x.expected, p: min(1, float64(tests)*math.Exp(-e))}
		}
	}
	if ok {
		of := counts[best.token]
		for t := range counts {
			if x := &counts[t]; uint32(t) != best.token && usable[t] && x.events == of.events && x.n == of.n {
				best.same = append(best.same, uint32(t))
			}
		}
	}
	return best, ok
}

// strata is the width of the parts of time whose events are compared: a minute, or more if there are few good events.
func strata(bad, good []sample) int64 {
	first := min(bad[0].at, good[0].at)
	last := max(bad[len(bad)-1].at, good[len(good)-1].at)
	parts := max(1, int64(len(good)/perStratum))
	return max(int64(time.Minute), (last-first)/parts+1)
}

// divergence is that of Kullback and Leibler between two shares.
func divergence(p, q float64) float64 {
	part := func(p, q float64) float64 {
		if p == 0 {
			return 0
		}
		return p * math.Log(p/q)
	}
	if p >= 1 {
		return part(1, q)
	}
	return part(p, q) + part(1-p, 1-q)
}
