package history

import (
	"context"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// CountsFunc answers queries at one position of the log, in their order. It is
// asked once for every view of a detail page.
type CountsFunc func(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error)

// Ask answers queries, each with one answer.
func (f CountsFunc) Ask(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
	answers, err := f(ctx, queries)
	if err == nil && len(answers) != len(queries) {
		err = fmt.Errorf("%d answers to %d queries", len(answers), len(queries))
	}
	return answers, err
}

// steps are the lengths that a chart may cut time into.
var steps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	2 * 24 * time.Hour, 7 * 24 * time.Hour,
}

// MaxSteps is how many steps a chart has at most.
const MaxSteps = 200

// StepFor is the shortest step that cuts a span into no more than MaxSteps, is
// made of whole slices, and is no finer than what is kept of that age: minutes for
// three days, five of them beyond.
func StepFor(sp slo.Span, now time.Time, slice time.Duration) time.Duration {
	least := time.Minute
	if now.Sub(sp.From) > 3*24*time.Hour {
		least = 5 * time.Minute
	}
	for _, d := range steps {
		if d >= least && sp.Duration() <= MaxSteps*d && (slice == 0 || d >= slice && d%slice == 0) {
			return d
		}
	}
	d := steps[len(steps)-1]
	if slice > 0 {
		d = max(d/slice, 1) * slice
	}
	for sp.Duration() > MaxSteps*d {
		d *= 2
	}
	return d
}

// BandCounters names the counters of further latency thresholds that agreements
// have on an SLO.
func BandCounters(rep *sla.Report, id slo.ID) []string {
	var out []string
	seen := map[*sla.Agreement]bool{}
	for i := range rep.SLAs {
		a := rep.SLAs[i].SLA
		if a == nil || seen[a] {
			continue
		}
		seen[a] = true
		for _, c := range a.Components {
			if c.SLO == id && len(c.Bands) > 0 && len(out) < 8 {
				out = append(out, sla.BandsID(id, a.Name))
				break
			}
		}
	}
	return out
}
