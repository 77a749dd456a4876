package series

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Bucket is what a selector says of a classic histogram: one of its buckets.
type Bucket struct {
	LE    string
	Query string // of all bounds of the histogram: a series for each, with the label le
}

// BucketOf takes a selector apart. ok is false if it selects no single bucket.
func BucketOf(selector string) (b Bucket, ok bool) {
	s, err := newSelector(selector, nil)
	if err != nil {
		return b, false
	}
	var others []string
	for _, m := range s.matchers {
		if m.Name == labels.BucketLabel && m.Type == labels.MatchEqual {
			b.LE = m.Value
			continue
		}
		others = append(others, m.String())
	}
	b.Query = "group by (le) ({" + strings.Join(others, ",") + "})"
	_, err = strconv.ParseFloat(b.LE, 64)
	return b, err == nil && len(others) > 0
}

// BoundError means that a histogram has no bucket with the bound of a selector.
type BoundError struct {
	LE      string
	Nearest []string
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("the histogram has no bound le=%q: the nearest are %s", e.LE, strings.Join(e.Nearest, " and "))
}

// Among finds the bucket among the bounds of the histogram. It is nil if there are none, or if it is one.
func (b Bucket) Among(bounds []string) *BoundError {
	if len(bounds) == 0 || slices.Contains(bounds, b.LE) {
		return nil
	}
	want, _ := strconv.ParseFloat(b.LE, 64)
	far := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return math.Inf(1)
		}
		return math.Abs(n - want)
	}
	bounds = slices.SortedFunc(slices.Values(bounds), func(x, y string) int {
		return cmp.Or(cmp.Compare(far(x), far(y)), strings.Compare(x, y))
	})
	e := &BoundError{LE: b.LE}
	for _, text := range bounds[:min(2, len(bounds))] {
		e.Nearest = append(e.Nearest, fmt.Sprintf("le=%q", text))
	}
	return e
}

// checkBound tells a bucket that does not exist from one that has no sample: without it, all would be bad.
func (s *Source) checkBound(ctx context.Context, p *plan, at time.Time) error {
	b, ok := BucketOf(p.part.ask)
	if !ok {
		return nil
	}
	var bounds []string
	_, err := s.client.evaluate(ctx, b.Query, at.UnixNano(), at.UnixNano(), int64(time.Second), func(one *oneSeries) {
		bounds = append(bounds, one.labels.get(labels.BucketLabel))
	})
	if err != nil {
		return err
	}
	if e := b.Among(bounds); e != nil {
		return e
	}
	return nil
}
