package ratelimit

import (
	"math/bits"
	"time"
)

// buckets is how many parts a sliding window is counted in, besides the one that has
// begun. All of them together hold at most the limit, and any span of a window lies
// within them, so the limit holds in each. They are up to 1/8 longer than the window:
// so much stricter is it.
const buckets = 8

// counter is one counter, in a cache line.
type counter struct {
	key    Key
	expire int64  // when it is as good as new, in the table's time
	shape  uint32 // how c is to be read: see shapeOf
	// Sliding window: counts of parts, the newest first; the newest ends expire -
	// buckets parts. Fixed window: c[0] is the count. Token bucket: see tokens.
	c [buckets + 1]uint32
}

const unused = 3 << 30 // shape of a counter that is on the free list

// shapeOf encodes the algorithm in two bits and the window as a hash: when a reload changes either,
// the parts of the counter have another meaning.
func shapeOf(a Algorithm, window int64) uint32 {
	return uint32(a)<<30 | uint32(uint64(window)*0x9E3779B97F4A7C15>>34)
}

// live is how many events a counter remembers, at most.
func (s *counter) live(at int64) uint64 {
	if at >= s.expire || s.shape == unused {
		return 0
	}
	if Algorithm(s.shape>>30) == SlidingWindow {
		return s.sum()
	}
	return uint64(s.c[0])
}

func (s *counter) sum() uint64 {
	var n uint64
	for _, c := range s.c {
		n += uint64(c)
	}
	return n
}

// meter is a limit made ready for counting.
type meter struct {
	limit     *Limit
	algorithm Algorithm
	shape     uint32
	cap       uint32 // events that a fresh counter has room for
	rate      uint64 // of a token bucket: events per window
	window    int64
	part      int64 // of a sliding window
	hint      int32 // the counter that was used last

	take uint64 // the call that at and edge are of
	at   int64
	edge int64 // when a counter begun now expires, unless it is a token bucket
}

func (m *meter) set(l *Limit, scale float64) {
	scaled := func(n int64) int64 { return min(max(int64(float64(n)*scale), 1), MaxLimit) }
	*m = meter{limit: l, algorithm: l.Algorithm, window: int64(l.Window), hint: -1}
	m.shape = shapeOf(l.Algorithm, m.window)
	m.part = (m.window + buckets - 1) / buckets
	m.rate = uint64(scaled(l.N))
	m.cap = uint32(m.rate)
	if l.Algorithm == TokenBucket {
		m.cap = uint32(scaled(l.Burst))
	}
}

func (m *meter) tick(take uint64, at int64) {
	m.take, m.at = take, at
	switch m.algorithm {
	case SlidingWindow:
		m.edge = (at/m.part + buckets + 1) * m.part
	case FixedWindow:
		m.edge = (at/m.window + 1) * m.window
	default:
		m.edge = at
	}
}

// begin makes s a fresh counter.
func (m *meter) begin(s *counter, key Key) {
	*s = counter{key: key, expire: m.edge, shape: m.shape}
	if m.algorithm == TokenBucket {
		s.setTokens(tokens{last: m.at})
	}
}

// used brings s up to the present and returns how many events it counts.
func (m *meter) used(s *counter) uint64 {
	if s.shape != m.shape {
		m.convert(s)
	}
	switch m.algorithm {
	case SlidingWindow:
		if late := m.edge - s.expire; late > 0 {
			if parts := late / m.part; parts > buckets {
				clear(s.c[:])
			} else {
				copy(s.c[parts:], s.c[:])
				clear(s.c[:parts])
			}
			s.expire = m.edge
		}
		return s.sum()
	case FixedWindow:
		if m.at >= s.expire {
			s.c[0] = 0
			s.expire = m.edge
		}
		return uint64(s.c[0])
	default:
		k := s.tokens()
		k.drain(m)
		s.setTokens(k)
		if k.part > 0 {
			return uint64(k.whole) + 1
		}
		return uint64(k.whole)
	}
}

// convert keeps the count of a counter with another algorithm or window, as if it had just
// happened: too strict for a window at most.
func (m *meter) convert(s *counter) {
	n := uint32(min(s.live(m.at), uint64(m.cap)))
	m.begin(s, s.key)
	s.c[0] = n
	if m.algorithm == TokenBucket {
		s.expire = s.tokens().empty(m)
	}
}

// charge counts one event; used has said that there is room.
func (m *meter) charge(s *counter) {
	s.c[0]++
	if m.algorithm == TokenBucket {
		s.expire = s.tokens().empty(m)
	}
}

// wait is how long it takes until s, which is full and up to date, has room.
func (m *meter) wait(s *counter) time.Duration {
	switch m.algorithm {
	case SlidingWindow:
		rest, end := s.sum(), s.expire
		for i := buckets; i > 0; i-- {
			if rest -= uint64(s.c[i]); rest < uint64(m.cap) {
				end = s.expire - int64(i)*m.part
				break
			}
		}
		return time.Duration(end - m.at)
	case FixedWindow:
		return time.Duration(s.expire - m.at)
	default:
		return s.tokens().wait(m)
	}
}

// tokens is the state of a token bucket, as the tokens missing in it: whole + part/window events.
// Nothing is rounded.
type tokens struct {
	whole uint32
	part  uint64 // below the window's nanoseconds
	last  int64  // that this is of
}

func (s *counter) tokens() tokens {
	return tokens{s.c[0], uint64(s.c[1])<<32 | uint64(s.c[2]), int64(uint64(s.c[3])<<32 | uint64(s.c[4]))}
}

func (s *counter) setTokens(k tokens) {
	s.c[0] = k.whole
	s.c[1], s.c[2] = uint32(k.part>>32), uint32(k.part)
	s.c[3], s.c[4] = uint32(uint64(k.last)>>32), uint32(uint64(k.last))
}

// drain reduces the missing tokens by those that accrued since last: rate/window events per
// nanosecond.
func (k *tokens) drain(m *meter) {
	passed := uint64(max(m.at-k.last, 0))
	k.last = max(m.at, k.last)
	if k.whole == 0 && k.part == 0 || passed == 0 {
		return
	}
	inHi, inLo := bits.Mul64(passed, m.rate)
	hi, lo := bits.Mul64(uint64(k.whole), uint64(m.window))
	lo, carry := bits.Add64(lo, k.part, 0)
	hi += carry
	lo, borrow := bits.Sub64(lo, inLo, 0)
	hi, borrow = bits.Sub64(hi, inHi, borrow)
	if borrow != 0 {
		k.whole, k.part = 0, 0
		return
	}
	whole, part := bits.Div64(hi, lo, uint64(m.window)) // whole tokens are fewer now
	k.whole, k.part = uint32(whole), part
}

// wait is how long it takes until one event more fits.
func (k tokens) wait(m *meter) time.Duration {
	hi, lo := bits.Mul64(uint64(k.whole)-uint64(m.cap-1), uint64(m.window))
	lo, carry := bits.Add64(lo, k.part, 0)
	hi += carry
	if hi >= m.rate {
		return MaxWindow // more than 2^64 nanoseconds: the limit was lowered very far
	}
	d, rest := bits.Div64(hi, lo, m.rate)
	if rest > 0 {
		d++
	}
	return time.Duration(min(d, uint64(MaxWindow)))
}

// empty is about when nothing is missing any more.
func (k tokens) empty(m *meter) int64 {
	return k.last + int64((float64(k.whole)+1)*float64(m.window)/float64(m.rate)) + 1
}
