package fold

import "math/bits"

// maxCount is the most that one event counts, however large its count and
// weight. It leaves room for tens of thousands of such events in 64 bits.
//
// A hostile count then cannot overflow a counter within any time that matters.
const maxCount = 1 << 48

// weighed is n events of a weight, maxCount at most.
func weighed(n, weight uint64) uint64 {
	hi, lo := bits.Mul64(n, weight)
	if hi != 0 || lo > maxCount {
		return maxCount
	}
	return lo
}

// countWeight remembers what a weighted event adds to the sum of the squared
// weights of each group that it counts for, beyond what it counts.
//
// The effective number of events is (sum of weights)^2 / (sum of squared weights), see slo.Effective. An event of
// weight w and count n adds n*w to the first sum and n*w*w to the second. The count holds n*w already, so
// n*w*(w-1) is what is missing.
func (f *Fold) countWeight(p *plan, sec int64, excess uint64, measured bool) {
	for i := range p.fixed {
		// How much a ratio rests on is told by its denominator.
		if x := &p.fixed[i]; x.g.ind.spec.Kind != Ratio || x.bin == RatioDenominator {
			f.addSquares(x.g, sec, excess)
		}
	}
	if measured {
		for _, x := range p.timed {
			f.addSquares(x.g, sec, excess)
		}
	}
}

// addSquares adds to the column of squares of a group, which it gets with its first weight above 1. Slices have none: they
// are judged by counts.
func (f *Fold) addSquares(g *group, sec int64, excess uint64) {
	s := g.ind.events
	if s == nil || s.leaf(sec) == nil {
		return
	}
	if g.squares == 0 {
		g.squares = s.cols.take(1) + 1
	}
	s.add(sec, g.squares-1, excess, f.clock)
}

// squaresAt gives where the squares of an indicator's groups lie in
// indicatorSums of all groups.
func squaresAt(ind *indicator) map[*group]int {
	var at map[*group]int
	next := len(ind.sorted) * ind.bins
	for _, g := range ind.sorted {
		if g.squares > 0 {
			if at == nil {
				at = map[*group]int{}
			}
			at[g] = next
			next++
		}
	}
	return at
}
