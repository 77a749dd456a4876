package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/ingest/counter"
)

// This file evaluates queries that are no pair of counters, at the end of each slice of time. What the log says was
// observed is their position: a slice that is written is not evaluated again.

// Form says what the queries of a unit are.
type Form uint8

// The forms.
const (
	// Counters are two selectors, whose samples are read.
	Counters Form = iota
	// Rates are two queries, of all events of a time and of a part of them.
	Rates
	// Ratio is one query in Part, of the share of bad events.
	Ratio
	// Gauge is one query in Total, each sample of which is good or bad.
	Gauge
)

const (
	// minEvery is the shortest slice that is evaluated: nothing is counted more finely.
	minEvery = 10 * time.Second
	// ratioParts are the counts of a slice that has a ratio.
	ratioParts = 10_000
	// maxResults bounds the series of a query, and maxPerSlice the events of a group in a slice.
	maxResults, maxPerSlice = 10_000, math.MaxUint32
)

// errTooMany means that a query has to be summed.
var errTooMany = fmt.Errorf("the query has more than %d series: sum them by the labels of group_by", maxResults)

// errEarly means that the last slices have no sample yet: it may be late.
var errEarly = errors.New("no sample yet")

// Every is how often a query is evaluated: each interval, or more often if that makes the slices that an SLO judges
// whole; 0: it judges none.
func Every(interval, judged time.Duration) time.Duration {
	every := max(interval, minEvery)
	if judged <= 0 {
		return every
	}
	n := max(1, (judged+every-1)/every)
	for judged%n != 0 || judged/n%time.Millisecond != 0 {
		n++
	}
	return judged / n
}

// Window is that of the queries: the shortest that surely holds two samples of each counter.
func (s *Settings) Window() time.Duration { return 3 * s.Scrape }

// align is the last border of slices up to a time.
func (p *plan) align(t time.Time) time.Time {
	if p.Form == Counters {
		return t
	}
	return time.Unix(0, t.UnixNano()-t.UnixNano()%int64(p.Every))
}

// weigh finds how many events of a slice a sample of the total stands for. It is 0 if the query does not say: then
// slices weigh the same.
func (p *plan) weigh(window time.Duration) error {
	if p.Form != Rates {
		return nil
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(p.Total)
	if err != nil {
		return fmt.Errorf("query %s: %w", p.Total, err)
	}
	var rates, increases int
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if call, ok := n.(*parser.Call); ok {
			switch call.Func.Name {
			case "rate", "irate":
				rates++
			case "increase":
				increases++
			}
		}
		return nil
	})
	switch {
	case rates > 0 && increases == 0:
		p.weight = p.Every.Seconds()
	case increases > 0 && rates == 0:
		p.weight = float64(p.Every) / float64(window)
	}
	return nil
}

// amount is what the samples of a slice say.
type amount struct {
	values      []string
	total, part float64
	n           int // samples
}

// evaluate counts the slices between two times. end is where it stopped: before a time without any sample.
func (s *Source) evaluate(ctx context.Context, p *plan, from, to time.Time) (end time.Time, err error) {
	s.begin()
	every := int64(p.Every)
	first := (from.UnixNano() + every - 1) / every
	count := to.UnixNano()/every - first
	if count <= 0 {
		return to, nil
	}
	seen := make([]bool, count)
	cells := map[cell]*amount{}
	samples, size := 0, 0
	ask := func(query string, marks bool, add func(*amount, float64)) error {
		if query == "" {
			return nil
		}
		bytes, err := s.client.evaluate(ctx, query, (first+1)*every, (first+count)*every, every, func(one *oneSeries) {
			samples += len(one.points)
			one.labels = one.labels.with(s.external)
			for _, sample := range one.points {
				number := sample.at/every - 1
				if number < first || number >= first+count {
					continue
				}
				seen[number-first] = seen[number-first] || marks
				s.addTo(cells, p, one.labels, number*every, sample.n, add)
			}
		})
		size += bytes
		return err
	}
	switch p.Form {
	case Gauge:
		err = ask(p.total.ask, true, func(a *amount, x float64) {
			a.total++
			if !p.Holds(x) {
				a.part++
			}
		})
	case Ratio:
		err = ask(p.part.ask, true, func(a *amount, x float64) {
			if x >= 0 { // else it is no number, such as a share of no events
				a.part += min(x, 1)
				a.n++
			}
		})
	default:
		// An absent part is none, and an absent total is no data.
		err = ask(p.total.ask, true, func(a *amount, x float64) { a.total += positive(x) })
		if err == nil {
			err = ask(p.part.ask, false, func(a *amount, x float64) { a.part += positive(x) })
		}
	}
	if err != nil {
		return from, err
	}
	begin, stop := s.span(seen, every)
	if begin == stop {
		return from, errNoSeries
	}
	s.judge(p, cells, (first+stop)*every)
	observed := counter.Observation{Source: p.Stream, From: (first + begin) * every, To: (first + stop) * every}
	if begin == 0 {
		observed.From = from.UnixNano()
	}
	if err := s.store(ctx, p, []counter.Observation{observed}, time.Unix(0, observed.To), samples, size); err != nil {
		return from, err
	}
	return time.Unix(0, observed.To), nil
}

// positive is a number of events; 0 for what is none.
func positive(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// span is the first run of slices with a sample, without a gap that is longer than the window of a query.
func (s *Source) span(seen []bool, every int64) (begin, end int64) {
	last := int64(-1)
	for i, has := range seen {
		i := int64(i)
		switch {
		case has && last < 0:
			begin, last = i, i
		case has:
			last = i
		case last >= 0 && (i-last)*every > int64(s.o.Window()):
			return begin, last + 1
		}
	}
	return begin, last + 1
}

// addTo adds a sample to the slices of all SLOs of the unit.
func (s *Source) addTo(cells map[cell]*amount, p *plan, of seriesLabels, at int64, x float64,
	add func(*amount, float64)) {
	for i := range p.SLOs {
		values := make([]string, 0, len(p.SLOs[i].GroupBy))
		for _, name := range p.SLOs[i].GroupBy {
			values = append(values, of.get(name))
		}
		c := cell{plan: p, slo: i, at: at, group: strings.Join(values, "\xff")}
		a := cells[c]
		if a == nil {
			a = &amount{values: values}
			cells[c] = a
		}
		add(a, x)
	}
}

// judge makes counts of the slices that begin before a time. A fraction of an event counts as one in as many slices as
// the fraction is, by a hash of the slice, so that sums are right and a slice has the same counts whenever it is read.
func (s *Source) judge(p *plan, cells map[cell]*amount, before int64) {
	for c, a := range cells {
		if c.at >= before {
			continue
		}
		s.hash.Reset()
		_, _ = s.hash.WriteString(p.Stream + "\xff" + strconv.FormatInt(c.at, 36) + "\xff" + c.group)
		u := float64(s.hash.Sum64()>>11) / (1 << 53)
		round := func(x float64) uint64 { return uint64(math.Floor(x + u)) }
		var total, bad uint64
		switch {
		case p.Form == Gauge:
			total, bad = uint64(a.total), uint64(a.part)
		case p.Form == Ratio && a.n > 0:
			total, bad = ratioParts, min(ratioParts, round(ratioParts*a.part/float64(a.n)))
		case p.Form == Rates && max(a.total, a.part)*p.weight > maxPerSlice:
			s.left = fmt.Sprintf("a query gives more than %d events for %s", maxPerSlice, p.Every)
		case p.Form == Rates && p.weight > 0:
			total, bad = round(a.total*p.weight), round(a.part*p.weight)
		case p.Form == Rates && a.total > 0:
			total, bad = ratioParts, round(ratioParts*min(a.part/a.total, 2))
		}
		if total == 0 && bad == 0 {
			continue
		}
		if s.old {
			c.at = s.border(c.at, p.SLOs[c.slo].Slice)
		}
		to := s.sums[c]
		if to == nil {
			to = &sum{values: a.values}
			s.sums[c] = to
		}
		to.total += total
		to.part += bad
	}
}

// width is the time that counts as one: a step, or as much of it as divides the slices that an SLO judges.
func width(step int64, slice time.Duration) int64 {
	for a, b := step, int64(slice); ; a, b = b, a%b {
		if b == 0 {
			return a
		}
	}
}

// evaluate hands out the samples of a query at each step of a time, in Unix nanoseconds.
func (c *client) evaluate(ctx context.Context, query string, from, to, step int64, each func(*oneSeries)) (int, error) {
	seconds := func(ns int64) string { return strconv.FormatFloat(float64(ns/1e6)/1e3, 'f', 3, 64) }
	series := 0
	bytes, err := c.ask(ctx, "query_range", url.Values{"query": {query}, "start": {seconds(from)}, "end": {seconds(to)},
		"step": {seconds(step)}}, func(one *oneSeries) {
		if series++; series <= maxResults {
			each(one)
		}
	})
	if err == nil && series > maxResults {
		return bytes, errTooMany
	}
	return bytes, err
}
