// Package counter finds what cumulative counters added between two of their points, so that each addition counts once
// across resends, restarts of the sender and kills of the engine.
//
// The last points are a Table, which follows from the log alone: a Batch says what the points of a request add and is
// written into the record of the events that it makes (Batch.AppendPosition), and the log's reader applies it to the
// Table (Table.Apply).
//
// A counter may be large when it is first seen. What it says counts only if all of it was added while the engine
// looked: see Verdict.
package counter

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/internal/binread"
)

// Key is a hash of what identifies something.
type Key = xxh3.Uint128

// Point is a reading of a cumulative counter.
type Point struct {
	// Class is the rule by which the counter counts. What counters said before their class was first seen never counts.
	Class Key
	// Metric and Source are what is counted, and by whom. All counters of both and one Start are read at the same times.
	Metric, Source Key
	Series         uint64 // hash of what tells these counters apart
	Start          int64  // Unix nanoseconds, when it was 0; 0: unknown. A counter with another start is another one
	Time           int64  // Unix nanoseconds, of the reading
	Before         int64  // set by Observe: the time of the point before; 0 if none is known
	Reset          bool   // set by Observe: the counter has fallen since, so that it began again

	// Scraped says that all counters of a Source are read at once, so that a first point says more: see firstOfSeries.
	Scraped bool
	Began   int64 // Unix nanoseconds, as Start, where the counters of a Source have others; 0: unknown
	Warmup  int64 // of a Scraped one: first points count only so long after the class was first seen
	Always  bool  // it is recorded though it says nothing new
	Lenient int64 // a counter that falls within so many nanoseconds of its last point did not begin again
	// Since, if set, takes the place of subtraction where Buckets have a form of their own, and Count is all: it says what
	// was added since the point before, or that the counter began again.
	Since func(earlier Counts) (added uint64, ok bool)
	Counts
}

// Counts are those of a counter, or what was added to them.
type Counts struct {
	Count   uint64 // not in a bucket
	Layout  uint32 // hash of the bounds of buckets that are not exponential
	Scale   int32  // of exponential buckets, 0 of others: the bounds are powers of 2^(2^-Scale)
	Offset  int32  // index of the first bucket
	Buckets []uint64
}

// Verdict says what became of a point.
type Verdict uint8

// The verdicts.
const (
	// Adds: the Counts are what was added since the point before. Of a new counter they are all of it, if it was not there
	// when others of its source were read before, or if it began after its class was first seen.
	Adds Verdict = iota
	// Baseline: the first point of a counter that may have been there for long, or under another name of its source: one
	// of the same Start is known. It counts nothing.
	Baseline
	// Stale: a point of that time or a later one is recorded.
	Stale
	// Decreased: the counter has fallen, though its start is the same: two senders report it, or its buckets changed. It
	// counts nothing until it is past what it was.
	Decreased
	// Full: the Table has no room for another counter.
	Full
)

// Total is the sum of all counts.
func (c *Counts) Total() (n uint64) {
	n = c.Count
	for _, b := range c.Buckets {
		n += b
	}
	return n
}

// subtract takes earlier counts away, in the coarser of the two scales. ok is false if a count would be negative.
func (c *Counts) subtract(earlier *Counts) (ok bool) {
	scale := min(c.Scale, earlier.Scale)
	c.downscale(scale)
	earlier.downscale(scale)
	if c.Count < earlier.Count || c.Layout != earlier.Layout {
		return false
	}
	c.Count -= earlier.Count
	for i, n := range earlier.Buckets {
		at := i + int(earlier.Offset) - int(c.Offset)
		if n == 0 {
			continue
		}
		if at < 0 || at >= len(c.Buckets) || c.Buckets[at] < n {
			return false
		}
		c.Buckets[at] -= n
	}
	return true
}

// downscale merges buckets: those of index i go to i/2 with each step (OpenTelemetry, metrics data model).
func (c *Counts) downscale(scale int32) {
	steps := min(c.Scale-scale, 31)
	if c.Scale = scale; steps <= 0 || len(c.Buckets) == 0 {
		return
	}
	first := c.Offset >> steps
	last := 0
	for i, n := range c.Buckets {
		at := int((c.Offset+int32(i))>>steps - first)
		if c.Buckets[i] = 0; at > last {
			last = at
		}
		c.Buckets[at] += n
	}
	c.Offset, c.Buckets = first, c.Buckets[:last+1]
}

// Shrink makes the buckets coarser until there are at most so many.
func (c *Counts) Shrink(most int) {
	for len(c.Buckets) > most {
		c.downscale(c.Scale - 1)
	}
}

// appendForm appends all but the count: what differs between counters, but hardly ever between points of one.
func (c *Counts) appendForm(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(c.Layout))
	dst = binary.AppendVarint(dst, int64(c.Scale))
	dst = binary.AppendVarint(dst, int64(c.Offset))
	return binread.AppendCounts(dst, c.Buckets)
}

// readForm is the inverse of appendForm. The buckets keep their memory.
func (c *Counts) readForm(r *binread.Reader) {
	c.Layout, c.Scale, c.Offset, c.Buckets = uint32(r.Uint()), int32(r.Varint()), int32(r.Varint()), c.Buckets[:0]
	for range r.Count(1) {
		c.Buckets = append(c.Buckets, r.Uint())
	}
}
