package history

import (
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
)

// Histogram is how long the events of one step took, as far as counters tell.
type Histogram struct {
	edges []time.Duration // known in this step, rising
	below []uint64        // events no slower than each edge
	Total uint64
}

// MergeHistograms joins the counters of one SLO's durations that were read over
// the same steps; the first one says how many events there were. A counter that
// saw another number, since it started later, is left out of that step.
func MergeHistograms(counters []HistogramSource, n int) (edges []time.Duration, out []Histogram) {
	out = make([]Histogram, n)
	for i := range out {
		type mark struct {
			edge  time.Duration
			below uint64
		}
		var marks []mark
		for k, c := range counters {
			if i >= len(c.Bins) {
				continue
			}
			total := uint64(0)
			for _, x := range c.Bins[i] {
				total += x
			}
			if k == 0 {
				out[i].Total = total
			} else if total != out[i].Total {
				continue
			}
			sum := uint64(0)
			for j, e := range c.Edges {
				if j < len(c.Bins[i]) {
					sum += c.Bins[i][j]
					marks = append(marks, mark{e, sum})
				}
			}
		}
		order.By(marks, func(a, b *mark) int { return int(min(1, max(-1, a.edge-b.edge))) })
		for _, m := range marks {
			if l := len(out[i].edges); l > 0 && out[i].edges[l-1] == m.edge {
				continue
			}
			out[i].edges, out[i].below = append(out[i].edges, m.edge), append(out[i].below, m.below)
		}
	}
	for _, c := range counters {
		edges = append(edges, c.Edges...)
	}
	slices.Sort(edges)
	return slices.Compact(edges), out
}

type HistogramSource struct {
	Edges []time.Duration
	Bins  [][]uint64 // per step
}

// Quantile is where a share of the events lay: for certain between Low and High,
// and at about Value, by a straight line between the two as Prometheus'
// histogram_quantile draws it.
type Quantile struct {
	Low, High time.Duration // High is 0 if it is beyond every threshold
	Value     time.Duration // the highest threshold if it is beyond
	OK        bool          // there were events
}

// Quantile finds the duration that the share q of the events did not exceed.
func (h *Histogram) Quantile(q float64) Quantile {
	if h.Total == 0 || len(h.edges) == 0 {
		return Quantile{}
	}
	// Products such as 0.95 x 100 must not be pushed over a border by rounding.
	rank := q*float64(h.Total) - 1e-9*float64(h.Total)
	low, before := time.Duration(0), uint64(0)
	for i, e := range h.edges {
		if float64(h.below[i]) >= rank {
			share := 1.0
			if n := h.below[i] - before; n > 0 {
				share = (rank - float64(before)) / float64(n)
			}
			return Quantile{low, e, low + time.Duration(math.Round(float64(e-low)*min(1, max(0, share)))), true}
		}
		low, before = e, h.below[i]
	}
	return Quantile{Low: low, Value: low, OK: true}
}

// Share is the part of the events that took more than the edge lo and no more
// than hi; hi 0 is no bound. It is false where an edge is not known.
func (h *Histogram) Share(lo, hi time.Duration) (float64, bool) {
	at := func(e time.Duration) (uint64, bool) {
		i, ok := slices.BinarySearch(h.edges, e)
		if !ok {
			return 0, false
		}
		return h.below[i], true
	}
	from, ok1 := uint64(0), true
	if lo > 0 {
		from, ok1 = at(lo)
	}
	to, ok2 := h.Total, true
	if hi > 0 {
		to, ok2 = at(hi)
	}
	if !ok1 || !ok2 || h.Total == 0 || to < from {
		return 0, false
	}
	return float64(to-from) / float64(h.Total), true
}
