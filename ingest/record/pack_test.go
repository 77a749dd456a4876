package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/wal"
)

// requirePacked packs payloads as one block, and requires that they come out as they were. It returns the columns.
func requirePacked(t testing.TB, payloads ...[]byte) [][]byte {
	t.Helper()
	p, u := Form().Packer(), Form().Unpacker()
	p.Begin()
	var packed [][]byte
	for _, b := range payloads {
		if p.Pack(&wal.Record{Type: TypeEvents, Payload: b}, nil) {
			packed = append(packed, b)
		}
	}
	columns := p.Columns()
	require.NoError(t, u.Open(columns))
	for _, want := range packed {
		got, err := u.Next(nil, len(want))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%x\n%x", want, got)
	}
	for i, c := range u.(*unpacker).c.columns {
		require.Empty(t, c, "column %d", i)
	}
	return columns
}

func payloadOf(events ...[]byte) []byte {
	return append(AppendHead(nil, len(events), &event.Batch{}, nil), bytes.Join(events, nil)...)
}

// randomText has the forms that ids and values have, and others.
func randomText(rng *rand.Rand) string {
	switch rng.IntN(16) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", rng.Uint32(), rng.IntN(1<<16), rng.IntN(1<<16), rng.IntN(1<<16),
			rng.Uint64N(1<<48))
	case 2:
		return fmt.Sprintf("%016x%016x-%016x", rng.Uint64(), rng.Uint64(), rng.Uint64())
	case 3:
		return fmt.Sprint(rng.Uint64())
	case 4:
		return fmt.Sprintf("ord-%d-%06d", rng.Uint32(), rng.IntN(1e6))
	case 5:
		return fmt.Sprintf("%0*d", 1+rng.IntN(40), rng.IntN(10))
	case 6:
		return fmt.Sprint("a", rng.IntN(10), "-", rng.IntN(100), ".", rng.IntN(1000), ":", rng.IntN(9), "/",
			rng.IntN(9), "x", 1, "-", 2, "-", 3, "-", 4, "-", 5, "-", 6)
	case 7:
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		return string(b)
	case 8:
		b := make([]byte, 1+rng.IntN(30))
		for i := range b {
			b[i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghijk"[rng.IntN(43)]
		}
		return string(b)
	case 9:
		return fmt.Sprintf("%x", rng.IntN(1<<20))
	case 10:
		return string(bytes.Repeat([]byte("long"), rng.IntN(600)))
	}
	return fmt.Sprint("value-", rng.IntN(4))
}

func randomEvent(rng *rand.Rand) *event.Event {
	e := &event.Event{
		ID: randomText(rng), Service: randomText(rng), Type: randomText(rng), Outcome: event.Outcome(rng.IntN(2)),
		Time: time.Unix(0, []int64{1, 1e3, 1e6, 1e9}[rng.IntN(4)]*(rng.Int64N(1e9)-1e6)),
	}
	if rng.IntN(2) == 0 {
		e.HasDuration, e.Duration = true, time.Duration(rng.Int64N(1<<rng.IntN(60)+1))
	}
	if rng.IntN(4) == 0 {
		e.Count, e.Weight = rng.Uint32(), rng.Uint32()
	}
	if rng.IntN(3) == 0 {
		e.Severity = randomText(rng)
	}
	for i := range rng.IntN(6) {
		e.Attributes = append(e.Attributes, event.Attr{Name: fmt.Sprint("name-", i, rng.IntN(3)), Value: randomText(rng)})
	}
	if rng.IntN(8) == 0 {
		for range 1 + rng.IntN(3) {
			e.Durations = append(e.Durations, event.DurationCount{Duration: time.Duration(rng.IntN(1e9)), Count: 1 +
				rng.Uint32N(9)})
		}
	}
	return e
}

// TestPackedRecordsAreTheSame: whatever events say, and whatever else the bytes of a record are.
func TestPackedRecordsAreTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 200 {
		var payloads [][]byte
		for range 1 + rng.IntN(20) {
			var events [][]byte
			for range rng.IntN(40) {
				e := event.AppendBinary(nil, randomEvent(rng))
				if rng.IntN(50) == 0 { // not what a writer makes
					e[4+rng.IntN(len(e)-4)] = byte(rng.IntN(256))
				}
				events = append(events, e)
				if rng.IntN(3) == 0 {
					events = append(events, e)
				}
			}
			payloads = append(payloads, payloadOf(events...))
		}
		if round == 0 {
			payloads = append(payloads, nil, []byte{1}, []byte{200, 1, 64}, payloadOf([]byte{9, 0, 0, 0, 0}))
		}
		requirePacked(t, payloads...)
	}
	// More texts of each kind than there are codes.
	e := &event.Event{ID: "x", Service: "s", Type: "t"}
	var events [][]byte
	for i := range maxCodes + 2000 {
		e.Time = time.Unix(0, int64(i%7))
		e.Attributes = []event.Attr{{Name: fmt.Sprint("n", i%(maxNames+9)), Value: fmt.Sprint("v", i%(maxCodes+1000))}}
		events = append(events, event.AppendBinary(nil, e))
	}
	requirePacked(t, payloadOf(events...))
	for i := range events {
		e.ID, e.Attributes = string([]rune{'a' + rune(i%26), '-', 'a' + rune(i/26%26), '.', 'a' + rune(i/676)}), nil
		events[i] = event.AppendBinary(nil, e)
	}
	requirePacked(t, payloadOf(events...))
	e.Time = time.Unix(0, math.MinInt64)
	late := event.AppendBinary(nil, e)
	e.Time = time.Unix(0, math.MaxInt64)
	requirePacked(t, payloadOf(late, event.AppendBinary(nil, e), late))
}

func FuzzPack(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		f.Add(payloadOf(event.AppendBinary(nil, randomEvent(rng)), event.AppendBinary(nil, randomEvent(rng))))
	}
	f.Fuzz(func(t *testing.T, payload []byte) { requirePacked(t, payload, payload) })
}

// FuzzUnpack: no columns make an unpacker panic, or take more memory than its caller allows.
func FuzzUnpack(f *testing.F) {
	join := func(columns [][]byte) (out []byte) {
		for _, c := range columns {
			out = appendBytes(out, c)
		}
		return out
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		f.Add(join(requirePacked(f, payloadOf(event.AppendBinary(nil, randomEvent(rng)),
			event.AppendBinary(nil, randomEvent(rng))))))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		columns := make([][]byte, numColumns)
		for i := range columns {
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return
			}
			columns[i], data = data[n:n+int(size)], data[n+int(size):]
		}
		u := Form().Unpacker()
		require.NoError(t, u.Open(columns))
		for range 10 {
			if out, err := u.Next(nil, 1<<20); err != nil {
				return
			} else if len(out) > 1<<21 {
				t.Fatal(len(out))
			}
		}
	})
}
