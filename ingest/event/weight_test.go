package event

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAppendWeightedEqualsEncodingAgain: the spliced bytes equal those of AppendBinary.
func TestAppendWeightedEqualsEncodingAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent.Draw(t, "event")
		e.Weight = rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 1000)).Draw(t, "had")
		w := rapid.OneOf(rapid.Uint32Range(1, 200), rapid.Uint32Range(1, 4_000_000)).Draw(t, "weight")
		before := []byte("before")
		got, err := AppendWeighted(slices.Clone(before), AppendBinary(nil, e), w)
		require.NoError(t, err)
		e.Weight *= w
		require.Equal(t, AppendBinary(before, e), got)
	})
}

func TestAppendWeightedErrors(t *testing.T) {
	good := AppendBinary(nil, sample())
	heavy, err := AppendWeighted(nil, good, 1<<31)
	require.NoError(t, err)
	same, err := AppendWeighted(nil, heavy, 1)
	require.NoError(t, err)
	require.Equal(t, heavy, same)
	dst := []byte("x")
	for _, c := range []struct {
		name   string
		bin    []byte
		weight uint32
		is     error
	}{
		{"no weight", good, 0, nil},
		{"too much", heavy, 2, nil},
		{"two events", slices.Concat(good, good), 2, ErrMalformed},
		{"nothing", nil, 2, ErrShort},
		{"newer", slices.Concat(good[:lengthBytes], []byte{flagMore}, good[lengthBytes+1:]), 2, ErrNewer},
		{"no body", []byte{1, 0, 0, 0, 0}, 2, ErrMalformed},
		{"cut in a field", []byte{10, 0, 0, 0, flagCount, 0, 0, 0, 0, 0, 0, 0, 0, 0x80}, 2, ErrMalformed},
		{"weight beyond its range", []byte{15, 0, 0, 0, flagWeight, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
			2, ErrMalformed},
	} {
		got, err := AppendWeighted(dst, c.bin, c.weight)
		require.Error(t, err, c.name)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.name)
		}
		require.Equal(t, dst, got, c.name)
	}
	for i := range good {
		_, err := AppendWeighted(nil, good[:i], 2)
		require.ErrorIs(t, err, ErrShort)
	}
}

// TestParseRefusesOddWeights: 0 and 1 are written by leaving the weight out, and
// more than 32 bits do not fit.
func TestParseRefusesOddWeights(t *testing.T) {
	var v View
	bin := AppendBinary(nil, &Event{Service: "s", Type: "t", Time: time.Unix(0, 1), Weight: 2})
	_, err := v.Parse(bin)
	require.NoError(t, err)
	require.EqualValues(t, 2, v.Weight)
	for _, weight := range []byte{0, 1} {
		bin[lengthBytes+fixedBytes] = weight
		_, err = v.Parse(bin)
		require.ErrorIs(t, err, ErrMalformed)
	}
	most := AppendBinary(nil, &Event{Service: "s", Type: "t", Time: time.Unix(0, 1), Weight: math.MaxUint32})
	_, err = v.Parse(most)
	require.NoError(t, err)
	most[lengthBytes+fixedBytes+4] = 0x1f
	_, err = v.Parse(most)
	require.ErrorIs(t, err, ErrMalformed)
}

// TestWeightFromJSON: a replay may give a weight, a sender may not.
func TestWeightFromJSON(t *testing.T) {
	var d Decoder
	var b Batch
	body := []byte(with(`"weight":10,"count":3`))
	require.NoError(t, d.Decode(NDJSON, body, DecodeOptions{Now: now}, &b))
	require.Empty(t, b.Events)
	require.Equal(t, CodeUnknownField, b.Errors[0].Code)

	require.NoError(t, d.Decode(NDJSON, body, DecodeOptions{Now: now, AllowWeight: true}, &b))
	require.Len(t, b.Events, 1, "%v", b.Errors)
	var v View
	_, err := v.Parse(b.Event(0))
	require.NoError(t, err)
	require.EqualValues(t, 10, v.Weight)
	require.EqualValues(t, 3, v.Count)

	for _, bad := range []string{"0", "-1", "1.5", "4294967296"} {
		require.NoError(t, d.Decode(NDJSON, []byte(with(`"weight":`+bad)), DecodeOptions{Now: now, AllowWeight: true}, &b))
		require.Equal(t, CodeBadCount, b.Errors[0].Code)
		require.Contains(t, b.Errors[0].Detail, `"weight"`)
	}
	require.NoError(t, d.Decode(NDJSON, body, DecodeOptions{Now: now}, &b), "it is not remembered")
	require.Empty(t, b.Events)
	var e Event
	require.Error(t, d.DecodeEvent(body, &e))
	require.NoError(t, e.UnmarshalJSON(body))
	require.EqualValues(t, 10, e.Weight)
}

func TestAppendWeightedAllocatesNothing(t *testing.T) {
	bin := AppendBinary(nil, sample())
	buf := make([]byte, 0, 1024)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if _, err := AppendWeighted(buf, bin, 10); err != nil {
			t.Fatal(err)
		}
	}))
}

func BenchmarkAppendWeighted(b *testing.B) {
	bin := AppendBinary(nil, sample())
	var buf []byte
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = AppendWeighted(buf[:0], bin, 10); err != nil {
			b.Fatal(err)
		}
	}
}
