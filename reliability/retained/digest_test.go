package retained

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

// The digest at a record is the same while it is in the log, when it is retained, for another process, behind a
// restart, and when older records are gone.
func TestDigests(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fsystest.New())
	w.work(t)
	noted := map[uint64]Digest{}
	check := func() {
		for name, src := range w.sources() {
			reach, err := src.Reach()
			require.NoError(t, err)
			for at, want := range noted {
				got, err := src.Digest(ctx, at)
				if at < reach.First {
					require.ErrorIs(t, err, ErrNotRetained)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want, got, "%s %d", name, at)
			}
			c, err := src.Check(ctx, w.seq)
			require.NoError(t, err)
			require.Empty(t, c.Changed)
			_, err = src.Digest(ctx, w.seq+1)
			require.ErrorIs(t, err, ErrNotRetained)
		}
	}
	for round := range 6 {
		w.write(t, 300)
		for _, src := range w.sources() {
			for _, at := range []uint64{w.seq, w.seq - 7, w.seq - 100} {
				sum, err := src.Digest(ctx, at)
				require.NoError(t, err)
				if old, ok := noted[at]; ok {
					require.Equal(t, old, sum)
				}
				noted[at] = sum
			}
		}
		require.NotEqual(t, noted[w.seq], noted[w.seq-7])
		if round%2 == 1 {
			w.work(t)
			check()
		}
		if round == 3 {
			require.NoError(t, w.log.Close())
			w = newWorld(t, w.disk)
			w.store.work(nil)
			check()
		}
	}
	for range 3 {
		_, err := w.store.deleteOldest("age")
		require.NoError(t, err)
	}
	check()

	// A record is changed, with all checksums and digests of its file.
	files := w.store.snapshot()
	victim := files[1]
	forge := func(keep bool) {
		u, err := Form{}.newUnpacker()
		require.NoError(t, err)
		open, err := w.disk.Open(victim.path)
		require.NoError(t, err)
		blocks, err := readTable(open, &victim.Summary)
		require.NoError(t, err)
		pack, err := Form{}.newPacker()
		require.NoError(t, err)
		out := &writer{pack: pack, describe: describe, ruleType: rule, pace: func() {}}
		require.NoError(t, fsys.WriteAtomic(w.disk, victim.path, func(to io.Writer) error {
			out.w = to
			require.NoError(t, out.begin(victim.First, victim.Before))
			for i := range blocks {
				records, err := u.open(open, &blocks[i])
				require.NoError(t, err)
				for rec := (wal.Record{}); records.next(&rec); {
					if rec.Seq == victim.First+3 {
						rec.Payload = append([]byte{}, rec.Payload...)
						rec.Payload[len(rec.Payload)-1]++
					}
					require.NoError(t, out.add(&rec))
				}
			}
			if keep {
				require.NoError(t, out.closeBlock())
				for i := range blocks {
					out.blocks[i].digest = blocks[i].digest
				}
			}
			return out.end(victim.Next)
		}))
		require.NoError(t, open.Close())
	}
	last := w.seq
	for _, keep := range []bool{false, true} {
		data, err := w.disk.ReadFile(victim.path)
		require.NoError(t, err)
		forge(keep)
		src := OpenFolders(w.disk, testDir, testLog, Form{})
		c, err := src.Check(ctx, last)
		require.NoError(t, err)
		require.Len(t, c.Changed, 1)
		at := victim
		if !keep {
			at = files[2] // it does not follow
		}
		require.Equal(t, at.First, c.Changed[0].First)
		_, err = src.Digest(ctx, victim.First+4) // in the block
		if keep {
			require.ErrorIs(t, err, ErrNotRetained)
		} else {
			require.NoError(t, err)
		}
		f, err := w.disk.Create(victim.path)
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.NoError(t, w.disk.Remove(files[2].path))
	src := OpenFolders(w.disk, testDir, filepath.Join(testDir, "none"), Form{})
	_, err := src.Digest(ctx, files[2].First)
	require.ErrorIs(t, err, ErrNotRetained)
}
