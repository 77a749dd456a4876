package outlook

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// late is how far back counted hours may still change: events are accepted a day after their time by default. A
// backfill has all hours read again.
const late = 26 * time.Hour

// hour is what was counted in an hour, in half the memory of a forecast.Hour.
type hour struct{ valid, bad, observed float32 }

// series is what one counter of a group counted by the hour, as far as it is known.
type series struct {
	counter string
	start   time.Time // of the first hour
	hours   []hour
	read    time.Time // until when it was read; zero if it never was
}

// next is the start of the first hour that must be read as of now. back is how far the hours must reach.
func (s *series) next(now time.Time, back time.Duration) time.Time {
	clock := now.Truncate(time.Hour)
	switch {
	case s.read.IsZero() || now.Before(s.read):
		return clock.Add(-back)
	case clock.After(s.read): // an hour is over
		return later(clock.Add(-late), s.start)
	}
	return clock
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// take puts what a reading of group i found in the place of what was known, and forgets hours that are too old.
func (s *series) take(of *slo.SLO, got *history.Series, observed []float64, i int, now time.Time, back time.Duration) {
	steps := got.Grid.Steps
	if s.read.IsZero() || now.Before(s.read) {
		s.start, s.hours = steps[0].From, s.hours[:0]
	}
	_, net := got.Bins(i)
	at := int(steps[0].From.Sub(s.start) / time.Hour)
	for k := range steps {
		var h hour
		h.observed = float32(observed[k])
		if k < len(net) {
			t := history.NewTally(of, &got.Answer, net[k])
			h.valid, h.bad = float32(t.Valid()), float32(t.Loss(of))
		}
		if at+k < len(s.hours) {
			s.hours[at+k] = h
		} else {
			s.hours = append(s.hours, h)
		}
	}
	s.read = now
	// Once a day, so that hours are not moved every time.
	if old := int(now.Add(-back).Sub(s.start) / time.Hour); old >= 24 {
		s.hours = append(s.hours[:0], s.hours[old:]...)
		s.start = s.start.Add(time.Duration(old) * time.Hour)
	}
}

// load gives the hours to a past. It returns the memory for the next time.
func (s *series) load(p *forecast.Past, memory []forecast.Hour) []forecast.Hour {
	memory = memory[:0]
	for _, h := range s.hours {
		memory = append(memory, forecast.Hour{Valid: float64(h.valid), Bad: float64(h.bad), Observed: float64(h.observed)})
	}
	p.Load(s.start, memory)
	return memory
}

// LoadPast gives a past the hours of a group of an SLO, as a forecast reads them. slice is that of the report.
func LoadPast(ctx context.Context, counts history.CountsFunc, of *slo.SLO, group slo.Group, slice time.Duration,
	now time.Time, p *forecast.Past) error {
	s := series{counter: string(of.ID)}
	sp := slo.Span{From: s.next(now, back(of)), To: now}
	var batch history.Batch
	got := batch.Add(s.counter, "", history.NewGrid(sp, time.Hour, history.Excluded(of, sp, slice)), []slo.Group{group})
	if err := batch.Run(ctx, counts); err != nil {
		return err
	}
	s.take(of, got, observedShares(got), 0, now, back(of))
	s.load(p, nil)
	return nil
}

// observedShares are the shares of the steps of a reading that were observed and that no correction takes out.
func observedShares(got *history.Series) []float64 {
	g := &got.Grid
	out := make([]float64, len(g.Steps))
	taken := make([]time.Duration, len(g.Steps))
	k := 0
	for _, x := range g.Out {
		for k < len(g.Steps)-1 && !g.Steps[k].To.After(x.From) {
			k++
		}
		taken[k] += x.Duration()
	}
	for i, sp := range g.Steps {
		out[i] = max(0, history.Seen(&got.Answer, sp)-float64(taken[i])/float64(max(1, sp.Duration())))
	}
	return out
}

// ahead is the share of each of the next hours of the clock that planned maintenance leaves; nil if it leaves all.
func ahead(s *slo.SLO, now time.Time, slice time.Duration) []float64 {
	if len(s.Corrections) == 0 {
		return nil
	}
	sp := slo.Span{From: now.Truncate(time.Hour), To: now.Add(forecast.LeadTimes[len(forecast.LeadTimes)-1] + 2*time.Hour)}
	if s.Window.Calendar != "" {
		sp.To = later(sp.To, s.Window.End(now).Add(time.Hour))
	}
	out := history.Excluded(s, sp, slice)
	if len(out) == 0 {
		return nil
	}
	g := history.NewGrid(sp, time.Hour, out)
	shares := make([]float64, len(g.Steps))
	k := 0
	for i := range shares {
		shares[i] = 1
	}
	for _, x := range g.Out {
		for k < len(g.Steps)-1 && !g.Steps[k].To.After(x.From) {
			k++
		}
		shares[k] = max(0, shares[k]-float64(x.Duration())/float64(time.Hour))
	}
	return shares
}
