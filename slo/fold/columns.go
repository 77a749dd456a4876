package fold

import "slices"

// columns hands out ranges of columns, the lowest that fit first. What is free
// depends only on what is in use, never on the order in which it was freed,
// so that a restored fold hands out the same columns as one that never stopped.
type columns struct {
	n    uint32     // columns up to the last in use
	free []colRange // below n, rising, no two touching
}

type colRange struct{ lo, hi uint32 }

func (a *columns) take(w uint32) uint32 {
	for i := range a.free {
		r := &a.free[i]
		if r.hi-r.lo < w {
			continue
		}
		lo := r.lo
		r.lo += w
		if r.lo == r.hi {
			a.free = slices.Delete(a.free, i, i+1)
		}
		return lo
	}
	// A free range never ends at n, so there is none to extend.
	lo := a.n
	a.n += w
	return lo
}

func (a *columns) give(lo, w uint32) {
	i, _ := slices.BinarySearchFunc(a.free, lo, func(r colRange, lo uint32) int { return int(r.lo) - int(lo) })
	a.free = slices.Insert(a.free, i, colRange{lo, lo + w})
	if i+1 < len(a.free) && a.free[i].hi == a.free[i+1].lo {
		a.free[i].hi = a.free[i+1].hi
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].hi == a.free[i].lo {
		a.free[i-1].hi = a.free[i].hi
		a.free = slices.Delete(a.free, i, i+1)
	}
	if last := len(a.free) - 1; last >= 0 && a.free[last].hi == a.n {
		a.n = a.free[last].lo
		a.free = a.free[:last]
	}
}

// use marks the ranges, which must not overlap, as the only ones in use. It
// reports false if they do overlap.
func (a *columns) use(ranges []colRange) bool {
	slices.SortFunc(ranges, func(x, y colRange) int { return int(x.lo) - int(y.lo) })
	*a = columns{}
	for _, r := range ranges {
		if r.lo < a.n {
			return false
		}
		if r.lo > a.n {
			a.free = append(a.free, colRange{a.n, r.lo})
		}
		a.n = r.hi
	}
	return true
}

// room is how many columns a block gets when it must grow: some more than there
// are, so that groups that appear one by one do not copy it each time.
func (a *columns) room() int { return int(a.n) + int(a.n)/16 + 8 }
