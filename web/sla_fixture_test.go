package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/site"
)

// withLimits answers for the counters of limits too, which the bench's own counts
// do not know: per day of a span 1,000 kept it, 20 are above the first edge and 3
// above the second.
func withLimits(f history.CountsFunc) history.CountsFunc {
	return func(ctx context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
		out, err := f(ctx, qs)
		for i, q := range qs {
			if err != nil || !strings.Contains(q.ID, "/limit:") {
				continue
			}
			out[i].Edges = []time.Duration{time.Minute}
			if strings.HasSuffix(q.ID, ":processing") {
				out[i].Edges = []time.Duration{15 * time.Minute, 30 * time.Minute}
			}
			rows := make([][]uint64, len(q.Spans))
			for k, sp := range q.Spans {
				days := uint64(sp.Duration() / (24 * time.Hour))
				rows[k] = []uint64{1000 * days, 20 * days, 3 * days}[:len(out[i].Edges)+1]
			}
			out[i].Groups = [][][]uint64{rows}
		}
		return out, err
	}
}

func newSLABench(t testing.TB, change ...func(*site.Options)) *bench {
	b := newBench(t, change...)
	b.web.Opt.Counts = withLimits(b.web.Opt.Counts)
	return b
}

// richAgreements is the bench's report with an agreement that is breached though its
// score is high, one that is met, and the group of all others.
func richAgreements(t testing.TB) *sla.Report {
	rep := insurance(t)
	written := *rep.SLAs[0].SLA
	for _, c := range rep.SLAs[0].Components {
		written.Components = append(written.Components, sla.Component{Name: c.Name, SLO: c.SLO, Weight: 100 * c.Weight})
	}
	for i := range rep.SLAs {
		rep.SLAs[i].SLA = &written
	}
	rep.SLAs[2].Components[2].Note = "no data, left out of the score"
	add := func(name string, change func(*sla.SLAReport)) {
		r := rep.SLAs[0]
		a := *r.SLA
		a.Name, a.Service, a.Description = name, r.SLA.Service, "What the partners were promised."
		r.SLA = &a
		r.Components = append([]sla.ComponentReport{}, r.Components...)
		change(&r)
		rep.SLAs = append(rep.SLAs, r)
	}
	add("gold", func(r *sla.SLAReport) {
		c := &r.Components[3]
		c.Indicator, c.Attainment, c.Points, c.Lost = 0.9888, 0.893, 0.893, 1.07
		r.Score, r.Low, r.High, r.Breached, r.Worst, r.Level = 98.93, 98.93, 98.93, true, 3, sla.LevelOK
	})
	add("silver", func(r *sla.SLAReport) {
		r.SetGroup(slo.Group{slo.OtherGroup})
	})
	return rep
}
