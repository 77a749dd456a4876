package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/ingest/binread"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// MaxCountsBody is the most bytes of a CountsQuery.
const MaxCountsBody = 8 << 20

// CountsQuery asks an engine for what it counted in times of the past.
type CountsQuery struct {
	Spec  string      `json:"spec"` // hash
	Reads []CountRead `json:"reads,omitempty"`

	// Losses asks how many of the events that were offered to some counters in a span were dropped by limits.
	Losses []string `json:"losses,omitempty"`
	Onsets bool     `json:"onsets,omitempty"` // asks when incidents began in the span
	Span   [2]int64 `json:"span,omitzero"`    // Unix nanoseconds
}

// CountRead is a fold.ReadRequest.
type CountRead struct {
	ID     string      `json:"id"`
	Groups []slo.Group `json:"groups"`
	Spans  [][2]int64  `json:"spans"` // Unix nanoseconds
}

// Requests are the reads as the fold takes them. It fails if they ask for more than fold.MaxRead counts together.
func (q *CountsQuery) Requests() ([]fold.ReadRequest, error) {
	out, total := make([]fold.ReadRequest, len(q.Reads)), 0
	for i, r := range q.Reads {
		if total += (len(r.Groups) + 1) * len(r.Spans); total > 2*fold.MaxRead {
			return nil, fmt.Errorf("more than %d counts are asked for", 2*fold.MaxRead)
		}
		out[i] = fold.ReadRequest{ID: r.ID, Groups: r.Groups}
		for _, s := range r.Spans {
			out[i].Spans = append(out[i].Spans, span(s))
		}
	}
	return out, nil
}

func span(s [2]int64) slo.Span {
	return slo.Span{From: time.Unix(0, s[0]).UTC(), To: time.Unix(0, s[1]).UTC()}
}

// Counts answers a CountsQuery.
type Counts struct {
	Reads  []fold.ReadResult
	Losses []fold.Offer

	Onsets      []Onset
	OnsetsKnown bool
}

// EncodeCounts writes an answer.
func EncodeCounts(c *Counts) []byte {
	b := []byte{FormatVersion}
	b = binary.AppendUvarint(b, uint64(len(c.Reads)))
	for i := range c.Reads {
		r := &c.Reads[i]
		b = binread.AppendBool(binread.AppendBool(b, r.Known), r.Sliced)
		b = binary.AppendUvarint(b, uint64(len(r.Edges)))
		for _, e := range r.Edges {
			b = binary.AppendUvarint(b, uint64(e))
		}
		b = appendSpans(appendTime(appendTime(b, r.Oldest), r.Hourly), r.Observed)
		b = binary.AppendUvarint(b, uint64(len(r.Groups)))
		for _, rows := range r.Groups {
			b = binary.AppendUvarint(b, uint64(len(rows)))
			for _, bins := range rows {
				b = binread.AppendCounts(b, bins)
			}
		}
	}
	b = binary.AppendUvarint(b, uint64(len(c.Losses)))
	for _, l := range c.Losses {
		b = binary.AppendUvarint(binary.AppendUvarint(b, l.Dropped), l.Offered)
	}
	return appendOnsets(b, c.OnsetsKnown, c.Onsets)
}

// DecodeCounts reads the answer to a query.
func DecodeCounts(data []byte, q *CountsQuery) (*Counts, error) {
	if len(data) == 0 || data[0] != FormatVersion {
		return nil, ErrFormat
	}
	r := reader{binread.New(data[1:])}
	c := &Counts{Reads: make([]fold.ReadResult, len(q.Reads)), Losses: make([]fold.Offer, len(q.Losses))}
	if int(r.Uint()) != len(q.Reads) {
		return nil, ErrFormat
	}
	for i := range c.Reads {
		x := &c.Reads[i]
		x.Known, x.Sliced = r.Bool(), r.Bool()
		for range r.Count(1) {
			x.Edges = append(x.Edges, time.Duration(r.Uint()))
		}
		x.Oldest, x.Hourly, x.Observed = r.time(), r.time(), r.spans()
		n := r.Count(1)
		if r.Bad() || x.Known && n != len(q.Reads[i].Groups) || !x.Known && n != 0 {
			return nil, ErrFormat
		}
		if x.Known {
			x.Groups = make([][][]uint64, n)
		}
		for g := range n {
			rows := r.Count(1)
			if rows == 0 {
				continue
			}
			if rows != len(q.Reads[i].Spans) {
				return nil, ErrFormat
			}
			x.Groups[g] = make([][]uint64, rows)
			for k := range rows {
				if x.Groups[g][k] = r.Counts(); len(x.Groups[g][k]) != len(x.Groups[g][0]) {
					return nil, ErrFormat
				}
			}
		}
	}
	if int(r.Uint()) != len(q.Losses) {
		return nil, ErrFormat
	}
	for i := range c.Losses {
		c.Losses[i] = fold.Offer{Dropped: r.Uint(), Offered: r.Uint()}
	}
	c.OnsetsKnown, c.Onsets = r.onsets()
	if !r.Done() {
		return nil, ErrFormat
	}
	return c, nil
}

// errOtherCounts is the error of answers that cannot be added.
var errOtherCounts = errors.New("the engines count it in different ways")

// addReads adds up what several engines counted in times of the past. A nil part is an engine that did not answer: it
// observed nothing.
func addReads(n int, parts []*Counts) ([]fold.ReadResult, error) {
	out := make([]fold.ReadResult, n)
	for i := range out {
		x := &out[i]
		x.Parts = make([][]slo.Span, len(parts))
		for p, c := range parts {
			if c == nil || !c.Reads[i].Known {
				continue
			}
			r := &c.Reads[i]
			x.Parts[p] = r.Observed
			if !x.Known {
				*x = fold.ReadResult{Known: true, Sliced: r.Sliced, Edges: r.Edges, Oldest: r.Oldest, Hourly: r.Hourly, Groups: r.Groups, Parts: x.Parts}
				continue
			}
			if x.Oldest.Before(r.Oldest) {
				x.Oldest = r.Oldest
			}
			if x.Hourly.Before(r.Hourly) {
				x.Hourly = r.Hourly
			}
			for g, rows := range r.Groups {
				switch {
				case rows == nil:
				case x.Groups[g] == nil:
					x.Groups[g] = rows
				default:
					for k, bins := range rows {
						if len(bins) != len(x.Groups[g][k]) {
							return nil, errOtherCounts
						}
						addCounts(x.Groups[g][k], bins)
					}
				}
			}
		}
		var all []slo.Span
		for _, spans := range x.Parts {
			all = append(all, spans...)
		}
		x.Observed = slo.MergeSpans(all)
	}
	return out, nil
}
