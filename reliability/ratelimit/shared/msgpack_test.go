package shared

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func TestMessagePack(t *testing.T) {
	values := []uint64{0, 1, 127, 128, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, math.MaxUint64}
	for _, n := range []int{0, 1, 15, 16, 65535, 65536} {
		b := appendArray(nil, n)
		var want []uint64
		for i := range n {
			want = append(want, values[i%len(values)])
			b = appendUint(b, want[i])
		}
		got, err := parseUints(nil, string(b))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := parseUints(nil, "\x94\xd0\x7f\xd1\x01\x00\xd2\x00\x01\x00\x00\xd3\x00\x00\x00\x01\x00\x00\x00\x00")
	require.NoError(t, err)
	require.Equal(t, []uint64{127, 256, 65536, 1 << 32}, got)
	for _, bad := range []string{
		"", "\x01", "\x92\x01", "\x91\xff", "\x91\xd0\x80", "\x91\xd3\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x91\xcd\x01", "\x90\x01", "\xdd\xff\xff\xff\xff", "\xdc\x01", "\x91\xcb\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		_, err := parseUints(nil, bad)
		require.ErrorIs(t, err, errAnswer, "%x", bad)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add("\x93\x05\x01\x07")
	f.Fuzz(func(t *testing.T, s string) {
		c := &chunk{keys: make([]ratelimit.Key, 1)}
		if err := c.answer(s); err == nil {
			require.Len(t, c.room, 1)
		}
	})
}
