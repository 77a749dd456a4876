package otlp

import (
	"bytes"
	"encoding/binary"
	"math"
)

// weightOf is how many spans this one stands for. p is the share that was kept. A fractional weight becomes its floor
// or its ceiling by the trace id, so that the sum is unbiased and a resend has the same weight.
func weightOf(p float64, trace [16]byte) uint32 {
	exact := min(1/p, math.MaxUint32)
	whole := math.Floor(exact)
	if rest := exact - whole; rest > 0 {
		// The last 7 bytes decide about sampling, so that other bits are needed here.
		mixed := binary.BigEndian.Uint64(trace[:8]) ^ binary.BigEndian.Uint64(trace[8:])*0x9e3779b97f4a7c15
		mixed ^= mixed >> 29
		mixed *= 0xbf58476d1ce4e5b9
		mixed ^= mixed >> 32
		if float64(mixed>>11)/(1<<53) < rest {
			whole++
		}
	}
	return uint32(whole)
}

// threshold reads the share that a sampler kept from a tracestate: the entry "ot" with "th", up to 14 hexadecimal
// digits of the part of 2^56 that was rejected (OpenTelemetry, probability sampling in tracestate).
func threshold(tracestate []byte) (share float64, ok bool) {
	for len(tracestate) > 0 {
		var entry []byte
		entry, tracestate, _ = bytes.Cut(tracestate, []byte(","))
		value, found := bytes.CutPrefix(bytes.TrimLeft(entry, " \t"), []byte("ot="))
		if !found {
			continue
		}
		for len(value) > 0 {
			var pair []byte
			pair, value, _ = bytes.Cut(value, []byte(";"))
			if digits, found := bytes.CutPrefix(pair, []byte("th:")); found {
				return shareAbove(bytes.TrimRight(digits, " \t"))
			}
		}
	}
	return 0, false
}

func shareAbove(digits []byte) (share float64, ok bool) {
	if len(digits) == 0 || len(digits) > 14 {
		return 0, false
	}
	rejected := uint64(0)
	for i := range 14 {
		rejected <<= 4
		if i >= len(digits) {
			continue
		}
		switch c := digits[i]; {
		case c >= '0' && c <= '9':
			rejected |= uint64(c - '0')
		case c >= 'a' && c <= 'f':
			rejected |= uint64(c-'a') + 10
		default:
			return 0, false
		}
	}
	const all = 1 << 56
	return float64(all-rejected) / all, true
}
