package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
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

	Traces *TracesOf `json:"traces,omitempty"` // asks for failing traces
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
	OnsetsKnown bool // false if those of that time are not retained any more

	Traces []traces.Trace
}

type countsAnswer struct {
	Version int // FormatVersion
	*Counts
}

// EncodeCounts writes an answer.
func EncodeCounts(c *Counts) []byte {
	data, err := json.Marshal(countsAnswer{FormatVersion, c})
	if err != nil {
		return nil // only times after the year 9999 cannot be encoded, and the fold has none
	}
	return data
}

// DecodeCounts reads the answer to a query.
func DecodeCounts(data []byte, q *CountsQuery) (*Counts, error) {
	c := new(Counts)
	a := countsAnswer{Counts: c}
	if json.Unmarshal(data, &a) != nil || a.Version != FormatVersion || len(c.Reads) != len(q.Reads) ||
		len(c.Losses) != len(q.Losses) || len(c.Onsets) > MaxOnsets ||
		len(c.Traces) > traces.MaxPerSLO {
		return nil, ErrFormat
	}
	for i := range c.Reads {
		x := &c.Reads[i]
		if x.Known && len(x.Groups) != len(q.Reads[i].Groups) || !x.Known && len(x.Groups) > 0 {
			return nil, ErrFormat
		}
		for _, rows := range x.Groups {
			if rows != nil && len(rows) != len(q.Reads[i].Spans) {
				return nil, ErrFormat
			}
			for _, bins := range rows {
				if len(bins) != len(rows[0]) {
					return nil, ErrFormat
				}
			}
		}
	}
	return c, nil
}

// errOtherCounts is the error of answers that cannot be added.
var errOtherCounts = errors.New("the engines count it in different ways")

// addReads adds up what several engines counted in times of the past. A nil part is an engine that did not answer: it
// observed nothing. What is alike in all engines is that of the one that observed most of it.
func addReads(n int, parts []*Counts, alike []bool) ([]fold.ReadResult, error) {
	out := make([]fold.ReadResult, n)
	for i := range out {
		x, parts := &out[i], parts
		if alike[i] {
			parts = []*Counts{fullest(parts, i)}
		}
		x.Parts = make([][]slo.Span, len(parts))
		for p, c := range parts {
			if c == nil || !c.Reads[i].Known {
				continue
			}
			r := &c.Reads[i]
			x.Parts[p] = r.Observed
			if !x.Known {
				*x = fold.ReadResult{Known: true, Sliced: r.Sliced, Edges: r.Edges, Oldest: r.Oldest, Hourly: r.Hourly,
					Groups: r.Groups, Parts: x.Parts}
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

// fullest is the part that observed most of what a read asks for; nil if none knows it.
func fullest(parts []*Counts, read int) (out *Counts) {
	most := time.Duration(-1)
	for _, c := range parts {
		if c == nil || !c.Reads[read].Known {
			continue
		}
		sum := time.Duration(0)
		for _, s := range c.Reads[read].Observed {
			sum += s.Duration()
		}
		if sum > most {
			out, most = c, sum
		}
	}
	return out
}
