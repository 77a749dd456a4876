package retry

import (
	"math"
	"time"
)

// Jitter says how the delay before a retry is drawn.
//
// The formulas for full, equal and decorrelated jitter are those of Marc
// Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
type Jitter string

const (
	// Full draws evenly from [0, d), d being min(cap, base * 2^n). The default:
	// it spreads the load of many clients best.
	Full Jitter = "full"
	// Equal draws evenly from [d/2, d): never an immediate retry.
	Equal Jitter = "equal"
	// Decorrelated draws evenly from [base, 3 * previous delay), at most the cap.
	Decorrelated Jitter = "decorrelated"
	// PlusMinus draws evenly from [d*(1-Spread), d*(1+Spread)), at most the cap.
	PlusMinus Jitter = "plusminus"
	// None is exactly d.
	None Jitter = "none"
)

// Delay is the wait before retry n (0 is the first retry), given the wait
// before the retry preceding it (0 for the first; only Decorrelated looks at
// it). It lies
// in [0, Cap] for every n and previous.
func (p *Policy) Delay(n int, previous time.Duration) time.Duration {
	o := &p.o
	d := exponential(o.Base, o.Cap, n)
	switch o.Jitter {
	case Full:
		return p.between(0, d)
	case Equal:
		return p.between(d/2, d)
	case Decorrelated:
		high := o.Cap
		previous = max(previous, o.Base)
		if previous < o.Cap/3 {
			high = 3 * previous
		}
		return min(p.between(o.Base, high), o.Cap)
	case PlusMinus:
		spread := time.Duration(o.Spread * float64(d))
		return min(p.between(d-spread, d+spread), o.Cap)
	default:
		return d
	}
}

// exponential is min(limit, base*2^n) without overflow.
func exponential(base, limit time.Duration, n int) time.Duration {
	d := base
	for ; n > 0 && d < limit; n-- {
		if d > math.MaxInt64/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// between draws from [low, high). A rand source that answers outside [0,1)
// is clamped, so that a wrong one can't make a delay negative or endless.
func (p *Policy) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	r := p.o.Rand()
	if !(r >= 0) { // also NaN
		r = 0
	}
	if r > 1 {
		r = 1
	}
	return low + time.Duration(r*float64(high-low))
}
