package checkpoint

import (
	"encoding/binary"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// The same log gives the same deduplication table, wherever reading began.
func TestTableDeterminism(t *testing.T) {
	opt := dedup.Options{Bytes: 2 * 20 * dedup.KeyBytes, MaxAge: 1000}
	live, keys := dedup.New(opt), map[uint64][]xxh3.Uint128{} // by generation
	disk := fsystest.New()
	c := New(Options{FS: disk, DataDir: "/data", Logger: slog.New(slog.DiscardHandler), IDs: opt, Step: func(string) {}})
	require.NoError(t, disk.MkdirAll(c.dir))
	for i := range uint64(200) {
		live.Begin(int64(i * 20))
		live.Add(xxh3.Hash128(binary.LittleEndian.AppendUint64(nil, i)))
		live.Mark()
		if i%7 == 0 {
			now := live.Capture(i, int64(i*20))
			for _, g := range now.Generations {
				keys[g.Number] = append(keys[g.Number], slices.Concat(g.Keys...)...)
			}
			_, err := c.Write(&State{Seq: i}, now)
			require.NoError(t, err)
			loaded, found, err := c.readTable(c.newest)
			require.NoError(t, err)
			require.Equal(t, &findings{}, found)
			again := loaded.Capture(i, int64(i*20))
			require.Equal(t, now.Next, again.Next)
			loaded.Renew() // so that the next capture holds all keys
			all := loaded.Capture(i, int64(i*20))
			require.Len(t, again.Generations, len(now.Generations))
			for k, g := range again.Generations {
				require.Empty(t, g.Keys, "they are saved")
				require.Equal(t, now.Generations[k].Number, g.Number)
				require.Equal(t, now.Generations[k].Start, g.Start)
				require.Equal(t, now.Generations[k].Count, g.Count)
				require.ElementsMatch(t, keys[g.Number], slices.Concat(all.Generations[k].Keys...))
			}
		}
	}
	files, err := disk.List(c.dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 2+3+1, "old generations are deleted")
	require.NoError(t, c.Close())
}

// TestFloor: the log is kept for the older checkpoint too, from the lower position of each on.
func TestFloor(t *testing.T) {
	a, b := &manifest{seq: 10, idSeq: 12}, &manifest{seq: 9, idSeq: 7}
	require.EqualValues(t, 8, (&Store{newest: a, before: b}).Floor())
	require.EqualValues(t, 8, (&Store{newest: b, before: a}).Floor())
	require.Zero(t, (&Store{newest: a}).Floor())
}

// TestBetterChoice: missing records come before lost parts, and nothing is worse than a worthless
// checkpoint.
func TestBetterChoice(t *testing.T) {
	of := func(missing, lost uint64, worthless bool) *choice {
		return &choice{missing: missing, found: &findings{lost: lost, worthless: worthless}}
	}
	require.True(t, of(1, 5, false).better(of(2, 0, false)))
	require.False(t, of(2, 0, false).better(of(1, 5, false)))
	require.True(t, of(1, 0, false).better(of(1, 5, false)))
	require.False(t, of(1, 5, false).better(of(1, 5, false)))
	require.True(t, of(1, 5, false).better(nil))
	require.False(t, of(0, 0, true).better(nil))
	require.True(t, of(0, 0, false).whole())
	require.False(t, of(0, 1, false).whole())
	require.False(t, of(1, 0, false).whole())
}
