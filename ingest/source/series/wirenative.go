package series

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"google.golang.org/protobuf/encoding/protowire"
)

// wireNative is the memory for native histograms of integers, and the custom bounds that were read last.
type wireNative struct {
	of     histogram.Histogram
	bounds []float64
	buf    []float64
}

// The fields of a native histogram, which both versions have but for the last.
const (
	nativeCount, nativeCountFloat, nativeSum, nativeSchema = 1, 2, 3, 4
	nativeThreshold, nativeZero, nativeZeroFloat           = 5, 6, 7
	negativeSpans, negativeDeltas, negativeCounts          = 8, 9, 10
	positiveSpans, positiveDeltas, positiveCounts          = 11, 12, 13
	nativeHint, nativeTime, nativeBounds, nativeStart      = 14, 15, 16, 17
	spanOffset, spanLength                                 = 1, 2
)

// histogram reads a native histogram. An error says why it is refused; errStale: its series ends.
func (w *wire) histogram(v wireValue) (p point, err error) {
	h := &w.native.of
	*h = histogram.Histogram{PositiveSpans: h.PositiveSpans[:0], NegativeSpans: h.NegativeSpans[:0],
		PositiveBuckets: h.PositiveBuckets[:0], NegativeBuckets: h.NegativeBuckets[:0]}
	f := &histogram.FloatHistogram{}
	bounds, isFloat := w.native.buf[:0], false
	err = w.fields(v.from, v.to, func(num protowire.Number, v wireValue) error {
		x := math.Float64frombits(v.number)
		switch v.kind {
		case protowire.BytesType:
			switch num {
			case positiveSpans:
				return w.span(&h.PositiveSpans, v)
			case negativeSpans:
				return w.span(&h.NegativeSpans, v)
			case positiveDeltas:
				return w.deltas(&h.PositiveBuckets, v)
			case negativeDeltas:
				return w.deltas(&h.NegativeBuckets, v)
			case positiveCounts:
				return w.doubles(&f.PositiveBuckets, v)
			case negativeCounts:
				return w.doubles(&f.NegativeBuckets, v)
			case nativeBounds:
				return w.doubles(&bounds, v)
			}
		case protowire.VarintType:
			switch num {
			case nativeCount:
				h.Count, isFloat = v.number, false
			case nativeSchema:
				h.Schema = int32(protowire.DecodeZigZag(v.number & math.MaxUint32))
			case nativeZero:
				h.ZeroCount = v.number
			case nativeHint:
				h.CounterResetHint = histogram.CounterResetHint(min(v.number, math.MaxUint8))
			case nativeTime:
				p.at = int64(v.number)
			case nativeStart:
				if w.v2 {
					p.began = min(max(int64(v.number), 0), maxMillis)
				}
			}
		case protowire.Fixed64Type:
			switch num {
			case nativeCountFloat:
				f.Count, isFloat = x, true
			case nativeSum:
				h.Sum = x
			case nativeThreshold:
				h.ZeroThreshold = x
			case nativeZeroFloat:
				f.ZeroCount = x
			}
		default:
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	if p.at < 0 || p.at > maxMillis {
		return p, fmt.Errorf("the time %d", p.at)
	}
	if w.native.buf = bounds; !slices.Equal(bounds, w.native.bounds) {
		w.native.bounds = slices.Clone(bounds)
	}
	if len(bounds) > 0 {
		h.CustomValues = w.native.bounds
	}
	if isFloat {
		f.CounterResetHint, f.Schema, f.ZeroThreshold, f.Sum = h.CounterResetHint, h.Schema, h.ZeroThreshold, h.Sum
		f.PositiveSpans, f.NegativeSpans = slices.Clone(h.PositiveSpans), slices.Clone(h.NegativeSpans)
		f.CustomValues = h.CustomValues
	}
	p.at, p.began = p.at*1e6, p.began*1e6
	if err = newNative(h, f, isFloat); err == nil {
		p.n, p.native = f.Count, f
	}
	return p, err
}

func (w *wire) span(to *[]histogram.Span, v wireValue) error {
	if len(*to) >= maxBuckets {
		return fmt.Errorf("more than %d spans", maxBuckets)
	}
	var s histogram.Span
	err := w.fields(v.from, v.to, func(num protowire.Number, v wireValue) error {
		switch {
		case v.kind != protowire.VarintType:
		case num == spanOffset:
			s.Offset = int32(protowire.DecodeZigZag(v.number & math.MaxUint32))
		case num == spanLength:
			s.Length = uint32(v.number)
		}
		return nil
	})
	*to = append(*to, s)
	return err
}

// deltas reads packed numbers.
func (w *wire) deltas(to *[]int64, v wireValue) error {
	for at := v.from; at < v.to; {
		n, size := protowire.ConsumeVarint(w.body[at:v.to])
		switch {
		case size < 0:
			return w.errorf(at, "broken protobuf: %v", protowire.ParseError(size))
		case len(*to) >= maxBuckets:
			return fmt.Errorf("more than %d buckets", maxBuckets)
		}
		*to = append(*to, protowire.DecodeZigZag(n))
		at += size
	}
	return nil
}

func (w *wire) doubles(to *[]float64, v wireValue) error {
	if len(*to)+(v.to-v.from)/8 > maxBuckets {
		return fmt.Errorf("more than %d buckets", maxBuckets)
	}
	for at := v.from; at < v.to; at += 8 {
		n, size := protowire.ConsumeFixed64(w.body[at:v.to])
		if size < 0 {
			return w.errorf(at, "broken protobuf: %v", protowire.ParseError(size))
		}
		*to = append(*to, math.Float64frombits(n))
	}
	return nil
}
