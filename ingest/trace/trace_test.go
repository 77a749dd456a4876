package trace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
)

const (
	hexID  = "0af7651916cd43dd8448eb211c80319c"
	spanID = "b7ad6b7169203331"
)

var example = ID{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c}

// TestParent has the rules of W3C Trace Context, 3.2: what is not exactly so is no trace id.
func TestParent(t *testing.T) {
	const valid = "00-" + hexID + "-" + spanID + "-01"
	for _, c := range []struct {
		name   string
		values []string
		ok     bool
	}{
		{"valid", []string{valid}, true},
		{"flags may have any bits", []string{"00-" + hexID + "-" + spanID + "-ff"}, true},
		{"later version", []string{"01-" + hexID + "-" + spanID + "-01"}, true},
		{"later version with more", []string{"cc-" + hexID + "-" + spanID + "-01-what-the-future-will-be"}, true},
		{"none", nil, false},
		{"empty", []string{""}, false},
		{"two headers", []string{valid, valid}, false},
		{"list", []string{valid + "," + valid}, false},
		{"version ff", []string{"ff-" + hexID + "-" + spanID + "-01"}, false},
		{"version 00 with more", []string{valid + "-extra"}, false},
		{"version 00 with a hyphen", []string{valid + "-"}, false},
		{"later version with more, without a hyphen", []string{"cc-" + hexID + "-" + spanID + "-01.what"}, false},
		{"upper case", []string{strings.ToUpper(valid)}, false},
		{"zero trace id", []string{"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01"}, false},
		{"zero parent id", []string{"00-" + hexID + "-" + strings.Repeat("0", 16) + "-01"}, false},
		{"short", []string{valid[:54]}, false},
		{"space before", []string{" " + valid}, false},
		{"no digit in the version", []string{"0x-" + hexID + "-" + spanID + "-01"}, false},
		{"no digit in the trace id", []string{"00-" + hexID[:31] + "g-" + spanID + "-01"}, false},
		{"no digit in the parent id", []string{"00-" + hexID + "-" + spanID[:15] + "g-01"}, false},
		{"no digit in the flags", []string{"00-" + hexID + "-" + spanID + "-0."}, false},
		{"other separators", []string{"00_" + hexID + "_" + spanID + "_01"}, false},
		{"non-ASCII", []string{"00-" + hexID[:30] + "é-" + spanID + "-01"}, false},
	} {
		id, ok := Parent(c.values)
		require.Equal(t, c.ok, ok, c.name)
		if c.ok {
			require.Equal(t, example, id, c.name)
		}
	}
}

func TestOfSpan(t *testing.T) {
	id, ok := OfSpan([]byte(hexID + "-" + spanID))
	require.True(t, ok)
	require.Equal(t, example, id)
	for _, not := range []string{"", "order-1", hexID, hexID + "-" + spanID + "0", hexID + "_" + spanID,
		hexID + "-" + spanID[:15] + "x", strings.Repeat("0", 32) + "-" + spanID, strings.ToUpper(hexID) + "-" + spanID} {
		_, ok := OfSpan([]byte(not))
		require.False(t, ok, not)
	}
}

func TestBatch(t *testing.T) {
	key := func(n uint64) func() xxh3.Uint128 { return func() xxh3.Uint128 { return xxh3.Uint128{Lo: n} } }
	var none *Batch
	_, ok := none.Of(key(1))
	require.False(t, ok)
	id, ok := OfRequest(example).Of(key(1))
	require.True(t, ok)
	require.Equal(t, example, id)
	var own Batch
	own.Add(key(1)(), ID{1})
	own.Add(key(2)(), ID{2})
	id, ok = own.Of(key(2))
	require.True(t, ok)
	require.Equal(t, ID{2}, id)
	_, ok = own.Of(key(3))
	require.False(t, ok)
}

// TestTableIsBounded: what is not read in time is lost, and takes no memory.
func TestTableIsBounded(t *testing.T) {
	var table Table
	for seq := uint64(1); seq <= 3*maxRecords; seq++ {
		table.Put(seq, OfRequest(example))
	}
	require.Nil(t, table.Take(1))
	require.NotNil(t, table.Take(3*maxRecords))
	require.Nil(t, table.Take(3*maxRecords), "it is taken once")
	for seq := uint64(1); seq <= 3*maxRecords; seq++ {
		table.Take(seq)
	}
	require.Zero(t, table.items)

	large := &Batch{own: make([]item, 10_000)}
	for seq := uint64(1); seq <= 100; seq++ {
		table.Put(seq, large)
		require.LessOrEqual(t, table.items, maxItems)
	}
	require.NotNil(t, table.Take(1))
	require.Nil(t, table.Take(100))
	var none *Table
	none.Put(1, large)
	require.Nil(t, none.Take(1))
}
