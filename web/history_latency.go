package web

import (
	"github.com/sloengine/sloengine/web/format"
	"math"
	"slices"
	"time"
)

// histogram is how long the events of one step took, as far as counters tell.
type histogram struct {
	edges []time.Duration // known in this step, rising
	below []uint64        // events no slower than each edge
	total uint64
}

// mergeHistograms joins the counters of one SLO's durations that were read over
// the same steps; the first one says how many events there were. A counter that
// saw another number, since it is younger, is left out of that step.
func mergeHistograms(counters []histogramSource, n int) (edges []time.Duration, out []histogram) {
	out = make([]histogram, n)
	for i := range out {
		type mark struct {
			edge  time.Duration
			below uint64
		}
		var marks []mark
		for k, c := range counters {
			if i >= len(c.bins) {
				continue
			}
			total := uint64(0)
			for _, x := range c.bins[i] {
				total += x
			}
			if k == 0 {
				out[i].total = total
			} else if total != out[i].total {
				continue
			}
			sum := uint64(0)
			for j, e := range c.edges {
				if j < len(c.bins[i]) {
					sum += c.bins[i][j]
					marks = append(marks, mark{e, sum})
				}
			}
		}
		slices.SortStableFunc(marks, func(a, b mark) int { return int(min(1, max(-1, a.edge-b.edge))) })
		for _, m := range marks {
			if l := len(out[i].edges); l > 0 && out[i].edges[l-1] == m.edge {
				continue
			}
			out[i].edges, out[i].below = append(out[i].edges, m.edge), append(out[i].below, m.below)
		}
	}
	for _, c := range counters {
		edges = append(edges, c.edges...)
	}
	slices.Sort(edges)
	return slices.Compact(edges), out
}

type histogramSource struct {
	edges []time.Duration
	bins  [][]uint64 // per step
}

// quantile is where a share of the events lay: for certain between Low and High,
// and at about Value, by a straight line between the two as Prometheus'
// histogram_quantile draws it.
type quantile struct {
	Low, High time.Duration // High is 0 if it is beyond every threshold
	Value     time.Duration // the highest threshold if it is beyond
	OK        bool          // there were events
}

// quantile finds the duration that the share q of the events did not exceed.
func (h *histogram) quantile(q float64) quantile {
	if h.total == 0 || len(h.edges) == 0 {
		return quantile{}
	}
	// Products such as 0.95 x 100 must not be pushed over a border by rounding.
	rank := q*float64(h.total) - 1e-9*float64(h.total)
	low, before := time.Duration(0), uint64(0)
	for i, e := range h.edges {
		if float64(h.below[i]) >= rank {
			share := 1.0
			if n := h.below[i] - before; n > 0 {
				share = (rank - float64(before)) / float64(n)
			}
			return quantile{low, e, low + time.Duration(math.Round(float64(e-low)*min(1, max(0, share)))), true}
		}
		low, before = e, h.below[i]
	}
	return quantile{Low: low, Value: low, OK: true}
}

// share is the part of the events that took more than the edge lo and no more
// than hi; hi 0 is no bound. It is false where an edge is not known.
func (h *histogram) share(lo, hi time.Duration) (float64, bool) {
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
	to, ok2 := h.total, true
	if hi > 0 {
		to, ok2 = at(hi)
	}
	if !ok1 || !ok2 || h.total == 0 || to < from {
		return 0, false
	}
	return float64(to-from) / float64(h.total), true
}

// within prints the certain bounds of a quantile.
func (q quantile) within() string {
	switch {
	case !q.OK:
		return format.NoValue
	case q.High == 0:
		return "over " + format.Took(q.Low)
	case q.Low == 0:
		return "up to " + format.Took(q.High)
	}
	return format.Took(q.Low) + " to " + format.Took(q.High)
}

func (q quantile) about() string {
	switch {
	case !q.OK:
		return format.NoValue
	case q.High == 0:
		return "> " + format.Took(q.Low)
	}
	return "≈ " + format.Took(q.Value)
}
