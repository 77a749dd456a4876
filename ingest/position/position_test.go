package position

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/internal/binread"
)

func TestAppendAndParse(t *testing.T) {
	in := []Progress{
		{Stream: Stream{"orders", [16]byte{1, 2, 15: 9}, 11}, Epoch: 7, Ranges: []Range{{0, 10}, {12, 1 << 40}},
			Partial: []Partial{{10, []int32{0, 2}}, {11, []int32{5}}}},
		{Stream: Stream{Name: "payments"}},
	}
	for _, generation := range []uint32{0, 300} {
		for _, backlog := range []int64{0, 1 << 40} {
			in[1].Generation, in[0].Backlog = generation, backlog
			// Without the rest, it is the form for streams that have no progress.
			older := map[int]bool{}
			n := len(Append(nil, "kafka", []Progress{
				{Stream: in[0].Stream, Epoch: 7, Ranges: in[0].Ranges, Partial: in[0].Partial}, {Stream: in[1].Stream}}))
			if generation > 0 || backlog > 0 {
				older[n] = true
				n += 1 + len(binary.AppendUvarint(nil, uint64(generation)))
			}
			if backlog > 0 {
				older[n] = true
			}
			b := Append([]byte("x"), "kafka", in)
			source, out, err := Parse(b[1:])
			require.NoError(t, err)
			require.Equal(t, "kafka", source)
			require.Equal(t, in, out)
			for cut := range len(b) - 1 {
				if _, _, err := Parse(b[1 : 1+cut]); !older[cut] {
					require.Error(t, err, "cut at %d", cut)
				}
			}
			_, _, err = Parse(append(b[1:], 0))
			require.Error(t, err)
		}
	}
}

// Where the backlog of a stream ends is said while it is read, and known from then on, as a checkpoint and a document
// have it.
func TestBacklog(t *testing.T) {
	b := NewBook()
	stream := Stream{Name: "orders"}
	for _, p := range []Progress{{Stream: stream, Backlog: 90, Ranges: []Range{{0, 10}}},
		{Stream: stream, Ranges: []Range{{10, 20}}}} {
		require.NoError(t, b.Apply(Append(nil, "kafka", []Progress{p})))
	}
	require.EqualValues(t, 90, b.Of("kafka")[0].Backlog)
	again, imported, text := NewBook(), NewBook(), &bytes.Buffer{}
	require.NoError(t, again.Restore(b.Encode(nil)))
	require.Equal(t, b.Of("kafka"), again.Of("kafka"))
	require.NoError(t, b.WriteDocument(text, ""))
	require.NoError(t, imported.ReadDocument(text.Bytes()))
	require.Equal(t, b.Of("kafka"), imported.Of("kafka"))
	require.NoError(t, b.Apply(Append(nil, "kafka", []Progress{{Stream: stream, Generation: 1, Ranges: []Range{{0, 5}}}})))
	require.Zero(t, b.Of("kafka")[0].Backlog, "its offsets are other messages now")
}

// A Book knows exactly the messages that were applied to it, in any order, and keeps them over a
// checkpoint.
func TestBookIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct{ offset, index int64 }
		b := NewBook()
		stream := Stream{Name: "orders", Partition: 3}
		whole, parts := map[int64]bool{}, map[event]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := Progress{Stream: stream}
			if rapid.Bool().Draw(t, "partial") {
				m := Partial{
					Offset: rapid.Int64Range(0, 60).Draw(t, "offset"), Done: []int32{rapid.Int32Range(0, 3).Draw(t, "index")}}
				p.Partial = append(p.Partial, m)
				parts[event{m.Offset, int64(m.Done[0])}] = true
			} else {
				from := rapid.Int64Range(0, 60).Draw(t, "from")
				r := Range{from, from + rapid.Int64Range(0, 9).Draw(t, "length")}
				p.Ranges = append(p.Ranges, r)
				for i := r.From; i < r.To; i++ {
					whole[i] = true
				}
			}
			require.NoError(t, b.Apply(Append(nil, "kafka", []Progress{p})))
			if rapid.Bool().Draw(t, "checkpoint") {
				saved := b.Encode(nil)
				b = NewBook()
				require.NoError(t, b.Restore(saved))
				require.Equal(t, saved, b.Encode(nil))
			}
		}
		got := b.Of("kafka")
		require.Len(t, got, 1)
		partial := map[event]bool{}
		for _, m := range got[0].Partial {
			for _, i := range m.Done {
				partial[event{m.Offset, int64(i)}] = true
			}
		}
		last := int64(-1)
		for i := int64(-2); i < 80; i++ {
			require.Equal(t, whole[i], got[0].Has(i), "message %d of %v", i, got[0].Ranges)
			for k := range int64(4) {
				require.Equal(t, parts[event{i, k}] && !whole[i], partial[event{i, k}], "event %d of message %d", k, i)
			}
			if whole[i] {
				last = i
			}
		}
		next, ok := got[0].Next()
		require.Equal(t, last >= 0, ok)
		if ok {
			require.Equal(t, last+1, next)
		}
		for i := 1; i < len(got[0].Ranges); i++ {
			require.Less(t, got[0].Ranges[i-1].To, got[0].Ranges[i].From, "neighbours are joined")
		}
	})
}

// A topic that was created again takes the place of the old one.
func TestRecreatedTopic(t *testing.T) {
	b := NewBook()
	old, renewed := Stream{"orders", [16]byte{1}, 0}, Stream{"orders", [16]byte{2}, 0}
	other := Stream{"orders", [16]byte{1}, 1}
	for _, s := range []Stream{old, other, renewed} {
		require.NoError(t, b.Apply(Append(nil, "kafka", []Progress{{Stream: s, Ranges: []Range{{0, 5}}}})))
	}
	got := b.Of("kafka")
	require.Len(t, got, 2)
	require.Equal(t, renewed, got[0].Stream)
	require.Equal(t, other, got[1].Stream, "each partition is renewed with its first message")
}

// A stream that lost its end begins a generation with the rest of it, and later positions of the previous
// generation change nothing.
func TestGenerations(t *testing.T) {
	b := NewBook()
	stream := Stream{Name: "orders", ID: [16]byte{1}}
	apply := func(p Progress) {
		p.Stream = stream
		require.NoError(
			t, b.Apply(Append(nil, "kafka", []Progress{p, {Stream: Stream{Name: "other"}, Ranges: []Range{{0, 5}}}})))
		saved := b.Encode(nil)
		b = NewBook()
		require.NoError(t, b.Restore(saved))
		require.Equal(t, saved, b.Encode(nil))
	}
	ranges := func() []Range { return b.Of("kafka")[0].Ranges }
	apply(Progress{Epoch: 3, Ranges: []Range{{0, 100}}, Partial: []Partial{{110, []int32{1}}}})
	apply(Progress{Generation: 1, Epoch: 2, Ranges: []Range{{0, 60}}})
	require.Equal(t, Progress{Stream: stream, Generation: 1, Epoch: 2, Ranges: []Range{{0, 60}}}, b.Of("kafka")[0])
	apply(Progress{Generation: 1, Epoch: 4, Ranges: []Range{{60, 80}}})
	apply(Progress{Epoch: 3, Ranges: []Range{{100, 120}}})
	require.Equal(t, []Range{{0, 80}}, ranges())

	// The positions of two engines, of which one did not see the loss, in any order.
	old := NewBook()
	require.NoError(t, old.Apply(Append(nil, "kafka", []Progress{{Stream: stream, Ranges: []Range{{0, 100}}}})))
	var older, newer bytes.Buffer
	require.NoError(t, old.WriteDocument(&older, ""))
	require.NoError(t, b.WriteDocument(&newer, ""))
	require.Contains(t, newer.String(), `"losses_in_broker": 1`)
	require.NotContains(t, older.String(), "losses_in_broker")
	for _, order := range [][]*bytes.Buffer{{&older, &newer}, {&newer, &older}} {
		merged := NewBook()
		for _, d := range order {
			require.NoError(t, merged.ReadDocument(d.Bytes()))
		}
		require.Equal(t, b.Of("kafka"), merged.Of("kafka"))
	}

	// A topic that was created again begins from generation 0.
	stream.ID = [16]byte{2}
	apply(Progress{Ranges: []Range{{0, 3}}})
	require.Equal(t, []Range{{0, 3}}, ranges())
	require.Zero(t, b.Of("kafka")[0].Generation)
}

// A checkpoint of format 2 has no backlogs.
func TestRestoreFormat2(t *testing.T) {
	p := Progress{Stream: Stream{Name: "orders", Partition: 2}, Epoch: 1, Generation: 4, Ranges: []Range{{3, 5}}}
	data := append([]byte{2, 7, 1}, binread.AppendText(nil, "kafka")...)
	data = p.append(append(data, 1, 6, 4)) // one stream, moved by the sixth position, of generation 4
	b := NewBook()
	require.NoError(t, b.Restore(data))
	require.Equal(t, []Progress{p}, b.Of("kafka"))
}

func TestBookIsBounded(t *testing.T) {
	b := NewBook()
	for i := range int64(MaxRanges + 10) {
		require.NoError(t, b.Apply(Append(nil, "kafka", []Progress{{Ranges: []Range{{i * 10, i*10 + 5}}}})))
	}
	got := b.Of("kafka")[0]
	require.Len(t, got.Ranges, MaxRanges)
	require.True(t, got.Has(7), "what lies between the oldest ranges is not read again")
	require.False(t, got.Has(MaxRanges*10+7))

	streams := make([]Progress, MaxStreams)
	for i := range streams {
		streams[i].Stream = Stream{Name: fmt.Sprint(i)}
	}
	require.NoError(t, b.Apply(Append(nil, "other", streams)))
	require.NoError(t, b.Apply(Append(nil, "other", []Progress{{Stream: Stream{Name: "0"}}})))
	require.NoError(t, b.Apply(Append(nil, "other", []Progress{{Stream: Stream{Name: "new"}}})))
	names := map[string]bool{}
	for _, p := range b.Of("other") {
		names[p.Stream.Name] = true
	}
	require.Len(t, names, MaxStreams)
	require.True(t, names["0"] && names["new"])
	require.False(t, names["1"], "the one that did not move for longest")
	require.Equal(t, []string{"kafka", "other"}, b.Sources())
}

func TestRestoreRefusesDamage(t *testing.T) {
	b := NewBook()
	require.NoError(
		t, b.Apply(Append(nil, "kafka", []Progress{{Stream: Stream{Name: "orders"}, Ranges: []Range{{3, 5}}}})))
	saved := b.Encode(nil)
	for cut := range saved {
		require.Error(t, NewBook().Restore(saved[:cut]))
	}
	saved[0]++
	require.ErrorContains(t, NewBook().Restore(saved), "positions have format 4, and this program reads formats 2 to 3")
	saved[0] = 1
	require.ErrorContains(t, NewBook().Restore(saved), "positions have format 1, and this program reads formats 2 to 3")
}

func TestDocument(t *testing.T) {
	b := NewBook()
	orders := Stream{"orders", [16]byte{1, 15: 255}, 2}
	require.NoError(t, b.Apply(Append(nil, "kafka", []Progress{
		{Stream: orders, Epoch: 4, Ranges: []Range{{0, 10}, {12, 20}}, Partial: []Partial{{30, []int32{0, 2}}}},
		{Stream: Stream{Name: "orders", Partition: 1}, Ranges: []Range{{5, 6}}},
	})))
	require.NoError(t, b.Apply(Append(nil, "other", []Progress{{Stream: Stream{Name: "x"}, Ranges: []Range{{1, 2}}}})))
	var all, one bytes.Buffer
	require.NoError(t, b.WriteDocument(&all, ""))
	require.NoError(t, b.WriteDocument(&one, "kafka"))
	require.Contains(t, all.String(), `"topic_id": "010000000000000000000000000000ff"`)
	again := NewBook()
	require.NoError(t, again.ReadDocument(one.Bytes()))
	require.Equal(t, []string{"kafka"}, again.Sources())
	require.NoError(t, again.ReadDocument(all.Bytes()), "what it has already changes nothing")
	require.Equal(t, b.Of("kafka"), again.Of("kafka"))
	require.Equal(t, b.Of("other"), again.Of("other"))

	for text, want := range map[string]string{
		`{`:                           "invalid positions",
		`{"version":3}`:               "positions have format 3",
		`{"version":1,"positions":1}`: "invalid positions",
		`{"version":1,"more":1}`:      `unknown field "more"`,
		`{"version":1,"positions":[{"source":"k","topic":"","partition":0,"counted":[]}]}`: "required",
		`{"version":1,"positions":[{"source":"k","topic":"t","topic_id":"0g","partition":0,` +
			`"counted":[]}]}`: "32 hexadecimal digits",
		`{"version":1,"positions":[{"source":"k","topic":"t","partition":0,"counted":[[5,5]]}]}`: "range [5, 5] is empty",
		`{"version":1,"positions":[{"source":"k","topic":"t","partition":0,"counted":[],"partial":[{"offset":1,` +
			`"events":[]}]}]}`: "partial message 1",
		`{"version":1,"positions":[{"source":"kafka","topic":"orders","partition":2,"counted":[[0,1]]}]}`: "created again",
	} {
		require.ErrorContains(t, again.ReadDocument([]byte(text)), want, text)
	}
}
