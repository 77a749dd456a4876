package web

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/site"
)

// countsStep is the grain of the made-up past.
const countsStep = 5 * time.Minute

// What the made-up engine did: it has kept 33 days, and was down for five hours.
var (
	pastOldest = noon.Add(-33 * 24 * time.Hour).Truncate(4 * time.Hour)
	pastDown   = slo.Span{From: noon.Add(-6 * 24 * time.Hour).Truncate(time.Hour),
		To: noon.Add(-6*24*time.Hour + 5*time.Hour).Truncate(time.Hour)}
)

// past spreads the counts of a report over time: a rhythm of day and night, a bad
// hour every morning in all groups but the first, and an outage of forty minutes.
// Its sums over the period are exactly those of the report, with what planned
// maintenance takes out and without.
type past struct {
	from      time.Time   // of the first cell
	good, bad [][2]uint64 // cell: counted, taken out
}

func newPast(r *sla.SLOReport) *past {
	p := &past{from: pastOldest}
	n := int(noon.Sub(pastOldest)/countsStep) + 1
	out := history.Excluded(r.SLO, slo.Span{From: pastOldest, To: noon}, 0)
	weights := [4][]float64{} // valid and bad that count, valid and bad that are taken out
	for i := range weights {
		weights[i] = make([]float64, n)
	}
	var sums [4]float64
	start := n
	for i := range n {
		at := p.from.Add(time.Duration(i) * countsStep)
		if !at.Before(r.Period.From) {
			start = min(start, i)
		}
		if !at.Before(pastDown.From) && at.Before(pastDown.To) {
			continue
		}
		hour := float64(at.Hour()) + float64(at.Minute())/60
		v := 900 + 700*math.Sin((hour-8)/24*2*math.Pi)
		b := v * (0.3 + 0.3*math.Sin(float64(i)*0.7)*math.Sin(float64(i)*0.13))
		if at.Hour() == 9 && len(r.Group) > 0 && r.Group[0] != "MEDCARE" {
			b = v * 3
		}
		if since := at.Sub(noon.Add(-150 * time.Minute)); since >= 0 && since < 40*time.Minute {
			b = v * 60
		}
		k := 0
		for _, ex := range out {
			if !at.Before(ex.From) && at.Before(ex.To) {
				k = 2
			}
		}
		weights[k][i], weights[k+1][i] = v, b
		if i >= start {
			sums[k], sums[k+1] = sums[k]+v, sums[k+1]+b
		}
	}
	net, raw := r.Budget.Counts, r.Raw.Counts
	gone := raw.Sub(slo.Counts{Good: min(raw.Good, net.Good), Bad: min(raw.Bad, net.Bad)})
	totals := [4]uint64{net.Valid(), net.Bad, gone.Valid(), gone.Bad}
	// Cumulative rounding: every sum from the start of the period on is exact.
	var spread [4][]uint64
	for k := range weights {
		spread[k] = make([]uint64, n)
		if sums[k] == 0 {
			continue
		}
		sum, before := 0.0, 0.0
		for i := range n {
			if i == start {
				sum, before = 0, 0
			}
			sum += weights[k][i]
			now := math.Floor(float64(totals[k])*sum/sums[k] + 1e-6)
			spread[k][i] = uint64(now - before)
			before = now
		}
	}
	p.good, p.bad = make([][2]uint64, n), make([][2]uint64, n)
	for i := range n {
		for k := range 2 {
			v, b := spread[2*k][i], spread[2*k+1][i]
			p.bad[i][k], p.good[i][k] = b, v-min(v, b)
		}
	}
	return p
}

// sum adds up the cells that begin in a span.
func (p *past) sum(sp slo.Span) (good, bad uint64) {
	cell := func(t time.Time) int {
		return min(len(p.good), max(0, int((t.Sub(p.from)+countsStep-1)/countsStep)))
	}
	for i := cell(sp.From); i < cell(sp.To); i++ {
		good += p.good[i][0] + p.good[i][1]
		bad += p.bad[i][0] + p.bad[i][1]
	}
	return good, bad
}

// counts answers as an engine would whose report is the bench's.
func (b *bench) counts(_ context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
	out := make([]fold.ReadResult, len(queries))
	pasts := map[*sla.SLOReport]*past{}
	for i, q := range queries {
		name, _, extra := strings.Cut(q.ID, "#")
		a := fold.ReadResult{Known: true, Oldest: pastOldest,
			Observed: []slo.Span{{From: pastOldest, To: pastDown.From}, {From: pastDown.To, To: noon}}}
		latency := strings.Contains(name, "/latency")
		a.Sliced = strings.Contains(name, "/throughput") && !extra
		switch {
		case latency && extra:
			a.Edges = []time.Duration{5 * time.Minute, 15 * time.Minute, 30 * time.Minute}
		case latency:
			a.Edges = []time.Duration{15 * time.Minute}
		}
		for _, g := range q.Groups {
			if len(q.Spans) == chart.SparkHours && q.Spans[1].Duration() == time.Hour { // of the sparklines of a list
				a.Groups = append(a.Groups, dayAndNight(name, g, q.Spans))
				continue
			}
			r := site.FindSLO(b.rep, slo.ID(name), g)
			if r == nil || r.Raw.Counts.Valid() == 0 {
				a.Groups = append(a.Groups, nil)
				continue
			}
			if pasts[r] == nil {
				pasts[r] = newPast(r)
			}
			rows := make([][]uint64, len(q.Spans))
			for k, sp := range q.Spans {
				good, bad := pasts[r].sum(sp)
				rows[k] = []uint64{good, bad}
				if len(a.Edges) == 3 {
					rows[k] = []uint64{good * 3 / 4, good - good*3/4, bad * 2 / 3, bad - bad*2/3}
				}
				if a.Sliced {
					rows[k] = append(rows[k], 0, 0, good*1_000_000_000)
				}
			}
			a.Groups = append(a.Groups, rows)
		}
		out[i] = a
	}
	return out, nil
}

// keepCounts answers what was asked before from memory.
func keepCounts(known map[string][]fold.ReadResult, f history.CountsFunc) history.CountsFunc {
	return func(ctx context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
		key := ""
		for _, q := range qs {
			key += fmt.Sprint(q.ID, len(q.Groups), len(q.Spans), ";")
		}
		if a, ok := known[key]; ok {
			return a, nil
		}
		a, err := f(ctx, qs)
		known[key] = a
		return a, err
	}
}
