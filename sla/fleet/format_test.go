package fleet

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// busy is an engine with counts of all kinds, and a request for them.
func busy(t *testing.T) (*world, *counter, fold.Request) {
	w := newWorld(t, 8)
	w.pass(3*time.Hour, 12)
	w.drop(5)
	return w, w.whole, w.whole.eval.Request(w.now, true)
}

func TestFormat(t *testing.T) {
	w, c, req := busy(t)
	sums := c.fold.Sums(req)
	note := annotation.Annotation{ID: "n1", At: began, Kind: annotation.Note, Service: "shop", Text: "load test",
		Author: "Ann", Created: began.Add(time.Second)}
	broken := note
	broken.Text = "a\nb"
	a := &Answer{Run: "run", Request: RequestSum(&req), Sums: sums,
		Notes: Notes{Changes: 7, All: []annotation.Annotation{broken, note}}, Raw: c.fold.Raw(fold.RawRequest{Bytes: 500})}
	data := Encode(a)
	got, err := Decode(data, w.cfg, &req)
	require.NoError(t, err)
	require.Equal(t, a.Run, got.Run)
	require.Equal(t, a.Request, got.Request)
	require.Equal(t, Notes{Changes: 7, All: []annotation.Annotation{note}}, got.Notes, "what is invalid is left out")
	require.True(t, bytes.Equal(appendRaw(nil, &a.Raw), appendRaw(nil, &got.Raw)))
	require.Equal(t, sums.Traffic, got.Sums.Traffic)
	require.Equal(t, sums.Durations, got.Sums.Durations)
	require.Equal(t, sums.Up, got.Sums.Up)
	require.Equal(t, sums.Watermark, got.Sums.Watermark)
	require.Equal(t, sums.Stats.Dropped, got.Sums.Stats.Dropped)
	require.Len(t, got.Sums.Groups, len(sums.Groups))
	weighed, lost := 0, 0
	for i := range sums.Groups {
		want, have := sums.Groups[i], got.Sums.Groups[i]
		require.Equal(t, want.Values, have.Values)
		require.Equal(t, want.LastEvent, have.LastEvent)
		if want.Indicator.Slice != nil {
			continue
		}
		require.Equal(t, want.Spans, have.Spans)
		require.Equal(t, want.Excess, have.Excess)
		require.Equal(t, want.Total, have.Total)
		weighed += len(want.Excess)
	}
	for i := range sums.Eras {
		require.Equal(t, sums.Eras[i].Since, got.Sums.Eras[i].Since)
		if l := sums.Eras[i].Loss; l != nil {
			lost++
			require.Equal(t, l.Dropped, got.Sums.Eras[i].Loss.Dropped)
		}
	}
	require.NotZero(t, weighed)
	require.NotZero(t, lost)

	// Cut at any byte it is an error. With a byte changed it is one, or other numbers, and never worse. Of the JSON a
	// sample does, and of the numbers, which repeat for every group, one value each.
	r := binread.New(data[1:])
	text := len(r.Bytes())
	for i := 0; i < len(data); i++ {
		_, err := Decode(data[:i], w.cfg, &req)
		require.Error(t, err, "%d of %d bytes", i, len(data))
		bad := bytes.Clone(data)
		bad[i] = []byte{0, 1, 0x7f, 0xff}[i%4]
		_, _ = Decode(bad, w.cfg, &req)
		if i < text {
			i += 14 // an odd step, so that all four values occur
		}
	}
	_, err = Decode(append(data, 0), w.cfg, &req)
	require.ErrorIs(t, err, ErrFormat)
	data[0]++
	_, err = Decode(data, w.cfg, &req)
	require.ErrorIs(t, err, ErrFormat)

	other := *w.cfg
	other.Indicators = other.Indicators[1:]
	data[0]--
	_, err = Decode(data, &other, &req)
	require.ErrorContains(t, err, "indicators instead of")
	other.Indicators = append([]fold.Indicator{w.cfg.Indicators[1], w.cfg.Indicators[0]}, w.cfg.Indicators[2:]...)
	_, err = Decode(data, &other, &req)
	require.ErrorContains(t, err, "in the place of")

	require.Equal(t, RequestSum(&req), RequestSum(&req))
	moved := req
	moved.Spans = append([]slo.Span{{From: req.Spans[0].From.Add(1), To: req.Now}}, req.Spans[1:]...)
	require.NotEqual(t, RequestSum(&req), RequestSum(&moved))
	moved = req
	moved.Extra = nil
	require.NotEqual(t, RequestSum(&req), RequestSum(&moved))
}

var someOnsets = []Onset{
	{"INC-1", began.Add(time.Minute), []Affected{{"shop/availability", slo.Group{"a"}}, {"shop/gold", slo.Group{}}}},
	{"INC-2", began.Add(time.Hour), nil},
}

func TestFormatOfCounts(t *testing.T) {
	w, c, _ := busy(t)
	q := CountsQuery{
		Reads: []CountRead{
			{ID: "shop/availability", Groups: []slo.Group{{"a"}, {"nobody"}},
				Spans: [][2]int64{{began.UnixNano(), w.now.UnixNano()}}},
			{ID: "shop/latency", Groups: []slo.Group{{"a", "web"}},
				Spans: [][2]int64{{began.UnixNano(), w.now.UnixNano()}, {0, 0}}},
			{ID: "shop/none"},
		},
		Losses: []string{"shop/availability"}, Onsets: true, Span: [2]int64{began.UnixNano(), w.now.UnixNano()},
	}
	reads, err := q.Requests()
	require.NoError(t, err)
	want := &Counts{Reads: c.fold.Read(reads), Losses: c.fold.Offers(q.Losses, span(q.Span)),
		Onsets: someOnsets, OnsetsKnown: true}
	require.NotZero(t, want.Losses[0].Dropped)
	data := EncodeCounts(want)
	got, err := DecodeCounts(data, &q)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for n := range data {
		_, err := DecodeCounts(data[:n], &q)
		require.Error(t, err)
		for _, x := range []byte{0, 1, 0xff} {
			bad := append([]byte{}, data...)
			bad[n] = x
			_, _ = DecodeCounts(bad, &q)
		}
	}
	q.Reads = q.Reads[1:]
	_, err = DecodeCounts(data, &q)
	require.ErrorIs(t, err, ErrFormat)

	q.Reads[0].Groups = make([]slo.Group, 2*fold.MaxRead)
	_, err = q.Requests()
	require.ErrorContains(t, err, "counts are asked for")
}

// What all engines with one source count is that of the one that observed most, and is not added.
func TestAlikeReads(t *testing.T) {
	at := func(h int) time.Time { return time.Date(2026, 11, 2, h, 0, 0, 0, time.UTC) }
	part := func(n uint64, hours int) *Counts {
		return &Counts{Reads: []fold.ReadResult{{Known: true, Observed: []slo.Span{{From: at(0), To: at(hours)}},
			Groups: [][][]uint64{{{n}}}}}}
	}
	unknown := &Counts{Reads: []fold.ReadResult{{}}}
	parts := []*Counts{nil, part(10, 3), part(12, 5), part(9, 2), unknown}
	got, err := addReads(1, parts, []bool{true})
	require.NoError(t, err)
	require.Equal(t, [][][]uint64{{{12}}}, got[0].Groups)
	require.Equal(t, [][]slo.Span{{{From: at(0), To: at(5)}}}, got[0].Parts)
	got, err = addReads(1, parts, []bool{false})
	require.NoError(t, err)
	require.Equal(t, [][][]uint64{{{31}}}, got[0].Groups)
	require.Len(t, got[0].Parts, 5)
	got, err = addReads(1, []*Counts{nil, unknown}, []bool{true})
	require.NoError(t, err)
	require.False(t, got[0].Known)
}
