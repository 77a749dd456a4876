package shared

import (
	"fmt"
	"math"
	"time"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

const (
	// slots is how finely a sliding window is cut: a limit acts as if its window were
	// up to 1/slots longer.
	slots = 16
	// fewUnits is up to which limit single times are kept, cut by fineSlots: no more
	// entries than units are ever kept.
	fewUnits  = 16
	fineSlots = 1000
	// margin is how much longer than needed a counter is kept.
	margin = time.Second
	// maxUnits is the most that an entry can hold, and above every limit.
	maxUnits = 1 << 47
)

// plan is a limit in the numbers of the script.
type plan struct {
	units       int64 // at most, or the size of the bucket
	width, span int64 // of an entry in microseconds, of the window in widths - 1; 0 of a bucket
	perMicro    float64
	ttl         int64  // ms
	salt        uint64 // keeps counters of other shapes apart
}

func planOf(l *ratelimit.Limit) (plan, error) {
	window := l.Window.Microseconds()
	if l.N < 1 || window < 1 || l.Algorithm == ratelimit.TokenBucket && l.Burst < 1 {
		return plan{}, fmt.Errorf("limit of %d, burst %d, in %s: all must be positive", l.N, l.Burst, l.Window)
	}
	p := plan{units: min(l.N, maxUnits)}
	switch l.Algorithm {
	case ratelimit.SlidingWindow:
		cut := int64(slots)
		if l.N <= fewUnits {
			cut = fineSlots
		}
		p.width = ceilDiv(window, cut)
		p.span = ceilDiv(window, p.width)
		p.ttl = (p.span + 1) * p.width / 1000
	case ratelimit.FixedWindow:
		p.width = window
		p.ttl = window / 1000
	case ratelimit.TokenBucket:
		p.units = min(l.Burst, maxUnits)
		p.perMicro = float64(l.N) / float64(window)
		const long = 10 * 365 * 24 * time.Hour
		p.ttl = int64(math.Min(float64(p.units)/p.perMicro/1000, float64(long.Milliseconds())))
	default:
		return plan{}, fmt.Errorf("unknown algorithm %d", l.Algorithm)
	}
	p.ttl += margin.Milliseconds() + 1
	p.salt = mix(mix(uint64(l.Algorithm)+1) ^ mix(uint64(p.width)) ^ uint64(p.span))
	return p, nil
}

func (p *plan) append(b []byte) []byte {
	b = appendUint(b, uint64(p.units))
	b = appendUint(b, uint64(p.width))
	b = appendUint(b, uint64(p.span))
	b = appendFloat(b, p.perMicro)
	return appendUint(b, uint64(p.ttl))
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
