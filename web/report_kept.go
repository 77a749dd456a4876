package web

import (
	"context"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/slo"
)

// KeptFunc says for each counter which share of the events offered to it in a span,
// in [0,1], no limit dropped; 1 for a counter that is unknown. The answers are in
// the order of the counters.
type KeptFunc func(ctx context.Context, counters []string, sp slo.Span) ([]float64, error)

// keptShares are the shares by counter and span; what is not there is 1.
type keptShares map[string]float64

func (k keptShares) of(e *entry) float64 {
	if x, ok := k[keptKey(e)]; ok {
		return x
	}
	return 1
}

func keptKey(e *entry) string {
	return fmt.Sprintf("%s/%d/%d", e.counter, e.grid.From.Unix(), e.grid.To.Unix())
}

// keptShares asks which share of the events of each counter was let in over its
// grid.
func (w *Web) keptShares(ctx context.Context, l *ledger) (keptShares, error) {
	out := keptShares{}
	if w.opt.Kept == nil {
		return out, nil
	}
	bySpan := map[slo.Span][]*entry{}
	var spans []slo.Span
	for _, e := range l.entries {
		sp := slo.Span{From: e.grid.From.UTC(), To: e.grid.To.UTC()}
		if sp.Duration() == 0 {
			continue
		}
		if bySpan[sp] == nil {
			spans = append(spans, sp)
		}
		bySpan[sp] = append(bySpan[sp], e)
	}
	for _, sp := range spans {
		var counters []string
		for _, e := range bySpan[sp] {
			counters = append(counters, e.counter)
		}
		slices.Sort(counters)
		counters = slices.Compact(counters)
		shares, err := w.opt.Kept(ctx, counters, sp)
		if err != nil {
			return nil, err
		}
		if len(shares) != len(counters) {
			return nil, fmt.Errorf("%d shares for %d counters", len(shares), len(counters))
		}
		for _, e := range bySpan[sp] {
			i, _ := slices.BinarySearch(counters, e.counter)
			out[keptKey(e)] = shares[i]
		}
	}
	return out, nil
}
