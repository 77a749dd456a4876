package event

import "math/bits"

// decimal is the value of a JSON number's text times a power of ten. Texts are
// worked on as they are: through a float64, 1700000000.123456789 would lose its
// nanoseconds.
type decimal struct {
	negative bool
	whole    uint64 // the integer part of the magnitude
	exact    bool   // nothing follows the integer part
	half     bool   // the remainder is 0.5 or more
	ok       bool   // false if whole does not fit
}

// rounded returns the magnitude to the nearest integer, halves up.
func (d decimal) rounded() uint64 {
	if d.half {
		return d.whole + 1
	}
	return d.whole
}

// parseDecimal computes text times 10^scale. text is a number by RFC 8259.
func parseDecimal(text []byte, scale int) decimal {
	d := decimal{exact: true}
	if text[0] == '-' {
		d.negative = true
		text = text[1:]
	}
	var (
		mantissa uint64
		kept     int  // significant digits in mantissa, at most 19
		dropped  int  // digits left off behind them
		first    byte // the first of those
		nonzero  bool // any of those is not 0
		fraction bool // behind the point
		shift    = scale
	)
	i := 0
scan:
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '.':
			fraction = true
			continue
		case !isDigit(c):
			break scan
		}
		if fraction {
			shift--
		}
		if kept < 19 {
			mantissa = mantissa*10 + uint64(c-'0')
			if mantissa != 0 {
				kept++
			}
			continue
		}
		if dropped == 0 {
			first = c
		}
		dropped++
		nonzero = nonzero || c != '0'
	}
	shift += dropped
	if i < len(text) { // the exponent
		shift = addExponent(shift, text[i+1:])
	}
	d.exact = !nonzero
	switch {
	case mantissa == 0:
		d.ok = true
	case shift > 19:
		return d
	case shift >= 0:
		high, low := bits.Mul64(mantissa, pow10[shift])
		d.whole, d.ok = low, high == 0
		d.half = shift == 0 && dropped > 0 && first >= '5'
		// Dropped digits above the point would be needed, but then whole, with
		// its 20 digits or more, is beyond every use of it.
		d.ok = d.ok && (shift == 0 || dropped == 0)
	case shift < -20:
		d.exact, d.ok = false, true
	case shift == -20: // mantissa has at most 19 digits: less than a tenth
		d.exact, d.ok = false, true
	default:
		unit := pow10[-shift]
		rest := mantissa % unit
		d.whole, d.ok = mantissa/unit, true
		d.exact = d.exact && rest == 0
		d.half = rest >= unit/2
	}
	return d
}

// addExponent adds the exponent that text spells to shift, stopping where more
// cannot change the outcome. Texts are bounded, so shift itself is small.
func addExponent(shift int, text []byte) int {
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	exponent := 0
	for _, c := range text {
		if exponent < 1<<26 {
			exponent = exponent*10 + int(c-'0')
		}
	}
	if negative {
		return shift - exponent
	}
	return shift + exponent
}

var pow10 = [20]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
	1e15, 1e16, 1e17, 1e18, 1e19}
