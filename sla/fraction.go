package sla

import (
	"math/bits"
	"strconv"
	"strings"
)

// fraction is a decimal in [0,1] as num/den, den a power of ten.
type fraction struct{ num, den uint64 }

// newFraction reads the decimal that a float was written as: 0.95 is 95/100 and
// not 0.9499999999999999556.
func newFraction(x float64) fraction {
	const places = 18 // 10^18 fits in 64 bits
	s := strconv.FormatFloat(clamp(x), 'f', -1, 64)
	if len(s) > places+2 {
		s = strconv.FormatFloat(clamp(x), 'f', places, 64)
	}
	whole, frac, _ := strings.Cut(s, ".")
	num, _ := strconv.ParseUint(whole+frac, 10, 64)
	den := uint64(1)
	for range frac {
		den *= 10
	}
	return fraction{num, den}
}

// reached reports whether part/all >= f, exactly.
func (f fraction) reached(part, all uint64) bool {
	ah, al := bits.Mul64(part, f.den)
	bh, bl := bits.Mul64(all, f.num)
	return ah > bh || ah == bh && al >= bl
}
