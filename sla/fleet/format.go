package fleet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// This file holds the answer of an engine to a request for its sums: the version, a head in JSON, and then what there
// is most of, in binary. There numbers are uvarints, times are Unix nanoseconds, texts and lists begin with their
// length. FormatVersion changes with any change of it.

// FormatVersion is the version of the answers, which they begin with.
const FormatVersion = 4

// ContentType is the media type of the answers.
const ContentType = "application/vnd.sloengine.sums"

// SpecHeader is the header of an answer that names the hash of the spec that the engine runs.
const SpecHeader = "Sloengine-Spec"

// ErrFormat is the error of an answer that is none, or one of another version.
var ErrFormat = errors.New("not an answer of this version of sloengine")

// Answer is what an engine counted, at one position of its log.
type Answer struct {
	Run     string // of the engine's process: RawSlices.Clock means nothing to another one
	Request uint64 // RequestSum of what was asked
	Sums    *fold.Sums
	Notes   Notes // with Sums only
	Raw     fold.RawSlices
}

// RequestSum tells requests apart: a spec that both sides read alike gives equal requests for one time.
func RequestSum(r *fold.Request) uint64 {
	h := fnv.New64a()
	var b []byte
	span := func(s slo.Span) {
		b = binary.AppendVarint(binary.AppendVarint(b, s.From.UnixNano()), s.To.UnixNano())
	}
	for _, s := range r.Spans {
		span(s)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Extra)) {
		b = binread.AppendText(b, id)
		for _, s := range r.Extra[id] {
			span(s)
		}
	}
	_, _ = h.Write(b)
	return h.Sum64()
}

// answerHead is an answer without what follows it: groups, eras and slices.
type answerHead struct {
	Run     string
	Request uint64
	Sums    *fold.Sums
	Notes   *Notes
}

// Encode writes an answer. The window sums of sliced indicators are left out, since they are judgements of a part.
func Encode(a *Answer) []byte {
	h := answerHead{Run: a.Run, Request: a.Request}
	var groups []fold.Group
	var eras []fold.Era
	if a.Sums != nil { // nil: more slices to an answer before
		s := *a.Sums
		groups, eras, s.Groups, s.Eras = s.Groups, s.Eras, nil, nil
		h.Sums, h.Notes = &s, &a.Notes
	}
	text, err := json.Marshal(&h)
	if err != nil {
		return nil // only times after the year 9999 and infinite numbers cannot be encoded, and the fold has none
	}
	b := make([]byte, 0, len(text)+64<<10)
	b = binread.AppendText(append(b, FormatVersion), string(text))
	if a.Sums != nil {
		b = binary.AppendUvarint(b, uint64(len(eras)))
	}
	for i := range eras {
		e := &eras[i]
		n := 0
		for n < len(groups) && groups[n].Indicator.ID == e.Indicator {
			n++
		}
		b = appendIndicator(b, e, groups[:n])
		groups = groups[n:]
	}
	return appendRaw(b, &a.Raw)
}

// appendIndicator writes what an indicator counted: its era, then its groups.
func appendIndicator(b []byte, e *fold.Era, groups []fold.Group) []byte {
	b = binread.AppendText(b, e.Indicator)
	b = binary.AppendUvarint(b, uint64(e.Generation))
	b = appendTime(b, e.Since)
	b = appendSpans(b, e.Backfilled)
	var dropped []uint64
	if e.Loss != nil {
		dropped = e.Loss.Dropped
	}
	b = binread.AppendCounts(b, dropped)
	b = binary.AppendUvarint(b, uint64(len(groups)))
	for i := range groups {
		g := &groups[i]
		b = binread.AppendTexts(b, g.Values)
		b = appendTime(b, g.LastEvent)
		if g.Indicator.Slice != nil {
			continue
		}
		b = binread.AppendCounts(b, g.Total)
		b = binread.AppendCounts(b, g.Old)
		b = binary.AppendUvarint(b, uint64(len(g.Spans)))
		for _, bins := range g.Spans {
			for _, n := range bins {
				b = binary.AppendUvarint(b, n)
			}
		}
		b = binread.AppendCounts(b, g.Excess)
		b = binary.AppendUvarint(b, uint64(len(g.Moved)))
		for _, m := range g.Moved {
			b = binary.AppendUvarint(b, uint64(len(m.Spans)))
			for _, bins := range m.Spans {
				b = binread.AppendCounts(b, bins)
			}
			b = binread.AppendCounts(b, m.Excess)
		}
	}
	return b
}

func appendRaw(b []byte, r *fold.RawSlices) []byte {
	b = binary.AppendUvarint(b, r.Clock)
	b = binary.AppendUvarint(b, r.Config)
	b = binary.AppendUvarint(b, uint64(len(r.Stores)))
	for i := range r.Stores {
		s := &r.Stores[i]
		for _, n := range []int64{int64(s.Per), int64(s.Keep), s.First, s.Next} {
			b = binary.AppendVarint(b, n)
		}
		b = binary.AppendUvarint(b, uint64(len(s.Columns)))
		for _, c := range s.Columns {
			b = binary.AppendUvarint(b, uint64(c.At))
			b = binread.AppendTexts(binread.AppendText(b, c.Indicator), c.Values)
			b = binary.AppendVarint(b, c.From)
			b = binread.AppendBool(b, c.Dropped)
		}
		b = binary.AppendUvarint(b, uint64(len(s.Blocks)))
		for _, x := range s.Blocks {
			b = binary.AppendVarint(b, x.Number)
			b = binread.AppendText(b, string(x.Data))
		}
	}
	b = binread.AppendBool(b, r.More)
	b = binary.AppendUvarint(b, uint64(r.Next.Store))
	return binary.AppendVarint(b, r.Next.Slice)
}

func appendSpans(b []byte, spans []slo.Span) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	for _, s := range spans {
		b = appendTime(appendTime(b, s.From), s.To)
	}
	return b
}

// appendTime writes 0 for the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	return binary.AppendVarint(b, t.UnixNano())
}

// reader reads the fields. Every count of entries is bounded by the bytes that are left.
type reader struct{ binread.Reader }

// texts is never nil, as the values of a group are not.
func (r *reader) texts() []string { return append([]string{}, r.Texts()...) }

func (r *reader) time() time.Time {
	ns := r.Varint()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func (r *reader) spans() []slo.Span {
	n := r.Count(2)
	if n == 0 {
		return nil
	}
	out := make([]slo.Span, n)
	for i := range out {
		out[i] = slo.Span{From: r.time(), To: r.time()}
	}
	return out
}
