package binread

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReader(t *testing.T) {
	minus := int64(-5)
	b := binary.AppendUvarint(nil, 300)
	b = binary.AppendUvarint(b, uint64(minus))
	b = binary.AppendVarint(b, minus)
	b = append(b, 2, 'h', 'i') // text
	b = binary.LittleEndian.AppendUint32(b, 0x01020384)
	b = append(b, 0x85)
	b = append(b, 2, 1, 2) // two entries of a byte
	read := func(b []byte) (r Reader, fields []any) {
		r = New(b)
		fields = []any{r.Uint(), r.Int(), r.Varint(), r.Text(), r.Fixed32(), r.Byte()}
		for range r.Count(1) {
			fields = append(fields, r.Uint())
		}
		return r, fields
	}
	r, fields := read(b)
	require.True(t, r.Done())
	require.Equal(t, []any{uint64(300), minus, minus, "hi", uint32(0x01020384), byte(0x85), uint64(1), uint64(2)}, fields)

	for n := range b {
		r, _ := read(b[:n])
		require.True(t, r.Bad(), n)
		require.False(t, r.Done(), n)
		require.Zero(t, r.Uint(), "after an invalid field all are zero")
	}
	r, _ = read(append(b, 0))
	require.False(t, r.Bad())
	require.False(t, r.Done(), "a byte is left")

	r = New([]byte{3, 1, 1, 1})
	require.Zero(t, r.Count(2), "three entries of two bytes do not fit into three bytes")
	require.True(t, r.Bad())
}
