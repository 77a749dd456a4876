package counter

import (
	"math/bits"

	"github.com/sloengine/sloengine/internal/binread"
)

// lowBits is how many low bits of a distance between two of n places are written as they are: the best number if each
// of all is as likely one of them (Rice 1979). It is 0 where many are, so that there is one bit for each place.
func lowBits(n, all int) int { return bits.Len(uint(2 * (all - n) / (3 * n))) }

// appendPlaces appends the distances between ascending places of so many: their high bits as so many zeros and a one,
// then their low bits.
func appendPlaces(dst []byte, list []change, all int) []byte {
	if len(list) == 0 {
		return dst
	}
	low := lowBits(len(list), all)
	word, have := uint64(0), 0
	put := func(bits uint64, n int) {
		word |= bits << have
		for have += n; have >= 8; have -= 8 {
			dst = append(dst, byte(word))
			word >>= 8
		}
	}
	next := uint32(0)
	for _, x := range list {
		gap := uint64(x.place - next)
		for range gap >> low {
			put(0, 1)
		}
		put(1, 1)
		put(gap&(1<<low-1), low)
		next = x.place + 1
	}
	if have > 0 {
		dst = append(dst, byte(word))
	}
	return dst
}

// readPlaces is the inverse of appendPlaces.
func readPlaces(dst []int, r *binread.Reader, n, all int) []int {
	if n == 0 {
		return dst
	}
	low := lowBits(n, all)
	word, have := uint64(0), 0
	take := func(n int) (bits int) {
		for ; have < n; have += 8 {
			b := r.Take(1)
			if b == nil {
				return 0
			}
			word |= uint64(b[0]) << have
		}
		bits = int(word & (1<<n - 1))
		word, have = word>>n, have-n
		return bits
	}
	next := 0
	for range n {
		for next < all && take(1) == 0 && !r.Bad() {
			next += 1 << low
		}
		if next += take(low); next >= all || r.Bad() {
			r.Fail()
			return dst
		}
		dst = append(dst, next)
		next++
	}
	return dst
}
