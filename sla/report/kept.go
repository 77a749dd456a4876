package report

import (
	"context"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// KeptFunc says for each counter which share of the events offered to it in a span,
// in [0,1], no limit dropped; 1 for a counter that is unknown. The answers are in
// the order of the counters.
type KeptFunc func(ctx context.Context, counters []string, sp slo.Span) ([]float64, error)

// keptShares are the shares by counter and span; what is not there is 1.
type keptShares map[string]float64

func (k keptShares) of(e *history.Series) float64 {
	if x, ok := k[keptKey(e)]; ok {
		return x
	}
	return 1
}

func keptKey(e *history.Series) string {
	return fmt.Sprintf("%s/%d/%d", e.Counter, e.Grid.From.Unix(), e.Grid.To.Unix())
}

// keptShares asks which share of the events of each counter was let in over its
// grid.
func (s Source) keptShares(ctx context.Context, l *history.Batch) (keptShares, error) {
	out := keptShares{}
	if s.Kept == nil {
		return out, nil
	}
	bySpan := map[slo.Span][]*history.Series{}
	var spans []slo.Span
	for _, e := range l.Entries {
		sp := slo.Span{From: e.Grid.From.UTC(), To: e.Grid.To.UTC()}
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
			counters = append(counters, e.Counter)
		}
		slices.Sort(counters)
		counters = slices.Compact(counters)
		shares, err := s.Kept(ctx, counters, sp)
		if err != nil {
			return nil, err
		}
		if len(shares) != len(counters) {
			return nil, fmt.Errorf("%d shares for %d counters", len(shares), len(counters))
		}
		for _, e := range bySpan[sp] {
			i, _ := slices.BinarySearch(counters, e.Counter)
			out[keptKey(e)] = shares[i]
		}
	}
	return out, nil
}
