package retained

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// BenchmarkLoad reads the indexes of 50 GiB: 6,400 files of 8 MiB with 64 blocks each, whose records are a hole.
func BenchmarkLoad(b *testing.B) {
	const files, blocks, size = 6400, 64, 8 << 20
	dir := b.TempDir()
	for i := range uint64(files) {
		first := 1 + i*blocks*100
		f, err := os.Create(filepath.Join(dir, fileName(first)))
		require.NoError(b, err)
		w := &writer{w: f, describe: describe, pace: func() {}}
		require.NoError(b, w.begin(first, Digest{}))
		for n := range uint64(blocks) {
			rec := wal.Record{Seq: first + n*100, Time: at(first + n*100), Type: 1, Payload: payloadOf(first + n*100)}
			s, x := &w.sum, &w.sketch.block
			x.First, x.From, x.To, x.Records = rec.Seq, rec.Time, rec.Time, 100
			s.Records, s.To = s.Records+100, rec.Time
			require.NoError(b, describe(&rec, &w.sketch))
			block := w.sketch.closeBlock()
			block.size, block.raw = size/blocks, 1<<20
			w.blocks = append(w.blocks, block)
		}
		w.sum.From = at(first)
		w.size += size
		_, err = f.Seek(w.size, io.SeekStart)
		require.NoError(b, err)
		require.NoError(b, w.end(first+blocks*100))
		require.NoError(b, f.Close())
	}
	names, err := fsys.OS().List(dir)
	require.NoError(b, err)
	for b.Loop() {
		began := time.Now()
		found := readIndexes(fsys.OS(), dir, names)
		b.ReportMetric(time.Since(began).Seconds(), "s/50GiB")
		require.Len(b, found, files)
		require.NoError(b, found[0].err)
		st := stats(found)
		require.Zero(b, st.Damaged)
		require.Greater(b, st.Bytes, int64(files*size))
	}
}
