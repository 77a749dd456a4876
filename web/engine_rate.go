package web

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// What is remembered of the events that come in.
const (
	rateEvery  = 5 * time.Second
	rateSpan   = time.Hour
	rateKept   = int(rateSpan/rateEvery) + 2
	rateGap    = 4 * rateEvery    // two samples further apart say nothing of the time between them
	rateBar    = 20 * time.Second // width of a bar of the chart
	rateRow    = 5 * time.Minute  // of a row of the table
	rateLatest = time.Minute      // what the present rate is the mean of
)

// rateSample is what had come in until a time.
type rateSample struct {
	At     time.Time
	Events status.IngestStatus
}

// rateRing remembers an hour of samples.
type rateRing struct {
	mu      sync.Mutex
	samples []rateSample // oldest first
}

// sampleRates takes a sample if it is time for one.
func (h *engineHandler) sampleRates() {
	now := h.Opt.Now()
	if h.rates.due(now) {
		e := h.Opt.Engine()
		h.rates.Add(rateSample{now, e.Arrived()})
	}
}

func (r *rateRing) due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.samples)
	return n == 0 || now.Sub(r.samples[n-1].At) >= rateEvery || now.Before(r.samples[n-1].At)
}

func (r *rateRing) Add(s rateSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.samples); n > 0 && !s.At.After(r.samples[n-1].At) {
		r.samples = nil // the clock was set back
	}
	if len(r.samples) >= rateKept {
		r.samples = slices.Delete(r.samples, 0, len(r.samples)-rateKept+1)
	}
	r.samples = append(r.samples, s)
}

// until are the samples and what had come in now.
func (r *rateRing) until(now rateSample) []rateSample {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.samples)
	if n := len(out); n == 0 || now.At.After(out[n-1].At) {
		out = append(out, now)
	}
	return out
}

// flow is what came in over a time, in events.
type flow struct {
	accepted, duplicates, rejected, limited float64
	seen                                    time.Duration // how much of the time is known
}

// since is the flow between two samples.
func (s rateSample) since(p rateSample) flow {
	more := func(now, before uint64) float64 { return float64(max(now, before) - before) }
	a, b := &s.Events, &p.Events
	return flow{
		more(a.Accepted, b.Accepted), more(a.Duplicates, b.Duplicates), more(a.Rejected, b.Rejected),
		more(a.Limited+a.Sampled+a.DeadLettered, b.Limited+b.Sampled+b.DeadLettered), s.At.Sub(p.At),
	}
}

func (f *flow) add(g flow, share float64) {
	f.accepted += g.accepted * share
	f.duplicates += g.duplicates * share
	f.rejected += g.rejected * share
	f.limited += g.limited * share
	f.seen += time.Duration(float64(g.seen) * share)
}

func (f flow) per(n float64) float64 {
	if f.seen <= 0 {
		return 0
	}
	return n / f.seen.Seconds()
}

// total is all that came in.
func (f flow) total() float64 { return f.accepted + f.duplicates + f.rejected + f.limited }

// flows spreads what came in between samples evenly over spans.
func flows(samples []rateSample, spans []slo.Span) []flow {
	out := make([]flow, len(spans))
	k := 0
	for i := 1; i < len(samples); i++ {
		sp := slo.Span{From: samples[i-1].At, To: samples[i].At}
		d := sp.Duration()
		if d <= 0 || d > rateGap {
			continue
		}
		f := samples[i].since(samples[i-1])
		for k < len(spans) && !spans[k].To.After(sp.From) {
			k++
		}
		for j := k; j < len(spans) && spans[j].From.Before(sp.To); j++ {
			if part := spans[j].Intersect(sp).Duration(); part > 0 {
				out[j].add(f, float64(part)/float64(d))
			}
		}
	}
	return out
}

// rateChart shows how many events came in over the last hour.
type rateChart struct {
	Now, Peak, Mean string
	Note            string // instead of a chart
	Taken, Not, Gap string // paths of bars
	Top             string // what the upper edge stands for
	From, To        format.Stamp
	Label           string
	Rows            []rateTableRow
}

type rateTableRow struct {
	From                                    format.Stamp
	Accepted, Duplicates, Rejected, Limited string
}

// Size of the chart's view box.
const (
	rateW = 720
	rateH = 64
)

func (h *engineHandler) rateChart(v site.View) rateChart {
	arrived := v.Eng.Arrived()
	samples := h.rates.until(rateSample{v.Now, arrived})
	last := samples[len(samples)-1]
	c := rateChart{Now: format.NoValue, Peak: format.NoValue, Mean: format.NoValue}
	if len(samples) < 2 {
		c.Note = "The rate is available a few seconds after the start, once the counters were read twice."
		return c
	}
	for i := len(samples) - 2; i >= 0 && last.At.Sub(samples[i].At) <= rateLatest+rateGap; i-- {
		f := last.since(samples[i])
		c.Now = format.Rate(f.per(f.total()))
		if f.seen >= rateLatest {
			break
		}
	}
	end := v.Now.UTC()
	to := end.Truncate(rateBar).Add(rateBar)
	cut := func(step time.Duration) (spans []slo.Span) {
		for at := to.Add(-rateSpan); at.Before(to); at = at.Add(step) {
			spans = append(spans, slo.Span{From: at, To: at.Add(step)})
		}
		return spans
	}
	bars := cut(rateBar)
	values := flows(samples, bars)
	var all flow
	peak := 0.0
	known := func(f flow, of time.Duration) bool { return f.seen*2 >= of }
	for i, f := range values {
		all.add(f, 1)
		if known(f, rateBar) || bars[i].To.After(end) && f.seen > 0 {
			peak = max(peak, f.per(f.total()))
		}
	}
	peak = max(peak, all.per(all.total())) // a bar of which little is known may hold more than all others
	var totals []float64
	for _, f := range values {
		totals = append(totals, f.per(f.total()))
	}
	top, clips := chart.AxisTop(totals)
	c.Peak, c.Mean, c.Top = format.Rate(peak), format.Rate(all.per(all.total())), format.Rate(peak)
	if clips && top < peak {
		c.Top = format.Rate(top) + ", higher bars are cut"
	} else {
		top = peak
	}
	c.From, c.To = format.NewStamp(bars[0].From, v.Now), format.NewStamp(v.Now, v.Now)
	var taken, not, gap chart.Pen
	const width = float64(rateW) / float64(rateSpan/rateBar)
	for i, f := range values {
		x := float64(i) * width
		if !known(f, rateBar) && (f.seen == 0 || !bars[i].To.After(end)) {
			gap.Box(x, rateH-2, width, rateH)
			continue
		}
		if peak == 0 {
			continue
		}
		high := func(n float64) float64 { return f.per(n) / top * rateH }
		good := min(rateH, high(f.accepted+f.duplicates))
		bad := min(rateH-good, high(f.rejected+f.limited))
		if good > 0 {
			taken.Box(x, rateH-good, chart.BarWidth(width), rateH)
		}
		if bad > 0 {
			not.Box(x, rateH-good-bad, chart.BarWidth(width), rateH-good)
		}
	}
	c.Taken, c.Not, c.Gap = taken.String(), not.String(), gap.String()
	c.Label = fmt.Sprintf("Events per second over the last hour: %s on average, %s at most", c.Mean, c.Peak)
	if all.total() == 0 {
		c.Note = "No event arrived in the last hour."
		if arrived.Received == 0 {
			c.Note =
				"No event has arrived since the start. Send one to /api/v1/events. The SLOs page shows the command."
		}
		if all.seen == 0 {
			c.Note = "The rate is unknown until the next reading. Counters are read every " +
				strconv.Itoa(int(rateEvery.Seconds())) + " seconds."
		}
	}
	rows := cut(rateRow)
	for i, f := range flows(samples, rows) {
		row := rateTableRow{From: format.NewStamp(rows[i].From, v.Now), Accepted: format.NoValue, Duplicates: format.NoValue,
			Rejected: format.NoValue, Limited: format.NoValue}
		if f.seen > 0 {
			row.Accepted, row.Duplicates, row.Rejected, row.Limited = format.Rate(f.per(f.accepted)),
				format.Rate(f.per(f.duplicates)), format.Rate(f.per(f.rejected)), format.Rate(f.per(f.limited))
		}
		c.Rows = append(c.Rows, row)
	}
	slices.Reverse(c.Rows)
	return c
}
