package series

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// This file counts native histograms that are received. Their spec is the pair of queries that a Prometheus evaluates,
// of which the selector and the range are taken: what each histogram added counts, as counters do.

// span is a range of native histograms, of which the events count.
type span struct {
	selector     string
	lower, upper float64
	outside      bool // those outside of it count
}

// NativeSelector is the selector of the native histograms that a pair of queries compares with a range, which can be
// received; "": it is no such pair.
func NativeSelector(total, part string) string {
	s, _ := newSpan(total, part)
	return s.selector
}

var errNotReceived = errors.New("queries are not received, but for histogram_count(X) and histogram_count(X) * " +
	"histogram_fraction(from, to, X), where X is a rate of a selector or a sum of one")

// newSpan takes queries apart: the total is histogram_count(X), and the part histogram_count(X) * histogram_fraction(
// lower, upper, X), or what that leaves of the total.
func newSpan(total, part string) (s span, err error) {
	all, err := parser.NewParser(parser.Options{}).ParseExpr(total)
	if err != nil {
		return s, err
	}
	some, err := parser.NewParser(parser.Options{}).ParseExpr(part)
	if err != nil {
		return s, err
	}
	count, _ := unwrap(all).(*parser.Call)
	var share *parser.Call
	parser.Inspect(some, func(n parser.Node, _ []parser.Node) error {
		if call, ok := n.(*parser.Call); ok && call.Func.Name == "histogram_fraction" {
			share = call
		}
		return nil
	})
	if count == nil || count.Func.Name != "histogram_count" || share == nil ||
		share.Args[2].String() != count.Args[0].String() {
		return s, errNotReceived
	}
	c, f := count.String(), share.String()
	switch form(some) {
	case "(" + c + " * " + f + ")", "(" + f + " * " + c + ")":
	case "(" + c + " * (1 - " + f + "))", "((1 - " + f + ") * " + c + ")", "(" + c + " - (" + c + " * " + f + "))",
		"(" + c + " - (" + f + " * " + c + "))":
		s.outside = true
	default:
		return s, errNotReceived
	}
	var known, known2 bool
	s.lower, known = number(share.Args[0])
	s.upper, known2 = number(share.Args[1])
	if selector := rated(count.Args[0]); known && known2 && s.lower < s.upper && selector != "" {
		s.selector = selector
		return s, nil
	}
	return s, errNotReceived
}

func unwrap(e parser.Expr) parser.Expr {
	for {
		in, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = in.Expr
	}
}

// form prints an expression with the parentheses of its tree, and without others.
func form(e parser.Expr) string {
	b, ok := unwrap(e).(*parser.BinaryExpr)
	if !ok || b.VectorMatching != nil && (b.VectorMatching.On || len(b.VectorMatching.MatchingLabels) > 0) {
		return unwrap(e).String()
	}
	return "(" + form(b.LHS) + " " + b.Op.String() + " " + form(b.RHS) + ")"
}

// number is that of a literal with its signs.
func number(e parser.Expr) (x float64, ok bool) {
	switch e := unwrap(e).(type) {
	case *parser.NumberLiteral:
		return e.Val, true
	case *parser.UnaryExpr:
		x, ok = number(e.Expr)
		if e.Op == parser.SUB {
			x = -x
		}
	}
	return x, ok
}

// rated is the selector of which an expression is the rate, or the sum of rates; "": it is something else.
func rated(e parser.Expr) string {
	if sum, ok := unwrap(e).(*parser.AggregateExpr); ok && sum.Op == parser.SUM {
		e = sum.Expr
	}
	call, ok := unwrap(e).(*parser.Call)
	if !ok || call.Func.Name != "rate" && call.Func.Name != "increase" {
		return ""
	}
	matrix, ok := unwrap(call.Args[0]).(*parser.MatrixSelector)
	if !ok {
		return ""
	}
	of, ok := matrix.VectorSelector.(*parser.VectorSelector)
	if !ok || of.OriginalOffset != 0 || of.OriginalOffsetExpr != nil || of.Timestamp != nil || of.StartOrEnd != 0 {
		return ""
	}
	return of.String()
}

// newReceivedPlan makes the plan of a unit whose samples are written to a Receiver.
func newReceivedPlan(u Unit) (*plan, error) {
	if u.Form == Counters {
		return newPlan(u, 0, nil)
	}
	native, err := newSpan(u.Total, u.Part)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", u.Total+u.Part, err)
	}
	p := &plan{Unit: u, class: xxh3.HashString128(u.Stream), native: &native, inside: true}
	p.total, err = newSelector(native.selector, nil)
	p.part = p.total
	return p, err
}

// The bounds of a histogram: buckets, spans and custom bounds of a side, the index of a bucket, and events, which a
// float64 holds exactly.
const (
	maxBuckets     = 1000
	maxBucketIndex = 1 << 20
	maxEvents      = 1 << 53
)

var errStale = errors.New("stale")

// newNative makes whole numbers of a histogram. An error says why it is none of a counter; errStale: the series ends.
func newNative(h *histogram.Histogram, f *histogram.FloatHistogram, isFloat bool) error {
	var err error
	switch {
	case value.IsStaleNaN(h.Sum):
		return errStale
	case h.CounterResetHint == histogram.GaugeType:
		return errors.New("a gauge histogram, which counts nothing")
	case isFloat:
		err = f.Validate()
	default:
		if err = h.Validate(); err == nil {
			h.ToFloat(f)
		}
	}
	if err != nil {
		return err
	}
	if !(f.ZeroThreshold >= 0 && f.ZeroThreshold < math.MaxFloat64) {
		return fmt.Errorf("a zero bucket up to %v", f.ZeroThreshold)
	}
	for _, spans := range [...][]histogram.Span{f.PositiveSpans, f.NegativeSpans} {
		at := int64(0)
		for _, s := range spans {
			from := at + int64(s.Offset)
			at = from + int64(s.Length)
			if from < -maxBucketIndex || at > maxBucketIndex {
				return errors.New("a bucket beyond the range of numbers")
			}
		}
	}
	none := f.Count
	for _, n := range f.PositiveBuckets {
		none -= n
	}
	for _, n := range f.NegativeBuckets {
		none -= n
	}
	if none -= f.ZeroCount; !math.IsNaN(f.Sum) {
		none = 0 // only observations that are no number are in no bucket
	}
	f.Count = 0
	for _, list := range [...][]float64{{none}, {f.ZeroCount}, f.PositiveBuckets, f.NegativeBuckets} {
		for i, n := range list {
			if !(n > -1 && n <= maxEvents) {
				return fmt.Errorf("a bucket of %v events", n)
			}
			list[i] = math.Floor(max(n, 0))
			f.Count += list[i]
		}
	}
	f.ZeroCount = math.Floor(f.ZeroCount)
	if f.CounterResetHint == histogram.NotCounterReset {
		f.CounterResetHint = histogram.UnknownCounterReset // the one before may not have come
	}
	return nil
}

// put writes a histogram into counts, and get reads it from there.
func put(f *histogram.FloatHistogram) (c counter.Counts) {
	c.Count, c.Scale = uint64(f.Count), f.Schema
	b := make([]uint64, 0, 8+2*len(f.PositiveSpans)+len(f.PositiveBuckets)+len(f.CustomValues))
	b = append(b, bits.ReverseBytes64(math.Float64bits(f.ZeroThreshold)), uint64(f.ZeroCount))
	for _, side := range [...]struct {
		spans   []histogram.Span
		buckets []float64
	}{{f.PositiveSpans, f.PositiveBuckets}, {f.NegativeSpans, f.NegativeBuckets}} {
		b = append(b, uint64(len(side.spans)), uint64(len(side.buckets)))
		for _, s := range side.spans {
			b = append(b, uint64(uint32(s.Offset<<1)^uint32(s.Offset>>31)), uint64(s.Length))
		}
		for _, n := range side.buckets {
			b = append(b, uint64(n))
		}
	}
	for _, x := range f.CustomValues {
		b = append(b, bits.ReverseBytes64(math.Float64bits(x)))
	}
	c.Buckets = b
	return c
}

// get returns nil if the counts are no histogram.
func get(c *counter.Counts) *histogram.FloatHistogram {
	b := c.Buckets
	take := func(n uint64) (out []uint64) {
		if uint64(len(b)) < n {
			return nil
		}
		out, b = b[:n], b[n:]
		return out
	}
	head := take(2)
	if head == nil {
		return nil
	}
	f := &histogram.FloatHistogram{Schema: c.Scale, Count: float64(c.Count),
		ZeroThreshold: math.Float64frombits(bits.ReverseBytes64(head[0])), ZeroCount: float64(head[1])}
	for _, side := range [...]struct {
		spans   *[]histogram.Span
		buckets *[]float64
	}{{&f.PositiveSpans, &f.PositiveBuckets}, {&f.NegativeSpans, &f.NegativeBuckets}} {
		sizes := take(2)
		if sizes == nil || sizes[0] > maxBuckets || sizes[1] > maxBuckets {
			return nil
		}
		spans, buckets := take(2*sizes[0]), take(sizes[1])
		for i := 0; i+1 < len(spans); i += 2 {
			offset := int32(uint32(spans[i])>>1) ^ -int32(spans[i]&1)
			*side.spans = append(*side.spans, histogram.Span{Offset: offset, Length: uint32(spans[i+1])})
		}
		for _, n := range buckets {
			*side.buckets = append(*side.buckets, float64(n))
		}
	}
	for _, x := range b {
		f.CustomValues = append(f.CustomValues, math.Float64frombits(bits.ReverseBytes64(x)))
	}
	if f.Validate() != nil {
		return nil
	}
	return f
}

// nativePoint is a histogram of a series, of which added counts once Batch.Observe says that it does.
type nativePoint struct{ all, added *histogram.FloatHistogram }

// since sets what was added since an earlier histogram. ok is false if the counter began again.
func (n *nativePoint) since(earlier counter.Counts) (count uint64, ok bool) {
	before, all := get(&earlier), n.all.Copy()
	if before == nil || all.CounterResetHint == histogram.CounterReset {
		return 0, false
	}
	if all.ZeroThreshold > before.ZeroThreshold {
		// The threshold may be in the middle of a bucket that became coarser at the same time, which looks like a reset.
		power := math.Ldexp(1, max(0, -int(all.Schema)))
		floor := &histogram.FloatHistogram{Schema: all.Schema,
			ZeroThreshold: math.Exp2(power * math.Ceil(math.Log2(all.ZeroThreshold)/power))}
		for _, h := range [...]*histogram.FloatHistogram{all, before} {
			if _, _, _, err := h.Add(floor); err != nil {
				return 0, false
			}
		}
	}
	if all.DetectReset(before) {
		return 0, false
	}
	added, _, _, err := all.Sub(before)
	if err != nil {
		return 0, false
	}
	n.added = added
	return uint64(added.Count), true
}

// within is how many of the events of a histogram are in the range, as histogram_fraction says.
func (s *span) within(f *histogram.FloatHistogram) float64 {
	n := max(below(f, s.upper)-below(f, s.lower), 0)
	if s.outside {
		return f.Count - n
	}
	return n
}

// below is how many events are at most v. In the bucket that holds v they are spread as PromQL does.
func below(f *histogram.FloatHistogram, v float64) (n float64) {
	for it := f.AllBucketIterator(); it.Next(); {
		b := it.At()
		linear := f.UsesCustomBuckets()
		if b.Lower <= 0 && b.Upper >= 0 {
			linear = true
			switch {
			case len(f.NegativeBuckets) == 0 && len(f.PositiveBuckets) > 0:
				b.Lower = 0
			case len(f.PositiveBuckets) == 0 && len(f.NegativeBuckets) > 0:
				b.Upper = 0
			}
		}
		switch {
		case b.Lower >= v:
			return n
		case b.Upper <= v:
			n += b.Count
		case math.IsInf(b.Lower, -1):
			return n + b.Count
		default:
			return n + b.Count*b.FractionBelow(v, linear)
		}
	}
	return n
}
